"""`sweep`: variants launched and benchmarked in turn, unattended; an interrupted one is gone on with."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.cli.options import server_options
from eagletui.errors import EagletuiError, NodeError, RefusedError, UsageError

if TYPE_CHECKING:
    from eagletui.bench.load import Load
    from eagletui.bench.sweep.drive import Sweep, Terms
    from eagletui.bench.sweep.state import SweepState, SweepStore
    from eagletui.cli.sweep_output import SweepOutput
    from eagletui.config.sweep import SweepFile
    from eagletui.history.store import History
    from eagletui.launching.operating import NodeOperator
    from eagletui.launching.plan import Plan
    from eagletui.nodes.base import Node

SOME_FAILED = 21
INTERRUPTED = 130
CLOSING_S = 5.0
SIMULATED = "demo"
"""A fresh node for each process: there is nothing to go on with."""
WIDTH = 100
"""Of the report where no terminal tells one."""

_EPILOG = """FILE is TOML: flags and the values to try, and how each is measured.

\b
  profile = "llama"            # else the server that runs, or ran last
  preset = "standard"          # of `eagletui bench`
  order = "interleaved"        # given, random, interleaved (the baseline before each cell)
  [flags]                      # every combination is a cell; false leaves a flag out
  speculative-num-steps = [2, 3, 5]
  [[cells]]                    # and these by hand
  name = "no graphs"
  set = { disable-cuda-graph = true }

Each cell is restarted, waited for, benchmarked and written down; one that cannot start is written down with its cause, and the next has its turn. The same
command goes on where one was interrupted; --fresh begins anew.

Exit status: 0 all measured, 21 some failed, 16 refused or declined, 17 a stop failed (the sweep ends there), 20 no link, 2 usage; 130 after ctrl+c."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asked for, but for the node."""

    file: Path
    port: int | None
    fresh: bool
    dry_run: bool
    yes: bool
    confirm: str | None
    again: bool
    report: Path | None


@click.command(help="Launch and benchmark each variant of FILE on NODE in turn, unattended.", epilog=_EPILOG)
@server_options
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--fresh", is_flag=True, help="Begin anew, also where an interrupted one could be gone on with.")
@click.option("--dry-run", is_flag=True, help="Print the cells, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--confirm", metavar="NAME", help="The name of a production node, instead of typing it.")
@click.option("--again", is_flag=True, help="Also launch what would be refused as of no help.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report there, as Markdown.",
)
@click.option("--json", "as_json", is_flag=True, help="Print events, one JSON object a line; the last is `result`.")
def sweep(
    node: str, port: int | None, ssh_config: Path | None, speed: float | None, scenario: str | None, file: Path,
    fresh: bool, dry_run: bool, yes: bool, confirm: str | None, again: bool, report: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """From the options to the exit status."""
    from eagletui.cli.keeping import history_of
    from eagletui.cli.operator_of import operator_for
    from eagletui.cli.options import open_chosen
    from eagletui.cli.sequence_watch import MonitorWatch
    from eagletui.cli.sweep_output import sweep_output_for
    from eagletui.cli.wait_output import NobodyReads
    from eagletui.config.sweep import load_sweep, seconds_of

    found, text = load_sweep(file)
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError(
            "there is no terminal to ask on, and nothing was touched: --yes does it without asking, --dry-run shows it"
        )
    prompter = None
    if sys.stdin.isatty():
        from eagletui.cli.prompter import TerminalPrompter

        prompter = TerminalPrompter()
    out = sweep_output_for(as_json=as_json)
    chosen = open_chosen(node, ssh_config, speed, prompter, scenario=scenario)
    history = history_of(node, speed)
    watch = MonitorWatch(chosen, out.watching, history, seconds_of(found.start_timeout))
    operator = operator_for(chosen, node, history, watch)
    asked = Asked(file, port, fresh, dry_run, yes, confirm, again, report)
    try:
        return asyncio.run(_with_node(chosen, operator, history, found, text, asked, out))
    except NobodyReads as gone:
        return gone.exit_status


async def _with_node(
    node: Node, operator: NodeOperator, history: History | None, found: SweepFile, text: str, asked: Asked, out: SweepOutput
) -> int:  # fmt: skip
    from eagletui.bench.sweep.cells import identity_of
    from eagletui.bench.sweep.state import SweepStore, default_folder

    store = SweepStore(_folder_of(node, default_folder()))
    name = identity_of(operator.node_name, asked.port, text)
    try:
        await node.connect()
        with store.alone(name):
            return await _begun(node, operator, history, found, asked, out, store, name)
    finally:
        await operator.aclose()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await node.aclose()


def _folder_of(node: Node, usual: Path) -> Path:
    """A demo node is a fresh one for each process: nothing of it is gone on with, so nothing of it is kept with what is real."""
    if node.name != SIMULATED:
        return usual
    import atexit
    import tempfile

    folder = tempfile.mkdtemp(prefix="eagletui-sweep-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


async def _begun(
    node: Node, operator: NodeOperator, history: History | None, found: SweepFile, asked: Asked, out: SweepOutput, store: SweepStore, name: str
) -> int:  # fmt: skip
    """The plan of the whole, the question, and the row of cells."""
    from eagletui.bench.sweep.drive import Sweep, Terms
    from eagletui.cli.sweep_measure import measure_on

    if asked.fresh:
        store.set_aside(name)
    state = store.read(name)
    load = load_of(found)
    plan = await _first_plan(operator, found, asked)
    if state is None:
        state = _new(name, operator.node_name, found, load, asked, plan)
    elif state.at is None:
        out.say(
            (f"{asked.file} was gone through on {operator.node_name} before: this is its report; --fresh begins anew",)
        )
        return _told(state, asked, out)
    _check_cells(state, plan)
    if asked.dry_run:
        out.say(_cell_lines(state))
        return 0
    out.say(_begin_lines(state, plan))
    terms = Terms(asked.port, _accepted(plan, asked, len(state.cells) - (state.at or 0)), asked.again)
    measure = measure_on(node, operator.node_name, history, load)
    return await _followed(Sweep(state, store, operator, measure, terms, lambda: None), found, terms, asked, out)


def load_of(found: SweepFile) -> Load:
    """The preset with what the file says instead. Raises UsageError for a preset that is none."""
    from eagletui.bench.presets import preset_named
    from eagletui.cli.configured import own_presets

    wanted = {key: value for key, value in found.load.model_dump().items() if value is not None}
    return replace(preset_named(found.preset, own_presets()), runner=found.runner, **wanted)


async def _first_plan(operator: NodeOperator, found: SweepFile, asked: Asked) -> Plan:
    """The restart of the baseline: what it would stop, and what it asks. Raises RefusedError, NodeError."""
    from eagletui.cli.plan_text import refusal_text
    from eagletui.launching.plan import Wish

    wish = Wish("restart", port=asked.port, profile=found.profile, variant=found.baseline, again=asked.again)
    plan = await operator.prepare(wish)
    if plan.refused:
        raise RefusedError(f"nothing was touched: {refusal_text(plan)}")
    return plan


def _new(sweep: str, node: str, found: SweepFile, load: Load, asked: Asked, plan: Plan) -> SweepState:
    from eagletui.bench.sweep.cells import Tried, combinations, in_order
    from eagletui.bench.sweep.drive import base_values
    from eagletui.bench.sweep.state import CellState, SweepState

    by_hand = tuple(Tried(one.variant, one.changes(), one.name) for one in found.cells)
    row = in_order(
        (*combinations(found.values()), *by_hand), Tried(found.baseline), found.order, found.rounds, found.seed
    )
    cells = tuple(CellState(one) for one in row)
    base = () if found.profile is not None or plan.recipe is None else base_values(plan.recipe.argv, cells)
    return SweepState(sweep, node, str(asked.file), found.profile, load, cells, base, time.time())


def _check_cells(state: SweepState, plan: Plan) -> None:
    """Flags that cannot be changed so are told before anything is stopped. Raises UsageError."""
    from eagletui.bench.sweep.drive import would_be
    from eagletui.engines.command_line import BadChangeError

    if plan.recipe is None:
        return
    for one in state.cells:
        try:
            would_be(plan.recipe.argv, one.cell, state.base)
        except BadChangeError as error:
            raise UsageError(f"{state.file}: cell {one.cell.name!r}: {error}") from None


def _cell_lines(state: SweepState) -> tuple[str, ...]:
    from eagletui.cli.wait_text import safe

    return tuple(f"{number:>4}  {safe(one.cell.name)}" for number, one in enumerate(state.cells, 1))


def _begin_lines(state: SweepState, plan: Plan) -> tuple[str, ...]:
    from eagletui.cli.wait_text import safe
    from eagletui.ui.format import plural

    at = state.at or 0
    load = state.load
    what = (
        "nothing runs now"
        if plan.server is None
        else f"pid {plan.server.pid} on port {plan.server.port} is stopped first"
    )
    lines = [
        f"{plural(len(state.cells), 'cell')}, each launched and measured with {load.repeats} × {load.requests} requests ({load.preset}); {what}"
    ]
    if at:
        lines.append(f"gone on with at cell {at + 1}, {safe(state.cells[at].cell.name)}: {at} had their turn before")
    lines += [safe(other) for other in plan.others]
    return tuple(lines)


def _accepted(plan: Plan, asked: Asked, left: int) -> frozenset[str]:
    """Codes of the questions that are answered for all cells. Raises RefusedError, UsageError."""
    terminal = sys.stdin.isatty()
    for question in plan.questions:
        if question.typed is None:
            if not asked.yes and not click.confirm(question.text, err=True):
                raise RefusedError("declined; nothing was touched")
        elif asked.confirm is not None:
            if asked.confirm != question.typed:
                raise RefusedError(f"--confirm {asked.confirm!r} is not the name of this node; nothing was touched")
        elif not terminal:
            raise UsageError(
                f"{question.text}: there is no terminal to type it on, and --yes does not answer it; --confirm NAME does"
            )
        elif click.prompt(question.text, default="", show_default=False, err=True).strip() != question.typed:
            raise RefusedError("that is not its name; nothing was touched")
    if not asked.yes and not click.confirm(f"Restart it {left} times?", err=True):
        raise RefusedError("declined; nothing was touched")
    return frozenset(question.code for question in plan.questions)


async def _followed(sweep: Sweep, found: SweepFile, terms: Terms, asked: Asked, out: SweepOutput) -> int:
    """Tell how it goes until it ended; ctrl+c leaves it to be gone on with."""
    from eagletui.bench.sweep.drive import EndedError
    from eagletui.cli.wait import told_to_end

    news = asyncio.Event()
    told = _Telling(sweep, out)
    sweep.on_change = news.set
    task = asyncio.create_task(sweep.run())
    status = 0
    with told_to_end(news.set, out.watching.descriptor) as ends:
        while not task.done() and not ends:
            waiting = asyncio.create_task(news.wait())
            await asyncio.wait({task, waiting}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            news.clear()
            told.tell()
        if ends:
            status = ends[0]
            task.cancel()
    try:
        await task
        told.tell()
        await _afterwards(sweep, found, terms, out)
    except asyncio.CancelledError:
        if not status:
            raise
    except (EndedError, NodeError, EagletuiError) as error:
        out.say((f"eagletui: the sweep ended: {error}",))
        status = error.exit_status or 17
    if status and sweep.state.at is not None and sweep.state.node != SIMULATED:
        out.say((f"The same command goes on at cell {(sweep.state.at or 0) + 1} of {len(sweep.state.cells)}.",))
    return _told(sweep.state, asked, out, status)


class _Telling:
    """What was told of a sweep already."""

    def __init__(self, sweep: Sweep, out: SweepOutput) -> None:
        self._sweep = sweep
        self._out = out
        self._outcomes = [one.outcome for one in sweep.state.cells]

    def tell(self) -> None:
        state = self._sweep.state
        for number, one in enumerate(state.cells):
            if one.outcome != self._outcomes[number]:
                self._outcomes[number] = one.outcome
                self._out.cell(state, number)
        if self._sweep.measuring is not None:
            self._out.bench(state, self._sweep.measuring)
        elif self._sweep.running is not None and state.doing == "launching":
            self._out.steps(state, self._sweep.running)


async def _afterwards(sweep: Sweep, found: SweepFile, terms: Terms, out: SweepOutput) -> None:
    """What the file says is to run when all is done. Raises NodeError."""
    if found.afterwards == "leave":
        return
    out.say(
        ("afterwards: " + ("the baseline is launched" if found.afterwards == "baseline" else "the server is stopped"),)
    )
    progress = await sweep.put_back(stop=found.afterwards == "stop", baseline=found.baseline, terms=terms)
    if progress is not None and progress.ending != "done":
        out.say((f"afterwards: {progress.text} {progress.now_true}".rstrip(),))


def _told(state: SweepState, asked: Asked, out: SweepOutput, status: int = 0) -> int:
    """The report, wherever it goes; and the exit status."""
    from eagletui.bench.compare import against
    from eagletui.bench.sweep.report import lines_of, markdown, summary, table
    from eagletui.cli.sweep_output import result_of
    from eagletui.cli.wait_text import safe

    lines = lines_of(state, against)
    status = status or (SOME_FAILED if state.failed else 0)
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    out.say(("", *map(safe, table(lines, width)), "", safe(summary(state, lines))))
    if asked.report is not None:
        day = datetime.fromtimestamp(state.began).astimezone().strftime("%Y-%m-%d %H:%M %Z")
        try:
            asked.report.write_text(markdown(state, lines, day), encoding="utf-8")
        except OSError as error:
            out.say(
                (f"eagletui: {asked.report} cannot be written: {error.strerror}; what was measured is in the history",)
            )
            status = status or 2
    out.end(result_of(state, lines, status))
    return status
