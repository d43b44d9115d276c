"""What a sweep found, as a table for a terminal and as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eagletui.bench.outcome import Against, Result
from eagletui.bench.sweep.state import CellState, SweepState

UNKNOWN = "–"
Compare = Callable[[Result, Result], Against]
"""Holds a run against another one (bench.compare)."""
HEAD = ("cell", "ready", "tok/s", "± 95 %", "TTFT p50", "accept", "Δ baseline", "verdict")


@dataclass(frozen=True, slots=True)
class Line:
    """A cell in the report. `against` None: it is a baseline, there is none, or it was not measured."""

    cell: CellState
    against: Against | None


def lines_of(state: SweepState, compare: Compare) -> tuple[Line, ...]:
    """Each cell that had its turn, in order, held against the baselines beside it: the last one before, and the next one after it, as one. What
    drifts in between stands on both sides then."""
    found: list[Line] = []
    for number, one in enumerate(state.cells):
        if not one.finished:
            continue
        against = None
        if one.result is not None and one.outcome == "measured" and not one.cell.baseline:
            beside = _beside(state.cells, number)
            against = None if beside is None else compare(one.result, beside)
        found.append(Line(one, against))
    return tuple(found)


def _beside(cells: Sequence[CellState], number: int) -> Result | None:
    before = next((found for one in reversed(cells[:number]) if (found := _baseline(one)) is not None), None)
    after = next((found for one in cells[number + 1 :] if (found := _baseline(one)) is not None), None)
    if before is None or after is None:
        return before or after
    return replace(before, repeat_means=(*before.repeat_means, *after.repeat_means))


def _baseline(one: CellState) -> Result | None:
    return one.result if one.cell.baseline and one.outcome == "measured" else None


def columns(line: Line) -> tuple[str, ...]:
    """The texts of a line, one for each of HEAD; what went wrong with a cell stands where its verdict would."""
    one, result = line.cell, line.cell.result
    if one.outcome == "failed" or result is None:
        told = " · ".join(part for part in (one.failure or "failed", one.diagnosis) if part)
        return (one.cell.name, _seconds(one.ready_s), *(UNKNOWN,) * 5, told)
    verdict = "baseline" if one.cell.baseline else UNKNOWN if line.against is None else line.against.verdict
    delta = None if line.against is None else line.against.delta_pct
    ci = None if result.ci95 is None else (result.ci95[1] - result.ci95[0]) / 2
    return (
        one.cell.name,
        _seconds(one.ready_s),
        _number(None if result.tok_s is None else result.tok_s.mean),
        _number(ci),
        UNKNOWN if result.ttft_ms is None or result.ttft_ms.p50 is None else f"{result.ttft_ms.p50:.0f} ms",
        UNKNOWN if result.accept_len is None else f"{result.accept_len:.2f}",
        UNKNOWN if delta is None else f"{delta:+.1f} %",
        verdict,
    )


def table(lines: Sequence[Line], width: int) -> tuple[str, ...]:
    """For a terminal of so many cells: names are cut, numbers never."""
    rows = [HEAD, *map(columns, lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    widths[0] = max(8, min(widths[0], width - sum(widths[1:]) - 2 * (len(HEAD) - 1)))
    return tuple("  ".join(_fit(text, widths[at], at) for at, text in enumerate(row)).rstrip() for row in rows)


def _fit(text: str, width: int, at: int) -> str:
    if len(text) > width:
        text = text[: width - 1] + "…"
    return text.ljust(width) if at in {0, len(HEAD) - 1} else text.rjust(width)


def best_of(lines: Sequence[Line]) -> Line | None:
    """The cell that is faster than its baseline by most, None where none certainly is."""
    faster = [line for line in lines if line.against is not None and line.against.verdict == "faster"]
    return max(
        faster, key=lambda line: (line.against.delta_pct or 0.0) if line.against is not None else 0.0, default=None
    )


def summary(state: SweepState, lines: Sequence[Line]) -> str:
    """What it comes to, in a sentence or two."""
    measured = sum(line.cell.outcome == "measured" for line in lines)
    told = [f"{measured} of {len(state.cells)} cells measured"]
    if state.failed:
        told.append(f"{state.failed} failed")
    if (left := len(state.cells) - len(lines)) > 0:
        told.append(f"{left} still to come")
    best = best_of(lines)
    if best is not None and best.against is not None and best.against.delta_pct is not None:
        what = f"Fastest: {best.cell.cell.name}, {best.against.delta_pct:+.1f} % against the baseline."
    elif any(line.against is not None for line in lines):
        what = "None is certainly faster than the baseline."
    else:
        what = ""
    return f"{', '.join(told)}. {what}".strip()


def markdown(state: SweepState, lines: Sequence[Line], day: str) -> str:
    """The whole report. `day`: when it began, for a person."""
    load = state.load
    pace = f"{load.rate:g} requests/s" if load.rate is not None else f"{load.concurrency} at a time"
    parts = [
        f"# Sweep of {_plain(state.profile or 'the running server')} on {_plain(state.node)}",
        f"Begun {day}, from `{_plain(state.file)}`. {summary(state, lines)}",
        f"Each cell: {load.repeats} × {load.requests} requests, {load.input_len} tokens in, {load.output_len} out, {pace}, by {load.runner}.",
        "\n".join(
            [
                "| " + " | ".join(HEAD) + " |",
                "|" + "|".join([" --- ", *(" ---: ",) * (len(HEAD) - 2), " --- "]) + "|",
                *("| " + " | ".join(map(_plain, columns(line))) + " |" for line in lines),
            ]
        ),
    ]
    failures = [
        f"- **{_plain(line.cell.cell.name)}**: {_plain(line.cell.text)}"
        for line in lines
        if line.cell.outcome == "failed"
    ]
    if failures:
        parts.append("## Failed\n\n" + "\n".join(failures))
    caveats = dict.fromkeys(note for line in lines if line.cell.result is not None for note in line.cell.result.notes)
    if caveats:
        parts.append("## To keep in mind\n\n" + "\n".join(f"- {_plain(note)}" for note in caveats))
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Of one line, and no markup: a name of a model or a flag is data."""
    told = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|`*_[]<>#" else char for char in told if char.isprintable())


def _seconds(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    whole = round(value)
    return f"{whole // 60}:{whole % 60:02d}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"
