"""Every action of the screen, once: from here come the bindings, the palette, the help, the footer and `eagletui keys`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that can be done. `key` is how people write it, `keys` what Textual calls it (several with commas).

    `available` False: planned, its key says so and does nothing. `footer`: shown at the bottom, in this order.
    `needs` names a capability (see `EagleApp.why_not`); without it the action is greyed, and its key says why.
    `changes`: it changes something on the node, and is not there on one that is only looked at.
    """

    id: str
    key: str
    label: str
    help: str
    group: str
    keys: str = ""
    available: bool = True
    footer: bool = False
    needs: str = ""
    changes: bool = False

    @property
    def method(self) -> str:
        """The app's action that does it."""
        return self.id.replace("-", "_").replace(".", "_") if self.available else f"not_yet('{self.id}')"


def _later(id: str, key: str, label: str, help: str, group: str = "Server") -> Action:  # noqa: A002 - the word of the interface
    return Action(id, key, label, help, group, available=False)


ACTIONS: tuple[Action, ...] = (
    Action("pane.startup", "1", "startup", "Go to the first pane: start-up, server, crash", "Panes"),
    Action("pane.health", "2", "health", "Go to the Health pane", "Panes"),
    Action("pane.gpus", "3", "GPUs", "Go to the GPUs pane", "Panes"),
    Action("pane.throughput", "4", "throughput", "Go to the Throughput pane", "Panes"),
    Action("pane.log", "5", "log", "Go to the Log pane", "Panes"),
    Action(
        "pane.maximise",
        "m",
        "maximise",
        "This pane alone, or all (also: double click)",
        "Panes",
        footer=True,
    ),
    Action("pane.restore", "esc", "all panes", "Back to all panes", "Panes", keys="escape"),
    Action("log.up", "↑", "up", "Scroll up a line; the log pauses", "Log", keys="up"),
    Action("log.down", "↓", "down", "Scroll down a line", "Log", keys="down"),
    Action("log.page-up", "PgUp", "page up", "Scroll up a screenful", "Log", keys="pageup"),
    Action("log.page-down", "PgDn", "page down", "Scroll down a screenful", "Log", keys="pagedown"),
    Action("log.left", "←", "left", "Scroll the lines left", "Log", keys="left"),
    Action("log.right", "→", "right", "Scroll the lines right", "Log", keys="right"),
    Action("log.top", "g", "top", "To the oldest line", "Log", keys="g,home", footer=True),
    Action("log.follow", "G", "follow", "To the newest line, and follow", "Log", keys="G,end", footer=True),
    Action(
        "log.pause", "space", "pause", "Hold the log where it is, or follow again", "Log", keys="space", footer=True
    ),
    _later("log.search", "/", "search", "Search the log", "Log"),
    _later("log.search-next", "n", "next hit", "Next hit of the search", "Log"),
    _later("log.search-previous", "N", "previous hit", "Previous hit of the search", "Log"),
    _later("log.filter", "f", "filter", "Show only some levels, ranks or a pattern", "Log"),
    Action(
        "log.next-error",
        "E",
        "next error",
        "To the next error, the first when at the end",
        "Log",
        keys="E",
        footer=True,
    ),
    Action("log.next-warning", "W", "next warning", "To the next warning, likewise", "Log", keys="W"),
    Action(
        "log.evidence",
        "enter",
        "to the line",
        "On a crash card: to the quoted line",
        "Log",
        keys="enter",
        needs="evidence",
    ),
    _later("log.goto", ":", "go to", "Go to 50%, 12:30 or a line number", "Log"),
    _later("log.raw-progress", "p", "raw progress", "Show progress bars as they were printed", "Log"),
    _later("log.wrap", "w", "wrap", "Wrap long lines", "Log"),
    Action("server.choose", "v", "servers", "Choose which server of the node to show", "Server", needs="servers"),
    Action("server.probe", "h", "ask /health", "Ask /health now", "Server", needs="server"),
    Action(
        "server.explain",
        "x",
        "explain",
        "Explain: cause, evidence, times, warnings",
        "Server",
        needs="launch",
    ),
    Action("link.connect", "c", "connect", "Link lost: connect, log in", "Server", needs="no-link"),
    Action(
        "server.restart",
        "r",
        "restart",
        "Restart the server, after showing the plan",
        "Server",
        needs="launching",
        changes=True,
    ),
    Action(
        "server.restart-changed",
        "R",
        "change flags",
        "Restart with changed flags",
        "Server",
        needs="launching",
        changes=True,
    ),
    Action(
        "server.stop",
        "s",
        "stop",
        "Stop the server, after showing the plan",
        "Server",
        needs="server-to-stop",
        changes=True,
    ),
    Action("server.start", "S", "start", "Start a server from a profile", "Server", needs="launching", changes=True),
    Action("server.stop-now", "k", "stop now", "End a draining stop now", "Server", needs="drain", changes=True),
    Action(
        "server.back", "u", "back", "Back to the last launch that worked", "Server", needs="launching", changes=True
    ),
    Action(
        "server.go-on",
        "y",
        "go on",
        "Go on with a restart left at a step",
        "Server",
        needs="unfinished",
        changes=True,
    ),
    Action(
        "server.orphans",
        "o",
        "orphans",
        "Processes without a server: list, end",
        "Server",
        needs="orphans",
        changes=True,
    ),
    Action("bench.run", "b", "benchmark", "Run the quick benchmark; again: end it", "Benchmarks", needs="bench"),
    Action(
        "bench.choose", "B", "choose benchmark", "Choose a benchmark, and who sends it", "Benchmarks", needs="bench"
    ),
    Action("history.experiments", "e", "experiments", "Runs so far: compare, baseline, notes", "Benchmarks"),
    Action("history.launches", "l", "launches", "Earlier launches, their times and ends", "Benchmarks"),
    _later("chart.shorter", "[", "shorter window", "A shorter window of the chart", "Benchmarks"),
    _later("chart.longer", "]", "longer window", "A longer window of the chart", "Benchmarks"),
    Action("app.theme", "t", "theme", "Preview and choose a theme", "Screen", footer=True),
    Action("app.help", "?", "keys", "This list of keys", "Screen", footer=True),
    Action("app.palette", "ctrl+p", "palette", "Find any action by name", "Screen", keys="ctrl+p", footer=True),
    Action("app.quit", "q", "quit", "Leave; the server goes on", "Screen", keys="q,ctrl+q", footer=True),
)
BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}


def rebind(keys: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Give actions other keys (by id). To be called before the screen's modules are loaded: they read the registry once. Ids that are none are passed over."""
    global ACTIONS, BY_ID  # noqa: PLW0603 - one registry, which yields bindings, help, footer and palette
    told = dict(keys)
    ACTIONS = tuple(
        replace(action, key=told[action.id][0], keys=",".join(told[action.id])) if told.get(action.id) else action
        for action in ACTIONS
    )
    BY_ID = {action.id: action for action in ACTIONS}


def bindings() -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """A binding for each action, its id being the action's, so that a keymap can change it."""
    from textual.binding import Binding

    return [
        Binding(a.keys or a.key, a.method, a.label, show=False, id=a.id, tooltip=a.help, priority=a.id == "app.palette")
        for a in ACTIONS
    ]


def keymap_problem(action_id: str) -> str | None:
    """Why an id of a user's keymap names no action, with the nearest that does."""
    if action_id in BY_ID:
        return None
    from difflib import get_close_matches

    near = get_close_matches(action_id, BY_ID, n=1)
    return f"no action is called {action_id}" + (f"; did you mean {near[0]}?" if near else "")
