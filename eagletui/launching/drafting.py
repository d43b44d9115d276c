"""A profile from a server that runs: its command, folder, environment, log and port, with nothing secret in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from eagletui.config.log_path import safe_part
from eagletui.config.written import Draft, Variable, toml_text
from eagletui.engines.shapes import flags_of, launch_of, short_model
from eagletui.launching.adopt import base_environment, output_file
from eagletui.launching.checks.asked import CONTAINERS
from eagletui.launching.recipe import Recipe
from eagletui.servers.ownership import USER_UNIT, Kept, why_not
from eagletui.shell.containers import CONTAINER_NAME
from eagletui.shell.context import LaunchContext, LoginEnvironment
from eagletui.shell.masking import MASK, mask_argv, mask_text, secret_name
from eagletui.shell.units import UNIT_NAME

_VARIABLE = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*\Z")
USUAL_UMASK = ("022", "0022")


def draft_of(
    recipe: Recipe, context: LaunchContext, login: LoginEnvironment, *, name: str, node: str
) -> tuple[Draft, tuple[str, ...]]:
    """The profile, and sentences on what is not written. `recipe` is that of the process (launching.adopt), its environment less the session's.

    The whole environment is written (what a login has today may be otherwise tomorrow), less what every launch gets from the login."""
    base, there = dict(base_environment(login, "clean")), dict(login.environ or login.own)
    env = tuple(
        _variable(variable, value, there)
        for variable, value in sorted(recipe.env)
        if base.get(variable) != value and variable != "PWD"  # the shell's, which a launch has another of
    )
    notes = [f"{one.name}: {one.why}" for one in env if one.why]
    command = mask_argv(recipe.argv)
    comments = [f"From a server that ran on {node} (pid {context.pid})."]
    if command != recipe.argv:
        told = (
            f"its command holds a secret, which is not written: put it in place of {MASK} before you use this profile"
        )
        notes.append(told)
        comments.append(told[:1].upper() + told[1:] + ".")
    return Draft(
        name=name,
        command=command,
        node=node,
        cwd=recipe.cwd,
        log=_log(context),
        port=recipe.port,
        umask=recipe.limits.umask if recipe.limits.umask not in USUAL_UMASK else None,
        base_env="clean",
        env=env,
        comments=tuple(comments),
    ), tuple(notes)


def as_kept(draft: Draft, notes: tuple[str, ...], kept: Kept) -> tuple[Draft, tuple[str, ...]]:
    """The profile of a server that a unit or a container keeps: that starts it again, with its own folder, environment and log. And sentences on it,
    after `notes` (those on variables that are not written then are left out)."""
    runtime, _, which = kept.name.partition(" ")
    unit = kept.name.removeprefix(USER_UNIT)
    if kept.kind == "unit" and UNIT_NAME.fullmatch(unit):
        launcher, handle, note = "systemd", unit, f"it runs in the unit {unit}: systemd stops and starts it"
    elif kept.kind == "container" and runtime in CONTAINERS and CONTAINER_NAME.fullmatch(which):
        launcher, handle = runtime, which
        note = f"it runs in a container: {runtime} stops and starts it. Its name outlives its id: put it in as handle (`{runtime} ps`)"
    elif (reason := why_not(kept)) is not None:
        note = f"{reason[1]}. So this profile starts another one than that"
        return replace(draft, comments=(*draft.comments, f"{note[:1].upper()}{note[1:]}.")), (note, *notes)
    else:
        return draft, notes
    variables = {one.name for one in draft.env}
    told = (note, *(one for one in notes if one.partition(":")[0] not in variables))
    comments = (*draft.comments, f"{note[:1].upper()}{note[1:]}.")
    return replace(
        draft, launcher=launcher, handle=handle, cwd=None, log=None, umask=None, env=(), comments=comments
    ), told


def _variable(name: str, value: str, login: dict[str, str]) -> Variable:
    if not _VARIABLE.match(name):
        return Variable(name, None, why="left out: no name that a profile can have")
    if _is_secret(name, value):
        if name not in login:
            return Variable(
                name,
                None,
                why="left out, as it looks like a secret: set it for the login on the node, then refer to it",
            )
        same = "" if login[name] == value else ", where its value is another one now"
        return Variable(name, value, referred=True, why=f"looks like a secret: taken from the login on the node{same}")
    try:
        toml_text(value)
    except ValueError:
        return Variable(name, None, why="left out: its value is not written in UTF-8")
    return Variable(name, value)


def _is_secret(name: str, value: str) -> bool:
    return bool(value) and (
        secret_name(name) or mask_text(value) != value or mask_text(f"{name}={value}") != f"{name}={value}"
    )


def _log(context: LaunchContext) -> str | None:
    """Beside the log that it wrote, under a name that each launch has for itself."""
    path = output_file(context)
    if path is None or not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
        return None
    folder = path.rpartition("/")[0].replace("{", "{{").replace("}", "}}")
    return None if "$" in folder else f"{folder}/{{profile}}-{{variant}}-{{time}}.log"


def name_of(recipe: Recipe, taken: Collection[str]) -> str:
    """A name for its profile that none has: its model's, in small letters."""
    launch = launch_of(recipe.argv)
    model = flags_of(launch).model if launch is not None else None
    stem = safe_part(short_model(model) if model else "server").lower()
    number = 1
    name = stem
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name
