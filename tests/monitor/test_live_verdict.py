"""The live verdict against real processes: who was stopped, who hangs, who died of what, and whose port it is."""

from __future__ import annotations

import http.server
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eagletui.logs.stall import Limits
from eagletui.logs.store import StoredLine
from eagletui.monitor import deep_health, server_watch
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.snapshot import Snapshot
from eagletui.nodes.local import LocalNode
from eagletui.servers import stalls, verdict
from eagletui.servers.model import State
from tests.engine import running_engine
from tests.requires import require
from tests.sshd import free_port
from tests.watching import running, until


async def test_a_stopped_rank_and_a_hung_scheduler_are_stalls_whatever_health_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("procfs")
    monkeypatch.setattr(verdict, "NO_TOKEN_S", 4.0)
    monkeypatch.setattr(deep_health, "DOUBT_S", 1.5)
    monkeypatch.setattr(deep_health, "LEAST_S", 0.5)
    monkeypatch.setattr(server_watch, "METRICS_EVERY_S", 0.5)
    with running_engine(tmp_path) as engine:
        async with running(NodeMonitor(LocalNode(), port=engine.port)) as monitor:
            ready = await until(monitor, lambda s: s.verdict.state is State.READY and s.family_total == 4)
            assert ready.diagnosis is None
            rank = engine.children()["sglang::scheduler_TP1"]
            os.kill(rank, signal.SIGSTOP)
            stopped = await until(monitor, lambda s: s.verdict.state is State.STALLED, 6)
            assert stopped.verdict.reason.code == "suspended"
            assert f"scheduler TP1 (pid {rank})" in stopped.verdict.reason.text
            assert stopped.health.status == 200
            assert stopped.diagnosis is not None
            assert (stopped.diagnosis.code, stopped.diagnosis.rank) == ("stalled", "TP1")
            os.kill(rank, signal.SIGCONT)
            again = await until(monitor, lambda s: s.verdict.reason.code == "serving", 6)
            assert again.diagnosis is None
            os.kill(engine.pid, signal.SIGUSR2)
            hung = await until(monitor, lambda s: s.verdict.state is State.STALLED and s.deep_health is not None, 15)
            assert hung.verdict.reason.code == "no-tokens"
            assert hung.health.status == 200
            assert hung.deep_health is not None
            assert hung.deep_health.status == 503
            os.kill(engine.pid, signal.SIGUSR2)
            await until(monitor, lambda s: s.verdict.reason.code == "serving", 10)


@contextmanager
def kernel_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A dmesg that prints a file instead of the kernel's messages."""
    said = folder / "kernel"
    said.touch()
    tool = folder / "bin" / "dmesg"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nexec cat '{said}'\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    yield said


async def test_the_kernel_tells_who_killed_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("procfs")
    with kernel_log(tmp_path, monkeypatch) as said, running_engine(tmp_path) as engine:
        async with running(NodeMonitor(LocalNode(), port=engine.port)) as monitor:
            await until(monitor, lambda s: s.verdict.state is State.READY and s.family_total == 4)
            rank = engine.children()["sglang::scheduler_TP1"]
            uptime = Path("/proc/uptime").read_text().split()[0]
            said.write_text(f"[{uptime}0] Out of memory: Killed process {rank} (sglang::schedul) total-vm:1kB\n")
            os.kill(rank, signal.SIGKILL)
            crashed = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 6)
            assert crashed.verdict.reason.code == "rank-missing"
            found = await until(monitor, lambda s: s.diagnosis is not None, 15)
            assert found.diagnosis is not None
            assert found.diagnosis.code == "host-oom"
            assert f"Killed process {rank}" in found.diagnosis.evidence[0].text


async def test_a_death_without_a_reason_says_what_the_kernel_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("procfs")
    with kernel_log(tmp_path, monkeypatch), running_engine(tmp_path) as engine:
        async with running(NodeMonitor(LocalNode(), port=engine.port)) as monitor:
            await until(monitor, lambda s: s.verdict.state is State.READY and s.family_total == 4)
            died = time.monotonic()
            os.killpg(engine.pid, signal.SIGKILL)
            engine.process.wait(5)
            await until(monitor, lambda s: s.verdict.state is State.CRASHED, 6)
            found = await until(monitor, lambda s: s.diagnosis is not None, 15)
            assert found.diagnosis is not None
            assert found.diagnosis.code == "died-silently"
            assert "no kill for memory" in found.diagnosis.advice
            assert time.monotonic() - died < 15


async def test_a_launch_that_leaves_an_empty_log_never_started(tmp_path: Path) -> None:
    require("procfs")
    script = tmp_path / "sglang" / "launch_server.py"
    script.parent.mkdir()
    script.write_text("import sys\nsys.stdin.readline()\n")
    log, port = tmp_path / "server.log", free_port()
    with log.open("wb") as out:
        argv = [sys.executable, str(script), "--model-path", "/models/x", "--port", str(port)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=out)
    async with running(NodeMonitor(LocalNode(), port=port)) as monitor:
        await until(monitor, lambda s: s.server is not None and s.log.following and s.family_alive)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(5)
        crashed = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 6)
        assert crashed.verdict.reason.code == "never-started"
        found = await until(monitor, lambda s: s.diagnosis is not None, 15)
        assert found.diagnosis is not None
        assert found.diagnosis.code == "never-started"


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Somebody else's server, which is well."""

    def do_GET(self) -> None:
        body = b"sglang:num_running_reqs 3.0\nsglang:gen_throughput 50.0\n" if self.path == "/metrics" else b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        pass


async def test_what_another_process_answers_makes_nobody_ready(tmp_path: Path) -> None:
    require("procfs")
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        port = other.server_address[1]
        with running_engine(tmp_path, pace_s=0.2, port=port) as engine:
            async with running(NodeMonitor(LocalNode(), port=port)) as monitor:
                wrong = await until(monitor, lambda s: s.verdict.reason.code == "wrong-server")
                assert wrong.verdict.state is State.UNKNOWN
                assert wrong.health.status is None  # what the other one answers is not ours
                states: set[State] = set()

                def died(snapshot: object) -> bool:
                    states.add(monitor.snapshot().verdict.state)
                    return State.CRASHED in states

                await until(monitor, died, 15)
                engine.process.wait(10)
                assert State.READY not in states
                assert State.DEGRADED not in states
                found = await until(monitor, lambda s: s.diagnosis is not None, 15)
                assert found.diagnosis is not None
                assert found.diagnosis.code == "port-in-use"
    finally:
        other.shutdown()
        other.server_close()


async def test_a_launch_that_stands_still_is_a_stall_until_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("procfs")
    monkeypatch.setattr(stalls, "limit_s", lambda *_: Limits(0.5, 2.0))
    monkeypatch.setattr(stalls, "BUSY_TIMES", 1.0)  # its start used CPU time a moment ago
    with running_engine(tmp_path, pace_s=6.0) as engine:
        async with running(NodeMonitor(LocalNode(), port=engine.port)) as monitor:
            stalled = await until(monitor, lambda s: s.verdict.state is State.STALLED and s.family_total == 4, 20)
            assert stalled.verdict.reason.code == "no-progress"
            assert re.fullmatch(r"no shard for 0:0[2-9], 2 of 2 schedulers alive", stalled.verdict.reason.text)
            assert stalled.diagnosis is not None
            assert (stalled.diagnosis.code, stalled.diagnosis.phase) == ("stalled", "weights")
            on = await until(monitor, lambda s: s.verdict.state is State.STARTING, 20)
            assert on.diagnosis is None


def newest(snapshot: Snapshot) -> list[StoredLine]:
    """The last lines of the log, as far as it was read."""
    store = snapshot.log.store
    return [
        line
        for number in range(max(store.first, store.end - 500), store.end)
        if (line := store.line(number)) is not None
    ]


async def test_kernels_that_are_compiled_explain_requests_without_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("procfs")
    monkeypatch.setattr(verdict, "NO_TOKEN_S", 2.0)
    monkeypatch.setattr(verdict, "COMPILING_S", 5.0)
    monkeypatch.setattr(server_watch, "METRICS_EVERY_S", 0.5)
    with running_engine(tmp_path) as engine:
        async with running(NodeMonitor(LocalNode(), port=engine.port)) as monitor:
            await until(monitor, lambda s: s.verdict.reason.code == "serving" and s.family_total == 4)
            with engine.log.open("a") as log:
                log.write(
                    "[2026-11-30 10:02:00 TP0] Entering DeepGEMM JIT Pre-Compile session. It may take a long time\n"
                )
            await until(monitor, lambda s: any("DeepGEMM" in line.text for line in newest(s)))
            began = time.monotonic()
            os.kill(engine.pid, signal.SIGUSR2)
            stalled = await until(monitor, lambda s: s.verdict.state is State.STALLED, 20)
            assert stalled.verdict.reason.code == "no-tokens"
            assert time.monotonic() - began > 4.5
