"""What a run comes to: sums, spreads, the mean of each repeat and its interval. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from eagletui.bench.compare import against as held_against
from eagletui.bench.load import Load
from eagletui.bench.outcome import Facts, Failure, Measured, Repeat, Result, Row, Spread
from eagletui.bench.statistics import ci95, mean, of_sorted


def conclude(
    run: str,
    load: Load,
    facts: Facts,
    measured: Measured,
    began: float,
    complete: bool = True,
    against: Result | None = None,
) -> Result:
    """A run that was measured, concluded. Counts, tokens and the duration are sums over repeats, spreads are over all requests that were answered.

    `asked`: what the load asks for in all its repeats. A request that failed counts for nothing but its failure: tokens that it gave before are not
    counted. `accept_len`: tokens by steps of all repeats. `complete` False: it was aborted. `against`: the baseline, which it is held against.
    """
    rows = [row for repeat in measured.repeats for row in repeat.rows]
    good = [row for row in rows if row.error is None]
    duration = sum(repeat.duration_s for repeat in measured.repeats)
    tokens = sum(row.output_tokens for row in good)
    means = tuple(rate for repeat in measured.repeats if (rate := mean_rate(repeat.rows)) is not None)
    result = Result(
        run=run,
        load=load,
        facts=facts,
        began=began,
        asked=max(len(rows), load.requests * load.repeats),
        ok=len(good),
        failures=failures_of(rows),
        duration_s=duration,
        input_tokens=_input_tokens(good),
        output_tokens=tokens,
        source="chunks" if any(row.source == "chunks" for row in good) else "usage",
        tok_s_total=tokens / duration if good and duration > 0 else None,
        tok_s=spread(row.tok_s for row in good),
        ttft_ms=spread(row.ttft_ms for row in good),
        tpot_ms=spread(row.tpot_ms for row in good),
        itl_ms=spread(gap for row in good for gap in row.gaps_ms),
        e2e_ms=spread(row.e2e_ms for row in good),
        accept_len=_accept_len(measured.repeats),
        repeat_means=means,
        ci95=ci95(means),
        link_overhead_ms=measured.link_overhead_ms,
        notes=tuple(dict.fromkeys(measured.notes)),
        runner_version=measured.runner_version,
        complete=complete,
        windows=tuple((repeat.began, repeat.ended) for repeat in measured.repeats),
    )
    return result if against is None else replace(result, against=held_against(result, against))


def mean_rate(rows: Sequence[Row]) -> float | None:
    """`tok_s.per_request.mean` of one repeat; None when nothing of it was answered."""
    rates = [rate for row in rows if (rate := row.tok_s) is not None]
    return mean(rates) if rates else None


def spread(values: Iterable[float | None]) -> Spread | None:
    """Mean and percentiles of those that are known; None without any."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    return Spread(mean(known), of_sorted(known, 0.5), of_sorted(known, 0.9), of_sorted(known, 0.99))


def failures_of(rows: Iterable[Row]) -> tuple[Failure, ...]:
    """Kinds of failures, the most frequent first."""
    counted = Counter((row.status, row.error) for row in rows if row.error is not None)
    return tuple(Failure(status, text, count) for (status, text), count in counted.most_common())


def _input_tokens(good: Sequence[Row]) -> int | None:
    """The sum, None where one is unknown: a part of it would be a wrong number."""
    known = [row.input_tokens for row in good if row.input_tokens is not None]
    return sum(known) if len(known) == len(good) and good else None


def _accept_len(repeats: Sequence[Repeat]) -> float | None:
    """A token counts as much in a long repeat as in a short one: tokens over steps, as tokens over (tokens by accept length)."""
    tokens, steps = 0.0, 0.0
    for repeat in repeats:
        came = sum(row.output_tokens for row in repeat.rows if row.error is None)
        if repeat.accept_len and came:
            tokens, steps = tokens + came, steps + came / repeat.accept_len
    return tokens / steps if steps else None
