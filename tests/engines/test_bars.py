"""Bars of FORMATS.md section 4, B1 to B11."""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.bars import Bar, read_bar, seconds
from eagletui.engines.sglang import SGLANG

ROWS: list[tuple[str, str, Bar, str | None]] = [
    ("B1", "Loading safetensors checkpoint shards:  20% Completed | 32/158 [00:04<00:18,  6.96it/s]",
     Bar("Loading safetensors checkpoint shards", 32, 158, 4.0, 6.96), "weights"),
    ("B2", "Loading pt checkpoint shards:  50% Completed | 1/2 [00:04<00:04,  4.00s/it]", Bar("Loading pt checkpoint shards", 1, 2, 4.0, 0.25), "weights"),
    ("B2b", "Loading np_cache checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]", Bar("Loading np_cache checkpoint shards", 0, 2, 0.0, None), "weights"),
    ("B3", "Multi-thread loading shards:  16% Completed | 10/64 [00:00<00:00, 99.75it/s]", Bar("Multi-thread loading shards", 10, 64, 0.0, 99.75), "weights"),
    ("B3b", "Multi-thread loading pt checkpoint shards: 100% Completed | 64/64 [1:02:03<00:00, 82.50s/it]",
     Bar("Multi-thread loading pt checkpoint shards", 64, 64, 3723.0, 1 / 82.5), "weights"),
    ("B4", "Loading safetensors using Fastsafetensor loader:  50% Completed | 1/2 [00:01<00:01,  1.00it/s]",
     Bar("Loading safetensors using Fastsafetensor loader", 1, 2, 1.0, 1.0), "weights"),
    ("B4b", "Loading safetensors using Runai Model Streamer:  50% Completed | 1/2 [00:01<00:01,  1.00it/s]",
     Bar("Loading safetensors using Runai Model Streamer", 1, 2, 1.0, 1.0), "weights"),
    ("B5", "Capturing batches (avail_mem=9.72 GB): 100%|###| 23/23 [00:08<00:00,  2.59it/s]", Bar("Capturing batches", 23, 23, 8.0, 2.59), "graphs"),
    ("B6", "Capturing batches (bs=1 avail_mem=38.07 GB):   4%|▍         | 1/23 [00:03<01:23,  3.79s/it]", Bar("Capturing batches", 1, 23, 3.0, 1 / 3.79), "graphs"),
    ("B7", "Capturing num tokens (num_tokens=4096 avail_mem=1.0 GB):   2%|▏         | 1/58 [00:00<00:18,  3.14it/s]",
     Bar("Capturing num tokens", 1, 58, 0.0, 3.14), "graphs"),
    ("B7b", "[BCG] Capturing (num_tokens=64):  50%|#####     | 1/2 [00:00<00:00,  3.14it/s]", Bar("[BCG] Capturing", 1, 2, 0.0, 3.14), "graphs"),
    ("B8", "DeepGEMM warmup:  12%|#9  | 1902/16384 [00:00<00:00, 19014.49it/s]", Bar("DeepGEMM warmup", 1902, 16384, 0.0, 19014.49), "compile"),
    ("B9", "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|###| 51/51 [00:02<00:00, 20.00it/s]",
     Bar("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)", 51, 51, 2.0, 20.0), "graphs"),
    ("B10", "Loading checkpoint shards: 100%|###| 3/3 [00:02<00:00,  1.50it/s]", Bar("Loading checkpoint shards", 3, 3, 2.0, 1.5), "weights"),
    ("B11", " 42%|####  | 51/122 [01:16<00:32,  2.18it/s]", Bar("", 51, 122, 76.0, 2.18), None),
    ("no BAR", "  0%|          | 0/58 [00:00<?, ?it/s]", Bar("", 0, 58, 0.0, None), None),
    ("unknown N", "Fetching: 0it [00:00, ?it/s]", Bar("Fetching", 0, None, 0.0, None), None),
    ("postfix", "Loading: 10%|#| 1/10 [00:01<00:09,  1.00it/s, loss=2]", Bar("Loading", 1, 10, 1.0, 1.0, "loss=2"), None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected", "phase"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rows(text: str, expected: Bar, phase: str | None) -> None:
    bar = read_bar(text)
    assert bar is not None
    assert bar._replace(rate=None) == expected._replace(rate=None)
    assert bar.rate == (pytest.approx(expected.rate) if expected.rate is not None else None)
    kind = SGLANG.bar_phase(bar.label)
    assert (kind.phase if kind else None) == phase


@pytest.mark.parametrize(
    "text", ["", "50% of 1/2 [x]", 'GET /v1 [1] 20% | "', "token usage: 0.5%, 1/2 [", "[2026-11-30 00:40:16] 1/2"]
)
def test_other_texts_are_no_bar(text: str) -> None:
    assert read_bar(text) is None


def test_seconds() -> None:
    assert seconds("01:16") == 76.0
    assert seconds("1:00:01") == 3601.0
    assert seconds("?") is None


@settings(max_examples=60, deadline=1000)
@given(st.text(alphabet="0123456789%|/[]<:,.it s?#", max_size=300))
def test_total_and_quick(text: str) -> None:
    read_bar(text)
