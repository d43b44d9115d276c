"""Launches of ours as the monitor and `status` see them: real keepers, real records, a real lock."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.cli.status_text import status_text
from eagletui.history.store import History
from eagletui.launching import records
from eagletui.launching.recipe import Recipe
from eagletui.monitor import launches
from eagletui.monitor.drive import read_node_records
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.survey import survey
from eagletui.nodes.base import Node
from eagletui.nodes.local import LocalNode
from eagletui.servers.intent import Launched, Launching, NeverStarted, Over, Stopping
from eagletui.servers.model import State
from eagletui.servers.record import Record
from eagletui.servers.recorded import Records
from eagletui.shell.keeper import ask_launch
from tests.engine import STAND_IN
from tests.launching.acting import Place, acting_here
from tests.requires import require
from tests.watching import running, texts, until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records lie in it."""
    require("procfs")
    require("setsid")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


def script(folder: Path, port: int) -> str:
    """What people have: a script that prepares things, and then runs the server as its child."""
    path = folder / "run.sh"
    path.write_text(
        "#!/bin/sh\necho preparing the model\n"
        f"while [ ! -e {folder}/go ]; do sleep 0.1; done\n"
        f"{sys.executable} -m sglang.launch_server --model-path /models/tiny --port {port} --tp 2\n"
    )
    return str(path)


def boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


async def launched(place: Place, recipe: Recipe) -> Record:
    """The record of a launch that was sent, as a sequence leaves it after the step verify."""
    record = await place.written(recipe)
    assert (await place.acting.run(ask_launch(place.acting.fence.arguments, record.id))).exit_status == 0
    end = time.monotonic() + 10
    while True:
        (kept,) = [one for one in (await records.read_records(place.node)).records if one.record.id == record.id]
        if kept.record.process is not None:
            record = replace(kept.record, boot=boot(), engine="sglang", profile="tiny", variant="steps2", step="watch")
            await records.update(place.acting, record)
            return record
        assert time.monotonic() < end
        await asyncio.sleep(0.05)


async def test_a_launch_is_followed_from_its_script_to_its_stop(home: Path) -> None:
    env = {"PYTHONPATH": str(STAND_IN), "PACE_S": "0.02"}
    history = History(home / "history.db")
    async with acting_here(home) as place:
        recipe = place.recipe("/bin/sh", script(home, place.port), env=env)
        async with running(NodeMonitor(LocalNode(), port=place.port, history=history)) as monitor:
            await until(monitor, lambda s: s.discovered)
            monitor.intend(Launching(time.monotonic(), place.port))
            assert monitor.snapshot().verdict.state is State.STARTING
            record = await launched(place, recipe)
            assert record.process is not None
            monitor.intend(Launched(record.process, time.monotonic(), place.port, record.id, record.log))
            began = await until(monitor, lambda s: s.server is not None and "preparing the model" in texts(s))
            assert began.server is not None
            assert began.server.launcher.pid == record.process[0]
            assert began.verdict.state is State.STARTING
            assert began.log.path == record.log
            (home / "go").touch()
            ready = await until(monitor, lambda s: s.verdict.state is State.READY and s.family_total == 4)
            assert ready.server is not None
            assert ready.server.launcher.pid != record.process[0]
            assert ready.record is not None
            assert (ready.record.id, ready.record.profile) == (record.id, "tiny")
            assert ready.unfinished is None  # it was watched, and that is all that was left to do
            assert texts(ready)[0] == "preparing the model"

            node = LocalNode()
            told = await survey(node, port=place.port)
            (server,) = told.servers
            assert f"launched by eagletui  profile tiny / steps2  ({record.id})" in status_text(told, place.port)
            assert server.launch is not None
            assert server.launch.model_dump() == {
                "id": record.id,
                "profile": "tiny",
                "variant": "steps2",
                "by": "eagletui",
            }
            await node.aclose()

            await until(monitor, lambda _: kept(history) is not None, 15)
            members = frozenset((m.process.pid, m.process.started) for m in ready.server.family)
            monitor.intend(Stopping(members, time.monotonic(), place.port))
            stopping = await until(monitor, lambda s: s.verdict.state is State.STOPPING, 5)
            assert "eagletui asked it to stop" in stopping.verdict.reason.text
            seen: set[State] = set()
            for pid, _ in sorted(members, reverse=True):
                os.kill(pid, signal.SIGKILL)

            def gone(_snapshot: object) -> bool:
                seen.add(monitor.snapshot().verdict.state)
                return State.ABSENT in seen

            await until(monitor, gone, 10)
            assert seen <= {State.STOPPING, State.ABSENT}
            monitor.intend(Over(time.monotonic()))
            stopped = monitor.snapshot()
            assert stopped.verdict.reason.code == "stopped"
            assert stopped.verdict.reason.text.startswith("stopped by eagletui 0:0")
            assert stopped.diagnosis is None
            row = ("tiny", record.id, "eagletui", "ready", "stopped")
            await until(monitor, lambda _: kept(history) == row, 15)


def kept(history: History) -> object:
    with closing(sqlite3.connect(history.path)) as connection, suppress(sqlite3.OperationalError):  # not made yet
        # A script that starts the server has a row of its own before the server's.
        rows = connection.execute("SELECT profile, record, origin, outcome, ended FROM launches ORDER BY id DESC")
        return rows.fetchone()
    return None


async def test_a_launch_that_dies_at_once_never_started_whenever_one_looks(home: Path) -> None:
    async with acting_here(home) as place:
        recipe = place.recipe(str(home / "no-such-python"), "-m", "sglang.launch_server", "--port", str(place.port))
        async with running(NodeMonitor(LocalNode(), port=place.port)) as monitor:
            await until(monitor, lambda s: s.discovered)
            began = time.monotonic()
            record = await launched(place, recipe)
            assert record.process is not None
            monitor.intend(Launched(record.process, began, place.port, record.id, record.log))
            died = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 10)
            assert time.monotonic() - began < 6 + 3  # what this machine is slow by
            assert died.verdict.reason.code == "never-started"
            told = await until(monitor, lambda s: "no-such-python" in s.verdict.reason.text, 10)
            assert "exit status 127 (no such program)" in told.verdict.reason.text
            assert told.log.path == record.log
            assert told.record is not None
            assert told.record.exit_status == 127
        async with running(NodeMonitor(LocalNode(), port=place.port)) as later:
            again = await until(later, lambda s: s.verdict.reason.code == "never-started", 10)
            assert again.server is not None
            assert again.log.path == record.log
        node = LocalNode()
        status = await survey(node, port=place.port)
        (server,) = status.servers
        assert (server.state, server.reason.code) == ("crashed", "never-started")
        assert server.launch is not None
        assert server.diagnosis is not None
        assert server.diagnosis.code == "never-started"

        path = next((home / ".local/state/eagletui/launches").glob(f"*/{record.id}/record.json"))
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
        assert (await survey(node, port=place.port)).servers == []  # before a reboot: it says nothing about now
        await node.aclose()


async def test_a_sequence_that_was_left_is_told_and_one_under_way_is_waited_for(home: Path) -> None:
    async with acting_here(home) as place:
        record = await place.written(place.recipe("/bin/true"))
        await records.update(place.acting, replace(record, boot=boot(), kind="restart", step="gpus-free"))
        async with running(NodeMonitor(LocalNode(), port=place.port)) as monitor:
            acting = await until(monitor, lambda s: s.discovered and s.under_way is not None)
            assert acting.unfinished is None
            assert acting.verdict.state is State.STARTING
            assert "step gpus-free" in acting.verdict.reason.text
            shutil.rmtree(f"/tmp/eagletui-lock-{place.port}")
            left = await until(monitor, lambda s: s.unfinished is not None, 15)
            assert left.unfinished is not None
            assert (left.unfinished.id, left.unfinished.step) == (record.id, "gpus-free")
            assert (left.verdict.state, left.verdict.reason.code) == (State.ABSENT, "unfinished")
            assert left.under_way is None
            monitor.intend(NeverStarted("it died", time.monotonic(), place.port, printed=("no room",), exit_status=1))
            assert monitor.snapshot().verdict.reason.text == "never started: exit status 1: no room"


async def test_a_home_that_answers_slowly_holds_nobody_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with acting_here(home) as place:
        record = await place.written(place.recipe("/bin/true"))
        await records.update(place.acting, replace(record, boot=boot(), kind="restart", step="gpus-free"))
        real, gate = read_node_records, asyncio.Event()

        async def slow(node: Node, had_server: Collection[str] = ()) -> Records | None:
            await gate.wait()
            return await real(node, had_server)

        monkeypatch.setattr(launches, "read_node_records", slow)
        async with running(NodeMonitor(LocalNode(), port=place.port)) as monitor:
            await until(monitor, lambda s: s.discovered)
            assert monitor.snapshot().record is None
            gate.set()
            await until(monitor, lambda s: s.under_way is not None, 10)
