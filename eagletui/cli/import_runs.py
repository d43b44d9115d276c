"""`import`: runs that bench_serving made elsewhere, into the history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.errors import UsageError

if TYPE_CHECKING:
    from eagletui.bench.kept import KeptRun

MOST_BYTES = 512 << 20
"""A file of bench_serving with every request of a hundred long runs is smaller; more would fill the memory."""
QUOTED = 5
"""Lines of a file that are told wrong, each by itself."""
_EPILOG = """What is imported twice is kept once. Lines that follow each other with the same arguments, tag and server are repeats of one run.
Exit status: 0, 2 nothing could be read, or usage."""


@click.command(
    "import",
    help="Keep the runs of FILE, made elsewhere: what `sglang.bench_serving --output-file` appended, or `vllm bench serve --save-result` wrote.",
    epilog=_EPILOG,
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--node", metavar="NODE", default=None, help="Where they were measured, as you name it to the other commands."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the object eagletui.history/1, with the runs that are new."
)
def import_runs(files: tuple[str, ...], node: str | None, as_json: bool) -> int:
    """Read each, keep what is new, and print it."""
    from eagletui.bench.foreign import read_foreign
    from eagletui.bench.kept import KeptRuns
    from eagletui.cli.keeping import history_of

    if node == "demo":
        raise UsageError("the demo forgets its history when it ends: there is nothing to import into")
    history = history_of("")
    machine = (history.machine_of(node) if node is not None else None) or ""
    runs = KeptRuns(history)
    new: list[KeptRun] = []
    known = 0
    readable = False
    for name in files:
        text, changed = _read(name)
        found = read_foreign(text, changed, node=node, machine=machine)
        _complain(name, found.problems)
        readable = readable or bool(found.runs)
        for one in found.runs:
            result = replace(one.result, run=runs.new_id())
            tags = () if one.tag is None else tuple(one.tag.split())
            if runs.record(result, origin="imported", source=one.source, tags=tags):
                new.append(runs.find(result.run))
            else:
                known += 1
    if known:
        click.echo(f"eagletui: {known} of them {'was' if known == 1 else 'were'} imported before", err=True)
    if not readable:
        raise UsageError(f"no run of bench_serving is in {', '.join(files)}")
    if as_json:
        from eagletui.cli.history_model import HISTORY, HistoryModel, run_model, text_of

        click.echo(text_of(HistoryModel(schema=HISTORY, launches=[], runs=list(map(run_model, new)))))
    elif new:
        from eagletui.cli.history_text import runs_text

        click.echo(runs_text(new))
    return 0


def _complain(name: str, problems: tuple[str, ...]) -> None:
    for problem in problems[:QUOTED]:
        click.echo(f"eagletui: {name}: {problem}", err=True)
    if len(problems) > QUOTED:
        click.echo(f"eagletui: {name}: and {len(problems) - QUOTED} more lines like these", err=True)


def _read(name: str) -> tuple[str, float]:
    """A file's text, and when it was written last. Raises UsageError."""
    path = Path(name)
    try:
        about = path.stat()
        if not path.is_file():
            raise UsageError(f"{name} is no file")
        if about.st_size > MOST_BYTES:
            raise UsageError(f"{name} has {about.st_size >> 20} MiB; {MOST_BYTES >> 20} are read at most")
        return path.read_bytes().decode("utf-8", "replace"), about.st_mtime
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
