"""Budget of the benchmark client (P14): what it measures against what a server of known pace sent, in the same run. Prints a table and exits 1 on a missed row.

P14  error of tok/s and TPOT at 8 streams of 10 ms <= 0.3 %, at 64 streams of 1 ms (64,000 events/s) <= 0.7 %; of TTFT
     with 64 simultaneous starts <= 3 %; and the mean of the inter-token latencies is a token's, not a chunk's
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass

import httpx

from eagletui.bench import client as bench_client
from eagletui.bench.builtin import BuiltinRunner
from eagletui.bench.load import Load
from eagletui.bench.outcome import Facts, Measured
from eagletui.bench.runner import Target
from eagletui.nodes.streaming import StreamTransport, dial_timed
from tests.paced_server import Paced, paced_server


@dataclass(frozen=True, slots=True)
class Row:
    """A figure: its error in percent, and what is allowed."""

    what: str
    error: float
    allowed: float


async def measure(server: Paced, load: Load, how: dict[str, float]) -> tuple[Measured, list[dict[str, float]]]:
    """Run a load; give what the client measured, and what the server sent."""
    original = bench_client.body_of

    def body_of(*given: object) -> dict[str, object]:
        return {**original(*given), "user": json.dumps(how)}  # type: ignore[arg-type]

    bench_client.body_of = body_of  # type: ignore[assignment]
    try:
        async with httpx.AsyncClient() as asking:
            await asking.get(f"{server.url}/measured")
            target = Target(Facts("vllm", model="paced"), server.url, lambda _n: StreamTransport(dial_timed))
            measured = await BuiltinRunner().run(load, target, lambda _progress: None)
            return measured, (await asking.get(f"{server.url}/measured")).json()
    finally:
        bench_client.body_of = original


def off(measured: float, true: float) -> float:
    return 100 * abs(measured - true) / true


def rows_of(measured: Measured, sent: list[dict[str, float]], streams: int, allowed: float, name: str) -> list[Row]:
    rows = [row for repeat in measured.repeats for row in repeat.rows]
    assert not [row.error for row in rows if row.error], rows[0].error
    sent = sent[-len(rows) :]
    tpot = sum(one["last"] - one["first"] for one in sent) / sum(one["tokens"] - 1 for one in sent)
    rate = sum(one["tokens"] / one["last"] for one in sent) / len(sent)
    spent = sum((row.e2e_ms or 0.0) - (row.ttft_ms or 0.0) for row in rows)
    mine = spent / sum(row.output_tokens - 1 for row in rows) / 1000
    own = sum(row.tok_s or 0.0 for row in rows) / len(rows)
    gaps = [gap for row in rows for gap in row.gaps_ms]
    return [
        Row(f"{name}: tok/s a request", off(own, rate), allowed),
        Row(f"{name}: TPOT", off(mine, tpot), allowed),
        Row(f"{name}: ITL", off(sum(gaps) / len(gaps) / 1000, tpot), allowed),
    ]


async def main() -> int:
    rows: list[Row] = []
    with paced_server() as server:
        slow = Load("p14", 16, 8, 300, 8, warmup=8, repeats=1)
        rows += rows_of(*await measure(server, slow, {"pace": 0.01}), 8, 0.3, "8 streams of 10 ms")
        fast = Load("p14", 128, 8, 2000, 64, warmup=64, repeats=1)
        rows += rows_of(*await measure(server, fast, {"pace": 0.001}), 64, 0.7, "64 streams of 1 ms")
        several = Load("p14", 16, 8, 400, 8, warmup=8, repeats=1)
        rows += rows_of(
            *await measure(server, several, {"pace": 0.02, "tokens": 4}), 8, 0.7, "4 tokens in a chunk of 20 ms"
        )
        together = Load("p14", 64, 8, 20, 64, warmup=64, repeats=1)
        measured, sent = await measure(server, together, {"pace": 0.001, "ttft": 0.2})
        ttft = sum(row.ttft_ms or 0.0 for repeat in measured.repeats for row in repeat.rows) / 64_000
        true = sum(one["first"] for one in sent[-64:]) / 64
        rows.append(Row("64 simultaneous starts: TTFT", off(ttft, true), 3.0))
    missed = 0
    for row in rows:
        verdict = "ok" if row.error <= row.allowed else "MISSED"
        missed += verdict != "ok"
        print(f"P14  {row.what:<40} error {row.error:6.2f} %   allowed {row.allowed:.1f} %   {verdict}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
