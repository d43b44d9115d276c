"""Small lists in the middle of the screen: servers, themes. Names are text, never markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content, Span
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import Server
from eagletui.ui import format as fmt
from eagletui.ui.panes.pane import LEVEL_OF_STATE
from eagletui.ui.theming import Theme
from eagletui.ui.widgets.lines import clean, cut

Keys = Binding | tuple[str, str] | tuple[str, str, str]
MODEL_CELLS = 34


class ServerChooser(ModalScreen[str | None]):
    """Which of the node's servers to show; gives its id."""

    BINDINGS: ClassVar[list[Keys]] = [("escape", "dismiss", "close")]

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot

    def compose(self) -> ComposeResult:
        """A row a server."""
        verdicts = dict(self._snapshot.verdicts)
        with Vertical(id="servers", classes="dialog") as box:
            box.border_title = Content(f"Servers on {clean(self._snapshot.node)}")
            box.border_subtitle = Content("enter shows it · esc closes")
            options = []
            for server in self._snapshot.inventory.servers:
                verdict = verdicts.get(server.id)
                options.append(
                    Option(_server_row(server, verdict.state.name if verdict else "", _role(verdict)), id=None)
                )
            yield OptionList(*options, id="server-list")

    def on_mount(self) -> None:
        """Start at the one that is shown."""
        shown = self._snapshot.server.id if self._snapshot.server is not None else None
        ids = [s.id for s in self._snapshot.inventory.servers]
        listing = self.query_one(OptionList)
        listing.highlighted = ids.index(shown) if shown in ids else 0
        listing.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen."""
        self.dismiss(self._snapshot.inventory.servers[event.option_index].id)


def _role(verdict: object) -> str:
    from eagletui.monitor.snapshot import Verdict

    return LEVEL_OF_STATE[verdict.state] if isinstance(verdict, Verdict) else "dim"


def _server_row(server: Server, state: str, role: str) -> Content:
    model = cut(clean((server.model or fmt.UNKNOWN).rstrip("/").rsplit("/", 1)[-1]), MODEL_CELLS)
    port = f":{server.port}" if server.port else fmt.UNKNOWN
    head = f"{port:<7}{server.engine:<8}{model:<{MODEL_CELLS}}  "
    middle = f"{state:<9} "
    tail = clean(f"{server.user or ''}  up {fmt.duration(server.age_s)}")
    at = len(head)
    return Content(
        head + middle + tail,
        [
            Span(at, at + len(state), f"bold $eagle-{role}"),
            Span(at + len(middle), at + len(middle + tail), "$eagle-dim"),
        ],
    )


class ThemeChooser(ModalScreen[str | None]):
    """Themes, shown on the screen behind while they are walked through. Escape goes back to the one before."""

    BINDINGS: ClassVar[list[Keys]] = [("escape,t", "back", "back")]

    def __init__(self, themes: tuple[Theme, ...], current: str, preview: Callable[[str], None]) -> None:
        super().__init__()
        self._themes = themes
        self._current = current
        self._preview = preview

    def compose(self) -> ComposeResult:
        """A row a theme."""
        with Vertical(id="themes", classes="dialog") as box:
            box.border_title = Content("Theme")
            box.border_subtitle = Content("enter keeps it · esc goes back")
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
        self._preview(self._current)
        self.dismiss(None)


def _theme_row(theme: Theme) -> Content:
    name = f"{theme.name:<16}"
    text = f"{name} {clean(theme.description)}"
    return Content(text, [Span(len(name), len(text), "$eagle-dim")])
