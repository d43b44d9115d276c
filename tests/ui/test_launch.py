"""A launch on the screen: what is promised and what is not, the card of a failure, its explanation, the way to the lines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from eagletui.logs.state import LogState, Phase, Quote
from eagletui.logs.store import LineStore
from eagletui.monitor.snapshot import LogView, Snapshot, Verdict
from eagletui.servers.model import Reason, State
from eagletui.ui.panes.card import card
from eagletui.ui.panes.checklist import checklist, expected, total_line
from eagletui.ui.panes.startup import StartupPane
from eagletui.ui.panes.status_line import StatusLine
from eagletui.ui.screens.explain import ExplainScreen, ExplanationView
from eagletui.ui.screens.explanation import explanation
from eagletui.ui.widgets.lines import plain, tidy, width_of
from tests.ui import launch_scenes, scenes
from tests.ui.launch_scenes import LAUNCHES, RANKS
from tests.ui.scenes import NOW, SCENES
from tests.ui.test_app import Screen, screen

ESTIMATE = re.compile(r"~ ?\d")


def rows(snapshot: Snapshot, width: int = 62, height: int = 10) -> list[str]:
    return [plain(line).rstrip() for line in checklist(snapshot, NOW, width, height)]


def foot(snapshot: Snapshot, width: int = 56) -> str:
    return plain(total_line(snapshot, snapshot.uptime_s, NOW, width))


def explained(snapshot: Snapshot, width: int = 120) -> str:
    return "\n".join(plain(row.line).rstrip() for row in explanation(snapshot, NOW, width))


def explanation_of(s: Screen) -> ExplanationView:
    return s.app.screen.query_one(ExplanationView)


# ---- the checklist ---------------------------------------------------------------------------------------------------


def test_what_is_done_is_compared_what_runs_is_measured_and_what_comes_is_estimated() -> None:
    text = "\n".join(rows(launch_scenes.estimated()))
    assert re.search(r"^✓ imports +0:14$", text, re.MULTILINE)
    assert re.search(r"^✓ distributed +TP 8, nccl 2\.28\.9 +0:20 \+0:06$", text, re.MULTILINE)
    assert re.search(r"^▸ weights +━+╾?─* 49/64 1\.3/s +1:27 of ~1:49$", text, re.MULTILINE)
    assert re.search(r"^· CUDA graphs +~0:48$", text, re.MULTILINE)
    assert foot(launch_scenes.estimated()) == "2:07, usually 3:12 · ready in ~1:05 (6 starts)"
    assert foot(launch_scenes.estimated(), 30) == "ready in ~1:05 (6 starts)"
    assert foot(launch_scenes.cold()).endswith("(3 cold starts)")


def test_times_stand_in_one_column_whatever_they_are() -> None:
    for scene in LAUNCHES.values():
        snapshot = scene()
        if snapshot.estimate is None or not snapshot.startup.phases:
            continue
        for width in (46, 62, 76):
            lines = checklist(snapshot, NOW, width, 20)
            assert {width_of(line) for line in lines} == {width}
            times = {m.end() for line in lines if (m := re.search(r"\d:\d\d(?= +\+| of|\s*$)", plain(line)))}
            assert len(times) == 1


def test_who_is_late_promises_nothing() -> None:
    assert foot(launch_scenes.late()) == "3:47 so far · weights usually 0:48, now 3:10 (6 starts)"
    assert re.search(r"▸ weights .* 9/64 20 s each +3:10 \+2:22", "\n".join(rows(launch_scenes.late())))
    assert re.search(r"▸ distributed +quiet for 0:58", "\n".join(rows(launch_scenes.quiet())))


def test_ranks_that_differ_and_silences_are_told_where_there_is_room() -> None:
    text = "\n".join(rows(launch_scenes.nearly()))
    assert re.search(r"✓ weights +TP5 slowest, fastest 1:02 +1:24", text)
    assert re.search(r"^ +┆ silent +0:46$", text, re.MULTILINE)
    assert "TP5 slowest" in "\n".join(rows(launch_scenes.nearly(), width=46))
    crowded = rows(launch_scenes.nearly(), width=76, height=7)
    assert len(crowded) == 7
    assert any("TP5 slowest, fastest 1:02 · silent 0:46" in row for row in crowded)
    alike = Phase("weights", "done", 84.0, ranks=tuple((rank, 83.0) for rank, _ in RANKS))
    base = launch_scenes.nearly()
    assert "slowest" not in "\n".join(rows(replace(base, startup=replace(base.startup, phases=(alike,)))))


def test_what_is_to_come_is_what_earlier_launches_had() -> None:
    base = launch_scenes.estimated()
    assert base.estimate is not None
    usual = {"launch": 1.0, "graphs": 2.0, "weights": 3.0, "compile": 4.0}
    odd = replace(base.estimate, usual=usual)  # type: ignore[arg-type]
    assert expected(base.startup, odd) == ["compile"]  # in their order, and graphs were passed by
    assert "compile" not in expected(base.startup, None)


def test_without_earlier_launches_there_is_no_estimate() -> None:
    scenes_without = [made for scene in {**SCENES, **LAUNCHES}.values() if (made := scene()).estimate is None]
    assert len(scenes_without) > 20
    for snapshot in scenes_without:
        pane, status = StartupPane(id="startup"), StatusLine("gpu-node", id="status")
        for width in (46, 62, 76):
            pane.now = status._now = NOW
            view = pane.view_of(snapshot, width, 10)
            lines = [*view.lines, view.foot, view.title, status._line(snapshot, width + 40)]
            assert not [text for text in map(plain, lines) if ESTIMATE.search(text)]
    assert ESTIMATE.search(plain(StatusLine("gpu-node", id="status")._line(launch_scenes.estimated(), 100)))


async def test_the_status_line_says_when_it_is_ready() -> None:
    async with screen(launch_scenes.estimated()) as s:
        assert "weights 49/64 · ready in ~1:05  2:07   STARTING" in s.status()
        s.clock[0] += 3
        s.app._show()
        assert "ready in ~1:02" in s.status()  # it goes on between two snapshots
        assert "ready in ~1:02 (6 starts)" in s.pane("startup")
        await s.change(launch_scenes.late())
        assert "weights  9/64 · usually 0:48" in s.status()
        assert not ESTIMATE.search(s.status())
    async with screen(launch_scenes.estimated(), (80, 24)) as s:
        assert re.search(r"ready in ~1:05  2:07   STARTING", s.status())


async def test_how_long_it_took_stands_beside_how_long_it_takes() -> None:
    async with screen(launch_scenes.nearly()) as s:
        base = scenes.ready()
        serving = replace(launch_scenes.nearly(), estimate=None, startup=replace(base.startup, state="ready"))
        await s.change(serving)  # the log says that it is ready, /health does not yet: nothing jumps
        assert "waiting for /health" in s.status()
        assert re.search(r"✓ distributed .* 0:20 \+0:06 +│", s.pane("startup"))
        await s.change(base)
        assert "✓ ready in 3:12   usually 3:12 (6 starts)" in s.pane("startup")


# ---- the card --------------------------------------------------------------------------------------------------------


async def test_a_crash_turns_the_pane_into_a_card_and_enter_leads_to_its_line() -> None:
    async with screen(launch_scenes.card()) as s:
        assert "Out of GPU memory · TP3 · KV cache  2:12 ago   CRASHED" in s.status()
        words = s.words("startup")
        assert "Out of GPU memory: 21.90 GiB were asked of GPU 3, 19.20 GiB were free" in words
        assert "cuda-oom · KV cache · TP3 · 14:07:31, 2:12 ago" in words
        assert "▸ 849 Scheduler hit an exception" in words
        assert "852 torch.OutOfMemoryError" in words
        assert "Try 0.85." in words
        assert "enter to the line" in s.all().splitlines()[-1]
        assert s.follows()
        await s.pilot.press("1", "down", "enter")
        log = s.main.log_pane
        assert not s.follows()
        assert log.mark is not None
        assert [line.number for line in [log.snapshot.log.store.line(log.mark)] if line] == [852]  # type: ignore[union-attr]
        marked = [row for row in log._rows if any("on-selection" in role for _, role in row)]
        assert len(marked) == 1
        assert "torch.OutOfMemoryError" in plain(marked[0])
        assert "line 852 · paused, G follows" in s.pane("log")
        await s.pilot.press("G")
        assert s.follows()
        await s.pilot.press("space")
        assert not any("on-selection" in role for row in log._rows for _, role in row)


async def test_a_click_on_a_quotation_leads_to_it_and_a_line_that_is_gone_says_so() -> None:
    async with screen(launch_scenes.card(), notices=True) as s:
        at = next(y for y, row in enumerate(s.pane("startup").splitlines()) if " 853 " in row)
        await s.pilot.click("#startup", offset=(10, at))
        await s.pilot.pause()
        assert "line 853" in s.pane("log")
        base = launch_scenes.card()
        assert base.diagnosis is not None
        for line, said in ((17, "The quoted line is not among the lines kept here"), (0, "another witness")):
            await s.change(replace(base, diagnosis=replace(base.diagnosis, evidence=(Quote(line, "words"),))))
            await s.pilot.press("enter")
            assert said in [note.message for note in s.app._notifications][-1]
        assert "line 853" in s.pane("log")  # nothing moved
    async with screen(launch_scenes.card_host_oom()) as s:
        assert "▸ 853 Received sigquit" in s.pane(
            "startup"
        )  # the kernel's words, before it, stand in no log of the server


async def test_lines_have_no_number_where_the_begin_of_the_log_was_not_read() -> None:
    snapshot = launch_scenes.card()
    snapshot.log.store.counted = False
    async with screen(snapshot) as s:
        assert "▸ Scheduler hit an exception" in s.pane("startup")
        await s.pilot.press("enter")
        assert "the quoted line · paused" in s.pane("log")
    assert not re.search("849|812", explained(snapshot))


async def test_a_cause_that_is_not_known_yet_says_what_is() -> None:
    async with screen(launch_scenes.gathering()) as s:
        assert "gathering the cause …" in s.pane("startup")
        assert "▎ torch.OutOfMemoryError" in s.pane("startup")
        await s.change(launch_scenes.never_started())
        assert "gathering" not in s.pane("startup")
        assert "wrote nothing" in s.words("startup")
        await s.change(replace(launch_scenes.never_started(), server=None))  # no process was ever seen
        await s.pilot.press("x")
        assert "CRASHED · never started: It ended 0.3 s after its start" in explanation_of(s).text()


async def test_a_stall_with_a_cause_is_a_card_and_only_one_pane_shouts() -> None:
    async with screen(launch_scenes.stalled_launch(), (120, 36)) as s:
        assert "1 Stalled" in s.pane("startup").splitlines()[0]
        assert "TP5 never joined." in s.words("startup")
        assert "distributed · TP5 · since 14:02:19" in s.words("startup")
        assert s.main.pane("startup")._rows[0][0][1] == "error"
        assert s.main.pane("health")._rows[0][0][1] == "border"


@pytest.mark.parametrize("name", ["card", "card-long", "card-host-oom", "card-short", "stalled-launch"])
def test_a_card_fits_and_keeps_what_matters(name: str) -> None:
    snapshot = LAUNCHES[name]()
    for width, height in ((46, 10), (62, 10), (76, 10), (46, 7), (46, 4)):
        shown = card(snapshot, NOW, width, height, 0)
        assert len(shown.lines) <= height
        assert all(width_of(line) <= width for line in shown.lines)
        assert snapshot.diagnosis is not None
        if height >= 7:
            first = snapshot.diagnosis.advice.split()[0]
            assert any(plain(line).startswith(first) for line in shown.lines)
            assert len(shown.quotes) >= min(1, len(snapshot.diagnosis.evidence))


async def test_what_the_log_says_is_never_markup() -> None:
    async with screen(launch_scenes.hostile_card(), (80, 24)) as s:
        assert "[/foo][bold red]x·[31m·evil·[TP0]" in s.pane("startup")
        assert "TP3 [/foo] [b]x ·]8;;http://x·" in s.pane("startup")
        await s.pilot.press("x")
        text = explanation_of(s).text()
        assert "[/foo][bold red]x·[31m·evil·[TP0]" in text
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text + s.all())


# ---- the explanation -------------------------------------------------------------------------------------------------


async def test_x_explains_all_of_it_and_leads_to_the_log() -> None:
    async with screen(launch_scenes.card()) as s:
        await s.pilot.press("x", "x")
        assert not isinstance(s.top(), ExplainScreen)  # the second one closed it
        await s.pilot.press("x")
        text = explanation_of(s).text()
        for words in ("Out of GPU memory", "What to do", "Evidence", "Timeline", "TP0 1:02 · TP1 1:11", "slow-load"):
            assert words in text
        assert "sk-live" not in text
        assert "api_key" not in text
        await s.pilot.press("escape")
        assert not isinstance(s.top(), ExplainScreen)
        await s.pilot.press("x", "down", "enter")
        await s.pilot.pause()
        assert not isinstance(s.top(), ExplainScreen)
        assert "line 852" in s.pane("log")


def test_how_earlier_launches_ended_is_told_with_what_was_other_then() -> None:
    text = explained(launch_scenes.card())
    told = text[text.index("Earlier starts") :].splitlines()[1:5]
    assert [row.strip() for row in told] == [
        "✗ ended before it was ready",
        "✗ ready, then request-killed-server",
        "✗ cuda-oom  mem_fraction_static 0.9",
        "✓ ready  mem_fraction_static 0.85  2 times",
    ]


async def test_the_explanation_scrolls_goes_on_and_marks_only_what_is_in_sight() -> None:
    async with screen(launch_scenes.card_long(), (80, 24)) as s:
        await s.pilot.press("x")
        view = explanation_of(s)
        assert "more · enter to the line" in view.text()
        assert view.quote == launch_scenes.card_long().diagnosis.evidence[0]  # type: ignore[union-attr]
        for _ in range(60):
            view.walk(1)
            block = next(block for block in view._blocks if block[0] is view.quote)
            assert view.offset_y - 1 <= block[2] or view.offset_y >= view.overflow - view.size.height
        assert view.offset_y == view.overflow
        assert "14 lines" in view.text()
        await s.change(scenes.ready())
        assert "READY: /health answers" in view.text()
        assert "Nothing is wrong." in view.text()


def test_a_server_that_is_well_has_a_timeline_and_its_warnings() -> None:
    text = explained(launch_scenes.deep())
    assert "It goes on, with 2 kinds of warning." in text
    assert re.search(r"1\u00a0281 × requests-retracted +4120 KV cache pool is full", text)
    assert "silent 0:46 from 0:12 on" in text
    assert re.search(r"✓ weights +1:24 +━+┄+━+$", text, re.MULTILINE)
    assert "ready after 3:12" in text


def test_every_state_can_be_explained_in_any_width() -> None:
    for name, scene in {**SCENES, **LAUNCHES}.items():
        for width in (56, 76, 156):
            found = explanation(scene(), NOW, width)
            assert found
            assert not [(name, row) for row in found if width_of(tidy(row.line)) > width]


# ---- errors and warnings ---------------------------------------------------------------------------------------------


async def test_e_walks_over_the_errors_from_the_first_one_on_and_begins_anew() -> None:
    async with screen(launch_scenes.wide_store(), notices=True) as s:
        log = s.main.log_pane
        for mark, place in ((30, "error 1 of 3"), (31, "error 2 of 3"), (200, "error 3 of 3")):
            await s.pilot.press("E")
            assert (log.mark, place in s.pane("log")) == (mark, True)
            assert f"line {mark}" in s.pane("log")
        assert not s.app._notifications
        await s.pilot.press("E")
        assert log.mark == 30
        assert "first one again" in [note.message for note in s.app._notifications][-1]
        await s.pilot.press("W")
        assert log.mark == 120
        await s.pilot.press("E")
        assert log.mark == 200
        await s.pilot.press("g", "E")  # the mark is out of sight: from the top of the picture on
        assert log.mark == 30
        await s.pilot.press("G", "E")
        assert log.mark == 30
        await s.change(scenes.starting())
        await s.pilot.press("E")
        assert "The log shows no error." in [note.message for note in s.app._notifications][-1]


# ---- health ----------------------------------------------------------------------------------------------------------


async def test_the_deep_probe_has_its_age_and_health_its_last_minute() -> None:
    async with screen(launch_scenes.deep()) as s:
        assert re.search(r"/health +200 +1\.1 ms +[▁▂▃▄▅▆]+ +1\.2 s ago", s.pane("health"))
        assert re.search(r"generate 200 +1\.1 s, 2:10 ago", s.pane("health"))
        await s.change(scenes.ready())
        assert re.search(r"generate – +not asked", s.pane("health"))
        await s.change(launch_scenes.stalled_serving())
        assert re.search(r"generate timeout +30 s ago", s.pane("health"))
        assert s.words("health").endswith("tells where ╰───────────────────────────────────────────╯")
    async with screen(launch_scenes.deep(), (80, 24)) as s:
        await s.pilot.press("2")
        assert re.search(r"/health_generate +200 +1\.1 s, 2:10 ago", s.pane("health"))


def test_a_server_that_has_not_spoken_yet_is_at_its_imports() -> None:
    """Half a minute may pass before the first line, and the first lines name no phase; a log that cannot be read claims nothing."""
    base = SCENES["starting"]()
    silent = replace(
        base, startup=LogState(), uptime_s=12.0, estimate=None, log=LogView(LineStore(), "/x", following=True)
    )
    pane = StartupPane(id="startup")
    pane.now = NOW

    def shown(snapshot: Snapshot) -> str:
        return "\n".join(plain(line) for line in pane.view_of(snapshot, 60, 12).lines)

    assert re.search(r"^▸ imports +0:12", shown(silent), re.MULTILINE)
    spoke = replace(silent, log=replace(silent.log, store=base.log.store))
    assert re.search(r"^▸ imports +0:12", shown(spoke), re.MULTILINE)
    for log in (replace(silent.log, following=False), replace(silent.log, error="it cannot be read")):
        assert "has not told a phase" in shown(replace(silent, log=log))
    undecided = replace(spoke, verdict=Verdict(State.UNKNOWN, Reason("looking", "asking the server again")))
    assert "imports" not in shown(undecided)
