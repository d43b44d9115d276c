"""Benchmarks in words: a rate with its interval, a verdict as sign, word and colour, what a load sends, how long it takes about. Pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from eagletui.bench.compare import rate_of
from eagletui.bench.load import Load
from eagletui.bench.outcome import Against, Conclusion, Result
from eagletui.ui import format as fmt
from eagletui.ui.widgets.lines import Line, Span, clean

if TYPE_CHECKING:
    from eagletui.bench.sweep.state import SweepState

SIGNS: dict[Conclusion, tuple[str, str, str]] = {
    "faster": ("↑", "faster", "ok"), "slower": ("↓", "slower", "warning"), "same": ("=", "same", "text"), "not-comparable": ("≠", "not comparable", "dim"),
}  # fmt: skip
"""Sign, word and colour: none of them alone has to tell it."""
RUNNER_WORDS: dict[str, tuple[str, str]] = {
    "builtin": ("built-in", "eagletui sends it from here, over the link, whose own cost is measured"),
    "bench_serving": ("bench_serving", "sglang.bench_serving sends it on the node, beside the server, where it is installed"),
    "aiperf": ("aiperf", "aiperf sends it on the node, beside the server, where it is installed"),
}  # fmt: skip
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def sweep_words(state: SweepState, now: float) -> str:
    """`sweep night.toml: cell 3 of 9, steps=3, measuring, about 0:42 left`. `now`: wall clock."""
    at = state.at
    if at is None:
        return ""
    name = state.file.rpartition("/")[2]
    left = state.left_s(now)
    parts = [
        f"sweep {name}: cell {at + 1} of {len(state.cells)}",
        state.cells[at].cell.name,
        state.doing,
        f"{state.failed} failed" if state.failed else "",
        "" if left is None else f"about {fmt.duration(left)} left",
    ]
    return clean(", ".join(part for part in parts if part))


def half_width(result: Result) -> float | None:
    """Of the 95 % interval; None with one repeat."""
    return None if result.ci95 is None else (result.ci95[1] - result.ci95[0]) / 2


def rate_words(result: Result) -> str:
    """`82.2 ± 0.4`; `82.2` with one repeat."""
    mean, half = rate_of(result), half_width(result)
    return fmt.number(mean, 1) + ("" if mean is None or half is None else f" ± {half:.1f}")


def percent(delta: float | None, *, bare: bool = False) -> str:
    """`+8.7 %`, `−0.3 %`; above a thousand without decimals. `bare`: its unit stands in the header."""
    if delta is None:
        return fmt.UNKNOWN
    size = f"{abs(delta):.1f}" if abs(delta) < 999 else f"{abs(delta):.0f}"
    return f"{'−' if delta < 0 else '+'}{size}{'' if bare else ' %'}"


def verdict_words(against: Against) -> Line:
    """`↓ slower by 8.7 %`."""
    sign, word, role = SIGNS[against.verdict]
    by = (
        f" by {abs(against.delta_pct):.1f} %"
        if against.verdict in ("faster", "slower") and against.delta_pct is not None
        else ""
    )
    return ((f"{sign} {word}{by}", f"{role} bold" if by else role),)


def result_words(result: Result) -> tuple[Line, ...]:
    """What came of a run, in parts of falling weight: the rate, the verdict, failures or that it was ended, the baseline."""
    parts: list[Line] = []
    if rate_of(result) is None:
        parts.append((("nothing was measured", "error"),))
    else:
        parts.append(((rate_words(result), "text bold"), (" tok/s", "dim")))
    if result.against is not None:
        parts.append(verdict_words(result.against))
    if result.failed and result.complete:
        parts.append(((f"{fmt.count(result.failed)} of {fmt.count(result.asked)} failed", "error"),))
    if not result.complete:
        parts.append(
            ((f"ended after {fmt.count(result.ok + len_failed(result))} of {fmt.count(result.asked)}", "warning"),)
        )
    if result.against is not None and result.against.tok_s is not None:
        parts.append((("baseline ", "dim"), (fmt.number(result.against.tok_s, 1), "text")))
    if result.accept_len is not None:
        parts.append((("accept ", "dim"), (fmt.number(result.accept_len, 2), "text")))
    return tuple(parts)


def len_failed(result: Result) -> int:
    """Requests that were answered badly or not at all; of a run that was ended the rest was never sent."""
    return sum(one.count for one in result.failures)


def joined(parts: tuple[Line, ...], gap: str = "   ") -> Line:
    """Parts on one row."""
    out: list[Span] = []
    for at, part in enumerate(parts):
        out += [(gap, "dim"), *part] if at else [*part]
    return tuple(out)


def load_words(load: Load) -> str:
    """`3 × 8 requests · 256 → 128 tokens · 1 at a time`."""
    times = f"{load.repeats} × " if load.repeats > 1 else ""
    prompts = (
        "prompts of a file"
        if load.prompts is not None
        else f"{fmt.count(load.input_len)} → {fmt.count(load.output_len)} tokens"
    )
    return f"{times}{fmt.plural(load.requests, 'request')} · {prompts} · {pace_words(load)}"


def thousands(count: int) -> str:
    """`840`, `6.1k`, `196k`, `1.2M`: of a size that is only about right."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}" if count < 100 * size else f"{count / size:.0f}{letter}"
    return str(count)


def pace_words(load: Load, *, short: bool = False) -> str:
    """`4 at a time`, `2 a second, at most 64 open`."""
    if load.rate is not None:
        most = f", at most {load.concurrency} open" if load.concurrency is not None and not short else ""
        return f"{load.rate:g} a second{most}"
    return f"{load.concurrency or 1} at a time"


def about_s(load: Load, stream_tok_s: float | None) -> float | None:
    """Seconds that a load takes about, if each stream gets so many tokens a second; None where that is not known."""
    requests = load.requests * load.repeats + load.warmup
    if load.rate is not None and load.rate > 0:
        return requests / load.rate
    if not stream_tok_s or stream_tok_s <= 0:
        return None
    return requests * load.output_len / stream_tok_s / max(1, load.concurrency or 1)


def ago(seconds: float) -> str:
    """`now`, `4 min`, `3 h`, `12 d`: in one unit, for a column."""
    if seconds < MINUTE_S:
        return "now"
    if seconds < HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:.0f} h" if seconds < DAY_S * 2 else f"{seconds / DAY_S:.0f} d"


def moment(at: float, *, year: bool = False) -> str:
    """`12-01 10:31`, in the terminal's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S" if year else "%m-%d %H:%M", time.localtime(at))


def day_or_time(at: float, wall: float) -> str:
    """`10:31` within a day, else `11-29`: for a column beside `ago`."""
    return time.strftime("%H:%M" if abs(wall - at) < DAY_S else "%m-%d", time.localtime(at))
