"""Batch lines of every version that was met (FORMATS.md section 5: D1-D9, F1-F7; section 8: V9b). Values differ, words do not."""

# ruff: noqa: E501 - lines of logs stand as they are printed

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.batch import BatchSample, finite, number, split_pairs, value_of, whole
from eagletui.engines.sglang import SGLANG
from eagletui.engines.sglang import read_batch as read_sglang
from eagletui.engines.vllm import VLLM
from eagletui.engines.vllm import read_batch as read_vllm

S = BatchSample
SGLANG_ROWS: list[tuple[str, str, BatchSample]] = [
    ("D1", "Decode batch. #running-req: 1, #token: 234, token usage: 0.00, gen throughput (token/s): 147.64, #queue-req: 0", S("decode", 147.64, None, 1, 0, 0.0)),
    ("D3", "Decode batch. #running-req: 1, #token: 234, token usage: 0.01, gen throughput (token/s): 80.10, largest-len: 812, #queue-req: 3, ", S("decode", 80.1, None, 1, 3, 0.01)),
    ("D4", "Decode batch. #running-req: 9, #token: 2, token usage: 0.13, accept len: 2.90, pre-allocated usage: 0.28, cuda graph: True, gen throughput (token/s): 171.01, #queue-req: 0", S("decode", 171.01, 2.9, 9, 0, 0.13)),
    ("D5", "Decode batch. #running-req: 2, #full token: 1, full token usage: 0.10, #swa token: 1, swa token usage: 0.20, #retracted-req: 0, gen throughput (token/s): 9.00, #queue-req: 0", S("decode", 9.0, None, 2, 0, 0.2)),
    ("D6", "Decode batch. #running-req: 2, mamba num: 160, mamba usage: 0.80, #prealloc-req: 0, #transfer-req: 0, #retracted-req: 0, cpu graph: False, gen throughput (token/s): 5.5, #queue-req: 7", S("decode", 5.5, None, 2, 7, None)),
    ("D7", "Decode batch [1234], #running-req: 46, #token: 34901, token usage: 0.19, accept len: 3.13, accept rate: 0.71, cuda graph: False, gen throughput (token/s): 1447.08, #queue-req: 0", S("decode", 1447.08, 3.13, 46, 0, 0.19, accept_rate=0.71)),
    ("D7 usual", "Decode batch, #running-req: 46, #token: 34901, token usage: 0.19, accept len: 3.13, accept rate: 0.71, cuda graph: True, gen throughput (token/s): 1447.08, #queue-req: 0", S("decode", 1447.08, 3.13, 46, 0, 0.19, accept_rate=0.71)),
    ("D7 late", "Decode batch, #running-req: 4, #token: 5, token usage: 0.50, cuda graph: True, accept rate: 0.25, gen throughput (token/s): 1.00, #queue-req: 2", S("decode", 1.0, None, 4, 2, 0.5, accept_rate=0.25)),
    ("D8", "Decode batch, #running-req: 4, #gpu token: 5, gpu token usage: 0.5, #cpu token: 6, cpu token usage: 0.6, gen throughput (token/s): 1.00, #queue-req: 0", S("decode", 1.0, None, 4, 0, 0.5)),
    ("D9", "Decode batch, #running-req: 4, #token: 5, token usage: 0.50, accept len: 2.10, cap len: 2.20, block accept len: 3.00, #host-receive-req: 0, musa graph: True, gen throughput (token/s): 1.00, #queue-req: 2, est. decode TFLOPS/s (per GPU): 1.00, est. read BW (GB/s per GPU): 2.00", S("decode", 1.0, 2.1, 4, 2, 0.5)),
    ("D9b", "Decode batch, #running-req: 4, #token: 5, token usage: 0.50, cuda graph: True, accept len: 2.10, gen throughput (token/s): 1.00, #queue-req: 2", S("decode", 1.0, 2.1, 4, 2, 0.5)),
    ("F1", "Prefill batch. #new-seq: 1, #new-token: 2062, #cached-token: 0, cache hit rate: 0.00%, #running-req: 0, #queue-req: 0", S("prefill", None, None, 0, 0, None, None, 2062)),
    ("F1 mixed", "Prefill batch(mixed #running-req: 3). #new-seq: 1, #new-token: 2062, #queue-req: 0", S("prefill", None, None, 3, 0, None, None, 2062)),
    ("F2", "Prefill batch. #new-seq: 1, #new-token: 20, #cached-token: 0, cache hit rate: 0.00%, token usage: 0.04, #running-req: 0, #queue-req: 0", S("prefill", None, None, 0, 0, 0.04, None, 20)),
    ("F3", "Prefill batch. #new-seq: 1, #new-token: 20, #cached-token: 0, token usage: 0.04, #running-req: 0, #queue-req: 0, ", S("prefill", None, None, 0, 0, 0.04, None, 20)),
    ("F4", "Prefill batch. #new-seq: 1, #new-token: 20, #cached-token: 0, token usage: 0.04, #running-req: 0, #unbootstrapped-req: 0, #queue-req: 5, #transferring-req: 0 #queue-req: 5", S("prefill", None, None, 0, 5, 0.04, None, 20)),
    ("F5", "Prefill batch. #new-seq: 1, #new-token: 20, #cached-token: 0, token usage: 0.04, #running-req: 0, #queue-req: 1, #prealloc-req: 0, #inflight-req: 0, input throughput (token/s): 559.53, ", S("prefill", None, None, 0, 1, 0.04, 559.53, 20)),
    ("F6", "Prefill batch, #new-seq: 1, #new-token: 158, #cached-token: 0, token usage: 0.08, #running-req: 31, #queue-req: 0, cuda graph: True, input throughput (token/s): 559.53", S("prefill", None, None, 31, 0, 0.08, 559.53, 158)),
    ("F7", "Prefill batch, #new-seq: 1, #new-token: 158, #cached-token: 0, token usage: 0.08, #running-req: 31, #queue-req: 0, #pending-token: 0, #bootstrap-req: 1, waiting-image-req: 2, cuda graph: True, input throughput (token/s): 1.5, est. prefill TFLOPS/s (per GPU): 3.00", S("prefill", None, None, 31, 0, 0.08, 1.5, 158)),
    ("no figures", "Decode batch, #running-req: x, token usage: nan, gen throughput (token/s): inf, #queue-req: ", S("decode")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in SGLANG_ROWS], ids=[row[0] for row in SGLANG_ROWS])
def test_sglang_rows(text: str, expected: BatchSample) -> None:
    sample = read_sglang(text)
    assert sample is not None
    assert sample._replace(raw="") == expected


@pytest.mark.parametrize(
    ("row", "key", "value"),
    [("D3", "largest-len", "812"), ("D4", "pre-allocated usage", "0.28"), ("D5", "full token usage", "0.10"), ("D6", "cpu graph", "False"),
     ("D7", "accept rate", "0.71"), ("D9", "est. decode TFLOPS/s (per GPU)", "1.00"), ("D9", "block accept len", "3.00"),
     ("F1", "cache hit rate", "0.00%"), ("F4", "#unbootstrapped-req", "0"), ("F7", "waiting-image-req", "2")],
)  # fmt: skip
def test_unknown_keys_are_kept(row: str, key: str, value: str) -> None:
    sample = read_sglang(next(text for name, text, _ in SGLANG_ROWS if name == row))
    assert sample is not None
    assert sample.pairs[key] == value


def test_vllm_rows() -> None:
    line = (
        "Engine 000: Avg prompt throughput: 76.3 tokens/s, Avg generation throughput: 555.3 tokens/s, Running: 8 reqs, "
        "Waiting: 2 reqs, GPU KV cache usage: 5.5%, Prefix cache hit rate: 0.0%"
    )
    sample = read_vllm(line)
    assert sample is not None
    assert sample._replace(raw="") == S("engine", 555.3, None, 8, 2, 0.055, 76.3, None, "DP0")
    assert sample.pairs["Prefix cache hit rate"] == "0.0%"
    cpu = read_vllm(line.replace("GPU KV", "CPU KV"))
    assert cpu is not None
    assert cpu.token_usage == 0.055
    old = read_vllm(
        "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, "
        "Pending: 4 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 0.0%."
    )
    assert old is not None
    assert (old.gen_tok_s, old.queued, old.token_usage, old.dp_rank) == (2.0, 4, 0.001, "")
    several = read_vllm("4 Engines Aggregated: " + line.removeprefix("Engine 000: "))
    assert several is not None
    assert (several.gen_tok_s, several.dp_rank) == (555.3, "")
    assert "4 Engines Aggregated: Avg".startswith(VLLM.batch_words)


@pytest.mark.parametrize(
    ("text", "length", "rate"),
    [
        (("SpecDecoding metrics: Mean acceptance length: 2.10, Accepted throughput: 1.00 tokens/s, Accepted: 11 tokens, "
         "Per-position acceptance rate: 0.700, 0.400, Avg Draft acceptance rate: 55.0%"), 2.1, 0.55),
        ("SpecDecoding metrics: Draft acceptance rate: 71.2%, Accepted: 11 tokens, Drafted: 15 tokens", None, 0.712),
        ("SpecDecoding metrics: Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens", None, None),
        (("Speculative metrics: Draft acceptance rate: 0.797, System efficiency: 0.640, Number of speculative tokens: 5, "
         "Number of accepted tokens: 197711, Number of draft tokens: 248165, Number of emitted tokens: 190541."), None, 0.797),
        ("Engine 001: SpecDecoding metrics: Mean acceptance length: nan, Avg Draft acceptance rate: nan%", None, None),
    ],
)  # fmt: skip
def test_vllm_tells_speculation_in_a_line_of_its_own(text: str, length: float | None, rate: float | None) -> None:
    spec = read_vllm(text)
    assert spec is not None
    assert (spec.kind, spec.accept_len, spec.gen_tok_s) == ("spec", length, None)
    assert spec.accept_rate == (None if rate is None else pytest.approx(rate))


@pytest.mark.parametrize(
    "text", ["", "Decode batch", "Decode batch. ", "Engine 000: something else", "Prefill batching is on", "The server"]
)
def test_other_texts_are_no_batch(text: str) -> None:
    assert read_sglang(text) is None
    assert read_vllm(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,587,648 tokens", 1587648.0),
        ("-561981", -561981.0),
        ("5.5%", 0.055),
        ("self.x=0.2", 0.2),
        ("1e3", 1000.0),
        ("True", None),
        ("", None),
        (None, None),
    ],
)
def test_numbers(text: str | None, value: float | None) -> None:
    assert number(text) == (pytest.approx(value) if value is not None else None)


def test_nan_is_no_figure() -> None:
    assert finite("nan") is None
    assert whole("inf") is None


def test_value_of_takes_the_whole_key() -> None:
    assert value_of("full token usage: 0.1, token usage: 0.2", "token usage", 0) == "0.2"
    assert value_of("token usage: 0.3", "token usage", 0) == "0.3"
    assert value_of("full token usage: 0.1", "token usage", 0) is None


def test_split_pairs_finds_a_pair_without_a_comma() -> None:
    assert split_pairs("#a: 0 #b: 1, c: 2, , lost") == {"#a": "0", "#b": "1", "c": "2"}


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["Decode batch", "Prefill batch", "Engine 0: Avg prompt throughput: "]), st.text(max_size=80))
def test_total(head: str, rest: str) -> None:
    for text in (head + rest, f"{head}, #running-req: {rest}, token usage: {rest}"):
        for read in (SGLANG.read_batch, read_vllm):
            sample = read(text)
            assert sample is None or isinstance(sample.pairs, dict)
