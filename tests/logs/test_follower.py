"""Following a real file through the real scripts, and what each end means."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eagletui.logs import follower as module
from eagletui.logs.follower import Follower, Fresh, Part, Run, Step, Wait
from eagletui.shell.script import MARK, Command, wire


def shell(command: Command) -> tuple[bytes, int]:
    """Run a script to its end, as a node does."""
    sent = wire(command)
    done = subprocess.run(sent.line, shell=True, input=sent.stdin, capture_output=True, timeout=30, check=False)
    return done.stdout.partition(MARK)[2], done.returncode


def stream(command: Command, enough: Callable[[bytes], bool]) -> tuple[bytes, int | None]:
    """Run a script that streams until there is enough, then end it by closing its stdin."""
    sent = wire(command)
    child = subprocess.Popen(
        sent.line, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(sent.stdin)
    child.stdin.flush()
    os.set_blocking(child.stdout.fileno(), False)
    got = b""
    until = time.monotonic() + 15
    while not enough(got) and time.monotonic() < until and child.poll() is None:
        got += child.stdout.read() or b""
        time.sleep(0.02)
    got += child.stdout.read() or b""
    status = child.poll()
    child.stdin.close()
    child.wait(timeout=15)
    child.stdout.close()
    return got.partition(MARK)[2], status if status is not None else 0


def go(follower: Follower, *, size: int) -> tuple[list[Fresh | Part | Wait], list[Step]]:
    """Follow until so many bytes of the file came, or until it says to wait."""
    out: list[Fresh | Part | Wait] = []
    steps: list[Step] = []
    while len(steps) < 8:
        run: Run = follower.next_run()
        steps.append(run.step)
        if run.step is Step.FOLLOW:
            data, status = stream(run.command, lambda got: _has(got, size))
            for i in range(0, len(data), 7):
                out += follower.took(data[i : i + 7])
            if status:
                out += follower.ended(status)
            break
        output, status = shell(run.command)
        new = follower.finished(output, status)
        out += new
        if any(isinstance(one, Wait) for one in new):
            break
    return out, steps


def _has(got: bytes, size: int) -> bool:
    _, newline, data = got.partition(MARK)[2].partition(b"\n")
    return bool(newline) and len(data) >= size


def data_of(out: list[Fresh | Part | Wait]) -> bytes:
    return b"".join(one.data for one in out if isinstance(one, Part))


def test_a_short_log_is_read_from_its_start_and_goes_on_at_the_next_byte(tmp_path: Path) -> None:
    log = tmp_path / "a log.txt"
    log.write_bytes(b"one\ntwo\n")
    follower = Follower(str(log))
    out, steps = go(follower, size=8)
    assert steps == [Step.MEASURE, Step.FOLLOW]
    assert out[0] == Fresh("")
    assert (data_of(out), follower.offset) == (b"one\ntwo\n", 8)
    follower.ended(None)  # the link broke
    with log.open("ab") as more:
        more.write(b"three\n")
    out, steps = go(follower, size=6)
    assert (steps, data_of(out), follower.offset) == ([Step.FOLLOW], b"three\n", 14)
    assert not any(isinstance(one, Fresh) for one in out)


def test_a_long_log_is_its_launch_and_its_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 1_000)
    monkeypatch.setattr(module, "LAUNCH_HEAD", 300)
    log = tmp_path / "log"
    launch = b"[2026-01-01 00:00:00] server_args=ServerArgs(port=1)\n"
    log.write_bytes(b"old\n" * 100 + launch + b"x" * 5_000 + b"tail\n")
    follower = Follower(str(log))
    out, steps = go(follower, size=1_000)
    assert steps == [Step.MEASURE, Step.FIND, Step.HEAD, Step.FOLLOW]
    parts = [one for one in out if isinstance(one, Part)]
    start = log.read_bytes().index(b"server_args=")
    assert (parts[0].data, parts[0].gap) == (log.read_bytes()[start : start + 300], start)
    assert parts[1].gap == 5_000 + 5 + 400 + len(launch) - 1_000 - start - 300
    assert b"".join(part.data for part in parts[1:]) == log.read_bytes()[-1_000:]
    assert [part.gap for part in parts[2:]] == [0] * (len(parts) - 2)


def test_a_long_log_whose_launch_is_in_the_tail_or_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 1_000)
    for tail in (b"server_args=ServerArgs()\n", b"nothing\n"):
        log = tmp_path / "log"
        log.write_bytes(b"x" * 5_000 + tail)
        follower = Follower(str(log))
        out, steps = go(follower, size=1_000)
        assert steps == [Step.MEASURE, Step.FIND, Step.FOLLOW]
        assert len(data_of(out)) == 1_000
        assert next(one.gap for one in out if isinstance(one, Part)) == 4_000 + len(tail)


def test_a_cut_file_and_a_new_one_are_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    follower = Follower(str(log))
    go(follower, size=8)
    log.write_bytes(b"new\n")  # the same inode, shorter
    assert follower.changed(*_identity(log))
    follower.ended(None)
    out, _ = go(follower, size=0)
    assert out[-1] == Wait(0.0, None)
    out, _ = go(follower, size=4)
    assert out[0] == Fresh(f"{log} was cut; following it from its start")
    assert data_of(out) == b"new\n"
    assert not follower.changed(*_identity(log))
    log.rename(tmp_path / "log.1")
    log.write_bytes(b"another file\n")
    assert follower.changed(*_identity(log))
    follower.ended(None)
    go(follower, size=0)
    out, _ = go(follower, size=13)
    assert out[0] == Fresh(f"{log} was replaced; following the new file")
    assert data_of(out) == b"another file\n"


def _identity(path: Path) -> tuple[str, int, int]:
    found = path.stat()
    return str(found.st_dev), found.st_ino, found.st_size


def test_no_file_yet_is_tried_again_ever_more_slowly(tmp_path: Path) -> None:
    log = tmp_path / "late"
    follower = Follower(str(log))
    waits = [go(follower, size=0)[0][-1] for _ in range(4)]
    assert [one.seconds for one in waits if isinstance(one, Wait)] == [1.0, 2.0, 5.0, 5.0]
    assert follower.error == f"There is no log at {log}. It is looked for again; --log PATH names another."
    log.write_bytes(b"here\n")
    out, _ = go(follower, size=5)
    assert data_of(out) == b"here\n"
    assert follower.error is None


def test_a_file_that_is_away_for_a_while_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    follower = Follower(str(log))
    go(follower, size=4)
    log.rename(tmp_path / "aside")
    follower.ended(None)
    assert isinstance(go(follower, size=0)[0][-1], Wait)
    (tmp_path / "aside").rename(log)
    with log.open("ab") as more:
        more.write(b"two\n")
    out, steps = go(follower, size=4)
    assert (data_of(out), steps) == (b"two\n", [Step.MEASURE, Step.FOLLOW])
    assert not any(isinstance(one, Fresh) for one in out)


def test_what_cannot_be_followed_says_what_to_do(tmp_path: Path) -> None:
    out, _ = go(Follower(str(tmp_path)), size=0)
    assert out == [
        Wait(
            1.0,
            f"{tmp_path} is no regular file, so its past cannot be read. Send the server's output to a file, and name it with --log.",
        )
    ]
    follower = Follower("/srv/x.log")
    (wait,) = follower.finished(b"", 4)
    assert isinstance(wait, Wait)
    assert wait.error == (
        "The log /srv/x.log may not be read by this login. Log in as the server's user, or make it readable: chmod a+r /srv/x.log"
    )
    assert follower.ended(5)[0] != wait


def test_a_broken_link_while_measuring_is_a_break() -> None:
    follower = Follower("/srv/x.log")
    assert follower.finished(b"", None) == [Wait(0.5, None)]
    assert follower.finished(b"noise", 0) == [Wait(0.5, None)]
    assert follower.next_run().step is Step.MEASURE
