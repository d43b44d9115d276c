"""The sequence: which step comes next, what is said of it, and what is true on the node when it ends. What a step does stands in launching.work.

A sequence goes on where an earlier one was cut (`reached`). It ends before the next step when it was aborted; a command that changes something is
never cut in its middle. Whatever ends it, the record on the node tells the step that was reached, and the lock is given back while there is a link.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from eagletui.errors import (
    CommandTimeout,
    EagletuiError,
    LaunchingError,
    NeverStartedError,
    NodeError,
    OvertakenError,
    RefusedError,
    RestartedByKeeperError,
    StopFailedError,
    StopRefusedError,
)
from eagletui.launching.plan import Check, Plan
from eagletui.launching.steps import (
    KILL_AFTER_TERM_S,
    STARTED_WITHIN_S,
    STOP_AFTER_KILL_S,
    TIMEOUT_S,
    Ending,
    Offer,
    Progress,
    StepName,
)
from eagletui.launching.transitions import (
    AbortAsked,
    Began,
    Done,
    Drains,
    Ended,
    Event,
    Launched,
    Recorded,
    Skipped,
    Told,
    after,
    begun,
)
from eagletui.launching.truth import UNTOUCHED_IN, Truth, counted, lines_of, told_of
from eagletui.launching.watch import Watch, Watched
from eagletui.launching.work import Death, Finding, Found, Work
from eagletui.servers.family import Identity
from eagletui.servers.record import Record

T = TypeVar("T")
SLACK_S = 3.0
"""Beyond a step's own timeout, which what does the step keeps itself: the round trips of its last look."""
PARTING_S = 8.0
"""For the last words to the record and the lock, when it ended."""
WATCH_AT_LEAST_S = 1800.0
WATCH_TIMES = 3
"""The watch ends after so many times the longest earlier start, and not before WATCH_AT_LEAST_S."""


class _Aborted(Exception):  # noqa: N818 - an outcome
    """It was aborted, before the next step."""


class _Failed(Exception):  # noqa: N818 - an outcome
    """A step failed, and everything that is said of it."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.text)
        self.ended = ended


class SequenceRun:
    """A `launching.operator.Run`. `watch` None: it ends when the new server runs. `longest_s`: the longest earlier start. `reached` and `launched`: where
    an earlier eagletui left it."""

    def __init__(
        self,
        plan: Plan,
        work: Work,
        *,
        watch: Watch | None = None,
        on_change: Callable[[], None] = lambda: None,
        longest_s: float | None = None,
        reached: StepName | None = None,
        launched: Identity | None = None,
        record: str | None = None,
    ) -> None:
        self.plan = plan
        recipe = plan.recipe
        port = recipe.port if recipe is not None else plan.server.port if plan.server is not None else plan.wish.port
        self._work = work
        self._progress = begun(plan.kind, port=port, log=None if recipe is None else recipe.log_file, reached=reached)
        if record is not None:
            self._progress = after(self._progress, Recorded(record))
        if launched is not None:
            self._progress = after(self._progress, Launched(launched, self._truth.goes_on(launched)))
        self._watch = watch
        self._on_change = on_change
        self._limit_s = max(WATCH_AT_LEAST_S, WATCH_TIMES * (longest_s or 0.0))
        self._stop_now = asyncio.Event()
        self._abort = False
        self._left = False
        self._found: Found | None = None
        self._locked = False
        self._task: asyncio.Task[None] | None = None
        self._notes: list[str] = []

    # ---- what the screen and the command line ask ----

    @property
    def progress(self) -> Progress:
        """Where it is now."""
        return self._progress

    @property
    def record(self) -> Record | None:
        """See Run."""
        return self._work.record

    def begin(self) -> None:
        """Start it, in a task of its own."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="sequence")

    def abort(self) -> bool:
        """End before the next step. False where that is not safe now (`progress.why_not`)."""
        if self._abort or not self._progress.may_abort:
            return self._abort
        self._abort = True
        why = self._progress.why_not
        self._happens(AbortAsked())
        step = self._progress.step
        if self._task is not None and step is not None and step.name is not StepName.STOP:
            self._task.cancel()  # what only looks need not be waited for
        elif why:
            self._happens(
                Told(f"{step.text if step is not None else ''} (aborted: nothing is launched after it)".strip())
            )
        return True

    def stop_now(self) -> bool:
        """End a draining stop now. False where none drains."""
        if not self._progress.may_stop_now:
            return False
        self._stop_now.set()
        self._happens(Drains(now=False))  # a second time it would end nothing more
        return True

    async def wait(self) -> Progress:
        """Until it ended."""
        if self._task is not None:
            await asyncio.wait((self._task,))
            if not self._task.cancelled():
                self._task.result()
        return self._progress

    async def leave(self) -> None:
        """End it now, as the node is: what was begun there goes on without us. A launch is waited for, since it is known within seconds.

        Once the stop has begun it stays unfinished in its record, aborted or not: whoever looks next is offered to go on.
        """
        if self._task is None or self._task.done():
            return
        self._left = True
        if self._progress.step is not None and self._progress.step.name in {StepName.LAUNCH, StepName.VERIFY}:
            await asyncio.wait((self._task,), timeout=STARTED_WITHIN_S + SLACK_S)
        self._task.cancel()
        await asyncio.wait((self._task,))

    # ---- the steps in their order ----

    async def _run(self) -> None:
        """Everything. Whatever happens ends in a progress that says so."""
        ended: Ended
        try:
            ended = await self._steps()
        except _Failed as failed:
            ended = failed.ended
        except (_Aborted, asyncio.CancelledError):
            text = f"left at {self._progress.step.name}" if self._unfinished and self._progress.step else "aborted"
            ended = self._ended("aborted", text, self._truth.after_abort(), self._truth.offers_after_abort())
        except OvertakenError as error:
            ended = self._ended("overtaken", str(error), self._truth.now(), ())
        except RefusedError as error:
            ended = self._ended("refused", str(error), self._truth.now(), ("retry",))
        except NeverStartedError as error:
            ended = await self._never_started(error)
        except (StopRefusedError, RestartedByKeeperError) as error:
            untouched = isinstance(error, StopRefusedError)
            true = self._truth.untouched() if untouched else self._truth.kept_again()
            ended = self._ended("failed", str(error), true, ("retry",) if untouched else ())
        except NodeError as error:
            ended = self._ended("no-link", f"the link was lost: {error}", self._truth.without_link(), ("go-on",))
        except EagletuiError as error:
            ended = self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - a mistake of ours ends in a state with a sentence, and gives the lock back
            ended = self._failed(f"eagletui made a mistake ({type(error).__name__}: {error}); please report it")
        await self._part(ended)
        self._happens(ended)

    async def _steps(self) -> Ended:
        pending = [step.name for step in self._progress.steps if step.status == "pending"]
        for name in pending:
            if self._abort:
                raise _Aborted
            if name is StepName.WATCH:
                return await self._watched()
            await self._STEPS[name](self)
            await asyncio.sleep(0)
        return self._ended("done", self._last_text(), self._truth.now(), ())

    async def _preflight(self) -> None:
        self._begins(StepName.PREFLIGHT)

        async def prepare() -> tuple[tuple[Check, ...], str]:
            self._locked = True  # an answer that does not come any more may have been a yes
            notice = await self._work.take_lock()
            if notice:
                self._happens(Told(notice))
            checks = await self._work.check()
            failed = [one for one in checks if one.result == "fail"]
            if failed:
                said = "; ".join(told_of(one) for one in failed)
                raise _Failed(self._ended("refused", said, self._truth.now(), ("retry",), lines_of(checks)))
            return checks, await self._work.write_record()

        checks, record = await self._within(StepName.PREFLIGHT, prepare())
        self._happens(Recorded(record))
        self._happens(Done(_now(), counted(checks), lines_of(checks)))

    async def _identify(self) -> None:
        self._begins(StepName.IDENTIFY)
        await self._lock_again()
        await self._note(StepName.IDENTIFY)
        found = await self._who_is_there()
        count = len(found.family)
        text = f"{count} processes" if count != 1 else "1 process"
        self._happens(Done(_now(), text if count else "nobody is there", found.lines))

    async def _stop(self) -> None:
        found = await self._known()
        if not found.family:
            self._happens(Skipped(StepName.STOP, "nobody to stop"))
            return
        grace = self.plan.grace_s
        timeout = None if grace == 0 or self.plan.stopped_by else grace + KILL_AFTER_TERM_S + STOP_AFTER_KILL_S
        self._begins(StepName.STOP, timeout)
        await self._lock_again()
        await self._note(StepName.STOP)
        self._happens(Drains(now=True))
        finding = await self._work.stop(found, self._stop_now)
        self._happens(Done(_now(), finding.text, finding.lines))

    async def _gpus(self) -> None:
        await self._looking(StepName.GPUS, self._work.gpus_free)

    async def _leftovers(self) -> None:
        await self._looking(StepName.LEFTOVERS, self._work.leftovers)

    async def _looking(self, step: StepName, look: Callable[[], Awaitable[Finding]]) -> None:
        await self._known()
        self._begins(step)
        await self._lock_again()
        await self._note(step)
        finding = await self._within(step, look())
        self._happens(Done(_now(), finding.text, finding.lines))

    async def _launch(self) -> None:
        self._begins(StepName.LAUNCH)
        await self._lock_again()
        await self._note(StepName.LAUNCH)
        finding = await self._within(StepName.LAUNCH, self._work.launch())
        self._happens(Done(_now(), finding.text, finding.lines))

    async def _verify(self) -> None:
        self._begins(StepName.VERIFY)
        await self._lock_again()
        verified = await self._within(StepName.VERIFY, self._work.verify())
        self._happens(Launched(verified.process, self._truth.goes_on(verified.process)))
        kept = await self._work.keep(verified.process)
        if kept is not None:
            self._notes.append(kept)
        self._happens(Done(_now(), verified.text, verified.lines))

    async def _watched(self) -> Ended:
        """The new server, until it is ready or will not be; the lock is not needed for it."""
        if self._watch is None:
            await self._note(StepName.WATCH, "done", "launched, not waited for")
            await self._unlock()
            self._happens(Skipped(StepName.WATCH, "not waited for"))
            self._happens(Skipped(StepName.READY, "not waited for"))
            return self._ended("done", "launched, not waited for", self._truth.now(), ())
        await self._note(StepName.WATCH)
        await self._unlock()
        self._begins(StepName.WATCH, self._limit_s)
        try:
            async with asyncio.timeout(self._limit_s):
                watched = await self._watch.until_ready(self._progress)
        except TimeoutError:
            watched = Watched("timed-out", f"not ready after {self._limit_s / 60:.0f} min")
        if watched.ending == "done":
            return await self._is_ready(watched)
        if watched.ending == "crashed":
            death = await self._work.look_after_death()
            watched = replace(watched, diagnosis=watched.diagnosis or death.diagnosis)
            await self._tell_history(watched)
            ended = self._ended(
                "crashed", watched.text, self._truth.after_death(), self._truth.offers_after_launch()
            )._replace(diagnosis=watched.diagnosis, exit_status=death.exit_status, printed=death.printed)
        else:
            offers: tuple[Offer, ...] = ("go-on",) if watched.ending == "no-link" else ("look-at-log",)
            ended = self._ended(watched.ending, watched.text, self._truth.now(), offers)._replace(
                diagnosis=watched.diagnosis
            )
        await self._note(StepName.WATCH, ended.ending, ended.text, watched)
        return ended

    async def _is_ready(self, watched: Watched) -> Ended:
        self._happens(Done(_now(), watched.text))
        self._begins(StepName.READY)
        await self._note(StepName.READY, "done", watched.text, watched)
        await self._tell_history(watched)
        ended = self._ended("done", watched.text, "The new server is ready.", ())
        return ended._replace(ready_s=watched.ready_s)

    async def _tell_history(self, watched: Watched) -> None:
        process = self._progress.launched
        problem = None if process is None else await self._work.outcome(process, watched)
        if problem is not None and problem not in self._notes:
            self._notes.append(problem)

    _STEPS: dict[StepName, Callable[[SequenceRun], Awaitable[None]]] = {  # noqa: RUF012 - a constant
        StepName.PREFLIGHT: _preflight, StepName.IDENTIFY: _identify, StepName.STOP: _stop, StepName.GPUS: _gpus,
        StepName.LEFTOVERS: _leftovers, StepName.LAUNCH: _launch, StepName.VERIFY: _verify,
    }  # fmt: skip

    # ---- around the steps ----

    def _happens(self, event: Event) -> None:
        self._progress = after(self._progress, event)
        self._on_change()

    def tell(self, text: str, lines: tuple[str, ...] = ()) -> None:
        """Where the running step is, from what does it."""
        self._happens(Told(text, lines))

    def _begins(self, step: StepName, timeout_s: float | None = None) -> None:
        self._happens(Began(step, _now(), self._truth.in_step(step), timeout_s))

    async def _within(self, step: StepName, work: Awaitable[T]) -> T:
        """The step's own timeout, told as what it is."""
        limit = TIMEOUT_S[step]
        try:
            async with asyncio.timeout(limit + SLACK_S):
                return await work
        except TimeoutError:
            text = f"{step} took longer than {limit:g} s"
        except CommandTimeout as error:
            text = str(error)
        if step in UNTOUCHED_IN:
            raise RefusedError(text, code="timeout")
        if step in {StepName.LAUNCH, StepName.VERIFY}:
            raise NeverStartedError(text)
        raise StopFailedError(text)

    async def _known(self) -> Found:
        """Who was there; looked at anew where an earlier eagletui did the step."""
        if self._found is None:
            await self._lock_again()
            return await self._who_is_there()
        return self._found

    async def _who_is_there(self) -> Found:
        """Looked at under the lock. Who is not ours to stop, or another than was meant, ends it: also where an earlier eagletui left it, since then anybody
        may have started a server there."""
        found = await self._within(StepName.IDENTIFY, self._work.identify())
        refusal = found.refusal
        if refusal is not None and not (refusal.again and self.plan.wish.again):
            raise _Failed(self._ended("refused", refusal.text, self._truth.now(), ("retry",), found.lines))
        if found.other is not None:
            raise _Failed(self._ended("refused", found.other, self._truth.now(), ("retry",), found.lines))
        self._found = found
        return found

    async def _lock_again(self) -> None:
        """A sequence that goes on at a later step takes the lock first."""
        if not self._locked:
            self._locked = True
            await self._work.take_lock()

    async def _unlock(self) -> None:
        if self._locked:
            await self._work.release_lock()
            self._locked = False

    async def _note(
        self, step: StepName, ending: Ending = "running", text: str = "", watched: Watched | None = None
    ) -> None:
        """To the record; what cannot be written there is told beside it."""
        problem = await self._work.note(step, ending=ending, text=text, watched=watched)
        if problem is not None and problem not in self._notes:
            self._notes.append(problem)

    async def _part(self, ended: Ended) -> None:
        """The last words to the record, and the lock back: as far as the link allows, and however often we are cancelled."""
        if ended.ending in {"no-link", "overtaken"} or not self._locked:
            return
        step = self._progress.step

        async def words() -> None:
            if step is not None and self._progress.record is not None and not self._unfinished:
                await self._work.note(step.name, ending=ended.ending, text=ended.text)
            await self._unlock()

        parting = asyncio.ensure_future(words())
        try:
            async with asyncio.timeout(PARTING_S):
                await _until_done(parting)
        except (TimeoutError, NodeError, LaunchingError):
            self._notes.append("the lock was not given back: it frees itself within a minute")
        finally:
            parting.cancel()

    # ---- what is said ----

    def _ended(
        self, ending: Ending, text: str, now_true: str, offers: tuple[Offer, ...], lines: tuple[str, ...] | None = None
    ) -> Ended:
        said = " ".join((now_true, *(f"(Note: {note})" for note in self._notes)))
        return Ended(_now(), ending, text, said, offers, lines)

    async def _never_started(self, error: NeverStartedError) -> Ended:
        """With the cause that its log tells, if it wrote any; the history is told of it as of any crash."""
        death = Death()
        with suppress(NodeError, LaunchingError):
            death = await self._work.look_after_death()
        if death.process is not None and death.diagnosis is not None:
            await self._work.outcome(death.process, Watched("crashed", str(error), diagnosis=death.diagnosis))
        offers = self._truth.offers_after_launch()
        if not (error.printed or death.printed):  # there is nothing to read
            offers = tuple(one for one in offers if one != "look-at-log")
        ended = self._ended("never-started", str(error), self._truth.after_death(), offers)
        status = death.exit_status if error.status is None else error.status
        return ended._replace(exit_status=status, printed=error.printed, diagnosis=death.diagnosis)

    def _failed(self, text: str) -> Ended:
        """The running step failed; nothing was touched where nothing had been stopped yet."""
        step = self._progress.step
        if step is None or step.name in UNTOUCHED_IN:
            return self._ended("refused", text, self._truth.now(), ("retry",))
        return self._ended("failed", text, self._truth.now(), self._truth.offers_after_stop())

    def _last_text(self) -> str:
        if self.plan.kind == "stop":  # what came after it only looked
            stopped = next(step for step in self._progress.steps if step.name is StepName.STOP)
            return stopped.text
        step = self._progress.step
        return "" if step is None else step.text

    @property
    def _unfinished(self) -> bool:
        """It was left once the stop had begun."""
        step = self._progress.step
        return self._left and step is not None and step.name not in UNTOUCHED_IN

    @property
    def _truth(self) -> Truth:
        record = self._work.record
        return Truth(self.plan, self._progress, told=record is None or record.stop_sent is not False)


def _now() -> float:
    return time.monotonic()


async def _until_done(task: asyncio.Future[None]) -> None:
    """Wait for a task of our own, through every cancellation of ours."""
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            continue
    task.result()
