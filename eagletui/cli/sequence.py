"""`start`, `stop` and `restart`: the plan, the question, the steps, and how it ended; the exit status tells which."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from eagletui.cli.options import NumberRange, server_options
from eagletui.cli.wait import timespan
from eagletui.errors import NodeError, UsageError

if TYPE_CHECKING:
    from eagletui.cli.request_count import RequestCount
    from eagletui.cli.sequence_output import StepOutput
    from eagletui.cli.sequence_watch import MonitorWatch
    from eagletui.launching.operating import NodeOperator
    from eagletui.launching.plan import Plan, Wish
    from eagletui.launching.sequence import SequenceRun
    from eagletui.nodes.base import Node
    from eagletui.servers.record import Kind

F = TypeVar("F", bound=Callable[..., object])
TICK_S = 0.25
"""Without news the seconds of the running step go on."""
QUIET_S = 1.0
CLOSING_S = 5.0
NOTHING_THERE, REFUSED, USAGE = 14, 16, 2
_NOTHING = frozenset({"nothing-to-stop", "nothing-to-start"})

_EXIT = """Exit status: 0 done, 14 {nothing}, 16 refused, declined or preflight failed (nothing was touched), or another
eagletui took over, 17 {failed},{launched}
20 no link, 2 usage, or nobody to ask. 130 after ctrl+c (143 SIGTERM, 129 the terminal is gone, 141 nobody reads the output): what
is true then is said.

"""
_LAUNCHED = " 18 never started; with --wait 12 stalled, 13 crashed, 15 timed out;"
_NO_RECIPE = "neither record nor profile to start from"
_ASKS = """The plan is printed to stderr and asked. Without a terminal --yes is needed. --yes does not answer for a production node
(confirm_name = true): --confirm NAME does.

"""
_JSON_WAITS = ", with --wait also those of `wait`"
_JSON = """--json prints events (eagletui.event/1), one JSON object a line: step{}, and last result.
--dry-run prints every command that would run, script and all, and runs only those that read."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for, but for the node and the wish."""

    dry_run: bool
    yes: bool
    confirm: str | None
    wait: bool
    timeout_s: float | None
    as_json: bool
    grace_s: float | None


def _launch_options(function: F) -> F:
    for decorate in reversed(
        (
            click.option("--profile", metavar="P", help="Launch from this profile of the configuration."),
            click.option("--variant", metavar="V", help="With the flags of this variant of the profile."),
            click.option("--set", "changes", multiple=True, metavar="FLAG=VALUE", help="Change a flag: FLAG=VALUE, FLAG for a switch, FLAG= removes it."),
            click.option("--back", is_flag=True, help="What became ready last, as it was launched then."),
            click.option("--launcher", metavar="L", help="setsid (default), tmux, systemd, docker or podman."),
            click.option("--again", is_flag=True, help="Do it although it was refused as of no help."),
            click.option("--wait", "waits", is_flag=True, help="Follow the start until it is ready or certainly will not be."),
            click.option("--timeout", "timeout_s", callback=timespan, metavar="T", help="With --wait: give up after so long (90, 5m, 1h30m)."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def _stop_options(function: F) -> F:
    for decorate in reversed(
        (
            click.option("--pid", type=click.IntRange(2), metavar="PID", help="The server with this launcher."),
            click.option("--grace", "grace_s", type=NumberRange(0), metavar="SECONDS", help="How long it may drain; 0 is no limit."),
            click.option("--keep-leftovers", is_flag=True, help="Leave what it left in /dev/shm."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def _common_options(function: F) -> F:
    for decorate in reversed(
        (
            click.option("--dry-run", is_flag=True, help="Print every command that would run, and change nothing."),
            click.option("--yes", is_flag=True, help="Do not ask."),
            click.option("--confirm", metavar="NAME", help="The name of a production node, instead of typing it."),
            click.option("--json", "as_json", is_flag=True, help="Print events, one JSON object a line; the last is `result`."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


@click.command(
    help="Restart the server on NODE: stop it, wait for its GPUs, launch it again, and see that it runs.",
    epilog=_EXIT.format(
        nothing=_NO_RECIPE, failed="the stop failed, or GPUs or ports were not free", launched=_LAUNCHED
    )
    + _ASKS
    + _JSON.format(_JSON_WAITS),
)
@server_options
@_launch_options
@_stop_options
@_common_options
def restart(
    node: str, port: int | None, ssh_config: Path | None, speed: float | None, scenario: str | None,
    profile: str | None, variant: str | None, changes: tuple[str, ...], launcher: str | None, back: bool, again: bool, waits: bool, timeout_s: float | None,
    pid: int | None, grace_s: float | None, keep_leftovers: bool, dry_run: bool, yes: bool, confirm: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Run the whole sequence."""
    wish = _wish(
        "restart",
        port,
        profile,
        variant,
        changes,
        launcher,
        back=back,
        again=again,
        pid=pid,
        keep_leftovers=keep_leftovers,
    )
    asked = Asked(dry_run, yes, confirm, waits, timeout_s, as_json, grace_s)
    return _run(node, ssh_config, speed, scenario, wish, asked)


@click.command(
    help="Start a server on NODE: the profile's, else the one that ran last.",
    epilog=_EXIT.format(nothing=_NO_RECIPE, failed="GPUs or ports were not free", launched=_LAUNCHED)
    + _ASKS
    + _JSON.format(_JSON_WAITS),
)
@server_options
@_launch_options
@_common_options
def start(
    node: str, port: int | None, ssh_config: Path | None, speed: float | None, scenario: str | None,
    profile: str | None, variant: str | None, changes: tuple[str, ...], launcher: str | None, back: bool, again: bool, waits: bool, timeout_s: float | None,
    dry_run: bool, yes: bool, confirm: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Check that nothing is in the way, and launch."""
    wish = _wish("start", port, profile, variant, changes, launcher, back=back, again=again)
    asked = Asked(dry_run, yes, confirm, waits, timeout_s, as_json, None)
    return _run(node, ssh_config, speed, scenario, wish, asked)


@click.command(
    help="Stop the server on NODE: let it drain, then end what is left of it, and see that its GPUs are free.",
    epilog=_EXIT.format(
        nothing="nothing to stop", failed="the stop failed, or GPUs or ports were not free", launched=""
    )
    + _ASKS
    + _JSON.format(""),
)
@server_options
@click.option("--profile", metavar="P", help="The server of this profile, by its port; it drains as the profile says.")
@_stop_options
@_common_options
def stop(
    node: str, port: int | None, ssh_config: Path | None, speed: float | None, scenario: str | None,
    profile: str | None, pid: int | None, grace_s: float | None, keep_leftovers: bool, dry_run: bool, yes: bool, confirm: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Stop it, and check."""
    wish = _wish("stop", port, profile, None, (), None, pid=pid, keep_leftovers=keep_leftovers)
    asked = Asked(dry_run, yes, confirm, wait=False, timeout_s=None, as_json=as_json, grace_s=grace_s)
    return _run(node, ssh_config, speed, scenario, wish, asked)


def _wish(
    kind: Kind, port: int | None, profile: str | None, variant: str | None, changes: tuple[str, ...], launcher: str | None, *,
    back: bool = False, again: bool = False, pid: int | None = None, keep_leftovers: bool = False,
) -> Wish:  # fmt: skip
    """Raises UsageError for a change that cannot be understood."""
    from eagletui.engines.command_line import BadChangeError, parse_change
    from eagletui.launching.plan import Wish

    try:
        told = tuple(parse_change(one) for one in changes)
    except BadChangeError as error:
        raise UsageError(f"--set: {error}") from None
    if variant is not None and profile is None:
        raise UsageError("--variant is of a profile: name it with --profile")
    if back and profile is not None:
        raise UsageError("--back and --profile both say what to launch: name one of them")
    return Wish(
        kind, port=port, pid=pid, profile=profile, variant=variant, changes=told, launcher=launcher, again=again, back=back,
        remove_leftovers=not keep_leftovers,
    )  # fmt: skip


def _run(
    name: str, ssh_config: Path | None, speed: float | None, scenario: str | None, wish: Wish, asked: Asked
) -> int:  # fmt: skip
    """The command, from the options to the exit status."""
    from eagletui.cli.operator_of import open_operator
    from eagletui.cli.sequence_output import step_output_for
    from eagletui.cli.wait_output import NobodyReads

    if not (asked.yes or asked.dry_run or sys.stdin.isatty()):
        raise UsageError(
            f"there is no terminal to ask on, and nothing was touched: `eagletui {wish.kind} {name} --yes` does it without asking, "
            "--dry-run shows what would be done"
        )
    if asked.timeout_s is not None and not asked.wait:
        raise UsageError("--timeout is how long --wait waits")
    out = step_output_for(as_json=asked.as_json)
    prompter = None
    if sys.stdin.isatty():
        from eagletui.cli.prompter import TerminalPrompter

        prompter = TerminalPrompter()
    operator, node, watch, count = open_operator(
        name, ssh_config, speed, scenario, prompter, out.watching if asked.wait else None, asked.timeout_s
    )
    try:
        return asyncio.run(_with_node(operator, node, watch, count, wish, asked, out))
    except NobodyReads as gone:
        return gone.exit_status


async def _with_node(
    operator: NodeOperator, node: Node, watch: MonitorWatch | None, count: RequestCount, wish: Wish, asked: Asked, out: StepOutput
) -> int:  # fmt: skip
    later = asyncio.get_running_loop().call_later(QUIET_S, out.watching.connecting, node.name)
    try:
        try:
            await node.connect()
            later.cancel()
            return await _planned(operator, watch, count, wish, asked, out)
        except NodeError as error:
            if not asked.as_json:
                raise
            out.refused(error.exit_status, "no-link", str(error))
            return error.exit_status
    finally:
        later.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await node.aclose()


async def _planned(
    operator: NodeOperator, watch: MonitorWatch | None, count: RequestCount, wish: Wish, asked: Asked, out: StepOutput
) -> int:  # fmt: skip
    """Plan, ask, do. Raises NodeError."""
    from eagletui.cli.plan_text import plan_lines, refusal_text

    plan = await operator.prepare(wish)
    if asked.grace_s is not None:
        plan = replace(plan, grace_s=asked.grace_s)
    if plan.refused:
        return _refuse(plan, refusal_text(plan), out)
    if asked.dry_run:
        return await _dry_run(operator, plan, out, as_json=asked.as_json)
    plan = await operator.check(plan)
    if plan.server is not None and plan.kind != "start":
        await count.ask(plan.server)
        plan = replace(plan, running_requests=count.now)
    if not (asked.as_json and asked.yes):
        out.say(plan_lines(plan, colour=out.colour))
    failed = [one for one in plan.checks or () if one.result == "fail"]
    if failed:
        text = "; ".join(f"{one.text}{'' if one.todo is None else f' ({one.todo})'}" for one in failed)
        out.refused(REFUSED, "preflight", f"preflight failed, nothing was touched: {text}")
        return REFUSED
    declined = _declined(plan, asked)
    if declined is not None:
        out.refused(declined[0], "declined", declined[1])
        return declined[0]
    counting = None if plan.server is None else asyncio.create_task(count.keep_asking(plan.server))
    try:
        return await _followed(operator.begin(plan), operator, watch, out)
    finally:
        if counting is not None:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)


def _refuse(plan: Plan, text: str, out: StepOutput) -> int:
    codes = {one.code for one in plan.refusals if not (one.again and plan.wish.again)}
    status = NOTHING_THERE if codes <= _NOTHING else REFUSED
    out.refused(status, min(codes), text)
    return status


async def _dry_run(operator: NodeOperator, plan: Plan, out: StepOutput, *, as_json: bool) -> int:
    from eagletui.cli.plan_text import dry_lines, plan_lines

    commands = await operator.dry_run(plan)
    if as_json:
        from eagletui.cli.sequence_events import plan_model

        click.echo(plan_model(commands).model_dump_json(by_alias=True))
        return 0
    out.say(plan_lines(plan, colour=out.colour))
    for line in dry_lines(commands):
        click.echo(line)
    return 0


def _declined(plan: Plan, asked: Asked) -> tuple[int, str] | None:
    """Exit status and why, where a question was not answered with yes; None when all were. Asks on the terminal."""
    terminal = sys.stdin.isatty()
    for question in plan.questions:
        if question.typed is not None:
            if asked.confirm == question.typed:
                continue
            if asked.confirm is not None:
                return REFUSED, f"--confirm {asked.confirm!r} is not the name of this node; nothing was touched"
            if not terminal:
                told = "there is no terminal to type it on, and --yes does not answer it; --confirm NAME does"
                return USAGE, f"{question.text}: {told}. Nothing was touched"
            if click.prompt(question.text, default="", show_default=False, err=True).strip() != question.typed:
                return REFUSED, "that is not its name; nothing was touched"
        elif not asked.yes and not click.confirm(question.text, err=True):
            return REFUSED, "declined; nothing was touched"
    if not asked.yes and not click.confirm(f"{plan.kind.capitalize()}?", err=True):
        return REFUSED, "declined; nothing was touched"
    return None


async def _followed(run: SequenceRun, operator: NodeOperator, watch: MonitorWatch | None, out: StepOutput) -> int:
    """Tell the steps until it ended; what tells us to end aborts where that is safe. Raises NobodyReads."""
    from eagletui.cli.wait import told_to_end

    news = asyncio.Event()
    operator.on_change = news.set
    heard = 0
    status: int | None = None
    try:
        with told_to_end(news.set, out.watching.descriptor) as told:
            while run.progress.ending == "running":
                out.show(run.progress)
                if len(told) > heard:
                    status = told[0]
                    await _interrupted(run, out, first=heard == 0 and told[-1] == INTERRUPT)
                    heard = len(told)
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await news.wait()
                news.clear()
            progress = await run.wait()
    finally:
        await run.leave()
    if status is not None and progress.ending == "aborted":
        out.end(progress, None, operator.node_name, status)
        return status
    out.end(progress, None if watch is None else watch.ended, operator.node_name, progress.result)
    return progress.result


INTERRUPT = 130


async def _interrupted(run: SequenceRun, out: StepOutput, *, first: bool) -> None:
    """ctrl+c asks for an end where it is safe; a second one, or who ends us, leaves the node as it is, which is said."""
    progress = run.progress
    if not first:
        await run.leave()
    elif run.abort():
        if progress.why_not:
            out.say((f"ctrl+c: {progress.why_not}. A second ctrl+c leaves it to end by itself.",))
    else:
        out.say((f"ctrl+c: {progress.why_not}. A second ctrl+c leaves now; {progress.now_true}",))
