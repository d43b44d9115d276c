"""How long a launch may be quiet, and what other witnesses change about it."""

from __future__ import annotations

import pytest

from eagletui.logs.stall import clock
from eagletui.logs.state import LogState, Pace, Progress
from eagletui.servers.stalls import BUSY_TIMES, Moves, stillness

WEIGHTS = LogState("starting", "weights", progress=Progress(12, 64, "shards"))
IDLE = Moves(busy=False)


def stalled(quiet_s: float, moves: Moves = IDLE, log: LogState = WEIGHTS, usual_s: float | None = None) -> bool:
    found = stillness(log, quiet_s, moves, usual_s)
    return found is not None and found.stalled


def test_a_phase_that_is_quiet_beyond_its_limit_stalls() -> None:
    assert not stalled(299)
    assert stalled(301)
    assert not stalled(301, log=LogState("starting", "compile"))
    assert stalled(1801, log=LogState("starting", "compile"))
    assert not stalled(1801, usual_s=1700.0)
    slow = LogState("starting", "weights", progress=WEIGHTS.progress, pace=Pace(120.0, 130.0, 9))
    assert not stalled(400, log=slow)
    assert stalled(600, log=slow)


@pytest.mark.parametrize(
    "log", [LogState(), LogState("ready", "serving"), LogState("crashed", "weights"), LogState("starting")]
)
def test_only_a_launch_that_is_under_way_can_stand_still(log: LogState) -> None:
    assert stillness(log, 9999.0, IDLE) is None


@pytest.mark.parametrize("name", ["read_s", "gpu_memory_s"])
def test_what_moves_elsewhere_begins_the_count_anew(name: str) -> None:
    assert not stalled(900, Moves(busy=False, **{name: 5.0}))
    assert not stalled(900, Moves(busy=False, **{name: 250.0}))
    assert stalled(900, Moves(busy=False, **{name: 301.0}))
    told = stillness(WEIGHTS, 900, Moves(busy=False, **{name: 5.0}))
    assert told is not None
    assert told.told.startswith("no shard for 15:00, but ")


def test_cpu_time_alone_buys_some_time_and_not_for_ever() -> None:
    """A rank that waits in a collective for ever spins."""
    for busy in (True, None):
        assert not stalled(301, Moves(busy=busy))
        assert stalled(300 * BUSY_TIMES + 1, Moves(busy=busy))
    told = stillness(WEIGHTS, 301, Moves(busy=True))
    assert told is not None
    assert told.told == "no shard for 5:01, but its processes are busy"


def test_quiet_is_told_before_it_is_a_stall() -> None:
    words = [found.told for quiet in (10, 160) if (found := stillness(WEIGHTS, quiet, IDLE)) is not None]
    assert words == ["", "no shard for 2:40"]
    full = LogState("starting", "weights", progress=Progress(64, 64, "shards"))
    line = stillness(full, 160, IDLE)
    assert line is not None
    assert line.told == "no line for 2:40"


def test_clocks() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 60, 312, 3600, 36_061)] == [
        "0:00",
        "0:59",
        "1:00",
        "5:12",
        "1:00:00",
        "10:01:01",
    ]
