"""The application: takes snapshots from a source and shows them; turns keys into actions. It never touches the server when it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.notifications import Notification, SeverityLevel
from textual.screen import Screen
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from eagletui.logs.state import Quote
from eagletui.logs.store import LineKind
from eagletui.monitor.snapshot import Snapshot, Verdict
from eagletui.servers.model import Reason, State
from eagletui.ui import format as fmt
from eagletui.ui import theming
from eagletui.ui.actions import BY_ID, bindings
from eagletui.ui.bench_actions import BenchActions
from eagletui.ui.palette import ActionProvider
from eagletui.ui.panes.bench_bar import Benched
from eagletui.ui.panes.card import has_card
from eagletui.ui.panes.log import Found
from eagletui.ui.panes.pane import Pane, is_undecided
from eagletui.ui.panes.startup import Evidence, Offered
from eagletui.ui.panes.throughput import Canvas, ThroughputPane
from eagletui.ui.screens.choosers import ServerChooser, ThemeChooser
from eagletui.ui.screens.explain import ExplainScreen
from eagletui.ui.screens.help import HelpScreen
from eagletui.ui.screens.main import MainScreen
from eagletui.ui.screens.once import Palette
from eagletui.ui.screens.sheet import Sheet
from eagletui.ui.source import Source
from eagletui.ui.widgets.ink import Ink

if TYPE_CHECKING:
    from eagletui.launching.operator import Operator

Result = TypeVar("Result")
TICK_S = 1.0
"""Ages tick with it when nothing else changes."""
_NOTICE_S: dict[SeverityLevel, float] = {"information": 3.0, "warning": 5.0, "error": 8.0}
"""How long a notice stays: it covers the log, and one line is read in two seconds; why something is not done takes longer."""


class EagleApp(BenchActions):
    """The screen of one node. `theme` None is the default one; `clock` is what snapshots' monotonic times are against. `operator` starts and stops
    its servers; it may come later (`use_operator`), or never; so do `bench` and `ledger`."""

    CSS_PATH = "eagletui.tcss"
    TITLE = "eagletui"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    COMMANDS: ClassVar = {ActionProvider}
    BINDINGS: ClassVar = bindings()

    def __init__(
        self,
        source: Source,
        *,
        node_name: str,
        theme: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        operator: Operator | None = None,
    ) -> None:
        self._found = theming.load_themes()
        super().__init__()
        self._source = source
        self._node_name = node_name
        self._wanted_theme = theme
        self._clock = clock
        self._main = MainScreen(node_name)
        self._ticker: Timer | None = None
        self._asked_for_server = False
        self._source_closed = False
        self._left = False
        self._passing: Notification | None = None
        self._broken: str | None = None
        self.operator = operator

    # --- start and end

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our roles exist in every theme."""
        return theming.variables(self._found.themes[0])

    def get_default_screen(self) -> MainScreen:
        """The main screen is the app's only one below dialogs."""
        return self._main

    def on_mount(self) -> None:
        """First paint first; whatever takes time comes after it."""
        self.animation_level = "none"
        for theme in self._found.themes:
            self.register_theme(theming.to_textual(theme))
        theme_name = self._wanted_theme or theming.DEFAULT_THEME
        known = self._found.get(theme_name) is not None
        self.theme_changed_signal.subscribe(self, lambda _: self._apply_ink())
        self.theme = theme_name if known else theming.DEFAULT_THEME
        problems = [] if known else [f"No theme is called {theme_name}; t shows what there is."]
        self.call_after_refresh(self._start, [*problems, *self._found.problems])

    def _start(self, problems: list[str]) -> None:
        self._source.on_change = self._show
        if self.operator is not None:
            self.use_operator(self.operator)
        self.use_measuring()
        self._show()
        self.run_worker(self._source.run(), name="watch", exit_on_error=False)
        self.run_worker(self._load_chart, name="chart", thread=True, exit_on_error=False)
        self._ticker = self.set_interval(TICK_S, self._show)
        for problem in problems:  # not before the first paint: a notice needs a place on the screen
            self.say(problem, severity="warning")

    def _load_chart(self) -> None:
        from eagletui.ui.widgets.chart import BrailleChart

        canvas = BrailleChart()
        self.call_from_thread(self._use_canvas, canvas)

    def _use_canvas(self, canvas: object) -> None:
        pane = self._main.query_one(ThroughputPane)
        pane.canvas = canvas  # type: ignore[assignment]
        pane.redraw()

    async def on_unmount(self) -> None:
        """Close the link, whichever way the screen ends."""
        self._source.on_change = None
        if self.bench is not None:
            self.bench.on_change = None
            await self.bench.aclose()
        if self.operator is not None:
            self.operator.on_change = None
            await self.operator.aclose()  # while there is a link: no command is cut in its middle
        if not self._source_closed:
            self._source_closed = True
            await self._source.aclose()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A watch that failed says so instead of freezing quietly."""
        if event.state is WorkerState.ERROR:
            if event.worker.name == "watch":
                self._broken = (
                    f"eagletui's own watch of the node stopped ({type(event.worker.error).__name__}: {event.worker.error}); "
                    "leave with q and start again"
                )
                self._show()
                return
            self.say(f"The task {event.worker.name} stopped: {event.worker.error}", severity="error")

    def exit_from_thread(self) -> None:
        """Leave, asked for by another thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.exit)

    # --- the terminal for others

    @property
    def can_leave_terminal(self) -> bool:
        """Whether the screen can be left for a while; not on a terminal in a browser, for one."""
        return self._driver is not None and self._driver.can_suspend and not self._left

    @contextmanager
    def leave_terminal(self) -> Iterator[None]:
        """The terminal as it was before the screen opened. Nothing is painted meanwhile; the watch goes on.

        The screen comes back however this ends.
        """
        failure: BaseException | None = None
        self._left = True
        try:
            # Without the batch whatever changes would still be painted, over what the person reads.
            with self.batch_update(), self.suspend():
                try:
                    yield
                except BaseException as error:  # noqa: BLE001 - suspend() gives the screen back only when nothing is raised in it
                    failure = error
        finally:
            self._left = False
        if failure is not None:
            raise failure
        self._show()

    # --- showing

    def _show(self) -> None:
        if not self._main.is_running or self._left:
            return
        snapshot = self._source.snapshot()
        now = self._clock()
        if self._broken is not None:  # nothing is watched any more: what was last seen must not look like now
            link = replace(snapshot.link, state="down", error=self._broken, retry_at=None, needs=None, heard_at=None)
            snapshot = replace(snapshot, link=link, verdict=Verdict(State.OFFLINE, Reason("no-link", self._broken)))
        self._main.use_launch(self.doing, self.left_over, self.able_ids(), self.launch_keys())
        self._main.use_measured(self.measured)
        self._main.show(snapshot, now)
        self._main.show_bench(self.benched, now)
        for dialog in self.screen_stack:
            if isinstance(dialog, ServerChooser | ExplainScreen | Sheet):
                dialog.show(snapshot, now)
        self._ask_for_server(snapshot)

    def _ask_for_server(self, snapshot: Snapshot) -> None:
        """Several servers and none chosen: ask, once, and never over another dialog."""
        if snapshot.undecided and not self._asked_for_server and self.screen is self._main:
            self.action_server_choose()

    def _open(self, dialog: Screen[Result], callback: Callable[[Result | None], None] | None = None) -> bool:
        """Push a dialog, never twice, and not over the notice of a terminal that is too small. Says whether it did."""
        # A key typed right behind q would open a dialog in a screen that is being taken down.
        if self._exit or self._main.too_small or any(type(open_one) is type(dialog) for open_one in self.screen_stack):
            return False
        self.push_screen(dialog, callback)
        return True

    def moment(self) -> float:
        """See LaunchActions."""
        return self._clock()

    def seen(self) -> Snapshot:
        """See LaunchActions."""
        return self._main.snapshot or self._source.snapshot()

    def show_bench(self, shown: Benched | None) -> None:
        """See BenchActions."""
        if self._main.is_running and not self._left:
            self._main.show_bench(shown, self._clock())

    @property
    def canvas(self) -> Canvas | None:
        """See BenchActions."""
        return self._main.query_one(ThroughputPane).canvas

    def open_dialog(self, dialog: Screen[Result], callback: Callable[[Result | None], None] | None = None) -> bool:
        """See LaunchActions."""
        return self._open(dialog, callback)

    def repaint(self) -> None:
        """See LaunchActions."""
        self._show()

    def close_dialogs(self) -> None:
        """Back to the main screen, undoing what a dialog only previewed."""
        while self.screen is not self._main:
            dialog = self.screen
            if isinstance(dialog, ThemeChooser):
                dialog.undo()
            self.pop_screen()

    def _apply_ink(self) -> None:
        if self._main.is_running:
            ink = Ink(self.theme_variables)
            self._main.use_ink(ink)
            for dialog in self.screen_stack:
                if isinstance(dialog, ExplainScreen | Sheet):
                    dialog.use_ink(ink)

    def say(self, text: str, *, severity: SeverityLevel = "information") -> None:
        """A notice; the text is text. One that only informs replaces the one before it: keys pressed in a row do not fill the screen."""
        notice = Notification(text, severity=severity, timeout=_NOTICE_S[severity], markup=False)
        if severity == "information":
            if self._passing is not None and self._passing in self._notifications:
                self._unnotify(self._passing)
            self._passing = notice
        self._notifications.add(notice)
        self._refresh_notifications()

    def on_too_small(self) -> None:
        """A dialog over the notice could be neither read nor left."""
        self.close_dialogs()

    # --- actions

    def capable(self, action_id: str) -> bool:
        """Whether an action can do something now."""
        action = BY_ID[action_id]
        if action.changes or action.needs == "orphans":
            return self.why_not_launching(action) is None
        if action.needs == "bench":
            return self.why_not_bench() is None
        snapshot = self._main.snapshot
        if snapshot is None:
            return not action.needs
        has = {
            "servers": bool(snapshot.inventory.servers),
            "server": snapshot.server is not None,
            "launch": snapshot.server is not None or has_card(snapshot),
            "evidence": self._main.quote is not None,
            "no-link": snapshot.link.state != "up",
        }
        return has.get(action.needs, True)

    def action_not_yet(self, action_id: str) -> None:
        """A key of a later version."""
        action = BY_ID[action_id]
        self.say(f"{action.key} {action.label}: not yet.")

    def action_pane_startup(self) -> None:
        """Focus."""
        self._main.go_to("startup")

    def action_pane_health(self) -> None:
        """Focus."""
        self._main.go_to("health")

    def action_pane_gpus(self) -> None:
        """Focus."""
        self._main.go_to("gpus")

    def action_pane_throughput(self) -> None:
        """Focus."""
        self._main.go_to("throughput")

    def action_pane_log(self) -> None:
        """Focus."""
        self._main.go_to("log")

    def action_pane_maximise(self) -> None:
        """The focused pane, else the log."""
        focused = self._main.focused
        self._main.maximise(focused.id if isinstance(focused, Pane) else "log")

    def action_pane_restore(self) -> None:
        """All panes; and what Esc means of a restart."""
        if self._main.maximised_pane is not None or not self.abort_or_close():
            self._main.restore()

    def _scrolled(self) -> Pane:
        """The pane that arrow keys are for: the focused one if it can do something with them, else the log."""
        focused = self._main.focused
        return focused if isinstance(focused, Pane) and focused.takes_arrows else self._main.log_pane

    def action_log_up(self) -> None:
        """A line."""
        self._scrolled().scroll_lines(-1)

    def action_log_down(self) -> None:
        """A line."""
        self._scrolled().scroll_lines(1)

    def action_log_page_up(self) -> None:
        """A screenful."""
        self._main.log_pane.scroll_pages(-1)

    def action_log_page_down(self) -> None:
        """A screenful."""
        self._main.log_pane.scroll_pages(1)

    def action_log_left(self) -> None:
        """Sideways."""
        self._main.log_pane.scroll_side(-1)

    def action_log_right(self) -> None:
        """Sideways."""
        self._main.log_pane.scroll_side(1)

    def action_log_top(self) -> None:
        """The oldest line."""
        self._main.log_pane.go_top()

    def action_log_follow(self) -> None:
        """The newest line."""
        self._main.log_pane.follow()

    def action_log_pause(self) -> None:
        """Hold or follow."""
        self._main.log_pane.toggle_pause()

    def action_log_next_error(self) -> None:
        """The next one, round and round."""
        self._tell_found(self._main.log_pane.show_next(LineKind.ERROR), "error")

    def action_log_next_warning(self) -> None:
        """The next one, round and round."""
        self._tell_found(self._main.log_pane.show_next(LineKind.WARNING), "warning")

    def _tell_found(self, found: Found, what: str) -> None:
        if found != "none":
            self._main.uncover_log()
        told = {
            "none": f"The log shows no {what}.",
            "only": f"That is the only {what} in the log.",
            "wrapped": f"That was the last {what}; this is the first one again.",
        }.get(found)
        if told:
            self.say(told)

    def action_log_evidence(self) -> None:
        """From the card to the log."""
        quote = self._main.quote
        if quote is None:
            self.say("No line is quoted now.")
        self._show_quote(quote)

    def on_offered(self, event: Offered) -> None:
        """An offer of a card was clicked."""
        self.run_action_later(event.action)

    def on_evidence(self, event: Evidence) -> None:
        """A quoted line was clicked."""
        self._show_quote(event.quote)

    def _show_quote(self, quote: Quote | None) -> None:
        if quote is None:
            return
        if not quote.line:
            self.say("That was said by another witness; it is in no line of this log.")
        elif self._main.log_pane.show_quote(quote):
            self._main.uncover_log()
        else:
            self.say("The quoted line is not among the lines kept here; the log on the node has it.")

    def action_server_explain(self) -> None:
        """The whole of it."""
        snapshot = self._main.snapshot
        if snapshot is None or not self.capable("server.explain"):
            self.say("There is no server to explain.")
            return
        self._open(ExplainScreen(snapshot, self._clock()), self._show_quote)

    def action_server_probe(self) -> None:
        """Ask /health."""
        if self.capable("server.probe"):
            self._source.probe_now()
        else:
            self.say("There is no server to ask.")

    def action_link_connect(self) -> None:
        """Try now."""
        link = self._source.snapshot().link
        if link.state == "up":
            latency = "" if link.latency_ms is None else f" ({fmt.latency(link.latency_ms)})"
            self.say(f"The link to {self._node_name} is up{latency}.")
        else:
            self.say(f"Connecting to {self._node_name} …")
            self._source.connect_now()

    def action_server_choose(self) -> None:
        """The list of servers."""
        snapshot = self._main.snapshot or self._source.snapshot()
        if not snapshot.inventory.servers:
            looking = not snapshot.discovered or is_undecided(snapshot.verdict)
            self.say(f"Still looking for servers on {snapshot.node}." if looking else f"No server on {snapshot.node}.")
            return
        if self._open(ServerChooser(snapshot, self._clock()), self._select):
            self._asked_for_server = True

    def _select(self, server_id: str | None) -> None:
        if server_id is not None:
            self._source.select_server(server_id)

    def action_app_theme(self) -> None:
        """Walk through the themes."""
        self._open(ThemeChooser(self._found.themes, self.theme, self._preview))

    def _preview(self, name: str) -> None:
        self.theme = name

    def action_app_help(self) -> None:
        """The keys."""
        fixed = self.operator.read_only if self.operator is not None else None
        self._open(HelpScreen(fixed=fixed))

    def action_app_palette(self) -> None:
        """Find any action."""
        if not self._main.too_small:
            self.action_command_palette()

    def action_command_palette(self) -> None:
        """Textual's own, in a palette that survives a doubled key."""
        if self.use_command_palette and not self._exit and not isinstance(self.screen, Palette):
            self.push_screen(Palette(id="--command-palette"))

    def action_help_quit(self) -> None:
        """What ctrl+c does: it is pressed by reflex, and must not end the watch."""
        self.say("q leaves; the server goes on." if self.screen is self._main else "esc closes this, then q leaves.")

    def action_app_quit(self) -> None:
        """Leave."""
        if self.may_quit():
            self.exit()
