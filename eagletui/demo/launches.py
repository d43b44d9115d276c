"""A launch of ours on the simulated node: the keeper above it, and what it leaves in its record. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eagletui.demo import shape
from eagletui.demo.files import find_program
from eagletui.demo.processes import HOME, SESSION, TERMINAL, TMUX, UID, Proc
from eagletui.demo.settings import Failure, never_ran
from eagletui.engines.shapes import launch_of
from eagletui.shell.keeper import START

if TYPE_CHECKING:
    from eagletui.demo.engine import Engine
    from eagletui.demo.world import World

KEEPER_S: Final = 0.02
PROCESS_S: Final = 0.05
"""How long after the script the keeper and its command begin, in the node's time at 1×."""
KEEPER_TEXT: Final = START.split("'")[1]
"""What the keeper's shell was given."""
TMUX_SESSION: Final = "tune"
"""The session that is there already."""
CHILD_PID: Final = 11
"""How far the command's pid is from its keeper's: it reads its words by small programs first."""


def records_of() -> str:
    """Where this machine's records lie."""
    return f"{HOME}/.local/state/eagletui/launches/{shape.MACHINE_ID}"


@dataclass(frozen=True, slots=True)
class Starting:
    """What is begun: the record's folder, and the words that stand there, exact."""

    folder: str
    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str
    log: str


@dataclass(slots=True)
class Kept:
    """A keeper under way: its record's folder, its process and its launch."""

    folder: str
    keeper: Proc
    engine: Engine

    def look(self, world: World, now: float) -> bool:
        """Write what is to be written by now; whether it ended."""
        ended = self.engine.life.exit
        if ended is None or self.engine.e(now) < ended[0]:
            return False
        world.files.write(f"{self.folder}/exit", f"{ended[1]}\n".encode(), UID, self.engine.node_time(ended[0]), 0o600)
        world.shells.pop(self.keeper.pid, None)
        return True


@dataclass(frozen=True, slots=True)
class Pane:
    """tmux's pane that shows a launch: its shell, the keeper whose launch it is, and when it was opened."""

    pid: int
    keeper: int
    opened: float

    def is_busy(self, world: World) -> bool:
        """Whether that launch goes on."""
        return any(kept.keeper.pid == self.keeper for kept in world.kept)

    def process(self, name: str) -> Proc:
        """Its shell."""
        argv = ("sh", "-c", "tail -f", "eagletui-pane", name)
        return Proc(self.pid, TMUX, self.pid, self.pid, "sh", self.opened, UID, argv, rss_mib=2, tty=TERMINAL + 1)


def failure_of(world: World, starting: Starting) -> Failure | None:
    """Why the command never becomes the engine."""
    argv0 = starting.argv[0] if starting.argv else ""
    if not world.files.is_directory(starting.cwd):
        return never_ran(f"eagletui-keeper: 63: cd: can't cd to {starting.cwd}", 126)
    program, how = find_program(world.files, argv0, starting.env.get("PATH", "/bin:/usr/bin"), starting.cwd)
    if how != "found":
        return never_ran(f"env: '{argv0}': No such file or directory", 127)
    launch = launch_of(starting.argv)
    if launch is None or launch.engine != "sglang":
        return never_ran(f"{program}: this simulated node has no such program to run, only a recorded SGLang", 126)
    if not program.startswith("/opt/venv/"):
        module = "Error while finding module specification for 'sglang.launch_server' (ModuleNotFoundError: No module named 'sglang')"
        return never_ran(f"{program}: {module}", 1)
    return None


def begin(world: World, starting: Starting, now: float, parent: int = 1, cgroup: str = SESSION) -> Engine:
    """The keeper, and its command below it. `parent`: of the keeper, where systemd is that."""
    pid = world.new_pid()
    at = now + KEEPER_S / world.speed
    argv = ("sh", "-c", KEEPER_TEXT, "eagletui-keeper", starting.folder)
    keeper = Proc(pid, parent, pid, pid, "sh", at, UID, argv, rss_mib=2, cwd=HOME, cgroup=cgroup)
    world.shells[pid] = keeper
    engine = world.launch(
        starting.argv, now + PROCESS_S / world.speed, log=starting.log, pid=pid + CHILD_PID, parent=pid, group=pid, cwd=starting.cwd,
        env=starting.env, failure=failure_of(world, starting), cgroup=cgroup,
    )  # fmt: skip
    for name, proc in (("keeper", keeper), ("process", engine.processes(engine.launched)[0])):
        world.files.write(f"{starting.folder}/{name}", f"{proc.pid} {world.ticks(proc)}\n".encode(), UID, at, 0o600)
    world.kept.append(Kept(starting.folder, keeper, engine))
    return engine
