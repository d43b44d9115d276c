"""Rounds of `nvidia-smi -l 1`: when each is published, and what of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import Dialect, LoopParser
from tests.gpus.test_nvidia_smi import LOST, line, recorded

WARNING = "WARNING: infoROM is corrupted at gpu 0000:0F:00.0"


def told(reports: list[GpuReport]) -> list[list[tuple[int, str, int | None]]]:
    return [[(g.index, g.state, g.util_pct) for g in report.gpus] for report in reports]


def row(index: int, util: int) -> str:
    return line(index, utilization__gpu=str(util))


def feed(parser: LoopParser, *lines: str) -> list[GpuReport]:
    return parser.feed("".join(f"{text}\n" for text in lines).encode())


def test_the_first_round_waits_for_the_second_and_later_ones_do_not() -> None:
    parser = LoopParser(Dialect.NEW)
    assert feed(parser, row(0, 1), row(1, 2)) == []
    assert told(feed(parser, row(0, 3))) == [[(0, "ok", 1), (1, "ok", 2)]]
    assert told(feed(parser, row(1, 4))) == [[(0, "ok", 3), (1, "ok", 4)]]


def test_a_parser_that_knows_the_gpus_waits_for_nothing() -> None:
    parser = LoopParser(Dialect.NEW, known=(0, 1))
    assert feed(parser, row(0, 1)) == []
    assert told(feed(parser, row(1, 2))) == [[(0, "ok", 1), (1, "ok", 2)]]


def test_one_gpu_is_published_line_by_line() -> None:
    parser = LoopParser(Dialect.NEW, known=(0,))
    assert told(feed(parser, row(0, 1), "", row(0, 2), "")) == [[(0, "ok", 1)], [(0, "ok", 2)]]


def test_any_order_of_gpus() -> None:
    parser = LoopParser(Dialect.NEW)
    lines = [row(1, 1), row(0, 2), row(2, 3), row(1, 4), row(0, 5), row(2, 6), row(2, 7), row(0, 8), row(1, 9)]
    assert told(feed(parser, *lines)) == [
        [(0, "ok", 2), (1, "ok", 1), (2, "ok", 3)],
        [(0, "ok", 5), (1, "ok", 4), (2, "ok", 6)],
        [(0, "ok", 8), (1, "ok", 9), (2, "ok", 7)],
    ]


def test_a_gpu_that_vanishes_delays_one_round() -> None:
    parser = LoopParser(Dialect.NEW, known=(0, 1))
    assert len(feed(parser, row(0, 1), row(1, 1))) == 1
    assert feed(parser, row(0, 2)) == []
    assert told(feed(parser, row(0, 3))) == [[(0, "ok", 2)], [(0, "ok", 3)]]
    assert told(feed(parser, row(0, 4))) == [[(0, "ok", 4)]]


def test_a_gpu_that_comes_back_belongs_to_the_round_before_it() -> None:
    parser = LoopParser(Dialect.NEW, known=(0,))
    assert told(feed(parser, row(0, 1), row(1, 1), row(0, 2), row(1, 2))) == [
        [(0, "ok", 1)],
        [(0, "ok", 1), (1, "ok", 1)],
        [(0, "ok", 2), (1, "ok", 2)],
    ]


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_lost_gpu_in_each_round(where: int) -> None:
    parser = LoopParser(Dialect.NEW)
    lines = [row(0, 1), row(2, 2)]
    lines.insert(where, LOST)
    reports = feed(parser, *lines, *lines)
    assert told(reports) == [[(0, "ok", 1), (1, "lost", None), (2, "ok", 2)]] * 2
    assert {(r.error.code, r.error.text) for r in reports if r.error} == {("lost", LOST)}


def test_a_gpu_that_is_lost_while_the_loop_runs_and_ends_it() -> None:
    parser = LoopParser(Dialect.NEW, known=(0, 1))
    feed(parser, row(0, 1), row(1, 2))
    reports = parser.feed(LOST.encode()) + parser.flush(255)
    assert told(reports) == [[(0, "ok", 1), (1, "lost", None)]]
    assert reports[0].error is not None
    assert reports[0].error.code == "lost"


def test_what_the_survey_heard_of_unopened_gpus_stays() -> None:
    heard = LoopParser(Dialect.NEW)
    feed(heard, LOST)
    unopened = [m for m in heard._round.values() if not hasattr(m, "gpu")]
    parser = LoopParser(Dialect.NEW, (0, 2), unopened)
    reports = feed(parser, row(0, 1), row(2, 2), row(0, 3), row(2, 4))
    assert [[(g.index, g.state) for g in r.gpus] for r in reports] == [[(0, "ok"), (1, "lost"), (2, "ok")]] * 2
    assert all(r.error is not None and r.error.code == "lost" for r in reports)


def test_warnings_neither_make_nor_delay_a_round() -> None:
    parser = LoopParser(Dialect.NEW, known=(0, 1))
    plain = feed(LoopParser(Dialect.NEW, known=(0, 1)), row(0, 1), row(1, 2))
    assert feed(parser, WARNING, row(0, 1), WARNING, row(1, 2), WARNING) == plain


@pytest.mark.parametrize(
    ("text", "exit_status", "code"),
    [
        ("Failed to initialize NVML: Unknown Error", 255, "nvml-error"),
        ("No devices were found", 6, "no-devices"),
        ("something quite new", 0, "unparsable"),
        ("", 127, "no-tool"),
        (LOST, 255, "lost"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_loop_that_only_says_why_not(text: str, exit_status: int, code: str, end: str) -> None:
    parser = LoopParser(Dialect.NEW, known=(0,))
    reports = parser.feed((text + end).encode()) + parser.flush(exit_status)
    assert [(r.gpus, r.error.code if r.error else None) for r in reports] == [((), code)]


def test_stderr_of_a_loop() -> None:
    reports = LoopParser(Dialect.NEW).flush(18, b"Failed to initialize NVML: Driver/library version mismatch\n")
    assert [r.error.code for r in reports if r.error] == ["driver-mismatch"]


def test_old_drivers_ask_for_a_new_loop() -> None:
    parser = LoopParser(Dialect.NEW)
    text = 'Field "clocks_event_reasons.active" is not a valid field to query.\n\n'
    assert parser.feed(text.encode()) + parser.flush(2) == []
    assert parser.retry is Dialect.OLD


def test_a_round_that_is_cut_off_makes_no_report() -> None:
    parser = LoopParser(Dialect.NEW, known=(0, 1))
    feed(parser, row(0, 1), row(1, 2), row(0, 3))
    assert parser.feed(row(1, 4)[:30].encode()) + parser.flush(None) == []


def test_a_loop_that_ended_in_its_first_round_tells_what_it_had() -> None:
    parser = LoopParser(Dialect.NEW)
    feed(parser, row(0, 1), row(1, 2))
    assert told(parser.flush(0)) == [[(0, "ok", 1), (1, "ok", 2)]]


def test_a_line_without_an_end_is_dropped_and_costs_no_memory() -> None:
    parser = LoopParser(Dialect.NEW, known=(0,))
    for _ in range(100):
        assert parser.feed(b"x" * 10_000) == []
    assert len(parser._tail) < 40_000
    assert told(feed(parser, "", row(0, 1))) == [[(0, "ok", 1)]]


def test_recorded_loops_are_rounds_of_both_gpus() -> None:
    lines = recorded("query_gpu_l1.csv", "load")
    reports = feed(LoopParser(Dialect.NEW, known=(0, 1)), *lines)
    assert len(reports) == len(lines) // 2
    assert {tuple(g.index for g in r.gpus) for r in reports} == {(0, 1)}
    assert [r.gpus[0].util_pct for r in reports][:2] == [100, 100]
    assert [r.gpus[1].util_pct for r in reports][:2] == [94, 97]
    assert reports[0].error is None


SAMPLE = "".join(
    f"{text}\r\n" for text in (row(0, 1), WARNING, row(2, 2), LOST, "", row(0, 3), row(2, 4), LOST, row(0, 5), "0, x")
).encode()


def test_every_split_point_gives_the_same_rounds() -> None:
    whole = LoopParser(Dialect.NEW)
    wanted = whole.feed(SAMPLE) + whole.flush(0)
    assert len(wanted) == 3
    for at in range(len(SAMPLE) + 1):
        parser = LoopParser(Dialect.NEW)
        assert parser.feed(SAMPLE[:at]) + parser.feed(SAMPLE[at:]) + parser.flush(0) == wanted, at


@settings(max_examples=50, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=30), st.sampled_from([row(0, 1).encode() + b"\n", LOST.encode() + b"\n", SAMPLE])),
        max_size=10,
    ),
    exit_status=st.one_of(st.none(), st.integers(0, 255)),
)
def test_the_loop_is_total_and_blind_to_chunks(pieces: list[bytes], exit_status: int | None) -> None:
    whole, split = LoopParser(Dialect.NEW), LoopParser(Dialect.NEW)
    wanted = whole.feed(b"".join(pieces)) + whole.flush(exit_status)
    assert [r for p in pieces for r in split.feed(p)] + split.flush(exit_status) == wanted
    assert all(r.gpus or r.error for r in wanted)
