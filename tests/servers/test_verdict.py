"""The state of a server, by every row of the table of states, and by witnesses that disagree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.logs.state import LogState, Phase, Progress
from eagletui.servers.model import LogSource, Member, Reason, Server, State
from eagletui.servers.stalls import Moves, Stillness, stillness
from eagletui.servers.verdict import Evidence, HealthSeen, judge, missing_ranks, worst
from tests.servers.nodes import Listening, PaperNode, sglang


def server(tp: int = 2, *, renamed: bool = True, listening: bool = True, extra: tuple[str, ...] = ()) -> Server:
    open_ = (Listening(30000, 1000),) if listening else ()
    (found,) = PaperNode(sglang(100, *extra, tp=tp, renamed=renamed), open_).discover().servers
    return found


UP = server()
LOADING = server(listening=False)
YOUNG = server(renamed=False, listening=False)
FOREIGN = replace(LOADING, foreign_listener=True)
THEIRS = replace(UP, ours=False, log=LogSource(None, readable=False, why="process 100 belongs to another user"))
RANK = next(m for m in UP.family if m.rank == "TP1")
DETOKENIZER = next(m for m in UP.family if m.role == "detokenizer")
WORKER = next(m for m in UP.family if m.role == "other")

OK = HealthSeen(200, None, 1.0)
BUSY = HealthSeen(None, "timeout", 1.0)
REFUSED = HealthSeen(None, "refused", 1.0)
SICK = HealthSeen(503, None, 1.0)

DEEP_SICK = HealthSeen(503, None, 30.0)
DEEP_MUTE = HealthSeen(None, "timeout", 30.0)


def still(quiet_s: float, moves: Moves = Moves(busy=False), log: LogState | None = None) -> Stillness:  # noqa: B008 - frozen
    found = stillness(log or WEIGHTS, quiet_s, moves)
    assert found is not None
    return found


WEIGHTS = LogState("starting", "weights", progress=Progress(12, 64, "shards"))
READY = LogState("ready", "serving")
CRASHED = LogState("crashed", "weights", error_text="CUDA out of memory")
STOPPED = LogState("stopped", "serving")


def gone(member: Member) -> Member:
    return replace(member, process=replace(member.process, state="Z", threads=1))


@pytest.mark.parametrize(
    ("evidence", "state", "code"),
    [
        ({"linked": False}, State.OFFLINE, "no-link"),
        ({}, State.ABSENT, "no-server"),
        ({"launcher_alive": False}, State.CRASHED, "died"),
        ({"launcher_alive": False, "stopping": True}, State.ABSENT, "stopped"),
        ({"missing": (RANK,), "log": STOPPED}, State.ABSENT, "stopped"),
        # who is dead
        ({"server": UP, "launcher_alive": False, "alive": 3, "health": OK}, State.CRASHED, "died"),
        ({"server": UP, "launcher_alive": False, "alive": 3, "stopping": True}, State.STOPPING, "stopping"),
        ({"server": UP, "launcher_alive": False, "alive": 0, "stopping": True}, State.ABSENT, "stopped"),
        ({"server": UP, "missing": (RANK,), "health": OK, "tokens_age_s": 1.0}, State.CRASHED, "rank-missing"),
        ({"server": UP, "missing": (DETOKENIZER,), "health": BUSY}, State.CRASHED, "died"),
        ({"server": UP, "missing": (RANK,), "stopping": True}, State.STOPPING, "draining"),
        ({"server": UP, "missing": (WORKER,), "health": OK}, State.READY, "idle"),
        # what the log proves
        ({"server": UP, "log": CRASHED, "health": REFUSED}, State.CRASHED, "failed"),
        ({"server": UP, "log": STOPPED, "health": SICK, "tokens_age_s": 1.0}, State.STOPPING, "draining"),
        # work that does not move
        ({"server": UP, "running": 3, "tokens_age_s": 60.0, "health": OK, "log": READY}, State.STALLED, "no-tokens"),
        ({"server": UP, "running": 3, "tokens_age_s": 59.0, "health": OK, "log": READY}, State.READY, "serving"),
        ({"server": UP, "running": 0, "tokens_age_s": 900.0, "health": OK, "log": READY}, State.READY, "idle"),
        ({"server": UP, "running": None, "tokens_age_s": 900.0, "health": OK}, State.READY, "idle"),
        ({"server": LOADING, "log": LogState("stalled", "weights"), "health": REFUSED}, State.STALLED, "no-progress"),
        ({"server": UP, "log": LogState("stalled", "serving"), "health": OK}, State.STALLED, "no-progress"),
        ({"server": UP, "log": LogState("stalled", "weights"), "health": OK}, State.READY, "idle"),
        ({"server": UP, "running": 0, "queued": 2, "no_tokens_s": 61.0, "health": OK}, State.STALLED, "no-tokens"),
        (
            {"server": UP, "running": 3, "no_tokens_s": 59.0, "tokens_age_s": 900.0, "health": OK},
            State.READY,
            "serving",
        ),
        ({"server": UP, "running": 0, "queued": 0, "no_tokens_s": 900.0, "health": OK}, State.READY, "idle"),
        ({"server": UP, "health": OK, "deep": DEEP_SICK}, State.STALLED, "no-tokens"),
        ({"server": UP, "health": OK, "deep": DEEP_MUTE}, State.STALLED, "no-tokens"),
        ({"server": UP, "health": OK, "deep": DEEP_MUTE, "tokens_age_s": 20.0}, State.READY, "idle"),
        ({"server": UP, "health": OK, "deep": DEEP_SICK, "tokens_age_s": 2.0}, State.READY, "serving"),
        ({"server": UP, "health": OK, "deep": replace(DEEP_SICK, age_s=91.0)}, State.READY, "idle"),
        ({"server": UP, "health": OK, "deep": HealthSeen(200, None, 3.0)}, State.READY, "idle"),
        ({"server": UP, "health": OK, "deep": HealthSeen(404, None, 3.0)}, State.READY, "idle"),
        ({"server": UP, "running": 1, "no_tokens_s": 90.0, "health": OK, "compiling_s": 200.0}, State.READY, "serving"),
        ({"server": UP, "running": 1, "no_tokens_s": 90.0, "compiling_s": 301.0}, State.STALLED, "no-tokens"),
        ({"server": UP, "log": READY, "health": SICK, "compiling_s": 20.0}, State.DEGRADED, "busy"),
        ({"server": UP, "log": READY, "health": BUSY, "deep": DEEP_SICK, "compiling_s": 20.0}, State.DEGRADED, "busy"),
        # who does not move
        ({"server": UP, "suspended": (RANK,), "health": OK, "log": READY}, State.STALLED, "suspended"),
        ({"server": UP, "suspended": (RANK,), "log": WEIGHTS}, State.STALLED, "suspended"),
        ({"server": UP, "suspended": (RANK,), "missing": (DETOKENIZER,)}, State.CRASHED, "died"),
        ({"server": LOADING, "log": WEIGHTS, "stillness": still(301.0)}, State.STALLED, "no-progress"),
        ({"server": LOADING, "log": WEIGHTS, "stillness": still(299.0)}, State.STARTING, "loading"),
        ({"server": UP, "log": WEIGHTS, "stillness": still(301.0), "health": OK}, State.READY, "idle"),
        # it serves, yet something is wrong
        ({"server": UP, "health": OK, "gpu_trouble": "GPU 3 is lost"}, State.DEGRADED, "gpu-trouble"),
        ({"server": UP, "health": OK, "helpers_gone": (WORKER,)}, State.DEGRADED, "helper-gone"),
        ({"server": LOADING, "log": WEIGHTS, "helpers_gone": (WORKER,)}, State.STARTING, "loading"),
        ({"server": UP, "missing": (RANK,), "gpu_trouble": "GPU 3 is lost"}, State.CRASHED, "rank-missing"),
        # it never ran
        ({"launch_s": 5.0}, State.STARTING, "loading"),
        ({"launch_s": 6.0}, State.CRASHED, "never-started"),
        ({"server": UP, "launcher_alive": False, "alive": 0, "log_empty": True}, State.CRASHED, "never-started"),
        ({"server": UP, "launcher_alive": False, "alive": 0, "log_empty": False}, State.CRASHED, "died"),
        # /health
        ({"server": UP, "health": replace(OK, latency_ms=8100.0), "tokens_age_s": 1.0}, State.READY, "busy"),
        ({"server": UP, "health": replace(OK, latency_ms=8100.0)}, State.READY, "idle"),
        ({"server": UP, "health": OK, "tokens_age_s": 0.4, "log": READY}, State.READY, "serving"),
        ({"server": UP, "health": OK}, State.READY, "idle"),
        ({"server": THEIRS, "health": OK}, State.READY, "idle"),
        ({"server": FOREIGN, "health": OK, "log": WEIGHTS}, State.UNKNOWN, "wrong-server"),
        ({"server": UP, "health": BUSY, "tokens_age_s": 2.0, "log": READY}, State.READY, "busy"),
        ({"server": UP, "health": BUSY, "tokens_age_s": 2.0, "was_ready": True}, State.READY, "busy"),
        ({"server": UP, "health": SICK, "tokens_age_s": 2.0, "log": READY}, State.DEGRADED, "health-failing"),
        ({"server": UP, "health": SICK, "was_ready": True}, State.STALLED, "no-tokens"),
        ({"server": UP, "health": BUSY, "log": READY}, State.DEGRADED, "no-answer"),
        ({"server": UP, "health": REFUSED, "log": READY}, State.DEGRADED, "health-failing"),
        ({"server": UP, "health": HealthSeen(None, "forbidden", 1.0), "log": READY}, State.READY, "idle"),
        ({"server": UP, "health": replace(OK, age_s=99.0), "log": WEIGHTS}, State.STARTING, "loading"),
        # the rest
        ({"server": UP, "log": READY, "tokens_age_s": 1.0}, State.READY, "serving"),
        ({"server": UP, "log": READY}, State.READY, "idle"),
        ({"server": LOADING, "log": WEIGHTS, "health": REFUSED}, State.STARTING, "loading"),
        ({"server": UP, "log": WEIGHTS, "health": SICK}, State.STARTING, "loading"),
        ({"server": UP, "health": SICK}, State.STARTING, "loading"),
        ({"server": LOADING, "health": REFUSED}, State.STARTING, "loading"),
        ({"server": LOADING}, State.STARTING, "loading"),
        ({"server": YOUNG, "health": REFUSED, "log": LogState("starting", "launch")}, State.STARTING, "loading"),
        ({"server": FOREIGN}, State.UNKNOWN, "wrong-server"),
        ({"server": THEIRS}, State.UNKNOWN, "unreadable"),
        ({"server": THEIRS, "health": REFUSED}, State.UNKNOWN, "unreadable"),
        ({"server": UP}, State.UNKNOWN, "unrecognised"),
        ({"server": UP, "health": BUSY}, State.UNKNOWN, "unrecognised"),
    ],
)
def test_states(evidence: dict[str, Any], state: State, code: str) -> None:
    found, reason = judge(Evidence(**evidence))
    assert (found, reason.code) == (state, code)
    assert reason.text
    assert "\n" not in reason.text


def test_a_wish_that_nobody_was_told_counts_for_nothing_once_the_server_answers() -> None:
    wish = Evidence(server=UP, launcher_alive=True, alive=4, log=READY, asked_to_stop=True, health=OK)
    assert judge(wish)[0] is State.READY
    assert judge(replace(wish, stopping=True))[0] is State.STOPPING
    assert judge(replace(wish, health=SICK))[0] is State.STOPPING
    assert judge(replace(wish, missing=(RANK,)))[0] is State.STOPPING


def test_what_we_stopped_is_no_crash_whatever_comes_of_it() -> None:
    dead = replace(UP, launcher=replace(UP.launcher, state="X"))
    for log in (LogState(), CRASHED, READY):
        for exit_status in (None, 0, 137, 247):
            ours = Evidence(
                server=dead,
                launcher_alive=False,
                alive=0,
                log=log,
                asked_to_stop=True,
                exit_status=exit_status,
                gone_s=12.4,
            )
            assert judge(ours) == (State.ABSENT, Reason("stopped", "stopped by eagletui 0:12 ago"))
            left = judge(replace(ours, alive=3, missing=(RANK,)))
            assert left == (
                State.STOPPING,
                Reason("stopping", "stopping, ended by eagletui: 3 of its processes are left"),
            )
            assert "1 of its processes is left" in judge(replace(ours, alive=1, missing=(RANK,)))[1].text
        drains = judge(
            Evidence(server=UP, launcher_alive=True, alive=4, log=log, stopping=True, missing=(RANK,), running=2)
        )
        assert drains == (
            State.STOPPING,
            Reason("draining", "eagletui asked it to stop, and it drains; 2 requests still run"),
        )
        assert (
            judge(Evidence(server=dead, launcher_alive=False, alive=0, log=log, exit_status=137, was_ready=True))[0]
            is State.CRASHED
        )


def test_a_launch_of_ours_that_no_engine_came_of_never_started() -> None:
    dead = replace(UP, launcher=replace(UP.launcher, state="X"))
    never = Evidence(
        server=dead, launcher_alive=False, alive=0, recorded=True, exit_status=127, printed="env: 'pyton': No such file"
    )
    assert judge(never) == (
        State.CRASHED, Reason("never-started", "never started: exit status 127 (no such program): env: 'pyton': No such file"),
    )  # fmt: skip
    assert judge(replace(never, printed=None, log_empty=True))[1].text.endswith(
        "(no such program), and its log is empty"
    )
    loading = replace(never, log=LogState("starting", "weights", (Phase("launch", "done", 9.0),)), exit_status=137)
    assert judge(loading)[1].code == "died"
    assert "ended by SIGKILL (exit status 137)" in judge(loading)[1].text
    assert judge(replace(loading, never_ran=True))[1].code == "never-started"
    assert judge(replace(never, recorded=False))[1].code == "died"
    assert judge(replace(loading, exit_status=0, was_ready=True))[0] is State.ABSENT


def test_sentences_say_what_is_known() -> None:
    assert judge(Evidence(server=LOADING, log=WEIGHTS))[1].text == "loading: weights 12/64 shards"
    assert "CUDA out of memory" in judge(Evidence(server=UP, log=CRASHED))[1].text
    assert "scheduler TP1" in judge(Evidence(server=UP, missing=(RANK,)))[1].text
    assert "the link is gone" in judge(Evidence(linked=False, link_error="the link is gone"))[1].text
    assert "3 of its processes" in judge(Evidence(server=UP, launcher_alive=False, alive=3))[1].text
    assert "another user" in judge(Evidence(server=THEIRS))[1].text


def test_a_stall_says_what_does_not_come_and_who_lives() -> None:
    loading = replace(LOADING, tp=2)
    text = judge(Evidence(server=loading, log=WEIGHTS, stillness=still(312.0), waiting=((RANK, 75.0),)))[1].text
    assert text == "no shard for 5:12, 2 of 2 schedulers alive; scheduler TP1 waits in the kernel (state D) since 1:15"
    text = judge(Evidence(server=LOADING, log=WEIGHTS, stillness=still(160.0)))[1].text
    assert text == "loading: weights 12/64 shards; no shard for 2:40"
    text = judge(Evidence(server=UP, running=1, queued=4, no_tokens_s=75.0, gpu_busy_pct=100))[1].text
    assert text == "1 request runs and 4 wait and no token came for 1:15 (GPUs at 100 %)"
    text = judge(Evidence(server=UP, suspended=(RANK,)))[1].text
    assert f"scheduler TP1 (pid {RANK.process.pid}) was stopped by a signal" in text
    text = judge(Evidence(server=UP, health=OK, deep=DEEP_MUTE))[1].text
    assert text == "/health answers 200, but /health_generate did not answer in time: it makes no token"
    foreign = replace(UP, foreign_listener=True)
    assert "its own ready line" in judge(Evidence(server=foreign, health=OK, log=READY))[1].text


def test_a_zombie_counts_as_dead_unless_it_has_threads() -> None:
    for member, code in ((RANK, "rank-missing"), (DETOKENIZER, "died")):
        family = tuple(gone(m) if m is member else m for m in UP.family)
        state, reason = judge(Evidence(server=replace(UP, family=family), health=OK))
        assert (state, reason.code) == (State.CRASHED, code)
    launcher = replace(UP.launcher, state="Z", threads=1)
    assert judge(Evidence(server=replace(UP, launcher=launcher), health=OK))[1].code == "died"
    threaded = replace(UP.launcher, state="Z", threads=5)
    assert judge(Evidence(server=replace(UP, launcher=threaded), health=OK))[0] is State.READY


def without(found: Server, *ranks: str) -> Server:
    return replace(found, family=tuple(m for m in found.family if m.rank not in ranks))


GRAPHS = LogState("starting", "graphs")


@pytest.mark.parametrize("log", [GRAPHS, READY, LogState("starting", "weights")])
def test_a_rank_that_is_not_there_is_missing_once_all_have_met(log: LogState) -> None:
    assert missing_ranks(without(server(8), "TP3", "TP5"), log) == ("TP3", "TP5")
    assert missing_ranks(server(8), log) == ()
    assert judge(Evidence(server=without(UP, "TP1"), log=log))[1].code == "rank-missing"
    single = server(1)
    assert missing_ranks(single, log) == ()
    alone = replace(single, family=tuple(m for m in single.family if m.role != "scheduler"))
    assert missing_ranks(alone, log) == ("scheduler",)


@pytest.mark.parametrize(
    ("found", "log"),
    [
        (without(UP, "TP1"), LogState()),
        (without(UP, "TP1"), LogState("starting", "launch")),
        (without(UP, "TP1"), LogState("starting", "distributed")),
        (without(UP, "TP1"), LogState("unknown", "graphs")),
        (YOUNG, GRAPHS),
        (replace(YOUNG, family=(*YOUNG.family, DETOKENIZER)), GRAPHS),  # other children still import
        (without(server(2, extra=("--nnodes", "2")), "TP1"), GRAPHS),
        (without(server(2, extra=("--config", "x.yaml")), "TP1"), GRAPHS),
        (without(replace(UP, engine="vllm"), "TP1"), GRAPHS),
    ],
)
def test_no_false_alarm_about_ranks(found: Server, log: LogState) -> None:
    assert missing_ranks(found, log) == ()


def test_the_worst_is_judged() -> None:
    ready = judge(Evidence(server=UP, health=OK))
    crashed = judge(Evidence(server=UP, log=CRASHED))
    assert worst([ready, crashed, ready]) == crashed
    assert worst([]) is None


@given(
    st.builds(
        Evidence,
        server=st.sampled_from([None, UP, LOADING, YOUNG, FOREIGN, THEIRS]),
        linked=st.booleans(),
        launcher_alive=st.sampled_from([None, True, False]),
        alive=st.sampled_from([None, 0, 3]),
        missing=st.sampled_from([(), (RANK,), (DETOKENIZER,), (WORKER,)]),
        log=st.sampled_from([LogState(), WEIGHTS, READY, CRASHED, STOPPED, LogState("stalled")]),
        health=st.sampled_from([None, OK, BUSY, REFUSED, SICK, HealthSeen(404, None, None), HealthSeen()]),
        running=st.sampled_from([None, 0, 2]),
        tokens_age_s=st.sampled_from([None, 0.1, 30.0, 90.0]),
        was_ready=st.booleans(),
        stopping=st.booleans(),
        queued=st.sampled_from([None, 0, 2]),
        no_tokens_s=st.sampled_from([None, 5.0, 90.0]),
        deep=st.sampled_from([None, DEEP_SICK, HealthSeen(200, None, 5.0)]),
        stillness=st.sampled_from([None, still(1.0), still(999.0)]),
        suspended=st.sampled_from([(), (RANK,)]),
        waiting=st.sampled_from([(), ((RANK, 50.0),)]),
        helpers_gone=st.sampled_from([(), (WORKER,)]),
        gpu_trouble=st.sampled_from([None, "GPU 3 is lost"]),
        compiling_s=st.sampled_from([None, 5.0, 999.0]),
        log_empty=st.sampled_from([None, True, False]),
        launch_s=st.sampled_from([None, 1.0, 9.0]),
    )
)
@settings(max_examples=300)
def test_every_combination_has_a_state(evidence: Evidence) -> None:
    state, reason = judge(evidence)
    assert reason.code
    assert reason.text
    assert (state is State.OFFLINE) == (not evidence.linked)
    if evidence.linked and evidence.server is None:
        assert state in {State.ABSENT, State.CRASHED, State.STARTING}
    if state is State.READY:
        assert evidence.launcher_alive is not False
        assert evidence.log.state != "crashed"
        assert not evidence.suspended
        assert evidence.gpu_trouble is None
