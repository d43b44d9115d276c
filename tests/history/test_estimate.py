"""When it will be ready, by what earlier launches took: no number without any, honest when it is late."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.history.estimate import FAR, Estimate, Now, estimate
from eagletui.history.launches import EarlierLaunch
from eagletui.history.pace import Pace
from eagletui.logs.state import LogState, Phase, PhaseName, Progress

AT = 1000.0


def earlier(**phases: float) -> EarlierLaunch:
    """A launch by its phases (a `_` for each hyphen), with nothing between them."""
    named = {name.replace("_", "-"): seconds for name, seconds in phases.items()}
    return EarlierLaunch(sum(phases.values()), named)  # type: ignore[arg-type]  # names of phases


def log(*done: PhaseName, running: PhaseName, since: float = 0.0, progress: Progress | None = None) -> LogState:
    phases = [Phase(name, "done", 1.0) for name in done]
    return LogState("starting", running, (*phases, Phase(running, "running", None, AT - since)), progress)


SIX = [earlier(launch=10, weights=40 + n, kv_cache=2, graphs=20, warmup=5) for n in range(6)]


def of(state: LogState, launches: Sequence[EarlierLaunch] = SIX, **more: object) -> Estimate:
    found = estimate(launches, Now(state, AT, **more))  # type: ignore[arg-type]  # fields of Now
    assert found is not None
    return found


def test_without_earlier_launches_there_is_none() -> None:
    assert estimate([], Now(log(running="weights"), AT)) is None


def test_the_rest_of_the_present_phase_and_those_to_come() -> None:
    found = of(log("launch", running="weights", since=12.5))
    assert (found.starts, found.late, found.cold) == (6, None, None)
    assert found.total_s == pytest.approx(79.5)
    assert found.usual["weights"] == pytest.approx(42.5)
    assert found.ready_in_s == pytest.approx(30 + 2 + 20 + 5)


def test_what_it_passed_by_without_is_not_counted() -> None:
    assert of(log("launch", "weights", running="graphs", since=5.0)).ready_in_s == pytest.approx(15 + 5)
    assert of(log("launch", running="warmup", since=1.0)).ready_in_s == pytest.approx(4)


def test_a_phase_that_was_never_seen_gets_nothing() -> None:
    found = of(log("launch", "weights", running="compile", since=500.0))
    assert found.ready_in_s == pytest.approx(2 + 20 + 5)
    assert found.late is None


def test_a_phase_that_one_of_many_had_is_not_expected() -> None:
    launches = [*SIX, earlier(launch=10, weights=40, compile=600, kv_cache=2, graphs=20, warmup=5)]
    assert of(log("launch", "weights", running="kv-cache"), launches).ready_in_s == pytest.approx(2 + 20 + 5)


def test_before_the_first_line_the_whole_is_told() -> None:
    launches = [replace(one, lead_s=6.0) for one in SIX]
    nothing = LogState()
    assert of(nothing, launches, age_s=0.0).ready_in_s == pytest.approx(85.5)
    assert of(nothing, launches, age_s=4.0).ready_in_s == pytest.approx(81.5)
    assert of(nothing, launches, age_s=None).ready_in_s == pytest.approx(85.5)
    assert of(nothing, launches, age_s=500.0) == replace(of(nothing, launches), ready_in_s=None, late="launch")


def test_time_between_phases_is_spread_over_those_to_come() -> None:
    launches = [replace(one, ready_s=one.ready_s * 1.1) for one in SIX]
    assert of(log("launch", "weights", running="kv-cache", since=2.0), launches).ready_in_s == pytest.approx(25 * 1.1)
    far = [replace(one, ready_s=one.ready_s * 9) for one in SIX]
    assert of(log("launch", "weights", running="kv-cache", since=2.0), far).ready_in_s == pytest.approx(25 * 1.25)


def test_a_phase_that_is_visited_again_goes_on_from_where_it_was() -> None:
    state = log("launch", "weights", running="graphs", since=3.0)
    assert of(state, spent={"graphs": 12.0}).ready_in_s == pytest.approx(20 - 15 + 5)


# late


def weights(since: float, launches: Sequence[EarlierLaunch] = SIX, **more: object) -> Estimate:
    return of(log("launch", running="weights", since=since), launches, **more)


def test_a_little_later_than_usual_is_not_late() -> None:
    found = weights(44.0)
    assert found.late is None
    assert found.ready_in_s == pytest.approx(1 + 27)  # one that took longer took 45


def test_late_is_beyond_the_median_and_beyond_the_longest() -> None:
    assert weights(53.0).late is None  # a quarter more than usual, and more than any
    assert weights(54.0).late == "weights"
    once_slow = [*SIX, earlier(launch=10, weights=300, kv_cache=2, graphs=20, warmup=5)]
    assert weights(100.0, once_slow).late is None
    assert weights(100.0, once_slow).ready_in_s == pytest.approx(200 + 27)
    quick = [earlier(launch=1, weights=0.2)] * 3
    assert weights(2.0, quick).late is None  # seconds are told in whole ones
    assert weights(2.4, quick).late == "weights"


def test_the_promise_widens_and_then_there_is_none() -> None:
    promised = [weights(seconds).ready_in_s for seconds in (50.0, 55.0, 60.0, 70.0)]
    assert all(one is not None for one in promised)
    assert all(later > before for before, later in pairwise(one or 0.0 for one in promised))
    far = weights(FAR * 54 + 1)
    assert (far.ready_in_s, far.late, far.usual["weights"]) == (None, "weights", 42.5)


# the bar


def moved(*moves: tuple[float, int], total: int = 64) -> Pace:
    pace = Pace()
    for before_s, done in moves:
        pace.see("weights", Progress(done, total, "shards", label="Loading"), AT - before_s)
    return pace


EVEN = moved(*((10.0 - n, n) for n in range(11)))
"""A shard a second for ten seconds; 54 are left."""


def test_a_bar_tells_more_the_further_it_is() -> None:
    slow = weights(10.0, pace=EVEN)
    assert slow.ready_in_s == pytest.approx(10 / 64 * 54 + 54 / 64 * 32.5 + 27)
    nearly = moved(*((10.0 - n, 53 + n) for n in range(11)))
    assert weights(10.0, pace=nearly).ready_in_s == pytest.approx(63 / 64 * 1 + 1 / 64 * 32.5 + 27)


def test_a_late_phase_with_a_bar_that_moves_is_promised_by_its_bar() -> None:
    found = weights(200.0, pace=EVEN)
    assert found.ready_in_s == pytest.approx(54 + 27)
    assert found.late == "weights"


def test_of_several_bars_one_tells_how_long_it_takes_at_least() -> None:
    """Graphs have five of them: the second, nearly full, tells nothing of the other three."""
    nearly, slow = (Pace(), Pace())
    for n in range(11):
        nearly.see("graphs", Progress(12 + n, 23, "graphs"), AT - 10.0 + n)
        slow.see("graphs", Progress(n, 230, "graphs"), AT - 10.0 + n)
    state = log("launch", "weights", running="graphs", since=8.0)
    assert of(state, pace=nearly).ready_in_s == of(state).ready_in_s == pytest.approx(12 + 5)
    assert of(state, pace=slow).ready_in_s == pytest.approx(220 + 5)


@pytest.mark.parametrize(
    "pace",
    [
        moved(),
        moved((9.0, 0), (6.0, 1), (3.0, 2)),  # too few moves
        moved(*((3.0 - n / 4, n) for n in range(12))),  # too short
        moved((10.0, 0), (9.0, 1), (8.0, 2), (7.0, 60), (6.0, 61), (0.0, 62)),  # it jumps
        moved(*((40.0 - n, n) for n in range(11))),  # it stands
        moved(*((10.0 - n, 54 + n) for n in range(11))),  # it is full
    ],
)
def test_a_bar_that_is_not_to_be_trusted_is_not(pace: Pace) -> None:
    assert pace.left_s(AT) is None
    assert weights(10.0, pace=pace) == weights(10.0)


def test_another_bar_begins_anew() -> None:
    pace = moved(*((20.0 - n, n) for n in range(11)))
    pace.see("draft-weights", Progress(1, 64, "shards", label="Loading"), AT - 9)
    assert pace.left_s(AT - 9) is None
    again = moved(*((20.0 - n, n) for n in range(11)), (9.0, 0), (8.0, 1), (7.0, 2))
    assert again.left_s(AT - 7) is None


# cold and warm

BOTH = [
    *(EarlierLaunch(60.0, {"launch": 10.0, "weights": 50.0}, cold=False) for _ in range(3)),
    *(EarlierLaunch(310.0, {"launch": 10.0, "weights": 300.0}, cold=True) for _ in range(2)),
]


def test_cold_and_warm_starts_are_apart() -> None:
    cold, warm, unknown = (weights(0.0, BOTH, cold=kind) for kind in (True, False, None))
    assert (cold.starts, cold.cold, cold.ready_in_s) == (2, True, 300.0)
    assert (warm.starts, warm.cold, warm.ready_in_s) == (3, False, 50.0)
    assert (unknown.starts, unknown.cold, unknown.ready_in_s) == (5, None, 50.0)
    assert weights(0.0, BOTH[:3], cold=True) == weights(0.0, BOTH[:3])  # none of the kind: of all alike


# anything

NAMES: list[PhaseName] = [
    "launch",
    "distributed",
    "weights",
    "draft-weights",
    "kv-cache",
    "compile",
    "graphs",
    "warmup",
]
DURATIONS = st.floats(0, 1e5, allow_nan=False)
LAUNCHES = st.lists(
    st.builds(
        EarlierLaunch,
        DURATIONS,
        st.dictionaries(st.sampled_from(NAMES), DURATIONS),
        st.none() | DURATIONS,
        st.none() | st.integers(0, 10**15),
        st.none() | st.booleans(),
    ),
    max_size=8,
)


@given(
    LAUNCHES, st.lists(st.sampled_from(NAMES), unique=True), DURATIONS, st.none() | st.booleans(),
    st.integers(0, 70), st.lists(st.tuples(DURATIONS, st.integers(0, 70)), max_size=10), st.none() | DURATIONS,
)  # fmt: skip
def test_never_negative_never_nan_and_none_without_earlier(
    launches: list[EarlierLaunch],
    names: list[PhaseName],
    since: float,
    cold: bool | None,
    done: int,
    moves: list[tuple[float, int]],
    age: float | None,
) -> None:
    progress = Progress(done, 64, "shards")
    state = log(*names[:-1], running=names[-1], since=since, progress=progress) if names else LogState()
    pace = moved(*sorted(moves, reverse=True))
    found = estimate(launches, Now(state, AT, pace, cold, age))
    assert (found is None) == (not launches)
    if found is None:
        return
    for number in (found.total_s, found.ready_in_s, *found.usual.values()):
        assert number is None or (number >= 0 and math.isfinite(number))
    assert 1 <= found.starts <= len(launches)
    assert found.ready_in_s is not None or found.late is not None


@given(LAUNCHES.filter(bool), DURATIONS, DURATIONS)
def test_until_it_is_usual_each_second_is_one_less(launches: list[EarlierLaunch], one: float, other: float) -> None:
    first, second = sorted((one, other))
    before, after = (estimate(launches, Now(log(running="weights", since=since), AT)) for since in (first, second))
    assert before is not None
    assert after is not None
    if second <= before.usual.get("weights", 0.0):
        assert before.ready_in_s is not None
        assert after.ready_in_s == pytest.approx(
            before.ready_in_s - (second - first), abs=1e-6 * (1 + before.ready_in_s)
        )


@settings(max_examples=50)
@given(
    st.sets(st.sampled_from(NAMES)),
    st.lists(st.lists(DURATIONS, min_size=len(NAMES), max_size=len(NAMES)), min_size=1, max_size=5),
)
def test_a_phase_further_is_never_further_from_ready(had: set[PhaseName], times: list[list[float]]) -> None:
    """Of launches that all went the same way."""
    launches = [
        EarlierLaunch(sum(row), {name: row[at] for at, name in enumerate(NAMES) if name in had}) for row in times
    ]
    promised = []
    for at, name in enumerate(NAMES):
        found = estimate(launches, Now(log(*NAMES[:at], running=name), AT))
        assert found is not None
        assert found.ready_in_s is not None
        promised.append(found.ready_in_s)
    assert all(later <= before * (1 + 1e-9) for before, later in pairwise(promised))


def test_the_order_is_that_of_the_earlier_launches() -> None:
    launches = [earlier(launch=1, graphs=20, compile=30, weights=40)] * 3
    assert of(log("launch", running="compile"), launches).ready_in_s == pytest.approx(30 + 40)
    assert of(log("launch", running="kv-cache"), launches).ready_in_s == pytest.approx(20 + 30 + 40)
