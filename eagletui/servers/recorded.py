"""Which record is a server's, and what records tell of a node: who was launched and has no server yet, who is dead, what was left undone. Pure.

Only records of the node's present boot count: pids of another one are somebody else's. Which machine they are of, the folder that they lie in tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from eagletui.servers.family import Identity, ancestors
from eagletui.servers.intent import OURS
from eagletui.servers.model import LogSource, Member, Process, Server
from eagletui.servers.record import Record, parse_record
from eagletui.shell.lock import LockAnswer
from eagletui.shell.records import RecordFiles, RecordList

ENGINE: Final = "sglang"
"""How a log is read at first when its record does not say: the reader sees by itself what else it is."""
Lock = Literal["held", "free", "unknown"]
"""Whether somebody goes on with a sequence: held by a lease that is renewed; free, stale or of an earlier boot; not asked yet."""
_STOPPED = frozenset({"stop", "gpus-free", "leftovers", "launch", "verify", "watch", "ready"})
"""Steps by which what ran before was told to end."""
_WATCHED = frozenset({"watch", "ready"})


@dataclass(frozen=True, slots=True)
class Kept:
    """A record, and what is true of it now. `record` has its process, keeper and exit status as the keeper wrote them. `begun`: somebody began to
    launch it. `lock`: of its port."""

    record: Record
    begun: bool = False
    process_alive: bool = False
    keeper_alive: bool = False
    lock: Lock = "unknown"

    @property
    def acting(self) -> bool:
        """A sequence is under way: somebody goes on with it."""
        return self.record.outcome == "running" and self.lock == "held"

    @property
    def left(self) -> bool:
        """A sequence was left at a step. Once the new server is watched nothing is left to do."""
        return self.record.outcome == "running" and self.lock == "free" and self.record.step not in _WATCHED

    @property
    def stops(self) -> bool:
        """It is ending what ran before, now."""
        return self.acting and self.record.step == "stop" and self.record.stop_sent is not False

    @property
    def stopped(self) -> bool:
        """It told what ran before it to end."""
        record = self.record
        if record.kind == "start" or (record.step == "stop" and record.stop_sent is False):
            return False  # it was left right before
        return record.step in _STOPPED

    @property
    def launched(self) -> bool:
        """It was launched: begun, whatever came of it."""
        return self.begun or self.record.launched

    @property
    def counts(self) -> bool:
        """Anything was done by it, or is being done: a refused one says nothing about the node."""
        return self.launched or self.stopped or self.record.outcome == "running"


@dataclass(frozen=True, slots=True)
class Records:
    """The records of this boot, newest first. `had_server`: ids of those whose server was seen: what is left of them when it is gone is no start."""

    kept: tuple[Kept, ...] = ()
    had_server: frozenset[str] = frozenset()

    def of_id(self, record_id: str | None) -> Kept | None:
        """By its id."""
        return next((one for one in self.kept if one.record.id == record_id), None)

    def newest(self, port: int | None = None) -> Kept | None:
        """The last one by which anything was done, on a port if one is named."""
        return next((one for one in self.kept if one.counts and (port is None or one.record.port == port)), None)

    def of(self, launcher: Process, processes: Iterable[Process]) -> Record | None:
        """The record that a server was launched by: its process, what that became or started, or who is in its keeper's session."""
        rows = {process.pid: process for process in processes}
        parents = {pid: process.ppid for pid, process in rows.items()}
        above = {(pid, rows[pid].started) for pid in ancestors(launcher.pid, parents) if pid in rows}
        identity = (launcher.pid, launcher.started)
        exact = next((one.record for one in self.kept if one.record.process == identity), None)
        if exact is not None:
            return exact
        return next((one.record for one in self.kept if _is_of(one.record, launcher, above, rows)), None)

    def without_server(self, processes: Iterable[Process], taken: Collection[str]) -> list[tuple[Record, Process]]:
        """What was launched and lives, and is no server yet (a script that prepares things), but not records in `taken`."""
        rows = {(process.pid, process.started): process for process in processes if not process.gone}
        passed = self.had_server | set(taken)
        return [
            (one.record, rows[one.record.process])
            for one in self.kept
            if one.record.process in rows and one.record.process is not None and one.record.id not in passed
        ]

    def dead(self, port: int | None = None) -> Record | None:
        """The newest record, if it is of a launch that is dead and that nobody asked to end. Its process may never have been there."""
        one = self.newest(port)
        if one is None or not one.launched or one.process_alive or one.record.asked_to_stop:
            return None
        if one.record.process is None and (one.acting or one.record.exit_status is None):
            return None  # it is being launched, or nothing is known of it
        return one.record

    def unfinished(self, port: int | None = None) -> Record | None:
        """A sequence that was left at a step."""
        one = self.newest(port)
        return one.record if one is not None and one.left else None

    def under_way(self, port: int | None = None) -> Record | None:
        """A sequence that launches, or is going to, and that somebody goes on with."""
        one = self.newest(port)
        return one.record if one is not None and one.acting and one.record.kind != "stop" else None

    def last_stop(self, port: int | None = None) -> Record | None:
        """The newest record, if what it is of was stopped by us and nothing launched since."""
        one = self.newest(port)
        if one is None or one.process_alive or not (one.record.asked_to_stop or (one.stopped and not one.launched)):
            return None
        return one.record

    def stopping(self, launcher: Identity, port: int | None, own: Record | None) -> bool:
        """Whether a sequence is ending this server now: one that names it, or that acts on its port and did not launch it."""
        return any(
            one.stops and (_means(one.record, launcher, own) or (one.record.port == port and port is not None and not one.record.launched))
            for one in self.kept
        )  # fmt: skip

    def was_stopped(self, launcher: Identity, own: Record | None) -> bool:
        """Whether a sequence ended this server, or told it to end."""
        if own is not None and own.asked_to_stop:
            return True
        return any(one.stopped and _means(one.record, launcher, own) for one in self.kept)


NONE = Records()


def _is_of(record: Record, launcher: Process, above: Collection[Identity], rows: Mapping[int, Process]) -> bool:
    """Whether a launcher came of this record's launch: never one that is older. A session's number comes back, so it counts only while somebody
    known is in it."""
    first = record.process or record.keeper
    if first is None or launcher.started < first[1]:
        return False
    if record.process in above or record.keeper in above:
        return True
    if (launcher.pid, launcher.started) in record.family:
        return True
    own = [identity for identity in (record.process, record.keeper) if identity is not None]
    there = [rows[pid] for pid, started in (*own, *record.family) if pid in rows and rows[pid].started == started]
    return any(identity[0] == launcher.session for identity in own) and any(
        process.session == launcher.session for process in there
    )


def _means(record: Record, launcher: Identity, own: Record | None) -> bool:
    """Whether a sequence's record is about this server as the one that is to end."""
    if record.process is not None and (record.process == launcher or record.process[1] <= launcher[1]):
        return False  # it launched it, or was over when that began
    return (own is not None and record.previous == own.id) or launcher in record.family


def needs_lock(listed: RecordList) -> tuple[int, ...]:
    """Ports whose lock has to be looked at: of sequences that say they are under way. 0 stands for a server without a port."""
    found = [one for files in listed.records if (one := _read(files, listed.boot)) is not None]
    return tuple(sorted({one.record.port or 0 for one in found if one.record.outcome == "running"}))


def read_records(listed: RecordList, locks: LockAnswer | None = None, *, had_server: Collection[str] = ()) -> Records:
    """What `records` printed, and `lock-look` of needs_lock(). What is of another boot, or of one that is not known, is left out."""
    held = (
        {holder.port for holder in locks.holders if holder.state in {"held", "foreign"}} if locks is not None else set()
    )
    asked = held | set(locks.free) | {holder.port for holder in locks.holders} if locks is not None else set()
    kept = []
    for files in listed.records:
        one = _read(files, listed.boot)
        if one is not None:
            port = one.record.port or 0
            lock: Lock = "held" if port in held else "free" if port in asked else "unknown"
            kept.append(replace(one, lock=lock))
    return Records(tuple(kept), frozenset(had_server))


def _read(files: RecordFiles, boot: str | None) -> Kept | None:
    record = parse_record(files.json)
    if record is None or record.id != files.id or boot is None or record.boot != boot:
        return None
    process, keeper = files.process, files.keeper
    told = replace(
        record,
        process=record.process if process is None else (process.pid, process.started),
        keeper=record.keeper if keeper is None else (keeper.pid, keeper.started),
        exit_status=record.exit_status if files.exit_status is None else files.exit_status,
    )
    alive = process is not None and process.alive
    return Kept(told, files.begun, alive, keeper is not None and keeper.alive)


def as_server(
    record: Record, process: Process, family: Sequence[Member], user: str | None, age_s: float | None
) -> Server:
    """A launch without a process of an engine's as a server that is to come, or was to: its log is followed all the same. `process`: the record's."""
    engine = record.engine or ENGINE
    where = record.port if record.port is not None else f"pid-{process.pid}"
    return Server(
        id=f"{engine}:{where}",
        engine=engine,
        launcher=process,
        family=tuple(family) or (Member(process, "launcher"),),
        user=user,
        port=record.port,
        model=None,
        command=record.command,
        cwd=record.cwd,
        log=LogSource(record.log, via="record", why=None if record.log else "its record names no log"),
        age_s=age_s,
    )


def of_dead(record: Record) -> Server:
    """The server of a record whose process is gone, for its log and the verdict."""
    pid, started = record.process or record.keeper or (0, 0)
    launcher = Process(pid, 0, 0, 0, "X", OURS, started, argv=record.command)
    # The members that were seen alive: the kernel names the one that it killed by its pid.
    rest = (Member(Process(of, 0, 0, 0, "X", OURS, begun), "other") for of, begun in record.family if of != pid)
    return as_server(record, launcher, (Member(launcher, "launcher"), *rest), None, None)
