"""What must hold of any log, however it is cut, mutilated or ended."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eagletui.cli.explain_model import build
from eagletui.logs.explain import Explanation, explain
from eagletui.logs.reader import Reader
from tests.logs.recorded import cut, recorded
from tests.logs.stamped import log as sglang_log
from tests.logs.stamped import served as sglang_served
from tests.logs.vllm_lines import log, served, step_failed, throughput

HEALTHY = {
    "cpu-life.log": b"fired up and ready to roll",
    "h200-tp1.log": b"fired up and ready to roll",
    "h200-tp2-eagle3.log": b"fired up and ready to roll",
    "vllm-startup.log": b"Application startup complete",
}
"""Recordings of starts that went well, and what says that one is ready."""
KILLED = b"Scheduler hit an exception"
"""One of them was killed in the end."""
DUE = {"jit-compiling", "slow-load", "health-check-failed"}
"""Warnings that a start which goes well may raise: it compiles, reads from a disk, and answers 503 until it is ready."""
FAILED = [
    "cpu-model-missing.log",
    "cpu-port-in-use.log",
    "cpu-unknown-flag.log",
    "h200-mem-fraction-high.log",
    "h200-no-gpu.log",
    "h200-port-in-use.log",
]
STOPPED = [
    "cpu-sigint-idle.log",
    "cpu-sigterm-while-spawning.log",
    "h200-pty-ctrl-c.log",
    "h200-sigterm-under-load.log",
]
PIECE = 6_000
"""Bytes of a recording that are cut at random or mutilated."""

quick = settings(
    max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate], database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


@cache
def pieces() -> list[bytes]:
    """Parts of logs that hold much in little: ends of failures, begins of starts, made ones."""
    made = [
        log(served(), throughput(100, 4, 200.0), step_failed(105, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")),
        sglang_log(sglang_served(2)),
        "Loading: 50%|█████     | 1/2 [00:01<00:01,  1.00it/s]\r\n\x1b[1;36m(EngineCore pid=2)\x1b[0m x\r[2025-09-01 10:00:00 TP0] Größe\r\n".encode() * 30,
    ]  # fmt: skip
    return [
        *made,
        *(recorded(name)[-PIECE:] for name in FAILED + STOPPED),
        *(recorded(name)[:PIECE] for name in HEALTHY),
    ]


def told(blocks: list[bytes]) -> str:
    """The whole answer, as it is printed."""
    return build(explain(blocks)).model_dump_json()


def state_of(blocks: list[bytes]) -> object:
    """What a reader knows at the end."""
    reader = Reader()
    for block in blocks:
        reader.feed(block, 0.0)
    reader.flush(0.0)
    return reader.servers


@quick
@given(st.data())
def test_however_a_log_is_cut_the_answer_is_the_same(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(pieces()))
    parts = cut(
        text,
        data.draw(st.integers(0, 2**20)),
        data.draw(st.sampled_from([2, 17, 200, 2_000])),
    )
    assert state_of(parts) == state_of([text])
    assert told(parts) == told([text])


@quick
@given(
    st.lists(
        st.binary(max_size=400)
        | st.sampled_from(
            [
                b"\n",
                b"\r",
                b"\0",
                b"\x1b[",
                b"[2025-09-01 10:00:00 TP0] ",
                b"Traceback (most recent call last):\n",
                b'{"log":',
            ]
        ),
        max_size=12,
    )
)
def test_random_bytes_never_raise(blocks: list[bytes]) -> None:
    told(blocks)
    state_of(blocks)


@quick
@given(st.data())
def test_a_mutilated_log_never_raises(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(pieces())))
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(text) - 1))
        what = data.draw(st.sampled_from(["byte", "gone", "twice", "line"]))
        end = min(len(text), at + data.draw(st.integers(1, 2_000)))
        if what == "byte":
            text[at] = data.draw(st.integers(0, 255))
        elif what == "gone" and len(text) > 5_000:
            del text[at:end]
        elif what == "twice":
            text[at:at] = text[at:end]
        else:
            text[at:at] = b"\n"
    told([bytes(text)])


def alarms(answer: Explanation) -> list[str]:
    """What an answer says that a healthy start must not be told."""
    wrong = []
    for server in answer.servers:
        for launch in server.launches:
            wrong += [f"{launch.state}: {launch.diagnosis.summary}"] if launch.diagnosis is not None else []
            wrong += [one.text for one in launch.warnings if one.code not in DUE]
    return wrong


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_start_raises_no_alarm_wherever_it_ends(name: str) -> None:
    reader, ready = Reader(), False
    whole = recorded(name).partition(KILLED)[0].rpartition(b"\n")[0] + b"\n"
    for line in whole.splitlines(keepends=True):
        reader.feed(line, 0.0)
        ready = ready or HEALTHY[name] in line
        for state in reader.servers.values():
            assert state.diagnosis is None, line
            assert {one.code for one in state.warnings} <= DUE, line
            assert state.state in (("ready", "stopped") if ready else ("starting",)), line
    assert ready
    assert not alarms(explain([whole]))


@pytest.mark.parametrize("name", STOPPED)
def test_a_wanted_stop_is_no_crash(name: str) -> None:
    answer = explain([recorded(name)], exit_code=-15)
    assert [launch.state for server in answer.servers for launch in server.launches] == ["stopped"]
    assert not alarms(answer)
