"""When waiting for a server is over, and how it ended. Pure: snapshots in, an end with its exit status out.

Nothing is decided by one look: a death is given time to tell its cause, a stall to be none, a node without a server to
show a launch that just began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from eagletui.logs.state import Diagnosis, Phase
from eagletui.monitor.happenings import PASSING, Happening, Teller, told_reason
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import Reason, Server, State

READY, UNJUDGED, STALLED, CRASHED, ABSENT, TIMED_OUT, OFFLINE = 0, 11, 12, 13, 14, 15, 20
"""Exit statuses of `wait`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds. `timeout_s` None: no end of our own.

    `absent_s`: a launch that was started a second ago may have no process of an engine yet.
    `crashed_s`: the longest that a death is given to tell its cause: 10 s after it everything is told, and it took a moment to be seen.
    `cause_s`: how long a cause has to stand, until the kernel was asked about it twice.
    `steady_s`: how long a degraded state has to stand. `stalled_s`: what moves again within it was no stall.
    `asked_s`: tokens have to flow for so long where /health has not answered yet.
    `log_s`: the ready line comes within it when /health was quicker.
    `silent_s`: a server that was ready and neither answers nor makes tokens is given so long.
    `blind_s`: nothing can be asked and no log read. `lost_s`: a link may come back.
    """

    timeout_s: float | None = None
    absent_s: float = 6.0
    crashed_s: float = 8.0
    cause_s: float = 4.0
    steady_s: float = 1.0
    stalled_s: float = 5.0
    asked_s: float = 3.0
    log_s: float = 1.0
    silent_s: float = 60.0
    blind_s: float = 15.0
    lost_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How the waiting ended. `reason.text` is a sentence; `ready_s`: seconds from launch to ready, None when it is not known."""

    exit: int
    state: State
    reason: Reason
    server: Server | None = None
    ready_s: float | None = None
    phases: tuple[Phase, ...] = ()
    diagnosis: Diagnosis | None = None


class Look(NamedTuple):
    """What one look gave. `select`: the id of another server, whose turn it is."""

    happenings: list[Happening]
    ended: Ended | None = None
    select: str | None = None


class Waiting:
    """Looks at one snapshot after another until it is over. `began`: monotonic, the time that `timeout_s` counts from.

    With several servers and no port the worst counts: all have to be ready, and the first failure is the end.
    """

    def __init__(self, limits: Limits, *, began: float, port: int | None = None, teller: Teller | None = None) -> None:
        self.teller = teller or Teller()
        self._limits = limits
        self._began = began
        self._port = port
        self._standing: tuple[object, float] = (None, began)
        self._diagnosed: tuple[str | None, float] = (None, began)
        self._rules: dict[State, Callable[[Snapshot, float], int | None]] = {
            State.READY: self._answers,
            State.DEGRADED: self._serves_badly,
            State.STALLED: self._stands_still,
            State.CRASHED: self._died,
            State.UNKNOWN: self._cannot_be_judged,
        }
        """What a state that stood for so many seconds gives; a start and a stop go on."""
        self._ready: set[tuple[int, int]] = set()
        self._was_not_ready: set[tuple[int, int]] = set()
        self._selected = False

    def look(self, snapshot: Snapshot) -> Look:
        """The next snapshot."""
        if self._undecided(snapshot):
            return Look([], self._timed_out(snapshot))
        self._remember(snapshot)
        code = self._code(snapshot)
        ended, select = None, None
        if code == READY:
            if snapshot.server is not None:
                self._ready.add(_launch(snapshot.server))
            select = self._next_server(snapshot)
            if select is None and not self._unjudged(snapshot):
                ended = self._end(READY, snapshot)
        elif code is not None:
            ended = self._end(code, snapshot)
        ended = ended or self._timed_out(snapshot)
        self._selected = self._selected or select is not None
        return Look(self.teller.tell(snapshot, final=ended is not None), ended, select)

    def interrupted(self, snapshot: Snapshot, status: int) -> Look:
        """It was told to end."""
        ended = self._end(status, snapshot)
        return Look([] if self._undecided(snapshot) else self.teller.tell(snapshot, final=True), ended)

    # Which server

    def _undecided(self, snapshot: Snapshot) -> bool:
        """Several servers, and which is the worst is not known yet: what is shown is only the first."""
        several = self._port is None and len(snapshot.inventory.servers) > 1
        return several and not snapshot.undecided and not self._selected

    def _others(self, snapshot: Snapshot) -> list[Server]:
        if self._port is not None:
            return []
        watched = snapshot.server.id if snapshot.server is not None else None
        return [one for one in snapshot.inventory.servers if one.id != watched and _launch(one) not in self._ready]

    def _next_server(self, snapshot: Snapshot) -> str | None:
        """This one is ready: whose turn it is, None when it is nobody's."""
        verdicts = dict(snapshot.verdicts)
        waiting = []
        for other in self._others(snapshot):
            verdict = verdicts.get(other.id)
            if verdict is not None and verdict.state is State.READY:
                self._ready.add(_launch(other))
            elif verdict is not None and verdict.state is not State.ABSENT:
                waiting.append((verdict.state.badness, other.id))
        return max(waiting)[1] if waiting else None

    def _unjudged(self, snapshot: Snapshot) -> bool:
        """Whether there is a server that nobody looked at yet."""
        judged = {id_ for id_, _ in snapshot.verdicts}
        return any(other.id not in judged for other in self._others(snapshot))

    # What stands, and since when

    def _stood(self, what: object, now: float) -> float:
        """For how long this has been so without a break."""
        if self._standing[0] != what:
            self._standing = (what, now)
        return now - self._standing[1]

    def _remember(self, snapshot: Snapshot) -> None:
        server, verdict = snapshot.server, snapshot.verdict
        if server is None or verdict.reason.code in PASSING:
            return
        if verdict.state is State.STARTING:
            self._was_not_ready.add(_launch(server))

    def _code(self, snapshot: Snapshot) -> int | None:
        """The exit status that this snapshot gives, None to go on."""
        verdict, server = snapshot.verdict, snapshot.server
        if verdict.state is State.OFFLINE:
            return self._no_link(snapshot)
        if not snapshot.discovered:
            return self._not_seen(snapshot)
        # Whoever restarts it has not launched yet, or its process is not there yet.
        absent = server is None or verdict.state is State.ABSENT
        coming = absent and (snapshot.under_way is not None or verdict.state is State.STARTING)
        stood = self._stood((None if server is None else _launch(server), verdict.state, coming), snapshot.at)
        if verdict.reason.code in PASSING:
            return None
        if absent:
            if verdict.state is State.CRASHED:
                return self._died(snapshot, stood)
            return ABSENT if stood >= self._limits.absent_s and not coming else None
        rule = self._rules.get(verdict.state)
        return None if rule is None else rule(snapshot, stood)

    def _not_seen(self, snapshot: Snapshot) -> int | None:
        unable = snapshot.verdict.reason.code == "unreadable"
        limit = self._limits.blind_s if unable else self._limits.lost_s
        return OFFLINE if self._stood("undiscovered", snapshot.at) >= limit else None

    def _no_link(self, snapshot: Snapshot) -> int | None:
        link = snapshot.link
        stood = self._stood("offline", snapshot.at)
        return OFFLINE if link.needs is not None or stood >= self._limits.lost_s else None

    def _answers(self, snapshot: Snapshot, stood: float) -> int | None:
        """A log that says so is no proof while /health is being asked, unless tokens flow; and the log is given a moment
        when /health was quicker.
        """
        server = snapshot.server
        asked = snapshot.health.asked > 0 or (server is not None and server.port is None)
        if not asked and (stood < self._limits.asked_s or not _flows(snapshot)):
            return None
        told = snapshot.startup.state == "ready" or snapshot.log.error is not None
        return READY if told or stood >= self._limits.log_s else None

    def _died(self, snapshot: Snapshot, stood: float) -> int | None:
        """Its cause is gathered first."""
        diagnosis = _diagnosis(snapshot)
        code = diagnosis.code if diagnosis is not None else None
        if code != self._diagnosed[0]:
            self._diagnosed = (code, snapshot.at)
        if snapshot.verdict.reason.code == "never-started" and stood >= self._limits.cause_s:
            return CRASHED  # there is no more to come
        steady = code is not None and min(stood, snapshot.at - self._diagnosed[1]) >= self._limits.cause_s
        return CRASHED if steady or stood >= self._limits.crashed_s else None

    def _stands_still(self, _snapshot: Snapshot, stood: float) -> int | None:
        return STALLED if stood >= self._limits.stalled_s else None

    def _serves_badly(self, snapshot: Snapshot, stood: float) -> int | None:
        """It can be used while it answers, or tokens flow."""
        if snapshot.health.status == 200 or _flows(snapshot):
            return READY if stood >= self._limits.steady_s else None
        return STALLED if stood >= self._limits.silent_s else None

    def _cannot_be_judged(self, snapshot: Snapshot, stood: float) -> int | None:
        return UNJUDGED if _is_blind(snapshot) and stood >= self._limits.blind_s else None

    # The end

    def _timed_out(self, snapshot: Snapshot) -> Ended | None:
        """The time is up. What is dead then is dead, whether its cause is known or not."""
        limit = self._limits.timeout_s
        if limit is None or snapshot.at - self._began < limit:
            return None
        return self._end(CRASHED if snapshot.verdict.state is State.CRASHED else TIMED_OUT, snapshot)

    def _end(self, code: int, snapshot: Snapshot) -> Ended:
        state, reason, server = snapshot.verdict.state, told_reason(snapshot), snapshot.server
        startup = snapshot.startup
        if code == OFFLINE:
            state = State.OFFLINE
            if snapshot.link.state == "up":
                text = f"{snapshot.node} did not tell its processes: {'; '.join(snapshot.notes) or reason.text}"
                reason = Reason(reason.code, text)
        elif code == ABSENT:
            reason = Reason(reason.code, f"{reason.text}, and no launch is under way{_left(snapshot)}")
        ready_s = None
        if code == READY:
            ready_s = startup.ready_s
            if ready_s is None and server is not None and _launch(server) in self._was_not_ready:
                ready_s = snapshot.uptime_s
        return Ended(
            code, state, reason, server, ready_s, startup.phases, None if code == READY else _diagnosis(snapshot)
        )  # fmt: skip


def _diagnosis(snapshot: Snapshot) -> Diagnosis | None:
    return snapshot.diagnosis or snapshot.startup.diagnosis


def _flows(snapshot: Snapshot) -> bool:
    return bool(snapshot.throughput.gen_tok_s) and not snapshot.throughput.stale


def _left(snapshot: Snapshot) -> str:
    """Engines' processes without their server: a start may have failed before we came."""
    orphans = snapshot.inventory.orphans
    return f"; pid {', '.join(str(one.process.pid) for one in orphans[:4])} of an engine is left" if orphans else ""


def _is_blind(snapshot: Snapshot) -> bool:
    """No witness can come: HTTP cannot be asked, and the log cannot be read."""
    port = snapshot.server.port if snapshot.server is not None else None
    return (port is None or snapshot.health.error == "forbidden") and snapshot.log.error is not None


def _launch(server: Server) -> tuple[int, int]:
    return (server.launcher.pid, server.launcher.started)
