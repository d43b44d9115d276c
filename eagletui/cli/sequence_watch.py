"""The watch over a server that was just launched: a monitor, and the rules of `wait`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from eagletui.cli.wait import wait_for
from eagletui.cli.wait_output import Output
from eagletui.launching.steps import Progress
from eagletui.launching.watch import Watched
from eagletui.monitor.waiting import ABSENT, CRASHED, OFFLINE, STALLED, Ended, Limits

if TYPE_CHECKING:
    import httpx

    from eagletui.history.estimate import Estimate
    from eagletui.history.store import History
    from eagletui.monitor.happenings import Happening
    from eagletui.monitor.snapshot import Snapshot
    from eagletui.nodes.base import Completed, Node, Stream
    from eagletui.shell.script import Command


class MonitorWatch:
    """A `launching.watch.Watch`. `ended`: how the last watch ended, with all that was seen."""

    def __init__(self, node: Node, out: Output, history: History | None, timeout_s: float | None) -> None:
        self.ended: Ended | None = None
        self._node = node
        self._out = out
        self._history = history
        self._timeout_s = timeout_s

    async def until_ready(self, progress: Progress) -> Watched:
        """See Watch."""
        kept = _KeepsItsEnd(self._out)
        await wait_for(
            _Lent(self._node), kept, Limits(timeout_s=self._timeout_s), port=progress.port, log_path=progress.log,
            history=self._history, hears_signals=False,
        )  # fmt: skip
        self.ended = kept.ended
        if kept.ended is None:
            raise AssertionError("a watch that ended tells how")
        return watched_of(kept.ended)


def watched_of(ended: Ended) -> Watched:
    """How a watch ended, from how a waiting did."""
    text = ended.reason.text
    phases = tuple((phase.name, phase.seconds) for phase in ended.phases if phase.name != "serving")
    match ended.exit:
        case 0:
            return Watched("done", text, ended.ready_s, phases=phases)
        case code if code in {CRASHED, ABSENT}:
            return Watched("crashed", text, diagnosis=ended.diagnosis, phases=phases)
        case code if code == STALLED:
            return Watched("stalled", text, diagnosis=ended.diagnosis, phases=phases)
        case code if code == OFFLINE:
            return Watched("no-link", text)
    return Watched("timed-out", text, phases=phases)


class _KeepsItsEnd:
    """An Output that tells everything but the end of an events' stream, which is the whole command's."""

    def __init__(self, out: Output) -> None:
        self.descriptor = out.descriptor
        self.settled_s = out.settled_s
        self.ended: Ended | None = None
        self._out = out

    def connecting(self, name: str) -> None:
        """See Output."""
        self._out.connecting(name)

    def show(self, happenings: Sequence[Happening], snapshot: Snapshot) -> None:
        """See Output."""
        self._out.show(happenings, snapshot)

    def end(self, ended: Ended, waited_s: float, estimate: Estimate | None) -> None:  # noqa: ARG002 - see Output
        """See Output."""
        self.ended = ended


class _Lent:
    """A node that a monitor uses for a while: its end does not close the link."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.name = node.name

    @property
    def latency_ms(self) -> float | None:
        """See Node."""
        return self._node.latency_ms

    @property
    def asked_person(self) -> bool:
        """See Node."""
        return self._node.asked_person

    async def connect(self, *, may_ask: bool = True) -> None:
        """See Node."""
        await self._node.connect(may_ask=may_ask)

    async def ping(self) -> float:
        """See Node."""
        return await self._node.ping()

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - see Node
        """See Node."""
        return await self._node.run(command, timeout=timeout, limit=limit)

    def stream(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """See Node."""
        return self._node.stream(command)

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """See Node."""
        return self._node.http_transport()

    def stream_transport(self) -> httpx.AsyncBaseTransport:
        """See Node."""
        return self._node.stream_transport()

    async def aclose(self) -> None:
        """It is not ours to close."""
