"""A frame over numbered lines of any number: only what is visible is asked for and drawn. Follows the end until it is scrolled."""

from __future__ import annotations

from textual import events

from eagletui.ui.widgets.frame import Frame
from eagletui.ui.widgets.lines import Line, marked

WHEEL_LINES = 3
SIDE_CELLS = 16
ABOVE = 3
"""A line that is gone to has a third of the picture above it: what led to it."""


class LineView(Frame):
    """Shows `height` lines from `top`, or the last ones while following (`top` None). `left` cells are scrolled away at the left.

    Paused, it draws nothing new: the lines are those it stopped at, however fast the end moves. `mark` is the line that was gone to; it is
    drawn on another ground until the end is followed again.
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.top: int | None = None
        self.left = 0
        self.mark: int | None = None
        self.paused_end = 0
        self._kept: tuple[tuple[int, int, int, int, int | None], list[Line]] | None = None

    def bounds(self) -> tuple[int, int]:
        """(first kept number, one past the last)."""
        raise NotImplementedError

    def line_at(self, number: int, width: int) -> Line:
        """One line as spans."""
        raise NotImplementedError

    def prepare(self, first: int, end: int) -> None:
        """Called before lines are drawn, with their numbers."""

    @property
    def following(self) -> bool:
        """Whether the end is shown and new lines move the picture."""
        return self.top is None

    @property
    def missed(self) -> int:
        """Lines that came since it was paused."""
        return 0 if self.top is None else max(0, self.bounds()[1] - self.paused_end)

    def visible_lines(self, width: int, height: int) -> list[Line]:
        """The lines to draw."""
        first, end = self.bounds()
        if self.top is None:
            self._kept = None
            start = max(first, end - height)
            self.prepare(start, end)
            return [self.line_at(n, width) for n in range(start, end)]
        start = max(first, min(self.top, max(first, end - height)))
        key = (start, self.left, width, height, self.mark)
        if self._kept is None or self._kept[0] != key:
            stop = min(end, start + height)
            self.prepare(start, stop)
            self._kept = key, [self._marked(n, self.line_at(n, width), width) for n in range(start, stop)]
        return self._kept[1]

    def _marked(self, number: int, line: Line, width: int) -> Line:
        return marked(line, width) if number == self.mark else line

    def thumb_rows(self, height: int) -> tuple[int, int] | None:
        """The scroll thumb: shown only while paused, so that the border stays calm otherwise."""
        first = self.bounds()[0]
        total = self.paused_end - first  # lines that come meanwhile do not move it
        if self.top is None or total <= height or height < 2:
            return None
        size = max(1, height * height // total)
        top = round((height - size) * (max(first, self.top) - first) / (total - height))
        return min(top, height - size), min(top, height - size) + size

    def _page(self) -> int:
        return max(1, self.size.height - 2)

    def scroll_lines(self, lines: int) -> None:
        """Up pauses; reaching the end follows again."""
        first, end = self.bounds()
        last_top = max(first, end - self._page())
        was = last_top if self.top is None else self.top
        to = max(first, was + lines)
        if lines > 0 and to >= last_top:
            self.follow()
            return
        if to >= last_top:
            return  # nothing above the picture: there is nothing to scroll
        if self.top is None:
            self.paused_end = end
        self.top = to
        self.redraw()

    def go_top(self) -> None:
        """To the oldest line kept."""
        first, end = self.bounds()
        self.scroll_lines(first - end)

    def go_to(self, number: int) -> None:
        """To a line, with what led to it above; it is marked, and the picture holds."""
        first, end = self.bounds()
        page = self._page()
        if self.top is None:
            self.paused_end = end
        self.mark, self.left = number, 0
        self.top = max(first, min(number - page // ABOVE, end - page))
        self.redraw()

    def follow(self) -> None:
        """To the end, and stay there."""
        self.top = self.mark = None
        self.redraw()

    def toggle_pause(self) -> None:
        """Hold the picture, or follow again."""
        if self.top is not None:
            self.follow()
            return
        first, end = self.bounds()
        self.paused_end = end
        self.top = max(first, end - self._page())
        self.redraw()

    def scroll_pages(self, pages: int) -> None:
        """A screenful, with one line of overlap."""
        self.scroll_lines(pages * max(1, self._page() - 1))

    def scroll_side(self, steps: int) -> None:
        """Left or right."""
        self.left = max(0, self.left + steps * SIDE_CELLS)
        self.redraw()

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        """A sideways wheel."""
        event.stop()
        self.scroll_side(-1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        """A sideways wheel."""
        event.stop()
        self.scroll_side(1)
