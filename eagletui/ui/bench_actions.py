"""The keys that benchmark a server and look at what was measured. Nothing here sends a request: `Bench` does, and the history is read beside the loop.

What a dialog is made of is imported when it is opened: the first paint does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eagletui.errors import EagletuiError
from eagletui.ui import format as fmt
from eagletui.ui.actions import BY_ID, Action
from eagletui.ui.bench_words import len_failed
from eagletui.ui.launch_actions import AGAIN_S, LaunchActions
from eagletui.ui.panes.bench_bar import Benched
from eagletui.ui.panes.chart_marks import Measured, Window
from eagletui.ui.panes.pane import is_undecided
from eagletui.ui.panes.steps import said

if TYPE_CHECKING:
    from textual.timer import Timer

    from eagletui.bench.load import Load
    from eagletui.bench.outcome import BenchProgress, Result
    from eagletui.bench.runner import Bench, BenchRun
    from eagletui.launching.operator import Operator
    from eagletui.ui.ledger import Ledger
    from eagletui.ui.panes.throughput import Canvas
    from eagletui.ui.screens.experiments import Again, TabName

DEFAULT_PRESET = "quick"
"""What `b` runs; the configuration may say what that name is."""
READ_S = 10.0
"""The history is not waited for any longer."""
MOST_WINDOWS = 40
"""Benchmarks of this session that the chart remembers."""
ROW_CELLS = 64
"""Of the row beside the sentence why a benchmark failed, at most."""
PAINT_S = 0.1
"""The row is painted at most so often: a run tells of each request."""


class BenchActions(LaunchActions):
    """What the app can do about benchmarks. `bench`, `ledger` None: not there yet, or this source has none."""

    bench: Bench | None = None
    ledger: Ledger | None = None
    guarded: Callable[[], str | None] | None = None
    """Why it is asked before this node gets a load; None where it is not."""
    _benched: Benched | None = None
    _followed: BenchRun | None = None
    _bench_paint: Timer | None = None
    _windows: tuple[Window, ...] = ()
    _base_rate: float | None = None

    # --- what the app gives

    def show_bench(self, shown: Benched | None) -> None:
        """Draw the row of a benchmark, or none."""
        raise NotImplementedError

    def use_measuring(self) -> None:
        """`bench`, `ledger` and `guarded` have come (on the app's thread)."""
        if self.bench is not None:
            self.bench.on_change = self._bench_moved
            self._bench_moved()
        self._look_for_baseline()

    # --- where it stands

    @property
    def benching(self) -> BenchRun | None:
        """The run that is under way."""
        return self._followed

    def _bench_moved(self) -> None:
        """Something changed; painted at most every PAINT_S."""
        if self._bench_paint is None and self.is_running:
            self._bench_paint = self.set_timer(PAINT_S, self._paint_bench)

    def _paint_bench(self) -> None:
        self._bench_paint = None
        self.show_bench(self.benched)

    @property
    def benched(self) -> Benched | None:
        """What the row shows: the run under way, else the last one until it was closed."""
        run = self._followed
        if run is not None:
            return Benched(run.load, run.progress, asked=self.was_asked("abort-bench"))
        return self._benched

    def was_asked(self, what: str) -> bool:
        """Whether it was asked for a moment ago."""
        before, at = self._pressed
        return before == what and self.moment() - at <= AGAIN_S

    @property
    def last_result(self) -> Result | None:
        """Of the run that the row tells of."""
        return None if self._benched is None else self._benched.result

    def why_not_bench(self) -> str | None:
        """Why nothing can be benchmarked now."""
        snapshot = self.seen()
        if self.bench is None:
            soon = snapshot.link.state == "connecting"
            return f"{snapshot.node} is not ready for that yet." if soon else "Nothing is benchmarked from here."
        if snapshot.link.state != "up" or snapshot.server is None:
            lost = snapshot.link.state != "up"
            return f"There is no {'link to' if lost else 'server to benchmark on'} {snapshot.node}."
        busy, state = self.busy, snapshot.verdict.state.name
        if busy is not None:
            return f"A {busy.progress.kind} is under way: the server is benchmarked when it is ready."
        if is_undecided(snapshot.verdict):
            return f"The server on {snapshot.node} is still being looked at."
        not_yet = state in ("STARTING", "CRASHED", "STOPPING", "ABSENT")
        return f"The server is {state}: it is benchmarked when it is READY." if not_yet else None

    def why_not_launching(self, action: Action) -> str | None:
        """A server that is being measured is not restarted by a slip of the finger."""
        run = self._followed
        if run is not None and action.changes:
            done = run.progress
            return f"A benchmark is under way ({done.done} of {done.asked}); esc ends it first."
        return super().why_not_launching(action)

    def launch_keys(self) -> tuple[Action, ...]:
        """Those of benchmarks behind those of launches; while one is measured nothing is launched."""
        if self._followed is not None:
            return ()
        keys = super().launch_keys()
        if self.bench is not None and self.why_not_bench() is None:
            keys = (*keys, BY_ID["bench.run"])
        return keys

    # --- actions

    def action_bench_run(self) -> None:
        """The usual one, at once; asked first on a node that has a guard. While one runs: the way to end it."""
        if self._followed is not None:
            self._ask_to_end(self._followed)
            return
        load = self._usual_load()
        if load is None:
            return
        if self.guarded is not None and self.guarded() is not None:
            self._choose(load, asking=True)
        else:
            self._begin_bench(load)

    def action_bench_choose(self) -> None:
        """Which one, and who sends it."""
        if self._followed is not None:
            self.say("A benchmark is under way; one at a time. esc ends it.")
            return
        load = self._usual_load()
        if load is not None:
            self._choose(load, asking=False)

    def _usual_load(self) -> Load | None:
        why_not = self.why_not_bench()
        if why_not is not None or self.bench is None:
            self.say(why_not or "Nothing is benchmarked from here.")
            return None
        try:
            presets = self.bench.presets()
        except EagletuiError as error:
            self.say(said(str(error)), severity="error")
            return None
        return next((one for one in presets if one.preset == DEFAULT_PRESET), presets[0] if presets else None)

    def _choose(self, load: Load, *, asking: bool) -> None:
        if self.bench is None:
            return
        from eagletui.ui.screens.bench_choice import BenchChoice

        guard = self.guarded() if self.guarded is not None else None
        last = self.last_result
        rate = None if last is None or last.tok_s is None else last.tok_s.mean

        def chosen(wanted: Load | None) -> None:
            if wanted is not None:
                self._begin_bench(wanted)

        self.open_dialog(
            BenchChoice(
                self.bench.presets(), self.bench.runners(), load, self.seen(), guard=guard, asking=asking, rate=rate
            ),
            chosen,
        )

    def _begin_bench(self, load: Load) -> None:
        why_not = self.why_not_bench()
        if why_not is not None or self.bench is None or self._followed is not None:
            self.say(why_not or "A benchmark is under way; one at a time.")
            return
        try:
            run = self.bench.begin(load)
        except EagletuiError as error:
            self._end_bench(Benched(load, _nothing(), problem=said(str(error))))
            return
        self._followed, self._benched = run, None
        self._windows = (*self._windows, Window(self.moment(), None))[-MOST_WINDOWS:]
        self.run_worker(self._follow(run), name="benchmark", exit_on_error=False)
        self.show_bench(self.benched)

    async def _follow(self, run: BenchRun) -> None:
        try:
            result = await run.wait()
        except EagletuiError as error:
            self._end_bench(Benched(run.load, run.progress, problem=said(str(error))))
        else:
            self._end_bench(Benched(run.load, run.progress, result))
        finally:
            if self._followed is not None:  # the screen ends, or a mistake of ours, which is told elsewhere
                self._followed = None
                self._mark_end(None)
            self.repaint()

    def _end_bench(self, ended: Benched) -> None:
        self._followed, self._benched = None, ended
        self._mark_end(ended.result)
        self._look_for_baseline()
        for dialog in self.screen_stack:
            reload = getattr(dialog, "reload", None)
            if reload is not None:
                reload()
        if ended.problem is not None:
            if len(ended.problem) > self.size.width - ROW_CELLS:  # else the row has all of it
                self.say(f"Benchmark {said(ended.load.preset)}: {ended.problem}", severity="error")
        elif ended.result is not None and ended.result.failures:
            worst = max(ended.result.failures, key=lambda one: one.count)
            status = "" if worst.status is None else f"{worst.status} "
            self.say(
                f"{fmt.plural(len_failed(ended.result), 'request')} failed: {status}{said(worst.text)}",
                severity="warning",
            )
        self.repaint()

    def _mark_end(self, result: Result | None) -> None:
        """On the chart, where it was measured; nothing where it was not."""
        snapshot = self.seen()
        windows = result.windows if result is not None else ()
        after_wall = snapshot.at - snapshot.wall
        marks = [Window(windows[0][0] + after_wall, windows[-1][1] + after_wall)] if windows else []
        self._windows = (*self._windows[:-1], *marks)

    def _ask_to_end(self, run: BenchRun) -> None:
        if self.twice("abort-bench"):
            run.abort()  # its row says what came of it; a notice would lie over that
        self.show_bench(self.benched)

    # --- what was measured

    @property
    def canvas(self) -> Canvas | None:
        """What draws lines; None before it is loaded."""
        return None

    def action_history_experiments(self) -> None:
        """The runs."""
        self._open_experiments("runs")

    def action_history_launches(self) -> None:
        """The launches."""
        self._open_experiments("launches")

    @property
    def measured(self) -> Measured:
        """What the chart tells: when was measured from here, and the baseline."""
        return Measured(tuple(self._windows), self._base_rate)

    def _look_for_baseline(self) -> None:
        """Read which run is the baseline now."""
        if self.ledger is not None:
            self.run_worker(
                self._reading_baseline(self.ledger),
                name="baseline",
                group="baseline",
                exclusive=True,
                exit_on_error=False,
            )

    async def _reading_baseline(self, ledger: Ledger) -> None:
        from eagletui.monitor.aside import aside
        from eagletui.ui.ledger import server_rate

        try:
            base = (await aside(ledger.look, READ_S)).baseline
        except (EagletuiError, TimeoutError):
            return  # the Experiments screen says it; the chart has no line then
        self._base_rate = None if base is None else server_rate(base.result)
        self.repaint()

    def _open_experiments(self, tab: TabName) -> None:
        if self.ledger is None:
            self.say("No history is kept here.")
            return
        from eagletui.ui.screens.experiments import ExperimentsScreen

        def wall() -> float:
            snapshot = self.seen()
            return snapshot.wall + self.moment() - snapshot.at

        def chosen(again: Again | None) -> None:
            self._look_for_baseline()
            if again is not None:
                self._launch_again(again)

        self.open_dialog(ExperimentsScreen(self.ledger, self.seen().node, wall, tab=tab, canvas=self.canvas), chosen)

    def _launch_again(self, again: Again) -> None:
        """Its plan, once it is known what its flags have otherwise than what would be launched without them."""
        if not self._begin_of("server.restart") or self.operator is None:
            return
        self.run_worker(self._planning_again(self.operator, again), name="again", exclusive=True, exit_on_error=False)

    async def _planning_again(self, operator: Operator, again: Again) -> None:
        from eagletui.ui.relaunch import NOT_KEPT, NotALaunchError, base_wish, with_flags

        known = {one: operator.variants(one) for one in operator.profiles()}
        wish = base_wish(again.entry, self.seen().server, known)
        if not again.command and wish.profile is None:
            self.say(NOT_KEPT, severity="warning")
            return
        try:
            recipe = (await operator.prepare(wish)).recipe
            if recipe is not None and again.command:
                wish = with_flags(wish, recipe.shown_command, again.command)
        except NotALaunchError:
            self.say("Its command is not one that flags can be changed in.", severity="warning")
        except EagletuiError as error:
            self.say(said(str(error)), severity="error")
        else:
            self._open_plan(wish)

    def abort_or_close(self) -> bool:
        """Esc on the main screen: of a benchmark first, then as before."""
        if self._followed is not None:
            self._ask_to_end(self._followed)
            return True
        if self._benched is not None and self.busy is None:
            self._benched = None
            self.repaint()
            return True
        return super().abort_or_close()

    def may_quit(self) -> bool:
        """While something is measured, only at the second press."""
        if self._followed is not None and not self.twice("quit"):
            self.say(
                "A benchmark is under way: q again ends it; what was measured until now is kept.", severity="warning"
            )
            return False
        return super().may_quit()


def _nothing() -> BenchProgress:
    from eagletui.bench.outcome import BenchProgress

    return BenchProgress("ended")
