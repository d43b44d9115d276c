"""Restart from nothing: what a server that eagletui did not start was started with, as a recipe. And the environments that a profile adds to.

The environment is the launcher's whole one at its start, less what belongs to the session it was started from (DENIED): conda, a venv and modules are thirty
variables, and nobody guesses them. What a program changed in its own environment later is not seen, as its command did that itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, Literal

from eagletui.engines.shapes import launch_of, title_of
from eagletui.errors import LaunchingError, NothingThereError, RefusedError
from eagletui.launching.looking import Runs
from eagletui.launching.recipe import Limits, Recipe
from eagletui.launching.words import plain
from eagletui.shell.context import (
    LOGIN_SHELL_S,
    Environment,
    LaunchContext,
    LoginEnvironment,
    ask_launch_context,
    ask_login_environment,
    parse_launch_context,
    parse_login_environment,
)

DENIED: Final = (
    "SSH_*", "XDG_SESSION_*", "XDG_RUNTIME_DIR", "DBUS_*", "TMUX*", "STY", "TERM*", "DISPLAY", "LS_COLORS", "INVOCATION_ID", "JOURNAL_STREAM",
    "NOTIFY_SOCKET", "LISTEN_*", "SHLVL", "_", "OLDPWD",
)  # fmt: skip
"""Variables of the session, terminal or unit that a process was started from: another launch has none of them, or its own."""
CLEAN: Final = ("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_STATE_HOME")
"""What a profile with `base_env = "clean"` keeps of the login's."""


def kept_environment(environment: Sequence[tuple[str, str]]) -> Environment:
    """An environment less what is DENIED. Pure."""
    return tuple(
        (name, value) for name, value in environment if not any(fnmatchcase(name, denied) for denied in DENIED)
    )


def base_environment(login: LoginEnvironment, base: Literal["login", "clean"]) -> Environment:
    """What a profile's variables are added to. Pure. Raises RefusedError where the login shell did not tell its environment."""
    if base == "clean":
        there = dict(login.own) | dict(login.environ or ())
        return tuple((name, value) for name, value in there.items() if name in CLEAN)
    if login.environ is None:
        raise RefusedError(
            f"{plain(login.shell or 'The login shell')} did not get through its start-up files on the node within {LOGIN_SHELL_S} s, so that a login's "
            'environment is not known. Mend them, or give the profile base_env = "clean".',
            code="no-environment",
        )
    return kept_environment(login.environ)


def recipe_of_process(
    context: LaunchContext, *, log: str, launcher: str = "setsid", port: int | None = None, engine: str | None = None
) -> Recipe:
    """What a process was started with. `log`: the new launch's. Pure.

    Raises NothingThereError where it is gone, RefusedError (code "no-environment" or "no-command") where it does not tell what it was started with.
    """
    if context.gone or not context.complete or context.pid is None:
        raise NothingThereError("The process ended while it was looked at.")
    pid = context.pid
    if not tells_its_command(context):
        raise RefusedError(
            f"Process {pid} has renamed itself to {plain(' '.join(context.argv)[:80]) or 'nothing'}, so its command cannot be read any more. "
            "Start it from a profile (eagletui config init).",
            code="no-command",
        )
    if context.environ is None:
        raise RefusedError(
            f"The environment of process {pid} cannot be read, and without it the server might not start again. "
            "Start it from a profile (eagletui config init).",
            code="no-environment",
        )
    if context.cwd is None or not context.cwd.startswith("/") or context.cwd.endswith(" (deleted)"):
        where = plain(context.cwd or "").removesuffix(" (deleted)")
        what = f"{where} was deleted" if where else "cannot be read"
        raise RefusedError(
            f"The working directory of process {pid} {what}. Start it from a profile (eagletui config init).",
            code="no-environment",
        )
    launch = launch_of(context.argv)
    return Recipe(
        argv=context.argv,
        env=kept_environment(context.environ),
        cwd=context.cwd,
        log=log,
        source="process",
        engine=engine or (launch.engine if launch is not None else None),
        port=port,
        launcher=launcher,
        limits=Limits(context.umask, context.soft, context.cpus),
    )


def tells_its_command(context: LaunchContext) -> bool:
    """Whether the command line is still what was run: a title written over it is one word that is no program's name. Pure."""
    argv = context.argv
    if not argv or not argv[0]:
        return False
    if launch_of(argv) is not None:
        return True
    if title_of(argv, "") is not None:
        return False
    if len(argv) > 1 or context.exe is None:
        return len(argv) > 1
    return argv[0].rpartition("/")[2] == context.exe.removesuffix(" (deleted)").rpartition("/")[2]


def output_file(context: LaunchContext) -> str | None:
    """The file that a process writes to, standard error first. Pure."""
    files = {number: link for number, link, kind in context.outputs if kind == "regular"}
    found = files.get(2) or files.get(1)
    return None if found is None else found.removesuffix(" (deleted)")


async def read_context(node: Runs, pid: int) -> LaunchContext:
    """What a process was started with. Reads only. Raises NodeError; NothingThereError where it is gone."""
    done = await node.run(ask_launch_context(pid))
    context = parse_launch_context(done.stdout)
    if context.gone or not context.complete:
        raise NothingThereError(f"There is no process {pid} any more.")
    return context


async def read_login(node: Runs) -> LoginEnvironment:
    """What a login on the node gets. Reads only. Raises NodeError, LaunchingError where it did not say where its home is."""
    done = await node.run(ask_login_environment(), timeout=LOGIN_SHELL_S + 5)
    login = parse_login_environment(done.stdout)
    if not login.complete or login.home is None:
        said = plain(done.stderr.decode("utf-8", "replace"))
        raise LaunchingError(f"The node did not tell this login's environment.{f' It says: {said}' if said else ''}")
    return login
