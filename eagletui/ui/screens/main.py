"""The one screen: status line, panes in the places that the size gives them, footer."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.geometry import Region, Size
from textual.layout import Layout, WidgetPlacement
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from eagletui.logs.state import Quote
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.record import Record
from eagletui.ui.actions import BY_ID, Action
from eagletui.ui.panes.bench_bar import BenchBar, Benched
from eagletui.ui.panes.card import has_card, marked_at
from eagletui.ui.panes.chart_marks import Measured
from eagletui.ui.panes.footer import Footer
from eagletui.ui.panes.gpus import GpuPane
from eagletui.ui.panes.health import HealthPane
from eagletui.ui.panes.log import LogPane
from eagletui.ui.panes.pane import Pane
from eagletui.ui.panes.startup import StartupPane
from eagletui.ui.panes.status_line import StatusLine
from eagletui.ui.panes.steps import Doing
from eagletui.ui.panes.throughput import ThroughputPane
from eagletui.ui.panes.trouble import MARK, alarm
from eagletui.ui.screens.layout import MIN_HEIGHT, MIN_WIDTH, TABBED, Place, Plan, plan, without_last_row
from eagletui.ui.widgets.frame import Maximise, Painted, Tab, TabLabel
from eagletui.ui.widgets.ink import Ink


class _Places(Layout):
    """Puts each child where the deck's plan says."""

    name = "places"

    def __init__(self, places: Callable[[], dict[str, Place]]) -> None:
        self._places = places

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:  # noqa: ARG002 - the signature of Textual
        """Textual asks for placements."""
        from textual.geometry import Offset, Spacing

        places = self._places()
        return [
            WidgetPlacement(Region(*places[child.id]), Offset(), Spacing(), child)
            for child in children
            if child.id is not None and child.id in places
        ]


class Deck(Container):
    """Holds the panes; its plan is the main screen's."""

    def __init__(self, *children: Widget, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(*children, id=id)
        self.plan = Plan("small", {})
        self._places_layout = _Places(lambda: self.plan.places)

    @property
    def layout(self) -> Layout:
        """Ours instead of a named one."""
        return self._places_layout


class TooSmall(Message):
    """The terminal became smaller than anything fits."""


class MainScreen(Screen[None]):
    """What `connect` opens."""

    AUTO_FOCUS = ""

    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node
        self.snapshot: Snapshot | None = None
        self.tab = "startup"
        self.maximised_pane: str | None = None
        self.too_small = False
        self.launch_keys: tuple[Action, ...] = ()
        """Keys about launches that matter now."""

    def compose(self) -> ComposeResult:
        """All panes exist always; places differ."""
        yield StatusLine(self._node, id="status")
        yield Deck(
            StartupPane(id="startup"), GpuPane(id="gpus"), HealthPane(id="health"), ThroughputPane(id="throughput"), LogPane(id="log"),
            id="deck",
        )  # fmt: skip
        yield BenchBar(id="bench")
        yield Static(id="too-small")
        yield Footer(id="footer")

    def on_mount(self) -> None:
        """Places for the first frame."""
        self.arrange_panes()

    def on_resize(self) -> None:
        """New places."""
        self.arrange_panes()

    @property
    def log_pane(self) -> LogPane:
        """The log."""
        return self.query_one(LogPane)

    def pane(self, name: str) -> Pane:
        """A pane by its id."""
        return next(pane for pane in self.panes if pane.id == name)

    @property
    def panes(self) -> list[Pane]:
        """All panes. (A query by type misses the log: Textual's selectors follow the first base class only.)"""
        return [child for child in self.query_one(Deck).children if isinstance(child, Pane)]

    @property
    def pane_names(self) -> list[str]:
        """Ids of all panes."""
        return [pane.id or "" for pane in self.panes]

    @property
    def quote(self) -> Quote | None:
        """The quotation that is marked on the card of a failure; None where there is no card."""
        pane = self.query_one(StartupPane)
        quotes = pane.quotes_in(self.snapshot) if self.snapshot is not None else ()
        return quotes[marked_at(quotes, self.query_one(StartupPane).cursor)] if quotes else None

    def title_of(self, name: str) -> str:
        """What a pane is called now."""
        pane = self.pane(name)
        return pane.word(self.snapshot) if self.snapshot is not None else pane.name_

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Give every visible pane the snapshot; hidden ones get it when they come."""
        self.snapshot = snapshot
        self.query_one(StatusLine).show(snapshot, now)
        self._show_keys()
        labels = self._tab_labels(TABBED.get(self.query_one(Deck).plan.mode, ()))
        for pane in self.panes:
            if pane.tabs and pane.tabs != labels:
                pane.tabs = labels
                pane.redraw()
        wanted = self.query_one(GpuPane).wanted_rows()
        for pane in self.panes:
            if pane.display or isinstance(pane, GpuPane):
                pane.show(snapshot, now)
        if self.query_one(GpuPane).wanted_rows() != wanted:
            self.arrange_panes()

    def _tab_labels(self, names: tuple[str, ...]) -> tuple[TabLabel, ...]:
        """The same words whichever of them is shown, and a mark where one that is hidden should be looked at."""
        marked = "gpus" if self.snapshot is not None and alarm(self.snapshot) else ""
        return tuple(
            (name, self.pane(name).number, self.title_of(name), f" {MARK}" if name == marked else "") for name in names
        )

    def use_launch(
        self, doing: Doing | None, left: Record | None, able: tuple[str, ...], keys: tuple[Action, ...]
    ) -> None:
        """What is under way, or was left, and what can be done about launches; shown with the next snapshot."""
        pane = self.query_one(StartupPane)
        pane.doing, pane.left, pane.able = doing, left, able
        self.launch_keys = keys

    def use_measured(self, measured: Measured) -> None:
        """What the chart tells of benchmarks; shown with the next snapshot."""
        self.query_one(ThroughputPane).measured = measured

    def show_bench(self, shown: Benched | None, now: float) -> None:
        """The row of a benchmark; it comes and goes with it, and only what is above it gives way."""
        row = self.query_one(BenchBar)
        row.shown = shown
        if row.display != (shown is not None and not self.too_small):
            self.arrange_panes()
        row.show(shown, now)

    def use_ink(self, ink: Ink) -> None:
        """Colours of another theme."""
        for widget in self.query(Painted):
            widget.use_ink(ink)

    def arrange_panes(self) -> None:
        """Ask the plan for places and apply it."""
        deck = self.query_one(Deck)
        width, height = self.size.width, self.size.height - 2
        new = plan(
            width, height, gpu_rows=self.query_one(GpuPane).wanted_rows(), tab=self.tab, maximised=self.maximised_pane
        )  # fmt: skip
        small = new.mode == "small"
        bench = self.query_one(BenchBar)
        bench.display = bench.shown is not None and not small
        if bench.display:
            new = without_last_row(new, height)
        if small and not self.too_small:
            self.post_message(TooSmall())
        self.too_small = small
        notice = self.query_one("#too-small", Static)
        notice.display = small
        deck.display = not small
        self.query_one(StatusLine).display = self.query_one(Footer).display = not small
        if small:
            notice.update(
                Content(
                    f"eagletui needs {MIN_WIDTH}×{MIN_HEIGHT}.\nThis terminal is {width}×{self.size.height}.\nMake it larger, or the font smaller."
                )
            )
        if new == deck.plan:
            return
        deck.plan = new
        shared = TABBED.get(new.mode, ())
        for pane in self.panes:
            name = pane.id or ""
            shown = name in new.places
            came = shown and not pane.display
            pane.display = shown
            pane.tabs = self._tab_labels(shared) if name in shared else ()
            if came and self.snapshot is not None:
                pane.show(self.snapshot, pane.now or self.snapshot.at)
            pane.redraw()
            pane.refresh(layout=True)  # on a child: a widget's own request does not drop its own kept arrangement
        self._show_keys()

    def _show_keys(self) -> None:
        """The keys that matter now go before those that always work."""
        footer = self.query_one(Footer)
        lost = self.snapshot is not None and self.snapshot.link.lost_at is not None
        extra = [BY_ID["link.connect"]] if lost else list(self.launch_keys)
        if self.quote is not None:
            extra.append(BY_ID["log.evidence"])
        if self.snapshot is not None and has_card(self.snapshot):
            extra.append(BY_ID["server.explain"])
        if self.query_one(Deck).plan.mode == "one":
            extra.append(BY_ID["pane.restore"])
        if footer.extra != tuple(extra):
            footer.extra = tuple(extra)
            footer.redraw()

    def go_to(self, name: str) -> None:
        """Focus a pane, making it visible: its tab, or in the place of the maximised one."""
        if self.maximised_pane is not None:
            self.maximised_pane = name
        elif name != "log":
            self.tab = name
        self.arrange_panes()
        self.set_focus(self.pane(name))

    def maximise(self, name: str | None) -> None:
        """This pane alone, or all of them."""
        self.maximised_pane = None if self.maximised_pane is not None else name
        self.arrange_panes()

    def uncover_log(self) -> None:
        """Something in the log is to be seen: no other pane may cover it."""
        if self.maximised_pane not in (None, "log"):
            self.maximised_pane = None
            self.arrange_panes()

    def restore(self) -> None:
        """All panes; the focus goes, too."""
        if self.maximised_pane is not None:
            self.maximised_pane = None
            self.arrange_panes()
        else:
            self.set_focus(None)

    def on_maximise(self, event: Maximise) -> None:
        """A double click."""
        event.stop()
        self.maximise(event.pane)

    def on_tab(self, event: Tab) -> None:
        """A tab was clicked."""
        event.stop()
        self.go_to(event.pane)
