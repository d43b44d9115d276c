"""The start that ships: what our own reader of logs says of it, and what it looks like when it is played."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime

import pytest

from eagletui.demo import shape
from eagletui.demo.engine import Engine
from eagletui.demo.world import World, start_recording
from eagletui.engines.arguments import read_arguments
from eagletui.logs.reader import Reader

LAUNCHED = 1_800_000_000.0


def engine(speed: float = 1.0, utc_offset: float = 0.0) -> Engine:
    return Engine(start_recording(), launched=LAUNCHED, pid=4711, speed=speed, utc_offset=utc_offset)


def text_of(played: Engine) -> str:
    return played.log.read(0, played.log.size).decode()


def test_the_recording_is_small_and_whole() -> None:
    recording = start_recording()
    assert recording.note is None
    assert recording.header.extra["model"] == shape.MODEL
    times = [r.t for r in recording.channel("log")]
    assert times[0] == shape.FIRST_BYTE
    assert times[-1] == shape.READY
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) < 10


def test_the_reader_of_logs_finds_every_phase_and_ready_after_110_seconds() -> None:
    played, reader = engine(), Reader("sglang")
    at = 0
    for tenth in range(1105):
        played.advance(LAUNCHED + tenth / 10)
        reader.feed(played.log.read(at, 1 << 20), tenth / 10)
        at = played.log.size
    state = reader.state
    assert state.state == "ready"
    assert state.launch_count == 1
    assert state.error_text is None
    seconds = {phase.name: phase.seconds for phase in state.phases}
    assert seconds["weights"] == pytest.approx(shape.DRAFT - shape.WEIGHTS, abs=2)
    assert seconds["graphs"] == pytest.approx(shape.HTTP_OPEN - shape.GRAPHS, abs=2)
    assert seconds["warmup"] == pytest.approx(shape.READY - shape.HTTP_OPEN, abs=2)
    assert {"distributed", "draft-weights", "kv-cache"} <= set(seconds)
    assert state.args["tp_size"] == 8
    assert state.args["speculative_eagle_topk"] == 4


def test_the_shard_bar_counts_to_64_and_the_draft_has_one() -> None:
    played = engine()
    played.advance(LAUNCHED + shape.GRAPHS)
    bars = re.findall(r"\rLoading safetensors checkpoint shards: +(\d+)% Completed \| (\d+)/(\d+) ", text_of(played))
    assert [int(n) for _, n, total in bars if total == "64"] == list(range(65))
    assert [int(n) for _, n, total in bars if total == "1"] == [0, 1]
    assert all(int(percent) == 100 * int(n) // int(total) for percent, n, total in bars)


def test_every_rank_prints_its_lines_and_rank_0_alone_bars() -> None:
    played = engine()
    played.advance(LAUNCHED + shape.READY)
    text = text_of(played)
    for rank in range(8):
        own = [line for line in text.splitlines() if f" TP{rank}] " in line]
        assert sum("Load weight end." in line for line in own) == 2
        assert sum("KV Cache is allocated." in line for line in own) == 2
        assert any("Init torch distributed ends." in line for line in own)
    found = re.search(r"server_args=(ServerArgs\(.*\))", text)
    assert found is not None
    assert read_arguments(found[1])["model_path"] == shape.MODEL
    assert "Started server process [4711]" in text
    assert "srv/models" not in text


def test_stamps_are_this_nodes_time_and_only_go_forward() -> None:
    played = engine(speed=20.0, utc_offset=7200.0)
    played.advance(LAUNCHED + 20)
    stamps = re.findall(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", text_of(played))
    assert stamps == sorted(stamps)
    first = datetime.strptime(stamps[0], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    last = datetime.strptime(stamps[-1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    assert first - 7200 - LAUNCHED == pytest.approx(8.2 / 20, abs=1)
    assert last - 7200 - LAUNCHED == pytest.approx(20, abs=1)


def test_the_log_is_the_same_however_often_it_is_asked() -> None:
    once, often = engine(), engine()
    once.advance(LAUNCHED + 200)
    sizes = []
    for step in range(800):
        often.advance(LAUNCHED + step / 4)
        sizes.append(often.log.size)
    often.advance(LAUNCHED + 200)
    assert sizes == sorted(sizes)
    assert text_of(once) == text_of(often)


@pytest.mark.parametrize("speed", [1.0, 20.0])
def test_http_opens_then_answers_503_then_is_ready(speed: float) -> None:
    played = engine(speed)
    states = [played.http_state(LAUNCHED + e / speed) for e in (0, 101, 102, 109.9, 110.1, 5000)]
    assert states == ["closed", "closed", "warm-up", "warm-up", "ready", "ready"]


@pytest.mark.parametrize("speed", [0.5, 1.0, 20.0])
def test_the_world_opens_on_a_launch_that_is_nearly_done(speed: float) -> None:
    world = World(opened=LAUNCHED, speed=speed)
    assert world.engine.ready_in(LAUNCHED) == pytest.approx(15 / speed)
    world.advance(LAUNCHED)
    assert "Capturing batches" in text_of(world.engine)[-300:]
    assert re.fullmatch(r"/data/eagle3/k25_2step_\d{4}-\d{6}\.log", world.log_path)


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        World(opened=LAUNCHED, speed=speed)
