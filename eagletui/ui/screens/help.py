"""The keys, by group; those of later versions greyed."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content, Span
from textual.geometry import Size
from textual.widget import Widget

from eagletui.ui.actions import ACTIONS, Action
from eagletui.ui.screens.once import Dialog
from eagletui.ui.widgets.lines import wrap

Keys = Binding | tuple[str, str] | tuple[str, str, str]
KEY_CELLS = 8
MIN_WORDS_CELLS = 8
MAX_ROWS = 6
_COLUMNS = (("Panes", "Screen", "Server"), ("Log", "Benchmarks"))


class HelpScreen(Dialog[None]):
    """`?`."""

    BINDINGS: ClassVar[list[Keys]] = [("escape,question_mark,q", "dismiss", "close"), ("ctrl+c", "app.help_quit", "")]

    def __init__(self, *, fixed: str | None = None) -> None:
        super().__init__()
        self._fixed = fixed

    def compose(self) -> ComposeResult:
        """Two columns of groups; on a node that is only looked at, what changes it is greyed and said why."""
        groups = {
            name: list(actions)
            for name, actions in groupby(sorted(ACTIONS, key=lambda a: a.group), key=lambda a: a.group)
        }
        with Vertical(id="help", classes="dialog") as box:
            box.border_title = Content("Keys")
            with VerticalScroll(id="help-scroll"), Horizontal(id="help-columns"):
                for column in _COLUMNS:
                    yield HelpColumn(
                        [(name, groups[name]) for name in column], classes="help-column", fixed=self._fixed
                    )

    def on_mount(self) -> None:
        """Say how much there is, now and after each step."""
        scroll = self.query_one(VerticalScroll)
        for what in ("scroll_y", "virtual_size"):
            self.watch(scroll, what, self._hint)

    def on_resize(self) -> None:
        """Another size hides other rows."""
        self.call_after_refresh(self._hint)

    def _hint(self) -> None:
        scroll = self.query_one(VerticalScroll)
        below = scroll.max_scroll_y - round(scroll.scroll_y)
        more = f"↓ {below} more · " if below > 0 else "↑ more · " if scroll.max_scroll_y > 0 else ""
        self.query_one("#help").border_subtitle = Content(
            f"{more}esc closes · greyed: not yet{', or not here' if self._fixed else ''}"
        )


class HelpColumn(Widget):
    """Groups of keys with their sentences; what is too long goes on below the sentence, never below the key."""

    def __init__(self, groups: list[tuple[str, list[Action]]], *, classes: str, fixed: str | None = None) -> None:
        super().__init__(classes=classes)
        self._groups = groups
        self._fixed = fixed

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - the signature of Textual
        """As many rows as the sentences take at this width."""
        return len(self.table(width))

    def render(self) -> Content:
        """Textual asks for it."""
        return Content("\n").join(self.table(self.content_size.width))

    def table(self, width: int) -> list[Content]:
        """The rows at a width."""
        out: list[Content] = []
        for name, actions in self._groups:
            out += [Content("")] if out else []
            out.append(Content(name, [Span(0, len(name), "bold $eagle-accent")]))
            for action in actions:
                off = not action.available or (self._fixed is not None and action.changes)
                out += _rows(action, max(MIN_WORDS_CELLS, width - KEY_CELLS), off=off)
            if self._fixed is not None and any(action.changes for action in actions):
                rows = wrap(self._fixed, max(MIN_WORDS_CELLS, width - KEY_CELLS), MAX_ROWS)
                out += [
                    Content(" " * KEY_CELLS + row, [Span(0, KEY_CELLS + len(row), "$eagle-warning")]) for row in rows
                ]
        return out


def _rows(action: Action, room: int, *, off: bool) -> list[Content]:
    out: list[Content] = []
    for at, words in enumerate(wrap(action.help, room, MAX_ROWS)):
        key = ("" if at else action.key).ljust(KEY_CELLS)
        style = "bold $eagle-key"
        spans = [Span(0, len(key), style)] if not off else [Span(0, len(key + words), "$eagle-faint")]
        out.append(Content(key + words, spans))
    return out
