"""Every script that reads a node, run for real under every login shell; hostile arguments execute nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagletui.shell.details import ask_details, parse_details
from eagletui.shell.follow import (
    NO_FILE,
    NOT_READABLE,
    NOT_REGULAR,
    find_launch,
    follow_from,
    follow_last,
    measure,
    parse_file_head,
    parse_launch_offset,
    read_range,
)
from eagletui.shell.fragments import SEND
from eagletui.shell.poll import (
    PollAnswer,
    PollDecoder,
    ask_all,
    ask_family,
    ask_io,
    ask_look,
    ask_machine,
    ask_ping,
    start_poll,
)
from eagletui.shell.processes import ask_processes, parse_processes
from eagletui.shell.script import Command
from eagletui.shell.scripts import DETAILS, FOLLOW, LAUNCH_OFFSET, LOOP_TOOL, MEASURE, READ_RANGE, RUN_TOOL, SCRIPTS
from tests.requires import require
from tests.shell.sh import LOGIN_SHELLS, Reading, run, stream

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")

HOSTILE = (
    "a b",
    "a'b\"c",
    "$(touch executed)",
    "`touch executed`",
    "; touch executed",
    "&& touch executed #",
    "| touch executed",
    "line\nbreak; touch executed",
    "\ntouch executed\n",
    "-n",
    "--help",
    "*",
    "~",
    "%s%n\\0101\\c",
    "x\\",
    "a[$(touch executed)]",
    "é\udcff",
    "!!",
    "",
)


@pytest.fixture(params=LOGIN_SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process with hostile and empty arguments, in a folder of its own, that listens nowhere."""
    code = "import sys; sys.stdout.write('up'); sys.stdout.flush(); sys.stdin.read()"
    words = [w.encode("utf-8", "surrogateescape") for w in HOSTILE]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.read(2) == b"up"
    yield process
    process.stdin.close()
    process.wait(timeout=10)
    process.stdout.close()


def wait_for(reader: Reading, enough: Callable[[bytes], object], seconds: float = 8.0) -> bytes:
    """What the stream says until it is enough."""
    said = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        said += reader.more()
        if enough(said):
            return said
        time.sleep(0.02)
    pytest.fail(f"only {said[-300:]!r} came in {seconds} s")


def test_the_process_table(shell: str, tmp_path: Path, victim: subprocess.Popen[bytes]) -> None:
    status, output, _ = run(ask_processes(), tmp_path, shell)  # a process that ends meanwhile may be told on stderr
    assert status == 0
    table = parse_processes(output)
    rows = {row.stat.pid: row for row in table.rows}
    assert table.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert table.ticks_per_s == os.sysconf("SC_CLK_TCK")
    assert table.own_uid == os.getuid()
    assert table.own_pid in rows
    assert table.epoch_s is not None
    assert abs(table.epoch_s - time.time()) < 30
    assert table.uptime_s is not None
    me = rows[os.getpid()]
    assert me.uid == os.getuid()
    assert rows[victim.pid].stat.ppid == os.getpid()
    assert rows[victim.pid].stat.started <= table.uptime_s * table.ticks_per_s + 1
    assert rows[victim.pid].argv[0] == sys.executable
    words = [w for w in HOSTILE if w and "\n" not in w]  # a node without GNU grep tears arguments at newlines
    assert [w for w in rows[victim.pid].argv[3:] if w in words] == words
    assert not (tmp_path / "executed").exists()


def test_details(shell: str, tmp_path: Path, victim: subprocess.Popen[bytes]) -> None:
    status, output, errors = run(ask_details([victim.pid, os.getpid(), 2**22 + 1]), tmp_path, shell)
    assert (status, errors) == (0, b"")
    details = parse_details(output)
    assert details.complete
    assert [p.pid for p in details.processes] == [victim.pid, os.getpid()]
    seen = details.of(victim.pid)
    assert seen is not None
    assert seen.argv[3:] == HOSTILE
    assert seen.cwd == str(Path.cwd())
    stdin = seen.fd(0)
    assert stdin is not None
    assert (stdin.type, stdin.readable) == ("fifo", True)
    assert os.getuid() in dict(details.users)


def test_details_of_listening_sockets_and_deleted_files(shell: str, tmp_path: Path) -> None:
    log = tmp_path / "log $(touch executed) é.txt"
    code = (
        "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        facts = log.stat()
        before = parse_details(run(ask_details([process.pid]), tmp_path, shell)[1])
        log.unlink()
        after = parse_details(run(ask_details([process.pid]), tmp_path, shell)[1])
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        process.stdout.close()
    for details, deleted in ((before, False), (after, True)):
        seen = details.of(process.pid)
        assert seen is not None
        assert [x.port for x in details.listeners if x.inode in seen.sockets] == [port]
        stderr = seen.fd(2)
        assert stderr is not None
        assert (stderr.link, stderr.type, stderr.deleted) == (str(log), "regular", deleted)
        assert (stderr.inode, stderr.size, stderr.device) == (facts.st_ino, 0, str(facts.st_dev))


def test_polling(shell: str, tmp_path: Path, victim: subprocess.Popen[bytes]) -> None:
    with stream(start_poll(), tmp_path, shell) as process:
        assert process.stdin is not None
        reader, decoder = Reading(process), PollDecoder()

        def ask(request: bytes) -> PollAnswer:
            assert process.stdin is not None
            process.stdin.write(request)
            process.stdin.flush()
            (answer,) = decoder.feed(wait_for(reader, lambda said: said.endswith(b" done\n")))
            return answer

        shell_pid = ask(ask_ping(1)).shell
        assert shell_pid is not None
        assert Path(f"/proc/{shell_pid}/cmdline").read_bytes().startswith(b"sh\0-c\0")
        alive = ask(ask_family(2, [victim.pid, 2**22 + 1]))
        assert [row.pid for row in alive.rows] == [victim.pid]
        assert alive.rows[0].state in {"S", "R"}
        everyone = ask(ask_all(3))
        assert everyone.pids is not None
        assert {victim.pid, os.getpid()} <= everyone.pids
        assert victim.pid in {row.pid for row in everyone.rows}
        again = ask(ask_all(4))
        assert victim.pid not in {row.pid for row in again.rows}
        for verb in (b"family", b"io"):
            hostile = ask(b"5 " + verb + b" $(touch executed) `touch executed` ; touch executed * ../..\n")
            assert hostile == PollAnswer(5)
        (read,) = ask(ask_io(6, [victim.pid, 2**22 + 1])).io
        assert read.pid == victim.pid
        assert read.asked > 10_000  # it read Python's own files to begin
        machine = ask(ask_machine(7)).machine
        assert machine is not None
        assert machine.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert machine.host == os.uname().nodename
    assert process.returncode == 0
    assert not (tmp_path / "executed").exists()


def test_looking_at_the_name_of_a_followed_file(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "x $(touch executed) \\ 'y' .log "
    path.write_bytes(b"12345\n")
    with stream(start_poll(), tmp_path, shell) as poll, stream(follow_from(str(path), 0), tmp_path, shell) as following:
        head, _ = parse_file_head(wait_for(Reading(following), lambda said: said.count(b"\n") > 1))
        assert head is not None
        reader, decoder = Reading(poll), PollDecoder()

        def look(pid: int) -> tuple[str | None, int | None]:
            assert poll.stdin is not None
            poll.stdin.write(ask_look(7, pid, str(path)) or b"")
            poll.stdin.flush()
            (answer,) = decoder.feed(wait_for(reader, lambda said: said.endswith(b" done\n")))
            return answer.file, answer.read_to

        assert look(head.pid) == ("same", 6)
        path.rename(tmp_path / "aside")
        assert look(head.pid) == ("missing", 6)
        path.touch()
        assert look(head.pid) == ("other", 6)
        assert look(2**22 + 1) == ("gone", None)
    assert ask_look(1, 1, "new\nline") is None
    assert not (tmp_path / "executed").exists()


def test_following(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "x $(touch executed)\n'y'.log"
    path.write_bytes(b"0123456789\n")
    with stream(follow_from(str(path), 5), tmp_path, shell) as process:
        reader = Reading(process)
        head, raw = parse_file_head(wait_for(reader, lambda said: said.count(b"\n") > 1))
        assert head is not None
        assert (head.start, head.size, head.inode) == (5, 11, path.stat().st_ino)
        assert raw == b"56789\n"
        with path.open("ab") as file:
            file.write(b"\x00\xffmore\n")
        assert wait_for(reader, lambda said: b"more\n" in said) == b"\x00\xffmore\n"
    assert process.returncode == 0
    assert not (tmp_path / "executed").exists()


def test_following_from_near_the_end(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\n")
    for size, start in ((4, 7), (100, 0)):
        with stream(follow_last(str(path), size), tmp_path, shell) as process:
            head, raw = parse_file_head(wait_for(Reading(process), lambda said: said.count(b"\n") > 1))
        assert head is not None
        assert head.start == start
        assert raw == b"0123456789\n"[start:]


def test_a_follower_ends_on_the_node_when_its_stdin_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x\n")
    with stream(follow_from(str(path), 0), tmp_path) as process:
        wait_for(Reading(process), lambda said: said.count(b"\n") > 1)
        below = _below(process.pid)
        assert below
    end = time.monotonic() + 8
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in below):
        time.sleep(0.05)
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


def test_a_follower_without_a_keeper_says_when_its_lease_ends(tmp_path: Path) -> None:
    """Though its stdin stays open: nothing holds its outputs any more, and nothing is left of it."""
    log = tmp_path / "log"
    log.write_text("one\n")
    with stream(Command(FOLLOW, (str(log), "+1", "0", "1")), tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for pipe in (process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            end = time.monotonic() + 10
            while pipe.read() != b"":  # None: it is open, and silent
                assert time.monotonic() < end
                time.sleep(0.05)
            process.wait(5)


def _below(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid:
            found.append(int(entry.parent.name))
    return found


@pytest.mark.parametrize(
    ("command", "numbers"), [(follow_from, (1,)), (read_range, (0, 1)), (find_launch, (0, 1)), (measure, ())]
)
def test_files_that_cannot_be_followed_are_told_by_status(
    command: Callable[..., Command], numbers: tuple[int, ...], shell: str, tmp_path: Path
) -> None:
    def status(path: Path) -> int:
        return run(command(str(path), *numbers), tmp_path, shell)[0]

    assert status(tmp_path / "nothing") == NO_FILE
    assert status(tmp_path) == NOT_REGULAR
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.touch(mode=0)
        assert status(locked) == NOT_READABLE


def test_reading_a_range(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "-log; touch executed"
    path.write_bytes(bytes(range(256)) * 40)
    head, raw = parse_file_head(run(read_range(path.name, 300, 500), tmp_path, shell)[1])
    assert head is not None
    assert (head.start, head.size) == (300, 10240)
    assert raw == (bytes(range(256)) * 40)[300:800]
    assert parse_file_head(run(read_range(path.name, 99999, 5), tmp_path, shell)[1])[1] == b""


def test_finding_the_last_launch(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    text = b"noise\nserver_args=one\n" + b"x" * 5000 + b"\n\x00[t] server_args=two\nmore\n"
    path.write_bytes(text)
    whole = parse_launch_offset(run(find_launch(str(path), 0, 1 << 20), tmp_path, shell)[1])
    if shell == "busybox":  # its grep tells no offsets, so nothing is found: the arguments are then read elsewhere
        assert whole is None
        return
    assert whole == text.rfind(b"server_args=two")
    path.write_bytes(text + b"\0" * 300_000_000)
    assert parse_launch_offset(run(find_launch(str(path), 0, 1 << 30), tmp_path, shell)[1]) == whole
    path.write_bytes(b"vLLM API server version 1\n" + b"x\n" * 3000)
    assert parse_launch_offset(run(find_launch(str(path), 0, 1000), tmp_path, shell)[1]) == 0
    assert parse_launch_offset(run(find_launch(str(path), 5, 1000), tmp_path, shell)[1]) is None
    path.write_bytes(text)
    near = parse_launch_offset(run(find_launch(str(path), 0, 100), tmp_path, shell)[1])
    assert near == whole


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_numbers_and_paths_execute_nothing(value: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"server_args=\n")
    for shell in ("dash", "bash-as-sh"):
        for command in (
            Command(READ_RANGE, (value, value, value)),
            Command(READ_RANGE, ("log", value, "5")),
            Command(READ_RANGE, ("log", "0", value)),
            Command(LAUNCH_OFFSET, ("log", value, "5")),
            Command(LAUNCH_OFFSET, ("log", "0", value)),
            Command(MEASURE, (value,)),
            Command(DETAILS, (value, "1")),
        ):
            run(command, tmp_path, shell)
            assert not (tmp_path / "executed").exists(), (shell, command)
        for arguments in ((value, "+1"), ("log", value), ("log", "+1", value), ("log", "+1", "0", value)):
            with stream(Command(FOLLOW, arguments), tmp_path, shell):
                pass
            assert not (tmp_path / "executed").exists(), (shell, arguments)


def test_arguments_reach_a_tool_unchanged(shell: str, tmp_path: Path) -> None:
    code = "import sys, os; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"
    status, output, _ = run(Command(RUN_TOOL, ("10", sys.executable, "-c", code, *HOSTILE)), tmp_path, shell)
    assert status == 0
    assert tuple(a.decode("utf-8", "surrogateescape") for a in output.split(b"\0")) == HOSTILE
    assert not (tmp_path / "executed").exists()


def test_a_tool_has_a_deadline_and_may_be_missing(shell: str, tmp_path: Path) -> None:
    status, _, errors = run(Command(RUN_TOOL, ("10", "no-such-$(touch executed)")), tmp_path, shell)
    assert status == 127
    assert b"not found" in errors
    began = time.monotonic()
    status, _, _ = run(Command(RUN_TOOL, ("1", "sleep", "8")), tmp_path, shell)
    assert time.monotonic() - began < 6
    assert status in {124, -signal.SIGTERM}  # busybox's timeout lets the tool's own end show
    status, output, errors = run(
        Command(RUN_TOOL, ("5", "sh", "-c", "echo out; echo err >&2; exit 7")), tmp_path, shell
    )
    assert (status, output, errors) == (7, b"out\n", b"err\n")
    assert not (tmp_path / "executed").exists()


def test_a_follower_ends_with_its_keeper(shell: str, tmp_path: Path) -> None:
    """Though its stdin stays open and its log is silent: a client that vanished closes nothing."""
    path = tmp_path / "log"
    path.write_bytes(b"x\n")
    keeper = subprocess.Popen(["sleep", "60"])
    with stream(follow_from(str(path), 0, keeper.pid), tmp_path, shell) as process:
        wait_for(Reading(process), lambda said: said.count(b"\n") > 1)
        keeper.kill()
        keeper.wait(10)
        if shell == "busybox":
            return  # its tail can watch nobody, so it ends with its stdin
        process.wait(5)


def test_streams_end_with_their_lease(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x\n")
    commands = [
        start_poll(1),
        Command(FOLLOW, (str(path), "+1", "0", "1")),
        Command(LOOP_TOOL, ("1", "sh", "-c", "while sleep 0.1; do echo tick; done")),
    ]
    for command in commands:
        with stream(command, tmp_path, shell) as process:
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), True)
            began = time.monotonic()
            while process.stdout.read1():  # type: ignore[attr-defined]
                assert time.monotonic() - began < 10
            process.wait(5)  # though nobody closed its stdin


def test_measuring_a_file_with_a_hole(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "x $(touch executed)"
    for written, hole in (
        (b"", 0),
        (b"data", 0),
        (b"\0\0data\0\0", 2),
        (b"\0" * 70_000 + b"d", 70_000),
        (b"\0" * 9, 9),
    ):
        path.write_bytes(written)
        head, rest = parse_file_head(run(measure(str(path)), tmp_path, shell)[1])
        assert head is not None
        assert (head.size, head.start, head.inode, rest) == (len(written), hole, path.stat().st_ino, b"")
    assert not (tmp_path / "executed").exists()


def test_a_looping_tool_goes_on_until_nobody_reads_it(shell: str, tmp_path: Path) -> None:
    code = "import time\nwhile True: print('tick', flush=True); time.sleep(0.05)"
    with stream(Command(LOOP_TOOL, ("900", sys.executable, "-c", code)), tmp_path, shell) as process:
        wait_for(Reading(process), lambda said: said.count(b"tick") >= 3)
        assert process.stdout is not None
        process.stdout.close()  # as sshd does when its client is gone


def test_no_script_sends_a_signal_or_assembles_text() -> None:
    for script in SCRIPTS.values():
        assert not re.search(r"\b(kill|pkill|killall|fuser|eval|source)\b", script.text.replace(SEND, "")), script.name


def test_scripts_pass_the_syntax_check_of_each_shell(tmp_path: Path) -> None:
    for name in ("dash", "bash", "busybox"):
        program = require(name)
        for script in SCRIPTS.values():
            argv = [program, "sh", "-n"] if name == "busybox" else [program, "-n"]
            done = subprocess.run(argv, input=script.text.encode(), capture_output=True, timeout=10, check=False)
            assert (done.returncode, done.stderr) == (0, b""), (name, script.name)
