"""A benchmark from the screen: it begins, is watched, ended, concluded; what is asked first; what the chart tells of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from eagletui.bench.outcome import Failure
from eagletui.errors import BenchError
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui.app import EagleApp
from eagletui.ui.bench_words import about_s
from eagletui.ui.ledger import Kept
from eagletui.ui.panes.bench_bar import BenchBar, Benched, bench_row
from eagletui.ui.panes.chart_marks import Measured, Window, over
from eagletui.ui.screens.bench_choice import BenchChoice
from eagletui.ui.widgets.lines import plain, width_of
from tests.ui import restart_scenes, scenes
from tests.ui.experiment_scenes import DONE, NO_API, PRODUCTION
from tests.ui.fake_bench import MEASURING, OPEN, QUICK, STANDARD, FakeBench, result
from tests.ui.fake_ledger import FakeLedger
from tests.ui.fake_operator import FakeOperator
from tests.ui.scenes import HOSTILE, NOW, WALL, FakeSource
from tests.ui.test_restart import Restarting


class Benching(Restarting):
    """The screen over a bench and a history."""

    bench: FakeBench
    ledger: FakeLedger

    def bar(self) -> str:
        row = self.main.query_one(BenchBar)
        return " ".join(row.text().split()) if row.display else ""

    async def settle(self) -> None:
        """What reads or writes the history is done; a benchmark goes on."""
        if working := [one for one in self.app.workers if one.name != "benchmark"]:
            await self.app.workers.wait_for_complete(working)
        await self.pilot.pause()

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def later(self, seconds: float) -> None:
        self.clock[0] += seconds
        self.app._show()
        await self.pilot.pause()


@asynccontextmanager
async def benching(
    snapshot: Snapshot | None = None, size: tuple[int, int] = (120, 36), *, kept: Kept | None = None, guard: str | None = None,
    operator: FakeOperator | None = None,
) -> AsyncIterator[Benching]:  # fmt: skip
    source = FakeSource(snapshot or scenes.ready())
    clock = [NOW]
    app = EagleApp(source, node_name="gpu-node", clock=lambda: clock[0], operator=operator)
    bench, ledger = FakeBench(), FakeLedger(kept)
    app.bench, app.ledger, app.guarded = bench, ledger, lambda: guard
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        if app._ticker is not None:
            app._ticker.pause()
        shown = Benching(app, pilot, source, clock)
        shown.bench, shown.ledger = bench, ledger
        yield shown
    assert bench.closed == 1  # whichever way the screen ends, no load goes on


async def test_b_runs_the_quick_one_in_a_row_of_its_own_and_says_what_came() -> None:
    async with benching(size=(80, 24)) as s:
        top, log = s.pane("startup"), s.main.log_pane.size.height
        await s.keys("b")
        assert s.bench.begun == [QUICK]
        assert re.match(
            r"quick ━+─+ 14/24 0\.9/s 82\.3 tok/s 0 failed ~0:18 esc ends it|quick .*14/24 .*82\.3 tok/s .*~0:18 esc ends it",
            s.bar(),
        )
        assert s.pane("startup") == top  # nothing but the log gives way, and that by one row
        assert s.main.log_pane.size.height == log - 1
        run = s.bench.current
        assert run is not None
        run.becomes(replace(MEASURING, done=23, failed=2, tok_s=81.0, eta_s=0.9))
        await s.pilot.pause(0.25)
        assert "23/24" in s.bar()
        assert "2 failed" in s.bar()
        run.ends(DONE)
        await s.settle()
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert s.bar().startswith("benchmark quick 82.3 ± 0.7 tok/s ↓ slower by 8.6 %")
        await s.keys("escape")
        assert s.bar() == ""
        assert s.main.log_pane.size.height == log


async def test_a_run_is_ended_at_the_second_press_only_and_nothing_is_restarted_meanwhile() -> None:
    operator = restart_scenes.of(restart_scenes.PLAN)()
    async with benching(operator=operator) as s:
        await s.keys("b", "r", "B")
        assert s.top() is s.main
        assert operator.wishes == []
        assert (
            "A benchmark is under way (14 of 24); esc ends it first." in s.notices() or "one at a time" in s.notices()
        )
        await s.keys("q")
        assert not s.app._exit
        run = s.bench.current
        assert run is not None
        await s.keys("escape")
        assert run.aborts == 0
        assert "esc again ends it" in s.bar()
        await s.later(5.0)
        assert "esc ends it" in s.bar()
        await s.keys("b")  # the first one is forgotten by now
        assert run.aborts == 0
        await s.keys("b")
        assert run.aborts == 1
        run.ends(replace(DONE, complete=False, ok=14))
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert "ended after 14 of 24" in s.bar()
        assert len(s.bench.begun) == 1


async def test_a_run_that_fails_says_why() -> None:
    async with benching() as s:
        await s.keys("b")
        assert s.bench.current is not None
        s.bench.current.ends(BenchError(NO_API))
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert NO_API in s.notices()
        assert "benchmark quick gpu-node: neither" in s.bar()
        await s.keys("b")
        assert len(s.bench.begun) == 2


async def test_a_preset_and_who_sends_are_chosen_and_what_comes_of_it_is_told_before() -> None:
    async with benching(size=(80, 24)) as s:
        await s.keys("B")
        assert isinstance(s.top(), BenchChoice)
        assert re.search(r"▸ quick +3 × 8 +256 → 128 +1 at a time +~0:38", s.picture())
        await s.keys("down", "right")
        text = " ".join(s.picture().replace("│", " ").split())
        assert (
            "sends 3 × 64 requests · 1 024 → 512 tokens · 4 at a time · 4 warm-up requests before · about 197k tokens in and 98.3k out"
            in text.replace("\u00a0", " ")
        )
        assert "on the node, beside the server" in text
        await s.keys("enter")
        assert s.bench.begun == [replace(STANDARD, runner="bench_serving")]


async def test_a_production_node_is_asked_about_and_enter_is_no_yes() -> None:
    async with benching(guard=PRODUCTION) as s:
        await s.keys("b", "enter")
        assert isinstance(s.top(), BenchChoice)
        assert "Run it all the same?" in s.picture()
        assert s.bench.begun == []
        await s.keys("n", "B", "enter", "enter")
        assert s.bench.begun == []
        await s.keys("y")
        assert s.bench.begun == [QUICK]


async def test_what_cannot_be_measured_is_said() -> None:
    async with benching(scenes.starting()) as s:
        await s.keys("b")
        assert "The server is STARTING: it is benchmarked when it is READY." in s.notices()
        await s.change(scenes.no_server())
        await s.keys("B")
        assert "There is no server to benchmark on gpu-node." in s.notices()
        assert s.bench.begun == []
        assert "b benchmark" not in s.foot()


async def test_the_chart_has_the_baseline_and_where_it_was_measured() -> None:
    async with benching() as s:
        await s.keys("4")
        await s.later(2.0)
        assert "baseline 90.0 ╌" in s.pane("throughput")
        assert re.search("╌{20}", s.pane("throughput"))
        assert "b" not in s.pane("throughput").splitlines()[1]
        await s.keys("b")
        await s.later(30.0)
        assert re.search("╌b╌", s.pane("throughput"))


def test_marks_stand_on_blank_cells_and_a_far_baseline_is_left_out() -> None:
    measured = Measured((Window(100.0, 150.0), Window(190.0, None)), 90.0)
    assert measured.near(80.0, 88.0) == 90.0
    assert measured.near(400.0, 500.0) is None
    assert measured.cells(0.0, 200.0, 20) == [(10, True), (15, False), (19, True)]
    rows = over(
        [(("90 ", "dim"), ("    ", "chart")), (("   ", "dim"), (" xx ", "chart")), (("   ", "dim"), (" now", "dim"))],
        3,
        1,
        [(1, True), (3, False)],
    )
    assert [plain(row) for row in rows] == ["90  b ┊", "   ╌xx┊", "    now"]


UNTOLD = Benched(QUICK, replace(MEASURING, tok_s=None, rate=None, eta_s=None))


def test_a_row_fits_every_width_and_says_what_matters_most() -> None:
    hostile = replace(QUICK, preset=HOSTILE * 3)
    bad = result("x", 61.0, began=WALL, verdict="not-comparable", failures=(Failure(503, HOSTILE, 3),))
    for width in (60, 80, 100, 120, 160, 240):
        for shown in (
            Benched(QUICK, MEASURING), Benched(hostile, MEASURING, asked=True), Benched(OPEN, replace(MEASURING, stage="preparing", line=HOSTILE)),
            Benched(hostile, MEASURING, bad), Benched(hostile, MEASURING, problem=HOSTILE * 9), UNTOLD,
        ):  # fmt: skip
            row = bench_row(shown, NOW, width)
            assert width_of(row) == width
            assert "\x1b" not in plain(row)
            assert "esc" in plain(row)
    assert "14/24" in plain(bench_row(Benched(QUICK, MEASURING), NOW, 60))
    assert "3 of 24 failed" in plain(bench_row(Benched(QUICK, MEASURING, bad), NOW, 120))
    unknown = plain(bench_row(UNTOLD, NOW, 120))
    assert re.search(r"– tok/s", unknown)
    assert "0.0" not in unknown


def test_how_long_it_takes_is_told_only_where_it_is_known() -> None:
    assert about_s(QUICK, None) is None
    assert about_s(QUICK, 128.0) == 25.0
    assert about_s(OPEN, None) == 240.4


def test_a_sweep_in_words() -> None:
    from eagletui.bench.load import Load
    from eagletui.bench.sweep.cells import Cell
    from eagletui.bench.sweep.state import CellState, SweepState
    from eagletui.ui.bench_words import sweep_words

    cells = tuple(CellState(Cell(at, f"steps={at}")) for at in range(3))
    state = SweepState("s", "n", "/a/night.toml", None, Load("quick", 1, 1, 1), cells, doing="measuring")
    assert sweep_words(state, 0.0) == "sweep night.toml: cell 1 of 3, steps=0, measuring"
    done = CellState(cells[0].cell, "measured", began=0.0, ended=60.0)
    state = state.put(0, done).put(1, CellState(cells[1].cell, "running", began=60.0))
    assert sweep_words(state, 80.0) == "sweep night.toml: cell 2 of 3, steps=1, measuring, about 1:40 left"
    assert sweep_words(state.put(1, done).put(2, CellState(cells[2].cell, "failed")), 0.0) == ""
