"""A bordered widget of lines that repaints only the cells that changed.

A subclass says what to show in `view(width, height)`; `redraw()` asks it, compares with what is on screen and refreshes the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from eagletui.ui.widgets.ink import Ink
from eagletui.ui.widgets.lines import EMPTY, Line, Span, changed, clean, fit, strip_of, tidy, width_of

DOUBLE = 2
TabLabel = tuple[str, str, str, str]
"""Pane id, number, label, and a mark behind it (or "")."""


@dataclass(frozen=True, slots=True)
class View:
    """What a frame shows. `title` left, `summary` right on the upper border, `foot` right on the lower one.

    `border` is a role. `stale` draws the content in grey: it is old, and says so elsewhere. `thumb` is (first, past-last) row of a scroll thumb.
    """

    lines: list[Line] = field(default_factory=list)
    title: Line = EMPTY
    summary: Line = EMPTY
    foot: Line = EMPTY
    border: str = "border"
    stale: bool = False
    thumb: tuple[int, int] | None = None


class Tab(Message):
    """A tab in a frame's title was clicked."""

    def __init__(self, pane: str) -> None:
        super().__init__()
        self.pane = pane


class Maximise(Message):
    """A frame was double-clicked."""

    def __init__(self, pane: str) -> None:
        super().__init__()
        self.pane = pane


class Painted(Widget):
    """Draws rows of spans. `painted` counts the rows that were refreshed, so that tests can hold the budget."""

    DEFAULT_CSS = "Painted { background: transparent; }"
    _NO_INK: ClassVar[Ink] = Ink({})

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self._rows: list[Line] = []
        self._strips: list[Strip | None] = []
        self._ink = self._NO_INK
        self.painted = 0

    def rows(self, width: int, height: int) -> list[Line]:
        """Exactly `height` lines of exactly `width` cells."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Rebuild the rows and refresh the cells that differ."""
        width, height = self.size
        if not width or not height:
            return
        rows = self.rows(width, height)
        old = self._rows
        self._rows = rows
        if len(old) != len(rows) or (old and width_of(old[0]) != width):
            self._strips = [None] * len(rows)
            self.painted += len(rows)
            self.refresh()
            return
        dirty: Region | None = None
        for y, (before, after) in enumerate(zip(old, rows, strict=True)):
            span = changed(before, after)
            if span is None:
                continue
            self._strips[y] = None
            self.painted += 1
            region = Region(span[0], y, span[1] - span[0], 1)
            # Neighbouring rows go as one region: the compositor's cost is by the region.
            if dirty is not None and dirty.bottom == y:
                dirty = dirty.union(region)
                continue
            if dirty is not None:
                self.refresh(dirty)
            dirty = region
        if dirty is not None:
            self.refresh(dirty)

    def on_mount(self) -> None:
        """The colours of the theme there is."""
        self.use_ink(Ink(self.app.theme_variables))

    def use_ink(self, ink: Ink) -> None:
        """Draw in another theme's colours."""
        self._ink = ink
        self._strips = [None] * len(self._rows)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row; Textual's way to draw."""
        if y >= len(self._rows):
            return Strip.blank(self.size.width, self._ink.style("text"))  # NO_COLOR's filter wants a style everywhere
        strip = self._strips[y]
        if strip is None:
            strip = self._strips[y] = strip_of(self._rows[y], self._ink, self.size.width)
        return strip

    def on_resize(self) -> None:
        """A new size is a new picture."""
        self.redraw()

    def text(self) -> str:
        """What is on screen, for tests."""
        return "\n".join("".join(t for t, _ in row).rstrip() for row in self._rows)


class Frame(Painted):
    """A pane: border, title, content. `number` is the key that focuses it."""

    can_focus = True
    number: str = ""
    name_: str = ""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.tabs: tuple[TabLabel, ...] = ()
        """When panes share one place; drawn instead of the number in the title."""
        self.tab: str | None = None
        """Which of them is shown; None: the one with this frame's id."""
        self.offset_y = 0
        self.overflow = 0
        self._tab_spans: list[tuple[int, int, str]] = []

    @property
    def takes_arrows(self) -> bool:
        """Whether arrow keys do something in it."""
        return self.overflow > 0

    def view(self, width: int, height: int) -> View:
        """What to show in a content area of this size."""
        raise NotImplementedError

    def rows(self, width: int, height: int) -> list[Line]:
        """Border and content."""
        inner, high = width - 4, height - 2
        if inner < 1 or high < 0:
            return [fit(EMPTY, width)] * height
        view = self.view(inner, high)
        border = view.border
        if border == "border" and self.has_focus:
            border = "focus"
        self.overflow = max(0, len(view.lines) - high)
        self.offset_y = min(self.offset_y, self.overflow)
        shown = view.lines[self.offset_y : self.offset_y + high]
        thumb = view.thumb or self._thumb(high)
        left: Span = ("│ ", border)
        out = [self._top(view, border, width)]
        for y in range(high):
            line = fit(shown[y], inner) if y < len(shown) else fit(EMPTY, inner)
            if view.stale:
                line = tuple((text, _STALE.get(role, "dim")) for text, role in line)
            hit = thumb is not None and thumb[0] <= y < thumb[1]
            right: tuple[Span, ...] = ((" ", "text"), ("┃", "focus bold")) if hit else ((" │", border),)
            out.append((left, *line, *right))
        foot = tuple((text, "dim") for text, _ in view.foot) if view.stale else view.foot
        out.append(_edge("╰╯", EMPTY, foot, border, width))
        return out

    def _thumb(self, high: int) -> tuple[int, int] | None:
        if not self.overflow or high < 2:
            return None
        size = max(1, high * high // (high + self.overflow))
        top = round((high - size) * self.offset_y / self.overflow)
        return top, top + size

    def _top(self, view: View, border: str, width: int) -> Line:
        title: list[Span] = []
        self._tab_spans = []
        if self.tabs:
            at = 3
            for pane, number, label, mark in self.tabs:
                active = pane == (self.tab or self.id)
                spans: list[Span] = [
                    (number, "key" if active else "faint"),
                    (f" {clean(label)}", "text bold" if active else "dim"),
                    (mark, "warning"),
                ]
                size = width_of(spans)
                self._tab_spans.append((at, at + size, pane))
                if title:
                    title.append(("  ", border))
                title += spans
                at += size + 2
            rest = view.title[1:]  # the tab already says the pane's name
            title += [("  ", border), *rest] if rest else []
        else:
            title = (
                [(self.number, "key" if self.has_focus else "faint"), (" ", border), *view.title]
                if self.number
                else [*view.title]
            )
        return _edge("╭╮", tuple(title), view.summary, border, width)

    def on_focus(self) -> None:
        """Show that keys go here."""
        self.redraw()

    def on_blur(self) -> None:
        """Keys go elsewhere."""
        self.redraw()

    def scroll_lines(self, lines: int) -> None:
        """Scroll the content when there is more than fits."""
        self.offset_y = max(0, min(self.overflow, self.offset_y + lines))
        self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel."""
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel."""
        event.stop()
        self.scroll_lines(-3)

    def on_click(self, event: events.Click) -> None:
        """A tab in the title; twice anywhere else, the whole screen."""
        if event.chain == DOUBLE and event.y > 0:
            self.post_message(Maximise(self.id or ""))
            event.stop()
        if event.y == 0:
            for first, end, pane in self._tab_spans:
                if first <= event.x < end:
                    self.post_message(Tab(pane))
                    event.stop()


_STALE = {"track": "track", "faint": "faint", "border": "border"}


def _edge(corners: str, title: Line, summary: Line, border: str, width: int) -> Line:
    """A border row with words on it; the title is cut first, the summary goes when there is no room at all."""
    room = width - 4
    title, summary = tidy(title), tidy(summary)
    spare = width_of(summary) + 2 if summary else 0
    if spare > room - 4:
        summary, spare = EMPTY, 0
    words: Line = EMPTY
    if title:
        have = min(width_of(title), room - spare - 3)
        words = (" ", border), *fit(title, have), (" ", border)
    used = width_of(words)
    out: list[Span] = [(corners[0] + "─", border), *words]
    if summary:
        fill = width - 4 - used - spare
        out += [("─" * fill, border), (" ", border), *summary, (" ", border)]
    else:
        out.append(("─" * (width - 4 - used), border))
    out.append(("─" + corners[1], border))
    return fit(tuple(out), width)
