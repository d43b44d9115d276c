"""What is going to be done, for a person: the plan, its questions, and every command of a dry run. Pure; text of the node is made plain."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from eagletui.cli.wait_text import safe
from eagletui.launching.operator import DryCommand
from eagletui.launching.plan import Check, Plan
from eagletui.servers.model import Server
from eagletui.shell.masking import MASK
from eagletui.ui.format import UNKNOWN, duration, gib, plural

LABEL_CELLS = 10
SIGNS = {"ok": "✓", "warn": "!", "fail": "✗", "unknown": "?"}
_COLOURS = {"ok": "32", "warn": "33", "fail": "31", "unknown": "33"}
_HEADS = {"start": "Start", "stop": "Stop", "restart": "Restart"}
MASK_NOTE = f"Masked values stand as {MASK} here; the node gets the values themselves."


def _row(label: str, text: str) -> str:
    return f"  {label:<{LABEL_CELLS}} {text}"


def _name(server: Server) -> str:
    port = f"port {server.port}" if server.port is not None else "no port"
    return f"{safe(server.engine)} {safe(server.model or UNKNOWN)} ({port}, pid {server.pid})"


def plan_lines(plan: Plan, *, colour: bool) -> Iterator[str]:
    """The plan. `colour`: by the terminal's own palette."""
    yield f"{_HEADS[plan.kind]} on {safe(plan.node)}"
    yield from _what_stops(plan)
    yield from _what_runs(plan)
    yield from _what_is_there(plan)
    for note in plan.notes:
        yield _row("note", safe(note))
    for check in plan.checks or ():
        if check.result != "ok":
            yield from check_lines(check, colour=colour)
    passed = sum(check.result == "ok" for check in plan.checks or ())
    if passed:
        yield _row("checked", f"{plural(passed, 'check')} passed")


def check_lines(check: Check, *, colour: bool) -> Iterator[str]:
    """A preflight check and what to do about it."""
    sign = SIGNS[check.result]
    shown = f"\x1b[{_COLOURS[check.result]}m{sign}\x1b[0m" if colour else sign
    yield f"  {shown} {check.id}: {safe(check.text)}"
    if check.todo:
        yield f"    what to do: {safe(check.todo)}"


def _what_stops(plan: Plan) -> Iterator[str]:
    if plan.server is None:
        yield _row("stops", "nothing: no server runs here" if plan.kind != "start" else "nothing")
        return
    others = len(plan.family) - 1
    more = f" and {plural(others, 'more process', 'more processes')}" if others > 0 else ""
    since = "" if plan.since_s is None else f", up {duration(plan.since_s)}"
    verb = "there is" if plan.kind == "start" else "stops"
    yield _row(verb, f"{_name(plan.server)}{more}{since}")
    if plan.kept.kind not in {"nobody", "shell"}:
        ranks = plan.kept.kind == "ranks"
        name = safe(plan.kept.name)
        yield (
            _row("part of", f"a larger server: {name}")
            if ranks
            else _row("kept by", f"{plan.kept.kind} {name}".rstrip())
        )
    if plan.running_requests is not None:
        yield _row("requests", f"{plan.running_requests} running now")
    if plan.kind != "start":
        grace = "without limit" if plan.grace_s == 0 else f"for {plan.grace_s:g} s at most"
        own = plan.stopped_by and plan.kept.kind == "unit"
        yield _row("drains", "as long as its unit allows (TimeoutStopSec)" if own else grace)
        yield _row("leftovers", f"in /dev/shm are {'removed' if plan.wish.remove_leftovers else 'kept'}")


def _what_runs(plan: Plan) -> Iterator[str]:
    recipe = plan.recipe
    if recipe is None:
        return
    named = "" if recipe.profile is None else f" (profile {safe(recipe.profile)}{_variant(recipe.variant)})"
    yield _row("runs", shlex.join(safe(word) for word in recipe.shown_command))
    came = {"profile": "from the configuration", "record": "as it was launched last", "process": "as it runs now"}
    made = None if recipe.kept_log is None else f"as {safe(recipe.kept_log)} has it"
    yield _row("command", f"{made or came[recipe.source]}{named}")
    for change in plan.changes:
        before, after = (UNKNOWN if one is None else safe(one) for one in (change.before, change.after))
        yield _row("changes", f"--{safe(change.flag)}: {before} → {after}")
    if recipe.kept_log is None:
        yield _row("in", safe(recipe.cwd))
    yield _row("logs to", safe(recipe.kept_log or recipe.log))
    handle = "" if recipe.handle is None else f" {safe(recipe.handle)}"
    env = plural(len(recipe.env), "variable") if recipe.kept_log is None else "its own variables"
    yield _row("by", f"{safe(recipe.launcher)}{handle}, {env} of environment")


def _variant(variant: str | None) -> str:
    return "" if variant is None else f", variant {safe(variant)}"


def _what_is_there(plan: Plan) -> Iterator[str]:
    whose = {
        "family": "its own",
        "ours": "another server of yours",
        "others": "not yours",
        "unknown": "whose is unknown",
    }
    for holder in plan.holders:
        user = "" if holder.user is None else f" {safe(holder.user)}"
        yield _row(
            f"GPU {holder.gpu}",
            f"{gib(holder.mem_mib)} GiB  pid {holder.pid}{user}  {safe(holder.command)}  ({whose[holder.whose]})",
        )
    for left in plan.leftovers:
        yield _row("leftover", f"{safe(left.path)}, {left.size} bytes: {safe(left.why)}")
    for orphan in plan.orphans:
        yield _row("orphan", f"pid {orphan.process.pid} {safe(orphan.name)}: it is of no server, and left alone")
    for other in plan.others:
        yield _row("others", safe(other))


def refusal_text(plan: Plan) -> str:
    """Why it is not done, in one line."""
    return "; ".join(safe(one.text) for one in plan.refusals if not (one.again and plan.wish.again))


# The dry run


def command_line(command: DryCommand) -> str:
    """A command in one line: its name, its arguments and what follows on its stdin, quoted as a shell would need it."""
    words = shlex.join((command.name, *command.args))
    return words if not command.stdin else f"{words} <<< {shlex.quote(command.stdin)}"


def dry_lines(commands: Sequence[DryCommand]) -> Iterator[str]:
    """Every command in its order, and below them the text of each script once."""
    step = ""
    for command in commands:
        if command.step != step:
            step = command.step
            yield f"# {step}"
        mark = "reads" if command.reads_only else "CHANGES"
        yield f"{mark:<7} {shlex.join((safe(command.name), *(safe(word) for word in command.args)))}"
        if command.stdin:
            yield from (f"        stdin │ {safe(line)}" for line in command.stdin.splitlines())
    yield f"# {MASK_NOTE}"
    told: set[str] = set()
    for command in commands:
        if command.name not in told:
            told.add(command.name)
            yield ""
            yield f"# script {command.name}"
            yield from command.text.strip("\n").splitlines()
