"""What `wait` says to a person."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from eagletui.cli.wait_output import ERASE, LiveOutput
from eagletui.cli.wait_text import Sparse, cells, cut, end_lines, forecast, lines_of, live_line, several
from eagletui.history.estimate import Estimate
from eagletui.logs.state import Diagnosis, Progress, Quote
from eagletui.monitor.happenings import LogTold, PhaseTold, ProgressTold, StateTold
from eagletui.monitor.snapshot import Verdict
from eagletui.monitor.waiting import Ended
from eagletui.servers.model import Reason, State
from tests.ui import scenes

STARTING = scenes.starting()
SIX = Estimate(6, 110.0, 65.0, {"weights": 48.0})
LATE = Estimate(6, 110.0, None, {"weights": 48.0}, late="weights")
SECRET = "sk-canary-7f3e9d1c5b00"


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (None, ""),
        (SIX, "ready in ~1:05 (6 starts)"),
        (replace(SIX, starts=1, cold=True), "ready in ~1:05 (1 cold start)"),
        (replace(SIX, ready_in_s=0.0), "ready in ~0:01 (6 starts)"),
        (LATE, "weights usually 0:48, now 1:27"),
    ],
)
def test_when_it_will_be_ready(estimate: Estimate | None, said: str) -> None:
    assert forecast(replace(STARTING, estimate=estimate)) == said


def test_the_live_line() -> None:
    line = live_line(replace(STARTING, estimate=SIX), 120)
    assert line == "  weights        ███████████████░░░░░ 49/64 shards  1.3/s  1:27  ready in ~1:05 (6 starts)"
    assert not re.search(r"~\d", live_line(STARTING, 120))
    slow = replace(STARTING, startup=replace(STARTING.startup, progress=Progress(1, 8, "shards", 0.04)))
    assert "1/8 shards  25.0 s a shard" in live_line(slow, 120)
    assert "█" not in live_line(STARTING, 60)


@pytest.mark.parametrize(
    "scene", [scenes.starting, scenes.hostile, scenes.long_names, scenes.no_server, scenes.crashed, scenes.connecting]
)
@pytest.mark.parametrize("width", [0, 1, 5, 20, 79, 200])
def test_it_never_wraps_and_obeys_nobody(scene: object, width: int) -> None:
    assert callable(scene)
    line = live_line(scene(), width)
    assert cells(line) <= width
    assert line.isprintable()


def test_cutting_counts_columns() -> None:
    assert cut("模型模型", 8) == "模型模型"
    assert cut("模型模型", 6) == "模型…"
    assert cells(cut("模型模型", 6)) == 5
    assert cut("abc", 0) == ""


def test_lines_of_what_happened() -> None:
    def said(told: PhaseTold | ProgressTold | StateTold | LogTold, *, live: bool = False) -> list[str]:
        return list(lines_of(told, colour=False, live=live))

    assert said(PhaseTold("weights", True, 52.0, 48.0, 6, "8 ranks")) == [
        "✓ weights           0:52  usually 0:48  8 ranks"
    ]
    assert said(PhaseTold("kv-cache", True, 0.2, None, None, "")) == ["✓ KV cache          <1 s"]
    assert said(PhaseTold("kv-cache", True, None, None, None, "")) == ["✓ KV cache             –"]
    assert said(PhaseTold("weights", False, None, 48.0, 6, "")) == []
    bar = ProgressTold("weights", 49, 64, "shards", 1.31, 11.0, 87.0, 65.0, 6)
    assert said(bar) == ["  weights        49/64 shards (76 %)  1.3/s  1:27  ready in ~1:05 (6 starts)"]
    assert said(bar, live=True) == []
    hostile = LogTold("error", f"\x1b[31mno\x07 --api-key {SECRET}", None)
    assert said(hostile) == ["  error: \ufffd[31mno\ufffd --api-key ***"]
    assert said(StateTold(State.READY, Reason("idle", "idle"), None)) == []


def test_how_it_ended() -> None:
    server = scenes.make_server()
    diagnosis = Diagnosis(
        "cuda-oom", "critical", "weights", "TP3", "It does not fit.", "Take fewer.", (Quote(812, "CUDA out of memory"), Quote(0, "kernel")), "14:05:39"
    )  # fmt: skip
    dead = Ended(13, State.CRASHED, Reason("died", "the launcher is dead"), server, diagnosis=diagnosis)
    assert list(end_lines(dead, waited_s=9.0, colour=False, estimate=None)) == [
        "CRASHED 41822:1 (pid 41822, /shared/models/Kimi-K2.5-INT4): the launcher is dead",
        "  It does not fit. (cuda-oom, weights, TP3, 14:05:39)",
        "  what to do: Take fewer.",
        "  │ 812: CUDA out of memory",
        "  │ kernel",
    ]
    up = Ended(0, State.READY, Reason("idle", "idle"), server, ready_s=112.0)
    assert next(end_lines(up, waited_s=9.0, colour=False, estimate=SIX)).endswith("after 1:52, usually 1:50")
    assert next(end_lines(replace(up, ready_s=None), waited_s=9.0, colour=False, estimate=SIX)).endswith("INT4)")
    bad = replace(up, state=State.DEGRADED, reason=Reason("helper", "a helper is gone"))
    assert next(end_lines(bad, waited_s=9.0, colour=False, estimate=None)).endswith("after 1:52: a helper is gone")


def test_several_servers_are_named() -> None:
    servers = scenes.several().inventory.servers
    assert several(servers) == "3 servers: 41822:1, 52000:1, 53000:1; all have to be ready, --port waits for one"


def test_a_bar_in_a_pipe_is_told_by_tenths_or_after_a_while() -> None:
    def told(steps: list[tuple[float, int]]) -> list[int]:
        sparse = Sparse()
        return [
            done
            for at, done in steps
            if sparse.takes(ProgressTold("weights", done, 100, "shards", None, None, None, None, None), at)
        ]

    assert told([(n / 10, n) for n in range(101)]) == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert told([(n * 4.0, n) for n in range(9)]) == [0, 3, 6]
    assert told([(0, 0), (0.1, 50), (0.2, 100), (0.3, 0)]) == [0, 100]


def test_lines_stand_above_the_one_that_is_redrawn() -> None:
    screen = LiveOutput(colour=False)
    reading, screen.descriptor = os.pipe()
    calm = replace(STARTING, verdict=Verdict(State.STARTING, Reason("loading", "loading")))
    screen.show([], calm)
    screen.show([], calm)
    screen.show([PhaseTold("launch", True, 3.0, None, None, "")], calm)
    screen.end(Ended(0, State.READY, Reason("idle", "idle")), 1.0, None)
    os.close(screen.descriptor)
    written = os.read(reading, 65536).decode()
    os.close(reading)
    first, second, third = written.split("\n")[0].split("\r")[1:3], written.split("\n")[1], written.split("\n")[2]
    assert first[0].startswith("  weights")
    assert first[1] == f"✓ imports           0:03{ERASE}"  # nothing of what stood there is left
    assert second.startswith("  weights")
    assert second.split("\r")[1] == f"READY{ERASE}"
    assert third == ""


@pytest.mark.parametrize(
    ("columns", "begins"), [(80, "\r"), (79, "\r"), (40, "\r\x1b[1A\x1b[J"), (25, "\r\x1b[3A\x1b[J")]
)
def test_nothing_is_left_of_a_line_that_a_narrower_terminal_wrapped(
    columns: int, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And colours count for nothing: a coloured line that is shorter on the screen erases what stands behind it, one that is longer does not."""
    screen = LiveOutput(colour=True)
    reading, screen.descriptor = os.pipe()
    screen.draw([], "x" * 79)
    monkeypatch.setattr(screen, "room", lambda: columns - 1)
    coloured = "\x1b[1;32mREADY\x1b[0m " + "y" * 64
    screen.draw([coloured], "z" * 10)
    os.close(screen.descriptor)
    written = os.read(reading, 65536).decode()
    os.close(reading)
    erased = ERASE if columns >= 79 else ""  # else all of it was
    assert written == "\r" + "x" * 79 + begins + coloured + erased + "\n" + "z" * 10
    assert cells(coloured) == 70
