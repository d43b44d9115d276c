"""Telling the screen: a change after quiet at once, many changes at most every 100 ms, nothing when nothing changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.1
"""As often as the screen is told while changes keep coming."""
AT_ONCE = 3
"""So many are told at once after quiet: the GPUs' second and a ping must not make a log line that comes just then wait."""
GAP_S = 0.01
"""But never sooner than that after the one before: what changes together is painted together."""


class Publisher:
    """Coalesces marks. `counted` is called for each mark, `listener` when the screen should look."""

    def __init__(self, counted: Callable[[], None]) -> None:
        self.listener: Callable[[], None] | None = None
        self._counted = counted
        self._due: asyncio.TimerHandle | None = None
        self._told_at = float("-inf")
        self._even_at = float("-inf")
        """When the next one is due at an even pace. It runs ahead of the clock by what was told at once."""

    def mark(self) -> None:
        """Something changed."""
        self._counted()
        if self._due is not None:
            return
        loop = asyncio.get_running_loop()
        at = max(self._told_at + GAP_S, self._even_at - (AT_ONCE - 1) * EVERY_S)
        if at <= loop.time():
            self._tell()
        else:
            self._due = loop.call_at(at, self._tell)

    def _tell(self) -> None:
        self._due = None
        self._told_at = asyncio.get_running_loop().time()
        self._even_at = max(self._even_at, self._told_at) + EVERY_S
        if self.listener is not None:
            self.listener()
