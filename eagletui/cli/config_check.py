"""`config check`: everything that is wrong with the configuration, and what is risky in it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from eagletui.config.place import is_there, own_path, project_path

if TYPE_CHECKING:
    from eagletui.config.load import Loaded
    from eagletui.config.models import Profile
    from eagletui.config.reading import Problem, Source

PROBLEMS = 2
_KEY = re.compile(r"\A(?:[^\s,]|(?:(?:ctrl|shift|alt|super)\+)*(?:[a-z][a-z0-9_]+|[^\s,]))\Z")


def check_all() -> int:
    """Print the problems, one a line on stdout, and warnings on stderr."""
    from eagletui.config.load import read_config
    from eagletui.nodes.registry import SPECIAL

    loaded = read_config(reserved=tuple(SPECIAL))
    problems = _in_order(loaded.problems, tuple(_unusable(_readable(loaded))))
    for problem in problems:
        click.echo(str(problem))
    for warning in [*loaded.warnings, *_warnings(loaded)]:
        click.echo(f"eagletui: warning: {warning}", err=True)
    if problems:
        return PROBLEMS
    files = [str(path) for path in (own_path(), project_path()) if is_there(path)]
    if not files:
        click.echo(f"there is no configuration, and none is needed; `eagletui config init` writes {own_path()}")
        return 0
    click.echo(
        f"{' and '.join(files)}: in order, {_count(loaded.config.nodes, 'node')}, {_count(loaded.config.profiles, 'profile')}"
    )
    return 0


def _count(found: dict[str, object] | object, word: str) -> str:
    number = len(found) if isinstance(found, dict) else 0
    return f"{number} {word}{'' if number == 1 else 's'}"


def _in_order(read: tuple[Problem, ...], ours: tuple[Problem, ...]) -> list[Problem]:
    """File by file, by their lines; where the models found something, nothing is added."""
    files = list(dict.fromkeys(one.file for one in (*read, *ours)))
    told = {(one.file, one.line, one.key) for one in read}
    problems = [*read, *(one for one in ours if (one.file, one.line, one.key) not in told)]
    return sorted(problems, key=lambda one: (files.index(one.file), one.line or 0))


def _readable(loaded: Loaded) -> Loaded:
    """The configuration with what can be read of a file with problems, so that one mistake hides no other."""
    from dataclasses import replace

    from pydantic import ValidationError

    from eagletui.config.models import Config

    if not loaded.problems:
        return loaded
    sources = [source for source in (loaded.own, loaded.project) if source is not None]
    parts: list[tuple[str, dict[str, object]]] = []
    for source in sources:
        for key, value in source.table.items():
            if key in {"keys", "profiles"} and isinstance(value, dict):
                parts += [(key, {name: one}) for name, one in value.items()]
            elif key == "theme" and source is loaded.own:
                parts.append((key, {"": value}))
    found: dict[str, dict[str, object]] = {"keys": {}, "profiles": {}}
    theme = None
    for key, part in parts:
        try:
            config = Config.model_validate({key: part.get("", part)})
        except ValidationError:
            continue  # it is among the problems
        theme = config.theme or theme
        found["keys"] |= config.keys
        found["profiles"] |= config.profiles
    return replace(loaded, config=loaded.config.model_copy(update={**found, "theme": theme}))


def _source(loaded: Loaded, profile: str) -> Source | None:
    return loaded.project if profile in loaded.project_profiles else loaded.own


def _problem(source: Source | None, path: tuple[str, ...], text: str) -> Iterator[Problem]:
    from eagletui.config.lines import lines_of
    from eagletui.config.reading import Problem

    if source is not None:
        lines = lines_of(source.text)
        flat = (path[0], ".".join(path[1:]))  # an action's id may be one quoted key
        tried = (path, flat, *(path[:n] for n in range(len(path) - 1, 0, -1)))
        line = next((lines[one] for one in tried if one in lines), None)
        yield Problem(source.path, line, ".".join(path), text)


def _unusable(loaded: Loaded) -> Iterator[Problem]:
    """What the models cannot judge: names of other parts of eagletui, and commands whose flags cannot be changed as a variant says."""
    from eagletui.launching.profiles import command_of
    from eagletui.ui.theming import load_themes

    theme, themes = loaded.config.theme, [one.name for one in load_themes().themes]
    if theme is not None and theme not in themes:
        yield from _problem(loaded.own, ("theme",), f"there is no theme {theme!r}; there are {', '.join(themes)}")
    yield from _keys(loaded)
    for name, profile in loaded.config.profiles.items():
        for variant in (None, *profile.variants):
            try:
                command_of(profile, variant)
            except ValueError as error:
                where = ("profiles", name, *(() if variant is None else ("variants", variant)))
                yield from _problem(_source(loaded, name), where, str(error))
        yield from _two_ports(loaded, name, profile)


def _keys(loaded: Loaded) -> Iterator[Problem]:
    from difflib import get_close_matches

    from eagletui.ui.actions import ACTIONS

    actions = {one.id: one for one in ACTIONS}
    told = {action: [key] if isinstance(key, str) else key for action, key in loaded.config.keys.items()}
    used = {key: one.id for one in ACTIONS if one.id not in told for key in (one.keys or one.key).split(",")}
    for action, keys in told.items():
        where = ("keys", *action.split("."))
        if action not in actions:
            near = get_close_matches(action, actions, n=1)
            hint = f"did you mean {near[0]}?" if near else "`eagletui keys` lists them"
            yield from _problem(loaded.own, where, f"there is no such action; {hint}")
        for key in keys:
            if not _KEY.match(key):
                yield from _problem(
                    loaded.own, where, f"{key!r} is no key: a character, or a name like f5, ctrl+r, comma"
                )
            elif key in used and used[key] != action:
                yield from _problem(loaded.own, where, f"{key} is the key of {used[key]}, too")
            used.setdefault(key, action)


def _two_ports(loaded: Loaded, name: str, profile: Profile) -> Iterator[Problem]:
    from eagletui.engines.shapes import flags_of
    from eagletui.launching.profiles import engine_launch

    launch = engine_launch(profile.argv())
    named = flags_of(launch).port if launch is not None else None
    if profile.port is not None and named is not None and named != profile.port:
        text = f"it is {profile.port} here and {named} in the command; leave it out"
        yield from _problem(_source(loaded, name), ("profiles", name, "port"), text)


def _warnings(loaded: Loaded) -> Iterator[Problem]:
    """What looks like a secret in a file that others can read, or may write."""
    from eagletui.config.reading import Problem
    from eagletui.shell.masking import mask_argv, mask_text

    for source in (loaded.own, loaded.project):
        if source is not None and source.owner == os.getuid() and source.mode & stat.S_IWOTH:
            yield Problem(
                source.path, None, "", "everybody may write it, and so decide what is run on your nodes: chmod 600 it"
            )
    for name, profile in loaded.config.profiles.items():
        source = _source(loaded, name)
        if source is None or not source.mode & (stat.S_IRGRP | stat.S_IROTH):
            continue
        secret = [
            f"env.{key}"
            for key, value in profile.literal_env()
            if value and mask_text(f"{key}={value}") != f"{key}={value}"
        ]
        secret += ["command"] if mask_argv(profile.argv()) != profile.argv() else []
        for key in secret:
            text = "it looks like a secret, and others can read this file: chmod 600 it, or write ${NAME} for a variable of the login on the node"
            yield from _problem(source, ("profiles", name, *key.split(".")), text)
