"""Units and containers that a profile or a record declares: whether one of them is what keeps a server, and so what it is stopped by.

Names alone prove nothing: two managers can have a unit of one name, and control groups hold a container's id where people give it a name. So the
launcher is asked for the process it holds (`look`), and that has to be the server's launcher, or one that it descends from. Reads only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eagletui.errors import UsageError
from eagletui.launching.checks.asked import CONTAINERS
from eagletui.launching.launchers.base import Launcher
from eagletui.launching.launchers.registry import launcher as launcher_of
from eagletui.launching.looking import Runs
from eagletui.launching.plan import Declared, Kept
from eagletui.launching.recipe import Recipe
from eagletui.launching.words import plain
from eagletui.nodes.base import Completed
from eagletui.servers.model import Process
from eagletui.servers.record import Record
from eagletui.shell.ownership import Above

LOOK_S = 8.0
"""For one look: a container's tool has 5 s of its own."""
SAID = 120
"""Characters of what a tool says."""
_NO_FENCE = ("", "")
_PROXIES = frozenset({"docker-proxy", "conmon", "rootlessport", "slirp4netns", "pasta", "pasta.avx2", "netavark"})
"""By comm: what holds a container's port on the node."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """The declared launcher that keeps a server. `record`: what its commands are asked with."""

    declared: Declared
    launcher: Launcher
    record: Record

    @property
    def stops(self) -> bool:
        """Whether it ends the server itself; else the family is told one by one, as of every launch of ours."""
        return self.launcher.stop(_NO_FENCE, self.record, None) is not None

    @property
    def holds_others(self) -> bool:
        """Whether its processes may be of another uid than the login's: who may use the container's tool may stop the container."""
        return self.launcher.name in CONTAINERS

    @property
    def named(self) -> str:
        """ "the unit x.service", "the container sgl"."""
        what = f"{self.launcher.name} container" if self.holds_others else "unit"
        return f"the {what} {plain(self.declared.handle or '')}"

    @property
    def note(self) -> str:
        """A sentence for the plan, "" where nothing is special."""
        if not self.stops:
            return ""
        who = "its record" if self.declared.profile is None else f"the profile {plain(self.declared.profile)}"
        return f"{self.named} keeps it, as {who} says: {self.launcher.name} stops it and starts it, with the command that it was made with"


def keeper_of(declared: Declared) -> Keeper:
    """The same with its launcher. Raises UsageError for one that is none."""
    record = Record("declared", "stop", "", "", launcher=declared.launcher, handle=declared.handle)
    return Keeper(declared, launcher_of(declared.launcher), record)


def is_proxy(process: Process | None) -> bool:
    """Whether who holds a port is a container's runtime, or cannot be seen. Pure."""
    return process is None or process.comm in _PROXIES


def with_its_log(recipe: Recipe) -> Recipe:
    """The recipe, and who keeps the output of what it starts where that goes into no file of ours. Pure. Of a launcher that is none preflight tells."""
    try:
        chosen = launcher_of(recipe.launcher)
    except UsageError:
        return recipe
    record = Record("planned", "start", "", "", launcher=recipe.launcher, handle=chosen.handle(recipe), log=recipe.log)
    log = chosen.log(record)
    return recipe if log.path is not None else replace(recipe, kept_log=log.keeper)


async def keeper_among(
    node: Runs, declared: Sequence[Declared], kept: Kept, above: Sequence[Above]
) -> tuple[Keeper | None, str]:
    """Which of these keeps a server that is kept so. `above`: the server's launcher, then what it descends from. Else None, and what is to be said of
    those that might be it, "" for nothing. Raises NodeError."""
    said = []
    for one in declared:
        try:
            keeper = keeper_of(one)
        except UsageError:  # of a record that another installation wrote, with a launcher that is not here
            continue
        if not keeper.launcher.keeps(kept, one.handle):
            continue
        if not keeper.stops:
            return keeper, ""
        done = await node.run(keeper.launcher.look(keeper.record), timeout=LOOK_S)
        process = keeper.launcher.read_look(done).process
        if process is not None and any((it.pid, it.started) == (process.pid, process.started) for it in above):
            return keeper, ""
        said.append(
            f"{keeper.named} is declared, but {_why_other(keeper, done, None if process is None else process.pid)}"
        )
    return None, "".join(f". {one}" for one in said)


def _why_other(keeper: Keeper, done: Completed, pid: int | None) -> str:
    if pid is not None:
        return f"its process is another one (pid {pid})"
    tool = plain(done.stderr.decode("utf-8", "replace"))[:SAID] or plain(
        done.stdout.decode("utf-8", "replace").partition("\n")[0]
    )
    if done.exit_status == 0:
        return "it does not run"
    return f"{keeper.launcher.name} does not tell of it: {tool or f'exit status {done.exit_status}'}"
