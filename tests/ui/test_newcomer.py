"""What a person who opens it for the first time stumbles over: odd terminals, dialogs, small screens, states before anything is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from textual.command import CommandList, CommandPalette
from textual.screen import Screen as TextualScreen
from textual.widgets import OptionList

from eagletui.gpus.model import Gpu, GpuProcess
from eagletui.monitor.snapshot import Snapshot, Verdict
from eagletui.servers.model import Inventory, Reason, State
from eagletui.ui.app import EagleApp
from eagletui.ui.panes.trouble import alarm
from eagletui.ui.screens.choosers import ServerChooser
from eagletui.ui.screens.help import HelpColumn, HelpScreen
from eagletui.ui.screens.once import Dialog
from tests.ui import scenes
from tests.ui.scenes import NOW, SCENES, FakeSource
from tests.ui.test_app import Screen, screen

SMALL = (80, 24)
DIALOGS = ("question_mark", "t", "v", "ctrl+p")


def picture(shown: TextualScreen[object]) -> str:
    """The whole terminal as text."""
    strips = shown._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def with_verdict(state: State, code: str, snapshot: Snapshot | None = None) -> Snapshot:
    return replace(
        snapshot or replace(scenes.no_server(), discovered=False), verdict=Verdict(state, Reason(code, f"{code} words"))
    )


# --- odd terminals


@pytest.mark.parametrize("scene", list(SCENES))
@pytest.mark.parametrize("theme", ["eagle-night", "terminal"])
async def test_no_color_draws_every_scene(scene: str, theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    async with screen(SCENES[scene](), (100, 30), theme) as s:
        assert s.app.no_color
        await s.pilot.resize_terminal(160, 48)
        await s.pilot.pause()
        await s.pilot.resize_terminal(50, 10)
        await s.pilot.resize_terminal(*SMALL)
        await s.pilot.pause()
        assert "? keys" in picture(s.app.screen)


async def test_no_color_opens_every_dialog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with screen(scenes.ready()) as s:
        for key in DIALOGS:
            await s.pilot.press(key)
            await s.pilot.pause(0.3)
            assert s.top() is not s.main
            await s.pilot.press("escape")
            await s.pilot.pause()


@pytest.mark.parametrize("key", DIALOGS)
@pytest.mark.parametrize("theme", ["eagle-night", "terminal"])
async def test_behind_a_dialog_the_screen_is_still_there(key: str, theme: str) -> None:
    async with screen(scenes.ready(), theme=theme) as s:
        await s.pilot.press(key)
        await s.pilot.pause(0.3)
        assert s.top() is not s.main
        shown = picture(s.app.screen)
        assert "READY" in shown
        assert "Decode batch" in shown


async def test_every_word_of_the_chosen_row_differs_from_its_ground() -> None:
    async with screen(scenes.ready(), theme="terminal") as s:
        await s.pilot.press("t")
        await s.pilot.pause()
        strips = s.app.screen._compositor.render_strips()
        segments = [seg for strip in strips if "16 colours" in strip.text for seg in strip if seg.text.strip(" │─╭╮╰╯")]
        chosen = [seg for seg in segments if "16 colours" in seg.text]
        assert chosen
        assert all(seg.style is not None and seg.style.color != seg.style.bgcolor for seg in chosen)
        other = next(
            seg for strip in strips if "high contrast" in strip.text for seg in strip if "high contrast" in seg.text
        )
        assert chosen[0].style.bgcolor != other.style.bgcolor  # type: ignore[union-attr]


# --- before anything is known


@pytest.mark.parametrize("state", [State.ABSENT, State.UNKNOWN, State.OFFLINE])
@pytest.mark.parametrize(("code", "word"), [("looking", "LOOKING"), ("connecting", "CONNECTING")])
async def test_nothing_is_claimed_before_it_was_looked(state: State, code: str, word: str) -> None:
    async with screen(with_verdict(state, code)) as s:
        assert s.status().rstrip().endswith(word)
        roles = [role for text, role in s.main.query_one("#status")._rows[0] if word in text]  # type: ignore[attr-defined]
        assert roles == ["dim on-bar"]
        assert "no server" not in s.all().lower()
        await s.pilot.press("v")
        await s.pilot.pause()
        assert [n.message for n in s.app._notifications] == ["Still looking for servers on gpu-node."]


async def test_the_list_says_looking_too() -> None:
    base = scenes.several()
    looked = (base.verdicts[0][0], Verdict(State.UNKNOWN, Reason("looking", "asking")))
    async with screen(replace(base, verdicts=(looked, *base.verdicts[1:]))) as s:
        assert "LOOKING" in rows_of(s)[0]
        assert "UNKNOWN" not in rows_of(s)[0]


# --- trouble of a GPU in every layout


def with_hot(*hot: int, n: int = 8) -> Snapshot:
    row = tuple(scenes.gpu(i, 90, temp=85 if i in hot else 60, pid=41_823 + i % 8) for i in range(n))
    return replace(scenes.ready(), gpus=scenes.gpu_view(row))


@pytest.mark.parametrize("size", [(160, 48), (120, 36), (80, 48), (80, 24), (60, 16)])
async def test_a_hot_gpu_is_named_in_every_layout(size: tuple[int, int]) -> None:
    async with screen(with_hot(5), size) as s:
        assert "▲ GPU 5 heat" in s.status()
        tabs = s.pane("startup").splitlines()[0]
        assert ("3 GPUs ▲" in tabs) == ("3 GPUs" in tabs)
        await s.change(with_hot(1, 5, 6))
        assert "▲ 3 GPUs" in s.status()
        await s.change(with_hot())
        assert "▲" not in s.all()


def test_no_alarm_from_what_was_last_seen_or_from_others_memory() -> None:
    hot = with_hot(5)
    assert alarm(hot)
    assert not alarm(replace(hot, link=scenes.offline().link))
    shared = replace(scenes.gpu(1), processes=(GpuProcess(9001, "python3", 40_000, "GPU-1"),))
    assert not alarm(replace(hot, gpus=scenes.gpu_view((shared,))))
    lost = Gpu(7, "GPU-7", "NVIDIA H200", "lost")
    assert alarm(replace(hot, gpus=scenes.gpu_view((lost,)))) == "▲ GPU 7 lost"


@pytest.mark.parametrize(
    ("size", "n", "hot"), [((60, 16), 8, (6, 7)), ((80, 16), 16, (13, 15)), ((80, 24), 24, (22, 23))]
)
async def test_trouble_is_seen_where_not_all_gpus_are(size: tuple[int, int], n: int, hot: tuple[int, ...]) -> None:
    async with screen(with_hot(*hot, n=n), size) as s:
        await s.pilot.press("3")
        await s.pilot.pause()
        text = s.pane("gpus")
        seen = {int(i) for i in re.findall(r"(?:│|  ) ?(\d+) +90 ", text)}
        assert set(hot) <= seen
        assert text.count("▲") == len(hot) + 1  # and one in the tab
        found = re.search(r"… (\d+) more", text)
        assert found is not None
        assert int(found[1]) == n - len(seen)


async def test_gpus_keep_their_order_where_all_fit() -> None:
    async with screen(with_hot(6)) as s:
        rows = re.findall(r"^│ (\d) ", s.pane("gpus"), re.MULTILINE)
        assert rows == [str(i) for i in range(8)]
        assert "more" not in s.pane("gpus")


async def test_a_wide_gpu_pane_has_a_cell_for_each_second() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("3", "m")
        await s.pilot.pause()
        row = next(line for line in s.pane("gpus").splitlines() if line.startswith("│ 3"))
        assert len(re.findall("[▁▂▃▄▅▆]", row)) == 60


# --- tabs, footer, status line


@pytest.mark.parametrize("scene", ["ready", "starting", "crashed", "offline"])
async def test_a_tab_has_the_same_word_whichever_is_shown(scene: str) -> None:
    async with screen(SCENES[scene](), SMALL) as s:
        words = set()
        for key, pane in (("1", "startup"), ("2", "health"), ("3", "gpus"), ("4", "throughput")):
            await s.pilot.press(key)
            await s.pilot.pause()
            found = re.search(r"1 (\w+)  2 Health", s.pane(pane).splitlines()[0])
            assert found is not None
            words.add(found[1])
        assert len(words) == 1


async def test_a_tab_follows_the_state_while_another_is_shown() -> None:
    async with screen(scenes.starting(), SMALL) as s:
        await s.pilot.press("2")
        await s.change(scenes.crashed())
        assert "1 Crash  2 Health" in s.pane("health").splitlines()[0]


@pytest.mark.parametrize("width", [60, 70, 80, 100])
async def test_the_way_out_stays_in_the_footer(width: int) -> None:
    async with screen(scenes.ready(), (width, 24)) as s:
        await s.pilot.press("m")
        await s.pilot.pause()
        foot = s.all().splitlines()[-1]
        assert "? keys" in foot
        assert "q quit" in foot
        assert foot.index("? keys") < foot.index("q quit")
        assert "…" not in foot


async def test_nothing_moves_sideways_with_the_latency() -> None:
    base = scenes.ready()
    async with screen(base) as s:
        at = s.status().index("Kimi")
        for ms in (0.4, 9.9, 104.0, 999.4, 1500.0, 12_000.0):
            await s.change(replace(base, link=replace(base.link, latency_ms=ms)))
            assert s.status().index("Kimi") == at


async def test_ages_within_a_second_do_not_jitter() -> None:
    base = scenes.ready()
    texts = set()
    async with screen(base) as s:
        for old in (0.0, 0.3, 0.9):
            await s.change(
                replace(base, health=replace(base.health, at=NOW - old), log=replace(base.log, grew_at=NOW - old))
            )
            texts.add(s.pane("health"))
    assert len(texts) == 1
    assert "now" in texts.pop()


# --- the list of servers


def rows_of(s: Screen) -> list[str]:
    listing = s.app.screen.query_one(OptionList)
    return [str(listing.get_option_at_index(i).prompt) for i in range(listing.option_count)]


async def test_the_open_list_follows_the_node_and_keeps_its_highlight() -> None:
    base = scenes.several()
    async with screen(base) as s:
        await s.pilot.press("down")
        listing = s.app.screen.query_one(OptionList)
        assert listing.highlighted == 1
        assert "CRASHED" in rows_of(s)[1]
        assert "up 2:14:08" in rows_of(s)[1]
        s.clock[0] += 3.0
        now_ready = (base.verdicts[1][0], base.verdicts[0][1])
        await s.change(replace(base, verdicts=(base.verdicts[0], now_ready, base.verdicts[2])))
        assert "READY" in rows_of(s)[1]
        assert "up 2:14:11" in rows_of(s)[1]
        assert listing.highlighted == 1
        servers = base.inventory.servers
        await s.change(replace(base, inventory=scenes.inventory(*servers[1:])))
        assert listing.highlighted == 0
        assert "Llama" in rows_of(s)[0]
        await s.pilot.press("enter")
        await s.pilot.pause()
        assert s.source.selected == [servers[1].id]


async def test_a_list_that_runs_empty_says_so() -> None:
    base = scenes.several()
    async with screen(base) as s:
        await s.change(replace(base, inventory=Inventory()))
        assert rows_of(s) == ["None is left."]
        await s.pilot.press("enter", "escape")
        await s.pilot.pause()
        assert s.source.selected == []
        assert s.top() is s.main


async def test_there_is_one_list_whoever_opens_it() -> None:
    base = scenes.several()
    async with screen(replace(base, undecided=False)) as s:
        await s.pilot.press("v")
        await s.pilot.pause()
        await s.change(base)
        s.app.action_server_choose()
        await s.pilot.pause()
        assert sum(isinstance(x, ServerChooser) for x in s.app.screen_stack) == 1
        await s.pilot.press("escape")
        await s.change(base)
        assert s.top() is s.main


async def test_the_list_waits_for_another_dialog() -> None:
    base = scenes.several()
    async with screen(replace(base, undecided=False)) as s:
        await s.pilot.press("question_mark")
        await s.pilot.pause()
        await s.change(base)
        assert isinstance(s.top(), HelpScreen)
        await s.pilot.press("escape")
        await s.change(base)
        assert isinstance(s.top(), ServerChooser)


# --- help, palette, notices


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (160, 48)])
async def test_help_wraps_beside_its_keys_and_tells_of_more(size: tuple[int, int]) -> None:
    async with screen(scenes.ready(), size) as s:
        await s.pilot.press("question_mark")
        await s.pilot.pause()
        box = s.app.screen.query_one("#help")
        for column in s.app.screen.query(HelpColumn):
            rows = [str(row) for row in column.table(column.content_size.width)]
            assert len(rows) == column.size.height
            assert max(len(row) for row in rows) <= column.content_size.width
        assert ("more" in str(box.border_subtitle)) == (size[1] < 48)
        if size[1] == 48:
            return
        assert re.search(r"↓ \d+ more", str(box.border_subtitle))
        await s.pilot.press("end")
        await s.pilot.pause()
        assert "↓" not in str(box.border_subtitle)
        assert box.region.bottom <= size[1]


def test_a_long_sentence_never_runs_into_the_keys() -> None:
    from eagletui.ui.actions import BY_ID

    rows = HelpColumn([("Panes", [BY_ID["pane.maximise"]])], classes="").table(30)
    assert [str(r) for r in rows] == [
        "Panes",
        "m       This pane alone, or",
        "        all (also: double",
        "        click)",
    ]


async def test_the_palette_lists_everything_in_a_width_that_can_be_read() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("ctrl+p")
        await s.pilot.pause(0.5)
        assert isinstance(s.top(), CommandPalette)
        listing = s.app.screen.query_one(CommandList)
        texts = [str(listing.get_option_at_index(i).prompt) for i in range(listing.option_count)]
        assert listing.outer_size.width <= 90
        assert any(t.startswith("Go to the Server pane") for t in texts)
        later = [i for i, t in enumerate(texts) if "(not yet)" in t]
        assert later
        assert min(later) > max(i for i, t in enumerate(texts) if "(not yet)" not in t)
        assert "🔎" not in picture(s.app.screen)


async def test_notices_of_keys_replace_each_other_and_warnings_stay() -> None:
    async with screen(scenes.ready(), notices=True) as s:
        s.app.say("a warning", severity="warning")
        await s.pilot.press("r", "s", "b", "ctrl+c")
        await s.pilot.pause(0.1)
        assert len(s.app.screen.query("Toast")) == 2
        assert [n.message for n in s.app._notifications] == ["a warning", "q leaves; the server goes on."]
        assert s.app.is_running


@pytest.mark.parametrize("key", ["question_mark", "t", "v"])
async def test_the_reflex_to_leave_is_answered_in_a_dialog_too(key: str) -> None:
    async with screen(scenes.ready(), notices=True) as s:
        await s.pilot.press(key)
        await s.pilot.pause()
        await s.pilot.press("ctrl+c")
        await s.pilot.pause(0.1)
        assert "esc closes this, then q leaves." in picture(s.app.screen)


async def test_a_wrong_theme_is_told_on_the_screen() -> None:
    async with screen(scenes.ready(), theme="no-such-theme", notices=True) as s:
        await s.pilot.pause(0.1)
        assert "No theme is called no-such-theme" in " ".join(picture(s.app.screen).split())


async def test_the_theme_picker_promises_what_it_does() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("t")
        await s.pilot.pause()
        assert "enter keeps it for this session" in str(s.app.screen.query_one("#themes").border_subtitle)


# --- too small


@pytest.mark.parametrize("key", DIALOGS)
async def test_no_dialog_stays_or_opens_over_the_notice(key: str) -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press(key)
        await s.pilot.pause(0.2)
        assert s.top() is not s.main
        if key == "t":
            await s.pilot.press("down")
        await s.pilot.resize_terminal(50, 12)
        await s.pilot.pause(0.1)
        assert s.top() is s.main
        assert s.app.theme == "eagle-night"
        await s.pilot.press(key)
        await s.pilot.pause(0.2)
        assert s.top() is s.main
        assert "This terminal is 50×12." in picture(s.app.screen)


async def test_the_automatic_list_waits_for_room() -> None:
    async with screen(scenes.several(), (50, 12)) as s:
        assert s.top() is s.main
        await s.pilot.resize_terminal(160, 48)
        await s.change(s.source.now)
        assert isinstance(s.top(), ServerChooser)


@pytest.mark.parametrize("keys", [("ctrl+p",), ("t",), ("v",), ("question_mark",)])
async def test_a_doubled_key_closes_a_dialog_once(keys: tuple[str, ...]) -> None:
    """Both keys arrive before the dialog is gone: the second must not pop the main screen."""
    app = EagleApp(FakeSource(SCENES["several"]()), node_name="gpu-node", clock=lambda: NOW)
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.pause()
        if isinstance(app.screen, Dialog):
            await pilot.press("escape")
        await pilot.press(*keys)
        await pilot.pause(0.5)
        dialog = app.screen
        dialog.dismiss()
        dialog.dismiss()
        for key in ("enter", "enter", "escape", "escape"):
            app.simulate_key(key)
        await pilot.pause(0.3)
        assert app.is_running
        assert len(app.screen_stack) >= 1
