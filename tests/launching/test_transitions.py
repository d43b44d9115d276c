"""The sequence's transitions: which step follows which, and what is told meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.launching.steps import EXIT_STATUS, Progress, StepName
from eagletui.launching.transitions import (
    ABORTING,
    LAUNCHING,
    STEPS,
    TOLD_TO_END,
    TOLD_TO_END_AT_LAST,
    AbortAsked,
    Began,
    Done,
    Drains,
    Ended,
    Event,
    Launched,
    Recorded,
    Skipped,
    Told,
    WrongOrderError,
    after,
    begun,
)
from eagletui.servers.record import Kind

KINDS: tuple[Kind, ...] = ("start", "stop", "restart")


def through(kind: Kind, upto: StepName) -> Progress:
    """A sequence in which this step runs."""
    progress = begun(kind)
    for at, name in enumerate(STEPS[kind]):
        progress = after(progress, Began(name, float(at), "true"))
        if name is upto:
            return progress
        progress = after(progress, Done(at + 0.5, "fine"))
    raise AssertionError(upto)


def test_a_restart_goes_through_all_steps_in_their_order() -> None:
    progress = through("restart", StepName.READY)
    progress = after(progress, Ended(9.5, "done", "ready after 80 s", "It serves.", ready_s=80.0))
    assert [one.name for one in progress.steps] == list(StepName)
    assert {one.status for one in progress.steps} == {"done"}
    assert (progress.ending, progress.ready_s, progress.now_true, progress.result) == ("done", 80.0, "It serves.", 0)


def test_a_stop_ends_after_the_leftovers() -> None:
    assert STEPS["stop"][-1] is StepName.LEFTOVERS
    assert StepName.LAUNCH not in {one.name for one in begun("stop").steps}


@pytest.mark.parametrize(
    ("kind", "step", "may", "why"),
    [
        ("restart", StepName.PREFLIGHT, True, ""),
        ("restart", StepName.IDENTIFY, True, ""),
        ("restart", StepName.STOP, True, TOLD_TO_END),
        ("stop", StepName.STOP, False, TOLD_TO_END_AT_LAST),
        ("restart", StepName.GPUS, True, ""),
        ("restart", StepName.LEFTOVERS, True, ""),
        ("restart", StepName.LAUNCH, False, LAUNCHING),
        ("restart", StepName.VERIFY, False, LAUNCHING),
        ("restart", StepName.WATCH, True, ""),
    ],
)
def test_where_it_may_be_aborted(kind: Kind, step: StepName, may: bool, why: str) -> None:
    progress = through(kind, step)
    assert (progress.may_abort, progress.why_not) == (may, why)
    assert after(progress, AbortAsked()).why_not == ABORTING


def test_what_a_running_step_tells_is_its_own_and_stays_when_it_is_over() -> None:
    progress = after(through("restart", StepName.STOP), Told("11 of 12 gone", ("pid 4",)))
    progress = after(after(progress, Drains(now=True)), Recorded("r1"))
    assert progress.may_stop_now
    assert progress.step is not None
    assert (progress.step.text, progress.step.lines, progress.record) == ("11 of 12 gone", ("pid 4",), "r1")
    progress = after(progress, Done(9.0, "all gone"))
    assert (progress.step and progress.step.text, progress.step and progress.step.lines) == ("all gone", ("pid 4",))
    assert not progress.may_stop_now


def test_a_step_that_failed_is_the_end_and_the_rest_stays_undone() -> None:
    failed = after(through("restart", StepName.GPUS), Ended(9.0, "failed", "GPU 3 is held", "Stopped.", ("retry",)))
    assert [one.status for one in failed.steps] == ["done"] * 3 + ["failed"] + ["pending"] * 5
    assert (failed.result, failed.offers, failed.may_abort) == (17, ("retry",), False)
    assert after(failed, Told("late")) is failed
    assert after(failed, Began(StepName.LEFTOVERS, 9.0, "")) is failed


def test_an_abort_leaves_no_step_failed() -> None:
    ended = after(through("restart", StepName.GPUS), Ended(9.0, "aborted", "aborted", "Stopped, nothing launched."))
    assert {one.status for one in ended.steps} == {"done", "skipped", "pending"}
    assert ended.result == 16


def test_what_an_earlier_eagletui_did_is_not_done_again() -> None:
    progress = begun("restart", reached=StepName.LAUNCH)
    assert [one.status for one in progress.steps[:6]] == ["skipped"] * 5 + ["pending"]
    assert after(progress, Began(StepName.LAUNCH, 0.0, "")).step is not None


def test_no_step_is_begun_out_of_order_or_twice() -> None:
    running = through("restart", StepName.STOP)
    for step in StepName:
        with pytest.raises(WrongOrderError):
            after(running, Began(step, 9.0, ""))
    with pytest.raises(WrongOrderError):
        after(begun("restart"), Began(StepName.LAUNCH, 0.0, ""))


def events() -> st.SearchStrategy[Event]:
    text = st.text(max_size=3)
    at = st.floats(0, 100)
    return st.one_of(
        st.builds(Began, st.sampled_from(StepName), at, text),
        st.builds(Told, text),
        st.builds(Done, at, text),
        st.builds(Skipped, st.sampled_from(StepName), text),
        st.builds(Recorded, text),
        st.builds(Launched, st.just((1, 2)), text),
        st.builds(Drains, st.booleans()),
        st.just(AbortAsked()),
        st.builds(Ended, at, st.sampled_from([one for one in EXIT_STATUS if one != "running"]), text, text),
    )


@given(st.sampled_from(KINDS), st.lists(events(), max_size=40))
def test_whatever_happens_at_most_one_step_runs_and_steps_keep_their_order(kind: Kind, happened: list[Event]) -> None:
    progress = begun(kind)
    for event in happened:
        before = progress
        try:
            progress = after(progress, event)
        except WrongOrderError:
            continue
        statuses = [one.status for one in progress.steps]
        running = statuses.count("running")
        assert running <= (progress.ending == "running")
        begun_ = [status != "pending" for status in statuses]
        assert begun_ == sorted(begun_, reverse=True)
        for old, new in zip(before.steps, progress.steps, strict=True):
            assert old.status in {"pending", "running", new.status}
        if before.ending != "running":
            assert progress is before
