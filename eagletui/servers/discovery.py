"""Finding the servers of a node without any configuration, in two round trips.

Sans-IO: who drives it runs the commands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace

from eagletui.engines.shapes import Engine, Flags, Launch, flags_of, holds_no_port, launch_of, title_of
from eagletui.servers.family import Identity, family_of, launchers, members_of, own_shell, to_process
from eagletui.servers.model import Inventory, Orphan, Process, Server
from eagletui.servers.output import log_source, readers_near
from eagletui.servers.ports import endpoint_of
from eagletui.servers.record import Record
from eagletui.servers.recorded import ENGINE, NONE, Records, as_server
from eagletui.shell.details import Details, ask_details, parse_details
from eagletui.shell.masking import mask_text
from eagletui.shell.processes import ProcessTable, ask_processes, parse_processes
from eagletui.shell.script import Command

_LOOKED_AT = 40
"""Processes of one family that are looked at closely (about 15 ms each on a busy node): the launcher and whoever may
listen."""
_USERS = 16
"""Users whose names are asked beside those of servers, so that others' GPU memory has a name."""
_ORPHANS_LOOKED_AT = 16

_ENGINES: dict[str, Engine] = {"sglang": "sglang", "vllm": "vllm"}

_HIDDEN = (
    "this login sees only its own processes (/proc is mounted with hidepid), so servers of other users are not shown; "
    "log in as their user to see them"
)
"""Every /proc has a process 1, and it is seldom one's own."""


@dataclass(slots=True)
class _Found:
    """A launcher with its family, between the two round trips. `record`: what launched it; `waiting`: no process of an engine came of it yet."""

    launcher: Process
    launch: Launch
    flags: Flags
    family: tuple[Process, ...]
    looked_at: list[int]
    record: Record | None = None
    waiting: bool = False


def _worth_looking(launcher: Process, family: Sequence[Process], processes: Sequence[Process]) -> list[int]:
    def rank(process: Process) -> int:
        title = title_of(process.argv, process.comm)
        if process.pid == launcher.pid:
            return 0
        if process.argv == launcher.argv or (title is not None and title.role == "other"):
            return 1
        return 2 if title is None else 3

    candidates = [p for p in family if not p.gone and not holds_no_port(p.argv)]
    members = [p.pid for p in sorted(candidates, key=rank)][:_LOOKED_AT]
    return members + [pid for pid in readers_near(launcher, family, processes) if pid not in members]


def _first_look(
    processes: Sequence[Process], known: Collection[Identity], keepers: Collection[int], records: Records
) -> list[_Found]:
    def found_of(launcher: Process, launch: Launch, record: Record | None, *, waiting: bool = False) -> _Found:
        # A record is of one launch: its members and its keeper's session are no other server's.
        recorded = record.family if record is not None else ()
        keeper = record.keeper if record is not None else None
        family = family_of(
            launcher,
            processes,
            known={*known, *recorded},
            keepers={*keepers, *((keeper[0],) if keeper is not None else ())},
        )
        looked_at = _worth_looking(launcher, family, processes)
        return _Found(launcher, launch, flags_of(launch), family, looked_at, record, waiting)

    found: list[_Found] = []
    for launcher in launchers(processes):
        launch = launch_of(launcher.argv)
        if launch is not None:
            found.append(found_of(launcher, launch, records.of(launcher, processes)))
    taken = {one.record.id for one in found if one.record is not None}
    for record, process in records.without_server(processes, taken):
        launch = launch_of(record.command) or Launch(_ENGINES.get(record.engine or "", ENGINE), ())
        found.append(found_of(process, launch, record, waiting=True))
    return found


def _strangers(processes: Sequence[Process], found: Sequence[_Found]) -> list[Process]:
    """Processes that an engine renamed and that are in no family."""
    taken = {p.pid for one in found for p in one.family}
    return [p for p in processes if p.pid not in taken and not p.gone and title_of(p.argv, p.comm) is not None]


def _users_of(processes: Sequence[Process]) -> list[int]:
    """The users that run something: whose GPU memory it is has to have a name."""
    return list(dict.fromkeys(p.uid for p in processes if p.uid is not None and p.argv and not p.gone))[:_USERS]


def _age(process: Process, table: ProcessTable) -> float | None:
    if table.uptime_s is None:
        return None
    return max(0.0, round(table.uptime_s - process.started / table.ticks_per_s, 2))


def _server(one: _Found, processes: Sequence[Process], table: ProcessTable, details: Details) -> Server:
    launcher = one.launcher
    seen = details.of(launcher.pid)
    if one.record is not None and one.waiting:
        return _waiting(one, one.record, processes, table, details)
    command = seen.argv if seen is not None and seen.argv else launcher.argv
    exact = {d.pid: d.argv for d in details.processes if d.argv}
    family = tuple(replace(p, argv=exact.get(p.pid, p.argv)) for p in one.family)
    launch = launch_of(command) or one.launch
    flags = flags_of(launch)
    members = members_of(launcher, family, processes)
    where = endpoint_of(launch.engine, flags, launcher, family, details)
    users = dict(details.users)
    return Server(
        id=f"{launch.engine}:{where.port if where.port is not None else f'pid-{launcher.pid}'}",
        engine=launch.engine,
        launcher=replace(launcher, argv=command),
        family=members,
        user=None if launcher.uid is None else users.get(launcher.uid, str(launcher.uid)),
        port=where.port,
        model=None if flags.model is None else mask_text(flags.model),
        command=command,
        cwd=seen.cwd if seen is not None else None,
        log=log_source(launcher, seen, details),
        listening=where.listening,
        tp=flags.tp,
        flags=flags.words,
        age_s=_age(launcher, table),
        ours=launcher.uid is not None and launcher.uid == table.own_uid,
        host=where.host,
        foreign_listener=where.foreign,
    )


def _waiting(
    one: _Found, record: Record, processes: Sequence[Process], table: ProcessTable, details: Details
) -> Server:
    """A launch whose process is no server yet; its output is where its descriptors say."""
    launcher, seen = one.launcher, details.of(one.launcher.pid)
    members = members_of(launcher, one.family, processes)
    user = None if launcher.uid is None else dict(details.users).get(launcher.uid, str(launcher.uid))
    server = as_server(record, launcher, members, user, _age(launcher, table))
    log = log_source(launcher, seen, details)
    server = replace(server, tp=one.flags.tp, flags=one.flags.words, log=log if log.path is not None else server.log)
    if record.port is None:
        return server
    where = endpoint_of(server.engine, replace(one.flags, port=record.port), launcher, one.family, details)
    return replace(server, host=where.host, listening=where.listening, foreign_listener=where.foreign)


def _with_unique_ids(servers: Sequence[Server]) -> tuple[Server, ...]:
    """Servers that share a port (one of them cannot have it) are told apart by pid."""
    times = Counter(server.id for server in servers)
    return tuple(replace(s, id=f"{s.id}-{s.pid}") if times[s.id] > 1 else s for s in servers)


def _orphan(process: Process, table: ProcessTable, users: dict[int, str]) -> Orphan:
    title = title_of(process.argv, process.comm)
    return Orphan(
        process=process,
        name=title.name if title is not None else process.comm,
        user=None if process.uid is None else users.get(process.uid, str(process.uid)),
        age_s=_age(process, table),
        ours=process.uid is not None and process.uid == table.own_uid,
    )


def discover(
    *, known: Collection[Identity] = frozenset(), keepers: Collection[int] = frozenset(), records: Records = NONE
) -> Generator[Command, bytes, Inventory]:
    """Yields commands, is sent their stdout, and returns what is on the node: servers by start, orphans, all
    processes.

    `known` are (pid, start ticks) that were members of a family while alive, `keepers` pids of our own keepers: both
    come from the record of the one server that is looked for, as they count for every family. `records`: what was launched
    on this node, for each its own; one without a process of an engine's yet is a server all the same.
    Our own shell, and what it runs, is in nothing that is returned.
    """
    table = parse_processes((yield ask_processes()))
    everything = tuple(to_process(row) for row in table.rows)
    if not everything:
        return Inventory(notes=("the node's process table could not be read (is /proc mounted?)",))
    hidden = own_shell(table, everything)
    processes = tuple(p for p in everything if p.pid not in hidden)
    found = _first_look(processes, known, keepers, records)
    strangers = _strangers(processes, found)
    asked = list(dict.fromkeys(pid for one in found for pid in one.looked_at))
    asked += [p.pid for p in strangers[:_ORPHANS_LOOKED_AT]]
    users_wanted = _users_of(processes)
    needed = asked or users_wanted
    details = parse_details((yield ask_details(asked, users_wanted))) if needed else Details(complete=True)
    notes: tuple[str, ...] = ()
    if all(process.pid != 1 for process in everything):
        notes = (_HIDDEN,)
    if not details.complete:
        notes += ("the node's answer about processes was cut short, so ports and logs may be missing",)
    there = [one for one in found if not details.complete or details.of(one.launcher.pid) is not None]
    servers = [_server(one, processes, table, details) for one in sorted(there, key=lambda one: one.launcher.started)]
    users = dict(details.users)
    return Inventory(
        servers=_with_unique_ids(servers),
        orphans=tuple(_orphan(p, table, users) for p in strangers),
        processes=processes,
        users=details.users,
        notes=notes,
        epoch_s=table.epoch_s,
    )
