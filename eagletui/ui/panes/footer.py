"""The last row: the keys that work now."""

from __future__ import annotations

from textual import events

from eagletui.ui.actions import ACTIONS, Action
from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import Line, Span, fit, width_of

GAP = 3
LAST_TO_GO = ("app.help", "app.quit")


def _words(action: Action) -> list[Span]:
    return [(f"{action.key} ", "key bold on-bar"), (action.label, "dim on-bar")]


class Footer(Painted):
    """Keys from the registry; a click does what the key does."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.extra: tuple[Action, ...] = ()
        self._hits: list[tuple[int, int, Action]] = []

    def rows(self, width: int, height: int) -> list[Line]:
        """As many keys as fit whole, in their order; the way to all keys and the way out are the last to go."""
        out: list[Span] = [(" ", "text on-bar")]
        self._hits = []
        actions = (*self.extra, *(a for a in ACTIONS if a.footer))
        kept: set[str] = set()
        room = width - 1
        for action in sorted(actions, key=lambda a: a.id not in LAST_TO_GO):
            size = width_of(_words(action))
            if size + 1 <= room:
                kept.add(action.id)
                room -= size + GAP
        used = 1
        for action in actions:
            if action.id not in kept:
                continue
            spans = _words(action)
            size = width_of(spans)
            self._hits.append((used, used + size, action))
            out += [*spans, (" " * GAP, "text on-bar")]
            used += size + GAP
        if self._hits:
            out.pop()  # the gap behind the last
        return [fit(tuple(out), width, pad="text on-bar")] * height

    async def on_click(self, event: events.Click) -> None:
        """Do the action under the mouse."""
        for first, end, action in self._hits:
            if first <= event.x < end:
                await self.app.run_action(action.method)
