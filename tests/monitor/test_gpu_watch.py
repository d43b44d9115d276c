"""Watching GPUs through stand-ins on PATH, over the local node."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eagletui.monitor import gpu_watch
from eagletui.monitor.gpu_watch import GpuWatch
from eagletui.nodes.local import LocalNode

TOOL = """#!/bin/sh
echo "$@" >>"{calls}"
case "$*" in
*compute-apps*) echo "GPU-aaaaaaaa-0000-0000-0000-000000000000, 4711, 1000, python3";;
*query-gpu*)
fields=$(printf '%s' "$*" | sed 's/.*--query-gpu=\\([^ ]*\\).*/\\1/')
row() {{ printf '%s\\n' "$fields" | tr ',' '\\n' | while read -r f; do
case $f in index) printf '%s, ' 0;; uuid) printf 'GPU-aaaaaaaa-0000-0000-0000-000000000000, ';; name) printf 'NVIDIA H200, ';;
utilization.gpu) printf '%s, ' "$1";; memory.used) printf '5000, ';; memory.total) printf '143771, ';;
*) printf '[N/A], ';; esac; done | sed 's/, $//'; echo; }}
case "$*" in
*"-l 1"*) {loop};;
*) row 7;;
esac;;
esac
"""


@contextlib.asynccontextmanager
async def watching(folder: Path, loop: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[GpuWatch, Path]]:
    calls = folder / "calls"
    tool = folder / "nvidia-smi"
    tool.write_text(TOOL.format(calls=calls, loop=loop))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    node = LocalNode()
    await node.connect()
    watch = GpuWatch(node, lambda: None)
    task = asyncio.create_task(watch.run())
    try:
        yield watch, calls
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await node.aclose()


async def until(watch: GpuWatch, what: str, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not eval(what, {"v": watch.view, "utils": [g.util_pct for g in watch.view.report.gpus]}):
        assert time.monotonic() < end, f"{what}: {watch.view}"
        await asyncio.sleep(0.05)


async def test_rows_move_with_the_loop_and_keep_their_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = "for u in 10 20 30; do row $u; sleep 0.3; done; sleep 30"
    async with watching(tmp_path, loop, monkeypatch) as (watch, _):
        await until(watch, "utils == [30]")
        (gpu,) = watch.view.report.gpus
        assert [p.pid for p in gpu.processes] == [4711]
        assert watch.view.history[0][1][-3:] == (10, 20, 30)
        assert watch.view.report.error is None


async def test_a_loop_that_hangs_is_told_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "SILENT_S", 1.0)
    monkeypatch.setattr(gpu_watch, "RETRY_S", 0.2)
    async with watching(tmp_path, "row 10; exec sleep 30", monkeypatch) as (watch, calls):
        await until(watch, "v.report.error is not None and v.report.error.code == 'timeout'")
        assert [g.util_pct for g in watch.view.report.gpus] == [10]  # the last rows stay, with their age
        before = calls.read_text().count("query-gpu")
        await asyncio.sleep(1)
        await watch.run()  # as after a reconnect
        assert calls.read_text().count("query-gpu") == before


async def test_a_loop_that_dies_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_watch, "RETRY_S", 0.2)
    async with watching(tmp_path, "row 10; exit 15", monkeypatch) as (_, calls):
        end = time.monotonic() + 10
        while calls.read_text().count("-l 1") < 3 if calls.exists() else True:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
