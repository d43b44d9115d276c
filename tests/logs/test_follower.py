"""Following a real file through the real scripts, and what each end means."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eagletui.logs import follower as module
from eagletui.logs.follower import HOLE, Follower, Found, Fresh, Part, Run, Step, Told, Wait
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


def go(follower: Follower, *, size: int) -> tuple[list[Found], list[Step]]:
    """Follow until so many bytes of the file came, or until it says to wait."""
    out: list[Found] = []
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


def data_of(out: list[Found]) -> bytes:
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
    follower.ended(None)
    out, _ = go(follower, size=0)
    assert out[-1] == Wait(0.0, None)
    out, _ = go(follower, size=4)
    assert out[0] == Fresh(f"{log} was cut; following it from its start")
    assert data_of(out) == b"new\n"
    assert (follower.looked("same", 4), follower.streaming) == ([], True)
    log.rename(tmp_path / "log.1")
    log.write_bytes(b"another file\n")
    follower.looked("other", 8)  # there is more to come of the old one
    follower.looked("other", 8)
    still = follower.streaming
    follower.looked("other", 4)
    assert (still, follower.streaming) == (True, False)
    out, _ = go(follower, size=13)
    assert out[0] == Fresh(f"{log} was replaced; following the new file")
    assert data_of(out) == b"another file\n"


def test_a_file_that_was_cut_and_grew_again_during_a_break_is_known_by_its_bytes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    follower = Follower(str(log))
    go(follower, size=8)
    follower.ended(None)
    log.write_bytes(b"this is longer than what was there before\n")
    out, _ = go(follower, size=0)
    assert data_of(out) == b""
    out, _ = go(follower, size=42)
    assert out[0] == Fresh(f"{log} was cut; following it from its start")
    assert data_of(out) == log.read_bytes()


@pytest.mark.parametrize("appending", [True, False])
def test_a_file_that_is_cut_under_its_reader(tmp_path: Path, appending: bool) -> None:
    """By `: > log` or copytruncate. A writer that does not append leaves a hole, which is not waited through."""
    log = tmp_path / "log"
    size = 50_000_000
    with log.open("ab" if appending else "wb") as writer:
        writer.write(b"old\n")
        writer.flush()
        follower = Follower(str(log))
        go(follower, size=4)
        out: list[Found] = []
        if not appending:
            writer.seek(size)
            follower.offset, follower._memory = size, b""

        def cut_and_write(process: subprocess.Popen[bytes]) -> None:
            time.sleep(0.4)
            os.truncate(log, 0)
            time.sleep(0.4)
            writer.write(b"new\n")
            writer.flush()

        if appending:
            out = follow_while(follower, cut_and_write)
            assert not follower.streaming
            assert data_of(out) == b""
        else:
            os.truncate(log, 0)
            writer.write(b"new\n")
            writer.flush()
            follower._cut = True
            follower._step = Step.MEASURE
        while not data_of(out):
            out = go(follower, size=4)[0]
    assert data_of(out) == b"new\n"
    fresh = out[0]
    assert isinstance(fresh, Fresh)
    assert fresh.text.startswith(f"{log} was cut; following it from its start")
    assert ("following it from its start, behind a hole of 50\u00a0000\u00a0000 bytes" in fresh.text) is not appending


def follow_while(follower: Follower, act: Callable[[subprocess.Popen[bytes]], None]) -> list[Found]:
    """Stream while `act` runs in this thread, and for a second after it."""
    sent = wire(follower.next_run(os.getpid()).command)
    with subprocess.Popen(sent.line, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(sent.stdin)
        child.stdin.flush()
        os.set_blocking(child.stdout.fileno(), False)
        act(child)
        time.sleep(0.5)
        got = child.stdout.read() or b""
        child.stdout.close()
        child.wait(timeout=10)  # GNU tail ends when nobody reads it any more
    return follower.took(got.partition(MARK)[2])


def test_a_hole_that_comes_down_the_stream_is_asked_about() -> None:
    follower = started(b"")
    assert follower.took(b"\0" * HOLE) == [Wait(0.0, None)]
    assert follower.next_run().step is Step.MEASURE
    assert follower.finished(b"file 1 2 90000 0 80000 0\n", 0) == [Told("a hole of 80\u00a0000 NUL bytes was skipped")]
    assert follower.offset == 80_000
    follower.next_run()
    assert follower.took(b"file 1 2 90000 0 80000 9\ndata") == [Part(b"data")]


NOTICE = b"tail: 'standard input': file truncated\n"


def started(data: bytes, size: int = 0) -> Follower:
    """A follower of device 1, inode 2 that has read `data`."""
    follower = Follower("/x.log")
    follower.next_run()
    follower.finished(b"file 1 2 %d 0 0 0\n" % size, 0)
    follower.next_run()
    follower.took(b"file 1 2 %d 0 0 9\n" % size + data)
    return follower


@pytest.mark.parametrize("cut", range(len(NOTICE) + 1))
def test_tails_notice_is_no_byte_of_the_file(cut: int) -> None:
    follower = started(b"one\n")
    lead = b"x" * module.PACKET + b"t"
    out = follower.took((lead + NOTICE)[: len(lead) + cut]) + follower.took((NOTICE + b"later\n")[cut:])
    assert data_of(out) == lead
    assert (follower.offset, follower.streaming) == (4 + len(lead), False)
    assert follower.took(b"more of that stream") == []
    follower.finished(b"file 1 2 3 0 0 0\n", 0)
    assert follower.offset == 0


def test_the_same_words_in_the_log_are_the_logs() -> None:
    whole = b"one\n" + NOTICE + b"two\n"
    follower = started(b"")
    assert data_of(follower.took(whole)) == b"one\n"
    follower.next_run()
    assert follower.finished(b"file 1 2 %d 0 0 0\n" % len(whole), 0) == []
    run = follower.next_run()
    assert run.command.args[1] == "+1"  # with what is known of it
    assert data_of(follower.took(b"file 1 2 %d 0 0 9\n" % len(whole) + whole)) == NOTICE + b"two\n"
    assert follower.offset == len(whole)


def test_tails_last_words_are_not_counted() -> None:
    follower = started(b"one\n")
    follower.took(b"tail: error reading 'standard input': Stale file handle\n")
    follower.ended(1)
    assert follower.offset == 4
    assert follower.next_run().command.args[1] == "+1"


def test_more_than_can_be_shown_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEHIND", 1_000)
    monkeypatch.setattr(module, "WHOLE", 100)
    follower = started(b"one\n")
    follower.ended(None)
    follower.next_run()
    assert follower.took(b"file 1 2 5000 0 0 9\none\n") == [Wait(0.0, None)]
    follower.next_run()
    assert follower.finished(b"file 1 2 5000 0 0 0\n", 0) == []
    follower.next_run()
    assert follower.took(b"file 1 2 5000 0 4900 9\ntail\n") == [Part(b"tail\n", 4_896)]


def test_a_log_known_by_its_descriptor_is_followed_by_that_then_by_its_name(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as writer:
        found = log.stat()
        bound = (str(found.st_dev), found.st_ino)
        follower = Follower(f"/proc/{os.getpid()}/fd/{writer.fileno()}", str(log), file=bound)
        writer.write(b"one\n")
        writer.flush()
        log.rename(tmp_path / "log.1")
        log.write_bytes(b"somebody else's\n")
        out, _ = go(follower, size=4)
        assert data_of(out) == b"one\n"
        said = follower.looked("other", 4)
        assert said == [Told(f"{log} is another file now; the file that was open is followed on")]
        assert follower.looked("other", 4) == []
        assert follower.streaming
    follower.ended(None)  # its writer is gone, and the link broke
    go(follower, size=0)
    out, _ = go(follower, size=0)
    assert out == [Wait(1.0, f"The log of this launch is gone: {log} is another file now.")]
    (tmp_path / "log.1").rename(log)
    with log.open("ab") as more:
        more.write(b"two\n")
    while not data_of(out):
        out, _ = go(follower, size=4)
    assert data_of(out) == b"two\n"


def test_a_file_that_appears_later_is_told(tmp_path: Path) -> None:
    log = tmp_path / "late"
    follower = Follower(str(log))
    go(follower, size=0)
    log.write_bytes(b"here\n")
    out, _ = go(follower, size=5)
    assert out[0] == Fresh(f"{log} is there now; following it")


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
        "The log /srv/x.log may not be read by this login. Log in as the server's user, or make it readable: chmod a+r /srv/x.log "
        "(and chmod a+x on a closed folder above it)"
    )
    assert follower.ended(5)[0] != wait


def test_a_broken_link_while_measuring_is_a_break() -> None:
    follower = Follower("/srv/x.log")
    assert follower.finished(b"", None) == [Wait(0.5, None)]
    assert follower.finished(b"noise", 0) == [Wait(0.5, None)]
    assert follower.next_run().step is Step.MEASURE
