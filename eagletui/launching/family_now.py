"""A server's family, read anew: at every poll of a stop, and after every signal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from eagletui.errors import LaunchingError, OvertakenError
from eagletui.launching.acting import Acting
from eagletui.servers.family import Identity, to_process
from eagletui.servers.model import Process
from eagletui.servers.targets import Members, Target, members_now
from eagletui.shell.processes import ProcessTable, ask_processes, parse_processes

SCAN_TIMEOUT_S: Final = 20.0
SCAN_LIMIT: Final = 16 << 20
"""Bytes of a process table; one that reaches it may lack its end."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The family at one moment. `rebooted`: the node is in another boot than that of the target, so that nobody of it is left."""

    members: Members
    table: ProcessTable
    processes: tuple[Process, ...]
    rebooted: bool = False

    @property
    def identities(self) -> frozenset[Identity]:
        """Of those that live."""
        return frozenset((process.pid, process.started) for process in self.members.alive)


def _whole(output: bytes, exit_status: int | None) -> ProcessTable | None:
    """The table, or None where a part may be missing: then nobody may be taken for gone."""
    if exit_status != 0 or len(output) >= SCAN_LIMIT or b"\0@argv\n" not in output:
        return None
    table = parse_processes(output)
    if table.own_pid is None or table.own_uid is None or table.boot_id is None:
        return None
    rows = {row.stat.pid: row for row in table.rows}
    own = rows.get(table.own_pid)
    return table if own is not None and own.uid == table.own_uid else None


async def scan(acting: Acting, target: Target, known: Collection[Identity] = frozenset()) -> Scan:
    """Who of the family lives now. Raises NodeError, OvertakenError, and LaunchingError where the table cannot be read whole."""
    if acting.overtaken is not None:  # the lock's own renewal met another's token: nobody need be waited for
        raise OvertakenError(acting.overtaken)
    done = await acting.run(ask_processes(), timeout=SCAN_TIMEOUT_S, limit=SCAN_LIMIT)
    table = _whole(done.stdout, done.exit_status)
    if table is None or table.own_pid is None or table.own_uid is None:
        raise LaunchingError(
            "the node's process table could not be read whole, so it is not known who of the server lives. Nothing was done;"
            " look at `ps` there and try again"
        )
    processes = tuple(to_process(row) for row in table.rows)
    if table.boot_id != target.boot:
        return Scan(Members(), table, processes, rebooted=True)
    members = members_now(target, processes, own_pid=table.own_pid, own_uid=table.own_uid, known=known)
    return Scan(members, table, processes)
