"""The keeper, for real, under every kind of sh: what runs below it is exactly what was written, and what became of it is told."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.launching.acting import FENCED
from eagletui.shell.keeper import ask_keeper_state, ask_launch, parse_keeper_state, parse_launch
from eagletui.shell.records import LaunchFiles, ask_record_create
from tests.locked import Locked, locked
from tests.shell.sh import run

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
SHELLS = ("dash", "bash-as-sh", "busybox")
PATH = os.environ["PATH"]
TELL = """
import json, os, resource, signal, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(json.dumps({
    "argv": [part.hex() for part in map(os.fsencode, sys.argv[1:])],
    "env": sorted(entry.hex() for entry in open("/proc/self/environ", "rb").read().split(b"\\0") if entry),
    "cwd": os.getcwd(), "umask": status["Umask"].strip(), "ignored": int(status["SigIgn"], 16),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "core": resource.getrlimit(resource.RLIMIT_CORE)[0],
    "cpus": sorted(os.sched_getaffinity(0)), "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4],
    "stdin": os.readlink("/proc/self/fd/0"), "session": os.getsid(0), "parent": os.getppid(),
}), flush=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.pause()
"""
PIPE_AND_XFSZ = 1 << 12 | 1 << 24
"""What Python itself ignores."""


@pytest.fixture(params=SHELLS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Locked]:
    with locked(tmp_path, request.param) as found:
        yield found


def write(
    place: Locked, name: str, argv: tuple[str, ...], env: tuple[tuple[str, str], ...] = (("PATH", PATH),), **more: str
) -> Path:
    """A record's launch/; its log."""
    log = Path(more.get("log", str(place.folder / "logs" / f"{name}.log")))
    limits = tuple(line for line in more.get("limits", "").split(";") if line)
    files = LaunchFiles(argv, env, more.get("cwd", str(place.folder)), str(log), limits)
    status, out, said = place.run(ask_record_create(place.fence, name, b"{}", files))
    assert status == 0, (out, said)
    return log


def launch(place: Locked, name: str) -> str:
    status, out, _ = place.run(ask_launch(place.fence, name))
    word, _ = parse_launch(out)
    assert (status == 0) == (word == "started")
    place.look(name)
    return word


ODD = (
    "", " lead", "a'b\"c`d`$(touch X)", "\n\n", "ends\n", "\\", "\\0101", "*", "-n", "\udcff\udcfe", "é", "--flag=x y", "x", "a:b 000",
    os.fsdecode(bytes(range(1, 256))),
)  # fmt: skip


def test_exactly_what_was_written(
    place: Locked, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    names = (
        "log",
        "w",
        "word",
        "dir",
        "launch",
        "cwd",
        "n",
        "plain",
        "LC_ALL",
        "IFS",
        "RANDOM",
        "UID",
        "OPTIND",
        "BASH_ENV",
        "PWD",
        "status",
    )
    size = 100_000 if place.shell == "dash" else 10_000
    odd = {f"V{at}": value for at, value in enumerate(ODD)} | {name: f"{name} of the launch" for name in names}
    env = {
        "PATH": PATH,
        **odd,
        "LC_ALL": "xx_XX.UTF-8",
        "BASH_FUNC_module%%": "() { :\n}",
        "with.dot": "1",
        "BIG": "y" * size + "\n",
        "BIG2": "z" * size,
    }
    seen = place.folder / "env-argv"
    stand_in = place.folder / "programs"
    stand_in.mkdir()
    (stand_in / "env").write_text(f'#!/bin/sh\nprintf \'%s\\n\' "$@" >>{seen}\nexec /usr/bin/env "$@"\n')
    (stand_in / "env").chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in}{os.pathsep}{PATH}")
    monkeypatch.setenv("OF_THE_LOGIN", "never passed on")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 7
    cpu = min(os.sched_getaffinity(0))
    log = write(
        place, "exact", (sys.executable, "-S", "-c", TELL, *ODD), tuple(env.items()), limits=f"umask 0027;soft n {soft};soft c 0;soft u {1 << 60};cpus {cpu}"
    )  # fmt: skip
    assert launch(place, "exact") == "started"
    state = place.wait("exact", lambda state: (state.log_size or 0) > 2 * size or state.exit_status is not None)
    assert state.process is not None
    text = log.read_text()
    said, told = text[: text.index("{")], json.loads(text[text.index("{") :])
    assert told["argv"] == [os.fsencode(word).hex() for word in ODD]
    assert told["env"] == sorted(os.fsencode(f"{name}={value}").hex() for name, value in env.items())
    assert (told["cwd"], told["umask"], told["files"], told["core"]) == (str(place.folder), "0027", soft, 0)
    assert told["cpus"] == [cpu] or "cannot be kept to the CPUs" in said
    assert "the limit that ulimit -u shows" in said  # and the launch goes on
    assert (told["stdin"], told["descriptors"]) == ("/dev/null", [0, 1, 2, 3])  # 3: the listing itself
    assert told["session"] == told["parent"] == (state.keeper.pid if state.keeper else None)
    assert told["ignored"] & ~PIPE_AND_XFSZ & ~1 == 0
    assert log.stat().st_mode & 0o777 == 0o640
    assert [(one.number, one.is_log) for one in state.outputs] == [(1, True), (2, True)]
    assert not (place.folder / "X").exists()
    arguments = seen.read_text(errors="surrogateescape") if seen.exists() else ""
    assert "yyyy" not in arguments
    assert "V1=" not in arguments
    os.kill(state.process.pid, signal.SIGINT)  # it is not ignored, as it would be behind an `&`
    state = place.wait("exact", lambda state: state.exit_status is not None)
    assert state.exit_status == 128 + signal.SIGINT
    assert b"KeyboardInterrupt" in state.tail
    assert not state.lives


def test_a_shell_that_ignores_signals_hands_down_none(tmp_path: Path) -> None:
    """eagletui itself may run behind an `&` (the node `local`): GNU env gives its launches default signals all the same."""
    with locked(tmp_path) as place:
        log = write(place, "quiet", ("sh", "-c", "grep SigIgn /proc/self/status; sleep 60"))
        before = [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)]
        try:
            assert launch(place, "quiet") == "started"
        finally:
            for number, handler in zip((signal.SIGINT, signal.SIGQUIT), before, strict=True):
                signal.signal(number, handler)
        place.wait("quiet", lambda state: bool(state.log_size))
        assert int(log.read_text().split()[1], 16) & ~1 == 0


def test_what_cannot_run_is_told_at_once_in_its_own_words(place: Locked) -> None:
    """The crash that this program began with: the launch died before it wrote a line, and nobody was told."""
    write(place, "missing", ("no-such-python", "-m", "sglang.launch_server"))
    began = time.monotonic()
    assert launch(place, "missing") == "started"
    state = place.wait("missing", lambda state: state.exit_status is not None)
    assert time.monotonic() - began < 15.0  # 0.2 s on a machine that has nothing else to do
    assert state.exit_status == 127
    assert b"no-such-python" in state.tail
    assert state.process is not None
    assert not state.process.alive
    for name, argv, cwd, status in (
        ("not-a-program", (str(place.folder),), str(place.folder), 126),
        ("no-folder", ("true",), str(place.folder / "gone"), 126),
        ("killed", ("sh", "-c", "kill -s KILL $$"), str(place.folder), 137),
        ("with=equals", ("./a=b",), str(place.folder), 5),
    ):
        (place.folder / "a=b").write_text("#!/bin/sh\nexit 5\n")
        (place.folder / "a=b").chmod(0o755)
        name = name.replace("=", "-")
        write(place, name, argv, cwd=cwd)
        assert launch(place, name) == "started"
        assert place.wait(name, lambda state: state.exit_status is not None).exit_status == status
    assert b"gone" in place.look("no-folder").tail


def test_a_record_is_launched_once_and_nothing_of_others_is_written(place: Locked) -> None:
    log = write(place, "one", ("sleep", "60"))
    assert launch(place, "one") == "started"
    place.wait("one", lambda state: state.lives)
    assert launch(place, "one") == "begun"
    assert launch(place, "none") == "missing"
    write(place, "two", ("true",), log=str(log))
    assert launch(place, "two") == "log-exists"
    (place.folder / "dangling").symlink_to(place.folder / "nowhere")
    write(place, "three", ("true",), log=str(place.folder / "dangling"))
    assert launch(place, "three") == "log-exists"
    write(place, "four", ("true",), log="/proc/nowhere/a.log")
    assert launch(place, "four") == "log-unwritable"
    for name in ("two", "three", "four"):
        state = place.look(name)
        assert not state.begun  # so that it may be launched when that is mended
        assert state.keeper is None
    write(place, "five", ("true",))
    status, out, _ = place.run(ask_launch((str(place.port), "anothertoken"), "five"))
    assert status == FENCED
    assert out.startswith(b"fenced ")
    assert not place.look("five").begun


def test_without_setsid_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with locked(tmp_path) as place:
        write(place, "one", ("true",))
        programs = tmp_path / "few"
        programs.mkdir()
        for name in ("sh", "dd", "od", "tr", "cat"):
            (programs / name).symlink_to(f"/usr/bin/{name}")
        monkeypatch.setenv("PATH", str(programs))
        assert parse_launch(run(ask_launch(place.fence, "one"), tmp_path, "/usr/bin/sh")[1]) == ("no-setsid", None)
        monkeypatch.setenv("PATH", PATH)
        assert not place.look("one").begun


def test_what_is_left_of_a_command_that_went_to_the_background(tmp_path: Path) -> None:
    with locked(tmp_path) as place:
        write(place, "daemon", ("sh", "-c", "sleep 60 & exit 0"))
        assert launch(place, "daemon") == "started"
        state = place.wait("daemon", lambda state: state.exit_status is not None and bool(state.members))
        assert state.exit_status == 0
        assert not state.lives
        assert len(state.members) == 1


def test_a_state_of_nothing(tmp_path: Path) -> None:
    state = parse_keeper_state(run(ask_keeper_state("20260101T000000000Z-none"), tmp_path)[1])
    assert state.boot
    assert not state.record
    assert state.process is None


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_state(raw: bytes) -> None:
    parse_keeper_state(raw)
    parse_keeper_state(b"process 1 2 y S 1 2 3\nfd 1 y zz\nmember 1\nlog 00 - - x\nexit 9999999\n" + raw)
    parse_launch(raw)
