"""Programs on the node that benchmark: real shells and processes here; started standalone, followed, ended exactly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.bench.load import Load
from eagletui.bench.outcome import Facts
from eagletui.bench.runner import Target
from eagletui.bench.runners.bench_serving import repeat_in, words_for
from eagletui.bench.runners.on_node import OnNode, Ran, bar_in, tools_of
from eagletui.errors import BenchError, RefusedError
from eagletui.nodes.local import LocalNode
from eagletui.shell.bench_run import BenchTools, ask_bench_start, ask_bench_state, parse_bench_start, parse_bench_state
from eagletui.shell.lock import ask_lock_release, ask_lock_take
from tests.requires import require
from tests.shell.sh import run

LOAD = Load("quick", requests=2, input_len=64, output_len=8, repeats=1)
TOOLS = BenchTools(
    "/v/bin/python", "sglang.benchmark.serving", "0.5.23",
    frozenset({"--output-details", "--output-file", "--max-concurrency", "--warmup-requests", "--base-url", "random-ids"}),
)  # fmt: skip
TARGET = Target(Facts(engine="sglang", port=30000, launch="m b 5 6"), "http://127.0.0.1:30000", lambda _n: None)  # type: ignore[arg-type,return-value]
TOLD = {
    "duration": 2.0, "completed": 2, "accept_length": 3.0, "output_lens": [8, 8], "input_lens": [64, 64], "ttfts": [0.5, 0.0],
    "itls": [[0.1] * 7, []], "errors": ["", ""],
}  # fmt: skip
PORT = 1 + os.getpid() % 60_000


def program(folder: Path, text: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return str(path)


def test_what_is_asked_of_bench_serving() -> None:
    words = words_for(replace(LOAD, warmup=3), TARGET, TOOLS, 0)
    assert words[:5] == ("/v/bin/python", "-m", "sglang.benchmark.serving", "--backend", "sglang-oai")
    assert words[words.index("--warmup-requests") + 1] == "3"
    assert words[words.index("--random-range-ratio") + 1] == "1"
    assert "--warmup-requests" in words_for(LOAD, TARGET, TOOLS, 1)
    with pytest.raises(RefusedError, match="not installed") as refused:
        words_for(LOAD, TARGET, BenchTools(complete=True), 0)
    assert refused.value.exit_status == 16
    with pytest.raises(RefusedError, match="--output-details"):
        words_for(LOAD, TARGET, replace(TOOLS, options=frozenset()), 0)


def test_its_rows_are_read_and_its_average_since_the_start_is_not_taken() -> None:
    repeat = repeat_in(Ran(json.dumps(TOLD) + "\n", "", 0, 1000.0, 1010.0), 0)
    assert repeat.accept_len is None
    assert (repeat.began, repeat.ended) == (1008.0, 1010.0)
    first, silent = repeat.rows
    assert first.e2e_ms == pytest.approx(1200.0)
    assert (silent.ttft_ms, silent.e2e_ms, silent.error) == (None, None, None)
    with pytest.raises(BenchError, match="status 1 and left no result: a no such model"):
        repeat_in(Ran("", "a\nno such model\n", 1, 0.0, 1.0), 0)
    assert bar_in(" 50%|##  | 1/2 [00:01<00:01]\n100%|####| 2/2 [00:02<00:00]") == (2, 2)


@pytest.mark.parametrize("shell", ["bash", "dash", "busybox"])
def test_it_is_started_once_and_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    require("procfs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    token = f"b{os.getpid():031d}"
    wanted = program(tmp_path, 'printf "%s\\n" "$OPENAI_API_KEY" "$@" >result.jsonl; echo said; exit 3\n')
    assert run(ask_lock_take((PORT,), token, "t", "t", "t"), tmp_path)[0] == 0
    try:
        start = ask_bench_start((str(PORT), token), "run1", (wanted, "a b", "$(touch x)"), "sk-secret")
        assert parse_bench_start(run(start, tmp_path, shell)[1]) == "started"
        assert parse_bench_start(run(start, tmp_path, shell)[1]) == "exists"
        until = time.monotonic() + 15
        while True:
            state = parse_bench_state(run(ask_bench_state("run1", 0, members=True), tmp_path, shell)[1])
            if state.exit_status is not None:
                break
            assert time.monotonic() < until, state
        assert (state.exit_status, state.log, state.members) == (3, b"said\n", ())
        assert Path(state.result or "").read_text() == "sk-secret\na b\n$(touch x)\n"
        assert parse_bench_state(run(ask_bench_state("run1", 3), tmp_path, shell)[1]).log == b"d\n"
    finally:
        run(ask_lock_release((PORT,), token), tmp_path)


async def test_cancelled_it_ends_its_processes_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("procfs")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    wanted = program(tmp_path, 'echo "$$ 0/2 ["; sleep 300 & echo "$!"; wait\n')
    bystander = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    node = LocalNode()
    said: list[str] = []
    running = asyncio.create_task(OnNode(node, PORT, None).run((wanted,), said.append))
    try:
        async with asyncio.timeout(20):
            while len("".join(said).split("\n")) < 3:
                await asyncio.sleep(0.05)
        pids = [int(line.split()[0]) for line in "".join(said).split("\n") if line]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        for pid in pids:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        assert bystander.returncode is None
        assert not Path(f"/tmp/eagletui-lock-{PORT}").exists()
    finally:
        running.cancel()
        bystander.kill()
        await bystander.wait()
        await node.aclose()


async def test_what_is_not_installed_is_no_failure_of_the_look() -> None:
    require("procfs")
    node = LocalNode()
    try:
        found = await tools_of(node, Facts(launch=f"m b {os.getpid()} 1"))
        assert found.complete
    finally:
        await node.aclose()
