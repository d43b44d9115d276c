"""A monitor that is made after the first paint: the libraries of the link take longer to load than the screen takes to appear."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from eagletui.errors import EagletuiError
from eagletui.logs.state import LogState
from eagletui.logs.store import LineStore
from eagletui.monitor.snapshot import GpuView, Health, Link, LogView, Snapshot, Throughput, Verdict
from eagletui.servers.model import Inventory, Reason, State

if TYPE_CHECKING:
    from eagletui.monitor.monitor import NodeMonitor


class LazyMonitor:
    """Stands for a NodeMonitor that `make` imports and builds, in a thread, once run() is called. Until then the link is connecting.

    `on_failure` is told when `make` raises an EagletuiError.
    """

    def __init__(
        self, node_name: str, make: Callable[[], NodeMonitor], on_failure: Callable[[EagletuiError], None]
    ) -> None:
        self._make = make
        self._on_failure = on_failure
        self._monitor: NodeMonitor | None = None
        self._listener: Callable[[], None] | None = None
        now = time.monotonic()
        self._empty = Snapshot(
            node=node_name,
            revision=0,
            at=now,
            wall=time.time(),
            link=Link("connecting"),
            inventory=Inventory(),
            server=None,
            verdict=Verdict(State.OFFLINE, Reason("connecting", f"connecting to {node_name}"), now),
            log=LogView(LineStore(1)),
            startup=LogState(),
            health=Health(),
            throughput=Throughput(),
            gpus=GpuView(),
            series={},
        )

    @property
    def revision(self) -> int:
        """Grows with every change."""
        return self._monitor.revision if self._monitor is not None else 0

    @property
    def on_change(self) -> Callable[[], None] | None:
        """Called when something changed."""
        return self._listener

    @on_change.setter
    def on_change(self, listener: Callable[[], None] | None) -> None:
        self._listener = listener
        if self._monitor is not None:
            self._monitor.on_change = listener

    def snapshot(self) -> Snapshot:
        """The state now."""
        return self._monitor.snapshot() if self._monitor is not None else self._empty

    def select_server(self, id: str) -> None:  # noqa: A002 - the word of the snapshot
        """Show another server of the node."""
        if self._monitor is not None:
            self._monitor.select_server(id)

    def probe_now(self) -> None:
        """Ask /health at once."""
        if self._monitor is not None:
            self._monitor.probe_now()

    def connect_now(self) -> None:
        """Try to connect at once."""
        if self._monitor is not None:
            self._monitor.connect_now()

    async def run(self) -> None:
        """Make the monitor, and watch until cancelled."""
        try:
            self._monitor = await asyncio.to_thread(self._make)
        except EagletuiError as error:
            self._on_failure(error)
            return
        self._monitor.on_change = self._listener
        await self._monitor.run()

    async def aclose(self) -> None:
        """Close the link."""
        if self._monitor is not None:
            await self._monitor.aclose()
