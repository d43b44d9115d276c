"""A dialog as wide as the terminal, below the status line and as high as it needs: a frame of rows, and its keys in the place of the footer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.message import Message

from eagletui.ui.screens.once import Dialog
from eagletui.ui.widgets.frame import Frame, View
from eagletui.ui.widgets.ink import Ink
from eagletui.ui.widgets.key_row import KeyHint, KeyRow

if TYPE_CHECKING:
    from eagletui.monitor.snapshot import Snapshot

T = TypeVar("T")
Keys = Binding | tuple[str, str] | tuple[str, str, str]
LEAST_ROWS = 12
WAIT_S = 2.0
"""From then on it is told how long it takes."""


class SheetView(Frame):
    """Draws what it is given; it grows with it and never shrinks, so that nothing jumps."""

    class Clicked(Message):
        """A row of the content was clicked (`row` counts from the first, whether in sight or not)."""

        def __init__(self, row: int, column: int) -> None:
            super().__init__()
            self.row, self.column = row, column

    def __init__(self, draw: Callable[[int, int], View], *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self._draw = draw

    def view(self, width: int, height: int) -> View:
        """The dialog's."""
        return self._draw(width, height)

    def on_click(self, event: events.Click) -> None:
        """Which row."""
        event.stop()
        event.prevent_default()
        if 0 < event.y < self.size.height - 1 and 0 < event.x < self.size.width - 1:
            self.post_message(self.Clicked(event.y - 1 + self.offset_y, event.x - 2))


class Sheet(Dialog[T]):
    """Subclasses say what to show in `view` and `keys`; `redraw` shows it. A key that was clicked comes to `do`."""

    BINDINGS: ClassVar[list[Keys]] = [
        ("ctrl+c", "app.help_quit", ""), ("up", "scroll(-1)", ""), ("down", "scroll(1)", ""), ("pageup", "page(-1)", ""), ("pagedown", "page(1)", ""),
        ("home", "page(-1000)", ""), ("end", "page(1000)", ""),
    ]  # fmt: skip

    _now = 0.0
    _since: float | None = None

    def show(self, snapshot: Snapshot, now: float) -> None:  # noqa: ARG002 - some dialogs follow the node
        """The node goes on, and time passes; who waits sees that."""
        self._now = now
        if self._since is None:
            self._since = now
        if self.waited:
            self.redraw()

    def waits(self) -> None:
        """Something is asked from now on."""
        self._since = self._now or None

    @property
    def waited(self) -> str:
        """` 6 s`, once it takes a while."""
        passed = self._now - self._since if self._since is not None else 0.0
        return f" {passed:.0f} s" if passed >= WAIT_S else ""

    def view(self, width: int, height: int) -> View:
        """What to show."""
        raise NotImplementedError

    def keys(self) -> tuple[KeyHint, ...]:
        """The keys that work now, the way out last."""
        raise NotImplementedError

    def do(self, name: str) -> None:
        """A key was clicked."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The frame, and the keys."""
        yield SheetView(self.view, id="sheet")
        yield KeyRow(id="sheet-keys")

    def on_mount(self) -> None:
        """The first picture."""
        self.redraw()

    def on_resize(self) -> None:
        """Another room."""
        self.redraw()

    @property
    def sheet(self) -> SheetView:
        """The frame."""
        return self.query_one(SheetView)

    def wanted_rows(self, width: int, height: int) -> int:
        """Rows of content that would show all of it in so much room."""
        return len(self.view(width, height).lines)

    def redraw(self) -> None:
        """Draw what there is now."""
        found = next(iter(self.query(SheetView)), None)
        if found is None or not self.size.width:
            return
        most = max(3, self.size.height - 2 - self.rows_below())
        wanted = min(most, max(LEAST_ROWS, self.wanted_rows(self.size.width - 4, most - 2) + 2, found.size.height))
        if found.styles.height is None or found.styles.height.value != wanted:
            found.styles.height = wanted
        found.redraw()
        self.query_one(KeyRow).use(self.keys())

    def rows_below(self) -> int:
        """Rows that something else takes between frame and keys."""
        return 0

    def use_ink(self, ink: Ink) -> None:
        """Colours of another theme."""
        self.sheet.use_ink(ink)
        self.query_one(KeyRow).use_ink(ink)

    def action_scroll(self, rows: int) -> None:
        """Rows."""
        self.sheet.scroll_lines(rows)

    def action_page(self, pages: int) -> None:
        """Screenfuls."""
        self.sheet.scroll_lines(pages * max(1, self.sheet.size.height - 3))

    def on_key_row_chosen(self, event: KeyRow.Chosen) -> None:
        """As its key."""
        event.stop()
        self.do(event.chosen)
