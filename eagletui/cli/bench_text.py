"""What `bench` says to a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eagletui.bench.outcome import Against, BenchProgress, Result, Spread
from eagletui.bench.statistics import PERCENTILE
from eagletui.cli.wait_text import safe
from eagletui.ui.bench_words import SIGNS
from eagletui.ui.format import UNKNOWN, duration, plural

COLOURS = {"faster": "32", "slower": "31", "same": "0", "not-comparable": "33"}
_HEAD = ("", "mean", "p50", "p90", "p99")


def live_line(progress: BenchProgress) -> str:
    """How far it is."""
    if progress.stage == "preparing":
        return f"  {safe(progress.line)}" if progress.line else "  looking at the server …"
    if progress.stage == "warmup":
        return "  warming up …"
    parts = [f"{progress.done} of {progress.asked} requests"]
    if progress.repeats > 1:
        parts.append(f"repeat {progress.repeat} of {progress.repeats}")
    if progress.open:
        parts.append(f"{progress.open} open")
    if progress.tok_s is not None:
        parts.append(f"{progress.tok_s:.1f} tok/s")
    if progress.rate is not None:
        parts.append(f"{progress.rate:.1f} requests/s")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    if progress.eta_s is not None:
        parts.append(f"{duration(progress.eta_s)} to go")
    return "  " + " · ".join(parts)


def result_lines(result: Result, *, colour: bool, kept: bool = True) -> Iterator[str]:
    """The whole of it, as a table with what it comes to. `kept`: it has its place in the history, by its id."""
    facts, load = result.facts, result.load
    who = " ".join(part for part in (facts.engine, facts.version) if part) or "a server"
    where = f" on {facts.node}" if facts.node else f" at {facts.machine}"
    yield safe(f"{who}, {facts.model or 'unknown model'}{where}")
    pace = f"{load.rate:g} requests/s" if load.rate is not None else f"{load.concurrency} at a time"
    ended = "" if result.complete else " · ended early"
    yield f"{load.preset}: {load.repeats} × {plural(load.requests, 'request')}, {pace}, by {load.runner}{ended}"
    yield f"{result.ok} of {result.asked} answered in {duration(result.duration_s)}; {_tokens(result)}"
    for failure in result.failures:
        status = "no answer" if failure.status is None else f"status {failure.status}"
        yield _painted(f"{failure.count} × {status}: {safe(failure.text)}", "31", colour=colour)
    if any(failure.status in {401, 403} for failure in result.failures):
        yield "a key is needed: --api-key-env NAME sends the one in that variable"
    if result.tok_s is not None:
        yield ""
        yield "  " + f"{_HEAD[0]:<16}" + "".join(f"{head:>10}" for head in _HEAD[1:])
        yield _row("tok/s a request", result.tok_s, 1)
        yield _row("TTFT ms", result.ttft_ms, 1)
        yield _row("TPOT ms", result.tpot_ms, 2)
        yield _row("ITL ms", result.itl_ms, 2)
        yield _row("request ms", result.e2e_ms, 0)
        yield ""
    yield from _conclusion(result, colour=colour)
    for note in result.notes:
        yield f"note: {safe(note)}"
    name = f"run {result.run}" if kept else "this run is not kept"
    yield f"{name} · percentiles: {PERCENTILE}"


def _tokens(result: Result) -> str:
    given = UNKNOWN if result.input_tokens is None else f"{result.input_tokens:,}".replace(",", " ")
    counted = "" if result.source == "usage" else " (chunks: the server sent no usage)"
    return f"{given} tokens in, {f'{result.output_tokens:,}'.replace(',', ' ')} out{counted}"


def _row(name: str, spread: Spread | None, digits: int) -> str:
    values = (None,) * 4 if spread is None else (spread.mean, spread.p50, spread.p90, spread.p99)
    return f"  {name:<16}" + "".join(f"{UNKNOWN if one is None else f'{one:.{digits}f}':>10}" for one in values)


def _conclusion(result: Result, *, colour: bool) -> Iterator[str]:
    if result.tok_s is None:
        yield _painted("no request was answered well: no rate", "31", colour=colour)
        return
    ci = "" if result.ci95 is None else f" [{result.ci95[0]:.1f}, {result.ci95[1]:.1f}] 95 %"
    total = "" if result.tok_s_total is None else f" · {result.tok_s_total:.1f} tok/s in all"
    accept = "" if result.accept_len is None else f" · accept length {result.accept_len:.2f}"
    yield f"{result.tok_s.mean:.1f} tok/s a request{ci}{total}{accept}"
    if result.link_overhead_ms is not None:
        yield f"the link takes {result.link_overhead_ms:.1f} ms of each first token"
    if result.against is not None:
        yield _painted(against_line(result.against), COLOURS[result.against.verdict], colour=colour)


def against_line(against: Against) -> str:
    """The verdict in a line."""
    base = "" if against.tok_s is None else f" ({against.tok_s:.1f} tok/s)"
    delta = "" if against.delta_pct is None else f" by {abs(against.delta_pct):.1f} %"
    if against.verdict in {"faster", "slower"}:
        said = f"{against.verdict} than baseline {against.run}{base}{delta}"
    elif against.verdict == "same":
        said = f"the same as baseline {against.run}{base}"
    else:
        said = f"not comparable with baseline {against.run}{base}"
    even = (
        "" if against.break_even is None else f"; at an accept length of {against.break_even:.2f} it would be as fast"
    )
    why = f": {safe(against.why)}" if against.why else ""
    return f"{SIGNS[against.verdict][0]} {said}{why}{even}"


def _painted(text: str, code: str, *, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour and code != "0" else text
