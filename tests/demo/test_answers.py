"""Every named script, answered by the simulated node and by the real sh here: the same shape, by our own parsers."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.demo import shape
from eagletui.demo.answer import Answer
from eagletui.demo.answers import ANSWERS, Poll, answer, decode_argument, follow
from eagletui.demo.processes import HTTP_INODE, UID
from eagletui.demo.shape import LAUNCHER_PID
from eagletui.demo.world import World
from eagletui.servers.discovery import discover
from eagletui.servers.model import Inventory
from eagletui.shell.details import Details, parse_details
from eagletui.shell.fetch import Fetched, parse_fetch
from eagletui.shell.follow import FileHead, parse_file_head, parse_launch_offset
from eagletui.shell.kernel import parse_kernel_log, parse_oom_count
from eagletui.shell.poll import PollAnswer, PollDecoder
from eagletui.shell.processes import ProcessTable, parse_processes
from eagletui.shell.script import MARK, Command, encode_argument, wire
from eagletui.shell.scripts import SCRIPTS
from tests.sshd import free_port

OPENED = 1_800_000_000.0
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the scripts read /proc")


def world(e: float = 95.0) -> World:
    made = World(opened=OPENED, into_start=e)
    made.advance(OPENED)
    return made


def ask(name: str, *args: str, e: float = 95.0) -> Answer:
    return answer(world(e), name, [a.encode() for a in args], OPENED)


def real(name: str, *args: str, stdin: bytes = b"") -> Answer:
    """The script as a node runs it."""
    sent = wire(Command(SCRIPTS[name], args, stdin))
    done = subprocess.run(["sh", "-c", sent.line], input=sent.stdin, capture_output=True, timeout=20, check=False)
    return Answer(done.stdout.partition(MARK)[2], done.stderr.partition(MARK)[2], done.returncode)


def test_an_unknown_script_is_127_and_a_sentence() -> None:
    said = ask("no-such")
    assert (said.status, said.stdout) == (127, b"")
    assert b"no-such" in said.stderr


# processes


def rows(table: ProcessTable) -> set[bool]:
    """What is to hold in every table."""
    own = [row for row in table.rows if row.stat.pid == table.own_pid]
    known = {row.stat.pid for row in table.rows}
    return {
        table.boot_id not in {None, "-"},
        table.ticks_per_s == 100,
        (table.uptime_s or 0) > 0,
        (table.epoch_s or 0) > 1e9,
        table.own_uid is not None,
        len(own) == 1 and bool(own[0].argv),
        all(row.stat.started >= 0 and row.stat.threads >= 0 for row in table.rows),
        all(row.uid is not None for row in table.rows if row.stat.pid in {1, table.own_pid}),
        1 in known,
    }


@linux
def test_processes_is_a_table_as_the_real_one() -> None:
    assert rows(parse_processes(real("processes").stdout)) == {True}
    assert rows(parse_processes(ask("processes").stdout)) == {True}


def test_stat_lines_have_52_fields() -> None:
    block = ask("processes").stdout.split(b"\0@stat\n")[1].split(b"\0@uid\n")[0]
    lines = block.splitlines()
    assert len(lines) > 20
    assert {len(line.rpartition(b")")[2].split()) for line in lines} == {50}


def test_the_family_is_what_a_server_of_eight_ranks_has() -> None:
    table = parse_processes(ask("processes").stdout)
    family = [row for row in table.rows if row.stat.session == LAUNCHER_PID]
    titles = [row.argv[0] for row in family if row.argv[0].startswith("sglang::")]
    assert titles == [f"sglang::scheduler_TP{n}" for n in range(8)] + ["sglang::detokenizer"]
    assert {row.stat.comm for row in family} == {"python3", "sglang::schedul", "sglang::detoken"}
    assert all(row.uid == UID for row in family)
    assert sum("compile_worker" in " ".join(row.argv) for row in family) == 5
    launcher = next(row for row in family if row.stat.pid == LAUNCHER_PID)
    assert launcher.argv == shape.COMMAND
    assert (table.uptime_s or 0) - launcher.stat.started / 100 == pytest.approx(95, abs=0.1)
    uids = {row.uid for row in table.rows}
    assert len(uids) >= 3


@pytest.mark.parametrize(("e", "members", "named"), [(5.0, 1, 0), (15.0, 11, 0), (30.0, 11, 9), (95.0, 16, 9)])
def test_the_family_grows_as_the_launch_goes_on(e: float, members: int, named: int) -> None:
    family = [row for row in parse_processes(ask("processes", e=e).stdout).rows if row.stat.session == LAUNCHER_PID]
    assert len(family) == members
    assert sum(row.argv[0].startswith("sglang::") for row in family) == named


# details


def fields(details: Details, pid: int) -> tuple[bool, ...]:
    """What is to hold of a process of our own with its output in a file."""
    found = details.of(pid)
    assert found is not None
    fd = found.fd(2)
    assert fd is not None
    regular = fd.type == "regular" and fd.readable and bool(fd.inode) and fd.size is not None and bool(fd.mtime)
    return (details.complete, found.fds_readable, bool(found.argv), bool(found.cwd), regular, bool(details.users))


@linux
def test_details_are_those_of_the_real_one(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(["sleep", "20"], stderr=log, stdout=log) as child:
        try:
            ours = parse_details(real("details", str(child.pid)).stdout)
        finally:
            child.kill()
    assert fields(ours, child.pid) == (True,) * 6
    assert fields(parse_details(ask("details", str(LAUNCHER_PID)).stdout), LAUNCHER_PID) == (True,) * 6


def test_details_of_the_launcher_lead_to_its_log_and_port() -> None:
    early, late = (parse_details(ask("details", str(LAUNCHER_PID), e=e).stdout) for e in (95.0, 120.0))
    found = late.of(LAUNCHER_PID)
    assert found is not None
    log = found.fd(2)
    assert log is not None
    assert log.link.startswith("/data/eagle3/k25_2step_")
    assert (log.size or 0) > 70_000
    assert HTTP_INODE in found.sockets
    assert (30000, "127.0.0.1", HTTP_INODE) in {(one.port, one.address, one.inode) for one in late.listeners}
    assert 30000 not in {one.port for one in early.listeners}
    assert dict(late.users) == {UID: "demo"}


def test_details_of_others_cannot_be_looked_into() -> None:
    found = parse_details(ask("details", "1", "8121", "999999", "x").stdout)
    assert [one.pid for one in found.processes] == [1, 8121]
    init = found.of(1)
    assert init is not None
    assert not init.fds_readable
    assert init.cwd is None


def test_discovery_finds_the_server() -> None:
    made = world(120.0)
    steps = discover()
    command = next(steps)
    inventory: Inventory | None = None
    while inventory is None:
        args = [a if isinstance(a, bytes) else a.encode() for a in command.args]
        try:
            command = steps.send(answer(made, command.script.name, args, OPENED).stdout)
        except StopIteration as done:
            inventory = done.value
    assert inventory is not None
    (server,) = inventory.servers
    assert (server.engine, server.port, server.tp, server.model) == ("sglang", 30000, 8, shape.MODEL)
    assert server.listening
    assert server.log.path == made.log_path
    assert len(server.family) == 16
    assert inventory.orphans == ()
    assert server.user == "demo"


# poll


def polled(output: bytes) -> list[PollAnswer]:
    return PollDecoder().feed(output)


@linux
def test_poll_answers_as_the_real_one() -> None:
    mine = str(os.getpid())
    asked = f"1 ping\n2 family {mine} 999999 x\n3 all\n4 all\n5 io {mine} 1 999999 x\n6 machine\n"
    there = polled(real("poll", stdin=asked.encode()).stdout)
    poll = Poll(world())
    lines = asked.replace(mine, str(LAUNCHER_PID)).encode().splitlines()
    here = polled(b"".join(poll.answer(line, OPENED) for line in lines))
    for answers, pid in ((there, int(mine)), (here, LAUNCHER_PID)):
        ping, family, first, second, read, machine = answers
        assert (ping.seq, ping.rows, ping.pids) == (1, (), None)
        assert [stat.pid for stat in family.rows] == [pid]
        assert pid in (first.pids or ())
        assert {stat.pid for stat in first.rows} <= set(first.pids or ())
        assert pid in {stat.pid for stat in first.rows}
        assert pid not in {stat.pid for stat in second.rows}
        assert {one.pid for one in read.io} <= {pid, 1}
        assert next(one for one in read.io if one.pid == pid).asked > 0
        assert machine.machine is not None
        assert machine.machine.boot
        assert machine.machine.host


def test_poll_tells_of_a_process_that_came() -> None:
    made = World(opened=OPENED, into_start=8.0)
    poll = Poll(made)
    poll.answer(b"1 all", OPENED)
    (late,) = polled(poll.answer(b"2 all", OPENED + 5))
    assert [stat.pid for stat in late.rows] == sorted(LAUNCHER_PID + 83 + n for n in range(10))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=60).filter(lambda line: b"\n" not in line))
def test_poll_answers_any_line(line: bytes) -> None:
    assert Poll(world()).answer(line, OPENED).endswith(b" done\n")


# files


def head(said: Answer) -> tuple[FileHead | None, bytes]:
    return parse_file_head(said.stdout)


@linux
def test_read_range_is_that_of_the_real_one(tmp_path: Path) -> None:
    made = world()
    copy = tmp_path / "copy.log"
    copy.write_bytes(made.engine.log.read(0, 1 << 20))
    for offset, length in ((0, 10), (5, 70), (70_000, 1 << 20), (copy.stat().st_size, 5), (1 << 30, 5), (7, 0)):
        args = (str(offset), str(length))
        there, here = real("read-range", str(copy), *args), ask("read-range", made.log_path, *args)
        (a, body_a), (b, body_b) = head(there), head(here)
        assert a is not None
        assert b is not None
        assert (a.size, a.start, body_a) == (b.size, b.start, body_b), (offset, length)
        assert there.status == here.status == 0


@linux
def test_launch_offset_is_that_of_the_real_one(tmp_path: Path) -> None:
    made = world()
    copy = tmp_path / "copy.log"
    copy.write_bytes(made.engine.log.read(0, 1 << 20))
    for begin, limit in (("0", "1000000"), ("0", "100"), ("0", "0"), ("1000000", "1000000")):
        there = real("launch-offset", str(copy), begin, limit)
        here = ask("launch-offset", made.log_path, begin, limit)
        assert (there.stdout, there.status) == (here.stdout, here.status)
    at = parse_launch_offset(ask("launch-offset", made.log_path, "0", "1000000").stdout)
    assert at is not None
    assert made.engine.log.read(at, 23) == b"server_args=ServerArgs("


@linux
def test_http_get_is_that_of_the_real_one() -> None:
    port = str(free_port())
    there, here = real("http-get", "127.0.0.1", port, "/x", "5"), ask("http-get", "127.0.0.1", port, "/x", "5")
    assert fetched(there) == fetched(here) == Fetched("curl", failure="refused")
    with http.server.HTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        there = real("http-get", "127.0.0.1", str(server.server_port), "/x", "5")
        thread.join()
    assert fetched(there).status == 501
    for path, status, e in (
        ("/health", 503, 105.0),
        ("/health", 200, 120.0),
        ("/metrics", 200, 120.0),
        ("/x", 404, 120.0),
    ):
        seen = fetched(ask("http-get", "127.0.0.1", str(shape.PORT), path, "5", e=e))
        assert (seen.tool, seen.status, seen.failure) == ("curl", status, None)
        assert (seen.seconds is None, bool(seen.body)) == (False, path != "/health")


class Quiet(http.server.BaseHTTPRequestHandler):
    """Answers 501 to everything, and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """See the base."""


def fetched(said: Answer) -> Fetched:
    return parse_fetch(said.status, said.stdout, said.stderr)


@linux
def test_the_witnesses_of_a_death_are_those_of_the_real_one() -> None:
    there, here = (parse_kernel_log(say("kernel-log").stdout) for say in (real, ask))
    assert (there.uptime_s or 0) > 0
    assert (here.uptime_s or 0) > 0
    assert here.readable
    assert not here.events
    mine, its = real("oom-count", str(os.getpid())), ask("oom-count", str(LAUNCHER_PID))
    assert (mine.status, its.status) == (0, 0)
    found = parse_oom_count(its.stdout)
    assert found is not None
    assert found == parse_oom_count(ask("oom-count", found.group).stdout)
    assert found.kills == 0
    assert not ask("oom-count", "2/gone").stdout
    assert not mine.stdout or parse_oom_count(mine.stdout) is not None


@linux
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read-range", ["/no/such/file", "0", "5"]),
        ("read-range", ["/dev/null", "0", "5"]),
        ("read-range", ["/dev/null", "x", "5"]),
        ("read-range", ["/dev/null"]),
        ("launch-offset", ["/no/such/file", "0", "5"]),
        ("measure", ["/no/such/file"]),
        ("measure", ["/dev/null"]),
        ("launch-offset", ["/dev/null", "5x"]),
        ("run-tool", ["5", "no-such-program"]),
        ("http-get", ["127.0.0.1", "x", "/health", "5"]),
        ("http-get", ["-o", "80", "/health", "5"]),
        ("http-get", ["127.0.0.1", "80", "/a b", "5"]),
        ("http-get", ["127.0.0.1", "80", "/", "05"]),
        ("http-get", []),
        ("oom-count", []),
        ("oom-count", ["x"]),
    ],
)
def test_what_cannot_be_is_refused_as_the_real_one_does(name: str, args: list[str]) -> None:
    there, here = real(name, *args), ask(name, *args)
    assert (here.status, here.stdout, here.stderr) == (there.status, there.stdout, there.stderr)
    assert here.status


@pytest.mark.parametrize(
    ("word", "start"), [("+1", 0), ("+101", 100), ("-50", -50), ("-99999999", 0), ("7", 6), ("+0", 0)]
)
def test_where_follow_begins(word: str, start: int) -> None:
    made = world()
    size = made.engine.log.size
    said, at = follow(made, [made.log_path.encode(), word.encode()])
    assert at == (start if start >= 0 else size + start)
    found, rest = parse_file_head(said.stdout)
    assert found is not None
    assert (found.start, found.size, rest) == (at, size, b"")


def test_the_log_is_there_by_way_of_proc_too() -> None:
    made = world()
    for path in (f"/proc/{LAUNCHER_PID}/fd/2", f"/proc/{LAUNCHER_PID + 84}/fd/1"):
        assert made.file(path) is made.engine.log
    assert made.file("/proc/1/fd/2") is None
    assert made.file(f"/proc/{LAUNCHER_PID}/fd/0") is None


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=40).filter(lambda raw: b"\0" not in raw))
def test_arguments_come_out_as_they_went_in(raw: bytes) -> None:
    assert decode_argument(encode_argument(raw)) == raw


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.binary(max_size=12), max_size=4))
def test_any_arguments_give_an_answer(name: str, args: list[bytes]) -> None:
    said = answer(world(), name, args, OPENED)
    assert said.status == 0 or said.stderr.endswith(b"\n")
