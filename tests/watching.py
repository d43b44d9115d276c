"""Running a NodeMonitor in a test, and waiting for what its snapshots say."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.snapshot import Snapshot


@asynccontextmanager
async def running(monitor: NodeMonitor) -> AsyncIterator[NodeMonitor]:
    """It watches until the end of the block; then its link is closed. A watch that ended by an error is that error."""
    task = asyncio.create_task(monitor.run())
    try:
        yield monitor
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await monitor.aclose()


async def until(monitor: NodeMonitor, what: Callable[[Snapshot], object], seconds: float = 30.0) -> Snapshot:
    """The first snapshot that is so. No note may speak of an error of our own meanwhile, and the event loop may not stand still."""
    end = time.monotonic() + seconds
    while not what(snapshot := monitor.snapshot()):
        assert not [note for note in snapshot.notes if "eagletui itself" in note]
        if time.monotonic() > end:
            pytest.fail(
                f"not within {seconds} s; last: {snapshot.link.state} {snapshot.link.error} {snapshot.verdict} {snapshot.health} "
                f"{snapshot.log.error} {snapshot.startup.state} {snapshot.family_alive} of {snapshot.family_total} {snapshot.throughput} {snapshot.notes}"
            )
        began = time.monotonic()
        await asyncio.sleep(0.02)
        assert time.monotonic() - began < 5
    return snapshot


def texts(snapshot: Snapshot) -> list[str]:
    """The lines of the log, as shown."""
    store = snapshot.log.store
    return [line.text for n in range(store.first, store.end) if (line := store.line(n)) is not None]
