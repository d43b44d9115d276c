"""One row of keys below a dialog; a click does what the key does."""

from __future__ import annotations

from textual import events
from textual.message import Message

from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import Line, Span, fit, width_of

GAP = 3
KeyHint = tuple[str, str, str]
"""Key as people write it, what it does, and the name that a click posts."""


class KeyRow(Painted):
    """As many keys as fit whole, the first ones being the most important; the last one (the way out) always."""

    class Chosen(Message):
        """A key was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.chosen = name

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.keys: tuple[KeyHint, ...] = ()
        self._hits: list[tuple[int, int, str]] = []

    def use(self, keys: tuple[KeyHint, ...]) -> None:
        """Show these."""
        if keys != self.keys:
            self.keys = keys
            self.redraw()

    def rows(self, width: int, height: int) -> list[Line]:
        """The keys on the bar's ground."""
        out: list[Span] = [(" ", "text on-bar")]
        self._hits = []
        room = width - 1
        kept: list[KeyHint] = []
        for key in (*self.keys[-1:], *self.keys[:-1]):
            size = width_of(_words(key))
            if size + 1 <= room:
                kept.append(key)
                room -= size + GAP
        used = 1
        for key in self.keys:
            if key not in kept:
                continue
            size = width_of(_words(key))
            self._hits.append((used, used + size, key[2]))
            out += [*_words(key), (" " * GAP, "text on-bar")]
            used += size + GAP
        return [fit(tuple(out[:-1]), width, pad="text on-bar")] * height

    def on_click(self, event: events.Click) -> None:
        """The key under the mouse."""
        event.stop()
        for first, end, name in self._hits:
            if first <= event.x < end:
                self.post_message(self.Chosen(name))


def _words(key: KeyHint) -> list[Span]:
    return [(f"{key[0]} ", "key bold on-bar"), (key[1], "dim on-bar")]
