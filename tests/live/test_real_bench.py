"""A real `sglang.bench_serving` beside a real SGLang: rows and sums of what it sent (opt-in)."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from eagletui.bench.load import Load
from eagletui.bench.session import BenchSession
from eagletui.bench.sources import NodeSource
from eagletui.nodes.local import LocalNode
from tests.live.engine import START_S, launched, needs_the_real_engine


@pytest.fixture(autouse=True)
def _opt_in() -> None:
    needs_the_real_engine()


async def test_bench_serving_is_run_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with launched(tmp_path, "tiny64") as engine:
        until = time.monotonic() + START_S
        while "fired up" not in engine.text:
            assert time.monotonic() < until, engine.text[-500:]
            time.sleep(0.5)
        assert httpx.get(f"http://127.0.0.1:{engine.port}/health", timeout=60).status_code == 200
        node = LocalNode()
        try:
            session = BenchSession(NodeSource(node, "local", engine.port), None)
            load = Load("quick", requests=4, input_len=64, output_len=16, repeats=2, runner="bench_serving")
            result = await session.begin(load).wait()
        finally:
            await node.aclose()
        assert (result.ok, result.failed, result.asked) == (8, 0, 8)
        assert (result.input_tokens, result.output_tokens) == (8 * 64, 8 * 16)
        assert result.runner_version is not None
        assert result.tok_s_total is not None
        assert all(began < ended for began, ended in result.windows)
