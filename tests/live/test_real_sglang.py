"""A real SGLang: the verdict is right, and said within 2 s of what can be known. Opt-in (EAGLETUI_LIVE=1): takes minutes."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from eagletui.servers.model import State
from tests.live.engine import START_S, RealEngine, Seen, launched, needs_the_real_engine, seeing, written

SOON_S = 2.0
"""From what can be known to what is said."""


@pytest.fixture(autouse=True)
def _real() -> None:
    needs_the_real_engine()


def told(what: str, seconds: float) -> None:
    """A figure for whoever runs this with -s."""
    sys.stdout.write(f"\n{what}: {seconds:.2f} s")


def metrics_status(engine: RealEngine) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{engine.port}/metrics", timeout=5) as answer:
        status: int = answer.status
        return status


def begin_request(engine: RealEngine, tokens: int) -> socket.socket:
    """A request whose answer nobody waits for."""
    body = json.dumps(
        {"text": "a b c", "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}, "stream": True}
    ).encode()
    sock = socket.create_connection(("127.0.0.1", engine.port), timeout=5)
    head = (
        f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    sock.sendall(head.encode() + body)
    return sock


async def test_a_clean_start_a_stopped_scheduler_and_its_death(tmp_path: Path) -> None:
    with launched(tmp_path, "tiny64") as engine:
        async with seeing(engine.port) as seen:
            fired_up = await written(engine, "fired up and ready to roll", seen)
            ready = await seen.until(lambda s: s.verdict.state is State.READY, 20)
            told("ready line -> READY", ready - fired_up)
            assert ready - fired_up < SOON_S
            assert not {"crashed", "stalled", "degraded"} & {code.split(":")[0] for code in seen.codes}, seen.codes
            assert seen.diagnoses == []
            await seen.until(lambda s: s.deep_health is not None and s.deep_health.status == 200, 20)
            scheduler = engine.pid_of("sglang::scheduler")
            assert scheduler is not None
            await _stopped_and_going_on(engine, seen, scheduler)
            sock = await _at_work(engine, seen)
            await _stopped_and_going_on(engine, seen, scheduler)
            sock.close()
            os.kill(scheduler, signal.SIGKILL)
            killed = time.monotonic()
            crashed = await seen.until(lambda s: s.verdict.state is State.CRASHED, 10)
            told("kill -9 of the scheduler when ready -> CRASHED", crashed - killed)
            assert crashed - killed < SOON_S
            await seen.until(lambda s: s.diagnosis is not None and s.diagnosis.code == "worker-killed", 12)
            told("... -> worker-killed", time.monotonic() - killed)
            await asyncio.sleep(max(0.0, 12 - (time.monotonic() - killed)))
            assert seen.look().verdict.state is State.CRASHED
            assert seen.diagnoses[-1][1] == "worker-killed", seen.diagnoses


async def _at_work(engine: RealEngine, seen: Seen) -> socket.socket:
    sock = begin_request(engine, 7_000)
    await seen.until(lambda s: s.verdict.reason.code == "serving", 30)
    return sock


async def _stopped_and_going_on(engine: RealEngine, seen: Seen, scheduler: int) -> None:
    os.kill(scheduler, signal.SIGSTOP)
    stopped = time.monotonic()
    stalled = await seen.until(lambda s: s.verdict.state is State.STALLED, 10)
    told("SIGSTOP of the scheduler -> STALLED", stalled - stopped)
    assert stalled - stopped < SOON_S
    assert metrics_status(engine) == 200
    assert seen.look().verdict.reason.code == "suspended"
    os.kill(scheduler, signal.SIGCONT)
    went_on = time.monotonic()
    ready = await seen.until(lambda s: s.verdict.state is State.READY, 40)
    told("SIGCONT -> READY", ready - went_on)


async def test_a_hung_scheduler_that_no_state_gives_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the process's state as a witness: tokens, /health and /health_generate have to tell."""
    monkeypatch.setattr("eagletui.monitor.movement.SUSPENDED_S", 1e9)
    with launched(tmp_path, "tiny64") as engine:
        async with seeing(engine.port) as seen:
            await seen.until(lambda s: s.verdict.state is State.READY, START_S)
            scheduler = engine.pid_of("sglang::scheduler")
            assert scheduler is not None
            sock = await _at_work(engine, seen)
            os.kill(scheduler, signal.SIGSTOP)
            stopped = time.monotonic()
            stalled = await seen.until(lambda s: s.verdict.state is State.STALLED, 80)
            told("hung without a witness -> STALLED", stalled - stopped)
            sys.stdout.write(f" {seen.verdicts[-1]}")
            assert stalled - stopped < 60 + SOON_S
            assert seen.look().verdict.reason.code == "no-tokens"
            assert metrics_status(engine) == 200
            os.kill(scheduler, signal.SIGCONT)
            sock.close()
            await seen.until(lambda s: s.verdict.state is State.READY, 60)
            assert "crashed" not in {code.split(":")[0] for code in seen.codes}


async def test_a_scheduler_that_is_killed_while_it_loads(tmp_path: Path) -> None:
    with launched(tmp_path, "mid64") as engine:
        async with seeing(engine.port) as seen:
            await seen.until(lambda s: s.startup.progress is not None and s.startup.progress.done >= 5, START_S)
            assert seen.look().verdict.state is State.STARTING
            scheduler = engine.pid_of("sglang::scheduler")
            assert scheduler is not None
            os.kill(scheduler, signal.SIGKILL)
            killed = time.monotonic()
            crashed = await seen.until(lambda s: s.verdict.state is State.CRASHED, 10)
            told("kill -9 of the scheduler while it loads -> CRASHED", crashed - killed)
            assert crashed - killed < SOON_S
            await seen.until(lambda s: s.diagnosis is not None and s.diagnosis.code == "worker-killed", 12)
            told("... -> worker-killed", time.monotonic() - killed)
            assert "ready" not in {code.split(":")[0] for code in seen.codes}


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Somebody else's server on that port, which answers everything, a warm-up request, too."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        pass


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """It loads everything, fails to bind, warms up somebody else's server, says that it is ready, and dies."""
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        with launched(tmp_path, "tiny64", port=other.server_address[1]) as engine:
            codes = await _fails(engine, "port", "port-in-use")
            assert "unknown:wrong-server" in codes
    finally:
        other.shutdown()
        other.server_close()


@pytest.mark.parametrize(("case", "code"), [("flag", "bad-flag"), ("model", "model-not-found")])
async def test_a_launch_that_fails(tmp_path: Path, case: str, code: str) -> None:
    flags = ("--no-such-flag", "1") if case == "flag" else ()
    with launched(tmp_path, "" if case == "model" else "tiny64", *flags) as engine:
        await _fails(engine, case, code)


async def _fails(engine: RealEngine, case: str, code: str) -> list[str]:
    """Watch it die; every state that was said."""
    async with seeing(engine.port) as seen:
        dead = None
        end = time.monotonic() + START_S
        while dead is None or time.monotonic() < dead + 12:
            seen.look()
            await asyncio.sleep(0.02)
            if dead is None and engine.process.poll() is not None:
                dead = time.monotonic()
            assert time.monotonic() < end, f"it did not die: {seen.codes} {engine.text[-2000:]}"
        crashed = next(at for at, state, _, _ in seen.verdicts if state == "crashed")
        found = next(at for at, named in seen.diagnoses if named == code)
        told(f"{case}: death of the launcher -> CRASHED", crashed - dead)
        told(f"{case}: death of the launcher -> {code}", found - dead)
        sys.stdout.write(f" {seen.codes} {[name for _, name in seen.diagnoses]}")
        assert crashed - dead < SOON_S
        assert found - dead < SOON_S
        assert seen.diagnoses[-1][1] == code, seen.diagnoses
        assert "ready" not in {named.split(":")[0] for named in seen.codes}
        return seen.codes
