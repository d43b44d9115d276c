"""plotext's braille canvas, and nothing else of it. The only importer of plotext; import it after the first frame, in a thread.

plotext's public functions share one global figure, so a chart owns one of the private class; `_limit_size` keeps it from asking the terminal.
"""

from __future__ import annotations

from plotext._figure import _figure_class

from eagletui.ui.widgets.plot import Bins, Breaks, runs

_RESET = "\x1b[0m"


class BrailleChart:
    """Draws bins as a line on a transparent ground, as plain text: colours are the caller's."""

    def __init__(self) -> None:
        self._figure = _figure_class()
        self._figure._limit_size(False, False)

    def draw(
        self, points: Bins, bottom: float, top: float, width: int, height: int, *, gap: int, cuts: Breaks = ()
    ) -> list[str]:
        """`height` rows of `width` cells. `points` spread over the width; `gap` is how many unknown bins a line may cross, `cuts` it may not."""
        blank = [" " * width for _ in range(height)]
        lines = runs(points, gap, cuts)
        if not lines or width < 2 or height < 1:
            return blank
        figure = self._figure
        figure.clear_figure()
        figure._limit_size(False, False)
        figure.theme("clear")
        figure.plot_size(width, height)
        figure.frame(False)
        figure.xfrequency(0)
        figure.yfrequency(0)
        figure.xlim(0, max(1, len(points) - 1))
        figure.ylim(bottom, top)
        for line in lines:
            xs = [x for x, _ in line]
            ys = [y for _, y in line]
            if len(line) == 1:
                figure.scatter(xs, ys, marker="braille")
            else:
                figure.plot(xs, ys, marker="braille")
        rows = figure.build().replace(_RESET, "").split("\n")[:height]
        return [row[:width].ljust(width) for row in rows] + blank[len(rows) :]
