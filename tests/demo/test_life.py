"""How the simulated server ends and begins anew: signals, what they leave, and what another command line makes of it."""

from __future__ import annotations

import re

import pytest

from eagletui.demo import shape
from eagletui.demo.engine import Engine
from eagletui.demo.life import INT, KILL, TERM
from eagletui.demo.opening import changed
from eagletui.demo.scenarios import SCENARIOS
from eagletui.demo.world import World
from eagletui.engines.arguments import read_arguments
from eagletui.logs.explain import explain
from eagletui.servers.record import parse_record

OPENED = 1_800_000_000.0


def world_at(e: float, scenario: str | None = None) -> tuple[World, float]:
    """The node when its server is so old, and its time then."""
    world = World(opened=OPENED, scenario=SCENARIOS[scenario] if scenario is not None else None)
    now = world.engine.node_time(e)
    world.advance(now)
    return world, now


def gone_after(world: World, now: float, step: float = 0.05) -> dict[str, float]:
    """For each member, by what it is, after how many seconds it was gone; those that stay are not there."""
    engine = world.engine
    found: dict[str, float] = {}
    left = {proc.pid: proc.title or proc.comm for proc in engine.processes(now) if not proc.is_gone}
    left[engine.pid] = "launcher"
    left[engine.life.tracker] = "tracker"
    after = 0.0
    while left and after < 200:
        after += step
        world.advance(now + after)
        there = {proc.pid for proc in engine.processes(now + after) if not proc.is_gone}
        for pid in set(left) - there:
            found[left.pop(pid)] = after
    return found


def text_of(engine: Engine) -> str:
    return engine.log.read(0, engine.log.size).decode()


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_stop_drains_in_under_3_s_and_goes_in_the_recorded_order(number: int) -> None:
    world, now = world_at(shape.READY + 40)
    engine = world.engine
    running = engine.load.running
    assert running > 0
    world.signal(now, engine.pid, number)
    assert engine.http_state(now + 0.01) == "draining"
    gone = gone_after(world, now)
    assert set(gone) >= {"launcher", "tracker", "sglang::detokenizer", *(f"sglang::scheduler_TP{n}" for n in range(8))}
    assert gone["sglang::scheduler_TP0"] <= gone["sglang::scheduler_TP7"] < gone["launcher"] <= gone["tracker"] < 3.0
    assert engine.life.exit is not None
    assert engine.life.exit[1] == 137
    told = text_of(engine)
    assert f"Remaining number of requests {running}." in told
    assert told.index("Remaining number of requests 0. Remaining requests remaining_rids=[].") < told.index(
        "kill_process_tree"
    )
    assert world.shared_memory(now + 3) == []
    assert not world.holders(world.readings(now + 3.5))
    size = engine.log.size
    world.advance(now + 60)
    assert (engine.log.size, engine.http_state(now + 60)) == (size, "closed")


def test_a_stop_is_told_alike_however_often_it_is_looked_at() -> None:
    texts = []
    for looks in (1, 40):
        world, now = world_at(shape.READY + 40)
        world.signal(now, world.engine.pid, TERM)
        for n in range(1, looks + 1):
            world.advance(now + 5 * n / looks)
        texts.append(text_of(world.engine))
    assert texts[0] == texts[1]


def test_a_second_term_changes_nothing_and_memory_comes_back_after_the_death() -> None:
    world, now = world_at(shape.READY + 40)
    engine = world.engine
    world.signal(now, engine.pid, TERM)
    world.signal(now + 0.2, engine.pid, TERM)
    rank = engine.rank_pid(0)
    at = now
    while any(proc.pid == rank and proc.state != "Z" for proc in engine.processes(at)):
        at += 0.01
        world.advance(at)
    held = [world.readings(at + after)[0].used_mib for after in (0.0, 0.25, 0.35)]
    assert held[0] == held[1] > 100_000
    assert held[2] == 0


def test_long_answers_are_waited_for_and_end_with_the_kill() -> None:
    world, now = world_at(shape.READY + 10, "slow-drain")
    world.signal(now, world.engine.pid, TERM)
    for n in range(1, 30):
        world.advance(now + n)
    assert not world.engine.is_gone(now + 29)
    assert len(re.findall("Gracefully exiting", text_of(world.engine))) == 6
    world.signal(now + 30, world.engine.pid, KILL)
    assert gone_after(world, now + 30)["launcher"] < 0.2
    assert {one.used for one in world.shared_memory(now + 32)} == {False}
    world, now = world_at(shape.READY + 10, "slow-drain")
    world.signal(now, world.engine.pid, TERM)
    assert 45 < gone_after(world, now, 0.5)["launcher"] < 120


def test_a_term_while_it_starts_ends_it_at_once_but_who_imports_lives_on() -> None:
    world, now = world_at(shape.WEIGHTS + 5)
    world.signal(now, world.engine.pid, TERM)
    assert max(gone_after(world, now).values()) < 0.5
    assert world.engine.life.exit is not None
    assert world.engine.life.exit[1] == 143
    world, now = world_at(shape.CHILDREN + 2)
    engine = world.engine
    world.signal(now, engine.pid, TERM)
    world.advance(now + 1)
    left = [proc for proc in engine.processes(now + 1) if not proc.is_gone]
    assert len(left) == 10
    assert {proc.ppid for proc in left} == {1}
    for proc in left:
        world.signal(now + 1, proc.pid, TERM)
    assert {proc.pid for proc in engine.processes(now + 2)} == {engine.life.tracker}  # it ignores TERM
    assert engine.processes(now + 40) == []


def test_kills() -> None:
    world, now = world_at(shape.READY + 20)
    world.signal(now, world.engine.pid, KILL)
    assert max(gone_after(world, now).values()) < 0.6
    assert len(world.shared_memory(now + 5)) == 9
    world, now = world_at(shape.READY + 20)
    world.signal(now, world.engine.rank_pid(2), KILL)
    gone = gone_after(world, now)
    assert ("sglang::scheduler_TP2" in gone, 4.9 < gone["sglang::scheduler_TP3"] <= gone["launcher"] < 5.6) == (
        False,
        True,
    )
    found = explain([text_of(world.engine).encode()]).servers[0].launches[-1]
    assert (found.state, found.diagnosis is not None and found.diagnosis.code) == ("crashed", "worker-killed")


def test_a_zombie_keeps_its_gpu() -> None:
    world, now = world_at(shape.READY + 20, "zombie")
    world.signal(now, world.engine.pid, TERM)
    world.advance(now + 10)
    (left,) = world.engine.processes(now + 10)
    assert (left.pid, left.state, left.is_gone) == (world.engine.rank_pid(3), "Z", False)
    world.signal(now + 10, left.pid, KILL)
    assert [reading.used_mib > 100_000 for reading in world.readings(now + 30)] == [n == 3 for n in range(8)]
    assert world.readings(now + 30)[3].util == 0
    assert world.engine.processes(now + 30) == [left]


def test_somebody_elses_job_takes_what_comes_free() -> None:
    world, now = world_at(shape.READY + 20, "stuck-gpu")
    assert not any(holder.pid == 38_115 for holder in world.holders(world.readings(now)))
    world.signal(now, world.engine.pid, TERM)
    for n in range(1, 60):
        world.advance(now + n / 10)
    found = [holder for holder in world.holders(world.readings(now + 6)) if holder.gpu.index == 2]
    assert [(holder.pid, holder.mib) for holder in found] == [(38_115, 38_912)]
    assert [reading.used_mib for reading in world.readings(now + 6)] == [0, 0, 38_912, 0, 0, 0, 0, 0]


def launch(world: World, now: float, *flags: str) -> Engine:
    """One more, with flags changed."""
    return world.launch(changed(shape.COMMAND, flags), now, log="/data/eagle3/next.log", pid=world.new_pid())


def test_the_next_launch_is_the_new_command() -> None:
    world, now = world_at(shape.READY + 20)
    world.signal(now, world.engine.pid, TERM)
    world.advance(now + 5)
    now += 5
    flags = ("--speculative-num-steps", "3", "--port", "31000", "--mem-fraction-static", "0.85")
    engine = launch(world, now, *flags)
    world.advance(now + shape.READY + 60)
    found = re.search(r"server_args=(ServerArgs\(.*\))", text_of(engine))
    assert found is not None
    told = read_arguments(found[1])
    assert (told["speculative_num_steps"], told["port"], told["mem_fraction_static"], told["tp_size"]) == (
        3,
        31000,
        0.85,
        8,
    )
    assert (told["speculative_eagle_topk"], told["model_path"], told["enable_metrics"]) == (4, shape.MODEL, True)
    assert "Uvicorn running on http://127.0.0.1:31000" in text_of(engine)
    assert (world.serving(31000, world.now), world.serving(30000, world.now)) == (engine, None)
    accepted = [float(one) for one in re.findall(r"accept len: ([\d.]+)", text_of(engine))]
    assert sum(accepted) / len(accepted) == pytest.approx(2.42, abs=0.05)
    assert explain([text_of(engine).encode()]).servers[0].launches[-1].state == "ready"
    assert b'"speculative_num_steps":3' in (engine.body("/server_info", world.now) or b"")


@pytest.mark.parametrize(
    ("flags", "code", "status"),
    [
        (("--tp", "4"), "cuda-oom", 137), (("--tp", "16"), None, 137), (("--tp", "3"), None, 137), (("--model-path", "/shared/none"), "model-not-found", 1),
        (("--no-such-flag", "3"), "bad-flag", 2), (("--port", "many"), "bad-flag", 2), (("--mem-fraction-static", "0.97"), "cuda-oom", 137),
        (("--mem-fraction-static", "0.5"), None, 137),
    ],
)  # fmt: skip
def test_what_it_cannot_start_with_it_says_as_sglang_does(
    flags: tuple[str, ...], code: str | None, status: int
) -> None:
    world, now = world_at(shape.READY + 20)
    world.signal(now, world.engine.pid, TERM)
    world.advance(now + 5)
    engine = launch(world, now + 5, *flags)
    world.advance(now + 200)
    assert engine.processes(now + 200) == []
    assert engine.life.exit is not None
    assert engine.life.exit[1] == status
    found = explain([text_of(engine).encode()], engine="sglang").servers[0].launches[-1]
    assert found.state == "crashed"
    assert found.diagnosis is not None
    assert code is None or found.diagnosis.code == code


def test_no_two_processes_share_a_pid_however_long_it_is_looked_at() -> None:
    world, now = world_at(shape.READY + 20)
    for _ in range(2000):
        own = world.own_pid()
    world.signal(now, world.engine.pid, TERM)
    for n in range(4):
        launch(world, now + n, "--port", str(31000 + n))
    world.advance(now + 60)
    pids = [proc.pid for proc in world.processes(now + 60, own)]
    assert len(pids) == len(set(pids)) > 55


def test_out_of_memory_comes_again_unless_it_is_cured() -> None:
    for flags, ready in (((), False), (("--mem-fraction-static", "0.85"), True)):
        world, now = world_at(shape.READY, "oom")
        engine = launch(world, now, *flags)
        world.advance(now + shape.READY + 1)
        assert (engine.http_state(now + shape.READY + 1) == "ready") is ready


def test_the_record_of_a_server_that_eagletui_launched() -> None:
    world, _ = world_at(shape.READY + 3, "rank-dies")
    (record,) = [entry for path, entry in world.files.walk("/home/demo") if path.endswith("record.json")]
    read = parse_record(record.data)
    assert read is not None
    assert read.launched
    assert read.keeper == (41_811, int((world.shells[41_811].started - world.boot) * 100))
    assert (read.command, read.port, read.log, read.outcome) == (shape.COMMAND, 30000, world.log_path, "done")
    assert len(read.family) == 16
    assert not any("hf_" in value for _, value in read.environment)
