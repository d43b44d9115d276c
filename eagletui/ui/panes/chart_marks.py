"""What is drawn over a chart of throughput: the baseline as a dashed line, and where benchmarks began and ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eagletui.ui.widgets.lines import Line, Span

DASH, EDGE = "╌", "┊"
LETTER = "b"
FARTHEST = 1.8
"""A baseline that is so many times what was seen (or so many times less) is left out: the picture would be of it alone."""
_BLANK = " \u2800"


@dataclass(frozen=True, slots=True)
class Window:
    """A benchmark's time, as snapshots' monotonic times are. `end` None: it goes on."""

    begin: float
    end: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the chart tells of benchmarks. `baseline`: tok/s of all requests together, None where there is none."""

    windows: tuple[Window, ...] = ()
    baseline: float | None = None

    def near(self, low: float, high: float) -> float | None:
        """The baseline where it belongs into a picture of these values."""
        base = self.baseline
        if base is None or base <= 0 or high <= 0:
            return None
        return base if low / FARTHEST <= base <= high * FARTHEST else None

    def cells(self, start: float, now: float, width: int) -> list[tuple[int, bool]]:
        """Columns of [start, now] in which a window begins (True) or ends."""
        scale = width / max(1e-9, now - start)
        found: list[tuple[int, bool]] = []
        for one in self.windows:
            for at, begins in ((one.begin, True), (one.end, False)):
                if at is not None and start <= at <= now:
                    found.append((min(width - 1, int((at - start) * scale)), begins))
        return found


def over(rows: Sequence[Line], skip: int, baseline_row: int | None, columns: Sequence[tuple[int, bool]]) -> list[Line]:
    """The rows of a picture with the marks on their blank cells; the last row is that of the times, the first `skip` cells of each a label."""
    grid = [[(char, role) for text, role in row for char in text] for row in rows]
    for at, begins in columns:
        for y, cells in enumerate(grid):
            x = skip + at
            if x >= len(cells):
                continue
            if not y and begins:
                cells[x] = (LETTER, "key bold")
            elif y < len(grid) - 1 and cells[x][0] in _BLANK:
                cells[x] = (EDGE, "faint")
    if baseline_row is not None:
        row = grid[baseline_row]
        for x in range(skip, len(row)):
            if row[x][0] in _BLANK:
                row[x] = (DASH, "dim")
    return [_joined(cells) for cells in grid]


def _joined(cells: Sequence[Span]) -> Line:
    out: list[Span] = []
    for char, role in cells:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + char, role)
        else:
            out.append((char, role))
    return tuple(out)
