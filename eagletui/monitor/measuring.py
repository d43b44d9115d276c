"""Whether a benchmark of ours is being measured: what would be asked meanwhile takes part in what is measured."""

from __future__ import annotations

import asyncio


class Measuring:
    """Called with True when measuring begins, with False when it is over. Meanwhile the server is not asked (/health, /metrics, /health_generate), and the
    GPUs' processes are seldom. What its log and its processes tell goes on."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()

    def __call__(self, on: bool) -> None:
        """It begins, or is over."""
        if on:
            self._over.clear()
        else:
            self._over.set()

    @property
    def on(self) -> bool:
        """Now."""
        return not self._over.is_set()

    async def over(self) -> None:
        """Wait until nothing is measured."""
        await self._over.wait()
