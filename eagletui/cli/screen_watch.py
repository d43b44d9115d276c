"""The operator of the screen: it acts through the monitor's own link, tells the monitor what it does, and sees by its snapshots when a server is ready."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagletui.cli.configured import guards_for, own_presets
from eagletui.cli.operator_of import operator_for
from eagletui.cli.sequence_watch import watched_of
from eagletui.launching.steps import Progress
from eagletui.launching.watch import Watched
from eagletui.monitor.waiting import Limits, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagletui.bench.runner import Bench, Target
    from eagletui.config.choose import Guards
    from eagletui.history.store import History
    from eagletui.launching.operating import NodeOperator
    from eagletui.monitor.monitor import NodeMonitor
    from eagletui.ui.app import EagleApp
    from eagletui.ui.history_ledger import HistoryLedger

LOOK_EVERY_S = 0.25


class SnapshotWatch:
    """A `launching.watch.Watch` by the snapshots of a monitor that runs anyway."""

    def __init__(self, monitor: NodeMonitor) -> None:
        self._monitor = monitor

    async def until_ready(self, progress: Progress) -> Watched:
        """See Watch."""
        waiting = Waiting(Limits(), began=time.monotonic(), port=progress.port)
        while True:
            ended = waiting.look(self._monitor.snapshot()).ended
            if ended is not None:
                return watched_of(ended)
            await asyncio.sleep(LOOK_EVERY_S)


def screen_operator(monitor: NodeMonitor, name: str, history: History | None) -> NodeOperator:
    """The operator of the node that a monitor watches. Raises ConfigError."""
    return operator_for(
        monitor.node,
        name,
        history,
        SnapshotWatch(monitor),
        on_intent=monitor.intend,
        requests=lambda: monitor.snapshot().throughput.running,
    )


@dataclass(frozen=True, slots=True)
class Measuring:
    """What the screen benchmarks with and looks at it through. `guard`: why somebody is asked before the node gets a load."""

    bench: Bench
    ledger: HistoryLedger
    guard: str | None

    def give(self, app: EagleApp) -> None:
        """On the screen's thread, whether it runs already or not."""
        app.ledger, app.bench = self.ledger, self.bench
        app.guarded = lambda: self.guard


class ShownServer:
    """A `bench.session.Source`: the server that the screen shows when the benchmark begins, as the node has it then (a monitor looks at the processes
    again when one comes or goes, and a port may have opened since)."""

    def __init__(self, monitor: NodeMonitor, name: str) -> None:
        self._monitor, self._name = monitor, name

    async def target(self, tell: Callable[[str], None]) -> Target:
        """See Source."""
        from eagletui.bench.sources import NodeSource

        snapshot = self._monitor.snapshot()
        port = snapshot.server.port if snapshot.server is not None else None
        source = NodeSource(self._monitor.node, self._name, port, record_of=lambda _server: snapshot.record)
        return await source.target(tell)


def screen_measuring(monitor: NodeMonitor, name: str, history: History) -> Measuring:
    """For the node that a monitor watches: over its link, of the server that is shown. Raises ConfigError."""
    from eagletui.bench.kept import KeptRuns
    from eagletui.bench.session import BenchSession
    from eagletui.ui.history_ledger import HistoryLedger

    return Measuring(
        BenchSession(ShownServer(monitor, name), KeptRuns(history), presets=own_presets(), quiet=monitor.measure),
        HistoryLedger(history, monitor.node.name),
        guard_sentence(guards_for(name)),
    )


def guard_sentence(guards: Guards) -> str | None:
    """Why somebody is asked before the node gets a load; None where nobody is."""
    if guards.confirm_name:
        return (
            f"{guards.node} is a production node (confirm_name in {guards.file}): it answers this load beside its own."
        )
    if guards.read_only:
        return f"{guards.node} is only looked at (read_only in {guards.file}): a benchmark changes nothing there, but it is a load."
    return None


def hand_over(app: EagleApp, operator: NodeOperator, measuring: Measuring) -> None:
    """Give what was made in a thread to a screen that runs; one that is gone needs nothing."""
    with suppress(RuntimeError):
        app.call_from_thread(app.use_operator, operator)
        app.call_from_thread(measuring.give, app)
        app.call_from_thread(app.use_measuring)
