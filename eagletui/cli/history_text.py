"""Runs, launches and a comparison as text for a person. Everything that came from elsewhere is made printable first."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from eagletui.bench.compare import flags_differ, rate_of
from eagletui.bench.kept import KeptRun
from eagletui.bench.load import Load
from eagletui.bench.outcome import Against, Result
from eagletui.bench.side_by_side import Metric
from eagletui.cli.columns import table, when, wrapped
from eagletui.cli.status_text import plain
from eagletui.history.launches import LaunchRecord
from eagletui.ui.format import UNKNOWN, duration, number

RUN_HEAD = ("run", "when", "model", "variant", "load", "tok/s", "± 95 %", "TTFT ms", "accept", "Δ %", "verdict", "note")
LAUNCH_HEAD = ("when", "node", "model", "variant", "outcome", "ready in", "weights", "runs", "cause")
CSV_HEAD = (
    "run", "time", "node", "machine", "engine", "version", "model", "profile", "variant", "launch", "preset", "runner", "requests", "input_len",
    "output_len", "concurrency", "rate", "repeats", "asked", "ok", "failed", "complete", "duration_s", "input_tokens", "output_tokens", "tok_s",
    "tok_s_ci95_low", "tok_s_ci95_high", "tok_s_total", "ttft_ms_mean", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_mean", "itl_ms_mean", "e2e_ms_mean",
    "accept_len", "is_baseline", "baseline", "delta_pct", "verdict", "origin", "tags", "note",
)  # fmt: skip
NAMES = {
    "tok_s": "tok/s a request", "tok_s_total": "tok/s of all", "accept_len": "accept length",
    "ttft_mean": "TTFT ms mean", "ttft_p50": "TTFT ms p50", "ttft_p99": "TTFT ms p99",
    "tpot_mean": "TPOT ms mean", "tpot_p50": "TPOT ms p50", "tpot_p99": "TPOT ms p99",
    "itl_mean": "ITL ms mean", "itl_p50": "ITL ms p50", "itl_p99": "ITL ms p99",
    "e2e_mean": "E2E ms mean", "e2e_p50": "E2E ms p50", "e2e_p99": "E2E ms p99",
}  # fmt: skip
"""What a metric is called for a person."""
PRECISE_MS = 100.0
"""Below it a time has two decimals."""
MOST_FLAG_CHARS = 60
"""Of one flag's value in a comparison."""


def runs_text(runs: Sequence[KeptRun]) -> str:
    """A table; a star marks a baseline."""
    return table([RUN_HEAD, *map(_run_row, runs)], right={5, 6, 7, 8, 9}, gives=(11, 2, 3), drops=(4, 3, 7, 11, 8, 2))


def _run_row(run: KeptRun) -> tuple[str, ...]:
    result = run.result
    remark = " ".join([*(f"#{one}" for one in run.tags), *([run.note] if run.note else [])])
    return (
        f"{run.id}{'*' if run.baseline else ''}",
        when(result.began),
        _model(result.facts.model),
        _variant(result),
        plain(result.load.preset),
        number(rate_of(result), 1),
        half_width(result),
        number(None if result.ttft_ms is None else result.ttft_ms.mean, 0),
        number(result.accept_len, 2),
        UNKNOWN if run.against is None else delta(run.against.delta_pct),
        "baseline" if run.baseline else UNKNOWN if run.against is None else run.against.verdict,
        plain(remark),
    )


def launches_text(launches: Sequence[LaunchRecord], runs: dict[str, int]) -> str:
    """A table. `runs`: how many runs each has, by key."""
    rows = [LAUNCH_HEAD]
    for one in launches:
        ended = f", {one.ended} later" if one.ended is not None else ""
        rows.append(
            (
                when(one.started.timestamp()),
                plain(one.node),
                _model(one.kind.model),
                plain(" / ".join(part for part in (one.profile, one.variant) if part)) or UNKNOWN,
                f"{one.outcome}{ended}",
                duration(one.ready_s),
                {True: "from disk", False: "cached", None: UNKNOWN}[one.cold],
                number(runs.get(one.identity.key)),
                plain(one.diagnosis or UNKNOWN),
            )
        )
    return table(rows, right={5, 7}, gives=(2, 3, 1), drops=(6, 1))


def compare_text(a: KeptRun, b: KeptRun, held: Against, found: Sequence[Metric]) -> str:
    """Both side by side: what they were, flags that differ, metrics, and what is concluded."""
    rows: list[tuple[str, ...]] = [("", f"A {a.id}", f"B {b.id}", "Δ %", "")]
    rows += [(name, *told, "", "") for name, *told in _facts(a, b) if set(told) != {UNKNOWN}]
    for change in flags_differ(a.result.facts, b.result.facts):
        before, after = (UNKNOWN if one is None else _cut(plain(one)) for one in (change.before, change.after))
        rows.append((f"--{plain(change.flag)}", before, after, "", ""))
    for metric in found:
        known = [value for value in (metric.a, metric.b) if value is not None]
        if known:
            decimals = 1 if metric.unit == "tok/s" or min(known) >= PRECISE_MS else 2
            values = number(metric.a, decimals), number(metric.b, decimals), delta(metric.delta_pct)
            rows.append((NAMES[metric.name], *values, metric.verdict or ""))
    lines = [table(rows, right={1, 2, 3}, gives=(0, 1, 2)), ""]
    lines.append(wrapped(f"B is {_concluded(held)}: {plain(held.why)}"))
    if held.break_even is not None:
        lines.append(f"B would be as fast as A with an accept length of {held.break_even:.2f}")
    told_of_a, told_of_b = a.result.notes, b.result.notes
    for note in dict.fromkeys((*told_of_a, *told_of_b)):
        whose = "A and B" if note in told_of_a and note in told_of_b else "A" if note in told_of_a else "B"
        lines.append(wrapped(f"{whose}: {plain(note)}"))
    return "\n".join(lines)


def _facts(a: KeptRun, b: KeptRun) -> Iterator[tuple[str, str, str]]:
    for name, told in (
        ("began", lambda run: when(run.result.began)),
        ("engine", lambda run: plain(" ".join(one for one in (run.result.facts.engine, run.result.facts.version) if one)) or UNKNOWN),
        ("model", lambda run: _model(run.result.facts.model)),
        ("variant", lambda run: _variant(run.result)),
        ("load", lambda run: plain(run.result.load.preset)),
        ("sent", lambda run: _sent(run.result.load)),
        ("at a time", lambda run: _pace(run.result.load)),
        ("runner", lambda run: run.result.load.runner),
        ("answered", lambda run: f"{run.result.ok} of {run.result.asked}"),
        ("tags", lambda run: plain(" ".join(run.tags)) or UNKNOWN),
        ("note", lambda run: _cut(plain(run.note)) or UNKNOWN),
    ):  # fmt: skip
        yield name, told(a), told(b)


def _sent(load: Load) -> str:
    prompts = "a file" if load.prompts is not None else str(load.input_len)
    return f"{load.repeats} × {load.requests}, {prompts} → {load.output_len}"


def _pace(load: Load) -> str:
    most = UNKNOWN if load.concurrency is None else str(load.concurrency)
    return most if load.rate is None else f"{load.rate:g}/s, {most}"


def _concluded(held: Against) -> str:
    by = (
        f" by {abs(held.delta_pct):.1f} %"
        if held.delta_pct is not None and held.verdict in {"faster", "slower"}
        else ""
    )
    return {"same": "as fast as A", "not-comparable": "not comparable with A"}.get(held.verdict, f"{held.verdict} than A{by}")  # fmt: skip


def runs_csv(runs: Sequence[KeptRun]) -> str:
    """All runs with a head, as spreadsheets read it; unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for run in runs:
        writer.writerow("" if one is None else _safe(one) if isinstance(one, str) else one for one in _csv_row(run))
    return out.getvalue().rstrip("\n")


def _csv_row(run: KeptRun) -> tuple[object, ...]:
    from eagletui.bench.report import report

    one, held = run.result, run.against
    load, facts = one.load, one.facts
    means = [None if spread is None else spread.mean for spread in (one.tpot_ms, one.itl_ms, one.e2e_ms)]
    ttft = (None, None, None) if one.ttft_ms is None else (one.ttft_ms.mean, one.ttft_ms.p50, one.ttft_ms.p99)
    return (
        run.id, report(one).time.isoformat(timespec="seconds"), facts.node, facts.machine, facts.engine, facts.version, facts.model, facts.profile,
        facts.variant, facts.launch, load.preset, load.runner, load.requests, load.input_len, load.output_len, load.concurrency, load.rate,
        load.repeats, one.asked, one.ok, one.failed, int(one.complete), one.duration_s, one.input_tokens, one.output_tokens, rate_of(one),
        *(one.ci95 or (None, None)), one.tok_s_total, *ttft, *means, one.accept_len, int(run.baseline),
        None if held is None else held.run, None if held is None else held.delta_pct, None if held is None else held.verdict, run.origin,
        " ".join(run.tags), run.note,
    )  # fmt: skip


def _safe(text: str) -> str:
    """A spreadsheet takes what begins like a formula for one."""
    told = plain(text)
    return f"'{told}" if told[:1] in {"=", "+", "-", "@"} else told


def half_width(result: Result) -> str:
    """Of the interval."""
    return UNKNOWN if result.ci95 is None else f"{(result.ci95[1] - result.ci95[0]) / 2:.1f}"


def delta(value: float | None) -> str:
    """`+1.2`, with a sign always."""
    return UNKNOWN if value is None else f"{value:+.1f}"


def _model(model: str | None) -> str:
    """The last part of its path."""
    return UNKNOWN if model is None else plain(model.rstrip("/").rpartition("/")[2] or model)


def _variant(result: Result) -> str:
    return plain(" / ".join(one for one in (result.facts.profile, result.facts.variant) if one)) or UNKNOWN


def _cut(text: str) -> str:
    return text if len(text) <= MOST_FLAG_CHARS else text[: MOST_FLAG_CHARS - 1] + "…"
