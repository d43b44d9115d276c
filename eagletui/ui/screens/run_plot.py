"""tok/s over runs as a picture: a dot a run with its interval, the baseline dashed across. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from eagletui.bench.compare import rate_of
from eagletui.ui.bench_words import SIGNS, half_width, moment
from eagletui.ui.ledger import RunEntry
from eagletui.ui.panes.throughput import Canvas
from eagletui.ui.widgets.lines import Line, Span
from eagletui.ui.widgets.plot import Axis, axis, row_of

LEAST_ROWS, LEAST_CELLS = 4, 24
WHISKER = 1.0
"""Half an interval is drawn from so many rows on: of a shorter one only the side that a row's edge cuts would be seen."""
DASH = "╌"
DOT, DOT_HERE, BASELINE_DOT = "●", "◉", "◆"
_BLANK = " \u2800"


def plot_rows(
    entries: Sequence[RunEntry],
    baseline: RunEntry | None,
    here: str | None,
    canvas: Canvas | None,
    width: int,
    height: int,
) -> list[Line]:
    """`height` rows, the oldest run left. `here`: id of the one under the cursor. Runs of which nothing was measured are not in it."""
    shown = sorted((one for one in entries if rate_of(one.result) is not None), key=lambda one: one.result.began)
    if not shown or height < LEAST_ROWS or width < LEAST_CELLS:
        return [(("No run to draw." if not shown else "", "dim"),)]
    base = rate_of(baseline.result) if baseline is not None else None
    means = [rate_of(one.result) or 0.0 for one in shown]
    halves = [half_width(one.result) or 0.0 for one in shown]
    ends = [
        *(m - h for m, h in zip(means, halves, strict=True)),
        *(m + h for m, h in zip(means, halves, strict=True)),
        *([base] if base is not None else []),
    ]
    rows = height - 1
    scale = axis(min(ends), max(ends), rows)
    ticks = scale.ticks(rows)
    label = max(len(text) for text in ticks.values())
    tail = 7 if base is not None else 0
    cells = width - label - 1 - tail
    places = _places(len(shown), cells)
    grid = _canvas(canvas, means, places, scale, cells, rows)
    if base is not None:
        for x in range(cells):
            _put(grid, x, row_of(base, scale, rows), DASH, "dim", over=False)
    for one, x, mean, half in zip(shown, places, means, halves, strict=True):
        if half >= (scale.top - scale.bottom) / rows * WHISKER:
            for y in range(row_of(mean + half, scale, rows), row_of(mean - half, scale, rows) + 1):
                _put(grid, x, y, "│", "dim", over=True)
        role = "accent" if one.baseline else SIGNS[one.against.verdict][2] if one.against is not None else "text"
        dot = BASELINE_DOT if one.baseline else DOT_HERE if one.id == here else DOT
        _put(grid, x, row_of(mean, scale, rows), dot, f"{role} bold" if one.id == here else role, over=True)
    out: list[Line] = []
    for y, cells_of in enumerate(grid):
        end: Line = ((f" {base:.1f}", "text"),) if base is not None and y == row_of(base, scale, rows) else ()
        out.append(((f"{ticks.get(y, ''):>{label}} ", "dim"), *_spans(cells_of), *end))
    out.append(((" " * (label + 1), "dim"), (_dates(shown, places, cells), "dim")))
    return out


def _places(n: int, cells: int) -> list[int]:
    """A column a run, evenly: experiments come in bursts, and time would lay them upon each other."""
    if n == 1:
        return [cells // 2]
    return [round(1 + at * (cells - 3) / (n - 1)) for at in range(n)]


def _canvas(
    canvas: Canvas | None, means: Sequence[float], places: Sequence[int], scale: Axis, cells: int, rows: int
) -> list[list[Span]]:
    """The line between the dots."""
    points: list[float | None] = [None] * (cells * 2)
    for x, mean in zip(places, means, strict=True):
        points[min(x * 2, len(points) - 1)] = mean
    if canvas is None or len(means) < 2:
        return [[(" ", "text")] * cells for _ in range(rows)]
    drawn = canvas.draw(tuple(points), scale.bottom, scale.top, cells, rows, gap=cells * 2, cuts=())
    return [[(char, "faint") for char in row] for row in drawn]


def _put(grid: list[list[Span]], x: int, y: int, char: str, role: str, *, over: bool) -> None:
    if over or grid[y][x][0] in _BLANK:
        grid[y][x] = (char, role)


def _spans(cells: Sequence[Span]) -> Line:
    out: list[Span] = []
    for char, role in cells:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + char, role)
        else:
            out.append((char, role))
    return tuple(out)


def _dates(shown: Sequence[RunEntry], places: Sequence[int], cells: int) -> str:
    """The first and the last run's time, and those between that have room."""
    row = [" "] * cells
    last = len(shown) - 1
    for at in [0, last, *range(1, last)]:
        text = moment(shown[at].result.began)
        begin = max(0, min(places[at] - len(text) // 2, cells - len(text)))
        if all(char == " " for char in row[max(0, begin - 2) : begin + len(text) + 2]):
            row[begin : begin + len(text)] = text
    return "".join(row)
