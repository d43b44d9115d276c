"""The parts that know no engine: lines, bars, plots, formats, layout."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from eagletui.ui import format as fmt
from eagletui.ui.screens.layout import plan
from eagletui.ui.widgets.bars import bar, sparkline
from eagletui.ui.widgets.lines import Line, changed, clean, cut, fit, plain, skip, spread, width_of, wrap
from eagletui.ui.widgets.plot import DOTS, NARROWEST, axis, bins, runs, time_labels

TEXT = st.text(max_size=60)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=4), st.integers(0, 50))
def test_a_fitted_line_has_exactly_its_width_and_nothing_that_a_terminal_obeys(texts: list[str], width: int) -> None:
    line = fit(tuple((text, "text") for text in texts), width)
    assert width_of(line) == width
    assert plain(line).isprintable()


@settings(max_examples=60, deadline=None)
@given(TEXT, st.integers(0, 40))
def test_cut_never_exceeds_its_width(text: str, width: int) -> None:
    assert cell_len(cut(clean(text), width)) <= width


@settings(max_examples=60, deadline=None)
@given(TEXT, st.integers(1, 30), st.integers(1, 5))
def test_wrap_keeps_to_its_box(text: str, width: int, limit: int) -> None:
    rows = wrap(text, max(2, width), limit)
    assert len(rows) <= limit
    assert all(cell_len(row) <= max(2, width) for row in rows)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a·[31mb"),
        ("tab\there", "tab here"),
        ("\u202eevil", "·evil"),
        ("1\u00a0820\u2009lines\u3000", "1 820 lines "),
        ("[/foo]", "[/foo]"),
        ("é界", "é界"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_cut_between_spans_is_marked() -> None:
    assert plain(fit((("abc", "a"), ("def", "b")), 3)) == "ab…"
    assert plain(fit((("abc", "a"), ("def", "b")), 5)) == "abcd…"


def test_skip_goes_through_spans_and_wide_characters() -> None:
    assert plain(skip((("abc", "a"), ("def", "b")), 4)) == "ef"
    assert plain(skip((("界界", "a"),), 1)) == " 界"


def test_spread_cuts_the_left() -> None:
    assert plain(spread((("a long left side", "a"),), (("right", "b"),), 12)) == "a lon… right"


def test_changed_names_the_cells_that_differ() -> None:
    old: Line = (("│ ", "b"), ("age ", "d"), ("0.4 s", "t"), ("   ", "t"), (" │", "b"))
    new: Line = (("│ ", "b"), ("age ", "d"), ("1.4 s", "t"), ("   ", "t"), (" │", "b"))
    assert changed(old, old) is None
    assert changed(old, new) == (6, 11)


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0.0, "────────"),
        (0.5, "━━━━────"),
        (1.0, "━━━━━━━━"),
        (0.001, "╾───────"),
        (0.56, "━━━━╾───"),
        (2.0, "━━━━━━━━"),
    ],
)
def test_bar(fraction: float, shown: str) -> None:
    assert plain(bar([(fraction, "util")], 8)) == shown


def test_a_bar_of_two_parts_keeps_its_length() -> None:
    line = bar([(0.4, "memory"), (0.3, "others")], 10)
    assert width_of(line) == 10
    assert [(role, cell_len(text)) for text, role in line] == [("memory", 4), ("others", 3), ("track", 3)]


def test_sparkline_puts_the_newest_right_and_leaves_the_unknown_blank() -> None:
    assert sparkline([0, None, 100], 5, top=100) == "  ▁ ▆"
    assert sparkline([], 3, top=100) == "   "


def test_a_sparkline_moves_by_whole_cells() -> None:
    history = [0] * 8 + [100] + [0] * 3  # the spike is number 8 of an endless count
    shown = [sparkline((history + [0] * k)[-12:], 3, top=100, anchor=11 + k, per=4) for k in range(5)]
    assert shown == ["▁▁▆", "▁▆▁", "▁▆▁", "▁▆▁", "▁▆▁"]


def test_bins_average_and_leave_gaps() -> None:
    assert bins([0.0, 1.0, 6.0, 99.0], [2.0, 4.0, 7.0, 1.0], 0.0, 8.0, 4) == (3.0, None, None, 7.0)


def test_a_pause_is_not_drawn_as_a_slope() -> None:
    assert runs((1.0, None, 2.0, None, None, 3.0), gap=1) == [[(0, 1.0), (2, 2.0)], [(5, 3.0)]]


@settings(max_examples=80, deadline=None)
@given(st.floats(0, 1e5), st.floats(0, 1e5), st.integers(2, 30))
def test_ticks_are_evenly_spaced_and_stand_where_their_values_are_drawn(one: float, other: float, rows: int) -> None:
    low, high = min(one, other), max(one, other)
    scale = axis(low, high, rows)
    assert 0 <= scale.bottom <= low * (1 + 1e-6)
    assert scale.top >= high * (1 - 1e-6)
    assert scale.top - scale.bottom >= NARROWEST * high * (1 - 1e-6)
    ticks = scale.ticks(rows)
    assert len(ticks) >= 2
    assert rows - 1 in ticks
    where = sorted(ticks, reverse=True)
    assert {a - b for a, b in pairwise(where)} == {scale.every}
    for i, row in enumerate(where):
        part = (i * scale.step) / (scale.top - scale.bottom)
        assert part * (DOTS * rows - 1) == pytest.approx(DOTS * (rows - 1 - row))


@pytest.mark.parametrize(
    ("low", "high", "rows", "labels"),
    [
        (75.0, 86.0, 9, ["75", "80", "85"]),
        (3.0, 86.0, 9, ["0", "20", "40", "60", "80"]),
        (0.0, 0.0, 5, ["0.0", "0.5", "1.0"]),
        (0.1, 0.4, 11, ["0.0", "0.2", "0.4"]),
        (100.0, 101.0, 8, ["95", "100", "105"]),
    ],
)
def test_axis_is_round(low: float, high: float, rows: int, labels: list[str]) -> None:
    assert [text for _, text in sorted(axis(low, high, rows).ticks(rows).items(), reverse=True)] == labels


def test_time_labels_end_now() -> None:
    row = time_labels(20, 60)
    assert row.startswith("−20 min")
    assert row.endswith("now")
    assert len(row) == 60
    assert len(time_labels(20, 16)) == 16


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (fmt.duration(None), "–"), (fmt.duration(112), "1:52"), (fmt.duration(8048.9), "2:14:08"), (fmt.duration(273_000), "3d 03:50"),
        (fmt.duration(float("nan")), "–"), (fmt.age(8.6, 10.0), "1.4 s ago"), (fmt.age(9.6, 10.0), "now"), (fmt.age(0.0, 12.3), "12 s ago"),
        (fmt.age(0.0, 130), "2:10 ago"),
        (fmt.age(None, 1), "–"), (fmt.age(11.0, 10.0), "now"), (fmt.gib(135_168), "132.0"), (fmt.gib(None), "–"), (fmt.latency(0.84), "0.8 ms"),
        (fmt.latency(11.2), "11 ms"), (fmt.latency(1100), "1.1 s"), (fmt.count(18_204), "18\u00a0204"), (fmt.watts(5230), "5.2 kW"), (fmt.watts(640), "640 W"),
        (fmt.number(None), "–"), (fmt.plural(1, "warning"), "1 warning"), (fmt.plural(0, "error"), "0 errors"),
    ],
)  # fmt: skip
def test_format(got: str, want: str) -> None:
    assert got == want


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 120),
    st.one_of(st.none(), st.integers(0, 140)),
    st.sampled_from(["startup", "health", "gpus", "throughput"]),
    st.sampled_from([None, "log", "gpus"]),
)
def test_panes_tile_the_screen(width: int, height: int, gpu_rows: int | None, tab: str, maximised: str | None) -> None:
    places = plan(width, height, gpu_rows=gpu_rows, tab=tab, maximised=maximised).places
    cells = [(x + i, y + j) for x, y, w, h in places.values() for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells))
    if places:
        assert len(cells) == width * height
        assert all(w >= 20 and h >= 4 for _, _, w, h in places.values())
    else:
        assert width < 60 or height + 2 < 16


def test_modes() -> None:
    assert plan(160, 46, gpu_rows=12, tab="startup", maximised=None).mode == "wide"
    assert plan(120, 34, gpu_rows=12, tab="startup", maximised=None).mode == "wide"
    assert plan(80, 22, gpu_rows=12, tab="gpus", maximised=None).places.keys() == {"gpus", "log"}
    assert plan(80, 46, gpu_rows=12, tab="gpus", maximised=None).mode == "stack"
    assert plan(59, 22, gpu_rows=12, tab="gpus", maximised=None).mode == "small"
