"""The command line. Each command's module is imported when that command runs, so that `--help` stays cheap."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from eagletui import __version__
from eagletui.errors import EagletuiError

COMMANDS: dict[str, tuple[str, str]] = {
    "connect": ("eagletui.cli.connect:connect", "Open the screen for a node: demo, local, or anything ssh accepts."),
    "status": ("eagletui.cli.status:status", "Print one snapshot of a node; the exit status tells the state."),
    "wait": ("eagletui.cli.wait:wait", "Wait until a server is ready; the exit status tells what became of it."),
    "restart": ("eagletui.cli.sequence:restart", "Restart a server: stop, wait for its GPUs, launch, verify."),
    "start": ("eagletui.cli.sequence:start", "Start a server from a profile, or as it was launched last."),
    "stop": ("eagletui.cli.sequence:stop", "Stop a server: let it drain, then end what is left of it."),
    "bench": ("eagletui.cli.bench:bench", "Benchmark a server, and hold it against the baseline."),
    "sweep": ("eagletui.cli.sweep:sweep", "Launch and benchmark variants in turn, unattended."),
    "history": ("eagletui.cli.history:history", "List benchmark runs, each held against the baseline."),
    "launches": ("eagletui.cli.history:launches", "List launches: how they ended, how long they took."),
    "compare": ("eagletui.cli.history:compare", "Compare two runs: flags, metrics, and whether one is faster."),
    "baseline": ("eagletui.cli.history:baseline", "Make a run what others are held against."),
    "note": ("eagletui.cli.history:note", "Write a note beside a run."),
    "tag": ("eagletui.cli.history:tag", "Give a run tags."),
    "import": ("eagletui.cli.import_runs:import_runs", "Keep runs that bench_serving made elsewhere."),
    "explain": (
        "eagletui.cli.explain:explain",
        "Explain a log file: phases, times, throughput, the cause of a failure.",
    ),
    "config": ("eagletui.cli.config:config", "Your configuration: init, check, path, schema."),
    "keys": ("eagletui.cli.lists:keys", "List the keys of the screen."),
    "themes": ("eagletui.cli.lists:themes", "List the themes."),
}
"""Command name to (module:attribute, its line in --help): the help of the whole needs no command's module."""

_HELP = """Watch LLM servers (SGLang, vLLM) on GPU nodes over SSH: live log, startup with shard progress, /health, GPUs, throughput.

Try it without a GPU:   eagletui connect demo

Your node:              eagletui connect gpu-node      (a host of ~/.ssh/config, user@host:port, or local)

For scripts:            eagletui status gpu-node --json
"""


class LazyGroup(click.Group):
    """A group that imports a command's module when it is used, and lists all without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, "-V", "--version", message="eagletui %(version)s")
def main() -> None:
    """Entry of the group; every command does its own work."""


def run() -> None:
    """Run the command line and exit: errors become one sentence on stderr and the exit status of their kind."""
    try:
        status = main.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except EagletuiError as error:
        click.echo(f"eagletui: {error}", err=True)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        _output_failed(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        _output_failed(error)
    sys.exit(status if isinstance(status, int) else 0)


def _output_failed(error: OSError) -> NoReturn:
    """Nobody reads (`| head`), or the disk is full: no traceback, not even when the interpreter flushes at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        sys.exit(141)
    click.echo(f"eagletui: the output could not be written: {error.strerror or error}", err=True)
    sys.exit(2)
