"""What is known of launches on a node beside its processes: the records that lie there, and what this process is doing itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from eagletui.engines.shapes import launch_of
from eagletui.logs.stall import clock
from eagletui.monitor.drive import read_node_records
from eagletui.monitor.snapshot import Verdict
from eagletui.nodes.base import Node
from eagletui.servers.exit_status import exit_words
from eagletui.servers.family import Identity
from eagletui.servers.intent import Intent, Intents, Launched, NeverStarted, Stopping
from eagletui.servers.model import Inventory, Reason, Server, State
from eagletui.servers.record import Record
from eagletui.servers.recorded import NONE, Records, of_dead
from eagletui.servers.verdict import NEVER_S, Evidence
from eagletui.shell.masking import mask_text
from eagletui.shell.masking import shown as plain

PATIENCE_S = 0.7
"""A discovery waits no longer for the records: meanwhile nobody looks who died."""
DUE_S = 2.0
"""While a sequence is under way, or the exit status of a death is not there yet, the records are looked at so often."""


class Story(NamedTuple):
    """What a server's launch and end are by the records and by this process, for its verdict. Fields as in verdict.Evidence."""

    stopping: bool = False
    asked_to_stop: bool = False
    recorded: bool = False
    exit_status: int | None = None
    never_ran: bool = False
    printed: str | None = None


class Shown(NamedTuple):
    """The server on the screen, and whether it lives."""

    server: Server | None
    alive: bool


class Launches:
    """The records of a node as last read, and the intents told."""

    def __init__(self, node: Node, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._reading: asyncio.Task[None] | None = None
        self.records: Records = NONE
        self.intents = Intents()
        self._node = node
        self._had_server: set[str] = set()
        self._stopped: set[Identity] = set()
        """Launchers that a sequence was seen to end, whoever drives it: its record may be about another launch by the time they are gone."""
        self._owners: dict[Identity, str] = {}
        self._read_at = float("-inf")
        self._put_on: str | Identity | None = None
        """The launch that was put on the screen once: what the user chooses later stays."""

    async def read(self) -> Records:
        """Look at the node. A home that answers slowly holds nobody up: then it is what was read before, and is_due once the answer is there.
        Raises LinkLostError."""
        reading = self._reading
        if reading is None:
            self._read_at = time.monotonic()
            reading = self._reading = asyncio.create_task(self._read())
            reading.add_done_callback(_retrieved)
        try:
            await asyncio.wait((reading,), timeout=self._patience_s)
        except asyncio.CancelledError:
            self.link_lost()
            raise
        if reading.done():
            self._reading = None
            if not reading.cancelled():
                reading.result()
        return self.records

    def link_lost(self) -> None:
        """What is being read will not come any more, and its failure is none of the next link."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()

    async def _read(self) -> None:
        found = await read_node_records(self._node, self._had_server)
        if found is not None:
            self.records = found

    def found(self, inventory: Inventory) -> None:
        """Discovery ended: whose records these servers are."""
        for server in inventory.servers:
            record = self.records.of(server.launcher, inventory.processes)
            if record is None:
                continue
            self._owners[_identity(server)] = record.id
            if launch_of(server.launcher.argv) is not None:
                self._had_server.add(record.id)
        for server in inventory.servers:
            if self.records.stopping(_identity(server), server.port, self.record_of(server)):
                self._stopped.add(_identity(server))

    def is_due(self, now: float, shown: Shown) -> bool:
        """Whether the records should be looked at now, though no process came or went."""
        if self._reading is not None:
            return self._reading.done()  # it came late
        if now - self._read_at < DUE_S:
            return False
        record = self.record_of(shown.server) if shown.server is not None and not shown.alive else None
        kept = self.records.of_id(record.id) if record is not None else None
        untold = kept is not None and kept.keeper_alive and kept.record.exit_status is None
        return self.intents.acting or untold or any(one.acting for one in self.records.kept)

    def told(self, intent: Intent) -> bool:
        """What this process is doing now. Whether there is something to look for: a stop tells its members twice a second."""
        before, self.intents = self.intents, self.intents.after(intent)
        return not isinstance(intent, Stopping) or not before.acting

    def record_of(self, server: Server) -> Record | None:
        """What launched it, None for what eagletui did not launch."""
        identity = _identity(server)
        kept = self.records.of_id(self._owners.get(identity))
        if kept is not None:
            return kept.record
        return next((one.record for one in self.records.kept if one.record.process == identity), None)

    def record(self, seen: Server | None, port: int | None) -> Record | None:
        """Of what is shown; without a server the last one of the port."""
        if seen is not None:
            return self.record_of(seen)
        kept = self.records.newest(port)
        return kept.record if kept is not None else None

    def story(self, server: Server) -> Story:
        """See Story."""
        identity, record = _identity(server), self.record_of(server)
        ours = identity in self.intents.stopped
        others = self.records.stopping(identity, server.port, record)
        launch = self.intents.launch
        never = (
            launch if isinstance(launch, NeverStarted) and record is not None and launch.record == record.id else None
        )
        printed = next((line for line in reversed(never.printed) if line.strip()), None) if never is not None else None
        status = record.exit_status if record is not None else None
        if never is not None and status is None:
            status = never.exit_status
        return Story(
            stopping=ours or others,
            asked_to_stop=ours or identity in self._stopped or self.records.was_stopped(identity, record),
            recorded=record is not None,
            exit_status=status,
            never_ran=never is not None or _failed_at_once(record),
            printed=printed,
        )

    def told_of(self, server: Server, evidence: Evidence, printed: str | None) -> Evidence:
        """The evidence with what is told of its launch. `printed`: the last line of its log, masked."""
        story = self.story(server)
        return replace(
            evidence,
            stopping=story.stopping,
            asked_to_stop=story.asked_to_stop,
            recorded=story.recorded,
            exit_status=story.exit_status,
            never_ran=story.never_ran,
            printed=(story.printed or printed) if evidence.launcher_alive is False else None,
        )

    def followed(self, servers: Sequence[Server]) -> Server | None:
        """What was just launched from here, once: it is put on the screen, alive or dead."""
        launch = self.intents.launch
        process = launch.process if isinstance(launch, Launched) else None
        key = process if launch is None or launch.record is None else launch.record
        if launch is None or key is None or key == self._put_on:
            return None
        for server in servers:
            record = self.record_of(server)
            if _identity(server) == process or (record is not None and record.id == launch.record):
                self._put_on = key
                return server
        kept = self.records.of_id(launch.record)
        if kept is not None and not kept.process_alive and kept.record.exit_status is not None:
            self._put_on = key
            return of_dead(kept.record)
        return None

    def remembered(self, port: int | None, shown: Shown) -> Server | None:
        """Where there is no server: the launch that is dead and should not be. Not one that is older than what is shown."""
        record = self.records.dead(port)
        if record is None or shown.alive:
            return None
        begun = record.process[1] if record.process is not None else -1
        if shown.server is not None and begun <= shown.server.launcher.started:
            return None
        return of_dead(record)

    def verdict(self, shown: Shown, now: float) -> Verdict | None:
        """What is to be said instead of the shown server's own state, while a launch from here has no process that could be shown."""
        launch = self.intents.launch
        if launch is None:
            return None
        seen = shown.server
        if seen is not None:
            record = self.record_of(seen)
            mine = record is not None and record.id == launch.record
            mine = mine or (isinstance(launch, Launched) and _identity(seen) == launch.process)
            if mine or (shown.alive and _identity(seen) not in self.intents.stopped):
                return None
        if isinstance(launch, NeverStarted):
            status = "" if launch.exit_status is None else exit_words(launch.exit_status)
            said = next((line for line in reversed(launch.printed) if line.strip()), "")
            why = ": ".join(part for part in (status, said) if part) or launch.text
            return Verdict(State.CRASHED, Reason("never-started", f"never started: {why}"), launch.at)
        if isinstance(launch, Launched) or now - launch.at < NEVER_S:
            return Verdict(State.STARTING, Reason("loading", "launched, its process is not there yet"), launch.at)
        return Verdict(
            State.CRASHED, Reason("never-started", "never started: no process came of the launch"), launch.at
        )

    def absence(self, port: int | None, wall: float) -> Verdict | None:
        """Why there is no server, as far as records tell."""
        record = self.records.under_way(port)
        if record is not None:
            text = f"{_what(record)} is under way{_by(record)}, at {_step(record)}"
            return Verdict(State.STARTING, Reason("loading", text))
        record = self.records.dead(port)
        if record is not None and record.process is None:
            status = "" if record.exit_status is None else f": {exit_words(record.exit_status)}"
            return Verdict(State.CRASHED, Reason("never-started", f"never started{status}"))
        record = self.records.unfinished(port)
        if record is not None:
            text = f"no server: {_what(record)}{_by(record)} was left at {_step(record)}{_ago(record, wall)}"
            return Verdict(State.ABSENT, Reason("unfinished", text))
        record = self.records.last_stop(port)
        if record is not None:
            ago = _ago(record, wall) if record.kind == "stop" else ""
            return Verdict(State.ABSENT, Reason("stopped", f"stopped by eagletui{ago}"))
        return None


def _retrieved(task: asyncio.Task[None]) -> None:
    """Nobody may be waiting for it any more."""
    if not task.cancelled():
        task.exception()


def _identity(server: Server) -> Identity:
    return (server.launcher.pid, server.launcher.started)


def _failed_at_once(record: Record | None) -> bool:
    return record is not None and record.outcome == "failed" and record.step in {"launch", "verify"}


def _what(record: Record) -> str:
    return f"a {record.kind}"


def _step(record: Record) -> str:
    return f"step {plain(record.step)}" if record.step else "its begin"


def _by(record: Record) -> str:
    return f" by {plain(mask_text(record.who))}" if record.who else ""


def _ago(record: Record, wall: float) -> str:
    """By the clock of whoever wrote it."""
    try:
        seconds = wall - datetime.fromisoformat(record.created).timestamp()
    except (ValueError, OverflowError):
        return ""
    return f" {clock(seconds)} ago" if 0 <= seconds < 365 * 86400 else ""
