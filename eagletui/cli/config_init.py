"""`config init`: a template, or a profile from a server that runs."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.cli.options import open_chosen
from eagletui.config.place import own_path
from eagletui.errors import ConfigError, NothingThereError, RefusedError, UsageError

if TYPE_CHECKING:
    from eagletui.config.written import Draft
    from eagletui.launching.looking import Runs
    from eagletui.nodes.base import Node
    from eagletui.servers.model import Server

MODE = 0o600
"""A configuration tells where one logs in and how servers are started: for nobody else to read."""
CLOSING_S = 5.0


def init_template(output: str | None) -> int:
    """The commented template, where there is no file yet."""
    from eagletui.config.written import TEMPLATE

    if output == "-":
        click.echo(TEMPLATE, nl=False)
        return 0
    path = Path(output) if output is not None else own_path()
    if os.path.lexists(path):
        raise UsageError(
            f"{path} is there already and was not touched. `eagletui config init NODE` adds a profile to it, `--output -` prints the template"
        )
    _write(path, TEMPLATE, None)
    click.echo(f"{path} was written; everything in it is a comment until you change that", err=True)
    return 0


def init_from_server(
    node: str, ssh_config: Path | None, speed: float | None, scenario: str | None, port: int | None, pid: int | None, name: str | None,
    output: str | None,
) -> int:  # fmt: skip
    """A profile from a server that runs, added to the file."""
    from eagletui.config.written import profile_text

    path = None if output == "-" else Path(output) if output is not None else own_path()
    there, names = _what_is_there(path)
    if name is not None:
        _check_name(name)
    if name is not None and name in names:
        raise UsageError(
            f"{path} has a profile {name!r} already and was not touched: choose another name with --profile"
        )
    prompter = None
    if sys.stdin.isatty():
        from eagletui.cli.prompter import TerminalPrompter

        prompter = TerminalPrompter()
    opened = open_chosen(node, ssh_config, speed, prompter, scenario=scenario)
    draft, notes = asyncio.run(_draft(opened, node, port, pid, name, names))
    try:
        text = profile_text(draft)
    except ValueError as error:
        raise ConfigError(
            f"the server on {node} cannot be written as a profile: a word of its command or a path: {error}"
        ) from None
    if path is None:
        click.echo(text, nl=False)
    else:
        _add(path, there, text)
        click.echo(f"{path}: the profile {draft.name} was written", err=True)
    for note in notes:
        click.echo(f"  {note}", err=True)
    return 0


def _check_name(name: str) -> None:
    """A name is judged as in the file. Raises UsageError."""
    from eagletui.config.models import Config

    try:
        Config.model_validate({"profiles": {name: {"command": ["true"]}}})
    except ValueError:
        raise UsageError(
            f"--profile: {name!r} is no name of a profile: printable characters, not beginning with a hyphen"
        ) from None


def _what_is_there(path: Path | None) -> tuple[str | None, frozenset[str]]:
    """A file's text, None where there is none, and its profiles. Raises ConfigError for one that is not in order: nothing is added to it."""
    if path is None:
        return None, frozenset()
    from eagletui.config.load import read_config
    from eagletui.config.reading import UnreadableError, read_source

    try:
        source = read_source(path)
    except FileNotFoundError:
        return None, frozenset()
    except UnreadableError as error:
        raise ConfigError(f"{error}. Nothing was written") from None
    problems = read_config(path, Path(os.devnull) / "none").problems
    if problems:
        told = "\n".join(map(str, problems))
        raise ConfigError(f"nothing is added to a file that is not in order:\n{told}")
    profiles = source.table.get("profiles")
    return source.text, frozenset(profiles) if isinstance(profiles, dict) else frozenset()


async def _draft(
    node: Node, called: str, port: int | None, pid: int | None, name: str | None, names: frozenset[str]
) -> tuple[Draft, tuple[str, ...]]:
    from eagletui.launching.adopt import read_context, read_login, recipe_of_process
    from eagletui.launching.drafting import as_kept, draft_of, name_of
    from eagletui.servers.ownership import kept_by
    from eagletui.shell.ownership import ask_ownership, parse_ownership

    try:
        await node.connect()
        server = await _server(node, called, port, pid)
        launcher = server.launcher.pid if server is not None else pid
        if launcher is None:
            raise NothingThereError(
                f"There is no server on {called}. `eagletui config init` without a node writes a template."
            )
        context, login = await read_context(node, launcher), await read_login(node)
        recipe = recipe_of_process(context, log="", port=server.port if server is not None else None)
        chosen = name or name_of(recipe, names)
        draft, notes = draft_of(recipe, context, login, name=chosen, node=called)
        facts = parse_ownership((await node.run(ask_ownership((launcher,)))).stdout)
        drafted = as_kept(draft, notes, kept_by(context.argv, launcher, facts))
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await node.aclose()
    return drafted


async def _server(node: Runs, called: str, port: int | None, pid: int | None) -> Server | None:
    """The server that is meant; None for a pid that is no server as far as can be told. Raises NodeError, NothingThereError, RefusedError."""
    from eagletui.launching.looking import find_servers

    servers = [one for one in (await find_servers(node)).servers if one.ours or pid is not None]
    if pid is not None:
        return next((one for one in servers if one.launcher.pid == pid), None)
    if port is not None:
        servers = [one for one in servers if one.port == port]
        if not servers:
            raise NothingThereError(f"No server of yours listens on port {port} of {called}.")
    if len(servers) > 1:
        told = ", ".join(f"port {one.port} (pid {one.launcher.pid}, {one.engine})" for one in servers)
        raise RefusedError(
            f"Several servers run on {called}: {told}. Choose one with --port or --pid.", code="several-servers"
        )
    return servers[0] if servers else None


def _add(path: Path, there: str | None, profile: str) -> None:
    """The file with the profile at its end, where it is in order then, too. Raises ConfigError; nothing was touched."""
    import tomllib

    from eagletui.config.models import Config
    from eagletui.config.written import added

    text = added(there or "", profile)
    try:
        Config.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            f"{path} was not touched: nothing can be added at its end. Write its profiles as tables ([profiles.NAME]), or use `--output -`"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path} was not touched: the server cannot be written as a profile: {error}") from None
    _write(path, text, there)


def _put(name: str, real: Path, text: str) -> None:
    """A file where there is none. Raises FileExistsError where one appeared meanwhile."""
    try:
        os.link(name, real)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        with os.fdopen(os.open(real, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w", encoding="utf-8") as file:
            file.write(text)


def _write(path: Path, text: str, before: str | None) -> None:
    """The file whole or not at all, for its owner alone unless it was there with other rights; where it changed meanwhile it is left. Links are followed."""
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = real.stat().st_mode & 0o7777 if before is not None else MODE
        handle, name = tempfile.mkstemp(prefix=f".{real.name}-", dir=real.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            if before is None:
                _put(name, real, text)
            elif real.read_text(encoding="utf-8-sig") != before:
                raise ConfigError(f"{path} was changed by somebody else just now, and was not touched")
            else:
                Path(name).replace(real)
        finally:
            Path(name).unlink(missing_ok=True)
    except FileExistsError:
        raise ConfigError(f"{path} was made by somebody else just now, and was not touched") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from None
