"""/health_generate: asked rarely, and only when the answer would tell something."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eagletui.monitor import deep_health
from eagletui.monitor.deep_health import DOUBT_S, IDLE_EVERY_S, LEAST_S, DeepHealth, Situation, is_due
from eagletui.monitor.probes import Prober
from eagletui.nodes.local import LocalNode

IDLE = Situation(ready=True, flowing=False, requests=False, without_s=None)
UNKNOWN = IDLE._replace(requests=None)
BEGUN = IDLE._replace(requests=True, without_s=1.0)
DOUBT = IDLE._replace(requests=True, without_s=DOUBT_S)
BUSY = IDLE._replace(requests=True, flowing=True, without_s=0.5)


@pytest.mark.parametrize(
    ("now", "asked_s", "failed", "due"),
    [
        (IDLE, None, False, True),
        (IDLE, LEAST_S, False, False),
        (IDLE, IDLE_EVERY_S, False, True),
        (UNKNOWN, None, False, True),
        (UNKNOWN, IDLE_EVERY_S - 1, False, False),
        (IDLE._replace(ready=False), None, False, False),
        (IDLE._replace(benchmarking=True), None, False, False),
        (DOUBT._replace(benchmarking=True), None, False, False),
        (BEGUN, None, False, False),
        (BEGUN, 9999.0, False, False),
        (BUSY, None, False, False),
        (BUSY, 9999.0, True, False),
        (DOUBT, None, False, True),
        (DOUBT, LEAST_S - 1, False, False),
        (DOUBT, LEAST_S, False, True),
        (IDLE, LEAST_S, True, True),
        (IDLE, LEAST_S - 1, True, False),
    ],
)
def test_when_it_is_asked(now: Situation, asked_s: float | None, failed: bool, due: bool) -> None:
    assert is_due(now, asked_s, failed=failed) == due


@contextmanager
def answering(status: int, asked: list[str]) -> Iterator[int]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(("status", "ends"), [(200, False), (503, False), (404, True), (401, True)])
async def test_what_cannot_tell_is_not_asked_again(monkeypatch: pytest.MonkeyPatch, status: int, ends: bool) -> None:
    monkeypatch.setattr(deep_health, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(deep_health, "LEAST_S", 0.1)
    monkeypatch.setattr(deep_health, "IDLE_EVERY_S", 0.1)
    asked: list[str] = []
    changes: list[int] = []
    with answering(status, asked) as port:
        async with Prober(LocalNode(), "127.0.0.1", port) as prober:
            deep = DeepHealth("/health_generate", lambda: IDLE, lambda: changes.append(1))
            running = asyncio.create_task(deep.run(prober))
            async with asyncio.timeout(10):
                while len(asked) < (1 if ends else 3) or deep.view is None:
                    await asyncio.sleep(0.02)
                if ends:
                    await running
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert set(asked) == {"/health_generate"}
    assert deep.view.status == status
    assert deep.view.asked >= len(asked) - 1
    assert deep.view.at is not None
    assert bool(deep.view.detail) == ends
    assert changes
    assert len(deep.view.latencies) == deep.view.asked


async def test_an_engine_without_it_is_never_asked() -> None:
    async with Prober(LocalNode(), "127.0.0.1", 9) as prober:
        deep = DeepHealth(None, lambda: IDLE, lambda: None)
        async with asyncio.timeout(5):
            await deep.run(prober)
        assert deep.view is None
