"""A sheet's frame for a table that scrolls itself below its header, with tabs in the title."""

from __future__ import annotations

from textual import events
from textual.message import Message

from eagletui.ui.screens.sheet import SheetView
from eagletui.ui.widgets.frame import Tab


class TableView(SheetView):
    """The frame of both tables: their names are in its title; each is an id of a tab."""

    class Wheel(Message):
        """The wheel walks, since the table scrolls itself below its header."""

        def __init__(self, rows: int) -> None:
            super().__init__()
            self.rows = rows

    def scroll_lines(self, lines: int) -> None:
        """The cursor goes, and the table with it."""
        self.post_message(self.Wheel(lines))

    def on_click(self, event: events.Click) -> None:
        """A tab of the title, else a row."""
        if event.y == 0:
            for first, end, pane in self._tab_spans:
                if first <= event.x < end:
                    self.post_message(Tab(pane))
        super().on_click(event)
