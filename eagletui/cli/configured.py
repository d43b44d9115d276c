"""The configuration as commands use it: loaded once, and only where there is a file and a command needs it (pydantic takes 0.15 s to load)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagletui.config.place import is_there, own_path, project_path
from eagletui.errors import UsageError

if TYPE_CHECKING:
    from eagletui.bench.load import Load
    from eagletui.config.choose import Guards
    from eagletui.config.load import Loaded

SSH_SECONDS = 10.0
"""As nodes.ssh_config: `ssh -G` takes milliseconds, a `Match exec` may take a while."""


@lru_cache(maxsize=1)
def configured() -> Loaded | None:
    """The configuration; None where there is no file. Its warnings go to stderr, once. Raises ConfigError with every problem."""
    if not (is_there(own_path()) or is_there(project_path())):
        return None
    from eagletui.config.load import load_config
    from eagletui.nodes.registry import SPECIAL

    loaded = load_config(reserved=tuple(SPECIAL))
    for warning in loaded.warnings:
        click.echo(f"eagletui: {warning}", err=True)
    return loaded


def own_presets() -> tuple[Load, ...]:
    """The loads that have a name: the house's and the person's own. Raises ConfigError."""
    from eagletui.bench.presets import PRESETS, with_own

    loaded = configured()
    if loaded is None:
        return PRESETS
    return with_own({name: preset.changes() for name, preset in loaded.config.presets.items()})


def guards_for(node: str) -> Guards:
    """What may not be done on a node, by whatever name it was called. Raises ConfigError."""
    from eagletui.config.choose import Guards, guards_of

    loaded = configured()
    return Guards() if loaded is None else guards_of(loaded, node, _real_host)


@lru_cache(maxsize=8)
def reached(node: str, ssh_config: Path | None) -> tuple[str, Path | None]:
    """What to give to ssh for a node that was named: its host and the configuration file of ssh. A name that is not configured is ssh's own business.
    Raises ConfigError, and UsageError where a project's file would lead a name that ssh knows to another machine."""
    loaded = configured()
    if loaded is None:
        return node, ssh_config
    from eagletui.config.choose import place_of

    place = place_of(loaded, node)
    if place is None:
        return node, ssh_config
    if place.foreign and place.host != node:
        if _known_to_ssh(node, ssh_config):
            raise UsageError(
                f"ssh knows {node}, and {place.file} would lead it to {place.host}: nothing was connected. Rename that node in {place.file}, "
                f"or put it into your own file (`eagletui config path`) if you want it so"
            )
        click.echo(f"eagletui: {node} is {place.host}, by {place.file}", err=True)
    return place.host, ssh_config or place.ssh_config


def _known_to_ssh(name: str, ssh_config: Path | None) -> bool:
    """Whether ssh's configuration leads a name somewhere, or its host key is known: then a person means that machine by it."""
    return _said(["ssh-keygen", "-F", name]) is not None or _real_host(name, ssh_config).lower() != name.lower()


@lru_cache(maxsize=64)
def _real_host(name: str, ssh_config: Path | None = None) -> str:
    """What ssh's configuration makes of a host; the host itself where it says nothing, or there is no ssh."""
    said = _said(["ssh", "-G", *(["-F", str(ssh_config)] if ssh_config is not None else []), "--", name])
    lines = said.splitlines() if said is not None else []
    return next((line.partition(" ")[2] for line in lines if line.startswith("hostname ")), name)


def _said(argv: list[str]) -> str | None:
    """What a program prints; None where it fails, hangs or is not there."""
    import shutil
    import subprocess

    if shutil.which(argv[0]) is None or argv[-1].startswith("-"):
        return None
    try:
        done = subprocess.run(argv, capture_output=True, timeout=SSH_SECONDS, check=False, stdin=subprocess.DEVNULL)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
