"""The default launcher: the keeper in a session of its own (shell/keeper.py). Pure."""

from __future__ import annotations

from typing import Final

from eagletui.launching.launchers.base import Need
from eagletui.launching.recipe import Recipe
from eagletui.nodes.base import Completed
from eagletui.servers.model import LogSource
from eagletui.servers.ownership import Kept
from eagletui.servers.record import Record
from eagletui.shell.keeper import KeeperState, ask_keeper_state, ask_launch, parse_keeper_state, parse_launch
from eagletui.shell.script import Command


class Setsid:
    """See base.Launcher."""

    name = "setsid"
    needs: tuple[Need, ...] = (
        Need("launcher.setsid", ("setsid", "od", "env"), "Install util-linux and coreutils on the node (busybox has them all)."),
    )  # fmt: skip

    def handle(self, recipe: Recipe) -> str | None:  # noqa: ARG002 - see base.Launcher
        """None: the keeper's pid is all it needs."""
        return None

    def start(self, fence: tuple[str, str], record: Record) -> Command:
        """See base.Launcher."""
        return ask_launch(fence, record.id)

    def read_start(self, done: Completed) -> tuple[str, str | None]:
        """See base.Launcher."""
        return parse_launch(done.stdout)

    def look(self, record: Record) -> Command:
        """See base.Launcher."""
        return ask_keeper_state(record.id)

    def read_look(self, done: Completed) -> KeeperState:
        """See base.Launcher."""
        return parse_keeper_state(done.stdout)

    def keeps(self, kept: Kept, handle: str | None) -> bool:  # noqa: ARG002 - see base.Launcher
        """Only our own keeper, which forbids nobody anything."""
        return kept.kind == "keeper"

    def stop(self, fence: tuple[str, str], record: Record, grace_s: float | None) -> Command | None:  # noqa: ARG002 - see base.Launcher
        """None: its family is told one by one."""
        return None

    def read_stop(self, done: Completed) -> str:
        """See base.Launcher."""
        return parse_launch(done.stdout)[0]

    def log(self, record: Record) -> LogSource:
        """The file that the keeper opened."""
        return LogSource(record.log, "record")


SETSID: Final = Setsid()
