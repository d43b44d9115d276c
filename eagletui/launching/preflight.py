"""Step 1: everything that can be known before the old server is touched. Reads only; takes no lock.

Each check is a value with an id that `doctor` lists too; the pure functions behind them are in launching/checks. `fail` means: do not touch the old
server. `unknown` and `warn` let the sequence go on and are shown. At most three commands run at once, and all of it takes at most 20 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final, TypeVar

from eagletui.errors import CommandTimeout
from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import timeout_report
from eagletui.launching.acting import Acting
from eagletui.launching.checks.asked import CONTAINERS, DEFAULT_PATH, Asked, asked_of
from eagletui.launching.checks.flags import check_flags, check_json, not_asked
from eagletui.launching.checks.gpus import checks_of_gpus
from eagletui.launching.checks.model import checks_of_models, hub_folder
from eagletui.launching.checks.ports import checks_of_ports
from eagletui.launching.checks.program import checks_of_program
from eagletui.launching.checks.session import check_unchanged, checks_of_session
from eagletui.launching.checks.storage import check_record, checks_of_storage
from eagletui.launching.launchers.base import Launcher
from eagletui.launching.launchers.registry import launcher as launcher_of
from eagletui.launching.launchers.systemd import existing_unit
from eagletui.launching.looking import see_gpus
from eagletui.launching.plan import Check, Plan
from eagletui.launching.recipe import Recipe
from eagletui.launching.steps import TIMEOUT_S, StepName
from eagletui.shell.details import Details, ask_details, parse_details
from eagletui.shell.flag_check import SECONDS, FlagAnswer, ask_check_flags, parse_check_flags
from eagletui.shell.preflight import NodeFacts, ask_preflight, parse_preflight

LIMIT_S: Final = TIMEOUT_S[StepName.PREFLIGHT] - 1.0
"""Seconds for everything: the step's own, less what the sequence needs around it."""
FACTS_S: Final = 15.0
"""Seconds that the node may take to tell its facts: stat(2) of a dead NFS never ends."""
PORTS_S: Final = 5.0
"""Seconds for the table of listening sockets; as a rule it takes 0.1."""

T = TypeVar("T")


async def preflight(acting: Acting, plan: Plan) -> tuple[Check, ...]:
    """The checks of a plan, in a fixed order. Whatever the node does not tell in time is `unknown`. Raises NodeError (no link), UsageError (no such
    launcher).

    Of a stop only the record is looked at: nothing is launched.
    """
    recipe = plan.recipe
    if recipe is None:
        facts = await _in_time(_record_facts(acting))
        return (_answers(facts), check_record((facts or NodeFacts()).path("state")))
    asked, chosen = asked_of(recipe), launcher_of(recipe.launcher)
    handle = chosen.handle(recipe)
    exists = _existing(chosen, handle)
    untried = not_asked(plan, asked) if exists is None else check_unchanged(exists, changed=bool(plan.changes))
    asks_flags = exists is None and untried is None
    facts, answer, (report, details) = await _together(
        _in_time(_facts(acting, recipe, asked, chosen, handle)),
        _in_time(_flags(acting, recipe, asked)) if asks_flags else _none(),
        _gpus_and_ports(acting, plan),
    )
    known = facts or NodeFacts()
    checks = [_answers(facts), *checks_of_session(known, chosen, handle)]
    if exists is None:
        checks += _own_checks(recipe, asked, known)
    else:
        checks.append(check_record(known.path("state")))
    if asks_flags:
        untried = check_flags(asked, answer or FlagAnswer(late=True), recipe.argv)
    checks += [check for check in (untried, check_json(asked)) if check is not None]
    env = dict(recipe.env)
    family = frozenset(pid for pid, _ in plan.family)
    checks += checks_of_gpus(asked, report, env, family, plan.holders)
    checks += checks_of_ports(asked, details, family, in_container=plan.kept.kind == "container")
    return tuple(checks)


def _existing(chosen: Launcher, handle: str | None) -> str | None:
    """What the launcher only starts and stops, as a word for sentences: its command and files are not this launch's."""
    if chosen.name in CONTAINERS:
        return f"container {handle or ''}"
    unit = existing_unit(handle) if chosen.name == "systemd" else None
    return None if unit is None else f"unit {unit}"


def _answers(facts: NodeFacts | None) -> Check:
    """`node.answers`: its files could be looked at."""
    if facts is not None and facts.complete:
        return Check("node.answers", "ok", "The node told its facts.")
    text = f"The node did not tell of its files within {FACTS_S:.0f} s: does a file system (NFS) hang?"
    if facts is not None:
        text = "The node told only a part of its facts: its shell ended early."
    return Check(
        "node.answers", "fail", text, "On the node: df, and ls of the model's folder. The old server is left alone."
    )


def _own_checks(recipe: Recipe, asked: Asked, facts: NodeFacts) -> list[Check]:
    """What the node's own files say; of a container's server they say nothing."""
    env = dict(recipe.env)
    checks = [*checks_of_program(facts, recipe.argv[0], env.get("PATH", DEFAULT_PATH), recipe.cwd)]
    checks += checks_of_models(asked, facts, env)
    checks += checks_of_storage(facts, log=recipe.log, tmp=_tmp(env), ranks=asked.gpus)
    return checks


def _tmp(env: dict[str, str]) -> str:
    path = env.get("TMPDIR", "")
    return path if path.startswith("/") else "/tmp"  # noqa: S108 - where mktemp and Python go; it is only looked at


async def _record_facts(acting: Acting) -> NodeFacts:
    """Where nothing is launched."""
    done = await acting.run(ask_preflight(path="", cwd="", program="", log="", tmp=""), timeout=FACTS_S, limit=1 << 20)
    return parse_preflight(done.stdout)


async def _facts(acting: Acting, recipe: Recipe, asked: Asked, chosen: Launcher, handle: str | None) -> NodeFacts:
    env = dict(recipe.env)
    ours = _existing(chosen, handle) is None
    command = ask_preflight(
        path=env.get("PATH", DEFAULT_PATH),
        cwd=recipe.cwd if ours else "",
        program=recipe.argv[0] if ours and recipe.argv else "",
        log=recipe.log if ours else "",
        tmp=_tmp(env),
        hub=hub_folder(env),
        tools=sorted({program for need in chosen.needs for program in need.programs}),
        launcher=chosen.name,
        handle=handle or "",
        models=tuple((model.path, model.hub) for model in asked.models) if ours else (),
    )
    done = await acting.run(command, timeout=FACTS_S, limit=1 << 20)
    return parse_preflight(done.stdout)


async def _flags(acting: Acting, recipe: Recipe, asked: Asked) -> FlagAnswer:
    env = dict(recipe.env)
    command = ask_check_flags(
        asked.engine or "",
        asked.args,
        program=asked.program or "",
        cwd=recipe.cwd,
        env=recipe.env,
        path=env.get("PATH", DEFAULT_PATH),
    )
    done = await acting.run(command, timeout=SECONDS + 3.0, limit=1 << 20)
    return parse_check_flags(done.stdout, done.exit_status)


async def _gpus_and_ports(acting: Acting, plan: Plan) -> tuple[GpuReport, Details]:
    pids = sorted(pid for pid, _ in plan.family)
    details = await _in_time(_ports(acting, pids))
    try:
        async with asyncio.timeout(LIMIT_S - PORTS_S):
            report = await see_gpus(acting)
    except TimeoutError:
        report = timeout_report(LIMIT_S - PORTS_S)
    return report, details or Details()


async def _ports(acting: Acting, pids: list[int]) -> Details:
    return parse_details((await acting.run(ask_details(pids), timeout=PORTS_S)).stdout)


async def _none() -> None:
    return None


async def _in_time(look: Coroutine[None, None, T]) -> T | None:
    """None when the node took too long for it."""
    try:
        return await look
    except CommandTimeout:
        return None


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


async def _together(
    first: Coroutine[None, None, A], second: Coroutine[None, None, B], third: Coroutine[None, None, C]
) -> tuple[A, B, C]:
    """All three at once. The first exception is raised when all have ended: none goes on behind our back."""
    one, two, three = await asyncio.gather(first, second, third, return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    if isinstance(two, BaseException):
        raise two
    if isinstance(three, BaseException):
        raise three
    return one, two, three
