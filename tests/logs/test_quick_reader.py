"""Passing over what tells nothing changes nothing: explain() with and without it, whatever stands in the log and however it is cut."""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.literals import longest_literal
from eagletui.engines.sglang import SGLANG
from eagletui.engines.vllm import VLLM
from eagletui.logs.explain import Explanation, explain
from eagletui.logs.gate import gate
from tests.logs.recorded import recorded

LOGS = ("cpu-life", "h200-tp1", "h200-tp2-eagle3", "vllm-startup", "cpu-port-in-use", "h200-sigterm-under-load")

DECODE = "[2026-11-30 0{h}:{m:02}:{s:02}{rank}] Decode batch, #running-req: {r}, #token: 12, token usage: 0.0{r}, accept len: 2.{r}0, cuda graph: True, gen throughput (token/s): {t}.25, #queue-req: {q}"
PREFILL = "[2026-11-30 0{h}:{m:02}:{s:02}{rank}] Prefill batch, #new-seq: 1, #new-token: {r}, #cached-token: 0, token usage: 0.08, #running-req: {r}, #queue-req: {q}, cuda graph: True, input throughput (token/s): {t}.53"
ODD = (
    '[2026-11-30 0{h}:{m:02}:{s:02}] INFO:     10.0.0.7:48276 - "POST /v1/completions HTTP/1.1" 200 OK',
    'INFO:     10.0.0.7:48276 - "GET /health HTTP/1.1" 503 Service Unavailable',
    "[2026-11-30 0{h}:{m:02}:{s:02}] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
    "[2026-11-30 0{h}:{m:02}:{s:02}{rank}] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5 -> 0.6",
    "something that means nothing at all",
    "",
    "   ",
    "a line [2026-11-30 0{h}:{m:02}:{s:02} TP0] glued to a stamp",
    "Capturing batches (bs=1):  50%|##   | 1/2 [00:01<00:01,  1.00it/s]\r",
    "\x1b[31m[2026-11-30 0{h}:{m:02}:{s:02}] coloured\x1b[0m",
    "NUL\x00s [2026-11-30 0{h}:{m:02}:{s:02}]",
    "[2026-11-30 0{h}:{m:02}:{s:02}{rank}] Prefill batch. #new-seq: 1, weird",
    "[2026-11-30 0{h}:{m:02}:{s:02}{rank}] Decode batch, #running-req: nan, gen throughput (token/s): x, #queue-req: 0",
    '[2026-11-30 0{h}:{m:02}:{s:02}{rank}] A request failed: Traceback (most recent call last):\n  File "/x/sglang/srt/a.py", line 1, in f\n    x()\nValueError: odd\n',
    "[2026-11-30 0{h}:{m:02}:{s:02}{rank}] DeepGEMM JIT Compiling for <GEMM> N=1, K=2",
    "long " * 20_000,
    "\u2028\x9b31m \u202e bidi é",
    '[2026-11-30 0{h}:{m:02}:{s:02} TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File "/x/sglang/srt/m.py", line 7, in run\n    y()\nRuntimeError: CUDA error: an illegal memory access was encountered\n',
    "[2026-11-30 0{h}:{m:02}:{s:02}] server_args=ServerArgs(model_path='/m', tp_size=2, port=30000)",
    "[2026-11-30 0{h}:{m:02}:{s:02}] The server is fired up and ready to roll!",
    "[2026-11-30 0{h}:{m:02}:{s:02}] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
    "Do you wish to run the custom code? [y/N] ",
    "sglang-1  | [2026-11-30 0{h}:{m:02}:{s:02}] of another server",
    "(EngineCore_DP0 pid=29) INFO 11-30 0{h}:{m:02}:{s:02} [core.py:93] of another engine",
    "[2026-11-30 0{h}:{m:02}:{s:02} DP1 TP0] Decode batch, #running-req: 2, #token: 1, token usage: 0.10, gen throughput (token/s): 7.00, #queue-req: 1",
)


def both(data: bytes, cuts: list[int]) -> tuple[Explanation, Explanation, Explanation]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    blocks = [data[a:b] for a, b in pairwise(places)]
    return explain(blocks), explain(blocks, re2=False), explain(blocks, quick=False)


@lru_cache(maxsize=64)
def served(seed: int, odd: int) -> bytes:
    """A start, and then load with odd lines among it."""
    random = Random(seed)
    lines = [
        "[2026-11-30 00:00:00] server_args=ServerArgs(model_path='/m', tp_size=2, port=30000)",
        "[2026-11-30 00:00:09 TP0] Load weight begin. avail mem=1 GB",
        "[2026-11-30 00:00:19 TP0] Load weight end. elapsed=10.00 s, type=X",
        "[2026-11-30 00:00:29] The server is fired up and ready to roll!",
    ]
    ranks = random.choice((["", " TP0"], [" TP0"], [" DP0 TP0", " DP1 TP1"]))
    for i in range(120):
        at = {"h": 1 + i // 60, "m": i % 60, "s": random.randrange(60), "rank": random.choice(ranks)}
        at |= {"r": random.randrange(1, 9), "q": random.randrange(3), "t": random.randrange(900)}
        shape = random.choice(ODD) if random.randrange(100) < odd else random.choice((DECODE, DECODE, PREFILL))
        lines.append(shape.format(**at))
    return ("\n".join(lines) + random.choice(("", "\n"))).encode()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.sampled_from((0, 3, 10, 40)), st.lists(st.integers(0, 1 << 20), max_size=4))
def test_a_log_under_load(seed: int, odd: int, cuts: list[int]) -> None:
    quick, without, slow = both(served(seed, odd), cuts)
    assert quick == slow
    assert without == slow


def test_when_is_told_by_the_last_time_however_long_ago() -> None:
    """Hundreds of lines without a time may stand between."""
    chatter = "something that means nothing\n" * 300
    data = (
        served(3, 0).decode().rstrip("\n") + "\n"
        + DECODE.format(h=4, m=1, s=1, rank="", r=1, q=0, t=5) + "\n" + chatter
        + "[2026-11-30 04:05:06] a word\n" + chatter + "Segmentation fault (core dumped)\n"
    ).encode()  # fmt: skip
    quick, without, slow = both(data, [])
    found = slow.servers[0].launches[0].diagnosis
    assert found is not None
    assert (found.code, found.clock) == ("segfault", "04:05:06")
    assert quick == without == slow


def test_an_exit_status_is_no_line_of_the_log() -> None:
    told = explain([served(3, 0)], exit_code=-9).servers[0].launches[0].diagnosis
    assert told is not None
    assert [(quote.line, quote.text) for quote in told.evidence] == [(0, "exit code -9")]


@pytest.mark.parametrize("name", LOGS)
def test_recordings(name: str) -> None:
    data = recorded(f"{name}.log")
    for cuts in ([], [len(data) // 3], [1000, 50_000, 50_001]):
        quick, without, slow = both(data, cuts)
        assert quick == slow
        assert without == slow


@pytest.mark.parametrize("re2", [True, False])
def test_a_gate_finds_every_line_with_a_literal(re2: bool) -> None:
    literals = ("rror", "Xid", "0x", "a b", "deadbeef")
    block = b"\nno\nan error\nan error Xid\n0x12\nNVRM: Xid 79\na b\n\ndeadbeef 1\nno\n"
    expected = [
        block.index(b"\n" + line) + 1
        for line in (b"an error\n", b"an error Xid", b"0x12", b"NVRM", b"a b", b"deadbeef")
    ]
    assert gate(literals, re2=re2).lines(block) == sorted(expected)
    assert gate(literals, re2=re2).lines(b"\nnothing\n") == []


def test_milestones_hold_their_literals() -> None:
    for engine in (SGLANG, VLLM):
        assert engine.literals is not None
        assert all(len(one) >= 3 for one in engine.literals)


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"Load weight begin", "Load weight begin"),
        (r"Capture (?:[\w-]+ ){0,5}(?i:graph) begin", "Capture "),
        (r"max_total_num_tokens=", "max_total_num_tokens="),
        (r"\w+ KV cache size: ", " KV cache size: "),
        (r"Init (?:torch distributed|nccl) ends?", "Init "),
        (r"torch\.compile (?:takes|took)", "torch.compile "),
        (r"[abc]+", ""),
        (r"(?i)whatever", ""),
        (r"ab?cdef", "cdef"),
        (r"abc{2}def", "def"),
    ],
)
def test_the_longest_literal_of_a_pattern(pattern: str, literal: str) -> None:
    assert longest_literal(pattern) == literal
