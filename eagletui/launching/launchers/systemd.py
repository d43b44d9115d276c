"""The launcher `systemd`: the keeper as a unit of its own, or a unit that exists and is started and stopped by its name. Pure. Not yet run for real.

A profile without a handle, or with a plain name, gets a transient unit: what runs is the record's command, and a stop tells its family one by one, as of
every launch of ours. A handle that ends in `.service` is a unit that exists: systemd starts and stops it, and its command cannot be changed from here.
"""

from __future__ import annotations

import re
from typing import Final

from eagletui.launching.launchers.base import Need
from eagletui.launching.launchers.setsid import Setsid
from eagletui.launching.recipe import Recipe
from eagletui.nodes.base import Completed
from eagletui.servers.model import LogSource
from eagletui.servers.ownership import USER_UNIT, Kept
from eagletui.servers.record import Record
from eagletui.shell.keeper import TAIL_LINES, KeeperState, parse_keeper_state
from eagletui.shell.script import Command
from eagletui.shell.units import UNIT_NAME, ask_launch_systemd, ask_unit_start, ask_unit_state, ask_unit_stop

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_LIMIT: Final = 60


def existing_unit(handle: str | None) -> str | None:
    """The unit that exists already, where a handle names one."""
    return handle if handle is not None and UNIT_NAME.fullmatch(handle) else None


class Systemd(Setsid):
    """See base.Launcher."""

    name = "systemd"
    needs = (
        *Setsid.needs,
        Need(
            "launcher.systemd",
            ("systemd-run", "systemctl"),
            "Use the launcher setsid: this node is not run by systemd, or this login does not have its tools.",
        ),
    )

    def handle(self, recipe: Recipe) -> str | None:
        """The recipe's own unit, else eagletui-PROFILE or eagletui-PORT for a new one."""
        unit = existing_unit(recipe.handle)
        if unit is not None:
            return unit
        what = (
            recipe.handle
            or recipe.profile
            or (str(recipe.port) if recipe.port is not None else recipe.engine or "server")
        )
        plain = _UNSAFE.sub("-", what).strip("-") or "server"
        return (plain if plain.startswith("eagletui-") else f"eagletui-{plain}")[:_NAME_LIMIT]

    def start(self, fence: tuple[str, str], record: Record) -> Command:
        """See base.Launcher."""
        unit = existing_unit(record.handle)
        if unit is not None:
            return ask_unit_start(fence, unit)
        return ask_launch_systemd(fence, record.id, record.handle or f"eagletui-{record.id}")

    def look(self, record: Record) -> Command:
        """See base.Launcher."""
        unit = existing_unit(record.handle)
        return super().look(record) if unit is None else ask_unit_state(unit, TAIL_LINES)

    def read_look(self, done: Completed) -> KeeperState:
        """See base.Launcher."""
        return parse_keeper_state(done.stdout)

    def keeps(self, kept: Kept, handle: str | None) -> bool:
        """The unit of that name; of our own ones also what the node called it where the name was taken (NAME-2)."""
        if kept.kind != "unit" or not handle:
            return False
        name = kept.name.removeprefix(USER_UNIT)
        if existing_unit(handle) is not None:
            return name == handle
        return re.fullmatch(rf"{re.escape(handle)}(?:-[0-9]{{1,2}})?\.service", name) is not None

    def stop(self, fence: tuple[str, str], record: Record, grace_s: float | None) -> Command | None:  # noqa: ARG002 - the unit has its TimeoutStopSec
        """`systemctl stop` of a unit that exists; None for our own: its family is told one by one."""
        unit = existing_unit(record.handle)
        return None if unit is None else ask_unit_stop(fence, unit)

    def log(self, record: Record) -> LogSource:
        """The file of our own unit; the journal of one that exists."""
        unit = existing_unit(record.handle)
        return (
            super().log(record)
            if unit is None
            else LogSource(None, "keeper", why="the journal keeps it", keeper=f"unit {unit}")
        )


SYSTEMD: Final = Systemd()
