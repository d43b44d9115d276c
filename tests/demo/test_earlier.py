"""The starts that the simulated node had before, and its log's own times at another speed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eagletui.cli.keeping import history_of
from eagletui.demo import shape
from eagletui.demo.earlier import earlier_starts, log_of_a_start
from eagletui.demo.engine import Engine
from eagletui.demo.pace import paced
from eagletui.demo.shape import HOST, LAUNCHER_PID, MACHINE_ID
from eagletui.demo.world import World, start_recording
from eagletui.history.launches import Identity, kind_of, machine_name
from eagletui.logs.reader import Reader
from eagletui.shell.poll import Machine

OPENED = 1_800_000_000.0


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_six_starts_that_went_as_the_present_one_goes(speed: float) -> None:
    history = history_of("demo", speed)
    machine = machine_name(Machine("b", MACHINE_ID, HOST), "demo")
    kind = kind_of("sglang", shape.COMMAND, shape.MODEL, shape.RANKS)
    found = history.earlier(kind, Identity(machine, "b", LAUNCHER_PID, 1))
    assert len(found) == 6
    reader = Reader("sglang")
    reader.feed(log_of_a_start(OPENED, speed), 0.0)
    now = {phase.name: phase.seconds for phase in reader.state.phases if phase.seconds is not None}
    for start in found:
        assert start.cold is False
        assert set(start.phases) == set(now) - {"serving"}
        assert start.ready_s == pytest.approx(reader.state.ready_s, rel=0.09)
        assert all(start.phases[name] == pytest.approx(now[name], rel=0.09) for name in start.phases)
    assert len({start.ready_s for start in found}) == 6
    again = [start.pace("weights") for start in earlier_starts(speed)]
    assert again == [start.pace("weights") for start in earlier_starts()]


def test_its_folder_goes_with_it_also_when_it_was_killed(tmp_path: Path) -> None:
    code = "import os, signal, sys; from eagletui.cli.keeping import history_of; h = history_of('demo'); print(h.path.parent.is_dir())"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = f"{code}; sys.stdout.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    for line, left in ((code, 0), (killed, 1), (code, 0)):
        done = subprocess.run([sys.executable, "-c", line], env=env, capture_output=True, timeout=60, check=False)
        assert done.stdout == b"True\n", done.stderr
        assert len(list(tmp_path.iterdir())) == left


def test_they_were_on_this_machine_before_its_present_launch() -> None:
    world = World(opened=OPENED)
    starts = earlier_starts()
    now = int((world.engine.launched - world.boot) * 100)
    assert all(0 < start.ticks < now and start.pid != LAUNCHER_PID for start in starts)
    assert len({start.pid for start in starts}) == len(starts)


def test_a_log_at_another_speed_tells_its_own_times() -> None:
    reader = Reader("sglang")
    reader.feed(log_of_a_start(OPENED, 4.0), 0.0)
    seconds = {phase.name: phase.seconds for phase in reader.state.phases}
    assert seconds["weights"] == pytest.approx(41.8 / 4, abs=0.3)
    assert reader.state.ready_s == pytest.approx(101 / 4, abs=1)
    played = Engine(start_recording(), launched=OPENED, pid=1, speed=4.0)
    played.advance(OPENED + 12)
    bars = re.findall(
        rb"checkpoint shards: .*?(\d+)/64 \[00:(\d\d)<00:(\d\d), +([0-9.]+)(?:it/s|s/it)\]", played.log.read(0, 1 << 20)
    )
    done, spent, left, rate = (float(word) for word in bars[-1])
    assert done > 20
    assert spent == pytest.approx((48 - shape.WEIGHTS) / 4, abs=1)
    assert left == pytest.approx((64 - done) / rate, abs=2)


def test_times_that_are_no_times_stay() -> None:
    text = b"x [00:10<00:30,  2.00it/s] y elapsed=4.00 s, mem usage=1.61 GB [00:00<?, ?it/s] 8/64 [2026-01-01 00:00:09]"
    told = b"x [00:05<00:15,  4.00it/s] y elapsed=2.00 s, mem usage=1.61 GB [00:00<?, ?it/s] 8/64 [2026-01-01 00:00:09]"
    assert paced(text, 2.0) == told
    assert paced(b"[00:10<00:30,  1.50s/it]", 2.0) == b"[00:05<00:15,  1.33it/s]"
    assert paced(b"[00:10<00:30,  1.50it/s]", 0.5) == b"[00:20<01:00,  1.33s/it]"
