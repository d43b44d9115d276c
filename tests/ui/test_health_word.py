"""The word beside /health."""

from __future__ import annotations

import pytest

from eagletui.monitor.snapshot import Health
from eagletui.servers.model import State
from eagletui.ui.panes.health import _health_word


@pytest.mark.parametrize(
    ("health", "word"),
    [
        (Health(status=200, at=1.0, detail="asked by curl on the node"), ("200", "ok")),
        (Health(status=503, at=1.0), ("503", "error")),
        (Health(error="timeout", at=1.0), ("timeout", "error")),
        (Health(error="forbidden", at=1.0, detail="why"), ("–", "dim")),
        (Health(), ("–", "dim")),
    ],
)
def test_what_stands_there(health: Health, word: tuple[str, str]) -> None:
    assert _health_word(health, State.READY) == word
