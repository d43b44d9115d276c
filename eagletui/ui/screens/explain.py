"""`x`: the whole explanation, over the panes. Arrows walk over its quotations and scroll; Enter leads to the marked one in the log."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message

from eagletui.logs.state import Quote
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui.panes.card import marked_at
from eagletui.ui.screens.explanation import Row, explanation
from eagletui.ui.screens.once import Dialog
from eagletui.ui.widgets.frame import Frame, View
from eagletui.ui.widgets.ink import Ink
from eagletui.ui.widgets.lines import Span, marked

Keys = Binding | tuple[str, str] | tuple[str, str, str]


class ExplainScreen(Dialog[Quote | None]):
    """Gives the quotation to show in the log, or None."""

    BINDINGS: ClassVar[list[Keys]] = [
        ("escape,x,q", "close", "close"), ("ctrl+c", "app.help_quit", ""), ("enter", "choose", "to the line"),
        ("up", "walk(-1)", ""), ("down", "walk(1)", ""), ("pageup", "page(-1)", ""), ("pagedown,space", "page(1)", ""),
        ("home,g", "page(-1000)", ""), ("end,G", "page(1000)", ""),
    ]  # fmt: skip

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        super().__init__()
        self._snapshot, self._now = snapshot, now

    def compose(self) -> ComposeResult:
        """One frame."""
        yield ExplanationView(id="explanation")

    def on_mount(self) -> None:
        """Its first picture."""
        self.show(self._snapshot, self._now)

    def show(self, snapshot: Snapshot, now: float) -> None:
        """It goes on while it is read."""
        self._snapshot, self._now = snapshot, now
        view = next(iter(self.query(ExplanationView)), None)
        if view is not None:
            view.show(snapshot, now)

    def use_ink(self, ink: Ink) -> None:
        """Colours of another theme."""
        self.query_one(ExplanationView).use_ink(ink)

    def action_walk(self, step: int) -> None:
        """To the next quotation, or a row further where none is near."""
        self.query_one(ExplanationView).walk(step)

    def action_page(self, pages: int) -> None:
        """Screenfuls."""
        view = self.query_one(ExplanationView)
        view.scroll_lines(pages * max(1, view.size.height - 3))

    def action_choose(self) -> None:
        """The marked quotation, in the log."""
        quote = self.query_one(ExplanationView).quote
        if quote is not None:
            self.dismiss(quote)

    def action_close(self) -> None:
        """Back."""
        self.dismiss(None)

    def on_explanation_view_chosen(self, event: ExplanationView.Chosen) -> None:
        """A quotation was clicked."""
        self.dismiss(event.quote)


class ExplanationView(Frame):
    """The rows, with one quotation marked."""

    class Chosen(Message):
        """A quotation was clicked."""

        def __init__(self, quote: Quote) -> None:
            super().__init__()
            self.quote = quote

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self._snapshot: Snapshot | None = None
        self._now = 0.0
        self._shown: list[Row] = []
        self._cursor: int | None = None

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Draw this snapshot."""
        self._snapshot, self._now = snapshot, now
        self.redraw()

    @property
    def _blocks(self) -> list[tuple[Quote, int, int]]:
        """Each quotation with its first and past-the-last row."""
        blocks: list[tuple[Quote, int, int]] = []
        for at, row in enumerate(self._shown):
            if row.quote is None:
                continue
            if blocks and blocks[-1][0] is row.quote:
                blocks[-1] = (row.quote, blocks[-1][1], at + 1)
            else:
                blocks.append((row.quote, at, at + 1))
        return blocks

    @property
    def quote(self) -> Quote | None:
        """The marked one."""
        quotes = [quote for quote, _, _ in self._blocks]
        return quotes[marked_at(quotes, self._cursor)] if quotes else None

    def view(self, width: int, height: int) -> View:
        """The rows; the marked quotation on another ground."""
        if self._snapshot is None:
            return View()
        self._shown = explanation(self._snapshot, self._now, width)
        chosen = self.quote
        lines = [
            marked(row.line, width) if row.quote is not None and row.quote is chosen else row.line
            for row in self._shown
        ]
        hints: list[Span] = []
        below = max(0, len(lines) - height - self.offset_y)
        if below:
            hints += [(f"↓ {below} more · ", "dim")]
        if chosen is not None:
            hints += [("enter", "key"), (" to the line · ", "dim")]
        return View(
            lines, (("Explanation", "text"),), foot=(*hints, ("esc", "key"), (" closes", "dim")), border="focus"
        )

    def walk(self, step: int) -> None:
        """Mark the next quotation if it is in sight, else scroll a row."""
        blocks = self._blocks
        page = max(1, self.size.height - 2)
        to = marked_at([quote for quote, _, _ in blocks], self._cursor) + step if blocks else -1
        if 0 <= to < len(blocks):
            first, end = blocks[to][1:]
            in_sight = self.offset_y - 1 <= first and min(end, first + page) <= self.offset_y + page + 1
            if in_sight:
                self._cursor = to
                over = min(end, first + page) - (self.offset_y + page)
                self.offset_y = max(0, min(first, self.offset_y + max(0, over)))
                self.redraw()
                return
        self.scroll_lines(step)

    def on_click(self, event: events.Click) -> None:
        """A quotation leads to the log."""
        at = event.y - 1 + self.offset_y
        row = self._shown[at] if 0 <= at < len(self._shown) and 0 < event.y < self.size.height - 1 else None
        event.stop()
        event.prevent_default()
        if row is not None and row.quote is not None:
            self.post_message(self.Chosen(row.quote))
