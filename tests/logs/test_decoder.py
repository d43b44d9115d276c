"""Framing: the same lines for every split, nothing raises, nothing hides."""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.logs.decoder import HEAD, STRING_LIMIT, LineDecoder, RawLine


def lines_of(*chunks: bytes) -> list[RawLine]:
    decoder = LineDecoder()
    out: list[RawLine] = []
    for chunk in chunks:
        out += decoder.decode(chunk)
    return out + decoder.flush()


BAR = "Multi-thread loading shards:  44% Completed | 28/64 [00:00<00:00, 143.06it/s]"

TABLE: list[tuple[str, bytes, list[str]]] = [
    ("lf", b"a\nb\n\nc", ["a", "b", "", "c"]),
    ("crlf", b"a\r\nb\r\n\r\nc\r\n", ["a", "b", "", "c"]),
    ("cr begins bars", b"\rone\rtwo\rthree\n", ["one", "two", "three"]),
    ("cr cr lf", b"a\r\r\nb", ["a", "", "b"]),
    ("csi", b"\x1b[1;36m(EngineCore_DP0 pid=279)\x1b[0;0m INFO\n", ["(EngineCore_DP0 pid=279) INFO"]),
    ("osc bel", b"\x1b]0;root@node: ~\x07x\n", ["x"]),
    ("osc st", b"\x1b]8;;http://a/\x1b\\link\x1b]8;;\x1b\\!\n", ["link!"]),
    ("dcs 8 bit st", b"\x1bP$f{}\x9c[2025-11-02 09:00:00] x\n", ["[2025-11-02 09:00:00] x"]),
    ("csi 8 bit", "\x9b31mred\x9bm\n".encode(), ["red"]),
    ("osc never ended", b"\x1b]0;lost\nnext\n", ["", "next"]),
    ("csi broken", b"a\x1b[3\nb\n", ["a", "b"]),
    ("charset", b"\x1b(Ba\x1b=b\n", ["ab"]),
    ("ends in escape", b"a\x1b[3", ["a"]),
    ("nul hole", b"\0\0\0[15:58:39 TP0] x\0\n", ["[15:58:39 TP0] x"]),
    ("controls", "a\x07b\x08\x7f\x85\u202e\u2066\u2028z\tt\n".encode(), ["a␇b␈␡\ufffd\ufffd\ufffd\ufffdz\tt"]),
    ("bad utf-8", b"a\xff\xe2\x96b\n", ["a\ufffd\ufffdb"]),
    ("glued to a bar", f"\r{BAR}[2026-11-30 00:40:16 TP1] Load\n".encode(), [BAR, "[2026-11-30 00:40:16 TP1] Load"]),
    ("after a bar and blanks", f"\r{BAR}   [2026-11-30 00:40:16] L\n".encode(), [BAR + "   ", "[2026-11-30 00:40:16] L"]),
    ("glued to a url", b"see refleaks.html[2026-11-29 23:52:27] kill\n", ["see refleaks.html", "[2026-11-29 23:52:27] kill"]),
    ("compose", b"sglang-1  | [2025-11-01 16:50:36 TP0] x\n", ["sglang-1  | [2025-11-01 16:50:36 TP0] x"]),
    ("ray", b"(A pid=3) [2025-11-01 16:50:36] x\n", ["(A pid=3) [2025-11-01 16:50:36] x"]),
    ("quoted", b"text='[2025-11-01 16:50:36] x'\n", ["text='[2025-11-01 16:50:36] x'"]),
    ("two in a line", b"[2025-11-01 16:50:36] a[2025-11-01 16:50:37] b\n", ["[2025-11-01 16:50:36] a", "[2025-11-01 16:50:37] b"]),
    ("prompt", b"Do you wish to run the custom code? [y/N] ", ["Do you wish to run the custom code? [y/N] "]),
    ("empty", b"", []),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_table_at_every_split(raw: bytes, expected: list[str]) -> None:
    whole = lines_of(raw)
    assert [line.text for line in whole] == expected
    for i in range(len(raw) + 1):
        assert lines_of(raw[:i], raw[i:]) == whole, raw[:i]
    assert lines_of(*(bytes((c,)) for c in raw)) == whole


def test_every_pair_of_splits_of_a_hard_one() -> None:
    raw = b"\r12%|#| 1/4 [00:01<00:03,  1.0it/s][2026-11-30 00:40:16 TP1] L\x1b[0m\r\n\xe2\x96\x88\r\nz"
    whole = lines_of(raw)
    assert len(whole) == 4
    for i in range(len(raw)):
        for j in range(i, len(raw), 3):
            assert lines_of(raw[:i], raw[i:j], raw[j:]) == whole


_PIECES = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"\x1b", b"\x1b[", b"\x1b]0;t", b"\x07", b"\x1b\\", b"[", b"[2026-11-30 00:40:16", b" TP0] x", b"it/s]", b"1/2 [00:01<00:01, 1.0it/s]",
     b" ", b"a", b"\xe2\x96\x88", b"\xe2", b"\x96", b"\xff", b"\0", b"\x9b", "\u202e".encode(), b"[20", b"26-11"]
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.binary(max_size=4)), max_size=30), st.lists(st.integers(0, 200), max_size=6))
def test_any_bytes_any_split(pieces: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(pieces)
    at = sorted({min(c, len(raw)) for c in cuts})
    chunks = [raw[a:b] for a, b in zip([0, *at], [*at, len(raw)], strict=True)]
    whole = lines_of(raw)
    assert lines_of(*chunks) == whole
    for line in whole:
        assert not any(c in line.text for c in "\0\x1b\n\r\x9b\u202e")


def test_a_line_of_megabytes_keeps_its_head_and_counts_the_rest() -> None:
    raw = b"x" * 3_000_000 + b"\nafter\n"
    expected = [RawLine("x" * HEAD, 3_000_000, 1), RawLine("after", 5, 2)]
    assert lines_of(raw) == expected
    assert lines_of(*(raw[i : i + 65_536] for i in range(0, len(raw), 65_536))) == expected


def test_a_record_glued_to_a_line_of_megabytes_is_found() -> None:
    raw = b"reqs=[" + b"R" * 200_000 + b")][2026-11-30 00:40:16] next\n"
    assert [(line.length, line.text[:6]) for line in lines_of(raw)] == [(200_008, "reqs=["), (26, "[2026-")]


def test_an_endless_string_sequence_hides_only_its_limit() -> None:
    found = lines_of(b"\x1b]" + b"x" * (STRING_LIMIT + 5) + b"\n")
    assert [line.text for line in found] == ["xxxxx"]


def test_partial_is_seen_before_its_end() -> None:
    decoder = LineDecoder()
    assert decoder.decode(b"one\nDo you wish [y/N] ") == [RawLine("one", 3, 1)]
    assert decoder.partial == "Do you wish [y/N] "
    decoder.decode(b"[202")
    assert decoder.partial == "Do you wish [y/N] [202"
    assert decoder.flush() == [RawLine("Do you wish [y/N] [202", 22, 2)]
    assert decoder.partial == ""


def test_numbers_are_those_of_lf_lines() -> None:
    found = lines_of(b"a\rb\rc\nd\r\ne\n")
    assert [(line.text, line.number) for line in found] == [("a", 1), ("b", 1), ("c", 1), ("d", 2), ("e", 3)]


def test_time_is_linear_in_an_unfinished_line() -> None:
    def cost(n: int) -> float:
        decoder = LineDecoder()
        began = time.perf_counter()
        for _ in range(n):
            decoder.decode(b"y" * 512)
        return time.perf_counter() - began

    cost(200)
    assert cost(16_000) < 60 * max(cost(1_000), 0.0005)
