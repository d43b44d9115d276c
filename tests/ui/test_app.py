"""The screen as a person meets it: scenes at several sizes, keys, what is repainted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.app import SuspendNotSupported
from textual.pilot import Pilot

from eagletui.logs.store import LineKind, StoredLine
from eagletui.monitor.snapshot import Health, Link, Snapshot
from eagletui.ui.actions import ACTIONS
from eagletui.ui.app import EagleApp
from eagletui.ui.panes.throughput import ThroughputPane
from eagletui.ui.screens.choosers import ServerChooser, ThemeChooser
from eagletui.ui.screens.help import HelpScreen
from eagletui.ui.screens.main import MainScreen
from eagletui.ui.widgets.frame import Painted
from tests.ui import scenes
from tests.ui.scenes import NOW, SCENES, FakeSource

WIDE = (160, 48)


class Screen:
    """A running app with a clock of its own."""

    def __init__(self, app: EagleApp, pilot: Pilot[None], source: FakeSource, clock: list[float]) -> None:
        self.app, self.pilot, self.source, self.clock = app, pilot, source, clock

    @property
    def main(self) -> MainScreen:
        return self.app._main

    def follows(self) -> bool:
        return self.main.log_pane.following

    def top(self) -> object:
        """The screen in front."""
        return self.app.screen

    def shown(self, name: str) -> bool:
        return self.main.pane(name).display

    def pane(self, name: str) -> str:
        return self.main.pane(name).text()

    def words(self, name: str) -> str:
        """The pane's text without borders and line breaks."""
        return " ".join(self.pane(name).replace("│", " ").split())

    def status(self) -> str:
        return self.main.query_one("#status", Painted).text()

    def all(self) -> str:
        return "\n".join(w.text() for w in self.main.query(Painted) if w.display)

    async def change(self, snapshot: Snapshot) -> None:
        self.source.change(snapshot)
        await self.pilot.pause()


@asynccontextmanager
async def screen(
    snapshot: Snapshot, size: tuple[int, int] = WIDE, theme: str | None = None, *, notices: bool = False
) -> AsyncIterator[Screen]:
    source = FakeSource(snapshot)
    clock = [NOW]
    app = EagleApp(source, node_name="gpu-node", theme=theme, clock=lambda: clock[0])
    async with app.run_test(size=size, notifications=notices) as pilot:
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        if app._ticker is not None:
            app._ticker.pause()  # the tests say when time passes
        yield Screen(app, pilot, source, clock)


async def test_ready_at_a_glance() -> None:
    async with screen(scenes.ready()) as s:
        assert re.search(
            r"gpu-node  ●  11 ms   Kimi-K2.5-INT4  sglang · TP 8 · EAGLE3.* 82\.2 tok/s  2:14:08   READY", s.status()
        )
        assert "✓ ready in 3:12" in s.pane("startup")
        assert "pid 41822 · port 30000" in s.pane("startup")
        assert re.search(r"/health\s+200\s+1\.1 s, 4\.0 s ago", s.pane("health"))
        assert re.search(r"family\s+alive\s+12 of 12", s.pane("health"))
        assert "8 × H200" in s.pane("gpus")
        assert "ours 1053 · others 0 GiB" in s.pane("gpus")
        assert "82.2 tok/s" in s.pane("throughput")
        assert "accept 2.11 (42 %) · running 1 · queued 0" in s.pane("throughput")
        assert re.search("[\u2801-\u28ff]{3}", s.pane("throughput"))
        assert "following · 492 lines · 4 warnings · 0 errors" in s.pane("log")
        assert "Decode batch" in s.pane("log")


async def test_starting() -> None:
    async with screen(scenes.starting()) as s:
        assert "weights 49/64" in s.status()
        assert not re.search(r"~\d", s.status() + s.pane("startup"))  # an estimate needs history
        text = s.pane("startup")
        assert re.search(r"✓ imports\s+0:14", text)
        assert re.search(r"▸ weights\s+━+╾?─* 49/64 1\.3/s\s+1:27", text)
        assert "· CUDA graphs" in text
        assert "· draft weights" in text  # the arguments say that there is a draft model
        assert "· compile" not in text
        assert "2:07 so far" in text
        assert re.search(r"/health\s+refused\s+opens once loaded", s.pane("health"))
        assert "Throughput  –" in s.pane("throughput")
        assert "⋯ 31 probes of ours" in s.pane("log")


async def test_crashed_quotes_the_evidence() -> None:
    async with screen(scenes.crashed()) as s:
        assert "CRASHED" in s.status()
        text = s.pane("startup")
        assert "Crash" in text
        assert "out of GPU memory while allocating the KV cache, rank TP3" in text
        assert "▎ torch.OutOfMemoryError" in text
        assert "2:12 ago · during KV cache" in text
        assert re.search(r"family\s+gone\s+0 of 12", s.pane("health"))


async def test_a_server_that_never_started_says_so() -> None:
    base = scenes.crashed()
    reason = replace(base.verdict.reason, code="never-started", text="it ended before it listened")
    async with screen(replace(base, verdict=replace(base.verdict, reason=reason))) as s:
        assert "CRASHED · never started" in s.status()


async def test_offline_shows_the_last_picture_with_its_age() -> None:
    async with screen(scenes.offline()) as s:
        assert "OFFLINE" in s.status()
        assert "Is the VPN up?" in s.words("startup")
        assert "42 s ago" in s.pane("gpus").splitlines()[0]
        assert "42 s ago" in s.pane("throughput").splitlines()[0]
        roles = {role for row in s.main.pane("gpus")._rows[2:10] for text, role in row if text.strip(" │")}
        assert roles <= {"dim", "faint", "track"}


async def test_empty_states_help() -> None:
    async with screen(scenes.no_server()) as s:
        assert "No server on gpu-node." in s.pane("startup")
        assert "NO SERVER" in s.status()
        assert "0 errors" not in s.pane("log")
        await s.change(scenes.orphans())
        assert "3 processes of an engine without its server" in s.pane("startup")
        await s.change(scenes.no_gpu())
        assert "nvidia-smi was not found" in s.pane("gpus")
        await s.change(scenes.connecting())
        assert "Connecting to gpu-node" in s.pane("startup")
        assert "CONNECTING" in s.status()


async def test_unknown_is_a_dash_and_never_zero() -> None:
    base = scenes.ready()
    gpus = tuple(
        replace(g, util_pct=None, mem_used_mib=None, mem_total_mib=None, temp_c=None, power_w=None, processes=())
        for g in base.gpus.report.gpus
    )
    async with screen(
        replace(
            base,
            gpus=scenes.gpu_view(gpus),
            health=Health(),
            family_alive=None,
            uptime_s=None,
            link=Link("up"),
        )
    ) as s:
        row = next(line for line in s.pane("gpus").splitlines() if line.startswith("│ 3"))
        assert row.count("–") == 5
        assert not re.search(r"\b0(\.0)?\b", row[4:])
        total = next(line for line in s.pane("gpus").splitlines() if line.startswith("│ Σ"))
        assert "0" not in total
        assert re.search(r"family\s+–", s.pane("health"))


async def test_trouble_is_marked_with_its_reason() -> None:
    async with screen(scenes.trouble()) as s:
        text = s.pane("gpus")
        assert "▲ alice" in text
        assert text.count("▲ heat") == 2
        assert "▲ ECC 2" in text
        assert "fell off the bus" in text
        assert "others 39 GiB" in text
        assert "tokens still flow" in s.pane("health")
        assert s.main.pane("gpus")._rows[0][0][1] == "error"


async def test_sixteen_gpus_fit_in_two_columns() -> None:
    async with screen(scenes.with_gpus(16), (120, 36)) as s:
        text = s.pane("gpus")
        assert all(re.search(rf"(^|\s){i}\s+\d\d ", text, re.MULTILINE) for i in range(16))
    async with screen(scenes.with_gpus(16)) as s:
        assert len([line for line in s.pane("gpus").splitlines() if re.match(r"│ \d+ ", line)]) == 16


async def test_mig_rows() -> None:
    async with screen(scenes.mig()) as s:
        assert re.search(r"└2 1g\.18gb\s+2\.3", s.pane("gpus"))


@pytest.mark.parametrize("size", [(160, 48), (120, 36), (100, 30), (80, 24), (80, 48), (60, 16), (220, 60)])
@pytest.mark.parametrize("scene", ["hostile", "long", "trouble", "crashed", "gpus-16"])
async def test_every_row_is_exactly_as_wide_as_its_place(scene: str, size: tuple[int, int]) -> None:
    async with screen(SCENES[scene](), size) as s:
        seen = 0
        for widget in s.main.query(Painted):
            if widget.display and widget.size.width:
                strips = [widget.render_line(y) for y in range(widget.size.height)]
                seen += len(strips)
                for strip in strips:
                    assert sum(segment.cell_length for segment in strip) == widget.size.width
                    assert strip.text.isprintable()
        assert seen >= size[1]


async def test_remote_text_is_text() -> None:
    async with screen(scenes.hostile()) as s:
        shown = "[/foo][bold red]x·[31m·evil·[TP0]"
        assert shown in s.pane("log")
        assert shown in s.pane("startup")
        assert "\x1b[31m" not in s.app.export_screenshot()
        s.app.say(scenes.HOSTILE, severity="error")
        await s.pilot.pause()
        await s.pilot.press("v")
        await s.pilot.pause()
        assert isinstance(s.top(), ServerChooser)


async def test_nothing_is_repainted_when_nothing_changed() -> None:
    async with screen(scenes.ready()) as s:
        widgets = list(s.main.query(Painted))
        before = [w.painted for w in widgets]
        for _ in range(5):
            await s.change(s.source.now)
        assert [w.painted for w in widgets] == before


async def test_a_second_repaints_only_ages() -> None:
    async with screen(scenes.ready()) as s:
        widgets = list(s.main.query(Painted))
        before = {w.id: w.painted for w in widgets}
        s.clock[0] += 1.0
        s.app._show()
        await s.pilot.pause()
        painted = {w.id: w.painted - before[w.id] for w in widgets}
        assert painted["log"] == painted["gpus"] == painted["startup"] == painted["footer"] == 0
        assert painted["status"] == 1  # the uptime
        assert painted["health"] <= 3  # ages of the probe and of the log, uptime


async def test_a_chart_is_built_once_a_second_at_most_and_only_when_a_column_changed() -> None:
    async with screen(scenes.ready()) as s:
        pane = s.main.query_one(ThroughputPane)
        builds = pane.builds
        assert builds >= 1
        for step in range(20):
            s.clock[0] = NOW + step * 0.1
            series = s.source.now.series["gen_tok_s"]
            series.append(s.clock[0], 70.0 + step)
            await s.change(s.source.now)
        assert pane.builds - builds <= 2
        builds = pane.builds
        s.clock[0] += 1.01
        await s.change(s.source.now)
        await s.change(s.source.now)
        assert pane.builds - builds <= 1


async def test_the_log_follows_pauses_and_counts_what_it_missed() -> None:
    async with screen(scenes.ready()) as s:
        store = s.source.now.log.store
        log = s.main.log_pane

        async def grow(n: int) -> None:
            for _ in range(n):
                store.append(StoredLine(f"new line {store.end}", time="17:00:00", rank="TP0"))
            await s.change(s.source.now)

        await grow(1)
        assert f"new line {store.end - 1}" in s.pane("log")
        await s.pilot.press("up", "up", "up")
        assert not s.follows()
        assert "paused" in s.pane("log")
        painted = log.painted
        shown = s.pane("log").splitlines()[1:-1]
        await grow(50)
        assert s.pane("log").splitlines()[1:-1] == shown
        assert "+50 new" in s.pane("log")
        assert log.painted - painted <= 2  # the badge and the count, no line
        await s.pilot.press("G")
        assert s.follows()
        assert f"new line {store.end - 1}" in s.pane("log")
        await s.pilot.press("g")
        assert "16:10:00" in s.pane("log").splitlines()[1]
        await s.pilot.press("end", "space")
        assert not s.follows()
        await s.pilot.press("space")
        assert s.follows()


async def test_scrolling_down_to_the_end_follows_again() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("pageup")
        assert not s.main.log_pane.following
        await s.pilot.press("pagedown", "pagedown")
        assert s.main.log_pane.following


async def test_lines_scroll_sideways_without_time_and_rank() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("right")
        assert re.search(r"\d\d:\d\d:\d\d TP0 ‹", s.pane("log"))
        await s.pilot.press("left")
        assert "TP0 Decode batch" in s.pane("log")


async def test_a_progress_line_changes_in_place() -> None:
    async with screen(scenes.starting()) as s:
        store = s.source.now.log.store
        store.replace(store.end - 1, StoredLine("Loading shards: 80% | 51/64", LineKind.PROGRESS, rank="TP0"))
        painted = s.main.log_pane.painted
        await s.change(s.source.now)
        assert "51/64" in s.pane("log")
        assert s.main.log_pane.painted - painted == 1


async def test_keys_focus_panes_and_maximise() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("3")
        assert s.main.focused is s.main.pane("gpus")
        await s.pilot.press("m")
        await s.pilot.pause()
        assert s.main.pane("gpus").size.width == 160
        assert not s.shown("log")
        await s.pilot.press("5")
        await s.pilot.pause()
        assert s.main.pane("log").size == s.main.pane("log").size.with_width(160)
        await s.pilot.press("escape")
        await s.pilot.pause()
        assert all(p.display for p in s.main.panes)


async def test_tabs_on_a_small_terminal() -> None:
    async with screen(scenes.starting(), (80, 24)) as s:
        first = s.pane("startup").splitlines()[0]
        assert "1 Startup  2 Health  3 GPUs  4 Throughput" in first
        await s.pilot.press("4")
        await s.pilot.pause()
        assert s.shown("throughput")
        assert not s.shown("startup")
        assert "Nothing was generated yet." in s.pane("throughput")
        at = s.pane("throughput").splitlines()[0].index("3 GPUs")
        await s.pilot.click("#throughput", offset=(at, 0))
        await s.pilot.pause()
        assert s.shown("gpus")
        assert "8 × H200" in s.pane("gpus")


async def test_double_click_maximises() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.click("#gpus", offset=(10, 4), times=2)
        await s.pilot.pause()
        assert s.main.maximised_pane == "gpus"


async def test_too_small_says_so_and_comes_back() -> None:
    async with screen(scenes.ready(), (50, 12)) as s:
        notice = s.main.query_one("#too-small")
        assert bool(notice.display)
        assert not s.main.query_one("#deck").display
        await s.pilot.resize_terminal(160, 48)
        await s.pilot.pause()
        assert not notice.display
        assert "READY" in s.status()
        assert "Decode batch" in s.pane("log")


async def test_every_key_works_or_says_not_yet() -> None:
    async with screen(scenes.ready()) as s:
        for action in ACTIONS:
            if action.id in ("app.quit", "app.palette"):
                continue
            key = {"space": "space", "esc": "escape"}.get(action.key, (action.keys or action.key).split(",")[0])
            await s.pilot.press(key)
            await s.pilot.pause()
            if not action.available:
                assert f"{action.key} {action.label}: not yet." in [n.message for n in s.app._notifications], action.id
            while s.app.screen is not s.main:
                await s.pilot.press("escape")
                await s.pilot.pause()
        assert s.source.probes == 1


async def test_several_servers_are_asked_for_once() -> None:
    async with screen(scenes.several()) as s:
        assert isinstance(s.top(), ServerChooser)
        await s.pilot.press("down", "enter")
        await s.pilot.pause()
        assert s.source.selected == ["52000:1"]
        await s.change(s.source.now)
        assert s.top() is s.main


async def test_help_lists_every_action() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("question_mark")
        await s.pilot.pause()
        assert isinstance(s.top(), HelpScreen)
        text = "\n".join(str(w.render()) for w in s.app.screen.query(".help-column"))
        assert all(a.help in text for a in ACTIONS)
        await s.pilot.press("escape")


async def test_a_theme_is_previewed_and_undone() -> None:
    async with screen(scenes.ready()) as s:
        before = s.main.log_pane.render_line(1)._segments[-1].style
        await s.pilot.press("t")
        await s.pilot.pause()
        assert isinstance(s.top(), ThemeChooser)
        await s.pilot.press("down")
        await s.pilot.pause()
        assert s.app.theme != "eagle-night"
        assert s.main.log_pane.render_line(1)._segments[-1].style != before
        await s.pilot.press("escape")
        await s.pilot.pause()
        assert s.app.theme == "eagle-night"
        assert s.main.log_pane.render_line(1)._segments[-1].style == before
        await s.pilot.press("t", "down", "enter")
        await s.pilot.pause()
        assert s.app.theme != "eagle-night"
        assert s.top() is s.main


@pytest.mark.parametrize("theme", ["eagle-day", "eagle-contrast", "terminal", "eagle-dusk", "no-such-theme"])
async def test_themes_open(theme: str) -> None:
    async with screen(scenes.ready(), theme=theme) as s:
        assert s.app.theme == (theme if theme != "no-such-theme" else "eagle-night")
        notices = [n.message for n in s.app._notifications]
        assert bool(notices) == (theme == "no-such-theme")


async def test_the_palette_finds_actions() -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press("ctrl+p")
        await s.pilot.pause(0.3)
        await s.pilot.press(*"ask")
        await s.pilot.pause(0.6)
        await s.pilot.press("enter")
        await s.pilot.pause(0.3)
        assert s.source.probes == 1


async def test_the_source_is_run_and_closed() -> None:
    async with screen(scenes.ready()) as s:
        source = s.source
        assert source.runs == 1
        await s.pilot.press("q")
    assert source.closed == 1
    assert source.on_change is None


async def test_a_failed_watch_is_offline_with_its_reason() -> None:
    class Broken(FakeSource):
        async def run(self) -> None:
            raise RuntimeError("[/boom]")

    app = EagleApp(Broken(scenes.ready()), node_name="gpu-node", clock=lambda: NOW)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause(0.2)
        status = app._main.query_one("#status", Painted).text()
        assert ("OFFLINE" in status, "READY" in status) == (True, False)
        assert "(RuntimeError: [/boom])" in " ".join(app._main.pane("startup").text().replace("│", " ").split())


async def test_stalled_names_the_reason_and_dims_the_figure() -> None:
    async with screen(scenes.stalled()) as s:
        assert "STALLED" in s.status()
        assert "no token came for 45 s" in s.words("health")
        assert "45 s ago" in s.pane("throughput").splitlines()[0]
        assert s.main.pane("health")._rows[0][0][1] == "error"


@pytest.mark.parametrize("action", ["action_app_theme", "action_app_help", "action_command_palette"])
async def test_a_key_right_behind_q_opens_nothing(action: str) -> None:
    async with screen(scenes.ready()) as s:
        s.app.action_app_quit()
        getattr(s.app, action)()
        assert len(s.app.screen_stack) == 1


async def test_a_screen_without_a_terminal_cannot_be_left() -> None:
    async with screen(scenes.ready()) as s:
        assert not s.app.can_leave_terminal
        with pytest.raises(SuspendNotSupported), s.app.leave_terminal():
            pytest.fail("entered")
        snapshots = s.source.asked
        await s.change(scenes.ready())
        assert s.source.asked > snapshots  # it goes on showing
