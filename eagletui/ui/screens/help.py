"""The keys, by group; those of later versions greyed."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content, Span
from textual.screen import ModalScreen
from textual.widgets import Static

from eagletui.ui.actions import ACTIONS, Action

Keys = Binding | tuple[str, str] | tuple[str, str, str]
KEY_CELLS = 8
_COLUMNS = (("Panes", "Screen", "Server"), ("Log", "Benchmarks"))


class HelpScreen(ModalScreen[None]):
    """`?`."""

    BINDINGS: ClassVar[list[Keys]] = [("escape,question_mark,q", "dismiss", "close")]

    def compose(self) -> ComposeResult:
        """Two columns of groups."""
        groups = {
            name: list(actions)
            for name, actions in groupby(sorted(ACTIONS, key=lambda a: a.group), key=lambda a: a.group)
        }
        with Vertical(id="help", classes="dialog") as box:
            box.border_title = Content("Keys")
            box.border_subtitle = Content("esc closes · greyed: not yet")
            with VerticalScroll(), Horizontal(id="help-columns"):
                for column in _COLUMNS:
                    yield Static(_table([(name, groups[name]) for name in column]), classes="help-column")


def _table(groups: list[tuple[str, list[Action]]]) -> Content:
    lines: list[Content] = []
    for name, actions in groups:
        lines.append(Content(name, [Span(0, len(name), "bold $eagle-accent")]))
        lines += [_row(action) for action in actions]
        lines.append(Content(""))
    return Content("\n").join(lines)


def _row(action: Action) -> Content:
    key = action.key.ljust(KEY_CELLS)
    text = f"{key}{action.help}"
    if not action.available:
        return Content(text, [Span(0, len(text), "$eagle-faint")])
    return Content(text, [Span(0, len(key), "bold $eagle-key")])
