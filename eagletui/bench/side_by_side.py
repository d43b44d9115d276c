"""Two runs metric by metric: what each came to, by how much they differ, and whether that is more than noise. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from eagletui.bench.compare import differences, rate_of
from eagletui.bench.outcome import Conclusion, Result, Row, Spread
from eagletui.bench.statistics import LEVEL, mean, welch

Unit = Literal["tok/s", "ms", "tokens"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`a`, `b`: its value in each run, None where unknown; `delta_pct`: by how much B's differs from A's. `verdict`: of B by Welch's test (95 %)
    of the repeats' means, None where there is nothing to test; a shorter time is `faster`."""

    name: str
    unit: Unit
    a: float | None
    b: float | None
    delta_pct: float | None
    verdict: Conclusion | None = None


_TIMES: tuple[tuple[str, Callable[[Result], Spread | None], Callable[[Row], float | None] | None], ...] = (
    ("ttft", lambda one: one.ttft_ms, lambda row: row.ttft_ms),
    ("tpot", lambda one: one.tpot_ms, lambda row: row.tpot_ms),
    ("itl", lambda one: one.itl_ms, None),
    ("e2e", lambda one: one.e2e_ms, lambda row: row.e2e_ms),
)


def metrics(a: Result, b: Result, rows_a: Sequence[Row] = (), rows_b: Sequence[Row] = ()) -> tuple[Metric, ...]:
    """All of them. `rows_a`, `rows_b`: the requests, where they were kept; without them only the rate can be tested. Nothing is tested of runs that
    cannot be compared."""
    alike = not differences(b, a)
    rates = (a.repeat_means, b.repeat_means) if alike else ((), ())
    found = [
        _metric("tok_s", "tok/s", rate_of(a), rate_of(b), *rates),
        _metric("tok_s_total", "tok/s", a.tok_s_total, b.tok_s_total),
        _metric("accept_len", "tokens", a.accept_len, b.accept_len),
    ]
    for name, spread_of, time_of in _TIMES:
        spread_a, spread_b = spread_of(a), spread_of(b)
        tested = time_of is not None and alike
        means = (_means(rows_a, time_of), _means(rows_b, time_of)) if tested and time_of is not None else ((), ())
        found.append(_metric(f"{name}_mean", "ms", *_pair(spread_a, spread_b, lambda one: one.mean), *means))
        found.append(_metric(f"{name}_p50", "ms", *_pair(spread_a, spread_b, lambda one: one.p50)))
        found.append(_metric(f"{name}_p99", "ms", *_pair(spread_a, spread_b, lambda one: one.p99)))
    return tuple(found)


def _pair(
    a: Spread | None, b: Spread | None, value_of: Callable[[Spread], float | None]
) -> tuple[float | None, float | None]:
    return None if a is None else value_of(a), None if b is None else value_of(b)


def _metric(
    name: str, unit: Unit, a: float | None, b: float | None, means_a: Sequence[float] = (), means_b: Sequence[float] = ()
) -> Metric:  # fmt: skip
    delta = (b / a - 1) * 100 if a and b is not None else None
    test = welch(means_b, means_a)
    verdict: Conclusion | None = None
    if test is not None:
        more = test.t > 0
        verdict = "same" if test.p >= 1 - LEVEL else "slower" if more == (unit == "ms") else "faster"
    return Metric(name, unit, a, b, delta, verdict)


def _means(rows: Sequence[Row], time_of: Callable[[Row], float | None]) -> tuple[float, ...]:
    """Of each repeat, in order."""
    of_repeat: dict[int, list[float]] = {}
    for row in rows:
        value = time_of(row)
        if row.error is None and value is not None:
            of_repeat.setdefault(row.repeat, []).append(value)
    return tuple(mean(values) for _, values in sorted(of_repeat.items()))
