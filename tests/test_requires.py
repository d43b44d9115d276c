"""A skipped test must not hide that a machine lacks what it was set up to have."""

from __future__ import annotations

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.requires import VARIABLE, require


def test_a_missing_program_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(Skipped):
        require("no-such-program")


def test_a_missing_program_fails_where_it_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sshd, no-such-program")
    with pytest.raises(Failed):
        require("no-such-program")


def test_a_program_that_is_there_gives_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sh")
    assert require("sh").endswith("/sh")
