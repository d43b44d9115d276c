"""How many requests a server answers now, asked beside the sequence that stops it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from eagletui.errors import NodeError

if TYPE_CHECKING:
    from eagletui.nodes.base import Node
    from eagletui.servers.model import Server

ASK_EVERY_S = 1.0
ANSWER_S = 2.0


class RequestCount:
    """`now` is the last count, None while none is known."""

    def __init__(self, node: Node) -> None:
        self.now: int | None = None
        self._node = node

    async def ask(self, server: Server) -> None:
        """Ask once. A server that does not tell is one whose count is not known; a lost link is the sequence's to tell."""
        from eagletui.engines.metrics import read_metrics
        from eagletui.engines.spec import load_engine
        from eagletui.monitor.probes import Prober

        if server.port is None:
            return
        engine = load_engine(server.engine)
        try:
            async with Prober(self._node, server.host, server.port, as_before=True) as prober:
                answer = await prober.get(engine.metrics_path, ANSWER_S)
        except NodeError:
            self.now = None
            return
        sample = read_metrics(answer.body.decode("utf-8", "replace"), engine).sample if answer.status == 200 else None
        self.now = None if sample is None or sample.running is None else int(sample.running)

    async def keep_asking(self, server: Server) -> None:
        """Until cancelled."""
        while True:
            await self.ask(server)
            await asyncio.sleep(ASK_EVERY_S)
