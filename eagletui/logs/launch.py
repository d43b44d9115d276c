"""One launch of one server: which stage it is in and how long each took, from milestones in any order and from many
ranks.

Versions reorder, rename and drop milestones, so nothing here knows an order. A stage begins with the first rank that
begins it. While weights load,
a faster rank does not move the whole server on: the stage ends when every rank that began it has said so. Durations
are the engine's own where it tells them (the slowest rank's), else between stamps, else by arrival.
"""

from __future__ import annotations

import re
from dataclasses import replace

from eagletui.logs.advice import Before
from eagletui.logs.causes import GENERIC, Causes, Clue, Suspect
from eagletui.logs.diagnose import Facing, diagnose
from eagletui.logs.events import ErrorSeen, Event, PhaseBegan, PhaseEnded, ReadySeen, StoppingSeen
from eagletui.logs.figures import Figures
from eagletui.logs.records import elapsed
from eagletui.logs.stage import Moment, Stage
from eagletui.logs.state import Diagnosis, LogState, LogVerdict, Pace, PhaseName, Progress, Quote, Warned

LOADING: tuple[PhaseName, ...] = ("weights", "draft-weights")
CANCEL_READY = ("port-in-use", "warmup-failed")
"""Of these what answered was somebody else, or nobody: it was never ready."""
GAP_S = 30.0
"""A silence that is told: eight ranks and a bar leave shorter ones everywhere."""
REVIVED_S = 60.0
"""Tokens so long after a line that seemed to be the end: it was not."""
MAX_WARNINGS = 64
_TOLD = re.compile(r"(load_weight|kv_cache_allocation)=([0-9]+(?:\.[0-9]+)?)")
_TOLD_PHASES: dict[str, PhaseName] = {"load_weight": "weights", "kv_cache_allocation": "kv-cache"}


class Launch:
    """Tracks a launch. Every method takes one fact and gives the events that follow from it; `state` is the whole as
    a frozen value."""

    def __init__(
        self, engine: str, source: str, when: Moment, count: int, *, seen: bool, before: tuple[Before, ...] = ()
    ) -> None:
        """`seen`: its first line was seen, so times since then are the launch's. `before`: earlier launches of this log."""
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
        self.asked_at = 0
        self._stages: dict[PhaseName, Stage] = {}
        self._positions: dict[str, PhaseName] = {}
        self._loading: dict[str, PhaseName] = {}
        self._pending: tuple[PhaseName, Moment] | None = None
        self.before = before
        self.figures = Figures()
        self.causes = Causes()
        self.warnings: dict[str, Warned] = {}
        self.hidden: Clue | None = None
        """An error that was swallowed: it stands, and says nothing."""
        self.tokens: Moment | None = None
        """When a token was last seen."""
        self.doubted: Moment | None = None
        """When it last said itself that a request got no answer."""
        self.compiling: Moment | None = None
        """When it last said that it builds kernels, until it says that they are built."""
        self.moved: Moment = when
        """When something last moved."""
        self.moved_at = when.at
        self.pace: Pace | None = None
        self.entered = 0
        self._clues = 0
        self._heard: tuple[float | None, float | None] = (None, None)
        self._stood: tuple[int, float, Moment] | None = None
        self._diagnosis: Diagnosis | None = None
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

    def clue(self, clue: Clue) -> list[Event]:
        """A line that has to do with a failure."""
        primary = clue.strength >= GENERIC
        if self.stopped or (self.stopping and not primary):
            return []  # killing what is left belongs to a wanted stop
        self._clues += 1
        phase = self.current or "launch"
        if clue.fatal and clue.code in CANCEL_READY and self.served:
            phase = "warmup"
        self.causes.add(replace(clue, phase=clue.phase or phase, phases=self.entered, order=self._clues))
        if clue.fatal:
            if self.current is None:
                self.current = "launch"  # it died before it said anything: at its imports or arguments
            self.crashed = True
            if clue.code in CANCEL_READY and self.served:
                self.served, self.ready_s, self.current = False, None, "warmup"
        self._changed()
        return [ErrorSeen(clue.quote.text, clue.fatal, primary, clue.rank, self.source)]

    def suspect(self, one: Suspect) -> None:
        """Something that was passed over."""
        self.causes.suspect(one)

    def hide(self, clue: Clue) -> None:
        """It swallowed an error and will not go on."""
        if self.hidden is None and not self.served:
            self.hidden = replace(clue, phase=self.current)
            self._changed()

    def warn(self, code: str, quote: Quote, when: Moment) -> None:
        """Something the server goes on after."""
        if self.stopping:
            return  # requests that a wanted stop cuts off
        if code == "health-check-failed":
            self.doubted = when
        if code == "jit-compiling":
            self.compiling = when
        known = self.warnings.get(code)
        if known is not None:
            self.warnings[code] = replace(known, count=known.count + 1)
        elif len(self.warnings) < MAX_WARNINGS:
            self.warnings[code] = Warned(code, quote.line, quote.text)
        self._changed()

    def ended(self, clue: Clue) -> None:
        """It is known from elsewhere that it is dead."""
        if self.current is None:
            self.current = "launch"
        self.causes.ended(replace(clue, phase=self.current, phases=self.entered, order=self._clues + 1))
        self.crashed = True
        self._changed()

    def tokens_seen(self, when: Moment) -> None:
        """Tokens came. Long after what seemed to be its end, they say that it was not."""
        self.tokens = when
        self.move(when)
        death = self.causes.death
        if self.crashed and death is not None and self.current == "serving":
            if (death.when.until(when) or 0.0) < REVIVED_S:
                return
            self.crashed = False
            self.causes.survived()
            self.warn("request-error", death.quote, death.when)

    def was_ended(self) -> None:
        """Its exit status says that somebody ended it: lines that only tell of others' ends tell of that one."""
        choice = self.causes.choose(serving=self.served)
        if self.crashed and choice is not None and not choice.clue.code:
            self.crashed = False
            self.causes.survived()
        self.stop(done=True)

    def stop(self, *, done: bool) -> list[Event]:
        """A wanted stop began, or ended in order."""
        if self.crashed or self.stopped or (self.stopping and not done):
            return []
        self.stopping = True
        self.stopped = done
        self._changed()
        return [StoppingSeen(done, self.source)]

    def move_bar(self, progress: Progress, clock_s: float | None, when: Moment) -> None:
        """The bar of the current stage was drawn. `clock_s`: its own, in seconds since it began."""
        if progress == self.progress:
            return
        before = self.progress
        self.progress = self.last_progress = progress
        self._state = None
        if before is None or before.total != progress.total or before.label != progress.label:
            self._stood = None
        if before is not None and before.done == progress.done and self._stood is not None:
            return
        self.move(when)
        if self._stood is not None and progress.done > self._stood[0]:
            spent = clock_s - self._stood[1] if clock_s is not None else self._stood[2].until(when)
            if spent is not None and spent >= 0:
                known = self.pace
                longest = max(spent, known.longest_s if known is not None else 0.0)
                self.pace = Pace(spent, longest, known.moves + 1 if known is not None else 1)
        self._stood = (progress.done, clock_s or 0.0, when)
        stage = self._stages.get(self.current) if self.current is not None else None
        if clock_s is not None and stage is not None:
            stage.began_before(when.at - clock_s)

    def move(self, when: Moment) -> None:
        """Something moved: a milestone, a bar, a token."""
        self.moved = when
        self.moved_at = when.at
        if not self.served:
            self._state = None  # how long it has been quiet is told while it starts

    def compiles(self, when: Moment, *, done: bool) -> None:
        """It builds kernels, which is silent for as long as a compile phase may be, or has built them."""
        self.compiling = None if done else when

    def heard(self, stamp: float | None, bar_clock_s: float | None = None) -> None:
        """A line came, whatever it says. A silence between two lines is told where both have a time of one kind."""
        if self.served or self.crashed or self.current is None:
            return
        before, bar_before = self._heard
        self._heard = (stamp, bar_clock_s)
        silent = elapsed(before, stamp)
        if bar_clock_s is not None and bar_before is not None:
            silent = bar_clock_s - bar_before
        if silent is not None and silent >= GAP_S:
            stage = self._stages.get(self.current)
            if stage is not None and stage.running:
                stage.gap(silent, stamp)
                self._state = None

    def describe(self, phase: PhaseName, rank: str, words: str) -> None:
        """A few words about a stage. To be called before the `end` that tells them."""
        if phase == "weights":
            phase = self._loading.get(rank, phase)
        stage = self._stages.get(phase)
        if stage is not None and stage.detail != words:
            stage.detail = words
            self._state = None

    def remember(self, before: tuple[Before, ...]) -> None:
        """Launches before those of this log became known."""
        self.before = before + self.before
        self._state = None

    def note_args(self, args: dict[str, object]) -> None:
        """What it printed of its arguments."""
        self.args = args
        self._state = None

    def wait_for(self, prompt: str | None, line: int = 0) -> None:
        """The last line, with this number, asks something on stdin, or no longer does."""
        if prompt != self.waiting:
            self.waiting, self.asked_at = prompt, line
            if prompt is not None and self.current is None:
                self.current = "launch"
            self._changed()

    def settle(self, when: Moment) -> None:
        """The newest moment of the log: a stage that began in a part read all at once began earlier than it arrived."""
        behind = elapsed(self.moved.stamp, when.stamp)
        if behind is not None and when.at - behind < self.moved_at:
            self.moved_at = when.at - behind
            self._state = None
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
                stage.open(rank, when)
        if phase == self.current or (stage is not None and not again):
            return []  # a rank that comes late moves nothing back
        if self.current in LOADING and any(at == self.current for other, at in self._loading.items() if other != rank):
            self._pending = self._pending or (phase, when)
            if stage is None:
                self._early(phase, rank, when, opens=opens)
            return []
        events = self._enter(phase, when)
        entered = self._stages[phase]
        entered.ranks.add(rank)
        if opens:
            entered.open(rank, when)
        return events

    def _early(self, phase: PhaseName, rank: str, when: Moment, *, opens: bool) -> None:
        """Remember a stage that a fast rank began, behind the one that the slow ones are in."""
        early = Stage()
        early.ranks.add(rank)
        if opens:
            early.open(rank, when)
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
        self.progress = self.pace = self._stood = self.compiling = None
        self.entered += 1
        self.move(when)
        self._changed()
        self._stages.setdefault(phase, Stage()).start(when)
        return [*events, PhaseBegan(phase, self.source)]

    # ---- the whole ---------------------------------------------------------------------------------------------------

    @property
    def speechless(self) -> bool:
        """It began, and told neither its arguments nor anything else."""
        return self.began is not None and self.current == "launch" and not self.args and not self.crashed

    def _changed(self) -> None:
        self._state = self._diagnosis = None

    @property
    def verdict(self) -> LogVerdict:
        """The state in one word."""
        if self.crashed:
            return "crashed"
        if self.stopped:
            return "stopped"
        if self.waiting is not None or (self.hidden is not None and not self.served):
            return "stalled"
        return "ready" if self.served else "starting"

    @property
    def facing(self) -> Facing:
        """What a diagnosis is made of."""
        return Facing(
            self.engine,
            self.args,
            self.current,
            self.before,
            self.causes,
            self.waiting,
            self.hidden,
            self.served,
            self.asked_at,
        )

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why it crashed or stands, as far as it is known; None while it is well."""
        if self.verdict not in ("crashed", "stalled"):
            return None
        if self._diagnosis is None:
            self._diagnosis = diagnose(self.facing)
        return self._diagnosis

    @property
    def state(self) -> LogState:
        """The launch so far; the same object until something changes."""
        if self._state is None:
            self._state = LogState(
                state=self.verdict,
                phase=self.current,
                phases=tuple(
                    stage.phase(name, self.moved_at if name == self.current and not self.served else None)
                    for name, stage in self._stages.items()
                    if stage.started
                ),
                progress=self.progress,
                ready_s=self.ready_s,
                engine=self.engine or None,
                args=self.args,
                error_text=self.error_text,
                launch_count=self.count,
                diagnosis=self.diagnosis,
                warnings=tuple(self.warnings.values()),
                pace=self.pace,
                stopping=self.stopping and not self.stopped,
            )
        return self._state

    @property
    def error_text(self) -> str | None:
        """The line that names the cause of the death, else the line that tells of it; the prompt that waits."""
        if not self.crashed:
            return self.waiting
        chosen = self.causes.choose(serving=self.served)
        return chosen.clue.quote.text if chosen is not None else None
