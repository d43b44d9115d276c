"""The action registry as commands of the palette."""

from __future__ import annotations

from functools import partial

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider

from eagletui.ui.actions import ACTIONS, Action
from eagletui.ui.screens.main import MainScreen

_HIDDEN = frozenset({"app.palette", "log.up", "log.down"})


class ActionProvider(Provider):
    """Every action by its help sentence; those not there yet say so."""

    def _commands(self) -> list[tuple[str, Action]]:
        """What can be done first."""
        actions = sorted(
            (a for a in ACTIONS if a.id not in _HIDDEN), key=lambda a: not a.available or self._is_fixed(a)
        )
        return [(self._words(action), action) for action in actions]

    def _is_fixed(self, action: Action) -> bool:
        """Whether it changes a node that is only looked at."""
        operator = getattr(self.app, "operator", None)
        return action.changes and operator is not None and operator.read_only is not None

    def _dim(self, action: Action) -> bool:
        return not action.available or self._is_fixed(action)

    def _words(self, action: Action) -> str:
        if not action.available:
            return f"{action.help} (not yet)"
        if self._is_fixed(action):
            return f"{action.help} (this node is only looked at)"
        room, _, name = action.id.partition(".")
        main = self.screen
        if room == "pane" and isinstance(main, MainScreen) and name in main.pane_names:
            return f"Go to the {main.title_of(name)} pane"  # as its title says now
        return action.help

    async def discover(self) -> Hits:
        """Everything, before a word is typed."""
        for text, action in self._commands():
            shown = Text(text, style="dim" if self._dim(action) else "")
            yield DiscoveryHit(shown, partial(self.app.run_action, action.method), text=text, help=f"key {action.key}")

    async def search(self, query: str) -> Hits:
        """Fuzzy over help and label."""
        matcher = self.matcher(query)
        for text, action in self._commands():
            score = max(matcher.match(text), matcher.match(action.label))
            if score > 0:
                yield Hit(
                    score,
                    Text(text, style="dim") if self._dim(action) else matcher.highlight(text),
                    partial(self.app.run_action, action.method),
                    text=text,
                    help=f"key {action.key}",
                )
