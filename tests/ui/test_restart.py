"""A restart on the screen: its plan, its steps, how it fails, the editor of flags, and what is not done."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from eagletui.cli.plan_text import plan_lines
from eagletui.launching.plan import Check, Kept, Plan, Wish
from eagletui.launching.steps import StepName
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.record import Record
from eagletui.ui.actions import ACTIONS
from eagletui.ui.app import EagleApp
from eagletui.ui.panes.steps import failure_card, step_rows
from eagletui.ui.screens.draft import BadChangeError, Draft
from eagletui.ui.screens.orphans import OrphanScreen
from eagletui.ui.screens.plan import PlanScreen
from eagletui.ui.screens.plan_rows import Shown, diff_rows, plan_rows
from eagletui.ui.screens.profiles import ProfileChooser
from eagletui.ui.screens.variant import VariantScreen
from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import Line, plain, tidy, width_of
from tests.ui import restart_scenes as made
from tests.ui import scenes
from tests.ui.fake_operator import FakeOperator
from tests.ui.restart_scenes import PLAN, SECRET
from tests.ui.scenes import HOSTILE, NOW, WALL, FakeSource
from tests.ui.test_app import Screen

ABLE = tuple(action.id for action in ACTIONS)


class Restarting(Screen):
    """The screen over an operator."""

    operator: FakeOperator

    async def keys(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    def picture(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    def notices(self) -> str:
        return "\n".join(notice.message for notice in self.app._notifications)

    def foot(self) -> str:
        return self.main.query_one("#footer", Painted).text()


@asynccontextmanager
async def restarting(
    snapshot: Snapshot, operator: FakeOperator, size: tuple[int, int] = (120, 36)
) -> AsyncIterator[Restarting]:
    source = FakeSource(snapshot)
    clock = [NOW]
    app = EagleApp(source, node_name="gpu-node", clock=lambda: clock[0], operator=operator)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        if app._ticker is not None:
            app._ticker.pause()
        shown = Restarting(app, pilot, source, clock)
        shown.operator = operator
        yield shown


def text_of(lines: list[Line]) -> str:
    return "\n".join(plain(line).rstrip() for line in lines)


def rows(plan: Plan, width: int = 116, height: int = 60, **how: object) -> str:
    return text_of(plan_rows(plan, replace(Shown(WALL), **how), width, height))  # type: ignore[arg-type]


# ---- the plan --------------------------------------------------------------------------------------------------------


def test_a_plan_tells_what_stops_what_runs_how_it_differs_and_what_others_have() -> None:
    text = rows(replace(made.asking_plan(), checks=made.PASSED))
    assert re.search(r"Stops +Kimi-K2\.5-INT4  sglang · port 30000 · pid 41822 · lmsys", text)
    assert re.search(r"since \d\d:\d\d:\d\d \(2:14:08\) · 9 processes · 3 requests running", text)
    assert "▲ kept by run.sh (pid 4711, for 3d 00:00)" in text
    assert re.search(r"− --disable-radix-cache +on$", text, re.MULTILINE)
    assert re.search(r"\+ --enable-metrics +on$", text, re.MULTILINE)
    assert re.search(r"~ --speculative-num-steps +2 +3$", text, re.MULTILINE)
    assert "13 flags as now" in text
    assert re.search(r"Logs to +/data/eagle3/logs/k25-2step-1201-103031\.log", text)
    assert re.search(r"0-7 +1057\.5 GiB  this server", text)
    assert re.search(r"2 +39\.3 GiB  ▲ alice  pid 9001  python train\.py .*left alone", text)
    assert "Another server of bob" in text
    assert "removed after the stop" in text
    assert SECRET not in rows(PLAN, unfolded=True)
    assert "--api-key ***" in rows(PLAN, unfolded=True)


def test_what_starts_again_in_a_unit_has_its_own_folder_log_and_limit() -> None:
    plan = made.asking_plan()
    assert plan.recipe is not None
    recipe = replace(plan.recipe, launcher="systemd", handle="sgl.service", kept_log="unit sgl.service")
    kept = Kept("unit", "user unit sgl.service")
    for told in (
        rows(replace(plan, recipe=recipe, kept=kept, stopped_by="the unit sgl.service")),
        "\n".join(plan_lines(replace(plan, recipe=recipe, kept=kept, stopped_by="the unit sgl.service"), colour=False)),
    ):
        assert re.search(r"[Ll]ogs to +unit sgl\.service$", told, re.MULTILINE)
        assert "as unit sgl.service has it" in told
        assert f"in {plan.recipe.cwd}" not in told
        assert plan.recipe.log not in told
        assert re.search(r"the unit sgl\.service ends it|as long as its unit allows", told)


def test_a_plan_fits_every_width_and_a_long_value_is_told_from_where_it_differs() -> None:
    for name, plan in (("long", made.long_plan()), ("hostile", made.hostile_plan()), ("asks", made.asking_plan())):
        for width in (56, 76, 116, 156):
            for line in plan_rows(replace(plan, checks=made.BAD_FLAG), Shown(WALL, unfolded=True), width, 20):
                assert width_of(tidy(line)) <= width, (name, width, plain(line))
    text = text_of(list(diff_rows(made.long_plan().changes[:1], 100)))
    assert '"num_speculative_tokens": 5}' in text
    assert '"num_speculative_tokens": 3}' in text
    assert "/mnt/very" not in text


async def test_r_shows_the_plan_and_only_enter_begins_it() -> None:
    operator = made.of(PLAN, first=made.CHECKING)()
    async with restarting(scenes.ready(), operator) as s:
        assert "r restart" in s.foot()
        await s.keys("r")
        assert isinstance(s.top(), PlanScreen)
        assert "9 checks passed" in s.picture()
        assert operator.wishes == [Wish("restart", server="41822:1", port=30_000)]
        await s.keys("escape")
        assert operator.begun == []
        await s.keys("r", "enter")
        assert [plan.checks for plan in operator.begun] == [made.PASSED]
        assert s.top() is s.main
        assert re.search(r"▸ preflight +━.* 0:20 +0:01", s.pane("startup"))
        await s.keys("r")
        assert s.top() is s.main
        assert "A restart is under way already (preflight); one at a time." in s.notices()
        assert len(operator.begun) == 1


@pytest.mark.parametrize(
    ("plan", "checks", "word"),
    [
        (made.refused_plan, made.PASSED, "not done (systemd-unit)"),
        (lambda: PLAN, made.BAD_FLAG, "did you mean --speculative-num-steps?"),
    ],
    ids=["refused", "preflight"],
)
async def test_what_is_refused_cannot_be_begun(plan: Callable[[], Plan], checks: tuple[Check, ...], word: str) -> None:
    operator = made.of(plan, checks)()
    async with restarting(scenes.ready(), operator, (80, 24)) as s:
        await s.keys("r", "enter", "y", "a", "enter")
        assert isinstance(s.top(), PlanScreen)
        assert word in " ".join(s.picture().replace("│", " ").replace("┃", " ").split())
        assert operator.begun == []


async def test_what_is_of_no_help_is_done_when_it_is_told_again() -> None:
    operator = made.of(made.hopeless_plan)()
    async with restarting(scenes.ready(), operator) as s:
        await s.keys("r", "enter")
        assert operator.begun == []
        await s.keys("a", "enter")
        assert [plan.wish.again for plan in operator.begun] == [True]


async def test_every_question_is_answered_and_a_name_is_typed() -> None:
    operator = made.of(made.asking_plan)()
    async with restarting(scenes.ready(), operator, (80, 24)) as s:
        await s.keys("r", "enter", "enter")  # enter is no yes
        assert "▸ It is kept by run.sh" in s.picture()
        await s.keys("y", *"gpu-nod", "enter")
        assert "▸ gpu-node is a production node. Type its name" in s.picture()  # in sight above the row to type in
        assert "That is not gpu-node. Nothing was done yet." in s.notices()
        assert operator.begun == []
        await s.keys("e", "enter")
        assert len(operator.begun) == 1
        operator.current = None
        await s.keys("r", "enter", "n")
        assert s.top() is s.main
        assert len(operator.begun) == 1


async def test_a_node_that_does_not_answer_is_told_in_the_plan_and_looked_at_again() -> None:
    operator = made.of(PLAN)()
    operator.failing = "gpu-node did not answer within 20 s"
    async with restarting(scenes.ready(), operator) as s:
        await s.keys("r")
        assert "gpu-node did not answer within 20 s" in s.picture()
        operator.failing = None
        await s.keys("enter")
        assert "9 checks passed" in s.picture()
        assert operator.begun == []


async def test_which_profile_is_asked_where_there_are_several() -> None:
    operator = made.of(PLAN, profiles=("k25", "llama"))()
    async with restarting(scenes.no_server(), operator) as s:
        assert "S start" in s.foot()
        await s.keys("S")
        assert isinstance(s.top(), ProfileChooser)
        await s.keys("down", "enter")
        assert operator.wishes == [Wish("start", profile="llama")]


# ---- the steps -------------------------------------------------------------------------------------------------------


async def test_steps_tick_and_k_ends_a_drain() -> None:
    operator = made.at(made.DRAINS)()
    async with restarting(made.stopping(), operator, (80, 24)) as s:
        assert "STOPPING" in s.status()
        text = s.pane("startup")
        assert re.search(r"✓ preflight +9 checks passed +0:02", text)
        assert re.search(r"▸ stop +━+.* 0:30 +0:14", text)
        assert "drains: 3 requests running, 11 of 12 alive" in text
        assert "k ends it now" in text
        assert "· GPUs free" in text
        assert "k stop now" in s.foot()
        await s.keys("k")
        assert operator.current is not None
        assert operator.current.stops == 1
        await s.keys("escape")  # it has its price: nothing is launched afterwards
        assert operator.current.aborts == 0
        assert "Esc again aborts" in s.notices()
        await s.keys("escape")
        assert operator.current.aborts == 1
        await s.keys("q")
        assert "q again leaves it there" in s.notices()
        assert not s.app._exit


async def test_esc_says_where_it_is_not_safe() -> None:
    operator = made.at(made.LAUNCHING)()
    async with restarting(scenes.no_server(), operator) as s:
        await s.keys("escape", "escape")
        assert operator.current is not None
        assert operator.current.aborts == 0
        assert "It cannot be aborted now: the launch was sent" in s.notices()


async def test_the_start_up_is_shown_as_every_start_up_below_what_went_before() -> None:
    operator = made.at(made.WATCHING)()
    async with restarting(scenes.starting(), operator) as s:
        assert "▸ start-up" in s.pane("startup")  # the monitor has not seen that server yet
        assert operator.current is not None
        operator.current.becomes(replace(made.WATCHING, launched=made.FAMILY[0]))
        await s.pilot.pause()
        text = s.pane("startup")
        assert re.search(r"✓ stop .*0:03", text)
        assert re.search(r"▸ weights .*49/64", text)


async def test_a_start_that_is_only_watched_is_in_nobodys_way() -> None:
    operator = made.at(replace(made.WATCHING, launched=made.FAMILY[0]))()
    watched = operator.current
    async with restarting(scenes.starting(), operator) as s:
        assert "s stop" in s.foot()
        await s.keys("r", "enter")
        await s.app.workers.wait_for_complete()
        assert watched is not None
        assert watched.aborts == 1
        assert len(operator.begun) == 1


async def test_an_offer_of_a_card_can_be_clicked() -> None:
    operator = made.at(made.STUCK)()
    async with restarting(scenes.no_server(), operator) as s:
        lines = s.pane("startup").splitlines()
        row = next(at for at, line in enumerate(lines) if "u the previous command" in line)
        await s.pilot.click("#startup", offset=(lines[row].index("u the previous"), row))
        await s.pilot.pause()
        assert isinstance(s.top(), PlanScreen)
        assert [wish.back for wish in operator.wishes] == [True]


async def test_a_failure_says_what_is_true_now_and_offers_what_makes_sense() -> None:
    operator = made.at(made.STUCK)()
    async with restarting(scenes.no_server(), operator) as s:
        words = s.words("startup")
        assert "Restart: failed" in words
        assert "alice's process 9001 holds 31.4 GiB" in words
        assert "now: The old server is stopped and gone. Nothing was launched" in words
        assert "r try again 3 who holds it u the previous command" in words
        await s.keys("u")
        assert [(wish.kind, wish.back) for wish in operator.wishes] == [("restart", True)]
        await s.keys("escape")
        assert "Restart: failed" in s.words("startup")
        await s.keys("escape")
        assert "No server on gpu-node" in s.words("startup")


def test_the_card_of_a_launch_that_never_started_has_its_words_at_every_size() -> None:
    for width, height in ((46, 10), (62, 10), (76, 10), (56, 6), (40, 3)):
        lines, hits = failure_card(made.NEVER, width, height, ABLE)
        assert len(lines) <= height
        assert all(width_of(tidy(line)) <= width for line in lines)
        assert "no such program" in " ".join(text_of(lines).split()) or height < 5
        for hit in hits:
            assert plain(lines[hit.row])[hit.first : hit.end].split()[0] in ("r", "u", "5")
        if height >= 10:
            assert "pyhton: not found" in text_of(lines)
            assert "exit status 127" in text_of(lines)
    reason = "/very/long/folder" * 9 + ": error while loading libcudart.so.12: no such file"
    lines, _ = failure_card(replace(made.NEVER, printed=(reason,)), 76, 20, ABLE)
    assert "no such file" in text_of(lines)  # the reason of a long line stands at its end


def test_steps_fit_and_the_running_one_is_always_in_sight() -> None:
    for step in StepName:
        if step is StepName.READY:
            continue
        progress = made.sequence(step, 4.0, HOSTILE * 3, lines=(HOSTILE,) * 9)
        for width, height in ((46, 10), (62, 12), (76, 10), (56, 5), (40, 2)):
            lines = step_rows(progress, NOW, width, height)
            assert len(lines) <= height
            assert all(width_of(tidy(line)) <= width for line in lines)
            assert "▸" in text_of(lines)


async def test_what_an_earlier_eagletui_left_is_offered() -> None:
    record = Record(
        "r1",
        "restart",
        "2026-12-01T10:30:31Z",
        "lmsys@laptop",
        profile="k25",
        step="gpus-free",
        text="The GPUs were awaited.",
    )
    operator = made.of(PLAN)()
    async with restarting(replace(scenes.no_server(), unfinished=record), operator) as s:
        assert "A restart of k25 was left at GPUs free" in s.words("startup")
        assert "y go on" in s.foot()
        await s.keys("y")
        assert "lmsys@laptop began it at 2026-12-01T10:30:31Z and left it at the step gpus-free" in s.picture()
        await s.keys("n")
        assert operator.resumed == []
        await s.keys("y", "y")
        assert operator.resumed == [record]
        await s.keys("escape")
        assert "No server on gpu-node" in s.words("startup")


async def test_on_a_production_node_its_name_is_typed_for_what_has_no_plan_too() -> None:
    record = Record("r1", "stop", "2026-12-01T10:30:31Z", "a@b", step="stop", family=((41, 7), (42, 8)))
    operator = made.of(PLAN)()
    operator.confirm_name = "prod"
    async with restarting(replace(made.with_orphans(), unfinished=record, server=None), operator) as s:
        await s.keys("y")
        assert "What is left of the old server is ended: pid 41, 42." in s.picture()
        await s.keys(*"pro", "enter", "escape")
        assert operator.resumed == []
        await s.keys("y", *"prod", "enter")
        assert operator.resumed == [record]
        await s.keys("o", "a", "e", "y")
        assert operator.ended == []
        await s.keys("escape", "o", "a", "e", "y", *"prod", "enter")
        await s.app.workers.wait_for_complete()
        assert len(operator.ended) == 1


# ---- flags -----------------------------------------------------------------------------------------------------------


async def test_flags_are_found_completed_changed_added_and_removed() -> None:
    operator = made.of(PLAN)()
    async with restarting(scenes.ready(), operator, (80, 24)) as s:
        await s.keys("R")
        assert isinstance(s.top(), VariantScreen)
        await s.keys(*"num-steps=5", "enter")  # the row under the cursor is meant
        await s.keys(*"mem-f", "enter", "backspace", "9", "enter")
        await s.keys(*"enable-torch", "tab", "enter")
        await s.keys(*"max-run", "ctrl+d", "escape")
        assert "2 changed · 1 added · 1 removed" in s.picture()
        await s.keys("escape")
        assert "what was changed would be lost" in s.picture()
        await s.keys("ctrl+s")
        assert isinstance(s.top(), PlanScreen)
        assert operator.wishes[-1].changes == (
            ("speculative-num-steps", "5"), ("mem-fraction-static", "0.89"), ("enable-torch-compile", True), ("max-running-requests", None),
        )  # fmt: skip
        await s.keys("escape")  # back to what was typed
        assert isinstance(s.top(), VariantScreen)
        assert "2 changed · 1 added · 1 removed" in s.picture()
        await s.keys(*"tensor-par")  # an alias: the command has --tp
        dialog = s.top()
        assert isinstance(dialog, VariantScreen)
        assert dialog.row is not None
        assert dialog.row.name == "tp"
        assert "esc clear" in s.picture()
        await s.keys("escape")
        assert "esc leave" in s.picture()
        await s.keys(
            "ctrl+z", "ctrl+z"
        )  # the last change, then the one before: nothing that was changed is under the cursor
        assert dialog.draft is not None
        assert [name for name, _ in dialog.draft.changes] == ["speculative-num-steps", "mem-fraction-static"]
        await s.keys("escape", "escape")
        assert s.top() is s.main
        assert operator.begun == []


async def test_a_variant_is_chosen_and_a_flag_without_a_name_is_not_taken() -> None:
    operator = made.of(PLAN)()
    async with restarting(scenes.ready(), operator) as s:
        await s.keys("R", "down", "enter")
        assert operator.wishes[-1].variant == "1step"
        await s.keys("=", "5", "enter")
        dialog = s.top()
        assert isinstance(dialog, VariantScreen)
        assert dialog.draft is not None
        assert dialog.draft.changes == ()
        assert SECRET not in s.picture()


def test_a_draft_keeps_only_what_differs() -> None:
    draft = Draft(PLAN.recipe.shown_command if PLAN.recipe else ())
    assert draft.with_("speculative-num-steps", "3").changes == ()
    changed = draft.with_("tp-size", "4")
    assert changed.changes == (("tp-size", "4"),)
    assert [(one.name, one.after) for one in changed.entries() if one.changed] == [("tp", "4")]
    assert changed.with_("tp", "8").changes == ()
    assert "***" in " ".join(draft.with_("api-key", "sk-other-0123456789").command)
    with pytest.raises(BadChangeError):
        draft.understood("=4")


# ---- orphans, and a node that is only looked at ----------------------------------------------------------------------


async def test_exactly_the_chosen_orphans_are_ended_and_nobody_elses() -> None:
    operator = made.of(PLAN)()
    async with restarting(made.with_orphans(), operator) as s:
        assert "o 4 without a server" in s.pane("gpus")
        await s.keys("o")
        assert isinstance(s.top(), OrphanScreen)
        await s.keys("space")  # alice's, which holds most
        assert "is alice's: it is never ended from here" in s.notices()
        await s.keys("e")
        await s.keys("down", "space", "e")
        assert "End exactly 1 process (pid 500)?" in s.picture()
        await s.keys("escape", "down", "space", "e", "y")
        await s.app.workers.wait_for_complete()
        assert [[one.process.pid for one in ended] for ended in operator.ended] == [[500, 501]]
        await s.keys("o", "a", "e", "n", "escape")
        assert len(operator.ended) == 1


async def test_a_node_that_is_only_looked_at_has_no_key_that_changes_it() -> None:
    operator = made.of(PLAN, read_only=made.READ_ONLY)()
    async with restarting(made.with_orphans(), operator, (80, 24)) as s:
        assert "restart" not in s.foot()
        for key in ("r", "R", "s", "S", "u", "k", "y"):
            await s.keys(key)
            assert s.top() is s.main
            assert made.READ_ONLY in s.notices()
        await s.keys("o", "down", "space", "a", "e", "y", "escape")
        assert operator.wishes == []
        assert operator.begun == []
        assert operator.ended == []
        await s.keys("question_mark")
        assert "read_only = true" in " ".join(str(w.render()) for w in s.app.screen.query(".help-column"))


async def test_an_operator_may_come_late() -> None:
    async with restarting(scenes.ready(), made.of(PLAN)()) as s:
        operator, s.app.operator = s.app.operator, None
        await s.keys("r")
        assert s.top() is s.main
        assert "Nothing is started or stopped from here." in s.notices()
        assert operator is not None
        s.app.use_operator(operator)
        await s.keys("r")
        assert isinstance(s.top(), PlanScreen)
    assert s.operator.closed == 1  # and what it does is left between two commands, while there is a link


@pytest.mark.parametrize("theme", ["eagle-day", "terminal"])
async def test_a_click_on_a_key_is_the_key(theme: str) -> None:
    operator = made.of(PLAN)()
    async with restarting(scenes.ready(), operator, (80, 24)) as s:
        s.app.theme = theme
        await s.keys("r")
        await s.pilot.click("#sheet-keys", offset=(3, 0))
        await s.pilot.pause()
        assert len(operator.begun) == 1
