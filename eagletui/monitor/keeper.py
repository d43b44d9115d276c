"""Whose life on the node our streams share: the shell of the poller. It ends with its stdin or its lease, and they end with it."""

from __future__ import annotations

import asyncio

WAIT_S = 3.0
"""For a poller that is being opened anew. A stream that is begun without one ends with its own stdin."""


class Keeper:
    """The pid of the poller's shell on the node, 0 while there is none."""

    def __init__(self) -> None:
        self._pid = 0
        self._there = asyncio.Event()

    @property
    def pid(self) -> int:
        """Who it is now."""
        return self._pid

    def began(self, pid: int | None) -> None:
        """A poller answers."""
        self._pid = pid or 0
        if self._pid:
            self._there.set()

    def ended(self) -> None:
        """It is gone."""
        self._pid = 0
        self._there.clear()

    async def wait(self) -> int:
        """Its pid, or 0 when there is none within WAIT_S."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._there.wait()
        except TimeoutError:
            return 0
        return self._pid
