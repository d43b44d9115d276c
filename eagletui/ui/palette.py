"""The action registry as commands of the palette."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from eagletui.ui.actions import ACTIONS, Action

_HIDDEN = frozenset({"app.palette", "log.up", "log.down"})


class ActionProvider(Provider):
    """Every action by its help sentence; those not there yet say so."""

    def _commands(self) -> list[tuple[str, Action]]:
        return [(a.help if a.available else f"{a.help} (not yet)", a) for a in ACTIONS if a.id not in _HIDDEN]

    async def discover(self) -> Hits:
        """What can be done, before a word is typed."""
        for text, action in self._commands():
            if action.available:
                yield DiscoveryHit(
                    text, partial(self.app.run_action, action.method), text=text, help=f"key {action.key}"
                )

    async def search(self, query: str) -> Hits:
        """Fuzzy over help and label."""
        matcher = self.matcher(query)
        for text, action in self._commands():
            score = max(matcher.match(text), matcher.match(action.label))
            if score > 0:
                yield Hit(
                    score,
                    matcher.highlight(text),
                    partial(self.app.run_action, action.method),
                    text=text,
                    help=f"key {action.key}",
                )
