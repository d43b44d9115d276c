"""The simulated node as a node: a real SSH connection to a real SSH server, over a socket pair in this process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING

from eagletui.demo.processes import USER
from eagletui.demo.scenarios import scenario_of
from eagletui.demo.world import World
from eagletui.errors import ConnectError
from eagletui.nodes.base import Completed, Node, Stream
from eagletui.shell.script import Command

if TYPE_CHECKING:
    import httpx

    from eagletui.demo.server import DemoServer
    from eagletui.nodes.ssh import SshNode

NAME = "demo"


def node_clock() -> Callable[[], float]:
    """The node's clock: the user's, without its steps (a step would make the simulation jump)."""
    wall, mark = time.time(), time.monotonic()
    return lambda: wall + time.monotonic() - mark


class DemoNode:
    """A `base.Node`. The world begins with the first `connect` and goes on when the link is opened anew."""

    def __init__(self, *, speed: float = 1.0, scenario: str | None = None) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.name = NAME
        self.speed = speed
        self._scenario = scenario_of(scenario) if scenario is not None else None
        self.world: World | None = None
        self._now = node_clock()
        self._lock = asyncio.Lock()
        self._server: DemoServer | None = None
        self._node: SshNode | None = None

    @property
    def latency_ms(self) -> float | None:
        """See base.Node."""
        return self._node.latency_ms if self._node is not None else None

    asked_person = False

    async def connect(self, *, may_ask: bool = True) -> None:  # noqa: ARG002 - its login asks nothing
        """See base.Node. Raises ConnectError."""
        async with self._lock:
            if self._node is None or self._node.is_lost:
                await self._open()

    async def _open(self) -> None:
        from eagletui.demo.server import DemoServer
        from eagletui.nodes.ssh import SshNode

        await self.aclose()
        if self.world is None:
            now = self._now()
            offset = datetime.fromtimestamp(now).astimezone().utcoffset()
            self.world = World(
                opened=now,
                speed=self.speed,
                utc_offset=offset.total_seconds() if offset is not None else 0.0,
                scenario=self._scenario,
            )
        self._server = DemoServer(self.world, self._now)
        ours, theirs = socket.socketpair()
        self._node = SshNode.over_socket(self.name, ours, host_key=self._server.host_key, user=USER)
        serving = asyncio.ensure_future(self._server.serve(theirs))
        try:
            await self._node.connect()
            await serving
        except BaseException:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await self.aclose()
            ours.close()
            theirs.close()
            raise

    def _link(self) -> SshNode:
        if self._node is None:
            raise ConnectError(f"{self.name} is not connected")
        return self._node

    async def ping(self) -> float:
        """See base.Node."""
        return await self._link().ping()

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - see base.Node
        """See base.Node."""
        return await self._link().run(command, timeout=timeout, limit=limit)

    def stream(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """See base.Node."""
        return self._link().stream(command)

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        return self._link().http_transport()

    def stream_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        return self._link().stream_transport()

    async def aclose(self) -> None:
        """See base.Node. The world stays: `connect` opens the link anew."""
        node, self._node = self._node, None
        server, self._server = self._server, None
        with contextlib.suppress(OSError):
            if node is not None:
                await node.aclose()
        if server is not None:
            await server.aclose()


def open_demo(*, speed: float = 1.0, scenario: str | None = None) -> Node:
    """The simulated node; nothing runs until `connect`. `speed` divides its times; `scenario` names what happens to its server.

    Raises ValueError for a speed ≤ 0, KeyError for a scenario that is none.
    """
    return DemoNode(speed=speed, scenario=scenario)
