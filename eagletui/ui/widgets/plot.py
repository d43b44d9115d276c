"""The arithmetic of a chart: time bins, round axes, where a label goes. No drawing library, so it costs nothing at start."""

from __future__ import annotations

import math
from collections.abc import Sequence

Bins = tuple[float | None, ...]
NARROWEST = 0.1
"""An axis spans at least this part of its value: a wobble of one percent must not look like a cliff."""


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


def runs(points: Bins, gap: int) -> list[list[tuple[int, float]]]:
    """The known points as lines, broken where more than `gap` bins in a row are unknown: a pause is not a slope."""
    out: list[list[tuple[int, float]]] = []
    last = -gap - 2
    for at, value in enumerate(points):
        if value is None:
            continue
        if at - last > gap + 1 or not out:
            out.append([])
        out[-1].append((at, value))
        last = at
    return out


def axis(low: float, high: float, ticks: int) -> tuple[float, float, float]:
    """(bottom, top, step) with a round step and about this many ticks. Starts at 0 unless the values keep to a narrow band far above it."""
    ticks = max(1, ticks)
    if high <= 0:
        return 0.0, 1.0, 1.0
    if low < high / 2:
        low = 0.0
    if high - low < NARROWEST * high:
        middle = (low + high) / 2
        low, high = max(0.0, middle - NARROWEST * high / 2), middle + NARROWEST * high / 2
    span = high - low
    step = _round_step(span / ticks)
    bottom = max(0.0, math.floor(low / step) * step)
    top = math.ceil(high / step + 1e-9) * step
    return bottom, max(top, bottom + step), step


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= raw * (1 - 1e-9))


def tick_rows(bottom: float, top: float, step: float, height: int) -> list[tuple[int, str]]:
    """(row from the top, label) for each tick; ticks that fall on a taken row are left out."""
    out: dict[int, str] = {}
    decimals = 0 if step >= 1 else min(3, math.ceil(-math.log10(step) - 1e-9))
    for k in range(round((top - bottom) / step) + 1):
        value = bottom + k * step
        dots = round((value - bottom) / (top - bottom) * (4 * height - 1))
        out.setdefault(height - 1 - dots // 4, f"{value:.{decimals}f}")
    return sorted(out.items())


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
