"""Which profile to start."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content, Span
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from eagletui.ui.screens.once import Dialog
from eagletui.ui.widgets.lines import clean

Keys = Binding | tuple[str, str] | tuple[str, str, str]
LAST = ""
"""In place of a profile's name: as it was launched last."""


class ProfileChooser(Dialog[str | None]):
    """Gives a profile's name, LAST, or None."""

    BINDINGS: ClassVar[list[Keys]] = [("escape,q", "dismiss", "close"), ("ctrl+c", "app.help_quit", "")]

    def __init__(self, profiles: tuple[str, ...], node: str, *, with_last: bool) -> None:
        super().__init__()
        self._names = (*((LAST,) if with_last else ()), *profiles)
        self._node = node

    def compose(self) -> ComposeResult:
        """A row a profile."""
        with Vertical(id="profiles", classes="dialog") as box:
            box.border_title = Content(f"Start on {clean(self._node)}")
            box.border_subtitle = Content("enter shows the plan · esc closes")
            yield OptionList(*(Option(_row(name)) for name in self._names))

    def on_mount(self) -> None:
        """The first one."""
        listing = self.query_one(OptionList)
        listing.highlighted = 0
        listing.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen."""
        self.dismiss(self._names[event.option_index])


def _row(name: str) -> Content:
    if name == LAST:
        text = "as it was launched last"
        return Content(text, [Span(0, len(text), "$eagle-aside")])
    return Content(clean(name))
