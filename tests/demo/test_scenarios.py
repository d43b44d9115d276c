"""What happens to the simulated server on purpose: its log, processes, GPUs, HTTP and kernel tell one story."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eagletui.demo import answers, shape
from eagletui.demo.scenarios import SCENARIOS, scenario_of
from eagletui.demo.world import World
from eagletui.logs.explain import Explained, explain
from eagletui.shell.kernel import parse_kernel_log, parse_oom_count

OPENED = 1_800_000_000.0


def world_of(name: str, e: float) -> tuple[World, float]:
    """The node of a scenario, advanced to an engine's time; with the node's time then."""
    world = World(opened=OPENED, scenario=scenario_of(name))
    now = world.engine.node_time(e)
    world.advance(now)
    return world, now


def at_of(name: str) -> float:
    """When it happens, by the engine's time."""
    at = SCENARIOS[name].at
    assert at is not None
    return at


def told_of(world: World) -> Explained:
    return explain([world.engine.log.read(0, 1 << 24)]).servers[0].launches[-1]


def test_out_of_memory_in_capture() -> None:
    at = at_of("oom")
    world, now = world_of("oom", at - 0.5)
    assert told_of(world).state == "starting"
    assert len(world.processes(now)) > 20
    world, now = world_of("oom", at + 1.0)
    found = told_of(world).diagnosis
    assert found is not None
    assert (found.code, found.phase, found.rank) == ("cuda-oom", "graphs", "TP3")
    assert world.engine.http_state(now) == "closed"
    assert any(world.serves(proc) for proc in world.processes(now))
    world, now = world_of("oom", at + 10.0)
    assert not any(world.serves(proc) for proc in world.processes(now))
    assert not world.holders(world.readings(now))
    assert told_of(world).state == "crashed"


def test_killed_for_memory() -> None:
    at = at_of("rank-dies")
    world, now = world_of("rank-dies", at - 1.0)
    assert not parse_kernel_log(answers.kernel_log(world, (), now).stdout).events
    world, now = world_of("rank-dies", at + 1.0)
    pid = world.engine.rank_pid(5)
    assert pid not in {proc.pid for proc in world.processes(now)}
    kernel = parse_kernel_log(answers.kernel_log(world, (), now).stdout)
    assert [event.pid for event in kernel.events if event.pid is not None] == [pid]
    count = parse_oom_count(answers.oom_count(world, [str(world.engine.pid).encode()], now).stdout)
    assert count is not None
    assert count.kills == 1
    told = told_of(world)
    assert told.diagnosis is not None
    assert (told.state, told.diagnosis.code) == ("crashed", "worker-killed")


def test_a_hang() -> None:
    at = at_of("stalls")
    world, now = world_of("stalls", at + 1.0)
    size, metrics = world.engine.log.size, world.engine.metrics(now)
    assert world.engine.load.running > 0
    later = now + 60.0
    world.advance(later)
    assert (world.engine.log.size, world.engine.metrics(later)) == (size, metrics)
    assert world.engine.http_state(later) == "ready"
    assert told_of(world).state == "ready"


def test_names_that_they_had_before() -> None:
    assert (scenario_of("hang"), scenario_of("killed")) == (SCENARIOS["stalls"], SCENARIOS["rank-dies"])
    with pytest.raises(KeyError):
        scenario_of("fire")


def test_each_opens_before_it_happens() -> None:
    for scenario in SCENARIOS.values():
        assert scenario.at is None or 0 < scenario.at - scenario.opens < 20
        assert all(first.after <= second.after for first, second in zip(scenario.says, scenario.says[1:], strict=False))
        assert scenario.rank is None or scenario.rank < shape.RANKS


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("local", "--scenario", "oom"), "is for the demo node alone"),
        (("demo", "--scenario", "fire"), "there is no scenario 'fire'"),
    ],
)
def test_what_is_no_scenario(args: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eagletui", "status", *args], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
