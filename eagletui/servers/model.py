"""Servers as facts: the family, where it listens and logs, and the verdict. Times are as the field names say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Role = Literal["launcher", "scheduler", "detokenizer", "other"]


class State(StrEnum):
    """A server's state; the words are those of the JSON. OFFLINE is the link's, not a server's."""

    READY = "ready"
    STARTING = "starting"
    STOPPING = "stopping"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"
    STALLED = "stalled"
    CRASHED = "crashed"
    ABSENT = "absent"
    OFFLINE = "offline"

    @property
    def exit_status(self) -> int:
        """What `status` returns for it."""
        return _EXIT[self]

    @property
    def badness(self) -> int:
        """Order of worseness: with several servers the worst is judged."""
        return _WORSE.index(self)


_EXIT = {
    State.READY: 0, State.STARTING: 10, State.STOPPING: 10, State.DEGRADED: 11, State.UNKNOWN: 11,
    State.STALLED: 12, State.CRASHED: 13, State.ABSENT: 14, State.OFFLINE: 20,
}  # fmt: skip
_WORSE = (
    State.ABSENT, State.READY, State.STARTING, State.STOPPING, State.UNKNOWN, State.DEGRADED, State.STALLED, State.CRASHED, State.OFFLINE,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reason:
    """Why this state: a code (`serving`, `loading`, `rank-missing`, `no-tokens`, `died`, `unreadable` …) and one sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the node. `started` is field 22 of /proc/PID/stat (clock ticks since boot), the identity together with pid.

    `argv` is exact for launchers and family members; for other processes it may lack empty arguments. `uid` is the real uid of `Uid:`.
    `state` is the letter of /proc/PID/stat.
    """

    pid: int
    ppid: int
    pgrp: int
    session: int
    state: str
    comm: str
    started: int
    uid: int | None = None
    argv: tuple[str, ...] = ()
    utime_ticks: int = 0
    threads: int = 1

    @property
    def gone(self) -> bool:
        """Dead: a zombie with only itself left (threads of a dead leader can still hold the GPU)."""
        return self.state in "ZX" and self.threads <= 1


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a server's family, with what it does there."""

    process: Process
    role: Role
    rank: str | None = None
    orphan: bool = False


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where a server's output goes. `path` as the node names it; None with a `why` when it is no file that can be followed.

    `via` says how it was found: "fd2", "fd1", "tee", "flag" (given by the user), "record" (of its launch), "keeper".
    `deleted`: the name is gone, the inode lives.
    `pid` and `fd`: who writes it by which descriptor. `also`: a second file, where standard output and error are two. `keeper`: who
    keeps what goes into no file ("docker ID", "podman ID", "nerdctl ID", "unit NAME", "user-unit NAME").
    """

    path: str | None
    via: str = "fd2"
    pid: int | None = None
    fd: int | None = None
    device: str | None = None
    inode: int | None = None
    size: int | None = None
    mtime: float | None = None
    deleted: bool = False
    readable: bool = True
    why: str | None = None
    also: LogSource | None = None
    keeper: str | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """One inference server on a node, as found. `port` None: it listens nowhere and names none. `listening`: the port is open now, by the family.

    `flags` are its main settings in short words for the status line ("TP 8", "EAGLE3 steps 2 topk 4 draft 5"); `command` is exact, NOT
    masked; `model` is masked (it may be a URL with a token).
    `age_s` is seconds since the launcher started, by the node's clock. `host` is the address to ask on the node. `foreign_listener`: the port is open,
    but by a process that is not of the family.
    """

    id: str
    engine: str
    launcher: Process
    family: tuple[Member, ...]
    user: str | None
    port: int | None
    model: str | None
    command: tuple[str, ...]
    cwd: str | None
    log: LogSource
    listening: bool = False
    tp: int | None = None
    flags: tuple[str, ...] = ()
    age_s: float | None = None
    ours: bool = True
    host: str = "127.0.0.1"
    foreign_listener: bool = False

    @property
    def pid(self) -> int:
        """The launcher's pid."""
        return self.launcher.pid


@dataclass(frozen=True, slots=True)
class Orphan:
    """Looks like an engine's process and belongs to no family. `ours`: of this login; nobody else's is ever ended."""

    process: Process
    name: str
    user: str | None
    age_s: float | None
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Inventory:
    """What discovery found: servers (worst state is judged later), orphans, and users by uid for attribution of GPU memory."""

    servers: tuple[Server, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    processes: tuple[Process, ...] = ()
    users: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()
    epoch_s: float | None = None
    """The node's clock (seconds since 1970) when the table was read."""

    def user_of(self, pid: int) -> str | None:
        """The user name (or the uid's digits) of a pid in our /proc; None when it is not there."""
        for process in self.processes:
            if process.pid == pid and process.uid is not None:
                return dict(self.users).get(process.uid, str(process.uid))
        return None
