"""One launch of one server: which stage it is in and how long each took, from milestones in any order and from many
ranks.

Versions reorder, rename and drop milestones, so nothing here knows an order. A stage begins with the first rank that
begins it. While weights load,
a faster rank does not move the whole server on: the stage ends when every rank that began it has said so. Durations
are the engine's own where it tells them (the slowest rank's), else between stamps, else by arrival.
"""

from __future__ import annotations

import re

from eagletui.logs.events import ErrorSeen, Event, PhaseBegan, PhaseEnded, ReadySeen, StoppingSeen
from eagletui.logs.stage import Moment, Stage
from eagletui.logs.state import LogState, LogVerdict, PhaseName, Progress

LOADING: tuple[PhaseName, ...] = ("weights", "draft-weights")
SUSPECT_S = 60.0
"""An exception that the server survived is no longer the reason of a death this long after it."""
_TOLD = re.compile(r"(load_weight|kv_cache_allocation)=([0-9]+(?:\.[0-9]+)?)")
_TOLD_PHASES: dict[str, PhaseName] = {"load_weight": "weights", "kv_cache_allocation": "kv-cache"}


class Launch:
    """Tracks a launch. Every method takes one fact and gives the events that follow from it; `state` is the whole as
    a frozen value."""

    def __init__(self, engine: str, source: str, when: Moment, count: int, *, seen: bool) -> None:
        """`seen`: its first line was seen, so times since then are the launch's."""
        self.engine = engine
        self.source = source
        self.began = when if seen else None
        self.count = count
        self.args: dict[str, object] = {}
        self.current: PhaseName | None = None
        self.progress: Progress | None = None
        self.last_progress: Progress | None = None
        self.served = self.crashed = self.stopping = self.stopped = False
        self.ready_s: float | None = None
        self.waiting: str | None = None
        self._stages: dict[PhaseName, Stage] = {}
        self._positions: dict[str, PhaseName] = {}
        self._loading: dict[str, PhaseName] = {}
        self._pending: tuple[PhaseName, Moment] | None = None
        self._primary: str | None = None
        self._echo: str | None = None
        self._suspect: tuple[str, Moment] | None = None
        self._state: LogState | None = None
        if seen:
            self._enter("launch", when)

    # ---- facts -------------------------------------------------------------------------------------------------------

    def begin(self, phase: PhaseName, rank: str, when: Moment) -> list[Event]:
        """A rank says that a stage begins."""
        if self.served or self.crashed:
            return []
        before = self._stages.get(phase)
        if phase == "weights" and before is not None and rank in before.ranks:
            phase = "draft-weights"  # the same words come again for the draft model
            before = self._stages.get(phase)
        elif phase == "distributed" and before is not None and rank in before.ranks:
            return []  # a draft's workers join groups that exist
        been_here = before is not None and rank in before.ranks and self._positions.get(rank) != phase
        return self._move(phase, rank, when, again=been_here or phase == "warmup", opens=True)

    def within(self, phase: PhaseName, rank: str, when: Moment) -> list[Event]:
        """A line that is only seen in a stage."""
        if self.served or self.crashed:
            return []
        before = self._stages.get(phase)
        if before is not None and phase != "compile":
            before.implied = False
            if phase != self.current:
                return []
        again = before is not None and rank in before.ranks and self._positions.get(rank) != phase
        return self._move(phase, rank, when, again=again, opens=False)

    def end(
        self, phase: PhaseName, rank: str, when: Moment, seconds: float | None, then: PhaseName | None
    ) -> list[Event]:
        """A rank says that a stage ended, with the engine's own duration where it tells one."""
        if self.served or self.crashed:
            return []
        if phase == "weights":
            phase = self._loading.get(rank, phase)
        events: list[Event] = []
        if phase not in self._stages:
            events += self._move(phase, rank, when, again=False, opens=False)
        stage = self._stages[phase]
        stage.end(rank, when, seconds)
        if self._loading.get(rank) == phase:
            del self._loading[rank]
        self._state = None
        if phase == self.current and phase not in self._loading.values():
            events += self._after(then, when)
        return events

    def told(self, text: str) -> None:
        """The engine's own list of durations; where a stage's own lines told one, that stays (it is the slowest
        rank's)."""
        for name, value in _TOLD.findall(text):
            stage = self._stages.get(_TOLD_PHASES[name])
            if stage is not None and not stage.sums:
                stage.told = float(value)
                self._state = None

    def ready(self, when: Moment) -> list[Event]:
        """It says that it serves. A failed bind or warm-up before it makes that somebody else's server."""
        if self.served or self.crashed:
            return []
        events = self._enter("serving", when)
        self.served = True
        self.ready_s = self.began.until(when) if self.began is not None else None
        return [*events, ReadySeen(self.ready_s, self.source)]

    def fail(
        self, text: str, rank: str, when: Moment, *, fatal: bool, primary: bool, replaces: bool = False
    ) -> list[Event]:
        """A line that says that something failed. `replaces`: it follows from the last one, and says more."""
        if self.stopped or (self.stopping and not primary):
            return []  # killing what is left belongs to a wanted stop
        if primary and fatal:
            if self._primary is None or replaces:
                self._primary = text
        elif primary:
            if self._suspect is None or replaces or (self._suspect[1].until(when) or 0.0) > SUSPECT_S:
                self._suspect = (text, when)
        elif self._echo is None:
            self._echo = text
        if fatal and self.current is None:
            self.current = "launch"  # it died before it said anything: at its imports or arguments
        self.crashed = self.crashed or fatal
        self._state = None
        return [ErrorSeen(text, fatal, primary, rank, self.source)]

    def stop(self, *, done: bool) -> list[Event]:
        """A wanted stop began, or ended in order."""
        if self.crashed or self.stopped or (self.stopping and not done):
            return []
        self.stopping = True
        self.stopped = done
        self._state = None
        return [StoppingSeen(done, self.source)]

    def move_bar(self, progress: Progress) -> None:
        """The bar of the current stage moved."""
        if progress != self.progress:
            self.progress = self.last_progress = progress
            self._state = None

    def describe(self, phase: PhaseName, rank: str, words: str) -> None:
        """A few words about a stage. To be called before the `end` that tells them."""
        if phase == "weights":
            phase = self._loading.get(rank, phase)
        stage = self._stages.get(phase)
        if stage is not None and stage.detail != words:
            stage.detail = words
            self._state = None

    def note_args(self, args: dict[str, object]) -> None:
        """What it printed of its arguments."""
        self.args = args
        self._state = None

    def wait_for(self, prompt: str | None) -> None:
        """The unfinished last line asks something on stdin, or no longer does."""
        if prompt != self.waiting:
            self.waiting = prompt
            self._state = None

    def settle(self, when: Moment) -> None:
        """The newest moment of the log: a stage that began in a part read all at once began earlier than it arrived."""
        stage = self._stages.get(self.current) if self.current is not None else None
        if stage is not None and stage.settle(when):
            self._state = None

    # ---- stages ------------------------------------------------------------------------------------------------------

    def _move(self, phase: PhaseName, rank: str, when: Moment, *, again: bool, opens: bool) -> list[Event]:
        self._positions[rank] = phase
        if phase in LOADING:
            if opens:
                self._loading[rank] = phase
        else:
            self._loading.pop(rank, None)
            if phase == "warmup" and not rank:
                self._loading.clear()  # the main process speaks: whatever a rank did not say, it is past loading
        stage = self._stages.get(phase)
        if stage is not None:
            stage.ranks.add(rank)
            stage.implied = False
            if opens:
                stage.open(rank)
        if phase == self.current or (stage is not None and not again):
            return []  # a rank that comes late moves nothing back
        if self.current in LOADING and any(at == self.current for other, at in self._loading.items() if other != rank):
            self._pending = self._pending or (phase, when)
            if stage is None:
                self._early(phase, rank, opens=opens)
            return []
        events = self._enter(phase, when)
        entered = self._stages[phase]
        entered.ranks.add(rank)
        if opens:
            entered.open(rank)
        return events

    def _early(self, phase: PhaseName, rank: str, *, opens: bool) -> None:
        """Remember a stage that a fast rank began, behind the one that the slow ones are in."""
        early = Stage()
        early.ranks.add(rank)
        if opens:
            early.open(rank)
        self._stages[phase] = early

    def _after(self, then: PhaseName | None, when: Moment) -> list[Event]:
        """Every rank ended the current stage."""
        if self._pending is not None:
            (phase, _), self._pending = self._pending, None
            return self._enter(phase, when)
        if then is None or then in self._stages:
            return []
        events = self._enter(then, when)
        self._stages[then].implied = True
        return events

    def _enter(self, phase: PhaseName, when: Moment) -> list[Event]:
        events: list[Event] = []
        self._pending = None
        if self.current is not None and self.current in self._stages:
            stage = self._stages[self.current]
            if stage.implied:
                del self._stages[self.current]  # nothing ever spoke of it
            else:
                stage.close(when)
                events.append(PhaseEnded(self.current, stage.seconds, self.source))
        self.current = phase
        self.progress = None
        self._state = None
        self._stages.setdefault(phase, Stage()).start(when)
        return [*events, PhaseBegan(phase, self.source)]

    # ---- the whole ---------------------------------------------------------------------------------------------------

    @property
    def speechless(self) -> bool:
        """It began, and told neither its arguments nor anything else."""
        return self.began is not None and self.current == "launch" and not self.args and not self.crashed

    @property
    def verdict(self) -> LogVerdict:
        """The state in one word."""
        if self.crashed:
            return "crashed"
        if self.stopped:
            return "stopped"
        if self.waiting is not None:
            return "stalled"
        return "ready" if self.served else "starting"

    @property
    def state(self) -> LogState:
        """The launch so far; the same object until something changes."""
        if self._state is None:
            self._state = LogState(
                state=self.verdict,
                phase=self.current,
                phases=tuple(stage.phase(name) for name, stage in self._stages.items() if stage.started),
                progress=self.progress,
                ready_s=self.ready_s,
                engine=self.engine or None,
                args=self.args,
                error_text=self.error_text,
                launch_count=self.count,
                stopping=self.stopping and not self.stopped,
            )
        return self._state

    @property
    def error_text(self) -> str | None:
        """The earliest line that names a cause of the death, else the line that tells of it; the prompt that waits."""
        if not self.crashed:
            return self.waiting
        return self._primary or (self._suspect[0] if self._suspect else None) or self._echo
