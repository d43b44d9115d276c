"""`wait`: real servers, the simulated node, pipes, a terminal and signals; and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import pytest

from eagletui.cli.wait import timespan, wait
from tests.cli.command import run
from tests.e2e.bare_terminal import bare_terminal
from tests.engine import CANARY, Engine, running_engine
from tests.requires import require
from tests.sshd import free_port

WAIT = [sys.executable, "-m", "eagletui", "wait"]
READY_S = 60
"""For a wait of seconds on a busy machine."""


class Waiter:
    """A `wait` that runs; what it leaves can be told by its environment."""

    def __init__(self, home: Path, *argv: str) -> None:
        self.mark = uuid.uuid4().hex
        env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        env |= {"HOME": str(home), "NO_COLOR": "1", "WAIT_MARK": self.mark}
        self.process = subprocess.Popen(
            [*WAIT, *argv], env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, list[dict[str, Any]], str]:
        """Exit status, events, and what stderr holds, when it has ended by itself."""
        out, err = self.process.communicate(timeout=READY_S)
        assert "Traceback" not in err
        assert CANARY not in out + err
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], err

    def first(self, event: str) -> dict[str, Any]:
        """Read events until this one."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        pytest.fail(f"it ended without {event}")

    def left(self) -> list[str]:
        """Command lines of what still runs."""
        mark, found = f"WAIT_MARK={self.mark}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes() and (folder / "stat").read_text().split()[2] not in "ZX":
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    def leaves_nothing(self) -> None:
        """Within a moment."""
        until = time.monotonic() + 10
        while left := self.left():
            assert time.monotonic() < until, left
            time.sleep(0.05)


@contextmanager
def waiting(home: Path, *argv: str) -> Iterator[Waiter]:
    waiter = Waiter(home, *argv)
    try:
        yield waiter
    finally:
        if waiter.process.poll() is None:
            waiter.process.kill()
        waiter.process.wait(10)
        for pipe in (waiter.process.stdout, waiter.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def loading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A server that will be loading as long as anybody looks."""
    require("procfs")
    with running_engine(tmp_path_factory.mktemp("loading"), pace_s=600) as engine:
        engine.wait_for("0/16")
        yield engine


def test_a_start_is_told_event_by_event(tmp_path: Path) -> None:
    require("procfs")
    port = free_port()
    with (
        waiting(tmp_path, "local", "--port", str(port), "--json") as waiter,  # before there is anything to wait for
        running_engine(tmp_path, pace_s=0.6, port=port),
    ):
        status, events, err = waiter.end()
        waiter.leaves_nothing()
        again = run(tmp_path, "wait", "local", "--port", str(port))
    assert (status, err) == (0, "")
    assert {event["schema"] for event in events} == {"eagletui.event/1"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"]) for event in events)
    done = {
        event["name"]: event["seconds"] for event in events if event["event"] == "phase" and event["status"] == "done"
    }
    assert done["weights"] == pytest.approx(0.54)
    bars = [(event["done"], event["total"]) for event in events if event["event"] == "progress"]
    assert bars == sorted(bars)
    assert bars[-1] == (16, 16)
    states = [event["state"] for event in events if event["event"] == "state"]
    assert "starting" in states
    assert states[-1] == "ready"
    assert {event.get("usual_s") or event.get("ready_in_s") or event.get("starts") for event in events} == {None}
    result = events[-1]
    assert [event["event"] for event in events].count("result") == 1
    assert (result["event"], result["exit"], result["state"], result["step"]) == ("result", 0, "ready", None)
    assert result["diagnosis"] is None
    assert result["server"]["port"] == port
    assert 1 <= result["ready_s"] < READY_S
    assert {"name": "weights", "seconds": pytest.approx(0.54), "rank": None} in result["phases"]
    # It is kept, though the watch ended with it, for the estimate of the next one.
    with closing(sqlite3.connect(tmp_path / ".local/share/eagletui/history.db")) as history:
        assert history.execute("SELECT outcome FROM launches").fetchall() == [("ready",)]
    # And what is ready already is told at once.
    assert (again.returncode, again.stdout) == (0, "")
    said = rf"\d\d:\d\d:\d\d  READY sglang:{port} \(pid \d+, /models/tiny\) after \d:\d\d\n"
    assert re.fullmatch(said, again.stderr)


def test_the_demos_start_is_compared_with_its_earlier_ones(tmp_path: Path) -> None:
    done = run(tmp_path, "wait", "demo", "--json", "--speed", "2")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    usual = {event["name"]: (event["usual_s"], event["starts"]) for event in events if event["event"] == "phase"}
    assert usual["warmup"][0] is not None
    assert usual["warmup"][1] == 6
    assert not (tmp_path / ".local").exists()  # it keeps nothing


def test_what_ends_by_itself(tmp_path: Path) -> None:
    """A death while loading, a rank that was stopped, and a server that never was; at one time, since each takes seconds."""
    require("procfs")
    dying, standing = tmp_path / "dying", tmp_path / "standing"
    dying.mkdir()
    standing.mkdir()
    with (
        running_engine(dying, pace_s=3) as engine,
        running_engine(standing, pace_s=3) as other,
        waiting(tmp_path, "local", "--port", str(engine.port), "--json") as waiter,
        waiting(tmp_path, "local", "--port", str(other.port), "--json") as still,
        waiting(tmp_path, "local", "--port", str(free_port())) as lone,
    ):
        waiter.first("progress")
        os.killpg(engine.pid, signal.SIGKILL)
        died = time.monotonic()
        still.first("progress")
        os.kill(other.children()["sglang::scheduler_TP1"], signal.SIGSTOP)
        status, events, err = waiter.end()
        took = time.monotonic() - died
        still_status, still_events, still_err = still.end()
        lone_status, _, lone_err = lone.end()
    assert (status, still_status, lone_status) == (13, 12, 14)
    assert took < 13  # 10 s, and the end of a process on a busy machine
    assert events[-1]["state"] == "crashed"
    assert events[-1]["diagnosis"]["code"] == "died-silently"
    assert "is dead" in events[-1]["reason"]["text"]
    assert err.startswith("eagletui: CRASHED")
    assert still_events[-1]["state"] == "stalled"
    assert "TP1" in still_err
    assert "no launch is under way" in lone_err.splitlines()[-1]


def test_what_ends_it_from_outside(tmp_path: Path, loading: Engine) -> None:
    at = ("local", "--port", str(loading.port))
    with (
        waiting(tmp_path, *at, "--json") as told,
        waiting(tmp_path, *at, "--json") as ended,
        waiting(tmp_path, *at, "--json") as unread,
    ):
        waiters = (told, ended, unread)
        for waiter in waiters:
            assert waiter.first("progress")["total"] == 16
        told.process.send_signal(signal.SIGINT)
        ended.process.send_signal(signal.SIGTERM)
        assert unread.process.stdout is not None
        unread.process.stdout.close()
        statuses = []
        for waiter in (told, ended):
            status, events, err = waiter.end()
            statuses.append(status)
            assert events[-1]["exit"] == status
            assert "STARTING" in err
        assert unread.process.wait(READY_S) == 141
        for waiter in waiters:
            waiter.leaves_nothing()
    assert statuses == [130, 143]


def test_its_time_is_up(tmp_path: Path, loading: Engine) -> None:
    done = run(tmp_path, "wait", "local", "--port", str(loading.port), "--timeout", "0h0m4s")
    assert done.returncode == 15
    assert re.search(r"timed out after 0:0\d: STARTING .*: loading: weights 0/16 shards$", done.stderr)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5", 1.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h0m1s", 3601),
        (" 2h ", 7200),
        (None, None),
    ],
)
def test_times(said: str | None, seconds: float | None) -> None:
    context = click.Context(wait)
    assert timespan(context, wait.params[0], said) == seconds


def test_no_link(tmp_path: Path) -> None:
    done = run(tmp_path, "wait", "127.0.0.1:1", "--json")
    assert done.returncode == 20
    result = json.loads(done.stdout)
    assert (result["event"], result["exit"], result["state"], result["server"]) == ("result", 20, "offline", None)
    assert done.stderr == f"eagletui: OFFLINE: {result['reason']['text']}\n"
    assert "127.0.0.1" in done.stderr


@pytest.mark.parametrize("time_", ["0", "soon", "-5", "5d", "", "m"])
def test_a_time_that_is_none(tmp_path: Path, time_: str) -> None:
    done = run(tmp_path, "wait", "demo", f"--timeout={time_}")
    assert done.returncode == 2
    assert "90s, 5m or 1h30m" in done.stderr


def test_the_demo_on_a_terminal(tmp_path: Path) -> None:
    with bare_terminal([*WAIT, "demo", "--speed", "8"], tmp_path) as terminal:
        assert terminal.process.wait(READY_S) == 0
        time.sleep(0.2)
        shown = terminal.tail.decode()
    lines = re.split(r"\r\n|\r", shown)
    assert "✓" in shown
    assert re.search(r"weights +\d:\d\d", shown)
    assert "READY" in shown.splitlines()[-1]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines if "✓" not in line and "sglang:" not in line]
    assert max(map(len, plain)) < 140  # what is redrawn never wraps
    assert not re.search(r"\x1b\[[^0-9K]", shown)  # and by no more than colours, and erasing to the line's end


def test_a_terminal_that_is_gone_ends_it(tmp_path: Path, loading: Engine) -> None:
    with bare_terminal([*WAIT, "local", "--port", str(loading.port)], tmp_path) as terminal:
        until = time.monotonic() + READY_S
        while not re.search(r"\r  weights +░{20} 0/16 shards  .*\d:\d\d", terminal.tail.decode(errors="replace")):
            assert time.monotonic() < until
            time.sleep(0.05)
        terminal.close()
        assert terminal.process.wait(READY_S) in (129, -signal.SIGHUP)
