"""The last row: the keys that work now."""

from __future__ import annotations

from textual import events

from eagletui.ui.actions import ACTIONS, Action
from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import Line, Span, fit, width_of


class Footer(Painted):
    """Keys from the registry; a click does what the key does."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.extra: tuple[Action, ...] = ()
        self._hits: list[tuple[int, int, Action]] = []

    def rows(self, width: int, height: int) -> list[Line]:
        """As many keys as fit whole, those of now first."""
        out: list[Span] = [(" ", "text on-bar")]
        self._hits = []
        used = 1
        for action in (*self.extra, *(a for a in ACTIONS if a.footer)):
            spans: list[Span] = [(f"{action.key} ", "key bold on-bar"), (action.label, "dim on-bar")]
            size = width_of(spans)
            if used + size + 1 > width:
                continue
            self._hits.append((used, used + size, action))
            out += [*spans, ("   ", "text on-bar")]
            used += size + 3
        return [fit(tuple(out), width, pad="text on-bar")] * height

    async def on_click(self, event: events.Click) -> None:
        """Do the action under the mouse."""
        for first, end, action in self._hits:
            if first <= event.x < end:
                await self.app.run_action(action.method)
