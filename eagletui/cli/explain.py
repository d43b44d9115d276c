"""`explain`: reads a log that exists and says what became of each launch, how long what took, and why it failed."""

from __future__ import annotations

from math import isfinite

import click

from eagletui.cli.explain_input import from_terminal, open_log
from eagletui.cli.options import NumberRange
from eagletui.errors import UsageError

_EPILOG = """Exit status: 0 no failure, 13 crashed (or never started), 12 stalled, 2 the file cannot be read.

Files ending in any name may be gzip or zstd. Without --idle a silent log is no stall: nobody says how long it has been silent."""
_FAILED = {"crashed": 13, "stalled": 12}


@click.command(
    help="Explain LOGFILE (- reads stdin): launches, phases, times, throughput, and the cause of a failure.",
    epilog=_EPILOG,
)
@click.argument("logfile")
@click.option(
    "--engine",
    type=click.Choice(["auto", "sglang", "vllm"]),
    default="auto",
    show_default=True,
    help="Whose log it is.",
)
@click.option("--idle", "idle_s", type=NumberRange(min=0), metavar="SECONDS", help="How long the file has not grown.")
@click.option(
    "--exit-code", type=click.IntRange(-255, 255), metavar="N", help="What the process returned (-9 or 137: killed)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the object eagletui.explain/1 instead of text.")
def explain(logfile: str, engine: str, idle_s: float | None, exit_code: int | None, as_json: bool) -> int:
    """Read it, and print."""
    from eagletui.cli.options import use_own_rules
    from eagletui.logs.explain import explain as read

    if idle_s is not None and not isfinite(idle_s):
        raise UsageError("--idle is no number of seconds")
    if logfile == "":
        raise UsageError("the name of the log file is empty")
    if from_terminal(logfile):
        click.echo("eagletui: reading a log from the terminal; end it with Ctrl+D", err=True)
    use_own_rules()
    with open_log(logfile) as log:
        told = read(
            log.blocks(), engine=None if engine == "auto" else engine, idle_s=idle_s, exit_code=exit_code,
            newest_first=log.newest_first,
        )  # fmt: skip
    if as_json:
        from eagletui.cli.explain_model import build

        click.echo(build(told).model_dump_json(by_alias=True, indent=1))
    else:
        from eagletui.cli.explain_text import explain_text

        click.echo(explain_text(told, logfile))
    return _FAILED.get(told.worst, 0)
