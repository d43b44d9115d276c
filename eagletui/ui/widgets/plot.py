"""The arithmetic of a chart: time bins, round axes, where a label goes. No drawing library, so it costs nothing at start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Bins = tuple[float | None, ...]
NARROWEST = 0.1
"""An axis spans at least this part of its value: a wobble of one percent must not look like a cliff."""

SMALLEST = 0.01
"""Figures below it are as good as nothing, and labels have three decimals at most."""


def bins(times: Sequence[float], values: Sequence[float], start: float, end: float, n: int) -> Bins:
    """Means of the values in `n` equal parts of [start, end); None where there is none."""
    if n <= 0 or end <= start:
        return ()
    sums = [0.0] * n
    counts = [0] * n
    scale = n / (end - start)
    for at, value in zip(times, values, strict=True):
        slot = int((at - start) * scale)
        if 0 <= slot < n and math.isfinite(value):
            sums[slot] += value
            counts[slot] += 1
    return tuple(s / c if c else None for s, c in zip(sums, counts, strict=True))


Breaks = tuple[tuple[int, int], ...]
"""First and last bin of each stretch that nobody looked at."""


def breaks(gaps: Sequence[tuple[float, float]], start: float, end: float, n: int) -> Breaks:
    """Gaps in time as bins of [start, end)."""
    if n <= 0 or end <= start:
        return ()
    scale = n / (end - start)
    return tuple(
        (max(0, int((a - start) * scale)), min(n - 1, int((b - start) * scale)))
        for a, b in gaps
        if b >= start and a < end
    )


def runs(points: Bins, gap: int, cuts: Breaks = ()) -> list[list[tuple[int, float]]]:
    """The known points as lines, broken where more than `gap` bins in a row are unknown (a pause is not a slope), and where one of `cuts`
    lies between two neighbours. Points within a cut are known after all, and drawn."""
    out: list[list[tuple[int, float]]] = []
    last = -gap - 2
    for at, value in enumerate(points):
        if value is None:
            continue
        if not out or at - last > gap + 1 or any(_between(cut, last, at) for cut in cuts):
            out.append([])
        out[-1].append((at, value))
        last = at
    return out


def _between(cut: tuple[int, int], one: int, other: int) -> bool:
    """Whether the whole cut lies between two bins. One inside a single bin breaks the line behind that bin only."""
    first, last = cut
    return one <= first and (last < other or (last == other and first < last))


@dataclass(frozen=True, slots=True)
class Axis:
    """Values from `bottom` to `top`; a tick at `bottom` and every `step` above it, which is every `every` rows of the picture."""

    bottom: float
    top: float
    step: float
    every: int

    def ticks(self, rows: int) -> dict[int, str]:
        """Label by row from the top, all with the same decimals. Each stands on the row that its value is drawn on."""
        decimals = 0 if self.step >= 1 else min(3, math.ceil(-math.log10(self.step) - 1e-9))
        count = (rows - 1) // self.every + 1
        return {rows - 1 - self.every * i: f"{self.bottom + i * self.step:.{decimals}f}" for i in range(count)}


def axis(low: float, high: float, rows: int) -> Axis:
    """The round axis that fits the values best on `rows` rows of text, each of `DOTS` dots.

    Its ticks are whole rows apart, so that they are spaced evenly: a tick's value lies on the lowest dot of its row, and the top is wherever
    the highest dot then is. It starts at 0 unless the values keep to a narrow band far above it.
    """
    rows = max(1, rows)
    if high < SMALLEST:
        low, high = 0.0, SMALLEST if high > 0 else 1.0
    if low < high / 2:
        low = 0.0
    if high - low < NARROWEST * high:
        middle = (low + high) / 2
        low, high = max(0.0, middle - NARROWEST * high / 2), middle + NARROWEST * high / 2
    axes = [_axis_every(low, high, rows, every) for every in range(min(2, max(1, rows - 1)), max(2, rows))]
    # The tightest of those with some ticks, but not one on each second row of a high chart.
    return min(axes, key=lambda a: (a.top - a.bottom) * _COST.get((rows - 1) // a.every + 1, 2.0))


DOTS = 4
"""Dots of a braille character, one above the other."""
_COST = {1: 3.0, 2: 1.6, 3: 1.1, 4: 1.0, 5: 1.0, 6: 1.2}
"""By the number of ticks: how much taller an axis may be before one with a better number of them is taken."""


def _axis_every(low: float, high: float, rows: int, every: int) -> Axis:
    """The smallest round step with which an axis of ticks `every` so many rows holds the values."""
    spans = (DOTS * rows - 1) / (DOTS * every)
    step = _round_step((high - low) / spans)
    while True:
        bottom = max(0.0, math.floor(low / step + 1e-9) * step)
        top = bottom + step * spans
        if top >= high * (1 - 1e-9):
            return Axis(bottom, top, step, every)
        step = _round_step(step * 1.01)


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * (1 - 1e-9))


def row_of(value: float, scale: Axis, rows: int) -> int:
    """The row of text, from the top, on which a value is drawn."""
    dot = round((value - scale.bottom) / (scale.top - scale.bottom) * (DOTS * rows - 1))
    return max(0, min(rows - 1, rows - 1 - dot // DOTS))


def time_labels(minutes: int, width: int) -> str:
    """`-20 min      -10      now` across `width` cells, right end being now."""
    marks = {20: (20, 15, 10, 5), 10: (10, 8, 6, 4, 2), 5: (5, 4, 3, 2, 1), 2: (2, 1), 1: (1,)}.get(minutes, (minutes,))
    row = [" "] * width
    for at, mark in enumerate(marks):
        label = f"−{mark} min" if at == 0 else f"−{mark}"
        _place(row, label, round((1 - mark / minutes) * width))
    _place(row, "now", width - 3)
    return "".join(row)


def _place(row: list[str], label: str, at: int) -> None:
    at = max(0, min(at, len(row) - len(label)))
    end = min(len(row), at + len(label) + 1)
    if any(c != " " for c in row[max(0, at - 1) : end]):
        return
    row[at : at + len(label)] = label
