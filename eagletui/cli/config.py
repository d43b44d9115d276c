"""`config init`, `config check`, `config path`, `config schema`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from eagletui.cli.options import reaching_options
from eagletui.config.place import is_there, own_path, project_path

_INIT = """Without NODE a commented template is written. With NODE a profile is made from the server that runs there: command, folder, environment,
log and port, read from /proc. It is added at the end of the file; nothing that stands there is changed. Nothing secret is written: such a variable
is taken from the login on the node, or left out, which is said.

Exit status: 0 written, 14 no server on the node, 16 several (choose with --port or --pid) or one that does not tell what it was started with,
20 no link, 2 usage, or a file that cannot be written, 130 ctrl+c."""


@click.group(help="Your configuration: make it, check it, see where it is and what may stand in it.")
def config() -> None:
    """The commands do their own work."""


@config.command(help="Write a profile from the server that runs on NODE, or a commented template.", epilog=_INIT)
@reaching_options
@click.option("--port", type=click.IntRange(1, 65535), help="The server that listens on this port.")
@click.option("--pid", type=click.IntRange(2), metavar="PID", help="The server with this launcher.")
@click.option("--profile", "name", metavar="NAME", help="What to call the profile (its model's name otherwise).")
@click.option("--output", metavar="FILE", help="Where to write it; - is stdout. Your own file otherwise.")
def init(
    node: str | None, ssh_config: Path | None, speed: float | None, scenario: str | None, port: int | None, pid: int | None, name: str | None,
    output: str | None,
) -> int:  # fmt: skip
    """Make it."""
    from eagletui.cli.config_init import init_from_server, init_template
    from eagletui.errors import UsageError

    if node is None:
        if port is not None or pid is not None or name is not None:
            raise UsageError("--port, --pid and --profile are of a server on a node: name the NODE, too")
        return init_template(output)
    if port is not None and pid is not None:
        raise UsageError("--port and --pid both choose the server: name one of them")
    return init_from_server(node, ssh_config, speed, scenario, port, pid, name, output)


@config.command(help="Check the configuration; Exit status: 0 where it can be used, else 2.")
def check() -> int:
    """Tell everything that is wrong."""
    from eagletui.cli.config_check import check_all

    return check_all()


@config.command(help="Print where your configuration is, and the project's where there is one in this folder.")
def path() -> int:
    """One a line; what is not there is said on stderr."""
    click.echo(str(own_path()))
    if not is_there(own_path()):
        click.echo("eagletui: it is not there yet; `eagletui config init` writes one", err=True)
    if is_there(project_path()):
        click.echo(str(project_path().absolute()))
    return 0


@config.command(help="Print the JSON Schema of the configuration.")
def schema() -> int:
    """For editors."""
    from eagletui.config.models import Config

    told = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
        "title": "eagletui",
    }
    click.echo(json.dumps(told, indent=1, ensure_ascii=False))
    return 0
