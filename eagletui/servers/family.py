"""A server's family: which processes share its fate.

Exactly the words of the design: parent links, groups it leads, recorded members. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from eagletui.engines.shapes import launch_of, title_of
from eagletui.servers.model import Member, Process
from eagletui.shell.processes import ProcessTable, StatRow, TableRow

Identity = tuple[int, int]
"""A process for ever: (pid, start ticks). A pid alone comes back."""


def to_process(row: TableRow) -> Process:
    """A row of the node's process table as a Process.

    `utime_ticks` holds user and system time: what shows that something moves.
    """
    return from_stat(row.stat, row.uid, row.argv)


def from_stat(stat: StatRow, uid: int | None, argv: tuple[str, ...]) -> Process:
    """A polled stat row as a Process, with the uid and arguments that are known of it."""
    return Process(
        pid=stat.pid,
        ppid=stat.ppid,
        pgrp=stat.pgrp,
        session=stat.session,
        state=stat.state,
        comm=stat.comm,
        started=stat.started,
        uid=uid,
        argv=argv,
        utime_ticks=stat.cpu_ticks,
        threads=stat.threads,
    )


def children_by_parent(processes: Iterable[Process]) -> dict[int, list[int]]:
    """Pids by parent pid."""
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.ppid, []).append(process.pid)
    return children


def descendants(pid: int, children: dict[int, list[int]]) -> set[int]:
    """Every pid below this one by parent links."""
    found: set[int] = set()
    open_ = [pid]
    while open_:
        for child in children.get(open_.pop(), ()):
            if child not in found and child != pid:
                found.add(child)
                open_.append(child)
    return found


def ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    """Every pid above this one, nearest first."""
    found: list[int] = []
    at = parents.get(pid)
    while at is not None and at > 0 and at != pid and at not in found:
        found.append(at)
        at = parents.get(at)
    return found


def own_shell(table: ProcessTable, processes: Sequence[Process]) -> frozenset[int]:
    """Our own remote shell and what it runs: never part of anything found on the node."""
    if table.own_pid is None:
        return frozenset()
    return frozenset({table.own_pid} | descendants(table.own_pid, children_by_parent(processes)))


def family_of(
    launcher: Process,
    processes: Sequence[Process],
    *,
    known: Collection[Identity] = frozenset(),
    keepers: Collection[int] = frozenset(),
) -> tuple[Process, ...]:
    """The launcher (while it is there) and its members, by pid; dead ones too, as long as the table holds them.

    Of the launcher's uid and not older than it: (a) its descendants, (b) processes whose group or session is numbered
    with the launcher's pid or one of `keepers` (pids of our own keeper, from the record), (c) those in `known`,
    recorded while they lived. Never by name, and never by a group or session that somebody else leads: numbers come
    back, so one counts only while the launcher lives, or somebody known is in that group or session (as long as it has
    members, its number is given to nobody else).
    """
    there = any(p.pid == launcher.pid and p.started == launcher.started for p in processes)
    if launcher.uid is None:
        return tuple(p for p in processes if p.pid == launcher.pid and p.started == launcher.started)
    below = descendants(launcher.pid, children_by_parent(processes)) if there else set()

    def is_known(process: Process) -> bool:
        identity = (process.pid, process.started)
        return process.uid == launcher.uid and (
            identity == (launcher.pid, launcher.started) or (identity in known and process.started >= launcher.started)
        )

    numbers = {number for p in processes if is_known(p) for number in (p.pgrp, p.session)}
    leaders = ({launcher.pid, *keepers} & numbers) - {0, 1}
    if there:
        leaders |= {launcher.pid} - {0, 1}

    def belongs(process: Process) -> bool:
        if process.uid != launcher.uid or process.started < launcher.started:
            return False
        if process.pid == launcher.pid:
            return process.started == launcher.started
        if process.pid in below or process.pgrp in leaders or process.session in leaders:
            return True
        return is_known(process)

    return tuple(process for process in sorted(processes, key=lambda p: p.pid) if belongs(process))


def members_of(launcher: Process, family: Sequence[Process], processes: Sequence[Process]) -> tuple[Member, ...]:
    """The family with roles. `orphan`: an engine's own process that no longer descends from the launcher."""
    below = descendants(launcher.pid, children_by_parent(processes))

    def member(process: Process) -> Member:
        if process.pid == launcher.pid:
            return Member(process, "launcher")
        title = title_of(process.argv, process.comm)
        if title is None:
            return Member(process, "other")
        return Member(process, title.role, title.rank, orphan=process.pid not in below)

    return tuple(member(process) for process in family)


def launchers(processes: Sequence[Process]) -> tuple[Process, ...]:
    """The processes that are servers' launchers.

    Of nested matches the deepest one is the server (a wrapper starts it), except that a child with the very same
    arguments is a fork that has not renamed itself: then the parent is the launcher and the fork one of its family.
    """
    matches = {p.pid: p for p in processes if not p.gone and launch_of(p.argv) is not None}
    parents = {p.pid: p.ppid for p in processes}
    dropped: set[int] = set()
    for pid, process in matches.items():
        above = next((a for a in ancestors(pid, parents) if a in matches), None)
        if above is None:
            continue
        if matches[above].argv == process.argv:
            dropped.add(pid)
            continue
        wrapped = process.argv
        for wrapper in ancestors(pid, parents):  # a wrapper and its own forks
            if wrapper in matches and matches[wrapper].argv != wrapped:
                dropped.add(wrapper)
    return tuple(matches[pid] for pid in sorted(matches) if pid not in dropped)
