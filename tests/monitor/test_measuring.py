"""While a benchmark is measured nothing is asked of the server by the monitor; afterwards it is asked again at once."""

from __future__ import annotations

import asyncio
import http.server
import os
import threading
from pathlib import Path

import pytest

from eagletui.monitor import deep_health, probes, server_watch
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.launches import Launches
from eagletui.monitor.measuring import Measuring
from eagletui.monitor.server_watch import ServerWatch
from eagletui.monitor.snapshot import GpuView
from eagletui.nodes.local import LocalNode
from eagletui.servers.model import LogSource, Process, Server

SOON_S = 0.02


async def until(asked: list[str], paths: set[str]) -> None:
    async with asyncio.timeout(15):
        while not paths <= set(asked):
            await asyncio.sleep(SOON_S)


async def test_a_server_that_is_measured_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "READY_EVERY_S", SOON_S)
    monkeypatch.setattr(server_watch, "METRICS_ALONE_EVERY_S", SOON_S)
    monkeypatch.setattr(deep_health, "LOOK_EVERY_S", SOON_S)
    monkeypatch.setattr(deep_health, "LEAST_S", 0.0)
    monkeypatch.setattr(deep_health, "IDLE_EVERY_S", 0.0)
    asked: list[str] = []

    class Counts(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
            pass

    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counts)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    node = LocalNode()
    me = Process(os.getpid(), os.getppid(), 0, 0, "S", "python", 1)
    server = Server(
        "s", "sglang", me, (), None, web.server_address[1], None, ("python",), None, LogSource(None, why="none"), True
    )
    measure = Measuring()
    watch = ServerWatch(
        node, server, keeper=Keeper(), started=None, skew_s=None, gpus=GpuView, launches=Launches(node), on_change=lambda: None,
        measuring=measure,
    )  # fmt: skip
    running = asyncio.create_task(watch.run())
    try:
        every = {watch.engine.health_path, watch.engine.metrics_path, str(watch.engine.deep_health_path)}
        await until(asked, every)
        measure(True)
        await asyncio.sleep(0.3)  # what was on its way arrives
        asked.clear()
        watch.probe_now()
        await asyncio.sleep(1.0)
        assert asked == []
        measure(False)
        await until(asked, every)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await node.aclose()
        web.shutdown()
        web.server_close()
