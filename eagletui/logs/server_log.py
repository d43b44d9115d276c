"""What is known of one server in a log: its launches, its engine, the figures of its ranks."""

from __future__ import annotations

from collections import deque

from eagletui.engines.bars import Bar
from eagletui.engines.spec import Engine
from eagletui.logs.causes import Clue
from eagletui.logs.launch import Launch
from eagletui.logs.totals import Totals

KEPT_LAUNCHES = 1_000
"""Launches of one server that are remembered from one file, the oldest forgotten first."""
EARLY_CLUES = 64
"""Clues kept from before a server's first launch was recognised."""


class ServerLog:
    """One server of a file."""

    def __init__(self, source: str, engine: Engine | None) -> None:
        self.source = source
        self.engine = engine
        self.launch: Launch | None = None
        self.launches = 0
        self.past: deque[Launch] = deque(maxlen=KEPT_LAUNCHES)
        self.early: deque[Clue] = deque(maxlen=EARLY_CLUES)
        self.totals = Totals()
        self.bars: dict[str, Bar] = {}
