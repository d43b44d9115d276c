"""What is true on the node at each end of a sequence, and what makes sense then. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.launching.plan import Check, Plan
from eagletui.launching.steps import Offer, Progress, StepName
from eagletui.servers.family import Identity

UNTOUCHED_IN = frozenset({StepName.PREFLIGHT, StepName.IDENTIFY})
"""Steps in which nothing was touched yet."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Of a sequence at one moment, in sentences. `told`: the old server may have been told to end (known once the stop has begun)."""

    plan: Plan
    progress: Progress
    told: bool = True

    @property
    def _old(self) -> str:
        """The old server in words, "" for none."""
        server = self.plan.server
        if server is None:
            return ""
        return f"the old server ({server.id}, pid {server.pid})"

    def goes_on(self, process: Identity) -> str:
        """Once the new process runs."""
        return f"The new server runs (pid {process[0]}) and goes on without eagletui."

    def in_step(self, step: StepName) -> str:
        """While this step runs."""
        old = _capital(self._old)
        if step in UNTOUCHED_IN:
            return f"{old} runs, untouched." if old else "Nothing was touched."
        if step is StepName.STOP:
            return f"{old or 'What is left of the old server'} is being stopped; nothing was launched."
        if step in {StepName.GPUS, StepName.LEFTOVERS}:
            return f"{old} is gone; nothing was launched." if old else "Nothing runs, and nothing was launched."
        if step is StepName.LAUNCH:
            return "The launch was sent; whether it runs is known within seconds."
        return self.progress.now_true

    def now(self) -> str:
        """When the running step ends it, for a reason of its own."""
        step = self.progress.step
        if step is None or step.name in UNTOUCHED_IN:
            return f"{_capital(self._old)} is left running, untouched." if self._old else "Nothing was touched."
        if step.name is StepName.STOP:
            if not self.told:
                return self._not_told()
            return "The old server was told to end and is not gone; nothing was launched."
        if step.name is StepName.LAUNCH:
            return "Nothing runs of the new launch."
        if (
            step.name in {StepName.GPUS, StepName.LEFTOVERS}
            and self.plan.kind == "stop"
            and self.progress.ending == "running"
        ):
            return f"{_capital(self._old)} is gone." if self._old else "Nothing runs."
        return self.progress.now_true

    def _not_told(self) -> str:
        """The stop had begun, and nobody was told."""
        return f"{_capital(self._old) or 'The old server'} runs: it was not told to end yet. Nothing was launched."

    def untouched(self) -> str:
        """Who keeps the old server would not stop it."""
        return f"{_capital(self._old) or 'The old server'} runs, untouched; nothing was launched."

    def kept_again(self) -> str:
        """Whoever keeps the old server started it again."""
        return f"{_capital(self._old) or 'The old server'} is gone, its keeper's new one runs, and eagletui launched nothing."

    def after_death(self) -> str:
        """The launch is dead."""
        gone = f"{_capital(self._old)} is gone, and t" if self._old and self.plan.kind == "restart" else "T"
        return f"{gone}he new one does not run."

    def after_abort(self) -> str:
        """It was aborted, or left."""
        step = self.progress.step
        if step is None or step.name in UNTOUCHED_IN:
            return self.now()
        if step.name is StepName.STOP and step.status != "done":
            if not self.told:
                return self._not_told()
            return "The old server was told to end and ends by itself; nothing was launched."
        if self.progress.launched is not None:
            return self.progress.now_true
        if step.name in {StepName.LAUNCH, StepName.VERIFY}:
            return "The launch was sent; its record on the node tells what became of it."
        startable = "" if self.plan.recipe is None else "; it can be started from its record"
        return f"{_capital(self._old) or 'The old server'} is stopped, nothing was launched{startable}."

    def without_link(self) -> str:
        """The link is lost."""
        step = self.progress.step
        if step is None or step.name in UNTOUCHED_IN:
            return "Nothing was stopped or launched."
        if step.name is StepName.STOP:
            if not self.told:
                return self._not_told()
            return "The old server was told to end, and ends without us; nothing was launched. The record on the node tells the step."
        if step.name in {StepName.LAUNCH, StepName.VERIFY} and self.progress.launched is None:
            return "The launch was sent, and its answer did not come; the record on the node tells what became of it."
        return self.progress.now_true

    def offers_after_abort(self) -> tuple[Offer, ...]:
        """What makes sense then."""
        step = self.progress.step
        if step is None or step.name in UNTOUCHED_IN or self.progress.launched is not None:
            return ()
        return ("go-on",) if self.plan.kind == "stop" else ("go-on", "start")

    def offers_after_stop(self) -> tuple[Offer, ...]:
        """After a stop, or the GPUs, or leftovers, that failed."""
        step = self.progress.step
        name = StepName.STOP if step is None else step.name
        first: tuple[Offer, ...] = {
            StepName.STOP: ("go-on", "end-orphans"),
            StepName.GPUS: ("show-holder", "go-on"),
        }.get(name, ("go-on",))  # type: ignore[assignment]
        return first if self.plan.kind == "stop" or name is StepName.STOP else (*first, "start")

    def offers_after_launch(self) -> tuple[Offer, ...]:
        """After a launch that died."""
        restore: tuple[Offer, ...] = (
            ("restore",) if self.plan.previous is not None or self.plan.server is not None else ()
        )
        return ("look-at-log", "retry", *restore)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def told_of(check: Check) -> str:
    """A check, and what to do."""
    return check.text if check.todo is None else f"{check.text} ({check.todo})"


def lines_of(checks: tuple[Check, ...]) -> tuple[str, ...]:
    """Those that did not pass."""
    return tuple(f"{one.id}: {one.result}: {told_of(one)}" for one in checks if one.result != "ok")


NAMED = 3
"""Checks that did not pass and are named in the line of the step."""


def counted(checks: tuple[Check, ...]) -> str:
    """How many passed, and which did not: they are told in full wherever the step's lines are shown."""
    passed = sum(one.result == "ok" for one in checks)
    rest = [one for one in checks if one.result != "ok"]
    return f"{passed} of {len(checks)} checks passed" + (
        f"; not: {', '.join(one.id for one in rest[:NAMED])}{' …' if len(rest) > NAMED else ''}" if rest else ""
    )
