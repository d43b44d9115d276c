"""Tables on terminals of any width, and times as people write them."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from eagletui.cli import columns
from eagletui.errors import UsageError

ROWS = [
    ("run", "model", "tok/s", "verdict"),
    ("abc123", "a-model-with-a-long-name", "82.3", "slower"),
    ("b", "x", "1000.0", "same"),
]


@pytest.mark.parametrize("width", [49, 48, 30, 10])
def test_a_table_is_cut_and_thinned_until_it_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "room", lambda: width)
    lines = columns.table(ROWS, right={2}, gives=(1,), drops=(1, 3)).splitlines()
    assert max(map(len, lines)) <= max(width, len("abc123    82.3"))
    assert "82.3" in lines[1]
    assert "1000.0" in lines[2]
    wanted = {
        49: "abc123  a-model-with-a-long-name    82.3  slower",
        48: "abc123  a-model-with-a-long-na…    82.3  slower",
    }
    thin = {30: "abc123    82.3  slower", 10: "abc123    82.3"}
    assert lines[1] == {**wanted, **thin}[width]


def test_a_pipe_gets_all_of_it() -> None:
    assert "a-model-with-a-long-name" in columns.table(ROWS, gives=(1,), drops=(1,))
    assert columns.wrapped("word " * 100) == "word " * 100


def test_times() -> None:
    now = time.time()
    for text, seconds in (("90min", 5400), ("2h", 7200), ("3d ago", 259_200), ("1.5w", 907_200), ("30 s", 30)):
        assert columns.since(text) == pytest.approx(now - seconds, abs=5)
    assert columns.since("2026-11-30") == datetime(2026, 11, 30).timestamp()  # noqa: DTZ001 - of the terminal's zone
    assert columns.since("2026-11-30T14:00+00:00") == 1_796_047_200.0
    for text in ("", "soon", "2h30", "-3d", "99999999999999d", "9999-99-99"):
        with pytest.raises(UsageError, match="is no time"):
            columns.since(text)
