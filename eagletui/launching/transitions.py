"""What happens in a sequence, and what becomes of its progress. Pure: `after(progress, event)`.

Steps run one after another. A step that failed is the end, and nothing changes a sequence that ended. Times are the client's time.monotonic().
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from eagletui.launching.steps import TIMEOUT_S, Ending, Offer, Progress, Status, Step, StepName
from eagletui.logs.state import Diagnosis
from eagletui.servers.family import Identity
from eagletui.servers.record import Kind

STEPS: dict[Kind, tuple[StepName, ...]] = {
    "restart": tuple(StepName),
    "start": tuple(StepName),
    "stop": tuple(StepName)[:5],
}
"""A stop ends after the leftovers. A start goes through the stop's steps as well: there they only check."""

TOLD_TO_END = (
    "it was told to end, and that cannot be undone; Esc keeps what comes after it from being done: nothing is launched"
)
TOLD_TO_END_AT_LAST = "it was told to end, and that cannot be undone"
LAUNCHING = "the launch was sent: whether it runs is known within seconds"
OVER = "it is over"
ABORTING = "it is being aborted"
_WHY_NOT: dict[StepName, str] = {StepName.LAUNCH: LAUNCHING, StepName.VERIFY: LAUNCHING}


class Began(NamedTuple):
    """A step begins. `timeout_s` replaces that of steps.py (a stop has its grace time)."""

    step: StepName
    at: float
    now_true: str
    timeout_s: float | None = None

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return _began(progress, self)


class Told(NamedTuple):
    """Where the running step is."""

    text: str
    lines: tuple[str, ...] = ()

    def on(self, progress: Progress) -> Progress:
        """See after."""
        text, lines = self
        return _running(progress, lambda step: replace(step, text=text, lines=lines))


class Done(NamedTuple):
    """The running step is over. `lines` None: those that it told last."""

    at: float
    text: str
    lines: tuple[str, ...] | None = None

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return replace(_over(progress, "done", self.at, self.text, self.lines), may_stop_now=False)


class Skipped(NamedTuple):
    """The next step has nothing to do, and why."""

    step: StepName
    text: str

    def on(self, progress: Progress) -> Progress:
        """See after."""
        text = self.text
        _check_next(progress, self.step)
        return _with(progress, self.step, lambda one: replace(one, status="skipped", text=text))


class Recorded(NamedTuple):
    """The record is on the node."""

    record: str

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return replace(progress, record=self.record)


class Launched(NamedTuple):
    """The new server's process runs."""

    process: Identity
    now_true: str

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return replace(progress, launched=self.process, now_true=self.now_true)


class Drains(NamedTuple):
    """Whether the old server drains, so that `k` could end it now."""

    now: bool

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return replace(progress, may_stop_now=self.now)


class AbortAsked(NamedTuple):
    """Nothing further is begun."""

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return replace(progress, may_abort=False, why_not=ABORTING)


class Ended(NamedTuple):
    """The end. The running step is done where `ending` is "done", else it failed; "aborted" leaves it as far as it came."""

    at: float
    ending: Ending
    text: str
    now_true: str
    offers: tuple[Offer, ...] = ()
    lines: tuple[str, ...] | None = None
    exit_status: int | None = None
    printed: tuple[str, ...] = ()
    ready_s: float | None = None
    diagnosis: Diagnosis | None = None

    def on(self, progress: Progress) -> Progress:
        """See after."""
        return _ended(progress, self)


Event = Began | Told | Done | Skipped | Recorded | Launched | Drains | AbortAsked | Ended


def begun(kind: Kind, *, port: int | None = None, log: str | None = None, reached: StepName | None = None) -> Progress:
    """A sequence of which nothing was done. `reached`: an earlier eagletui came up to this step; those before it are not done again."""
    steps = STEPS[kind]
    before = () if reached is None else steps[: steps.index(reached)]
    return Progress(
        kind,
        tuple(
            Step(name, "skipped" if name in before else "pending", timeout_s=TIMEOUT_S.get(name), text="done before" if name in before else "")
            for name in steps
        ),
        port=port,
        log=log,
    )  # fmt: skip


class WrongOrderError(Exception):
    """A driver that begins a step while another runs, or twice. A mistake of ours, never of a node."""


def after(progress: Progress, event: Event) -> Progress:
    """The progress once this happened. Raises WrongOrderError."""
    return progress if progress.ending != "running" else event.on(progress)


def _began(progress: Progress, event: Began) -> Progress:
    _check_next(progress, event.step)
    timeout = event.timeout_s if event.timeout_s is not None else TIMEOUT_S.get(event.step)
    begun_ = _with(
        progress, event.step, lambda one: replace(one, status="running", began=event.at, timeout_s=timeout, text="")
    )
    why_not = _WHY_NOT.get(event.step, "")
    may_abort = not why_not
    if event.step is StepName.STOP:
        may_abort = progress.kind != "stop"
        why_not = TOLD_TO_END if may_abort else TOLD_TO_END_AT_LAST
    return replace(begun_, now_true=event.now_true, may_abort=may_abort, why_not=why_not)


def _ended(progress: Progress, event: Ended) -> Progress:
    status: Status = "done" if event.ending == "done" else "skipped" if event.ending == "aborted" else "failed"
    over = _over(progress, status, event.at, event.text, event.lines) if _index(progress) is not None else progress
    return replace(
        over,
        steps=tuple(replace(one, timeout_s=None) if one.status == "pending" else one for one in over.steps),
        ending=event.ending,
        text=event.text,
        now_true=event.now_true,
        offers=event.offers,
        may_abort=False,
        may_stop_now=False,
        why_not=OVER,
        exit_status=event.exit_status,
        printed=event.printed,
        ready_s=event.ready_s if event.ready_s is not None else progress.ready_s,
        diagnosis=event.diagnosis,
    )


def _index(progress: Progress) -> int | None:
    """Of the running step."""
    return next((index for index, one in enumerate(progress.steps) if one.status == "running"), None)


def _check_next(progress: Progress, step: StepName) -> None:
    first = next((one.name for one in progress.steps if one.status in {"pending", "running"}), None)
    if first is not step or _index(progress) is not None:
        raise WrongOrderError(f"{step} cannot begin: {first} comes first")


def _with(progress: Progress, step: StepName, change: Callable[[Step], Step]) -> Progress:
    return replace(progress, steps=tuple(change(one) if one.name is step else one for one in progress.steps))


def _running(progress: Progress, change: Callable[[Step], Step]) -> Progress:
    index = _index(progress)
    return progress if index is None else _with(progress, progress.steps[index].name, change)


def _over(progress: Progress, status: Status, at: float, text: str, lines: tuple[str, ...] | None) -> Progress:
    return _running(
        progress,
        lambda one: replace(one, status=status, ended=at, text=text, lines=one.lines if lines is None else lines),
    )
