"""Whoever restarts servers of one node: looks, plans, checks, and runs one sequence at a time. See launching.operator for what is asked of it."""

from __future__ import annotations

import asyncio
import getpass
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from eagletui.config.choose import Guards, profiles_of
from eagletui.config.load import Loaded
from eagletui.errors import LaunchingError, RefusedError
from eagletui.history.store import History
from eagletui.launching import dry
from eagletui.launching.acting import Acting
from eagletui.launching.lock import new_fence
from eagletui.launching.on_node import WorkOnNode
from eagletui.launching.operator import DryCommand
from eagletui.launching.orphans import end_orphans
from eagletui.launching.plan import Check, Declared, Plan, Wish
from eagletui.launching.planner import Planner
from eagletui.launching.planning import flags_for
from eagletui.launching.preflight import preflight
from eagletui.launching.recipe import Recipe
from eagletui.launching.sequence import SequenceRun
from eagletui.launching.steps import GRACE_S, StepName
from eagletui.launching.watch import Watch
from eagletui.nodes.base import Node
from eagletui.servers.intent import Intent
from eagletui.servers.model import Orphan
from eagletui.servers.record import Record

FRESH_S = 120.0
"""Checks that the person was shown hold for so long: asking an engine's own parser takes its ten seconds."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """The checks of a recipe, and when they were made (monotonic)."""

    recipe: Recipe | None
    checks: tuple[Check, ...]
    at: float


class NodeOperator:
    """A `launching.operator.Operator`. `name`: the node as the person named it; `loaded` the configuration, None where there is none; `guards` what holds for
    the node. `watch`: who watches a new server until it is ready; None: a sequence ends when it runs. `requests`: how many the server answers now.
    `on_intent` is told what is being done, for who watches the servers.
    """

    def __init__(
        self,
        node: Node,
        *,
        name: str,
        loaded: Loaded | None = None,
        guards: Guards | None = None,
        history: History | None = None,
        watch: Watch | None = None,
        requests: Callable[[], int | None] = lambda: None,
        on_intent: Callable[[Intent], None] = lambda _intent: None,
    ) -> None:
        self.on_change: Callable[[], None] | None = None
        self.node_name = name
        self._node = node
        self._loaded = loaded
        self._guards = guards or Guards()
        self._history = history
        self._watch = watch
        self._requests = requests
        self._on_intent = on_intent
        self._planner = Planner(node, name=name, loaded=loaded, guards=self._guards, history=history)
        self._current: SequenceRun | None = None
        self._checked: _Checked | None = None
        self._command: tuple[str, ...] = ()

    @property
    def read_only(self) -> str | None:
        """See Operator."""
        return self._guards.sentence

    @property
    def current(self) -> SequenceRun | None:
        """See Operator."""
        return self._current

    def profiles(self) -> tuple[str, ...]:
        """See Operator."""
        return () if self._loaded is None else profiles_of(self._loaded, self.node_name)

    def variants(self, profile: str) -> tuple[str, ...]:
        """See Operator."""
        found = None if self._loaded is None else self._loaded.config.profiles.get(profile)
        return () if found is None else tuple(found.variants)

    def known_flags(self, wish: Wish) -> tuple[str, ...]:
        """See Operator."""
        profile = None if self._loaded is None else self._loaded.config.profiles.get(wish.profile or "")
        return flags_for(wish, profile, self._command)

    async def prepare(self, wish: Wish) -> Plan:
        """See Operator."""
        plan = await self._planner.plan(wish)
        running = self._requests()
        if plan.server is not None:
            self._command = plan.server.command
        elif plan.recipe is not None:
            self._command = plan.recipe.argv
        return plan if running is None else replace(plan, running_requests=running)

    async def check(self, plan: Plan) -> Plan:
        """See Operator."""
        checks = await preflight(Acting(self._node, new_fence(plan.locks)), plan)
        self._checked = _Checked(plan.recipe, checks, time.monotonic())
        return replace(plan, checks=checks)

    async def dry_run(self, plan: Plan) -> tuple[DryCommand, ...]:
        """See Operator."""
        return await dry.commands_of(self._node, plan, who())

    def begin(self, plan: Plan) -> SequenceRun:
        """See Operator. Raises RefusedError for a plan that is refused, and on a node that is only looked at."""
        if self._guards.sentence is not None or plan.refused:
            told = [self._guards.sentence] if self._guards.sentence else [one.text for one in plan.refusals]
            raise RefusedError("; ".join(told), code="read-only" if self._guards.sentence else plan.refusals[0].code)
        return self._start(plan, None, None)

    @property
    def confirm_name(self) -> str | None:
        """See Operator."""
        return self._guards.confirm_name

    def resume(self, record: Record) -> SequenceRun | None:
        """See Operator."""
        step = _reached(record)
        if step is None or record.newer or self._guards.sentence is not None:
            return None
        return self._start(_plan_of(record, self.node_name), record, step)

    def _start(self, plan: Plan, record: Record | None, reached: StepName | None) -> SequenceRun:
        running = self._current
        if running is not None and running.progress.ending == "running":
            return running

        def tell(text: str, lines: tuple[str, ...]) -> None:
            run.tell(text, lines)

        acting = Acting(self._node, new_fence(plan.locks), tell=tell)
        work = WorkOnNode(
            acting, plan, who=who(), history=self._history, requests=self._requests, intent=self._on_intent, record=record,
            checked=self._fresh(plan),
        )  # fmt: skip
        launched = None if record is None or reached is not StepName.WATCH else record.process
        run = SequenceRun(
            plan,
            work,
            watch=self._watch,
            on_change=self._changed,
            longest_s=self._planner.longest_s,
            reached=reached,
            launched=launched,
            record=None if record is None else record.id,
        )
        self._current = run
        run.begin()
        return run

    def _fresh(self, plan: Plan) -> tuple[Check, ...] | None:
        """The checks of this very recipe, if they were made a moment ago."""
        checked = self._checked
        if checked is None or plan.checks is None or checked.recipe != plan.recipe:
            return None
        return checked.checks if time.monotonic() - checked.at <= FRESH_S else None

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    async def end_orphans(self, orphans: Sequence[Orphan]) -> str:
        """See Operator."""
        if self._guards.sentence is not None:
            return self._guards.sentence
        try:
            return await end_orphans(self._node, orphans, who())
        except LaunchingError as error:
            return str(error)

    async def aclose(self) -> None:
        """Leave what runs; what was begun on the node goes on. Never raises."""
        if self._current is not None:
            with suppress(asyncio.CancelledError):
                await self._current.leave()


def who() -> str:
    """Who we are, for the record and the lock."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "somebody"
    return f"{user}@{socket.gethostname() or 'somewhere'}"


def _reached(record: Record) -> StepName | None:
    """Where to go on; None where nothing was done yet, or nothing is left to do."""
    if record.outcome == "done" or record.step is None:
        return None
    try:
        step = StepName(record.step)
    except ValueError:
        return None
    launched = record.process is not None
    nearest: dict[StepName, StepName | None] = {
        StepName.PREFLIGHT: None,
        StepName.IDENTIFY: None,
        StepName.LAUNCH: StepName.VERIFY if launched else StepName.LAUNCH,
        StepName.WATCH: StepName.WATCH if launched else StepName.VERIFY,
        StepName.READY: StepName.WATCH if launched else None,
    }
    return nearest.get(step, step)


def _plan_of(record: Record, node: str) -> Plan:
    """What a record says that is to be done."""
    recipe = None
    if record.kind != "stop":
        recipe = Recipe(
            record.command, record.environment, record.cwd or "/", record.log or "", "record", engine=record.engine, port=record.port,
            profile=record.profile, variant=record.variant, launcher=record.launcher, handle=record.handle,
        )  # fmt: skip
    ports = () if record.port is None else (record.port,)
    wish = Wish(
        record.kind, port=record.port, profile=record.profile, variant=record.variant, remove_leftovers=not record.keep_leftovers
    )  # fmt: skip
    return Plan(
        wish, node, None, family=record.family, recipe=recipe, previous=record, locks=ports, boot=record.boot,
        declared=(Declared(record.launcher, record.handle),),
        grace_s=GRACE_S if record.grace_s is None else record.grace_s,
    )  # fmt: skip
