"""The Experiments screen: its two tables, order, filter, marks, comparison, plot, baseline, notes, launching again; and the history behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from eagletui.bench.kept import KeptRuns
from eagletui.history.launches import Identity, LaunchRecord, PhaseTime, kind_of
from eagletui.history.store import History
from eagletui.launching.plan import Wish
from eagletui.ui.history_ledger import HistoryLedger
from eagletui.ui.ledger import Kept, LaunchEntry, RunEntry
from eagletui.ui.relaunch import base_wish, with_flags
from eagletui.ui.screens.comparison import CompareScreen, LaunchDetails, RunDetails, compare_rows, launch_rows, run_rows
from eagletui.ui.screens.experiment_rows import (
    LAUNCH_COLUMNS,
    RUN_COLUMNS,
    Order,
    filtered,
    fitting,
    header,
    row,
    sorted_by,
)
from eagletui.ui.screens.experiments import ExperimentsScreen
from eagletui.ui.screens.plan import PlanScreen
from eagletui.ui.screens.run_plot import plot_rows
from eagletui.ui.widgets.chart import BrailleChart
from eagletui.ui.widgets.lines import plain, tidy, width_of
from tests.ui import fake_ledger, restart_scenes
from tests.ui.experiment_scenes import COMPARE
from tests.ui.fake_bench import ARGS, result
from tests.ui.fake_ledger import BASE, FakeLedger, campaign
from tests.ui.restart_scenes import COMMAND, SECRET
from tests.ui.scenes import WALL
from tests.ui.test_bench import Benching, benching
from tests.ui.test_restart import text_of

CAMPAIGN = campaign()


def column(s: Benching, word: str) -> list[str]:
    """What stands in the table below a word of its header."""
    lines = s.picture().splitlines()
    at = next(n for n, line in enumerate(lines) if " verdict" in line or " outcome" in line)
    end = lines[at].index(word) + len(word)
    cells = [line[max(0, end - 7) : end + 3].split() for line in lines[at + 1 :]]
    return [cell[0] for cell in cells if cell and cell[0][0] in "0123456789–"]


async def test_the_runs_of_a_campaign_at_a_glance() -> None:
    async with benching(size=(160, 48)) as s:
        await s.keys("e")
        assert isinstance(s.top(), ExperimentsScreen)
        text = s.picture()
        assert re.search(r"▸ +open .*24 min +open-loop +61\.0 .*≠ differs", text)
        assert re.search(
            r"2step +\+spec-algorithm EAGLE3 ·.* 3 h +quick +82\.3 ± 0\.7 +45 +2\.11 .*−8\.6  ↓ slower",
            text,
        )
        assert re.search(r"◆ no-spec .*90\.0 ± 0\.3 +45 +– .*◆ baseline", text)
        assert re.search(r"94\.6 ± 0\.5 .*\+5\.1  ↑ faster", text)
        assert "9 runs" in text
        await s.keys("question_mark")
        assert "launch this variant again: its plan comes first" in s.picture()
        await s.keys("escape", "escape")
        assert s.top() is s.main


async def test_l_shows_launches_and_how_each_went() -> None:
    async with benching(size=(80, 24)) as s:
        await s.keys("l")
        text = s.picture()
        assert re.search(r"▸ +3step .*2 h +✓ ready +3:12 +82\.3 ± 0\.7", text)
        assert re.search(r"4step .*✗ cuda-oom +– ", text)
        await s.keys("tab")
        assert "◆ baseline" in s.picture()
        await s.keys("l", "enter")
        assert isinstance(s.top(), LaunchDetails)
        assert "became ready in 3:12" in s.picture()
        assert SECRET not in s.picture()


async def test_order_by_keys_and_by_the_header_unknown_last() -> None:
    async with benching(size=(160, 48)) as s:
        await s.keys("e")
        lines = s.picture().splitlines()
        y = next(n for n, line in enumerate(lines) if " verdict" in line)
        await s.pilot.click(offset=(lines[y].index("tok/s"), y))
        assert column(s, "tok/s")[0] == "94.6"
        await s.keys("S")
        assert column(s, "tok/s")[:2] == ["53.2", "61.0"]
        await s.keys("s")
        assert "TTFT ms▾" in s.picture()
        at = next(n for n, line in enumerate(s.picture().splitlines()) if " verdict" in line)
        await s.pilot.click(offset=(lines[y].index("accept"), at))
        assert column(s, "accept")[-1] == "–"
        await s.keys("S")
        assert column(s, "accept")[-1] == "–"


async def test_a_filter_follows_what_is_typed_and_esc_gives_all_back() -> None:
    async with benching(size=(80, 24)) as s:
        await s.keys("e", "slash", *"low paper")
        assert "/ low paper  1 of 9 runs" in s.picture()
        await s.keys("enter")
        assert "74.9" not in s.picture()
        await s.keys("slash", *" zz", "enter")
        assert "None has “low paper zz” in it." in s.picture()
        await s.keys("escape")
        assert "9 runs" in s.picture()
        assert isinstance(s.top(), ExperimentsScreen)


async def test_two_that_are_marked_are_compared_side_by_side() -> None:
    async with benching() as s:
        await s.keys(*COMPARE)
        assert isinstance(s.top(), CompareScreen)
        text = s.picture()
        assert "Comparison  A no-spec  B 3step" in text
        assert "B is ↓ slower by 9.2 % than A" in text
        assert re.search(r"tok/s a request +90\.0 ± 0\.3 +81\.7 ± 1\.9 +−9\.2 %  ↓ slower", text)
        assert re.search(r"~ --speculative-num-steps +2 +3", text)
        assert "both were sent quick: 3 × 8 requests" in text
        await s.keys("escape", "escape", "e", "down", "c")  # one that is not marked: with its baseline
        assert "B is ≠ not comparable with A" in s.picture()
        assert "output-len 512, not 128" in s.picture()
        await s.keys("escape", "G", "c")
        assert "This run is the baseline; choose another one" in s.notices()


async def test_a_plot_has_each_run_and_the_baseline_across() -> None:
    async with benching() as s:
        await s.keys("e", "p")
        text = s.picture()
        assert text.count("●") + text.count("◉") == 1 + 8  # and the link's
        assert re.search(r"╌{30}.* 90\.0", text)
        await s.keys("p")
        assert "◉" not in s.picture()


async def test_a_baseline_is_set_a_note_written_and_both_are_there_at_once() -> None:
    async with benching(size=(160, 48)) as s:
        await s.keys("e", "down", "down", "down", "b")
        assert s.ledger.baselines == [("c", False)]
        assert re.search(r"▸ ◆ 2step .*◆ baseline", s.picture())
        assert "The baseline is now 82.3 ± 0.7 tok/s." in s.notices()
        await s.keys("b")
        assert s.ledger.baselines[-1] == ("c", True)
        await s.keys(
            "n", *"be ", "down", *"[/x]", "enter"
        )  # wherever the cursor goes, it is about the one that was chosen
        assert s.ledger.notes == [("c", "be [/x]")]
        assert "be [/x]" in s.picture()
        s.ledger.failing = "The history cannot be used: /x/history.db is damaged"
        await s.keys("n", "enter")
        assert "is damaged" in s.picture()


async def test_nothing_yet_says_what_to_do_and_a_run_that_ends_appears() -> None:
    async with benching(size=(80, 24), kept=Kept()) as s:
        await s.keys("b", "e")
        assert "Nothing was measured here yet." in s.picture()
        s.ledger.kept = CAMPAIGN
        assert s.bench.current is not None
        s.bench.current.ends(CAMPAIGN.runs[2].result)
        await s.app.workers.wait_for_complete()
        await s.pilot.pause()
        assert "9 runs" in s.picture()
        await s.keys("enter")
        assert isinstance(s.top(), RunDetails)


async def test_a_variant_of_the_list_is_launched_again_by_its_plan() -> None:
    operator = restart_scenes.of(restart_scenes.PLAN, profiles=("k25",))()
    async with benching(operator=operator) as s:
        await s.keys("e", *["down"] * 4, "r")  # 1step is a variant that is still known
        assert isinstance(s.top(), PlanScreen)
        wish = Wish("restart", server="41822:1", port=30_000, profile="k25", variant="1step")
        assert operator.wishes == [wish, wish]  # what it comes to, which has the flags of its launch; then its plan
        assert operator.begun == []
        await s.keys("escape", "l", "down", "r")
        assert operator.wishes[-1].variant is None  # 4step is none any more


def test_what_is_launched_again_has_the_flags_of_its_launch() -> None:
    words = {"3": "4", SECRET: "***"}
    other = tuple(words.get(word, word) for word in COMMAND if word != "--enable-metrics")
    wish = base_wish(CAMPAIGN.launches[0], None, {})
    assert wish == Wish("start")
    changed = with_flags(wish, COMMAND, other)
    assert sorted(changed.changes) == [("enable-metrics", None), ("speculative-num-steps", "4")]  # what is masked stays


def test_tables_and_details_fit_every_width_and_nothing_unknown_is_a_number() -> None:
    kept = fake_ledger.hostile()
    nothing = replace(
        result("u", 80.0, began=WALL), tok_s=None, repeat_means=(), ci95=None, ttft_ms=None, accept_len=None
    )
    bare = RunEntry(replace(nothing, input_tokens=None, tok_s_total=None))
    runs = (*CAMPAIGN.runs, *kept.runs, bare)
    for width in (56, 76, 116, 156, 236):
        columns, first = fitting(RUN_COLUMNS, width, runs)
        head, places = header(columns, first, Order())
        assert width_of(head) <= width
        assert places[0][2] == "variant"
        lines = [row(one, columns, first, WALL, width, here=False, mark="A") for one in runs]
        assert {width_of(tidy(line)) for line in lines} == {width}
        others, first = fitting(LAUNCH_COLUMNS, width, CAMPAIGN.launches)
        lines += [row(one, others, first, WALL, width, here=True, mark="") for one in CAMPAIGN.launches]
        for entry in runs:
            lines += run_rows(entry, WALL, width)
            lines += compare_rows(FakeLedger().compare(BASE, entry), WALL, width)
        lines += launch_rows(CAMPAIGN.launches[0], WALL, width)
        lines += plot_rows(runs, BASE, None, BrailleChart(), width, 9)
        assert max(width_of(tidy(line)) for line in lines) <= width
        assert "\x1b" not in text_of([tidy(line) for line in lines])
    unknown = plain(row(bare, *fitting(RUN_COLUMNS, 156, runs), WALL, 156, here=False, mark=""))
    assert "✗ failed" in unknown
    assert unknown.count("–") == 4


def test_filter_and_order_are_of_words_and_values() -> None:
    assert [one.id for one in filtered(CAMPAIGN.runs, "QUICK faster")] == ["f"]
    assert [one.id for one in filtered(CAMPAIGN.runs, "paper")] == ["a"]
    assert [one.id for one in sorted_by(CAMPAIGN.runs, RUN_COLUMNS, Order("delta", down=True))][:2] == ["f", "s"]
    assert [one.id for one in sorted_by(CAMPAIGN.launches, LAUNCH_COLUMNS, Order("ready", down=False))][:2] == [
        "l2",
        "l1",
    ]


def test_the_history_as_the_screen_sees_it(tmp_path: Path) -> None:
    history = History(tmp_path / "history.db")
    for number, steps in enumerate(("2", "3")):
        command = ("python3", "-m", "sglang.launch_server", "--model-path", "/m", "--speculative-num-steps", steps)
        history.record(
            LaunchRecord(
                Identity("m host", None, 100 + number, 7), "gpu-node", kind_of("sglang", command, "/m", 1), command,
                datetime.fromtimestamp(WALL + number, UTC), "ready", (PhaseTime("weights", 61.0),), ready_s=90.0,
            )
        )  # fmt: skip
    kept = KeptRuns(history)
    of = [Identity("m host", None, 100 + number, 7).key for number in (0, 1)]
    kept.record(result("aaa111", 90.0, began=WALL + 10, launch=of[0]))
    kept.record(result("bbb222", 81.0, began=WALL + 20, launch=of[1], args={**ARGS, "speculative-num-steps": "3"}))
    other = result("ccc333", 50.0, began=WALL + 30)
    kept.record(replace(other, facts=replace(other.facts, machine="another", node="elsewhere")))
    ledger = HistoryLedger(history, "gpu-node")
    ledger.set_baseline("aaa111")
    ledger.note("bbb222", "slow")
    seen = ledger.look()
    assert [one.id for one in seen.runs] == ["bbb222", "aaa111"]  # another machine's are not told here
    slow, base = seen.runs
    assert (base.baseline, slow.baseline, slow.note) == (True, False, "slow")
    assert slow.against is not None
    assert slow.against.verdict == "slower"
    assert [(one.flag, one.before, one.after) for one in slow.changes] == [("speculative-num-steps", "2", "3")]
    launches: tuple[LaunchEntry, ...] = seen.launches
    assert [(one.runs, one.changes[:1]) for one in launches] == [(1, slow.changes), (1, ())]
    assert launches[0].best is not None
    assert launches[0].best.id == "bbb222"
    assert launches[0].phases == (("weights", 61.0),)
    compared = ledger.compare(base, slow)
    assert compared.against.verdict == "slower"
    assert seen.base_of(slow) is base
