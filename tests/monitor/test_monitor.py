"""The monitor against real processes of this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from eagletui.monitor import log_watch
from eagletui.monitor import monitor as monitor_module
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.publish import AT_ONCE, EVERY_S, GAP_S
from eagletui.monitor.snapshot import Verdict
from eagletui.nodes.local import LocalNode
from eagletui.servers.intent import NeverStarted
from eagletui.servers.model import State
from eagletui.servers.selection import with_log
from tests.engine import CANARY, running_engine
from tests.requires import require
from tests.sshd import free_port
from tests.watching import running, texts, until


@asynccontextmanager
async def watching(port: int | None = None, log: Path | None = None) -> AsyncIterator[NodeMonitor]:
    require("procfs")
    monitor = NodeMonitor(LocalNode(), port=port, log_path=None if log is None else str(log))
    async with running(monitor):
        yield monitor


async def test_a_start_is_followed_from_loading_to_ready(tmp_path: Path) -> None:
    with running_engine(tmp_path, pace_s=0.2) as engine:
        async with watching(engine.port) as monitor:
            loading = await until(monitor, lambda s: s.startup.progress is not None and s.startup.progress.done >= 3)
            assert loading.verdict.state is State.STARTING
            assert loading.startup.phase == "weights"
            assert loading.health.status != 200
            ready = await until(
                monitor,
                lambda s: s.verdict.state is State.READY and s.throughput.gen_tok_s is not None and s.family_total == 4,
            )
            assert ready.health.status == 200
            assert (ready.family_alive, ready.family_total) == (4, 4)
            assert ready.throughput.gen_tok_s is not None
            assert 80 <= ready.throughput.gen_tok_s <= 85
            assert ready.throughput.accept_len == pytest.approx(2.15, abs=0.06)
            assert ready.server is not None
            assert ready.server.log.path == str(engine.log)
            done = {p.name: p.seconds for p in ready.startup.phases if p.status == "done"}
            assert done["weights"] == pytest.approx(0.54)


async def test_a_dead_rank_is_told_while_the_port_stays_open(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        async with watching(engine.port) as monitor:
            await until(monitor, lambda s: s.verdict.state is State.READY and s.family_total == 4)
            os.kill(engine.children()["sglang::scheduler_TP1"], signal.SIGKILL)
            died = time.monotonic()
            snapshot = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 5)
            assert snapshot.verdict.reason.code == "rank-missing"
            assert "TP1" in snapshot.verdict.reason.text
            assert time.monotonic() - died < 4


async def test_a_dead_launcher_is_a_crash_and_its_log_stays(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        async with watching(engine.port) as monitor:
            await until(monitor, lambda s: s.verdict.state is State.READY and s.family_total == 4)
            os.kill(engine.pid, signal.SIGKILL)
            engine.process.wait(5)
            snapshot = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 5)
            assert snapshot.verdict.reason.code == "died"
            assert snapshot.server is not None
            assert len(snapshot.log.store) > 10
            lived = await until(monitor, lambda s: s.ended, 5)
            assert lived.up_s(lived.at + 60) == lived.uptime_s
            assert monitor.snapshot().uptime_s == lived.uptime_s

            monitor.intend(NeverStarted("it ended at once", time.monotonic(), printed=("not found: sglang",)))
            never = monitor.snapshot()
            assert never.verdict.reason.code == "never-started"
            old = (never.server, never.uptime_s, never.family_total, never.throughput.at, never.health.at)
            assert old == (None,) * 5  # the server before is not this launch
            assert (never.startup.phases, never.series) == ((), {})
            assert len(never.log.store) > 10
            assert never.diagnosis is not None
            assert never.diagnosis.summary == "Never started: not found: sglang"


async def test_a_server_that_begins_later_is_found(tmp_path: Path) -> None:
    require("procfs")
    port = free_port()
    async with watching(port) as monitor:
        empty = await until(monitor, lambda s: s.discovered)
        assert empty.server is None
        assert empty.verdict.state is State.ABSENT
        with running_engine(tmp_path, pace_s=0.2, port=port):
            await until(monitor, lambda s: s.server is not None and s.verdict.state is State.STARTING, 8)


async def test_a_script_that_becomes_a_server_is_found(tmp_path: Path) -> None:
    """It keeps its pid, and takes its time: no newcomer tells of it then."""
    script = tmp_path / "sglang" / "launch_server.py"
    script.parent.mkdir()
    script.write_text("import time\ntime.sleep(60)\n")
    port = free_port()
    async with watching(port) as monitor:
        await until(monitor, lambda s: s.discovered)
        process = subprocess.Popen(
            ["bash", "-c", 'sleep 6; exec "$0" "$@"', sys.executable, str(script), "--port", str(port)]
        )
        try:
            await asyncio.sleep(6)
            await until(monitor, lambda s: s.server is not None, 6)
        finally:
            process.kill()
            process.wait(10)


async def test_secrets_do_not_reach_the_screen(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        engine.wait_for("server_args=")
        assert CANARY in engine.log.read_text()
        async with watching(engine.port) as monitor:
            snapshot = await until(monitor, lambda s: len(s.log.store) > 5)
            store = snapshot.log.store
            lines = [store.line(n) for n in range(store.first, store.end)]
            assert any(line is not None and "server_args=" in line.text for line in lines)
            assert not [line for line in lines if line is not None and CANARY in line.text]


async def test_old_figures_are_not_shown_as_current(tmp_path: Path) -> None:
    """A server that spoke an hour ago: its last rate is an hour old, not now's."""
    with running_engine(tmp_path, pace_s=30) as engine:
        engine.wait_for("Load weight begin")
        hour = time.time() - 3600
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")  # the newest line is as old as the file, whatever its clock says
        with engine.log.open("a") as log:
            log.write(
                f"\n[{stamp} TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.00, gen throughput (token/s): 55.50, #queue-req: 0\n"
            )
        os.utime(engine.log, (hour, hour))
        async with watching(engine.port) as monitor:
            snapshot = await until(monitor, lambda s: s.throughput.gen_tok_s == 55.5)
            assert snapshot.throughput.at is not None
            assert snapshot.at - snapshot.throughput.at == pytest.approx(3600, abs=5)
            assert snapshot.throughput.stale


async def test_changes_are_published_at_most_ten_times_a_second(tmp_path: Path) -> None:
    with running_engine(tmp_path) as engine:
        async with watching(engine.port) as monitor:
            told: list[float] = []
            monitor.on_change = lambda: told.append(time.monotonic())
            await until(monitor, lambda s: s.verdict.state is State.READY)
            assert told
            assert min(b - a for a, b in pairwise(told)) >= GAP_S * 0.9
            apart = AT_ONCE + 3  # so many are told at once after quiet, and three later ones at an even pace
            assert all(later - earlier >= 3 * EVERY_S * 0.9 for earlier, later in zip(told, told[apart:], strict=False))


async def test_no_alarm_flashes_on_the_way_to_ready(tmp_path: Path) -> None:
    """Between the ready line and the next /health the last answer was a 503 or a refusal: that is the past, not a stall."""
    with running_engine(tmp_path, pace_s=0.1) as engine:
        async with watching(engine.port) as monitor:
            seen: list[Verdict] = []
            monitor.on_change = lambda: seen.append(monitor.snapshot().verdict)
            await until(monitor, lambda s: s.throughput.gen_tok_s is not None)
            await until(monitor, lambda s: s.verdict.state is State.READY)
            told = {verdict.state for verdict in seen if verdict.reason.code not in ("looking", "connecting")}
            assert told <= {State.ABSENT, State.STARTING, State.READY}
            assert State.STARTING in told


async def test_a_ready_line_that_was_there_when_we_came_is_checked_at_once(tmp_path: Path) -> None:
    """A launch found just before it is ready: the next question would be two seconds away."""
    asked = [0]
    with running_engine(tmp_path, pace_s=0.02) as engine:
        engine.wait_for("fired up")
        async with watching(engine.port) as monitor:
            server = (await until(monitor, lambda s: s.server is not None)).server
        assert server is not None
        node, keeper = LocalNode(), Keeper()
        keeper.began(os.getpid())
        watch = log_watch.LogWatch(
            node,
            server,
            keeper=keeper,
            skew_s=0.0,
            on_batch=lambda *_: None,
            on_ready=lambda: None,
            on_caught_up=lambda: asked.__setitem__(0, asked[0] + 1),
            on_change=lambda: None,
        )
        task = asyncio.create_task(watch.run())
        end = time.monotonic() + 10
        while not asked[0] and time.monotonic() < end:
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await node.aclose()
    assert asked == [1]


async def test_a_rotated_log_is_followed_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "LOOK_AT_LOG_S", 0.2)
    log = tmp_path / "own.log"
    log.write_text("first file\n")
    with running_engine(tmp_path, pace_s=30) as engine:
        async with watching(engine.port, log) as monitor:
            await until(monitor, lambda s: "first file" in texts(s))
            log.rename(tmp_path / "own.log.1")
            log.write_text("second file\n")
            snapshot = await until(monitor, lambda s: "second file" in texts(s))
            assert any("replaced" in text for text in texts(snapshot))


async def test_no_line_is_lost_when_the_watch_is_cancelled_in_a_chunk(tmp_path: Path) -> None:
    """The link breaks while a fast log is being read: what the follower counted has been read."""
    log = tmp_path / "fast.log"
    log.write_text("".join(f"line {n}\n" for n in range(200_000)))
    node, keeper = LocalNode(), Keeper()
    keeper.began(os.getpid())
    await node.connect()
    with running_engine(tmp_path, pace_s=30) as engine:
        async with watching(engine.port) as monitor:
            server = (await until(monitor, lambda s: s.server is not None)).server
        assert server is not None
        watch = log_watch.LogWatch(
            node,
            with_log(server, str(log)),
            keeper=keeper,
            skew_s=0.0,
            on_batch=lambda *_: None,
            on_ready=lambda: None,
            on_caught_up=lambda: None,
            on_change=lambda: None,
        )
        for _ in range(200):
            before, task = watch.store.end, asyncio.create_task(watch.run())
            while watch.store.end == before and not task.done():
                await asyncio.sleep(0)  # until it is in the middle of a chunk
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if watch.store.end >= 200_000:
                break
    await node.aclose()
    lines = [watch.store.line(n) for n in range(watch.store.first, watch.store.end)]
    kept = [line.text for line in lines if line is not None]
    assert kept[-1] == "line 199999"
    assert kept == [f"line {n}" for n in range(200_000 - len(kept), 200_000)]
