"""Telling the screen: the first change after quiet at once, further ones at most every 100 ms, nothing when nothing changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.1


class Publisher:
    """Coalesces marks. `counted` is called for each mark that leads to a new revision, `listener` when the screen should look."""

    def __init__(self, counted: Callable[[], None]) -> None:
        self.listener: Callable[[], None] | None = None
        self._counted = counted
        self._resting: asyncio.TimerHandle | None = None
        self._again = False

    def mark(self) -> None:
        """Something changed."""
        self._counted()
        if self._resting is not None:
            self._again = True
            return
        self._tell()

    def _tell(self) -> None:
        self._again = False
        self._resting = asyncio.get_running_loop().call_later(EVERY_S, self._rested)
        if self.listener is not None:
            self.listener()

    def _rested(self) -> None:
        self._resting = None
        if self._again:
            self._tell()
