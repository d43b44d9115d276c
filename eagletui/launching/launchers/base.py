"""The protocol of launchers: what each gives is a Command and a parser of what it printed. Only steps run them. Pure.

start   a standalone command under the fence (its first two arguments), which launches what launch/ of a record holds (shell/records.py) and returns at once
look    what became of it, in the words of shell/keeper.py whatever the launcher is: `lives`, the exit status, the log, its last lines
keeps   whether what keeps a server on the node is what this launcher calls by the handle, as far as names tell
stop    a command under the fence that ends it in the launcher's own way; None: its family is told one by one (step 3), as for all that we started ourselves
log     where its output can be read from
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from eagletui.launching.recipe import Recipe
from eagletui.nodes.base import Completed
from eagletui.servers.model import LogSource
from eagletui.servers.ownership import Kept
from eagletui.servers.record import Record
from eagletui.shell.keeper import KeeperState
from eagletui.shell.script import Command

STARTED: Final = "started"
"""The word of `read_start` for a launch that is under way."""
STOPPING: Final = "stopping"
"""The word of `read_stop` for a stop that was asked for."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a launcher needs on the node. `id` as of a preflight check; `programs`: all of them; `todo`: what to do where one is missing."""

    id: str
    programs: tuple[str, ...]
    todo: str


class Launcher(Protocol):
    """A way to start a server and to keep it. All of it is pure."""

    @property
    def name(self) -> str:
        """As in the registry, the configuration and the record."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What preflight has to find."""

    def handle(self, recipe: Recipe) -> str | None:
        """What this launcher calls the server: a tmux session, a unit, a container. None where it has no name for it."""

    def start(self, fence: tuple[str, str], record: Record) -> Command:
        """Launch what stands in the record's launch/. `record.handle` is what `handle` gave."""

    def read_start(self, done: Completed) -> tuple[str, str | None]:
        """STARTED, else a word: why nothing was started ("missing", "begun", "log-exists", …); and the handle, where it is another than was asked. Total."""

    def look(self, record: Record) -> Command:
        """Ask what became of it. Reads only."""

    def read_look(self, done: Completed) -> KeeperState:
        """What `look` printed. Total."""

    def keeps(self, kept: Kept, handle: str | None) -> bool:
        """Whether `kept` may be what this launcher calls `handle`. Where `stop` is the launcher's own, `look` has to name the server's process, too."""

    def stop(self, fence: tuple[str, str], record: Record, grace_s: float | None) -> Command | None:
        """End it by the launcher's own means, or None. `grace_s`: how long it may drain, None without limit; whose launcher has a limit of its own
        for it keeps to that."""

    def read_stop(self, done: Completed) -> str:
        """STOPPING, else a word: why nothing was stopped. Total."""

    def log(self, record: Record) -> LogSource:
        """Where its output goes."""
