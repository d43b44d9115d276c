"""Keeps the launches that are watched, and says from earlier ones when the present one will be ready.

One launch at a time, the selected server's. It asks the poller now and then (no process on the node), and its file
beside the event loop. Whatever is wrong with the file is told once in a note, and then nothing is kept: it never ends
or holds up a watch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from eagletui.errors import HistoryError
from eagletui.history.estimate import Estimate, Now, estimate, usual_of
from eagletui.history.launches import (
    EarlierLaunch,
    Ended,
    Identity,
    LaunchKind,
    LaunchRecord,
    Outcome,
    PhaseTime,
    kept_command,
    kept_numbers,
    kind_of,
    machine_name,
)
from eagletui.history.pace import Pace
from eagletui.history.reads import WeightsRead, is_cold, told_size
from eagletui.history.store import WATCHED, History
from eagletui.logs.state import LogState, Phase, PhaseName
from eagletui.monitor.aside import aside
from eagletui.monitor.poller import Poller
from eagletui.monitor.server_watch import ServerWatch
from eagletui.servers.intent import OURS
from eagletui.servers.model import State

T = TypeVar("T")
READ_EVERY_S = 5.0
"""How often it is asked what the family read, while weights load."""
IN_TIME_S = 6.0
"""Weights whose begin was missed by more than this were partly read before: nothing can be said of their bytes."""
READY_SETTLES_S = 3.0
"""A ready line that nothing else agrees with is believed after this: a server whose port is taken says it, and dies."""
SETTLES_S = 10.0
"""A crash that only the log tells of is believed after this; the launcher lives, and may begin anew in the same log."""
SLACK_S = 5.0
"""A launch cannot have taken longer than its launcher lives, but for rounding: then the log's is an earlier one."""
FILE_S = 8.0
"""A file that does not answer for so long lies in a folder that is gone."""
AGAIN_S = 10.0
TRIES = 3
"""Times that a launch is written anew while another program holds the file."""
_NOT_READY = (State.STARTING, State.STOPPING, State.CRASHED)
LAST_S = 2.0
"""At our own end: as long is waited for what is being written."""


@dataclass(slots=True)
class _Seen:
    """The launch that is watched."""

    watch: ServerWatch
    identity: Identity
    kind: LaunchKind
    started: datetime
    seen_at: float
    earlier: tuple[EarlierLaunch, ...] = ()
    looked_up: bool = False
    pace: Pace = field(default_factory=Pace)
    spent: dict[PhaseName, float] = field(default_factory=dict)
    lead_s: float | None = None
    launch_count: int = 0
    said_ready_at: float | None = None
    was_ready: bool = False
    crashed_at: float | None = None
    reads: WeightsRead | None = None
    read_at: float = 0.0
    reading: bool = True
    """Its weights are to come, or are loading and were watched from their begin."""
    read: int | None = None
    size: int | None = None
    cold: bool | None = None
    written: LaunchRecord | None = None


class Recorder:
    """`history` None: nothing is kept, nothing is estimated. `note(key, sentence)` tells the user, `on_change` that there is an estimate."""

    def __init__(
        self,
        history: History | None,
        node: str,
        *,
        note: Callable[[str, str | None], None],
        on_change: Callable[[], None],
    ) -> None:
        self._history = history
        self._node = node
        self._note = note
        self._on_change = on_change
        self._machine: str | None = None
        self._boot: str | None = None
        self._seen: _Seen | None = None
        self._work: asyncio.Task[None] | None = None
        self._waiting: list[LaunchRecord] = []
        self._tries = 0
        self._not_before = 0.0

    # ---- what is asked -----------------------------------------------------------------------------------------------

    def estimate(self, watch: ServerWatch | None, state: State, now: float) -> Estimate | None:
        """When a launch that is under way will be ready; None where nothing earlier tells, or nothing is under way."""
        seen = self._seen
        if watch is None or seen is None or seen.watch is not watch or not seen.earlier:
            return None
        log = watch.log.state
        under_way = state in (State.STARTING, State.STALLED, State.UNKNOWN)
        if not under_way or log.stopping or seen.was_ready or log.state not in ("starting", "stalled", "unknown"):
            return None
        seen.pace.see(log.phase, log.progress, now)
        age = None if watch.started is None else now - watch.started
        return estimate(seen.earlier, Now(log, now, seen.pace, self._kind_so_far(seen, log), age, seen.spent))

    def _kind_so_far(self, seen: _Seen, log: LogState) -> bool | None:
        if seen.reads is None or seen.cold is not None:
            return seen.cold
        bar = log.progress if log.phase == "weights" else None
        size = max((one.size for one in seen.earlier if one.size is not None), default=None)
        return seen.reads.so_far(bar.done / bar.total if bar is not None and bar.total else None, size)

    # ---- what is done ------------------------------------------------------------------------------------------------

    async def tick(self, poller: Poller, watch: ServerWatch | None, pids: Iterable[int]) -> None:
        """Look at the watched launch; twice a second. Raises LinkLostError."""
        if self._history is None:
            return
        now = time.monotonic()
        if watch is None or (self._seen is not None and self._seen.watch is not watch):
            self._settle(now)
            self._seen = None
        if watch is None:
            return
        if self._machine is None:
            machine = await poller.machine()
            self._machine, self._boot = machine_name(machine, self._node), machine.boot
        if self._seen is None:
            self._begin(watch, self._machine, now)
        if self._seen is not None:
            self._follow(self._seen, now)
            await self._ask_reads(self._seen, poller, pids, now)
            if self._seen.earlier and not watch.usual_s and (usual := self.estimate(watch, State.STARTING, now)):
                watch.usual_s = usual.usual  # a silence of usual length is no stall
        self._settle(now)
        self._go_on(now)

    async def aclose(self) -> None:
        """What is known is written; waits for it a moment. Who ends as soon as a server is ready ends between two ticks."""
        now = time.monotonic()
        end = now + LAST_S
        if self._seen is not None:
            self._follow(self._seen, now)
        self._settle(now)
        self._seen = None
        self._go_on(now)
        while self._work is not None and not self._work.done():
            await asyncio.wait((self._work,), timeout=max(0.0, end - time.monotonic()))
            if not self._work.done():
                self._work.cancel()
                return
            self._go_on(time.monotonic())

    def _begin(self, watch: ServerWatch, machine: str, now: float) -> None:
        launcher = watch.server.launcher
        identity = Identity(machine, self._boot, launcher.pid, launcher.started)
        age = 0.0 if watch.started is None else max(0.0, now - watch.started)
        started = datetime.now(UTC) - timedelta(seconds=age)
        server = watch.server
        kind = kind_of(server.engine, server.command, server.model, server.tp)
        self._seen = _Seen(watch, identity, kind, started, now)

    def _follow(self, seen: _Seen, now: float) -> None:
        """Remember of the log what it tells only while it happens."""
        log = seen.watch.log.state
        if log.launch_count != seen.launch_count:  # what it told before was of another launch
            seen.launch_count, seen.lead_s, seen.said_ready_at = log.launch_count, None, None
            seen.spent.clear()
        seen.pace.see(log.phase, log.progress, now)
        for phase in log.phases:
            if phase.status == "done" and phase.seconds is not None:
                seen.spent[phase.name] = phase.seconds
            elif phase.name == "launch" and phase.began_at is not None and seen.watch.started is not None:
                seen.lead_s = max(0.0, phase.began_at - seen.watch.started)
        if log.state == "ready" and not seen.was_ready and self._is_its_own(seen, log, now):
            seen.said_ready_at = seen.said_ready_at or now
            verdict = seen.watch.verdict(now)
            settled = now - seen.said_ready_at >= READY_SETTLES_S and verdict.state not in _NOT_READY
            agreed = verdict.state in (State.READY, State.DEGRADED) or settled
            seen.was_ready = agreed and verdict.reason.code != "wrong-server"
        if log.state == "crashed" and seen.crashed_at is None:
            seen.crashed_at = now
        elif log.state != "crashed":
            seen.crashed_at = None

    @staticmethod
    def _is_its_own(seen: _Seen, log: LogState, now: float) -> bool:
        """Whether the log speaks of this launch: one that others were written to before may still tell of theirs."""
        started, grew_at = seen.watch.started, seen.watch.log.view().grew_at
        if started is None:
            return True
        if grew_at is not None and grew_at + SLACK_S < started:
            return False  # nothing was written since
        return log.ready_s is None or now - started + SLACK_S >= log.ready_s

    async def _ask_reads(self, seen: _Seen, poller: Poller, pids: Iterable[int], now: float) -> None:
        if not seen.reading:
            return
        weights = _phase(seen.watch.log.state, "weights")
        if weights is None:
            return
        loading = weights.status == "running"
        if seen.reads is None:
            if not loading or weights.began_at is None or now - weights.began_at > IN_TIME_S:
                seen.reading = False  # it loaded before we came
                return
            seen.reads = WeightsRead()
        elif loading and now - seen.read_at < READ_EVERY_S:
            return
        seen.read_at = now
        seen.reads.see(await poller.io(pids))
        read = seen.reads.from_disk
        if read is None:
            seen.reading, seen.reads = False, None  # its counters are not ours to read
        elif not loading and not seen.reads.is_whole:
            seen.reading, seen.reads = False, None
        elif not loading:
            seen.reading = False
            told = told_size(weights.detail, seen.kind.tp or 1)
            seen.read, seen.size = read, seen.reads.size(told)
            seen.cold = is_cold(read, seen.size)

    def _settle(self, now: float) -> None:
        """Have the watched launch written when its start ended, and again when more is known."""
        seen = self._seen
        if seen is None or self._history is None:
            return
        record = self._record(seen, now)
        if record is not None and record != seen.written:
            seen.written = record
            self._waiting = [one for one in self._waiting if one.identity != record.identity] + [record]

    def _record(self, seen: _Seen, now: float) -> LaunchRecord | None:
        """The launch as it is to be kept; None while it goes on, and where its log was not read from its begin."""
        log = seen.watch.log.state
        if _phase(log, "launch") is None or not self._is_its_own(seen, log, now):
            return None
        told = _outcome(seen, log, now)
        if told is None:
            return None
        outcome, ended = told
        if outcome == "ready" and log.ready_s is None:
            return None
        if outcome == "ready" and seen.written is not None and ended is None:
            return replace(seen.written, read=seen.read, size=seen.size, cold=seen.cold)
        failed = "crashed" in (outcome, ended)
        cause = seen.watch.diagnosis(seen.watch.verdict(now), now) if failed else None
        made = seen.watch.record
        phases = tuple(PhaseTime(p.name, p.seconds, p.ranks) for p in log.phases if p.name != "serving")
        return LaunchRecord(
            identity=seen.identity,
            node=self._node,
            kind=seen.kind,
            command=kept_command(seen.watch.server.command),
            started=seen.started,
            outcome=outcome,
            phases=phases,
            ready_s=log.ready_s if outcome == "ready" else None,
            lead_s=seen.lead_s,
            diagnosis=None if cause is None else cause.code,
            ended=ended,
            read=seen.read,
            size=seen.size,
            cold=seen.cold,
            args=kept_numbers(log.args),
            origin=WATCHED if made is None else OURS,
            profile=None if made is None else made.profile,
            variant=None if made is None else made.variant,
            record=None if made is None else made.id,
            who=None if made is None else made.who,
        )

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _go_on(self, now: float) -> None:
        if self._history is None or (self._work is not None and not self._work.done()):
            return
        if self._waiting and now >= self._not_before:
            self._work = asyncio.create_task(self._write(self._waiting.pop(0)))
        elif self._seen is not None and not self._seen.looked_up and self._seen.seen_at < now:  # the screen fills first
            self._seen.looked_up = True
            self._work = asyncio.create_task(self._look_up(self._seen))

    async def _look_up(self, seen: _Seen) -> None:
        history = self._history
        if history is None:
            return
        record = seen.watch.record
        profile = record.profile if record is not None else None
        found = await self._use(
            lambda: (history.earlier(seen.kind, seen.identity, profile), history.before(seen.kind, seen.identity))
        )
        if found is None:
            return
        seen.earlier, before = found
        seen.watch.usual_s = usual_of(seen.earlier)
        if before:
            seen.watch.log.remember(before)
        self._on_change()

    async def _write(self, record: LaunchRecord) -> None:
        history = self._history
        if history is None:
            return

        def write() -> bool:
            history.record(record)
            return True

        if await self._use(write):
            self._tries = 0
        elif self._history is not None and self._tries < TRIES:
            self._tries += 1
            self._not_before = time.monotonic() + AGAIN_S
            self._waiting.insert(0, record)

    async def _use(self, work: Callable[[], T]) -> T | None:
        """What the file says; None when it fails. Then it is told, and unless that passes by itself nothing is kept any more."""
        try:
            found = await aside(work, FILE_S)
        except HistoryError as error:
            self._note("history", str(error))
            if not error.passing:
                self._history = None
            return None
        except TimeoutError:
            path = self._history.path if self._history is not None else "the file"
            self._note("history", f"The history cannot be used: {path} did not answer for {FILE_S:.0f} s")
            self._history = None
            return None
        self._note("history", None)
        return found


def _phase(log: LogState, name: PhaseName) -> Phase | None:
    return next((phase for phase in log.phases if phase.name == name), None)


def _outcome(seen: _Seen, log: LogState, now: float) -> tuple[Outcome, Ended | None] | None:
    """How the start ended, and what became of a server that was ready; None while it goes on."""
    gone = seen.watch.launcher_alive is False
    # Whoever ended it, we or its log know; how it then died says nothing.
    ended = gone and (log.stopping or seen.watch.verdict(now).state in (State.STOPPING, State.ABSENT))
    if seen.was_ready:
        if log.state == "stopped" or ended:
            return "ready", "stopped"
        return "ready", "crashed" if gone else None
    if log.state == "stopped" or ended:
        return "stopped", None
    if log.state == "crashed" and (gone or (seen.crashed_at is not None and now - seen.crashed_at >= SETTLES_S)):
        return "crashed", None
    if gone:
        return ("crashed" if seen.watch.verdict(now).state is State.CRASHED else "unknown"), None
    return None
