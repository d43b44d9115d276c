"""Runs for tests: measured as a runner gives them, concluded as eagletui does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eagletui.bench.conclude import conclude
from eagletui.bench.load import Load
from eagletui.bench.outcome import Facts, Measured, Repeat, Result, Row

LOAD = Load("quick", 4, 256, 50)
FACTS = Facts(
    "sglang",
    "0.5.16",
    "/models/x",
    {"tp": "8", "speculative-num-steps": "2"},
    "gpu-node",
    "m1 gpu-node",
    launch="m1 gpu-node boot 101 1",
)
BEGAN = 1_796_000_000.0


def rows(rate: float, repeat: int = 0, requests: int = 4, tokens: int = 50, ttft_ms: float = 50.0) -> tuple[Row, ...]:
    """Requests of one repeat, all with the same rate."""
    e2e = tokens / rate * 1000
    gap = (e2e - ttft_ms) / (tokens - 1) if tokens > 1 else 0.0
    return tuple(
        Row(repeat, n, n * e2e / 1000, ttft_ms, e2e, 256, tokens, gaps_ms=(gap,) * (tokens - 1))
        for n in range(requests)
    )


def measured(*rates: float, accept_len: float | None = 2.1, ttft_ms: float = 50.0, tokens: int = 50) -> Measured:
    """A repeat for each rate."""
    found = []
    for number, rate in enumerate(rates):
        sent = rows(rate, number, tokens=tokens, ttft_ms=ttft_ms)
        seconds = round(sum(row.e2e_ms or 0.0 for row in sent) / 1000, 3)
        found.append(Repeat(sent, seconds, BEGAN + 10 * number, BEGAN + 10 * number + seconds, accept_len))
    return Measured(tuple(found), ("a note",), 1.5, "1.0")


def run(name: str, *rates: float, load: Load = LOAD, facts: Facts = FACTS, began: float = BEGAN, **more: Any) -> Result:
    """Concluded. `more`: fields that are otherwise."""
    result = conclude(name, replace(load, repeats=len(rates)), facts, measured(*rates), began)
    return replace(result, **more)
