"""What happens in a startup, told once each: the difference between one snapshot and the next. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eagletui.logs.state import Phase, PhaseName
from eagletui.monitor.link import without_hint
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import Reason, Server, State

if TYPE_CHECKING:
    from eagletui.history.estimate import Estimate

PROGRESS_EVERY_S = 1.0
"""A bar that moves is told once a second: hundreds of shards of a small model come within seconds."""
LAST_EVERY_S = 0.25
"""Its end is told sooner; but compiling has a bar for each kernel."""
LOG_LINES = 20
"""Lines of the log that are told at most: they point at the log, they do not replace it."""
PASSING = frozenset({"looking", "connecting"})
"""Reasons of a state that is none yet: it is being asked."""


class StateTold(NamedTuple):
    """Another state, another reason, or another server. `server` None: there is none."""

    state: State
    reason: Reason
    server: Server | None


class PhaseTold(NamedTuple):
    """A phase began (`seconds` None, `done` False) or is over. `usual_s`: the median of `starts` earlier launches."""

    name: PhaseName
    done: bool
    seconds: float | None
    usual_s: float | None
    starts: int | None
    detail: str


class ProgressTold(NamedTuple):
    """A bar moved. `rate` per second; `elapsed_s` since the phase began; `ready_in_s` by `starts` earlier launches."""

    phase: PhaseName | None
    done: int
    total: int
    unit: str
    rate: float | None
    eta_s: float | None
    elapsed_s: float | None
    ready_in_s: float | None
    starts: int | None


class LogTold(NamedTuple):
    """A line of the log that tells of trouble. `code` is a warning's, None for an error's text."""

    level: str
    text: str
    code: str | None


Happening = StateTold | PhaseTold | ProgressTold | LogTold


def elapsed_in(phase: Phase | None, now: float) -> float | None:
    """Seconds since a running phase began."""
    return None if phase is None or phase.began_at is None else max(0.0, now - phase.began_at)


def running_phase(snapshot: Snapshot) -> Phase | None:
    """The phase that the launch is in."""
    return next((p for p in reversed(snapshot.startup.phases) if p.status == "running"), None)


def told_reason(snapshot: Snapshot) -> Reason:
    """Why it is in its state, for who has no screen with keys."""
    reason = snapshot.verdict.reason
    return Reason(reason.code, without_hint(reason.text)) if snapshot.verdict.state is State.OFFLINE else reason


class Teller:
    """Tells each happening once. `estimate`: the last that was known, which a ready server has no more. `settled_s`: a phase is over when it
    was not entered again for so long; captures alternate with compiling, and lines that stay should not. What was over when we came waits as
    long, until it is known what is usual.
    """

    def __init__(self, settled_s: float = 0.0) -> None:
        self._settled_s = settled_s
        self.estimate: Estimate | None = None
        self._state: tuple[object, ...] | None = None
        self._launch: tuple[object, ...] | None = None
        self._phases: dict[PhaseName, str] = {}
        self._left: dict[PhaseName, float] = {}
        self._bar: tuple[object, ...] | None = None
        self._bar_at = float("-inf")
        self._lines: set[str] = set()

    def tell(self, snapshot: Snapshot, *, final: bool) -> list[Happening]:
        """What is new. `final`: nothing follows, so that phases which just ended are told."""
        if snapshot.verdict.reason.code in PASSING and not final:
            return []
        server = snapshot.server
        launch = (server.id, server.launcher.started, snapshot.startup.launch_count) if server is not None else None
        begins = launch != self._launch
        if begins:
            self._launch, self.estimate, self._bar, self._bar_at = launch, None, None, float("-inf")
            self._phases, self._left, self._lines = {}, {}, set()
        self.estimate = snapshot.estimate or self.estimate
        state, reason = snapshot.verdict.state, told_reason(snapshot)
        told: list[Happening] = []
        if self._state != (launch and launch[:2], state, reason.code):
            self._state = (launch and launch[:2], state, reason.code)
            told.append(StateTold(state, reason, server))
        if begins and state is State.READY:
            # It was ready when we came: how it became so is in the result, and no happening.
            self._phases = {p.name: "done" for p in snapshot.startup.phases}
            return told
        return [
            *told,
            *self._told_phases(snapshot, final=final),
            *self._told_bar(snapshot),
            *self._told_lines(snapshot),
        ]

    def _told_phases(self, snapshot: Snapshot, *, final: bool) -> list[Happening]:
        told: list[Happening] = []
        for phase in snapshot.startup.phases:
            known = self._phases.get(phase.name)
            if phase.status == "running":
                self._left.pop(phase.name, None)
                if known != "running":
                    self._phases[phase.name] = "running"
                    told.append(self._phase(phase, done=False))
            elif known != "done":
                left_at = self._left.setdefault(phase.name, snapshot.at)
                if final or snapshot.at - left_at >= self._settled_s:
                    self._phases[phase.name] = "done"
                    told.append(self._phase(phase, done=True))
        return told

    def _phase(self, phase: Phase, *, done: bool) -> PhaseTold:
        usual = self.estimate.usual.get(phase.name) if self.estimate is not None else None
        starts = self.estimate.starts if self.estimate is not None else None
        return PhaseTold(phase.name, done, phase.seconds if done else None, usual, starts, phase.detail)

    def _told_bar(self, snapshot: Snapshot) -> list[Happening]:
        bar = snapshot.startup.progress
        if bar is None:
            return []
        key = (snapshot.startup.phase, bar.done, bar.total, bar.unit)
        pause = LAST_EVERY_S if bar.done >= bar.total else PROGRESS_EVERY_S
        if key == self._bar or snapshot.at - self._bar_at < pause:
            return []
        self._bar, self._bar_at = key, snapshot.at
        estimate = snapshot.estimate
        return [
            ProgressTold(
                snapshot.startup.phase,
                bar.done,
                bar.total,
                bar.unit,
                bar.rate,
                bar.eta_s,
                elapsed_in(running_phase(snapshot), snapshot.at),
                estimate.ready_in_s if estimate is not None and estimate.late is None else None,
                estimate.starts if estimate is not None else None,
            )
        ]

    def _told_lines(self, snapshot: Snapshot) -> list[Happening]:
        startup = snapshot.startup
        found = [LogTold("warning", one.text, one.code) for one in startup.warnings]
        if startup.error_text:
            found.append(LogTold("error", startup.error_text, None))
        told: list[Happening] = []
        for line in found:
            key = line.code or line.text
            if key not in self._lines and len(self._lines) < LOG_LINES:
                self._lines.add(key)
                told.append(line)
        return told
