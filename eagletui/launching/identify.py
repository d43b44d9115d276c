"""Step 2: exactly which processes the server is, who keeps it, and whether it is ours to stop. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from eagletui.errors import LaunchingError
from eagletui.launching.keepers import Keeper, is_proxy, keeper_among
from eagletui.launching.looking import Runs
from eagletui.launching.plan import Declared, Kept, Refusal
from eagletui.launching.words import plain
from eagletui.servers.discovery import discover
from eagletui.servers.family import Identity, to_process
from eagletui.servers.model import Inventory, Orphan, Process, Server
from eagletui.servers.ownership import NOBODY, kept_by, ranks_of, why_not
from eagletui.servers.record import Record
from eagletui.servers.targets import Target, carries_us, members_now
from eagletui.shell.listeners import Listening, PortHolder, ask_listeners, parse_listeners
from eagletui.shell.ownership import Ownership, ask_ownership, parse_ownership
from eagletui.shell.plural import plural
from eagletui.shell.processes import ProcessTable, ask_processes, parse_processes
from eagletui.shell.script import Command

LOOK_TIMEOUT_S: Final = 20.0
"""Each of the three looks; the step itself has 5 s."""

_EMPTY: Final = Inventory()


@dataclass(frozen=True, slots=True)
class Identified:
    """Who the server is. `server` None: no launcher of one lives there; `target` None: nobody at all lives (`notes` say so). `members` live now, the launcher
    first; our keeper is not among them. `refusals`: why it is not stopped. `kept`: who keeps it. `keeper`: the declared launcher that keeps it, by which it
    is stopped."""

    server: Server | None = None
    target: Target | None = None
    members: tuple[Process, ...] = ()
    kept: Kept = NOBODY
    keeper: Keeper | None = None
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    inventory: Inventory = _EMPTY
    boot: str | None = None

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The members as (pid, start ticks)."""
        return tuple((process.pid, process.started) for process in self.members)


async def look(node: Runs, known: Collection[Identity], keepers: Collection[int]) -> tuple[Inventory, ProcessTable]:
    """What is on the node, and the table that it was read from. Raises NodeError."""
    steps: Generator[Command, bytes, Inventory] = discover(known=frozenset(known), keepers=frozenset(keepers))
    command, table = next(steps), ProcessTable()
    while True:
        done = await node.run(command, timeout=LOOK_TIMEOUT_S)
        if command.script.name == ask_processes().script.name:
            table = parse_processes(done.stdout)
        try:
            command = steps.send(done.stdout)
        except StopIteration as end:
            inventory: Inventory = end.value
            return inventory, table


async def identify(
    node: Runs,
    *,
    port: int | None = None,
    pid: int | None = None,
    server: str | None = None,
    record: Record | None = None,
    declared: Sequence[Declared] = (),
) -> Identified:
    """The server that the record tells of, else that of this id, else the one whose launcher the person named by `pid`, else the port's.

    `declared`: what may keep it (a unit and a container are stopped by their own launcher, and only where one of these is that). Raises NodeError, and
    LaunchingError where the node does not show its processes.
    """
    port = port if port is not None or record is None or pid is not None or server is not None else record.port
    known, keepers = _recorded(record)
    inventory, table = await look(node, known, keepers)
    if table.boot_id is None or table.own_uid is None or table.own_pid is None or not inventory.processes:
        raise LaunchingError(
            "the node does not show its processes (is /proc mounted?), so nothing there can be stopped safely"
        )
    if record is not None and record.boot != table.boot_id:  # its numbers are those of an earlier boot
        known, keepers = frozenset(), frozenset()
        inventory, table = await look(node, known, keepers)
    if record is not None and record.keeper is not None and _came_back(record.keeper, table):
        keepers = frozenset()
    chosen, refusals = _chosen(inventory, port, pid, server, record if known or keepers else None)
    port = chosen.port if chosen is not None and chosen.port is not None else port
    found = Identified(chosen, orphans=inventory.orphans, inventory=inventory, boot=table.boot_id, refusals=refusals)
    phantom = None if chosen is not None else _phantom(record, table, known, pid, inventory)
    if chosen is not None or phantom is not None:
        found = _with_members(found, phantom, table, known, keepers, port)
    return await _judged(node, found, table, keepers, port, declared)


def _recorded(record: Record | None) -> tuple[frozenset[Identity], frozenset[int]]:
    """Members and keepers by record."""
    if record is None:
        return frozenset(), frozenset()
    process = () if record.process is None else (record.process,)
    return frozenset((*record.family, *process)), frozenset() if record.keeper is None else frozenset(
        {record.keeper[0]}
    )


def _came_back(identity: Identity, table: ProcessTable) -> bool:
    """Whether its pid is another process's now."""
    return any(row.stat.pid == identity[0] and row.stat.started != identity[1] for row in table.rows)


def _several(servers: Sequence[Server]) -> Refusal:
    listed = ", ".join(f"pid {one.pid} on port {one.port} ({one.engine})" for one in servers)
    return Refusal(
        "several-servers", f"there are {len(servers)} servers that could be meant: {listed}. Name one by its pid"
    )


def _chosen(
    inventory: Inventory, port: int | None, pid: int | None, name: str | None, record: Record | None
) -> tuple[Server | None, tuple[Refusal, ...]]:
    """The server that is meant, among those that were found."""
    servers = inventory.servers
    if record is not None:
        known = {*record.family, *(() if record.process is None else (record.process,))}
        by_record = [one for one in servers if (one.pid, one.launcher.started) in known]
        if by_record:
            return by_record[0], ()
    if name is not None:
        servers = tuple(one for one in servers if one.id == name)
    if pid is not None:
        servers = tuple(one for one in servers if one.pid == pid)
    elif port is not None:
        servers = tuple(one for one in servers if one.port == port)
        if len(servers) > 1 and any(one.listening for one in servers):
            servers = tuple(one for one in servers if one.listening)
    if len(servers) > 1:
        return None, (_several(servers),)
    return (servers[0] if servers else None), ()


def _phantom(
    record: Record | None, table: ProcessTable, known: Collection[Identity], pid: int | None, inventory: Inventory
) -> Process | None:
    """A launcher that is no launcher any more, or not by its looks: the dead one of a record some of whose members may live, or the process that the person
    named, if an engine's own process is below it."""
    if pid is not None:
        named = next((process for process in inventory.processes if process.pid == pid), None)
        return named if named is not None and named.uid == table.own_uid else None
    if record is None or not known:
        return None
    first = min(known, key=lambda identity: identity[1])
    at, started = record.process or first
    return Process(at, 0, 0, 0, "X", "", started, table.own_uid)


def _with_members(
    found: Identified,
    phantom: Process | None,
    table: ProcessTable,
    known: frozenset[Identity],
    keepers: frozenset[int],
    port: int | None,
) -> Identified:
    server = found.server
    launcher = server.launcher if server is not None else phantom
    if launcher is None or table.own_pid is None or table.own_uid is None or table.boot_id is None:
        return found
    target = Target(
        launcher,
        table.boot_id,
        known,
        keepers,
        None if server is None else server.engine,
        port,
        launcher.argv if server is None else server.command,
    )
    if server is not None and not server.ours:
        return replace(found, target=target, members=tuple(member.process for member in server.family))
    processes = tuple(to_process(row) for row in table.rows)
    members = members_now(target, processes, own_pid=table.own_pid, own_uid=table.own_uid)
    alive = sorted(members.alive, key=lambda process: (process.pid != launcher.pid, process.pid))
    target = replace(target, known=known | {(process.pid, process.started) for process in alive})
    return replace(found, target=target if alive else None, members=tuple(alive))


async def _judged(
    node: Runs, found: Identified, table: ProcessTable, keepers: frozenset[int], port: int | None, declared: Sequence[Declared]
) -> Identified:  # fmt: skip
    """Who listens on its port, and who keeps it: asked for at the same time."""
    server, target = found.server, found.target
    asked = (
        ()
        if target is None or not found.members
        else (target.launcher.pid if server is not None else found.members[0].pid,)
    )

    async def listening() -> Listening:
        if not port:
            return Listening(complete=True)
        done = await node.run(ask_listeners((port,)), timeout=LOOK_TIMEOUT_S)
        return parse_listeners(done.stdout)

    async def ownership() -> Ownership:
        if not asked:
            return Ownership()
        return parse_ownership((await node.run(ask_ownership(asked), timeout=LOOK_TIMEOUT_S)).stdout)

    who_listens, facts = await asyncio.gather(listening(), ownership())
    kept, keeper = NOBODY, None
    refusals: list[Refusal] = []
    if asked and target is not None:
        kept = kept_by(
            target.command, asked[0], facts, keepers=keepers, uptime_s=table.uptime_s, ticks_per_s=table.ticks_per_s
        )
        keeper, refusals = await _keeping(node, found, target, kept, facts, declared)
    if (
        server is not None and not server.ours and kept.kind != "container"
    ):  # in one it is the tool's to stop, whose ever its processes are
        kept, keeper, refusals = NOBODY, None, [_another_user(server)]
    elif asked:
        refusals += [*_not_a_server(found), *_carries_us(found, table)]
    refusals = [*found.refusals, *refusals]
    if port and not refusals:
        refusals += _strange_listeners(found, who_listens, port, table, keeper)
    notes = [*found.notes, *(() if keeper is None or refusals or not keeper.note else (keeper.note,))]
    notes += () if found.members or refusals else (_nobody(port, found),)
    return replace(found, kept=kept, keeper=keeper, refusals=tuple(refusals), notes=tuple(notes))


async def _keeping(
    node: Runs, found: Identified, target: Target, kept: Kept, facts: Ownership, declared: Sequence[Declared]
) -> tuple[Keeper | None, list[Refusal]]:
    """The declared launcher that keeps it; else why it is not ours to stop, if it is not."""
    reason = why_not(kept)
    if reason is None:
        return None, []
    around = facts.of(found.server.pid if found.server is not None else found.members[0].pid)
    keeper, said = await keeper_among(node, declared, kept, () if around is None else around.above)
    part = None if keeper is None else ranks_of(target.command, (), facts.host, facts.addresses)
    if keeper is not None and part is None:
        return keeper, []
    code, text = reason if part is None else why_not(Kept("ranks", part)) or reason
    return None, [Refusal(code, f"{_named(found)}: {text}{said}")]


def _named(found: Identified) -> str:
    server = found.server
    if server is None:
        return f"process {found.members[0].pid}"
    return (
        f"the {server.engine} server {f'on port {server.port} ' if server.port is not None else ''}(pid {server.pid})"
    )


def _another_user(server: Server) -> Refusal:
    user = plain(server.user or "another user")
    where = f"on port {server.port}" if server.port is not None else f"with pid {server.pid}"
    return Refusal(
        "another-user",
        f"the {server.engine} server {where} is {user}'s: no process of another user is ever signalled. Ask {user}, or log in as {user}",
    )


def _not_a_server(found: Identified) -> list[Refusal]:
    """A process that the person named must be an engine's, by its arguments or by what it started."""
    if found.server is not None or found.target is None:
        return []
    mine = {process.pid for process in found.members}
    if found.target.launcher.state == "X" or mine & {orphan.process.pid for orphan in found.orphans}:
        return []
    inside = [one for one in found.inventory.servers if one.pid in mine]
    if inside:
        text = f"process {found.members[0].pid} started the server with pid {inside[0].pid}: name that one"
    else:
        text = f"process {found.members[0].pid} ({_command(found.members[0])}) is no inference server, and nothing below it is an engine's"
    return [Refusal("not-a-server", text)]


def _carries_us(found: Identified, table: ProcessTable) -> list[Refusal]:
    if table.own_pid is None:
        return []
    carrying = carries_us(table.own_pid, tuple(to_process(row) for row in table.rows))
    if not any(process.pid in carrying for process in found.members):
        return []
    return [
        Refusal("not-a-server", f"{_named(found)} is what this login itself runs in, so it cannot be stopped from here")
    ]


def _command(process: Process) -> str:
    text = plain(" ".join(process.argv)) or plain(process.comm)
    return text if len(text) <= 80 else text[:79] + "…"


def _strange_listeners(
    found: Identified, answer: Listening, port: int, table: ProcessTable, keeper: Keeper | None
) -> list[Refusal]:
    """Whoever listens on the port beside the family."""
    if not answer.complete:
        return [
            Refusal("unseen-listener", f"who listens on port {port} could not be read, so it is not known whose it is")
        ]
    mine = {process.pid for process in found.members}
    strange: dict[int, list[PortHolder]] = {}
    for holder in answer.holders:
        strange.setdefault(holder.inode, []).append(holder)
    for holders in strange.values():
        if any(holder.pid in mine for holder in holders):
            continue
        holder = holders[0]
        processes = {process.pid: process for process in found.inventory.processes}
        process = None if holder.pid is None else processes.get(holder.pid)
        if keeper is not None and keeper.holds_others and is_proxy(process):
            continue  # a container's port, as its runtime shows it on the node: it ends with the container
        users = dict(found.inventory.users)
        user = plain(users.get(holder.uid, f"uid {holder.uid}"))
        if process is None and holder.uid in {table.own_uid, 0}:
            text = (
                f"someone we cannot see listens on port {port} (a socket of {user}: hidden, in another namespace, or docker-proxy)."
                " Stop it from where it was started, or choose another port"
            )
            return [Refusal("unseen-listener", text)]
        if holder.uid != table.own_uid:
            at = "" if holder.pid is None else f", pid {holder.pid}"
            return [
                Refusal(
                    "another-user",
                    f"port {port} is {user}'s{at}: no process of another user is ever signalled. Choose another port, or ask {user}",
                )
            ]
        if process is not None:
            text = f"port {port} is held by {_command(process)} (pid {process.pid}), which is no inference server"
            if found.members:
                text = f"beside the server, {_command(process)} (pid {process.pid}) listens on port {port}"
            return [Refusal("not-a-server", f"{text}. It is not touched; end it yourself if nobody needs it")]
    return []


def _nobody(port: int | None, found: Identified) -> str:
    where = f"on port {port}" if port else "there"
    one, many = (
        f"{word} of an engine that {verb} to no server"
        for word, verb in (("process", "belongs"), ("processes", "belong"))
    )
    left = f"; {plural(len(found.orphans), one, many)}" if found.orphans else ""
    return f"no server runs {where}{left}"
