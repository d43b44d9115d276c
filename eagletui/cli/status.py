"""`status`: one snapshot of a node, as JSON or for a person; the exit status tells the worst state."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.cli.options import node_options, open_chosen
from eagletui.errors import LoginCancelledError, NodeError

if TYPE_CHECKING:
    from eagletui.monitor.report import StatusModel
    from eagletui.nodes.prompter import Prompter

_EPILOG = """Exit status: 0 ready, 10 starting or stopping, 11 degraded or unknown, 12 stalled, 13 crashed, 14 no server, 20 no link,
2 usage, 130 ctrl+c.
With several servers the worst counts; --port picks one. A login that has something to ask does so only where stdin is a terminal."""


@click.command(help="Print one snapshot of NODE (demo, local, or anything ssh accepts).", epilog=_EPILOG)
@node_options
@click.option("--json", "as_json", is_flag=True, help="Print the object eagletui.status/1 instead of text.")
def status(
    node: str, port: int | None, log_path: str | None, ssh_config: Path | None, speed: float | None,
    scenario: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Look once and print."""
    model = asyncio.run(_look(node, port, log_path, ssh_config, speed, scenario))
    if as_json:
        click.echo(model.model_dump_json(by_alias=True, indent=1))
    else:
        from eagletui.cli.status_text import status_text

        click.echo(status_text(model, port))
    if model.link.state == "down":
        click.echo(f"eagletui: {model.link.error}", err=True)
    return exit_status(model)


def exit_status(model: StatusModel) -> int:
    """By the link, then by the worst server."""
    from eagletui.servers.model import State

    if model.link.state == "down":
        return State.OFFLINE.exit_status
    states = [State(server.state) for server in model.servers]
    return max(states, key=lambda s: s.badness, default=State.ABSENT).exit_status


def _person() -> Prompter | None:
    """Whoever sits at the terminal; in scripts and pipes nobody is asked."""
    if not sys.stdin.isatty():
        return None
    from eagletui.cli.prompter import TerminalPrompter

    return TerminalPrompter()


async def _look(
    node_name: str, port: int | None, log_path: str | None, ssh_config: Path | None, speed: float | None,
    scenario: str | None,
) -> StatusModel:  # fmt: skip
    from eagletui.monitor.survey import offline, survey

    node = open_chosen(node_name, ssh_config, speed, _person(), scenario=scenario)
    try:
        try:
            return await survey(node, port=port, log_path=log_path)
        except LoginCancelledError:
            raise
        except NodeError as error:
            return offline(node_name, error)
    finally:
        await node.aclose()
