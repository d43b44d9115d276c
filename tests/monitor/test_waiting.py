"""When waiting is over, by a table of what is seen for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagletui.history.estimate import Estimate
from eagletui.logs.state import Diagnosis, LogState, Phase, Progress, Warned
from eagletui.monitor.happenings import LOG_LINES, LogTold, PhaseTold, ProgressTold, StateTold, Teller
from eagletui.monitor.link import LOGIN_HINT
from eagletui.monitor.snapshot import Health, Link, Snapshot, Throughput, Verdict
from eagletui.monitor.waiting import Limits, Waiting
from eagletui.servers.model import Inventory, Reason, State
from eagletui.servers.record import Record
from tests.ui import scenes

STEP_S = 0.25
OOM = Diagnosis("cuda-oom", "critical", "weights", "TP3", "It does not fit.", "Take fewer.")
Steps = list[tuple[Snapshot, float]]


def seen(base: Snapshot, state: State, code: str = "why", **more: object) -> Snapshot:
    return replace(base, verdict=Verdict(state, Reason(code, "a sentence")), **more)  # type: ignore[arg-type]


READY = scenes.ready()
STARTING = scenes.starting()
QUIET = Throughput()
DEAD = seen(scenes.crashed(), State.CRASHED, "died")
NOBODY = scenes.no_server()
UP = replace(READY, startup=replace(READY.startup, state="starting"), throughput=QUIET)
"""/health was quicker than the log."""
UNASKED = replace(READY, health=Health(), throughput=QUIET)
BLIND = seen(
    STARTING,
    State.UNKNOWN,
    "unreadable",
    health=Health(error="forbidden", asked=3),
    log=replace(STARTING.log, error="It cannot be read."),
)
LOST = scenes.reconnecting()
COMING = replace(NOBODY, under_way=Record("20261201-a", "restart", "", "me@here", step="gpus-free"))
"""Somebody restarts it: the old one is gone, and the new one not launched."""
NEVER = seen(scenes.crashed(), State.CRASHED, "never-started", diagnosis=None)


def run(steps: Steps, limits: Limits = Limits(), port: int | None = None) -> tuple[int | None, float, Waiting]:  # noqa: B008 - frozen
    """The exit status, after how many seconds it came, and who waited. None: it goes on."""
    began = scenes.NOW
    waiting, at = Waiting(limits, began=began, port=port), began
    for snapshot, seconds in steps:
        end = at + seconds
        while at < end:
            look = waiting.look(replace(snapshot, at=at))
            if look.ended is not None:
                return look.ended.exit, at - began, waiting
            at += STEP_S
    return None, at - began, waiting


@pytest.mark.parametrize(
    ("steps", "status", "after_s"),
    [
        pytest.param([(READY, 9)], 0, 0, id="ready already"),
        pytest.param([(STARTING, 600), (READY, 9)], 0, 600, id="a start"),
        pytest.param([(UP, 9)], 0, 1, id="health was quicker than the log"),
        pytest.param([(UNASKED, 40), (seen(UNASKED, State.STALLED), 9)], 12, 45, id="a log that says ready is no proof"),
        pytest.param([(replace(READY, health=Health()), 9)], 0, 3, id="tokens flow, health not asked"),
        pytest.param([(seen(READY, State.DEGRADED), 9)], 0, 1, id="degraded and answering"),
        pytest.param([(seen(UNASKED, State.DEGRADED), 90)], 12, 60, id="degraded and silent"),
        pytest.param([(seen(STARTING, State.STALLED), 9)], 12, 5, id="stalled"),
        pytest.param([(seen(STARTING, State.STALLED), 4), (STARTING, 9), (seen(STARTING, State.STALLED), 9)], 12, 18, id="moved again"),
        pytest.param([(STARTING, 5), (DEAD, 20)], 13, 13, id="a death without a cause"),
        pytest.param([(STARTING, 5), (DEAD, 3), (replace(DEAD, diagnosis=OOM), 9)], 13, 12, id="a cause that stands"),
        pytest.param([(replace(DEAD, diagnosis=OOM), 9)], 13, 4, id="a cause at once"),
        pytest.param([(DEAD, 5), (STARTING, 5), (READY, 5)], 0, 10, id="somebody started it again"),
        pytest.param([(NOBODY, 9)], 14, 6, id="nobody"),
        pytest.param([(NOBODY, 5.5), (STARTING, 20), (READY, 1)], 0, 25.5, id="a launch that just began"),
        pytest.param([(seen(READY, State.STOPPING), 90), (seen(READY, State.ABSENT), 9)], 14, 96, id="stopped"),
        pytest.param([(seen(STARTING, State.UNKNOWN), 900)], None, 900, id="unknown goes on"),
        pytest.param([(BLIND, 90)], 11, 15, id="nothing can be known"),
        pytest.param([(LOST, 90)], 20, 60, id="lost"),
        pytest.param([(LOST, 50), (STARTING, 20), (LOST, 50), (READY, 1)], 0, 120, id="lost and back twice"),
        pytest.param([(scenes.needs_person(), 9)], 20, 0, id="a login needs a person"),
        pytest.param([(COMING, 90), (STARTING, 20), (READY, 1)], 0, 110, id="a restart that has not launched yet"),
        pytest.param([(COMING, 90), (NOBODY, 9)], 14, 96, id="a restart that was left"),
        pytest.param([(seen(NOBODY, State.STARTING), 5), (seen(NOBODY, State.CRASHED, "never-started"), 9)], 13, 9, id="no process came of it"),
        pytest.param([(NEVER, 9)], 13, 4, id="died at once"),
        pytest.param([(replace(NOBODY, discovered=False), 90)], 20, 60, id="the node tells nothing"),
    ],
)  # fmt: skip
def test_ends(steps: Steps, status: int | None, after_s: float) -> None:
    found, after, _ = run(steps)
    assert found == status
    assert after == pytest.approx(after_s, abs=STEP_S)


def test_its_own_time_is_up() -> None:
    assert run([(STARTING, 90)], Limits(timeout_s=20.0))[:2] == (15, 20.0)
    assert run([(replace(scenes.several(), undecided=False), 90)], Limits(timeout_s=20.0))[0] == 15
    assert run([(READY, 1)], Limits(timeout_s=0.1))[0] == 0
    assert run([(STARTING, 19), (DEAD, 9)], Limits(timeout_s=20.0))[:2] == (13, 20.0)


def test_what_is_told_of_a_lost_link_is_no_key() -> None:
    waiting = Waiting(Limits(), began=scenes.NOW)
    told, ended, _ = waiting.look(replace(scenes.needs_person(), at=scenes.NOW))
    assert ended is not None
    assert ended.reason.text == "the link to gpu-node is lost: connection reset by peer"
    assert isinstance(told[0], StateTold)
    assert told[0].reason == ended.reason
    assert LOGIN_HINT in (scenes.needs_person().link.error or "")


def test_what_an_earlier_server_left_is_told() -> None:
    _, _, waiting = run([(scenes.orphans(), 5)])
    ended = waiting.look(replace(scenes.orphans(), at=scenes.NOW + 7)).ended
    assert ended is not None
    assert ended.reason.text.endswith("no launch is under way; pid 500, 501, 502 of an engine is left")


def test_how_long_it_took_is_told_where_it_is_known() -> None:
    def ready_s(*steps: Snapshot) -> float | None:
        waiting = Waiting(Limits(), began=scenes.NOW)
        looks = [waiting.look(replace(step, at=scenes.NOW + n)) for n, step in enumerate(steps)]
        ended = looks[-1].ended
        assert ended is not None
        return ended.ready_s

    untold = replace(READY, startup=replace(READY.startup, ready_s=None), uptime_s=90.0)
    assert ready_s(READY) == 192.0
    assert ready_s(untold) is None  # since when it is ready, nobody knows
    assert ready_s(STARTING, untold) == 90.0


def two(state: State, *, judged: bool = True) -> Snapshot:
    """The first of two servers is watched and ready; the other one is `state`."""
    first, second = scenes.make_server(), scenes.make_server(pid=7000, port=30001)
    verdicts = ((first.id, READY.verdict), (second.id, Verdict(state, Reason("why", "a sentence"))))
    return replace(
        READY, server=first, inventory=Inventory((first, second)), undecided=judged, verdicts=verdicts[: 1 + judged]
    )


def test_with_several_servers_all_have_to_be_ready() -> None:
    assert run([(two(State.READY), 1)])[0] == 0
    assert run([(two(State.READY, judged=False), 20)])[0] is None
    assert run([(two(State.STARTING), 20)])[0] is None
    assert run([(two(State.STARTING), 20)], port=30000)[0] == 0
    waiting = Waiting(Limits(), began=scenes.NOW)
    second = two(State.STARTING).inventory.servers[1]
    assert waiting.look(replace(two(State.STARTING), at=scenes.NOW)).select == second.id
    base = replace(two(State.STARTING), undecided=False, server=second)
    assert waiting.look(seen(base, State.STARTING)).ended is None
    ended = waiting.look(seen(base, State.READY, health=READY.health)).ended
    assert ended is not None
    assert (ended.exit, ended.server) == (0, second)


def test_being_told_to_end_tells_how_it_stands() -> None:
    ended = Waiting(Limits(), began=0.0).interrupted(STARTING, 130).ended
    assert ended is not None
    assert (ended.exit, ended.state) == (130, State.STARTING)


# What is told


def bar(done: int, phases: tuple[Phase, ...], **more: object) -> Snapshot:
    return replace(
        STARTING,
        startup=LogState("starting", "weights", phases, Progress(done, 8, "shards")),
        **more,  # type: ignore[arg-type]
    )


RUNNING = (Phase("launch", "done", 3.0), Phase("weights", "running", began_at=scenes.NOW - 5))
OVER = (Phase("launch", "done", 3.0), Phase("weights", "done", 9.0))


def test_everything_is_told_once() -> None:
    teller = Teller()
    estimate = Estimate(6, 60.0, 30.0, {"weights": 10.0})
    first = teller.tell(bar(1, RUNNING, estimate=estimate), final=False)
    assert [type(one) for one in first] == [StateTold, PhaseTold, PhaseTold, ProgressTold]
    assert first[1:3] == [
        PhaseTold("launch", True, 3.0, None, 6, ""),
        PhaseTold("weights", False, None, 10.0, 6, ""),
    ]
    assert first[3] == ProgressTold("weights", 1, 8, "shards", None, None, 5.0, 30.0, 6)
    assert teller.tell(bar(1, RUNNING, estimate=estimate, at=scenes.NOW + 2), final=False) == []
    done = teller.tell(bar(1, OVER, at=scenes.NOW + 3), final=False)
    assert done == [PhaseTold("weights", True, 9.0, 10.0, 6, "")]  # what was usual is remembered


def test_a_bar_is_told_once_a_second_and_at_its_end() -> None:
    teller = Teller()
    counts = []
    for tick in range(9):
        told = teller.tell(bar(tick, RUNNING, at=scenes.NOW + tick / 4), final=False)
        counts += [one.done for one in told if isinstance(one, ProgressTold)]
    assert counts == [0, 4, 8]


def test_a_phase_that_is_entered_again_is_not_over() -> None:
    teller = Teller(settled_s=1.0)
    told = []
    for at, phases in ((0, RUNNING), (1, OVER), (1.5, RUNNING), (2, OVER), (2.5, OVER), (3, OVER)):
        new = teller.tell(bar(1, phases, at=scenes.NOW + at), final=False)
        told += [(at, one.done) for one in new if isinstance(one, PhaseTold) and one.name == "weights"]
    assert told == [(0, False), (3, True)]


def test_the_next_launch_is_told_anew() -> None:
    teller = Teller()
    teller.tell(bar(8, OVER), final=False)
    again = replace(bar(1, RUNNING), startup=replace(bar(1, RUNNING).startup, launch_count=2))
    assert [type(one) for one in teller.tell(again, final=False)] == [PhaseTold, PhaseTold, ProgressTold]


def test_a_server_that_was_ready_when_we_came_tells_no_phases() -> None:
    assert [type(one) for one in Teller().tell(READY, final=True)] == [StateTold]


def test_trouble_is_told_and_not_for_ever() -> None:
    teller = Teller()
    warned = replace(STARTING.startup, warnings=(Warned("slow-load", 9, "it is slow"),), error_text="it broke")
    assert [one for one in teller.tell(replace(STARTING, startup=warned), final=False) if isinstance(one, LogTold)] == [
        LogTold("warning", "it is slow", "slow-load"),
        LogTold("error", "it broke", None),
    ]
    told = 0
    for n in range(100):
        more = replace(STARTING, startup=replace(warned, error_text=f"error {n}"))
        told += len(teller.tell(more, final=False))
    assert told == LOG_LINES - 2


def test_nothing_is_told_of_a_state_that_is_none_yet() -> None:
    looking = replace(seen(STARTING, State.UNKNOWN, "looking"), link=Link("up"))
    assert Teller().tell(looking, final=False) == []
