"""Small lists in the middle of the screen: servers, themes. Names are text, never markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content, Span
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from eagletui.monitor.snapshot import Snapshot, Verdict
from eagletui.servers.model import Server
from eagletui.ui import format as fmt
from eagletui.ui.panes.pane import word_and_role
from eagletui.ui.screens.once import Dialog
from eagletui.ui.theming import Theme
from eagletui.ui.widgets.lines import clean, cut

Keys = Binding | tuple[str, str] | tuple[str, str, str]
MODEL_CELLS = 34
STATE_CELLS = 9


class ServerChooser(Dialog[str | None]):
    """Which of the node's servers to show; gives its id."""

    BINDINGS: ClassVar[list[Keys]] = [("escape", "dismiss", "close"), ("ctrl+c", "app.help_quit", "")]

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        super().__init__()
        self._rows: dict[str, Content] = {}
        self._seen: dict[str, tuple[float, float]] = {}
        self._snapshot, self._now = snapshot, now

    def compose(self) -> ComposeResult:
        """A row a server."""
        with Vertical(id="servers", classes="dialog") as box:
            box.border_title = Content(f"Servers on {clean(self._snapshot.node)}")
            box.border_subtitle = Content("enter shows it · esc closes")
            yield OptionList(id="server-list")

    def on_mount(self) -> None:
        """Start at the one that is shown."""
        self.show(self._snapshot, self._now)
        shown = self._snapshot.server.id if self._snapshot.server is not None else None
        ids = list(self._rows)
        listing = self.query_one(OptionList)
        listing.highlighted = (ids.index(shown) if shown in ids else 0) if ids else None
        listing.focus()

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Follow the node while the list is open; the highlight stays on its server."""
        self._snapshot, self._now = snapshot, now
        listing = next(iter(self.query(OptionList)), None)
        if listing is None:
            return  # not composed yet; it starts with this snapshot
        verdicts = dict(snapshot.verdicts)
        rows = {
            server.id: _server_row(server, verdicts.get(server.id), self._uptime(server))
            for server in snapshot.inventory.servers
        }
        old = self._rows
        self._rows = rows
        if list(old) == list(rows):
            for at, (server_id, row) in enumerate(rows.items()):
                if (row.plain, row.spans) != (old[server_id].plain, old[server_id].spans):
                    listing.replace_option_prompt_at_index(at, row)
            return
        before = list(old)[listing.highlighted] if listing.highlighted is not None and old else None
        listing.clear_options()
        listing.add_options([Option(row) for row in rows.values()] or [Option("None is left.", disabled=True)])
        if rows:
            listing.highlighted = list(rows).index(before) if before in rows else 0

    def _uptime(self, server: Server) -> float | None:
        """The age goes on between two looks at the node."""
        shown = self._snapshot.server
        up = self._snapshot.up_s(self._now)
        if shown is not None and shown.id == server.id and up is not None:
            return up
        if server.age_s is None:
            return None
        age, at = self._seen.get(server.id, (None, 0.0))
        if age != server.age_s:
            at = self._now
            self._seen[server.id] = server.age_s, at
        return server.age_s + max(0.0, self._now - at)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen."""
        self.dismiss(list(self._rows)[event.option_index])


def _server_row(server: Server, verdict: Verdict | None, uptime: float | None) -> Content:
    state, role = word_and_role(verdict) if verdict is not None else ("", "dim")
    state = cut(state, STATE_CELLS)
    model = cut(clean((server.model or fmt.UNKNOWN).rstrip("/").rsplit("/", 1)[-1]), MODEL_CELLS)
    port = f":{server.port}" if server.port else fmt.UNKNOWN
    head = f"{port:<7}{server.engine:<8}{model:<{MODEL_CELLS}}  "
    middle = f"{state:<{STATE_CELLS}} "
    tail = clean(f"{server.user or ''}  up {fmt.duration(uptime)}")
    at = len(head)
    return Content(
        head + middle + tail,
        [
            Span(at, at + len(state), f"bold $eagle-{role}"),
            Span(at + len(middle), at + len(middle + tail), "$eagle-aside"),
        ],
    )


class ThemeChooser(Dialog[str | None]):
    """Themes, shown on the screen behind while they are walked through. Escape goes back to the one before."""

    BINDINGS: ClassVar[list[Keys]] = [("escape,t", "back", "back"), ("ctrl+c", "app.help_quit", "")]

    def __init__(self, themes: tuple[Theme, ...], current: str, preview: Callable[[str], None]) -> None:
        super().__init__()
        self._themes = themes
        self._current = current
        self._preview = preview

    def compose(self) -> ComposeResult:
        """A row a theme."""
        with Vertical(id="themes", classes="dialog") as box:
            box.border_title = Content("Theme")
            box.border_subtitle = Content("enter keeps it for this session · esc goes back")
            yield OptionList(*(Option(_theme_row(theme)) for theme in self._themes), id="theme-list")

    def on_mount(self) -> None:
        """Start at the present one."""
        listing = self.query_one(OptionList)
        names = [theme.name for theme in self._themes]
        listing.highlighted = names.index(self._current) if self._current in names else 0
        listing.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show it."""
        self._preview(self._themes[event.option_index].name)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Keep it."""
        self.dismiss(self._themes[event.option_index].name)

    def action_back(self) -> None:
        """Undo the preview."""
        self.undo()
        self.dismiss(None)

    def undo(self) -> None:
        """The theme as it was."""
        self._preview(self._current)


def _theme_row(theme: Theme) -> Content:
    name = f"{theme.name:<16}"
    text = f"{name} {clean(theme.description)}"
    return Content(text, [Span(len(name), len(text), "$eagle-aside")])
