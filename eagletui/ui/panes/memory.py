"""Whose GPU memory it is. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.gpus.model import Gpu
from eagletui.monitor.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Owners:
    """MiB of the shown server's family and of everybody else's processes; None when the tool named no process with its memory.

    `users`: the others' names, biggest first; a process outside our /proc (another container) has none.
    """

    ours_mib: int | None = None
    others_mib: int | None = None
    users: tuple[str, ...] = ()


def family_pids(snapshot: Snapshot) -> frozenset[int]:
    """Pids that count as ours: families of servers of ours, and of the shown one."""
    servers = [s for s in snapshot.inventory.servers if s.ours]
    if snapshot.server is not None:
        servers.append(snapshot.server)
    return frozenset(member.process.pid for server in servers for member in server.family) | {s.pid for s in servers}


def owners(gpu: Gpu, ours: frozenset[int], snapshot: Snapshot) -> Owners:
    """Split one GPU's processes."""
    mine: int | None = None
    theirs: dict[str, int] = {}
    known = False
    for process in gpu.processes:
        if process.mem_mib is None:
            continue
        known = True
        if process.pid in ours:
            mine = (mine or 0) + process.mem_mib
        else:
            name = snapshot.inventory.user_of(process.pid) or ""
            theirs[name] = theirs.get(name, 0) + process.mem_mib
    if not known:
        return Owners()
    names = tuple(name for name, _ in sorted(theirs.items(), key=lambda kv: -kv[1]) if name)
    return Owners(mine or 0, sum(theirs.values()), names)
