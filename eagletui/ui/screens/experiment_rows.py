"""The tables of runs and launches as rows: columns with their unit said once, sorted, filtered. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from eagletui.bench.compare import rate_of
from eagletui.bench.outcome import Spread
from eagletui.launching.plan import FlagChange
from eagletui.ui import format as fmt
from eagletui.ui.bench_words import RUNNER_WORDS, SIGNS, ago, day_or_time, half_width, moment, percent
from eagletui.ui.ledger import Entry, LaunchEntry, RunEntry
from eagletui.ui.screens.plan_rows import said
from eagletui.ui.widgets.lines import Line, Span, cut, fit, marked, plain, width_of

E = TypeVar("E", bound=Entry)
Mark = Literal["", "A", "B"]
HEAD_CELLS = 4
"""Cursor, then the letter of what is marked for comparing, or the sign of the baseline."""
WIDE_HALF = 99.95
"""Half an interval from which a tenth is not worth its cells."""
FEWEST_NAME_CELLS = 18
"""Of the variant, before other columns give way to it."""
BASELINE_SIGN = "◆"
KEYS: tuple[tuple[str, str], ...] = (
    ("↑ ↓ g G", "walk; PgUp and PgDn by a screenful"), ("enter", "all of this run or launch: percentiles, caveats, errors, command"),
    ("e  l  tab", "runs, launches, the other table"), ("s  S", "sort by the next column, turn the order; a click on a header does both"),
    ("/", "filter by words that a row has; esc shows all again"), ("space", "mark a run: A, then B"),
    ("c", "compare A and B; without marks this run with its baseline"), ("p", "plot tok/s over the runs that are shown"),
    ("b", "make this run the baseline, or no longer"), ("n", "note what is to be remembered of this run"),
    ("r", "launch this variant again: its plan comes first"), ("esc  q", "leave"),
)  # fmt: skip
"""What the keys of the Experiments screen do."""


@dataclass(frozen=True, slots=True)
class Column(Generic[E]):
    """`cells` wide; `right`: numbers. `worth`: the higher, the earlier it gives way in a narrow terminal. `cell(entry, wall)` gives text and role;
    `key` what it is sorted by (None comes last, whichever way)."""

    id: str
    head: str
    cells: int
    cell: Callable[[E, float], Line]
    key: Callable[[E], float | str | None]
    worth: int
    right: bool = True
    down: bool = True
    """Sorted downwards at first."""


@dataclass(frozen=True, slots=True)
class Order:
    """Sorted by which column, downwards or not."""

    column: str = "ago"
    down: bool = True


def p50(spread: Spread | None) -> float | None:
    """Its median."""
    return None if spread is None else spread.p50


# --- words of an entry


def name_of(entry: Entry) -> str:
    """The variant or profile, else the model."""
    facts = entry.result.facts if isinstance(entry, RunEntry) else entry
    named = facts.variant or facts.profile
    if named:
        return said(named)
    return said((facts.model or fmt.UNKNOWN).rstrip("/").rsplit("/", 1)[-1])


def short_flag(name: str) -> str:
    """`spec-num-steps`: what every second flag of a campaign begins with takes the room of its value."""
    return name.replace("speculative-", "spec-", 1)


def changes_words(changes: Sequence[FlagChange]) -> str:
    """`speculative-num-steps 2→3 · +enable-metrics · −disable-radix-cache`."""
    out: list[str] = []
    for one in changes:
        name, before, after = short_flag(said(one.flag)), said(one.before or ""), said(one.after or "")
        if one.after is None:
            out.append(f"−{name}")
        elif one.before is None:
            out.append(f"+{name}" + (f" {after}" if after not in ("", "on") else ""))
        else:
            out.append(f"{name} {before}→{after}")
    return " · ".join(out)


def _variant(entry: Entry, wall: float) -> Line:
    del wall
    told = changes_words(entry.changes)
    return ((name_of(entry), "text"), *((("  ", "text"), (told, "dim")) if told else ()))


def _speed(entry: RunEntry | None, wall: float) -> Line:
    """`  82.3 ± 0.7 `: the points stand below each other."""
    del wall
    result = entry.result if entry is not None else None
    mean, half = (rate_of(result), half_width(result)) if result is not None else (None, None)
    role = "text bold" if mean is not None and result is not None and result.complete else "dim"
    return (
        (f"{fmt.number(mean, 1):>7}", role),
        (f" ± {half:<4.{0 if half >= WIDE_HALF else 1}f}" if half is not None and mean is not None else " " * 7, "dim"),
    )


def _delta(entry: RunEntry | None, wall: float) -> Line:
    del wall
    if entry is None or entry.against is None:
        return (("" if entry is not None and entry.baseline else fmt.UNKNOWN, "dim"),)
    return ((percent(entry.against.delta_pct, bare=True), SIGNS[entry.against.verdict][2]),)


def _verdict(entry: RunEntry, wall: float) -> Line:
    del wall
    if not entry.result.complete:
        return (("cut short", "warning"),)
    if rate_of(entry.result) is None:
        return (("✗ failed", "error"),)
    if entry.baseline:
        return ((f"{BASELINE_SIGN} baseline", "accent"),)
    if entry.against is None:
        return ((fmt.UNKNOWN, "dim"),)
    sign, word, role = SIGNS[entry.against.verdict]
    return ((f"{sign} {'differs' if entry.against.verdict == 'not-comparable' else word}", role),)


def _failed(entry: RunEntry, wall: float) -> Line:
    del wall
    return ((fmt.count(entry.result.failed), "error" if entry.result.failed else "dim"),)


def _outcome(entry: LaunchEntry, wall: float) -> Line:
    del wall
    code = said(entry.diagnosis) if entry.diagnosis else ""
    if entry.outcome == "ready":
        crashed = entry.ended == "crashed"
        return ((f"✗ {code or 'crashed'}", "error"),) if crashed else (("✓ ready", "ok"),)
    if entry.outcome == "crashed":
        return ((f"✗ {code or 'crashed'}", "error"),)
    return (("– stopped" if entry.outcome == "stopped" else fmt.UNKNOWN, "dim"),)


def _cold(entry: LaunchEntry, wall: float) -> Line:
    del wall
    return (({True: "disk", False: "memory", None: fmt.UNKNOWN}[entry.cold], "dim"),)


def _of_against(entry: RunEntry | None) -> float | None:
    return None if entry is None or entry.against is None else entry.against.delta_pct


_VERDICT_ORDER = {"faster": 0.0, "same": 2.0, "slower": 3.0, "not-comparable": 4.0}


def _verdict_key(entry: RunEntry) -> float | None:
    return 1.0 if entry.baseline else None if entry.against is None else _VERDICT_ORDER[entry.against.verdict]


RUN_COLUMNS: tuple[Column[RunEntry], ...] = (
    Column("variant", "variant", 0, _variant, lambda one: name_of(one) + changes_words(one.changes), 0, right=False, down=False),
    Column("when", "started", 7, lambda one, wall: ((day_or_time(one.result.began, wall), "dim"),), lambda one: one.result.began, 6),
    Column("ago", "ago", 6, lambda one, wall: ((ago(max(0.0, wall - one.result.began)), "dim"),), lambda one: one.result.began, 3),
    Column("preset", "preset", 10, lambda one, _: ((said(one.result.load.preset), "dim"),), lambda one: one.result.load.preset, 5, right=False, down=False),
    Column("speed", "tok/s ± 95 %", 14, _speed, lambda one: rate_of(one.result), 0),
    Column("ttft", "TTFT ms", 7, lambda one, _: ((fmt.number(p50(one.result.ttft_ms), 0), "text"),), lambda one: p50(one.result.ttft_ms), 2),
    Column("accept", "accept", 6, lambda one, _: ((fmt.number(one.result.accept_len, 2), "text"),), lambda one: one.result.accept_len, 4),
    Column("failed", "failed", 6, _failed, lambda one: float(one.result.failed), 7),
    Column("delta", "Δ %", 6, _delta, _of_against, 1),
    Column("verdict", "verdict", 10, _verdict, _verdict_key, 0, right=False, down=False),
    Column("note", "note", 24, lambda one, _: ((said(one.note), "dim"),), lambda one: one.note or None, 8, right=False, down=False),
)  # fmt: skip
LAUNCH_COLUMNS: tuple[Column[LaunchEntry], ...] = (
    Column("variant", "variant", 0, _variant, lambda one: name_of(one) + changes_words(one.changes), 0, right=False, down=False),
    Column("when", "started", 7, lambda one, wall: ((day_or_time(one.started, wall), "dim"),), lambda one: one.started, 5),
    Column("ago", "ago", 6, lambda one, wall: ((ago(max(0.0, wall - one.started)), "dim"),), lambda one: one.started, 2),
    Column("outcome", "outcome", 16, _outcome, lambda one: one.outcome, 0, right=False, down=False),
    Column("ready", "ready in", 8, lambda one, _: ((fmt.duration(one.ready_s), "text"),), lambda one: one.ready_s, 1),
    Column("cold", "from", 6, _cold, lambda one: None if one.cold is None else float(one.cold), 7, right=False),
    Column("runs", "runs", 4, lambda one, _: ((fmt.count(one.runs) if one.runs else fmt.UNKNOWN, "dim"),), lambda one: float(one.runs), 6),
    Column("speed", "best tok/s ±", 14, lambda one, wall: _speed(one.best, wall), lambda one: None if one.best is None else rate_of(one.best.result), 3),
    Column("delta", "Δ %", 6, lambda one, wall: _delta(one.best, wall), lambda one: _of_against(one.best), 4),
)  # fmt: skip


# --- order and choice


def sorted_by(entries: Sequence[E], columns: Sequence[Column[E]], order: Order) -> list[E]:
    """What has no value comes last, whichever way; equal ones stay newest first."""
    column = next((one for one in columns if one.id == order.column), columns[0])
    known = [entry for entry in entries if column.key(entry) is not None]
    unknown = [entry for entry in entries if column.key(entry) is None]
    known.sort(key=lambda entry: _sortable(column.key(entry)), reverse=order.down)
    return [*known, *unknown]


def _sortable(key: float | str | None) -> tuple[float, str]:
    """Numbers and words in one kind; a column has either."""
    return (0.0, key.lower()) if isinstance(key, str) else (key or 0.0, "")


def words_of(entry: Entry) -> str:
    """Everything of an entry that a filter looks through."""
    if isinstance(entry, RunEntry):
        facts, load = entry.result.facts, entry.result.load
        told = [
            load.preset,
            RUNNER_WORDS.get(load.runner, (load.runner,))[0],
            facts.model or "",
            facts.node or "",
            facts.profile or "",
        ]
        told += [entry.note, *entry.tags, plain(_verdict(entry, 0.0)), moment(entry.result.began), entry.id]
    else:
        told = [
            entry.model or "",
            entry.node,
            entry.profile or "",
            entry.outcome,
            entry.diagnosis or "",
            moment(entry.started),
        ]
    return " ".join([name_of(entry), changes_words(entry.changes), *told]).lower()


def filtered(entries: Sequence[E], text: str) -> list[E]:
    """Those with every word of it."""
    words = text.lower().split()
    return [entry for entry in entries if all(word in words_of(entry) for word in words)]


# --- rows


def fitting(columns: Sequence[Column[E]], width: int, entries: Sequence[E]) -> tuple[list[Column[E]], int]:
    """The columns that there is room for, and the cells of the first one, which takes the rest."""
    kept = [
        one
        for one in columns
        if one.id != "note" or any(isinstance(entry, RunEntry) and entry.note for entry in entries)
    ]
    kept = [
        one
        for one in kept
        if one.id != "failed" or any(isinstance(entry, RunEntry) and entry.result.failed for entry in entries)
    ]
    while True:
        rest = width - HEAD_CELLS - sum(one.cells + 2 for one in kept[1:])
        if rest >= FEWEST_NAME_CELLS or len(kept) <= 3:
            return kept, max(6, rest)
        kept.remove(max(kept, key=lambda one: one.worth))


def header(columns: Sequence[Column[E]], first: int, order: Order) -> tuple[Line, list[tuple[int, int, str]]]:
    """The names, the sorted one marked; and where each is, as (first cell, past the last, column id)."""
    out: list[Span] = [(" " * HEAD_CELLS, "faint")]
    places: list[tuple[int, int, str]] = []
    at = HEAD_CELLS
    for number, column in enumerate(columns):
        cells = column.cells or first
        here = column.id == order.column
        arrow = ("▾" if order.down else "▴") if here else ""
        tight = width_of([(column.head, "")]) + 2 > cells
        text = column.head + (arrow if tight or not here else f" {arrow}")
        if width_of([(text, "")]) > cells + (2 if number else 0):
            text = cut(column.head, cells)
        pad = " " * max(0, cells - width_of([(text, "")]))
        gap = "  " if number else ""
        if column.right and len(text) > cells:
            gap = gap[: len(gap) - (len(text) - cells)]
        out.append((gap + (pad + text if column.right else text + pad), "dim bold" if here else "faint"))
        places.append((at, at + cells + len("  " if number else ""), column.id))
        at += cells + (2 if number else 0)
    return tuple(out), places


def row(entry: E, columns: Sequence[Column[E]], first: int, wall: float, width: int, *, here: bool, mark: Mark) -> Line:
    """One entry at exactly `width` cells."""
    sign: Span = (
        (f"{mark} ", "key bold")
        if mark
        else (f"{BASELINE_SIGN} ", "accent")
        if isinstance(entry, RunEntry) and entry.baseline
        else ("  ", "text")
    )
    out: list[Span] = [("▸ " if here else "  ", "accent bold"), sign]
    for number, column in enumerate(columns):
        cells = column.cells or first
        line = column.cell(entry, wall)
        used = width_of(line)
        pad: Line = ((" " * (cells - used), "text"),) if used < cells else ()
        shown = fit(line, cells) if used > cells else ((*pad, *line) if column.right else (*line, *pad))
        out += [*((("  ", "text"),) if number else ()), *shown]
    return marked(tuple(out), width) if here else fit(tuple(out), width)
