"""Parsers of what the scripts print: tables, every split point of the incremental ones, and random bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.shell.details import Descriptor, Listener, parse_details, split_arguments
from eagletui.shell.follow import (
    FileHead,
    HeadReader,
    find_launch,
    follow_from,
    follow_last,
    measure,
    parse_file_head,
    parse_launch_offset,
    read_range,
)
from eagletui.shell.poll import (
    Machine,
    PollAnswer,
    PollDecoder,
    ReadBytes,
    ask_all,
    ask_family,
    ask_io,
    ask_machine,
    ask_ping,
)
from eagletui.shell.processes import ProcessTable, parse_processes, parse_stat


def stat(pid: int, comm: bytes, ppid: int = 1, state: bytes = b"S", started: int = 500) -> bytes:
    """A row of 52 fields, as Linux 6 prints it."""
    before = b"%d (%b) %b %d 20 30 0 -1 4194304 100 0 0 0 7 3 0 0 20 0 4 0 %d " % (pid, comm, state, ppid, started)
    return before + b" ".join([b"1000"] * 30) + b"\n"


def table(stats: bytes = b"", uids: bytes = b"", argv: bytes = b"", facts: bytes | None = None) -> bytes:
    facts = b"boot-1\n100\n5000.25\n1700000000\n1000\n77\n" if facts is None else facts
    return b"@sys\n" + facts + b"\0@stat\n" + stats + b"\0@uid\n" + uids + b"\0@argv\n" + argv


def test_facts_of_the_node() -> None:
    read = parse_processes(table())
    assert read == ProcessTable("boot-1", 100, 5000.25, 1700000000, 1000, 77, ())


def test_facts_that_are_missing_are_unknown() -> None:
    read = parse_processes(table(facts=b"-\nx\n-\n\n"))
    assert (read.boot_id, read.ticks_per_s, read.uptime_s, read.epoch_s, read.own_uid) == (None, 100, None, None, None)
    assert parse_processes(b"") == ProcessTable()


def test_a_row_is_joined_from_its_three_places() -> None:
    read = parse_processes(
        table(
            stat(12, b"python"),
            b"/proc/12/status:Uid:\t1000\t0\t0\t0\n/proc/13/status:Uid:\t1\t1\t1\t1\n",
            b"/proc/12/cmdline\0python\0/proc/12/cmdline\0a\nb\0/proc/99/cmdline\0x\0",
        )
    )
    assert len(read.rows) == 1
    row = read.rows[0]
    assert (row.uid, row.argv) == (1000, ("python", "a\nb"))
    assert (row.stat.ppid, row.stat.pgrp, row.stat.session, row.stat.state) == (1, 20, 30, "S")
    assert (row.stat.cpu_ticks, row.stat.threads, row.stat.started) == (10, 4, 500)


@pytest.mark.parametrize(
    "comm",
    [
        b"a b",
        b"a) S 1 2 (b",
        b") R 1 1 1 0 -1",
        b"x\ny",
        b"\n",
        b"\n\n\n",
        b"x) R 1 1\n1 (y",
        b"((((",
        b"))))",
        b"",
        b"\xff\xfe",
        b"@stat\n",
        b"kworker/u257:12-events_unbound_and_longer",
    ],
)
def test_a_name_can_forge_nothing(comm: bytes) -> None:
    read = parse_processes(table(stat(5, b"before") + stat(12, comm, ppid=7) + stat(14, b"after")))
    assert [(r.stat.pid, r.stat.comm.encode("utf-8", "surrogateescape")) for r in read.rows] == [
        (5, b"before"),
        (12, comm),
        (14, b"after"),
    ]
    assert read.rows[1].stat.ppid == 7


def test_a_torn_row_takes_no_other_with_it() -> None:
    read = parse_processes(table(b"9 (torn) S 1 2 3\n" + b"".join(stat(n, b"x" * 15) for n in range(20, 30))))
    pids = [row.stat.pid for row in read.rows]
    assert pids[-8:] == list(range(22, 30))
    assert 1 not in pids


def test_output_that_is_cut_anywhere_gives_what_is_whole() -> None:
    whole = table(stat(12, b"a\nb") + stat(13, b"c"), b"/proc/12/status:Uid:\t5\t5\t5\t5\n", b"/proc/12/cmdline\0p\0")
    full = parse_processes(whole)
    for cut in range(len(whole)):
        read = parse_processes(whole[:cut])
        assert {row.stat.pid for row in read.rows} <= {12, 13}
    assert [row.stat.pid for row in full.rows] == [12, 13]


@pytest.mark.parametrize(
    ("raw", "argv"),
    [
        (b"python\0-m\0x\0", ("python", "-m", "x")),
        (b"python\0\0x\0", ("python", "", "x")),
        (b"python\0x\0\0", ("python", "x", "")),
        (b"sglang::scheduler_TP0\0\0\0\0\0\0", ("sglang::scheduler_TP0",)),
        (b"title without end", ("title without end",)),
        (b"", ()),
        (b"\0\0\0", ()),
    ],
)
def test_arguments_are_exact(raw: bytes, argv: tuple[str, ...]) -> None:
    assert split_arguments(raw) == argv


def _hex(text: str) -> str:
    return text.encode().hex()


DETAILS = "\n".join(
    [
        "pid 12",
        f"argv {_hex('python')}00{_hex('-m')}00{_hex('x')}0000",
        f"cwd {_hex('/data/a b')}",
        f"fd 0 {_hex('/dev/null')} 6 3 0 1700000000 character y",
        f"fd 1 {_hex('/data/x.log (deleted)')} 64768 9 123 1700000001 regular y",
        f"fd 2 {_hex('pipe:[77]')} - - - - fifo n",
        "sock 501",
        "sock 502",
        "pid 13",
        "argv ",
        "cwd ",
        "nofd",
        "listen tcp 0100007F:7530 1000 501",
        "listen tcp6 00000000000000000000000001000000:1F90 0 600",
        "listen tcp6 0000000000000000FFFF00000500000A:1F91 0 601",
        "listen tcp 00000000:0050 0 602",
        "user 1000 alice",
        "user 1001 ",
        "done",
        "",
    ]
).encode()


def test_details_of_processes() -> None:
    read = parse_details(DETAILS)
    assert read.complete
    first, second = read.processes
    assert (first.pid, first.argv, first.cwd) == (12, ("python", "-m", "x", ""), "/data/a b")
    assert first.sockets == {501, 502}
    assert first.fd(0) == Descriptor(0, "/dev/null", "character", True, False, "6", 3, 0, 1700000000.0)
    assert first.fd(1) == Descriptor(1, "/data/x.log", "regular", True, True, "64768", 9, 123, 1700000001.0)
    assert first.fd(2) == Descriptor(2, "pipe:[77]", "fifo", False)
    assert (second.argv, second.cwd, second.fds_readable, second.fd(1)) == ((), None, False, None)
    assert read.listeners == (
        Listener(30000, "127.0.0.1", 1000, 501),
        Listener(8080, "::1", 0, 600),
        Listener(8081, "10.0.0.5", 0, 601),
        Listener(80, "0.0.0.0", 0, 602),
    )
    assert read.users == ((1000, "alice"),)


def test_details_that_are_cut_are_not_complete() -> None:
    for cut in range(len(DETAILS) - 5):
        assert not parse_details(DETAILS[:cut]).complete


POLLED = (
    b"1 done\n2 pids 1 12 13\n2 stat "
    + stat(12, b"a b) c")
    + b"2 stat 13 (x\nnoise\n2 done\n3 stat "
    + stat(12, b"y")
    + b"3 done\n"
)


def test_answers_of_the_poller() -> None:
    first, second, third = PollDecoder().feed(POLLED)
    assert first == PollAnswer(1)
    assert (second.seq, second.pids, second.torn) == (2, frozenset({1, 12, 13}), frozenset({13}))
    assert [row.comm for row in second.rows] == ["a b) c"]
    assert (third.pids, [row.pid for row in third.rows]) == (None, [12])


def test_what_processes_read_and_which_machine() -> None:
    (read,) = PollDecoder().feed(b"4 io 12 4096 99\n4 io 13 - 99\n4 io 14 -1 5\n4 io 15 5\n4 done\n")
    assert read.io == (ReadBytes(12, 4096, 99),)
    (machine,) = PollDecoder().feed(b"5 machine 8f1f-2c 5b0c gpu-node\n5 done\n")
    assert machine.machine == Machine("8f1f-2c", "5b0c", "gpu-node")
    (torn,) = PollDecoder().feed(b"6 machine - \xff\n6 done\n")
    assert torn.machine == Machine(None, "\ufffd", None)


def test_answers_are_the_same_at_every_split() -> None:
    whole = PollDecoder().feed(POLLED)
    for cut in range(len(POLLED)):
        decoder = PollDecoder()
        assert decoder.feed(POLLED[:cut]) + decoder.feed(POLLED[cut:]) == whole
    decoder = PollDecoder()
    assert [a for i in range(len(POLLED)) for a in decoder.feed(POLLED[i : i + 1])] == whole


def test_an_endless_line_is_dropped_with_its_rest() -> None:
    decoder = PollDecoder()
    for _ in range(9):
        assert decoder.feed(b"1 pids " + b"2 " * (1 << 19)) == []
    assert decoder.feed(b" 3 4\n5 done\n") == [PollAnswer(5)]


def test_requests_to_the_poller() -> None:
    assert (ask_ping(1), ask_family(2, [5, 6]), ask_all(3)) == (b"1 ping\n", b"2 family 5 6\n", b"3 all\n")
    assert (ask_io(4, [7, 8]), ask_machine(5)) == (b"4 io 7 8\n", b"5 machine\n")


HEAD = b"file 64768 99 1000 1700000000 250 4711\n"


def test_the_first_line_of_a_followed_file() -> None:
    head = FileHead("64768", 99, 1000, 1700000000.0, 250, 4711)
    assert parse_file_head(HEAD + b"raw\nfile") == (head, b"raw\nfile")
    assert parse_file_head(b"file - - 0 0 0 0\n") == (FileHead(None, None, 0, 0.0, 0), b"")
    assert parse_file_head(HEAD[:-1]) == (None, HEAD[:-1])
    assert parse_file_head(b"file x\nraw") == (None, b"file x\nraw")


def test_the_first_line_at_every_split() -> None:
    whole = HEAD + b"\x00raw\nbytes"
    for cut in range(len(whole) + 1):
        reader = HeadReader()
        assert reader.decode(whole[:cut]) + reader.decode(whole[cut:]) + reader.flush() == b"\x00raw\nbytes"
        assert reader.head is not None
        assert not reader.failed


def test_a_stream_without_a_first_line_is_said_to_fail() -> None:
    reader = HeadReader()
    assert reader.decode(b"what\nis") == b"what\nis"
    assert reader.failed
    reader = HeadReader()
    assert reader.decode(b"x" * 300) == b"x" * 300
    assert reader.failed


def test_commands_of_followed_files() -> None:
    assert follow_from("/a b", 0).args == ("/a b", "+1", "0", "900")
    assert follow_from("/a b", 7, 4711).args == ("/a b", "+8", "4711", "900")
    assert follow_last("-x", 4096).args == ("./-x", "-4096", "0", "900")
    assert read_range("/a", 10, 20).args == ("/a", "10", "20")
    assert find_launch("/a", 3, -5).args == ("/a", "3", "0")
    assert measure("-x").args == ("./-x",)


@pytest.mark.parametrize(("output", "offset"), [(b"123\n", 123), (b"", None), (b"x\n", None), (b"-1\n", None)])
def test_the_offset_of_the_last_launch(output: bytes, offset: int | None) -> None:
    assert parse_launch_offset(output) == offset


_PIECES = st.sampled_from(
    [b"@sys\n", b"\0@stat\n", b"\0@uid\n", b"\0@argv\n", b"12 (", b") S 1 2", b"pid 1\n", b"fd 1 ", b"argv ",
     b"listen tcp ", b"1 stat ", b"1 done\n", b"file 1 2 3 4 5 6\n", b"1 file same 7\n", b"1 pid 8\n", b"/proc/1/cmdline\0", b"user 1 "]
)  # fmt: skip


@given(st.lists(_PIECES | st.binary(max_size=20), max_size=12).map(b"".join))
@settings(max_examples=100)
def test_parsers_are_total(output: bytes) -> None:
    parse_processes(output)
    parse_details(output)
    parse_stat(output)
    parse_file_head(output)
    parse_launch_offset(output)
    decoder = PollDecoder()
    half = len(output) // 2
    assert decoder.feed(output[:half]) + decoder.feed(output[half:]) == PollDecoder().feed(output)
