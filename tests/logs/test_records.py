"""Prefixes: FORMATS.md section 1 (P1-P11), 2 (S1-S11) and 8 (V1-V3, V11)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.logs.decoder import RawLine
from eagletui.logs.records import DAY, Record, elapsed, read_record


def record(text: str) -> Record:
    return read_record(RawLine(text, len(text), 7))


def epoch(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    """A stamp has no zone: any will do to count."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


R = Record
ROWS: list[tuple[str, str, Record]] = [
    ("P1", "sglang-1  | [2025-11-01 16:50:36 TP0] x", R("x", "16:50:36", epoch(2025, 11, 1, 16, 50, 36), frozenset({"TP0"}), source="sglang-1")),
    ("P2", "[sglang]     | [2026-06-24 11:53:25] INFO: a", R("a", "11:53:25", epoch(2026, 6, 24, 11, 53, 25), level="INFO", source="sglang")),
    ("P3", "  | [2024-09-05T00:38:34Z] ERROR:    b", R("b", level="ERROR")),
    ("P4", "ERROR 2025-04-05T00:01:19.209111405Z [2025-04-05 00:01:19] c", R("c", "00:01:19", epoch(2025, 4, 5, 0, 1, 19))),
    ("P5", "(RolloutRayActor pid=3549160) [2025-08-05 12:15:15 TP0] d",
     R("d", "12:15:15", epoch(2025, 8, 5, 12, 15, 15), frozenset({"TP0"}), source="RolloutRayActor pid=3549160")),
    ("P5 alone", "(LLMRayActor pid=807, ip=10.0.0.5)", R("", source="LLMRayActor pid=807, ip=10.0.0.5")),
    ("P6", "(ServeReplica:a:L:n pid=2) (EngineCore pid=3) (Worker pid=4) INFO 08-19 18:00:13 [monitor.py:53] e",
     R("e", "18:00:13", epoch(1972, 8, 19, 18, 0, 13), level="INFO", source="ServeReplica:a:L:n pid=2", process="Worker", origin="monitor.py:53")),
    ("P7", "2025-12-11 10:34:03.939481+08:00 - gpustack.worker - INFO - f",
     R("f", "10:34:03", None, level="INFO", origin="gpustack.worker")),
    ("P8", "2024-10-07T22:54:54,595 [INFO ] W-9000-model_1.0-stdout MODEL_LOG - INFO 10-07 22:54:54 llm_engine.py:226] g",
     R("g", "22:54:54", epoch(1972, 10, 7, 22, 54, 54), level="INFO", source="W-9000-model_1.0", origin="llm_engine.py:226")),
    ("P9", "2026-09-10T09:00:00+02:00 host python3[1]: [2026-09-10 09:00:00] h", R("h", "09:00:00", epoch(2026, 9, 10, 9), source="host python3[1]")),
    ("kubernetes", "2026-09-10T09:00:00.123Z stdout F [2026-09-10 09:00:00 TP1] i", R("i", "09:00:00", epoch(2026, 9, 10, 9), frozenset({"TP1"}))),
    ("kubectl", "[pod/sgl-0/main] [2026-09-10 09:00:00] j", R("j", "09:00:00", epoch(2026, 9, 10, 9), source="sgl-0/main")),
    ("S1", "[gpu_id=0] Load weight begin.", R("Load weight begin.", ranks=frozenset({"GPU0"}))),
    ("S2", "[16:43:29 DP1 TP0] k", R("k", "16:43:29", 60209.0, frozenset({"DP1", "TP0"}))),
    ("S3", "[2025-06-18 15:19:24] l", R("l", "15:19:24", epoch(2025, 6, 18, 15, 19, 24))),
    ("S4", "[2025-06-18 15:19:24 DP0 TP0 PP0] m", R("m", "15:19:24", epoch(2025, 6, 18, 15, 19, 24), frozenset({"DP0", "TP0", "PP0"}))),
    ("S5", "[2025-06-18 15:19:24 DP0 TP0 EP0 PP0] m", R("m", "15:19:24", epoch(2025, 6, 18, 15, 19, 24), frozenset({"DP0", "TP0", "EP0", "PP0"}))),
    ("S6", "[2025-06-18 15:19:24 DP0 PP0 ATTN_CP0 MOE_DP0 TP0 EP0] n",
     R("n", "15:19:24", epoch(2025, 6, 18, 15, 19, 24), frozenset({"DP0", "PP0", "ATTN_CP0", "MOE_DP0", "TP0", "EP0"}))),
    ("S7", "[2025-12-01 10:00:00.123 TP0] o", R("o", "10:00:00", epoch(2025, 12, 1, 10) + 0.123, frozenset({"TP0"}))),
    ("S8", "2025-08-28 21:19:34 ERROR 125765 [ DP10 TP10 EP10 scheduler.py:2655] p",
     R("p", "21:19:34", epoch(2025, 8, 28, 21, 19, 34), frozenset({"DP10", "TP10", "EP10"}), "ERROR", origin="scheduler.py:2655")),
    ("S9", "[12-16 14:27:08] Rank 0 scheduler is dead.", R("Rank 0 scheduler is dead.", "14:27:08", epoch(1972, 12, 16, 14, 27, 8))),
    ("S10", "INFO:     Started server process [1]", R("Started server process [1]", level="INFO")),
    ("S11", '[2025-08-02 19:24:20] INFO:     10.0.0.7:48276 - "POST /v1 HTTP/1.1" 200 OK',
     R('10.0.0.7:48276 - "POST /v1 HTTP/1.1" 200 OK', "19:24:20", epoch(2025, 8, 2, 19, 24, 20), level="INFO")),
    ("V1", "INFO 08-22 17:52:17 model_runner.py:720] q", R("q", "17:52:17", epoch(1972, 8, 22, 17, 52, 17), level="INFO", origin="model_runner.py:720")),
    ("V2", "WARNING 06-13 11:36:32 [default_loader.py:272]   r",
     R("  r", "11:36:32", epoch(1972, 6, 13, 11, 36, 32), level="WARNING", origin="default_loader.py:272")),
    ("V3", "(Worker_TP13_EP13 pid=3) INFO 06-13 11:36:32 [x.py:2] s",
     R("s", "11:36:32", epoch(1972, 6, 13, 11, 36, 32), frozenset({"TP13", "EP13"}), "INFO", process="Worker_TP13_EP13", origin="x.py:2")),
    ("V3 alone", "(EngineCore_DP0 pid=279)", R("", ranks=frozenset({"DP0"}), process="EngineCore_DP0")),
    ("V11", "(EngineCore pid=1) [2026-01-02 03:04:05] NAME INFO rms.py:325: t",
     R("NAME INFO rms.py:325: t", "03:04:05", epoch(2026, 1, 2, 3, 4, 5), process="EngineCore")),
    ("torch", "[rank2]: Traceback (most recent call last):", R("Traceback (most recent call last):", ranks=frozenset({"rank2"}))),
    ("plain", '  File "x.py", line 1', R('  File "x.py", line 1')),
    ("no date that is", "[2025-13-45 16:50:36] u", R("u", "16:50:36", None)),
    ("empty", "", R("")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rows(text: str, expected: Record) -> None:
    for _ in range(2):  # the second time the prefix is known
        assert record(text) == expected._replace(length=len(text), number=7)


@pytest.mark.parametrize(
    ("text", "rank"),
    [("[16:43:29 TP0] x", "TP0"), ("[16:43:29 DP1 TP0] x", "DP1 TP0"), ("[2025-06-18 15:19:24 DP0 PP0 ATTN_CP0 MOE_DP0 TP0 EP0] n", "DP0 TP0"),
     ("[2025-06-18 15:19:24 PP1 TP0] n", "PP1 TP0"), ("[2025-06-18 15:19:24] n", ""), ("[rank2]: x", "rank2")],
)  # fmt: skip
def test_shown_rank(text: str, rank: str) -> None:
    assert record(text).rank == rank


@pytest.mark.parametrize(
    ("begin", "end", "seconds"),
    [
        (epoch(2026, 1, 1), epoch(2026, 1, 1, 0, 0, 7), 7.0),
        (DAY - 5.0, 3.0, 8.0),  # no date: over midnight
        (epoch(1972, 12, 31, 23, 59, 59), epoch(1972, 1, 1, 0, 0, 1), 2.0),  # no year: over New Year
        (epoch(2026, 1, 1, 0, 0, 7), epoch(2026, 1, 1, 0, 0, 6), 0.0),  # another writer's line, a little late
        (7.0, 5.0, 0.0),
        (5.0, epoch(2026, 1, 1), None),
        (None, 5.0, None),
        (5.0, None, None),
    ],
)
def test_elapsed(begin: float | None, end: float | None, seconds: float | None) -> None:
    assert elapsed(begin, end) == seconds


@settings(max_examples=80, deadline=None)
@given(st.one_of(st.text(max_size=120), st.text(alphabet="[]() |:-0123456789TPDINFO=p.Z", max_size=80)))
def test_total_and_nothing_is_invented(text: str) -> None:
    found = record(text)
    assert text.endswith(found.text)
