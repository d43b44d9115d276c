"""`history`, `launches`, `compare`, `baseline`, `note` and `tag`: what was launched and measured, looked through and told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from eagletui.errors import UsageError

if TYPE_CHECKING:
    from eagletui.bench.kept import KeptRun, KeptRuns
    from eagletui.history.launches import LaunchRecord
    from eagletui.history.store import History

F = TypeVar("F", bound=Callable[..., object])
MOST_ROWS = 30
"""Rows of a table where no --limit is given: a screen of them. JSON and CSV have all."""
MOST_NOTE_CHARS, MOST_TAG_CHARS = 1_000, 40
"""Of a note, and of a tag."""
_EPILOG = "Exit status: 0, 2 usage, or a history that cannot be read."
_RUN = "RUN is an id of `eagletui history`, or as much of its beginning as no other run has."


def _filters(function: F) -> F:
    for decorate in reversed(
        (
            click.option("--node", metavar="NODE", default=None, help="Of this node alone (demo: of a fresh demo's own history)."),
            click.option("--model", metavar="TEXT", default=None, help="Of models with this in their name."),
            click.option("--profile", metavar="NAME", default=None, help="Of this profile."),
            click.option("--since", "since_text", metavar="TIME", default=None, help="Since then: 2h, 3d, 2026-11-30, 2026-11-30T14:00."),
            click.option("--limit", type=click.IntRange(1, 1_000_000_000), metavar="N", default=None, help=f"The newest N; a table has {MOST_ROWS} otherwise."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


@click.command(
    help="List benchmark runs, newest first, each held against the baseline of its machine.", epilog=f"A star marks a baseline. {_EPILOG}"
)  # fmt: skip
@_filters
@click.option("--tag", metavar="TAG", default=None, help="With this tag.")
@click.option("--json", "as_json", is_flag=True, help="Print the object eagletui.history/1, with launches and runs.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the runs as CSV.")
def history(
    node: str | None, model: str | None, profile: str | None, since_text: str | None, limit: int | None, tag: str | None,
    as_json: bool, as_csv: bool,
) -> int:  # fmt: skip
    """Print them."""
    if as_json and as_csv:
        raise UsageError("--json and --csv are two ways to print the same: give one")
    from eagletui.bench.kept import KeptRuns
    from eagletui.cli.columns import since
    from eagletui.history.runs import LaunchesWanted, RunsWanted

    kept_in = _open(node)
    at = None if since_text is None else since(since_text)
    most = limit if limit is not None or as_json or as_csv else MOST_ROWS
    runs = KeptRuns(kept_in).listed(RunsWanted(None, node, model, profile, at, tag, limit=most))
    if as_csv:
        from eagletui.cli.history_text import runs_csv

        click.echo(runs_csv(runs))
    elif as_json:
        keys = {one.result.facts.launch for one in runs}
        launches = kept_in.launches(LaunchesWanted(None, node, model, profile, at, limit))
        _print_history([one for one in launches if tag is None or one.identity.key in keys], runs)
    elif not runs:
        click.echo(_nothing(filtered=any((node, model, profile, at, tag))))
    else:
        from eagletui.cli.history_text import runs_text

        click.echo(runs_text(runs))
    return 0


@click.command(help="List launches, newest first: how they ended, how long they took.", epilog=_EPILOG)
@_filters
@click.option(
    "--json", "as_json", is_flag=True, help="Print the object eagletui.history/1: launches, and the runs of each."
)
def launches(
    node: str | None, model: str | None, profile: str | None, since_text: str | None, limit: int | None, as_json: bool
) -> int:
    """Print them."""
    from eagletui.bench.kept import KeptRuns
    from eagletui.cli.columns import since
    from eagletui.history.runs import LaunchesWanted, RunsWanted

    kept_in = _open(node)
    at = None if since_text is None else since(since_text)
    most = limit if limit is not None or as_json else MOST_ROWS
    found = kept_in.launches(LaunchesWanted(None, node, model, profile, at, most))
    keys = {one.identity.key for one in found}
    if as_json:
        runs = KeptRuns(kept_in).listed()
        _print_history(found, [one for one in runs if one.result.facts.launch in keys])
    elif not found:
        click.echo("No launch is kept yet: each one that eagletui makes or watches is.")
    else:
        from eagletui.cli.history_text import launches_text

        counts = dict.fromkeys(keys, 0)
        for run in kept_in.runs(RunsWanted()):
            if run.launch in counts:
                counts[run.launch] += 1
        click.echo(launches_text(found, counts))
    return 0


@click.command(help=f"Compare run B with run A: flags, metrics, and whether B is faster. {_RUN}", epilog=_EPILOG)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Print the object eagletui.compare/1.")
def compare(a: str, b: str, as_json: bool) -> int:
    """Print both side by side."""
    from eagletui.bench.compare import against
    from eagletui.bench.side_by_side import metrics

    runs = _kept()
    one, other = runs.find(a), runs.find(b)
    held = against(other.result, one.result)
    found = metrics(one.result, other.result, runs.rows(one.id), runs.rows(other.id))
    if as_json:
        from eagletui.cli.history_model import compare_model, text_of

        click.echo(text_of(compare_model(one, other, held, found)))
    else:
        from eagletui.cli.history_text import compare_text

        click.echo(compare_text(one, other, held, found))
    return 0


@click.command(
    help="Make RUN what runs like it on its machine are held against; without RUN, list the baselines.", epilog=f"{_RUN} {_EPILOG}"
)  # fmt: skip
@click.argument("run", required=False)
@click.option("--clear", is_flag=True, help="RUN is no baseline any more.")
def baseline(run: str | None, clear: bool) -> int:
    """Set, clear or list."""
    runs = _kept()
    if run is None:
        if clear:
            raise UsageError("--clear needs the RUN that is no baseline any more")
        found = [one for one in runs.listed() if one.baseline]
        if found:
            from eagletui.cli.history_text import runs_text

            click.echo(runs_text(found))
        else:
            click.echo("There is no baseline: `eagletui baseline RUN` makes a run one.")
        return 0
    one = runs.find(run)
    if clear:
        runs.set_baseline(one.id, off=True)
        click.echo(f"{one.id} is no baseline any more" if one.baseline else f"{one.id} was no baseline")
        return 0
    before = runs.set_baseline(one.id)
    instead = f", instead of {', '.join(before)}" if before else ""
    click.echo(f"{_named(one)} is the baseline of runs like it{instead}")
    return 0


@click.command(help='Write TEXT beside RUN; "" takes it away.', epilog=f"{_RUN} {_EPILOG}")
@click.argument("run")
@click.argument("text", nargs=-1, required=True)
def note(run: str, text: tuple[str, ...]) -> int:
    """Write it."""
    told = " ".join(" ".join(text).split())
    if len(told) > MOST_NOTE_CHARS:
        raise UsageError(f"a note has {MOST_NOTE_CHARS} characters at most; this one has {len(told)}")
    found = _kept().note(run, told)
    click.echo(f"{found}: {told}" if told else f"{found} has no note any more")
    return 0


@click.command(help="Give RUN tags, by which `history --tag` finds it.", epilog=f"{_RUN} {_EPILOG}")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@click.option("--clear", is_flag=True, help="Take these tags away.")
def tag(run: str, tags: tuple[str, ...], clear: bool) -> int:
    """Add or remove."""
    told = [one.removeprefix("#") for one in tags]
    for one in told:
        if not one or len(one) > MOST_TAG_CHARS or not one.isprintable() or any(c.isspace() for c in one):
            raise UsageError(f"{one!r} is no tag: one word of at most {MOST_TAG_CHARS} letters")
    found, now = _kept().tag(run, () if clear else told, told if clear else ())
    click.echo(f"{found}: {' '.join(f'#{one}' for one in now) or 'no tags'}")
    return 0


def _open(node: str | None) -> History:
    from eagletui.cli.keeping import history_of

    return history_of(node or "")


def _kept() -> KeptRuns:
    from eagletui.bench.kept import KeptRuns

    return KeptRuns(_open(None))


def _named(run: KeptRun) -> str:
    from eagletui.bench.compare import rate_of
    from eagletui.ui.format import number

    return f"{run.id} ({number(rate_of(run.result), 1)} tok/s)"


def _print_history(launches: list[LaunchRecord] | tuple[LaunchRecord, ...], runs: list[KeptRun] | tuple[KeptRun, ...]) -> None:  # fmt: skip
    from eagletui.cli.history_model import HISTORY, HistoryModel, launch_model, run_model, text_of

    click.echo(
        text_of(
            HistoryModel(schema=HISTORY, launches=list(map(launch_model, launches)), runs=list(map(run_model, runs)))
        )
    )


def _nothing(*, filtered: bool) -> str:
    if filtered:
        return "No run is like that; `eagletui history` without options lists all."
    return "No run is kept yet: `eagletui bench NODE` makes one, `eagletui import FILE` takes those of bench_serving."
