"""A benchmark in one row above the keys: how far it is while it runs, then what came of it. Pure, but for the widget at the end."""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.bench.load import Load
from eagletui.bench.outcome import BenchProgress, Result
from eagletui.ui import format as fmt
from eagletui.ui.actions import BY_ID
from eagletui.ui.bench_words import joined, result_words
from eagletui.ui.widgets.bars import bar
from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, fit, spread, width_of

BAR_CELLS = (24, 12, 6)
"""Of the bar, the longest that fits: below the last it tells less than the numbers."""
NAME_CELLS = 18
RATE_CELLS, SPEED_CELLS, ETA_CELLS = 5, 7, 6
"""Of requests a second, tok/s and time left, so that nothing moves when they grow."""
_STAGES = {"preparing": "preparing", "warmup": "warm-up", "reading": "reading the result", "ended": "ended"}


@dataclass(frozen=True, slots=True)
class Benched:
    """What the row shows: of which load, where it is, then its result or the sentence why there is none. `asked`: esc was pressed once."""

    load: Load
    progress: BenchProgress
    result: Result | None = None
    problem: str | None = None
    asked: bool = False

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self.result is None and self.problem is None


def bench_row(shown: Benched, now: float, width: int) -> Line:
    """The row at exactly `width` cells."""
    name: Line = ((" ", "text"), ("benchmark ", "dim"), (cut(clean(shown.load.preset), NAME_CELLS), "accent bold"))
    if shown.running:
        way_out: Line = (
            (" esc", "key bold"),
            (" again ends it " if shown.asked else " ends it ", "warning" if shown.asked else "dim"),
        )
        room = width - width_of(way_out) - 1
        short = name if room >= 80 else (name[0], *name[2:])
        return spread(_running(shown, short, now, room), way_out, width)
    way_out = (
        ("  ", "text"),
        (BY_ID["history.experiments"].key, "key bold"),
        (" experiments", "dim"),
        ("  esc", "key bold"),
        (" closes ", "dim"),
    )
    if width_of(way_out) > width // 3:
        way_out = ((" esc", "key bold"), (" closes ", "dim"))
    room = width - width_of(way_out)
    if shown.problem is not None:
        return spread((*name, ("  ", "text"), (clean(shown.problem), "error")), way_out, width)
    words = result_words(shown.result) if shown.result is not None else ()
    while len(words) > 1 and width_of(name) + 3 + width_of(joined(words)) > room:
        words = words[:-1]
    head = name if width_of(name) + 3 + width_of(joined(words)) <= room else (name[0], *name[2:])
    return spread((*head, ("   ", "text"), *joined(words)), way_out, width)


def _running(shown: Benched, name: Line, now: float, room: int) -> Line:
    """The stage, and as many figures as fit; the least telling go first."""
    progress = shown.progress
    if progress.stage != "measuring":
        said = _STAGES.get(progress.stage, progress.stage)
        passed = f" {fmt.duration(now - progress.began_at)}" if progress.began_at is not None else ""
        told = f"   {clean(progress.line)}" if progress.line else ""
        return fit((*name, ("  ", "text"), (said, "text"), (f"{passed} …", "dim"), (told, "dim")), room)
    digits = len(str(progress.asked))
    counts: Line = ((f"{progress.done:>{digits}}", "text bold"), (f"/{progress.asked}", "dim"))
    failed: Line = ((f"{progress.failed} failed", "error" if progress.failed else "dim"),)
    eta = "" if progress.eta_s is None else f"~{fmt.duration(max(0.0, progress.eta_s - max(0.0, now - progress.at)))}"
    speed: Line = ((f"{fmt.number(progress.tok_s, 1):>{SPEED_CELLS}}", "text bold"), (" tok/s", "dim"))
    left: Line = ((f"{eta or fmt.UNKNOWN:>{ETA_CELLS}}", "text"),)
    repeat: Line = (
        (("repeat ", "dim"), (f"{progress.repeat}/{progress.repeats}", "text")) if progress.repeats > 1 else EMPTY
    )
    most = len(str(shown.load.concurrency or shown.load.requests))
    alone = shown.load.rate is None and shown.load.concurrency == 1
    open_: Line = EMPTY if alone else ((f"{progress.open:>{most}}", "text"), (" open", "dim"))
    rate: Line = ((f"{fmt.number(progress.rate, 1):>{RATE_CELLS}}", "text"), ("/s", "dim"))
    # In the order of the row, with what each is worth.
    parts = [
        (repeat, 4),
        (counts, 0),
        (open_, 5),
        (rate, 3),
        (speed, 1),
        (failed, 0 if progress.failed else 6),
        (left, 2),
    ]
    parts = [(line, worth) for line, worth in parts if line]
    for cells in (*BAR_CELLS, 0):
        kept = _row(name, parts, progress, cells)
        if width_of(kept) <= room:
            return kept
    while len(parts) > 1:
        parts.remove(max(parts, key=lambda part: part[1]))
        for cells in (*BAR_CELLS[1:], 0):
            kept = _row(name, parts, progress, cells)
            if width_of(kept) <= room:
                return kept
    return fit(_row(name, parts, progress, 0), room)


def _row(name: Line, parts: list[tuple[Line, int]], progress: BenchProgress, cells: int) -> Line:
    out: list[Span] = [*name]
    if cells:
        share = progress.done / progress.asked if progress.asked else 0.0
        out += [("  ", "text"), *bar([(min(1.0, share), "accent")], cells)]
    for line, _ in parts:
        out += [("  ", "text"), *line]
    return tuple(out)


class BenchBar(Painted):
    """The row. `shown` None: it has none."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.shown: Benched | None = None
        self.now = 0.0

    def show(self, shown: Benched | None, now: float) -> None:
        """Draw this."""
        self.shown, self.now = shown, now
        self.redraw()

    def rows(self, width: int, height: int) -> list[Line]:
        """One."""
        line = fit(EMPTY, width) if self.shown is None else fit(bench_row(self.shown, self.now, width), width)
        return [line, *[fit(EMPTY, width)] * (height - 1)]
