"""The launchers `docker` and `podman`: a container that exists is started and stopped by its name. Pure. Not yet run for real.

A container runs the command that it was made with: it is never made or changed from here, and never launched on the host instead.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from eagletui.launching.launchers.base import Need
from eagletui.launching.recipe import Recipe
from eagletui.nodes.base import Completed
from eagletui.servers.model import LogSource
from eagletui.servers.ownership import Kept
from eagletui.servers.record import Record
from eagletui.shell.containers import CONTAINER_NAME, ask_container_start, ask_container_state, ask_container_stop
from eagletui.shell.keeper import TAIL_LINES, KeeperState, parse_keeper_state, parse_launch
from eagletui.shell.script import Command

NO_LIMIT_S: Final = 86400
"""For a stop without a limit: neither tool has a word for it that both know, and nothing drains for a day."""
_ANY_RUNTIME: Final = frozenset({"container", "another"})
"""Words of servers.ownership for a container whose runtime its control groups do not name."""


class Container:
    """See base.Launcher. `name` is the tool."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._needs = (
            Need(
                f"launcher.{name}",
                (name, "setsid"),
                f"Install {name} on the node, or choose another launcher in the profile.",
            ),
        )

    @property
    def name(self) -> str:
        """docker or podman."""
        return self._name

    @property
    def needs(self) -> tuple[Need, ...]:
        """See base.Launcher."""
        return self._needs

    def handle(self, recipe: Recipe) -> str | None:
        """The container; None where the recipe names none (preflight refuses that)."""
        return recipe.handle if recipe.handle and CONTAINER_NAME.fullmatch(recipe.handle) else None

    def start(self, fence: tuple[str, str], record: Record) -> Command:
        """See base.Launcher."""
        return ask_container_start(fence, self._name, record.handle or "")

    def read_start(self, done: Completed) -> tuple[str, str | None]:
        """See base.Launcher."""
        return parse_launch(done.stdout)

    def look(self, record: Record) -> Command:
        """See base.Launcher."""
        return ask_container_state(self._name, record.handle or "", TAIL_LINES)

    def read_look(self, done: Completed) -> KeeperState:
        """See base.Launcher."""
        return parse_keeper_state(done.stdout)

    def keeps(self, kept: Kept, handle: str | None) -> bool:
        """A container of this runtime; which one it is, its first process tells: control groups hold ids, and people give names."""
        runtime = kept.name.partition(" ")[0]
        return kept.kind == "container" and bool(handle) and (runtime == self._name or runtime in _ANY_RUNTIME)

    def stop(self, fence: tuple[str, str], record: Record, grace_s: float | None) -> Command | None:
        """The tool's own stop: its processes are not ours to signal."""
        seconds = NO_LIMIT_S if grace_s is None else min(NO_LIMIT_S, max(0, ceil(grace_s)))
        return ask_container_stop(fence, self._name, record.handle or "", seconds)

    def read_stop(self, done: Completed) -> str:
        """See base.Launcher."""
        return parse_launch(done.stdout)[0]

    def log(self, record: Record) -> LogSource:
        """What the tool keeps of its output."""
        return LogSource(None, "keeper", why=f"{self._name} keeps it", keeper=f"{self._name} {record.handle}")


DOCKER: Final = Container("docker")
PODMAN: Final = Container("podman")
