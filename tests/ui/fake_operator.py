"""An operator that does what the tests say: plans, checks and sequences made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eagletui.errors import NodeError
from eagletui.launching.operator import DryCommand
from eagletui.launching.plan import Check, Plan, Wish
from eagletui.launching.steps import Progress
from eagletui.servers.model import Orphan
from eagletui.servers.record import Record


class FakeRun:
    """A sequence that stands where the test puts it."""

    def __init__(self, plan: Plan, progress: Progress, owner: FakeOperator) -> None:
        self.plan = plan
        self._progress = progress
        self._owner = owner
        self.record: Record | None = None
        self.aborts = 0
        self.stops = 0

    @property
    def progress(self) -> Progress:
        return self._progress

    def becomes(self, progress: Progress) -> None:
        """It goes on."""
        self._progress = progress
        if self._owner.on_change is not None:
            self._owner.on_change()

    def abort(self) -> bool:
        self.aborts += 1
        return self._progress.may_abort

    def stop_now(self) -> bool:
        self.stops += 1
        return self._progress.may_stop_now

    async def wait(self) -> Progress:
        return self._progress


class FakeOperator:
    """`plan` is what every wish comes to (a function of it); `checks` what preflight finds, None: it never answers."""

    def __init__(
        self,
        plan: Callable[[Wish], Plan],
        checks: tuple[Check, ...] = (),
        *,
        first: Progress | None = None,
        read_only: str | None = None,
        profiles: tuple[str, ...] = (),
        variants: tuple[str, ...] = (),
        known: tuple[str, ...] = (),
    ) -> None:
        self.on_change: Callable[[], None] | None = None
        self.read_only = read_only
        self.confirm_name: str | None = None
        self.current: FakeRun | None = None
        self.wishes: list[Wish] = []
        self.begun: list[Plan] = []
        self.resumed: list[Record] = []
        self.ended: list[tuple[Orphan, ...]] = []
        self.failing: str | None = None
        self.closed = 0
        self._plan = plan
        self.checks = checks
        self._first = first
        self._profiles, self._variants, self._known = profiles, variants, known

    def profiles(self) -> tuple[str, ...]:
        return self._profiles

    def variants(self, profile: str) -> tuple[str, ...]:
        return self._variants if profile else ()

    def known_flags(self, wish: Wish) -> tuple[str, ...]:
        del wish
        return self._known

    async def prepare(self, wish: Wish) -> Plan:
        self.wishes.append(wish)
        if self.failing is not None:
            raise NodeError(self.failing)
        return replace(self._plan(wish), wish=wish)

    async def check(self, plan: Plan) -> Plan:
        return replace(plan, checks=self.checks)

    async def dry_run(self, plan: Plan) -> tuple[DryCommand, ...]:
        del plan
        return ()

    def begin(self, plan: Plan) -> FakeRun:
        self.begun.append(plan)
        return self.stand(plan, self._first or Progress(plan.kind, ()))

    def stand(self, plan: Plan, progress: Progress) -> FakeRun:
        """A sequence at some point."""
        self.current = FakeRun(plan, progress, self)
        return self.current

    def resume(self, record: Record) -> FakeRun | None:
        self.resumed.append(record)
        return self.current

    async def end_orphans(self, orphans: Sequence[Orphan]) -> str:
        self.ended.append(tuple(orphans))
        return f"{len(orphans)} ended"

    async def aclose(self) -> None:
        """Nothing runs on a node."""
        self.closed += 1
