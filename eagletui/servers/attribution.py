"""Whose GPU memory it is: from pids in nvidia-smi's table to users and servers. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.gpus.model import GpuProcess
from eagletui.servers.model import Inventory


@dataclass(frozen=True, slots=True)
class Owner:
    """Both None: the pid is not in our /proc (another container, or hidden), so neither ours nor somebody else's."""

    user: str | None
    server: str | None


class Owners:
    """Answers for many GPU processes of one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        users = dict(inventory.users)
        self._users = {p.pid: users.get(p.uid, str(p.uid)) for p in inventory.processes if p.uid is not None}
        self._servers = {member.process.pid: server.id for server in inventory.servers for member in server.family}

    def of(self, process: GpuProcess) -> Owner:
        """The owner of a process that holds GPU memory."""
        user = self._users.get(process.pid)
        return Owner(user, self._servers.get(process.pid) if user is not None else None)
