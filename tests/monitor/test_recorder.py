"""Launches that are watched are kept, and the next one is told when it will be ready: real processes, a real file."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from eagletui.demo.node import DemoNode
from eagletui.demo.world import World
from eagletui.history.launches import EarlierLaunch, Identity, LaunchKind
from eagletui.history.store import History
from eagletui.logs.state import LogState
from eagletui.monitor import recorder
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.recorder import Recorder
from eagletui.monitor.server_watch import ServerWatch
from eagletui.nodes.local import LocalNode
from eagletui.servers.model import State
from tests.engine import CANARY, running_engine
from tests.requires import require
from tests.watching import running, until


@asynccontextmanager
async def watching(
    history: History | None, port: int | None = None, log: Path | None = None
) -> AsyncIterator[NodeMonitor]:
    require("procfs")
    monitor = NodeMonitor(LocalNode(), port=port, log_path=None if log is None else str(log), history=history)
    async with running(monitor):
        yield monitor


@dataclass
class Began:
    """What a recorder asks of a watch, to know whether its log is its own: its launcher's start, and when the log grew."""

    started: float | None
    grew_at: float

    @property
    def log(self) -> Began:
        """A log watch."""
        return self

    def view(self) -> Began:
        """Its view."""
        return self


@pytest.mark.parametrize(
    ("age", "quiet", "own"),
    [
        (None, 0, True),
        (2, 0, False),
        (90, 0, False),
        (99, 0, True),
        (4000, 0, True),
        (4000, 3990, True),
        (200, 500, False),
    ],
)
def test_a_log_that_tells_of_an_earlier_launch(age: float | None, quiet: float, own: bool) -> None:
    """One that took longer than this launcher lives, or that nothing was written to since."""
    seen = recorder._Seen(
        cast("ServerWatch", Began(None if age is None else 5000.0 - age, 5000.0 - quiet)),
        Identity("m", None, 1, 1),
        LaunchKind("sglang", None, None, "f"),
        datetime.now(UTC),
        0.0,
    )
    assert Recorder._is_its_own(seen, LogState("ready", "serving", ready_s=100.0), 5000.0) is own


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "share" / "history.db")


def rows(history: History) -> list[dict[str, object]]:
    if not history.path.exists():
        return []
    with closing(sqlite3.connect(history.path)) as connection:
        connection.row_factory = sqlite3.Row
        if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'launches'").fetchone()[0]:
            return []
        return [dict(row) for row in connection.execute("SELECT * FROM launches ORDER BY id")]


async def kept(history: History, count: int, seconds: float = 15.0) -> list[dict[str, object]]:
    """The rows, once there are so many."""
    end = time.monotonic() + seconds
    while len(found := rows(history)) < count:
        assert time.monotonic() < end, f"only {found} in {seconds} s"
        await asyncio.sleep(0.05)
    return found


async def test_the_second_start_is_told_when_it_will_be_ready(tmp_path: Path, history: History) -> None:
    with running_engine(tmp_path, pace_s=0.1) as engine:
        async with watching(history, engine.port) as monitor:
            promised = []
            monitor.on_change = lambda: promised.append(monitor.snapshot().estimate)
            await until(monitor, lambda s: s.verdict.state is State.READY)
            (row,) = await kept(history, 1)
            assert set(promised) == {None}
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert str(row["key"]).endswith(f" {boot} {engine.pid} {started(engine.pid)}")
        assert (row["node"], row["engine"], row["model"], row["tp"]) == ("local", "sglang", "/models/tiny", 2)
        assert (row["outcome"], row["origin"], row["ended"]) == ("ready", "watched", None)
        assert row["ready_s"] is not None
        assert CANARY not in str(row)
        assert "***" in str(row["command"]) or "api-key" in str(row["command"])
        async with watching(history, engine.port) as again:  # it was ready when we came, and its log tells all of it
            await until(again, lambda s: s.verdict.state is State.READY)
            await asyncio.sleep(1.2)
        assert [one["key"] for one in rows(history)] == [row["key"]]
    with running_engine(tmp_path, pace_s=2) as engine:
        async with watching(history, engine.port) as monitor:
            snapshot = await until(monitor, lambda s: s.estimate is not None)
            assert snapshot.estimate is not None
            assert snapshot.estimate.starts == 1
            assert snapshot.estimate.usual["weights"] == pytest.approx(0.54)
            watch = monitor._watch
            assert watch is not None
            assert watch.usual_s == snapshot.estimate.usual  # what stalls are judged by, too
            late = await until(monitor, lambda s: s.estimate is not None and s.estimate.late == "weights")
            assert late.startup.phase == "weights"


def started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


async def test_a_launch_that_was_ready_when_we_came_is_kept_and_how_it_ended(tmp_path: Path, history: History) -> None:
    with running_engine(tmp_path, pace_s=0.02) as engine:
        engine.wait_for("fired up")
        async with watching(history, engine.port) as monitor:
            (row,) = await kept(history, 1)
            assert row["outcome"] == "ready"
            await until(monitor, lambda s: s.family_alive == 4)
            os.kill(engine.pid, signal.SIGKILL)
            await until(monitor, lambda s: s.verdict.state is State.CRASHED)
            end = time.monotonic() + 10
            while rows(history)[0]["ended"] is None and time.monotonic() < end:
                await asyncio.sleep(0.05)
    (row,) = rows(history)
    assert (row["outcome"], row["ended"]) == ("ready", "crashed")


async def test_a_start_that_dies_is_kept_as_such(tmp_path: Path, history: History) -> None:
    with running_engine(tmp_path, pace_s=2) as engine:
        async with watching(history, engine.port) as monitor:
            await until(monitor, lambda s: s.startup.phase == "weights")
            os.kill(engine.pid, signal.SIGKILL)
            (row,) = await kept(history, 1)
    assert (row["outcome"], row["ready_s"]) == ("crashed", None)


async def test_a_log_that_lacks_its_begin_is_not_kept(tmp_path: Path, history: History) -> None:
    log = tmp_path / "cut.log"
    log.write_text(
        "[2026-12-01 10:00:00 TP0] Capture cuda graph end. Time elapsed: 3.00 s\nThe server is fired up and ready to roll!\n"
    )
    with running_engine(tmp_path, pace_s=0.02) as engine:
        engine.wait_for("fired up")
        async with watching(history, engine.port, log) as monitor:
            await until(monitor, lambda s: s.verdict.state is State.READY and s.startup.state == "ready")
            await asyncio.sleep(1.2)
    assert rows(history) == []


async def test_a_file_that_cannot_be_used_is_one_note(tmp_path: Path, history: History) -> None:
    history.path.parent.mkdir()
    history.path.write_bytes(b"no database" * 1000)
    before = history.path.read_bytes()
    with running_engine(tmp_path, pace_s=0.05) as engine:
        async with watching(history, engine.port) as monitor:
            snapshot = await until(
                monitor, lambda s: s.verdict.state is State.READY and any(str(history.path) in n for n in s.notes)
            )
            await asyncio.sleep(1.2)
            assert sum("The history cannot be used" in note for note in snapshot.notes) == 1
            assert monitor.snapshot().notes == snapshot.notes
    assert history.path.read_bytes() == before


class Slow(History):
    """A file that takes its time to be read."""

    def earlier(self, kind: LaunchKind, identity: Identity, profile: str | None = None) -> tuple[EarlierLaunch, ...]:
        """See History."""
        time.sleep(0.7)
        return super().earlier(kind, identity, profile)


async def test_a_launch_that_became_ready_just_before_the_end_is_kept(tmp_path: Path) -> None:
    """As `wait` ends: at once, while earlier launches are still being looked up."""
    history = Slow(tmp_path / "history.db")
    with running_engine(tmp_path, pace_s=0.02) as engine:
        engine.wait_for("fired up")
        async with watching(history, engine.port) as monitor:
            await until(monitor, lambda s: s.verdict.state is State.READY and monitor._recorder._work is not None)
    assert [row["outcome"] for row in rows(history)] == ["ready"]


class Stuck(History):
    """A file in a folder that is gone: it does not answer, for ever."""

    released = threading.Event()

    def earlier(self, kind: LaunchKind, identity: Identity, profile: str | None = None) -> tuple[EarlierLaunch, ...]:
        """See History."""
        self.released.wait(60)
        return super().earlier(kind, identity, profile)


async def test_a_file_that_does_not_answer_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "FILE_S", 0.5)
    try:
        with running_engine(tmp_path, pace_s=0.1) as engine:
            async with watching(Stuck(tmp_path / "history.db"), engine.port) as monitor:
                await until(monitor, lambda s: any("did not answer" in note for note in s.notes))
                await until(monitor, lambda s: s.verdict.state is State.READY)
                began = time.monotonic()
        assert time.monotonic() - began < 5
    finally:
        Stuck.released.set()


async def test_what_is_read_from_the_disk_tells_a_warm_start(history: History) -> None:
    node = DemoNode(speed=16.0)
    node.world = World(opened=time.time(), speed=16.0, into_start=12.0)  # its ranks are there, and meet soon
    async with running(NodeMonitor(node, history=history)) as monitor:
        await until(monitor, lambda s: s.verdict.state is State.READY)
        (row,) = await kept(history, 1)
    weights = 8 * 96.2 * 2**30
    assert row["cold"] == 0
    assert row["weights_size"] == pytest.approx(weights, rel=0.01)
    assert 0 < int(str(row["weights_read"])) <= 0.0125 * weights
    with closing(sqlite3.connect(history.path)) as connection:
        phases = dict(connection.execute("SELECT name, seconds FROM phases"))
    assert phases["weights"] == pytest.approx(41.8 / 16, abs=0.5)
    assert "serving" not in phases
