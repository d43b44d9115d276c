"""The link on the screen: how good it is, that it is lost, what comes next, and that nothing old looks like now."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from eagletui.monitor.series import Series
from eagletui.monitor.snapshot import Link
from eagletui.ui.panes.link_words import level, link_words
from eagletui.ui.panes.throughput import mark_gaps
from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import plain
from eagletui.ui.widgets.plot import breaks, runs
from tests.ui import scenes
from tests.ui.scenes import NOW, SCENES
from tests.ui.test_app import screen

SIZES = [(160, 48), (120, 36), (80, 24)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "scene", ["starting", "ready", "crashed", "stalled", "trouble", "no-server", "long", "reconnected"]
)
async def test_the_latency_is_told_in_every_state_and_width(scene: str, size: tuple[int, int]) -> None:
    async with screen(SCENES[scene](), size) as s:
        assert (" 340 ms" if scene == "reconnected" else "  11 ms") in s.status()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("scene", "words"),
    [("reconnecting", "lost 0:42 ago · next try in  3 s"), ("trying", "lost 0:42 ago · connecting"), ("needs-person", "lost 0:42 ago · c logs in again")],
)  # fmt: skip
async def test_a_lost_link_is_told_in_every_width(scene: str, words: str, size: tuple[int, int]) -> None:
    async with screen(SCENES[scene](), size) as s:
        assert f"○ {words}" in s.status()
        assert s.status().rstrip().endswith("OFFLINE")
        assert words in s.pane("startup")
        assert "c connect" in s.main.query_one("#footer", Painted).text()


@pytest.mark.parametrize("key", ["v", "t", "question_mark"])
async def test_c_works_over_a_dialog_too(key: str) -> None:
    async with screen(scenes.ready()) as s:
        await s.pilot.press(key)
        await s.change(scenes.needs_person())
        await s.pilot.press("c")
        assert s.source.connects == 1


async def test_a_long_name_gives_way_to_the_lost_link() -> None:
    lost = scenes.reconnecting()
    async with screen(replace(lost, node="gpu-node-with-a-long-name.cluster.internal.example.org"), (60, 16)) as s:
        assert "lost 0:42" in s.status()
        assert "OFFLINE" in s.status()


async def test_the_countdown_counts() -> None:
    async with screen(scenes.reconnecting()) as s:
        for passed, words in ((1.0, "next try in  2 s"), (2.0, "next try in  1 s"), (3.0, "next try in  0 s")):
            s.clock[0] = NOW + passed
            s.app._show()
            await s.pilot.pause()
            assert words in s.status()
            assert re.search(rf"link     lost     0:4\d ago · try in +{words[-3:]}", s.pane("health"))


async def test_c_connects_when_the_link_is_lost_and_else_says_that_it_is_up() -> None:
    async with screen(scenes.ready(), notices=True) as s:
        assert not s.app.capable("link.connect")
        assert "c connect" not in s.main.query_one("#footer", Painted).text()
        await s.pilot.press("c")
        assert s.source.connects == 0
        assert [n.message for n in s.app._notifications] == ["The link to gpu-node is up (11 ms)."]
        await s.change(scenes.needs_person())
        assert s.app.capable("link.connect")
        await s.pilot.press("c")
        assert s.source.connects == 1


@pytest.mark.parametrize("size", [(160, 48), (120, 36)])
async def test_a_sleep_is_told(size: tuple[int, int]) -> None:
    async with screen(scenes.reconnected(), size) as s:
        assert "this machine slept 12:30" in s.pane("health")


def roles(painted: Painted, *words: str) -> set[str]:
    return {role for row in painted._rows for text, role in row if any(word in text for word in words)}


@pytest.mark.parametrize("scene", ["reconnecting", "trying", "needs-person", "reconnected"])
async def test_what_was_seen_before_the_break_is_dim_with_its_age(scene: str) -> None:
    async with screen(SCENES[scene]()) as s:
        health = s.main.pane("health")
        assert roles(health, "200", "12 of 12", "quiet", "2:14:08") == {"dim"}
        assert "12 of 12, 42 s ago" in s.pane("health")
        for name in ("gpus", "throughput"):
            assert "42 s ago" in s.pane(name).splitlines()[0]
        assert roles(s.main.pane("gpus"), "132.", "━") <= {"dim", "track"}
        assert roles(s.main.pane("throughput"), "82.2") == {"dim"}
        assert "READY" not in s.status()


async def test_fresh_figures_are_bright_again_one_by_one() -> None:
    base = scenes.reconnected()
    async with screen(replace(base, health=replace(base.health, at=NOW - 0.1))) as s:
        assert roles(s.main.pane("health"), "200") == {"ok"}
        assert roles(s.main.pane("health"), "12 of 12") == {"dim"}


def test_no_alarm_from_before_the_break() -> None:
    from eagletui.ui.panes.trouble import alarm

    hot = scenes.trouble()
    assert alarm(hot)
    for scene in (scenes.trying(), scenes.reconnected()):
        assert not alarm(replace(scene, gpus=replace(hot.gpus, at=NOW - 42.0)))


@pytest.mark.parametrize(
    ("recent", "sign", "role"),
    [
        ((11.0,) * 5, "●", "ok"),
        ((11.0, 11.0, 11.0, 2_000.0, 11.0), "●", "ok"),
        ((300.0,) * 5, "◐", "warning"),
        ((1_500.0,) * 5, "◔", "error"),
        ((11.0, None, 300.0, 300.0), "◐", "warning"),
        ((), "●", "ok"),
    ],
)
def test_levels_of_latency(recent: tuple[float | None, ...], sign: str, role: str) -> None:
    assert level(recent[-1] if recent else None, recent) == (sign, role)


@pytest.mark.parametrize(
    ("room", "words"),
    [(40, "○ lost 0:42 ago · next try in  3 s"), (25, "○ lost 0:42 · try in  3 s"), (5, "○ lost 0:42")],
)
def test_the_link_says_what_fits(room: int, words: str) -> None:
    link = Link("down", lost_at=NOW - 42, retry_at=NOW + 2.4)
    assert plain(link_words(link, NOW, room)) == words


# --- gaps


def test_a_gap_breaks_the_line_however_short_and_known_points_in_it_do_not() -> None:
    points = (1.0, 1.0, None, None, 1.0, 1.0)
    assert len(runs(points, 10)) == 1
    assert [[x for x, _ in run] for run in runs(points, 10, ((2, 3),))] == [[0, 1], [4, 5]]
    assert len(runs((1.0,) * 6, 10, ((1, 4),))) == 1  # known after all
    assert [[x for x, _ in run] for run in runs((1.0,) * 4, 10, ((1, 1),))] == [[0, 1], [2, 3]]


def test_gaps_of_a_series() -> None:
    series = Series()
    series.append(1.0, 5.0)
    series.gap_began(2.0)
    series.gap_began(3.0)  # it goes on already
    assert series.gaps(0, 10) == [(2.0, 10)]
    series.gap_ended(6.0)
    series.gap_ended(7.0)
    assert series.gaps(0, 10) == [(2.0, 6.0)]
    assert series.gaps(4, 5) == [(4, 5)]
    assert series.gaps(7, 10) == []
    assert breaks(series.gaps(0, 10), 0, 10, 10) == ((2, 6),)


def test_a_sleep_makes_points_older_and_leaves_a_gap() -> None:
    series = Series()
    series.append(90.0, 5.0)
    series.slept(100.0, 50.0)
    series.append(101.0, 6.0)
    assert series.window(0, 200) == ([40.0, 101.0], [5.0, 6.0])
    assert series.gaps(0, 200) == [(50.0, 100.0)]


def test_gaps_are_marked_where_nothing_is_drawn() -> None:
    assert mark_gaps("    ", ((2, 5),)) == ((" ", "chart"), ("╌╌", "faint"), (" ", "chart"))
    assert plain(mark_gaps(" ⣀⣀ ", ((0, 7),))) == "╌⣀⣀╌"
    assert " not seen " in plain(mark_gaps(" " * 16, ((4, 29),)))


async def test_the_chart_ends_where_the_link_did() -> None:
    async with screen(scenes.reconnecting()) as s:
        assert "╌" in s.pane("throughput")
    async with screen(scenes.ready()) as s:
        assert "╌" not in s.pane("throughput")


@pytest.mark.parametrize("size", SIZES)
async def test_a_link_that_is_silent_is_told_before_it_is_lost(size: tuple[int, int]) -> None:
    """Black-holed, it is noticed as lost after 15 s: what is shown meanwhile is not of now."""
    ready = scenes.ready()
    ready = replace(ready, link=replace(ready.link, heard_at=NOW), family_at=NOW, log=replace(ready.log, grew_at=NOW))
    async with screen(ready, size) as s:
        assert "  11 ms" in s.status()
        assert "silent" not in s.status() + s.pane("health")
        s.clock[0] = NOW + 11.0
        s.app._show()
        await s.pilot.pause()
        assert "◔ silent 0:11" in s.status()
        assert "11 ms" not in s.status()
        if size == (80, 24):
            return  # health is a tab there
        health = s.pane("health")
        assert "silent   0:11, no answer" in health
        assert "alive    12 of 12, 11 s ago" in health
        assert "log      grew     11 s ago" in health
        assert "quiet" not in health


@pytest.mark.parametrize("width", [80, 78, 76, 72, 68])
async def test_a_latency_is_never_cut(width: int) -> None:
    crashed = replace(scenes.crashed(), node="etui-user-11004@127.0.0.1:56835.cluster.example.org")
    async with screen(crashed, (width, 24)) as s:
        assert "  11 ms " in s.status()


@pytest.mark.parametrize("size", SIZES)
async def test_why_a_log_is_followed_no_more_is_told_below_its_lines(size: tuple[int, int]) -> None:
    error = "/home/somebody/logs/server.log is no regular file, so its past cannot be read. Send the server's output to a file, and name it with --log."
    ready = scenes.ready()
    async with screen(replace(ready, log=replace(ready.log, error=error, following=False)), size) as s:
        log = s.pane("log")
        said = " ".join(" ".join(line.strip("│ ") for line in log.splitlines()[1:-1]).split())
        assert error in said
        assert "not followed" in log
