"""The operator of the screen: it acts through the monitor's own link, tells the monitor what it does, and sees by its snapshots when a server is ready."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from eagletui.cli.operator_of import operator_for
from eagletui.cli.sequence_watch import watched_of
from eagletui.launching.steps import Progress
from eagletui.launching.watch import Watched
from eagletui.monitor.waiting import Limits, Waiting

if TYPE_CHECKING:
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


def hand_over(app: EagleApp, operator: NodeOperator, ledger: HistoryLedger) -> None:
    """Give what was made in a thread to a screen; one that is gone needs nothing."""
    with suppress(RuntimeError):
        app.call_from_thread(app.use_operator, operator)
        app.call_from_thread(app.use_ledger, ledger)


def screen_ledger(monitor: NodeMonitor, history: History) -> HistoryLedger:
    """What was launched and measured on the node that a monitor watches."""
    from eagletui.ui.history_ledger import HistoryLedger

    return HistoryLedger(history, monitor.node.name)
