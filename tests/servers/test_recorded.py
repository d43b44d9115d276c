"""What records tell: whose a server is, what is dead, under way or left. The same table of processes, other records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagletui.servers.discovery import discover
from eagletui.servers.model import Process
from eagletui.servers.record import Record, encode_record
from eagletui.servers.recorded import Kept, Records, needs_lock, read_records
from eagletui.shell.lock import Holder, LockAnswer
from eagletui.shell.records import RecordFiles, RecordList, Written
from tests.servers.nodes import PaperNode, Proc, drive, sglang

MADE = Record(
    "20261201-a",
    "start",
    "2026-12-01T10:00:00Z",
    "me@here",
    engine="sglang",
    port=30000,
    boot="now",
    step="watch",
    outcome="done",
)


def files(record: Record, *, alive: bool | None = None, status: int | None = None, begun: bool = False) -> RecordFiles:
    process = None if alive is None or record.process is None else Written(*record.process, alive)
    return RecordFiles(record.id, True, begun or process is not None, None, process, status, encode_record(record))


def read(*found: RecordFiles, holder: str | None = None, port: int = 30000, boot: str | None = "now") -> Records:
    state = () if holder is None else (Holder(port, holder),)  # type: ignore[arg-type]
    return read_records(
        RecordList(boot, "machine", "/r", None, found, True),
        LockAnswer((), (port,) if not state else (), state, (), True),
    )


def test_a_record_of_another_boot_or_under_another_name_says_nothing() -> None:
    record = replace(MADE, process=(100, 500))
    assert read(files(record, alive=True)).newest() is not None
    assert read(files(record, alive=True), boot="later").newest() is None
    assert read(files(record, alive=True), boot=None).newest() is None
    assert read(files(replace(record, boot=None), alive=True)).newest() is None
    assert read(replace(files(record, alive=True), id="20261201-b")).newest() is None


@pytest.mark.parametrize(
    ("change", "alive", "status", "dead"),
    [
        ({}, True, None, False),
        ({}, False, 137, True),
        ({"asked_to_stop": True}, False, 247, False),
        ({"process": None}, None, None, False),
        ({"process": None}, None, 125, True),
        ({"kind": "stop", "process": None, "step": "leftovers", "asked_to_stop": True}, None, None, False),
    ],
)
def test_a_launch_is_dead_when_nobody_asked_for_it(
    change: dict[str, object], alive: bool | None, status: int | None, dead: bool
) -> None:
    record = replace(MADE, **{"process": (100, 500), **change})  # type: ignore[arg-type]
    records = read(files(record, alive=alive, status=status, begun=True))
    assert (records.dead(30000) is not None) is dead
    assert records.dead(30001) is None


@pytest.mark.parametrize(
    ("step", "holder", "left", "under_way"),
    [
        ("gpus-free", None, True, False),
        ("gpus-free", "stale", True, False),
        ("gpus-free", "boot", True, False),
        ("gpus-free", "held", False, True),
        ("launch", "foreign", False, True),
        ("watch", None, False, False),
    ],
)
def test_a_sequence_is_left_when_nobody_holds_its_lock(
    step: str, holder: str | None, left: bool, under_way: bool
) -> None:
    record = replace(MADE, kind="restart", step=step, outcome="running")
    listed = RecordList("now", "machine", "/r", None, (files(record),), True)
    assert needs_lock(listed) == (30000,)
    records = read(files(record), holder=holder)
    assert (records.unfinished(30000) is not None) is left
    assert (records.under_way(30000) is not None) is under_way
    assert records.unfinished(30001) is None
    assert read(files(replace(record, outcome="failed")), holder=holder).unfinished() is None


def test_a_stop_that_told_nobody_stops_nobody() -> None:
    """It was left right before: the server runs, and there is something to go on with."""
    old = replace(MADE, process=(100, 500))
    stop = replace(
        MADE, id="20261201-b", kind="restart", step="stop", outcome="running", previous=old.id, family=((100, 500),), stop_sent=False
    )  # fmt: skip
    for holder in ("held", None):
        records = read(files(stop), files(old, alive=True), holder=holder)
        assert not records.stopping((100, 500), 30000, old)
        assert not records.was_stopped((100, 500), old)
    assert records.unfinished() is not None
    told = read(files(replace(stop, stop_sent=True)), files(old, alive=True))
    assert told.was_stopped((100, 500), old)


def test_who_is_being_stopped_is_told_by_the_record_that_stops_it() -> None:
    old = replace(MADE, process=(100, 500))
    stop = replace(
        MADE,
        id="20261201-b",
        kind="restart",
        step="stop",
        outcome="running",
        previous=old.id,
        family=((100, 500), (101, 501)),
    )
    records = read(files(stop), files(old, alive=True), holder="held")
    assert records.stopping((100, 500), 30000, old)
    assert records.stopping((100, 500), 30000, None)
    assert not records.stopping((200, 900), 31000, None)
    assert not read(files(stop), files(old, alive=True)).stopping((100, 500), 30000, old)  # nobody goes on with it
    assert records.was_stopped((100, 500), old)
    launched = replace(stop, process=(300, 800), step="verify", family=((300, 800),))
    after = read(files(launched, alive=True), files(old, alive=False, status=247), holder="held")
    assert after.was_stopped((100, 500), old)
    assert not after.stopping((300, 800), 30000, launched)
    assert not after.was_stopped((300, 800), launched)


def test_each_familys_recorded_members_and_keeper_are_its_own() -> None:
    """Two servers of one user: what one's record lists is never the other's, who is older."""
    one, two = sglang(100, port=30000), sglang(200, port=30001)
    two = (replace(two[0], pgrp=190, session=190), *two[1:])
    left = Proc(205, ("sglang::scheduler_TP0",), 1, pgrp=205, session=190, started=two[1].started)
    apart = Proc(206, ("python3", "tracker"), 1, pgrp=206, session=206, started=two[1].started)
    records = Records(
        (Kept(replace(MADE, id="b", port=30001, process=(200, two[0].started), keeper=(190, two[0].started), family=((206, apart.started),))),)
    )  # fmt: skip
    inventory = drive(discover(records=records), PaperNode((*one, *two, left, apart)))
    pids = {server.port: {m.process.pid for m in server.family} for server in inventory.servers}
    assert pids == {30000: {p.pid for p in one}, 30001: {p.pid for p in two} | {205, 206}}
    assert inventory.orphans == ()


def test_a_launch_that_is_no_server_yet_is_one_to_come() -> None:
    script = Proc(300, ("/bin/sh", "run.sh"), 1, pgrp=300, session=300, started=500_000)
    record = replace(MADE, process=(300, 500_000), command=("/bin/sh", "run.sh"), log="/data/new.log")
    (server,) = drive(discover(records=Records((Kept(record),))), PaperNode((script,))).servers
    assert (server.id, server.pid, server.log.path, server.listening) == ("sglang:30000", 300, "/data/new.log", False)
    below = replace(sglang(310)[0], ppid=300, pgrp=300, session=300, started=500_050)
    (found,) = drive(discover(records=Records((Kept(record),))), PaperNode((script, below))).servers
    assert found.pid == 310
    assert drive(discover(records=Records((Kept(record),), frozenset({record.id}))), PaperNode((script,))).servers == ()


def test_a_later_process_of_that_number_is_not_the_launch() -> None:
    """Numbers come back: of processes and of the sessions that they lead."""
    record = replace(MADE, process=(100, 400), keeper=(90, 390))
    records = Records((Kept(record),))
    later = Process(100, 1, 100, 100, "S", "python", 999)
    assert records.of(later, (later,)) is None
    server = Process(120, 1, 90, 90, "S", "python", 999)
    keeper = Process(90, 1, 90, 90, "S", "sh", 390)
    assert records.of(server, (server, replace(keeper, started=800))) is None
    assert records.of(server, (server,)) is None
    assert records.of(server, (server, keeper)) == record
    assert records.of(replace(server, started=300), (server, keeper)) is None
