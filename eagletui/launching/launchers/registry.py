"""Launchers by name: strings merged with entry points (group `eagletui.launchers`). Names are listed without importing; one is loaded when used."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from eagletui.errors import UsageError
from eagletui.launching.launchers.base import Launcher

GROUP: Final = "eagletui.launchers"
LAUNCHERS: Final[dict[str, str]] = {
    "setsid": "eagletui.launching.launchers.setsid:SETSID",
    "tmux": "eagletui.launching.launchers.tmux:TMUX",
    "systemd": "eagletui.launching.launchers.systemd:SYSTEMD",
    "docker": "eagletui.launching.launchers.container:DOCKER",
    "podman": "eagletui.launching.launchers.container:PODMAN",
}
"""Name to `module:value`. What is here is not replaced by an entry point of that name."""


def _others() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in LAUNCHERS}


def launcher_names() -> tuple[str, ...]:
    """Every launcher that can be named, ours first."""
    return (*LAUNCHERS, *sorted(_others()))


def launcher(name: str) -> Launcher:
    """The launcher of that name. Raises UsageError where there is none, or where it cannot be loaded."""
    if name in LAUNCHERS:
        module, _, value = LAUNCHERS[name].partition(":")
        return cast("Launcher", getattr(import_module(module), value))
    found = _others().get(name)
    if found is None:
        raise UsageError(f"There is no launcher {name!r}. There are: {', '.join(launcher_names())}.")
    try:
        return cast("Launcher", found.load())
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The launcher {name!r} ({found.value}) cannot be loaded: {error}") from error
