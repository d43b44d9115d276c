"""Who is signalled when a server is stopped: of its family, those that live, are ours, and are nothing that carries us. Pure.

The script `signal` looks at all of this once more, on the node, in the same moment in which it signals. What stands here is what is shown, and asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eagletui.servers.family import Identity, ancestors, family_of
from eagletui.servers.model import Process
from eagletui.shell.processes import ProcessTable

_SSHD = re.compile(r"\A(?:sshd(?:-.*)?|dropbear)\Z", re.DOTALL)
"""By comm: the daemon, its sessions, and (since OpenSSH 9.8) their programs."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server that is to be stopped. `launcher` may be dead already; its pid, start and uid count. `known`: members by record, or seen alive before,
    in the boot `boot`. `keepers`: pids of our own keepers, which are never signalled. `command` is exact, not masked."""

    launcher: Process
    boot: str
    known: frozenset[Identity] = frozenset()
    keepers: frozenset[int] = frozenset()
    engine: str | None = None
    port: int | None = None
    command: tuple[str, ...] = ()

    @property
    def identity(self) -> Identity:
        """The launcher, for ever."""
        return self.launcher.pid, self.launcher.started


@dataclass(frozen=True, slots=True)
class Members:
    """A family at one moment. `alive`: its members, our keeper not among them. `signalled`: those of them that may be signalled; the others are `spared`."""

    alive: tuple[Process, ...] = ()
    signalled: tuple[Process, ...] = ()

    @property
    def spared(self) -> tuple[Process, ...]:
        """Members that are not signalled: what carries our own shell, an sshd."""
        return tuple(process for process in self.alive if process not in self.signalled)


def carries_us(own_pid: int, processes: Sequence[Process]) -> frozenset[int]:
    """Our own remote shell and what it descends from."""
    return frozenset({own_pid, *ancestors(own_pid, {process.pid: process.ppid for process in processes})})


def is_sshd(process: Process) -> bool:
    """Whether a process is a login daemon's, by its name in the kernel."""
    return _SSHD.match(process.comm) is not None


def members_now(
    target: Target,
    processes: Sequence[Process],
    *,
    own_pid: int,
    own_uid: int,
    known: Collection[Identity] = frozenset(),
) -> Members:
    """The family in this process table. `known` beside what the target knows. Nobody of another uid than ours is in it, nor pid 0 and 1."""
    if target.launcher.uid != own_uid:
        return Members()
    family = family_of(target.launcher, processes, known=frozenset(known) | target.known, keepers=target.keepers)
    alive = tuple(
        process for process in family if not process.gone and process.pid > 1 and process.pid not in target.keepers
    )
    carrying = carries_us(own_pid, processes)
    signalled = tuple(process for process in alive if process.pid not in carrying and not is_sshd(process))
    return Members(alive, signalled)


def targets(
    target: Target, table: ProcessTable, processes: Sequence[Process], known: Collection[Identity] = frozenset()
) -> tuple[Identity, ...]:
    """Exactly who would be signalled, as (pid, start ticks). Nobody, where the table does not say who we are or is of another boot."""
    if table.own_pid is None or table.own_uid is None or table.boot_id != target.boot:
        return ()
    members = members_now(target, processes, own_pid=table.own_pid, own_uid=table.own_uid, known=known)
    return tuple((process.pid, process.started) for process in members.signalled)
