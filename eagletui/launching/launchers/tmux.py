"""The launcher `tmux`: a session of the login's own tmux server that shows the log and lets one attach; the server itself stands beside it. Pure.

The pane starts the same keeper as `setsid` does and then shows the log. The keeper is in a session of its own, so that closing the pane, `tmux
kill-session` or the end of tmux's server ends what is shown and never what runs; and its signals are those of any launch, since tmux gives a pane
default ones.
"""

from __future__ import annotations

import re
from typing import Final

from eagletui.launching.launchers.base import Need
from eagletui.launching.launchers.setsid import Setsid
from eagletui.launching.recipe import Recipe
from eagletui.servers.record import Record
from eagletui.shell.script import Command
from eagletui.shell.tmux import ask_launch_tmux

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
"""tmux takes `.` and `:` for parts of a target, and replaces them in names."""
_NAME_LIMIT: Final = 60


class Tmux(Setsid):
    """See base.Launcher; what became of a launch is told by its keeper, as for setsid."""

    name = "tmux"
    needs = (
        *Setsid.needs,
        Need("launcher.tmux", ("tmux",), "Install tmux on the node, or use the launcher setsid."),
    )

    def handle(self, recipe: Recipe) -> str | None:
        """The session: the recipe's own, else eagletui-PROFILE or eagletui-PORT."""
        what = recipe.profile or (str(recipe.port) if recipe.port is not None else recipe.engine or "")
        wanted = _UNSAFE.sub("-", recipe.handle or f"eagletui-{what}").strip("-")[:_NAME_LIMIT]
        return wanted if wanted not in {"", "eagletui"} else "eagletui-server"

    def start(self, fence: tuple[str, str], record: Record) -> Command:
        """See base.Launcher."""
        return ask_launch_tmux(fence, record.id, record.handle or f"eagletui-{record.id}")


TMUX: Final = Tmux()
