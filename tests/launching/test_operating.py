"""The operator with a real server on this machine: planned, begun, left in the midst, and gone on with by another one."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from eagletui.launching.operating import NodeOperator
from eagletui.launching.plan import Wish
from eagletui.launching.records import read_records
from eagletui.launching.sequence import SequenceRun
from eagletui.nodes.local import LocalNode
from eagletui.servers.intent import Intent, Launched, Over, Stopping
from eagletui.servers.record import Record
from tests.requires import require
from tests.unruly import Unruly, lives, unruly


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Unruly]:
    """A server that drains for long, until its folder says otherwise."""
    require("procfs")
    require("setsid")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(os.urandom(5000))
    with unruly(tmp_path, "drains=60", more=("--model-path", str(model))) as server:
        server.wait_for()
        yield server
    for written in tmp_path.glob(".local/state/eagletui/launches/*/*/process"):
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(int(written.read_text().split()[0])), signal.SIGKILL)
    for entry in Path("/dev/shm").glob("sgl_shm_*"):
        if not Path(f"/proc/{entry.name.rpartition('_')[2]}").exists():
            entry.unlink(missing_ok=True)


async def drains(run: SequenceRun) -> None:
    async with asyncio.timeout(60):
        while "drains" not in (run.progress.step.text if run.progress.step is not None else ""):
            assert run.progress.ending == "running", run.progress
            await asyncio.sleep(0.05)


async def test_a_sequence_that_was_left_is_finished_by_the_next_eagletui(old: Unruly) -> None:
    node, told = LocalNode(), list[Intent]()
    first = NodeOperator(node, name="local", on_intent=told.append)
    plan = await first.prepare(Wish("restart", port=old.port))
    assert not plan.refused, plan.refusals
    assert plan.server is not None
    assert plan.server.pid == old.pid
    assert [question.code for question in plan.questions] == ["kept-by-script"]  # this very test run
    run = first.begin(plan)
    assert first.begin(plan) is run
    await drains(run)
    await first.aclose()
    assert run.progress.ending == "aborted"
    assert "told to end" in run.progress.now_true
    assert lives(old.pid)
    (left,) = (await read_records(node)).records
    assert (left.record.step, left.record.outcome, left.begun) == ("stop", "running", False)
    assert left.record.stop_sent
    assert {pid for pid, _ in left.record.family} >= {old.pid}

    second = NodeOperator(node, name="local", on_intent=told.append)
    run_ = second.resume(left.record)
    assert run_ is not None
    assert run_.progress.steps[1].status == "skipped"
    await drains(run_)
    assert run_.stop_now()
    async with asyncio.timeout(60):
        progress = await run_.wait()
    assert (progress.ending, progress.record) == ("done", left.record.id), progress
    assert not lives(old.pid)
    assert progress.launched is not None
    assert lives(progress.launched[0])
    (kept,) = (await read_records(node)).records
    assert kept.record.process == progress.launched
    assert {type(intent) for intent in told} >= {Stopping, Launched, Over}
    assert not Path(f"/tmp/eagletui-lock-{old.port}").exists()


@pytest.mark.parametrize("step", ["stop", "leftovers", "launch"])
async def test_what_was_left_touches_no_server_that_was_started_since(old: Unruly, step: str) -> None:
    """The server that was being stopped is long gone; somebody has started another one on its port by hand."""
    node = LocalNode()
    boot = (await read_records(node)).boot
    dead = ((2**22 + 1, 5), (2**22 + 2, 6))
    left = Record(
        "20261201T000000000Z-aaaaaa", "restart", "x", "me@here", port=old.port, boot=boot, family=dead, step=step
    )
    run = NodeOperator(node, name="local").resume(left)
    assert run is not None
    async with asyncio.timeout(60):
        progress = await run.wait()
    assert (progress.ending, progress.launched) == ("refused", None), progress
    assert f"another server was started there: sglang on port {old.port} (pid {old.pid})" in progress.text
    assert run.record is not None
    assert run.record.family == dead
    await asyncio.sleep(0.5)
    assert lives(old.pid)
    assert not Path(f"/tmp/eagletui-lock-{old.port}").exists()


async def test_a_start_beside_a_server_says_what_runs_there_and_what_to_do(old: Unruly) -> None:
    plan = await NodeOperator(LocalNode(), name="local").prepare(Wish("start"))
    (refusal,) = plan.refusals
    assert refusal.code == "already-runs"
    assert "`eagletui restart local`" in refusal.text
    assert "runs here already (port " in refusal.text


async def test_an_orphan_is_ended_and_nobody_else(old: Unruly) -> None:
    node = LocalNode()
    orphan = await asyncio.create_subprocess_exec("sglang::scheduler_TP7", "3600", executable="/bin/sleep")
    try:
        operator = NodeOperator(node, name="local")
        plan = await operator.prepare(Wish("stop", port=old.port))
        mine = [one for one in plan.orphans if one.process.pid == orphan.pid]
        assert len(mine) == 1
        assert await operator.end_orphans(mine) == "1 of 1 ended"
        async with asyncio.timeout(10):
            await orphan.wait()
        assert lives(old.pid)
    finally:
        with suppress(ProcessLookupError):
            orphan.kill()
        await orphan.wait()
