"""Throughput: generated tokens a second as a braille line, the last figure in the title."""

from __future__ import annotations

from typing import Protocol

from eagletui.monitor.series import Series
from eagletui.monitor.snapshot import Snapshot, Throughput
from eagletui.ui import format as fmt
from eagletui.ui.panes.chart_marks import DASH, LETTER, Measured, over
from eagletui.ui.panes.pane import Pane, is_old
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.lines import EMPTY, Line, Span, width_of, wrap
from eagletui.ui.widgets.plot import Bins, Breaks, axis, bins, breaks, row_of, time_labels

WINDOWS_MIN = (1, 2, 5, 10, 20)
"""The window is the shortest that holds what is known; it grows up to the last."""
REDRAW_S = 1.0
"""A chart is rebuilt at most this often: it costs 9 ms, and a column is at least half a second wide."""
GAP_S = 30.0
"""A silence up to it is drawn through (batch lines come every few seconds); a longer one is a gap."""


_FOOT_EDGE = 6
"""Cells of the border around what stands on it."""
UNSEEN = " not seen "
"""In a gap of the picture that is wide enough: the link was down, or this machine slept."""


class Canvas(Protocol):
    """What draws bins as rows of text."""

    def draw(
        self, points: Bins, bottom: float, top: float, width: int, height: int, *, gap: int, cuts: Breaks
    ) -> list[str]:
        """Rows of the picture."""


class ThroughputPane(Pane):
    """Pane 4. `canvas` comes after the first frame."""

    number = "4"
    name_ = "Throughput"

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.canvas: Canvas | None = None
        self.measured = Measured()
        self.builds = 0
        self._drawn_at = float("-inf")
        self._key: tuple[object, ...] | None = None
        self._lines: list[Line] = []
        self._base: float | None = None
        self._marked = False

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Another server starts a picture of its own."""
        if self.snapshot is not None and _server_id(self.snapshot) != _server_id(snapshot):
            self._drawn_at = float("-inf")
        super().show(snapshot, now)

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """See Pane."""
        return (snapshot.throughput, snapshot.link.state, snapshot.fresh_since, _server_id(snapshot), self.measured)

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """Title with the last value, chart, figures below."""
        last = snapshot.throughput
        stale = last.stale or is_old(snapshot, last.at)
        title: list[Span] = [("Throughput", "text"), ("  ", "text")]
        if last.gen_tok_s is None:
            title.append((fmt.UNKNOWN, "dim"))
        else:
            title += [(fmt.number(last.gen_tok_s, 1), "dim" if stale else "text bold"), (" tok/s", "dim")]
            if stale:
                title.append((f"  {fmt.age(last.at, self.now)}", "dim"))
        minutes, lines = self._chart(snapshot, width, height)
        summary: Line = ((f"{minutes} min", "dim"),) if minutes else EMPTY
        return View(lines, tuple(title), summary, self._foot(last, minutes, width), stale=stale)

    def _foot(self, last: Throughput, minutes: int, width: int) -> Line:
        """The figures; before them, where there is room, what is drawn beside the line."""
        figures = _figures(last)
        legend: list[Line] = []
        if self._base is not None and minutes:
            legend.append((("baseline ", "dim"), (fmt.number(self._base, 1), "text"), (f" {DASH}", "dim")))
        if self._marked and minutes:
            legend.append(((LETTER, "key bold"), (" benchmark", "dim")))
        for line in legend:
            if width_of(line) + 3 + width_of(figures) <= width - _FOOT_EDGE:
                figures = (*line, (" · ", "dim"), *figures) if figures else line
        return figures

    def _chart(self, snapshot: Snapshot, width: int, height: int) -> tuple[int, list[Line]]:
        series = snapshot.series.get("gen_tok_s")
        times, _ = series.window(self.now - WINDOWS_MIN[-1] * 60, self.now) if series is not None else ([], [])
        if series is None or not times:
            said = (
                "Nothing was generated yet."
                if snapshot.server is not None
                else "Tokens a second of a server appear here."
            )
            if series is not None and len(series):
                said = f"Nothing was generated in the last {WINDOWS_MIN[-1]} minutes."
            return 0, [((row, "dim"),) for row in wrap(said, width, height)]
        minutes = next((m for m in WINDOWS_MIN if self.now - times[0] <= m * 60), WINDOWS_MIN[-1])
        if self.canvas is None or height < 3 or width < 16:
            return minutes, []
        due = self.now - self._drawn_at >= REDRAW_S
        size = (width, height, minutes)
        if not due and self._key is not None and self._key[:3] == size:
            return minutes, self._lines
        self._drawn_at = self.now
        self._draw(series, minutes, width, height)
        return minutes, self._lines

    def _draw(self, series: Series, minutes: int, width: int, height: int) -> None:
        times, values = series.window(self.now - minutes * 60, self.now)
        if not times:
            return
        rows = height - 1
        base = self._base = self.measured.near(min(values), max(values))
        ends = values if base is None else [*values, base]
        scale = axis(min(ends), max(ends), rows)
        ticks = scale.ticks(rows)
        label = max(len(text) for text in ticks.values())
        canvas_width = width - label - 1
        count = canvas_width * 2
        bin_s = minutes * 60 / count
        # The right end is the end of a bin: the picture moves by whole dots, and not at all in between.
        end = (int(self.now / bin_s) + 1) * bin_s
        points = bins(times, values, end - minutes * 60, end, count)
        cuts = breaks(series.gaps(end - minutes * 60, self.now), end - minutes * 60, end, count)
        columns = self.measured.cells(end - minutes * 60, end, canvas_width)
        key = (width, height, minutes, points, cuts, base, tuple(columns))
        if key == self._key or self.canvas is None:
            return
        self.builds += 1
        self._key = key
        gap = round(GAP_S / bin_s)
        drawn = self.canvas.draw(points, scale.bottom, scale.top, canvas_width, rows, gap=gap, cuts=cuts)
        marked: list[Line] = [((row, "chart"),) for row in drawn]
        marked[-1] = mark_gaps(drawn[-1], cuts)
        self._lines = [((f"{ticks.get(y, ''):>{label}} ", "dim"), *row) for y, row in enumerate(marked)]
        self._lines.append(((" " * (label + 1), "dim"), (time_labels(minutes, canvas_width), "dim")))
        self._marked = bool(columns)
        if columns or base is not None:
            row = None if base is None else row_of(base, scale, rows)
            self._lines = over(self._lines, label + 1, row, columns)


def mark_gaps(row: str, cuts: Breaks) -> Line:
    """The lowest row of the picture (two bins a cell) with the stretches that nobody looked at; what was drawn there stays."""
    cells = [(c, "chart") for c in row]
    for first, last in cuts:
        begin, end = first // 2, last // 2 + 1
        words = UNSEEN.center(end - begin, "╌") if end - begin >= len(UNSEEN) + 2 else "╌" * (end - begin)
        for at, char in zip(range(begin, min(end, len(cells))), words, strict=False):
            if cells[at][0] in _BLANK:
                cells[at] = (char, "faint")
    out: list[Span] = []
    for char, role in cells:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + char, role)
        else:
            out.append((char, role))
    return tuple(out)


_BLANK = " \u2800"


def _server_id(snapshot: Snapshot) -> str | None:
    return snapshot.server.id if snapshot.server is not None else None


def _figures(last: Throughput) -> Line:
    parts: list[tuple[str, str]] = []
    if last.accept_len is not None:
        rate = "" if last.accept_rate is None else f" ({last.accept_rate * 100:.0f} %)"
        parts.append(("accept", fmt.number(last.accept_len, 2) + rate))
    if last.running is not None:
        parts.append(("running", fmt.count(last.running)))
    if last.queued is not None:
        parts.append(("queued", fmt.count(last.queued)))
    if last.token_usage is not None:
        parts.append(("KV", f"{last.token_usage * 100:.0f} %"))
    out: list[Span] = []
    for at, (word, value) in enumerate(parts):
        out += [(" · " if at else "", "dim"), (f"{word} ", "dim"), (value, "text")]
    return tuple(span for span in out if span[0])
