"""The servers that are not on the screen: one look each now and then, so that the list can tell their states."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from eagletui.monitor.snapshot import Verdict
from eagletui.monitor.survey import assess
from eagletui.nodes.base import Node
from eagletui.servers.model import Server

OTHERS_EVERY_S = 30.0
"""Each look at another server costs it a /health, which is a token and a log line."""


class Others:
    """`servers`: those of the node. `shown`: the id of the one that is watched. `skew_s`: the node's clock minus ours. `on_worst` is called once, with
    the id of the worst server, when all were judged for the first time; `on_change` after each look."""

    def __init__(
        self,
        node: Node,
        *,
        servers: Callable[[], tuple[Server, ...]],
        shown: Callable[[], str | None],
        skew_s: Callable[[], float | None],
        on_worst: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.judged = False
        self._node = node
        self._servers = servers
        self._shown = shown
        self._skew_s = skew_s
        self._on_worst = on_worst
        self._on_change = on_change
        self._found = asyncio.Event()

    def found(self) -> None:
        """There are several: they are judged without waiting."""
        if not self.judged and len(self._servers()) > 1:
            self._found.set()

    def look_again(self) -> None:
        """The link is back."""
        if self.judged:
            self._found.set()

    async def run(self) -> None:
        """Judge until cancelled. Raises LinkLostError."""
        while True:
            await self._found.wait()
            self._found.clear()
            servers = self._servers()
            if len(servers) > 1:
                await self._judge(servers)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(OTHERS_EVERY_S):
                    await self._found.wait()
            self._found.set()

    async def _judge(self, servers: tuple[Server, ...]) -> None:
        skew = self._skew_s()
        shown = self._shown() if self.judged else None
        seen = await asyncio.gather(*(assess(self._node, server, skew) for server in servers if server.id != shown))
        self.verdicts = {one.server.id: Verdict(one.state, one.reason) for one in seen}
        if not self.judged:
            self.judged = True
            self._on_worst(max(seen, key=lambda one: one.state.badness).server.id)
        self._on_change()
