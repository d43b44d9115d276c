"""How a sweep's cells are measured: as `bench` does it, on the server that was just launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eagletui.bench.kept import KeptRuns
from eagletui.bench.session import BenchSession
from eagletui.bench.sources import NodeSource

if TYPE_CHECKING:
    from eagletui.bench.load import Load
    from eagletui.bench.outcome import BenchProgress, Result
    from eagletui.bench.sweep.cells import Cell
    from eagletui.bench.sweep.drive import Measure
    from eagletui.history.store import History
    from eagletui.launching.steps import Progress
    from eagletui.nodes.base import Node


def measure_on(node: Node, name: str, history: History | None, load: Load) -> Measure:
    """Benchmarks what was launched on a node, and keeps the runs."""
    from eagletui.monitor.launches import Launches

    kept = None if history is None else KeptRuns(history)

    async def measure(cell: Cell, progress: Progress, news: Callable[[BenchProgress], None]) -> Result:
        del cell
        launches = Launches(node)
        await launches.read()
        session = BenchSession(NodeSource(node, name, progress.port, record_of=launches.record_of), kept)
        run = session.begin(load)
        session.on_change = lambda: news(run.progress)
        try:
            return await run.wait()
        finally:
            await session.aclose()

    return measure
