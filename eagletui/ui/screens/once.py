"""Dialogs that close once. A second key that arrives before the first one has closed the dialog would pop the screen below it, and end the app."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.screen import ModalScreen

T = TypeVar("T")


class Dialog(ModalScreen[T]):
    """A modal screen whose dismissal counts only the first time. A lost link can be made again from it, too: the status line says so."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "app.link_connect", show=False, id="link.connect")]

    _over = False

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close it; nothing happens when it is closing already."""
        if self._over or not self.is_current:
            return AwaitComplete()
        self._over = True
        return super().dismiss(result)


class Palette(CommandPalette):
    """Textual's palette, which a doubled Enter would close twice."""

    _over = False

    def dismiss(self, result: object = None) -> AwaitComplete:
        """Close it; nothing happens when it is closing already."""
        if self._over or not self.is_current:
            return AwaitComplete()
        self._over = True
        closing: AwaitComplete = super().dismiss(result)  # type: ignore[arg-type]
        return closing
