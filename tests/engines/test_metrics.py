"""/metrics answers of recorded servers and odd ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.metrics import between, read_metrics
from eagletui.engines.sglang import SGLANG
from eagletui.engines.spec import Engine
from eagletui.engines.vllm import VLLM

DATA = Path(__file__).parent.parent / "data" / "logs"


def recorded(name: str) -> str:
    return zstandard.ZstdDecompressor().decompress((DATA / f"{name}.metrics.zst").read_bytes()).decode()


def test_sglang_under_speculation() -> None:
    sample, counters = read_metrics(recorded("sglang-load"), SGLANG)
    assert (sample.gen_tok_s, sample.running, sample.queued, sample.token_usage) == (0.0, 0, 0, 0.0)
    assert sample.accept_len == pytest.approx(2.247216)
    assert counters == {"gen_tokens": 150386.0, "prompt_tokens": 151289.0}


def test_an_accept_length_of_zero_is_none_yet() -> None:
    sample, _ = read_metrics(recorded("sglang-starting"), SGLANG)
    assert sample.accept_len is None
    assert sample.running == 0


def test_vllm_has_counters_for_rates() -> None:
    before = read_metrics(recorded("vllm"), VLLM)
    assert (before.sample.gen_tok_s, before.sample.running, before.sample.queued) == (None, 0, 0)
    assert before.counters == {"gen_tokens": 8006.0, "prompt_tokens": 813.0}
    after = before._replace(counters={"gen_tokens": 9006.0, "prompt_tokens": 813.0, "drafts": 0.0})
    assert between(before, after, 2.0).gen_tok_s == 500.0
    assert between(before, after, 2.0).input_tok_s == 0.0
    assert between(before, after, 2.0).accept_len is None
    assert between(after, before, 2.0).gen_tok_s is None
    assert between(before, after, 0.0).gen_tok_s is None


def test_accept_length_and_rate_from_counters() -> None:
    def text(drafts: int, drafted: int, accepted: int) -> str:
        return (
            f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}\n'
            f'vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafted}\n'
            f'vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}\n'
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} 99\n'
        )

    figures = [read_metrics(text(*values), VLLM) for values in ((10, 30, 5), (20, 60, 25), (20, 60, 25))]
    sample = between(figures[0], figures[1], 1.0)
    assert (sample.accept_len, sample.accept_rate) == pytest.approx((3.0, 20 / 30))
    idle = between(figures[1], figures[2], 1.0)
    assert (idle.accept_len, idle.accept_rate) == (None, None)


@pytest.mark.parametrize(
    ("engine", "text", "expected"),
    [
        (SGLANG, 'sglang_gen_throughput{model_name="m"} 8.5\nsglang_num_running_reqs 2.0\nsglang_generation_tokens_total 7.0\n',
         (8.5, 2, None, {"gen_tokens": 7.0})),
        (SGLANG, "sglang:spec_accept_length 2.5\nsglang:spec_accept_rate 0.5\n", (None, None, 0.5, {})),
        (SGLANG, "sglang:spec_accept_length 0.0\nsglang:spec_accept_rate 0.0\n", (None, None, None, {})),
        (SGLANG, "sglang:generation_tokens 4\nsglang:generation_tokens_created 1.7e9\n", (None, None, None, {"gen_tokens": 4.0})),
        (SGLANG, 'sglang:num_running_reqs{priority=""} 5\nsglang:num_running_reqs{priority="1"} 2\n', (None, 5, None, {})),
        (VLLM, 'vllm:avg_generation_throughput_toks_per_s{model_name="m"} 75.3\nvllm:spec_decode_draft_acceptance_rate 0.642\n',
         (75.3, None, 0.642, {})),
        (VLLM, 'vllm_num_requests_running{engine="0"} 1\nvllm_num_requests_running{engine="1"} 2\n', (None, 3, None, {})),
        (VLLM, 'vllm:generation_tokens_total{engine="0"} NaN\nvllm:generation_tokens_total{engine="1"} 5\n',
         (None, None, None, {"gen_tokens": 5.0})),
    ],
)  # fmt: skip
def test_names_of_every_version(engine: Engine, text: str, expected: tuple[object, ...]) -> None:
    sample, counters = read_metrics(text, engine)
    assert (sample.gen_tok_s, sample.running, sample.accept_rate, counters) == expected


def test_usage_under_its_old_and_its_new_name_is_one_figure() -> None:
    for text in ("vllm:kv_cache_usage_perc 0.25\n", "vllm:gpu_cache_usage_perc 0.25\n"):
        assert read_metrics(text, VLLM).sample.token_usage == 0.25
    both = 'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:gpu_cache_usage_perc{engine="0"} 0.25\n'
    assert read_metrics(both, VLLM).sample.token_usage == 0.25


def test_sums_over_data_ranks_never_over_tensor_ranks() -> None:
    text = "".join(
        f'sglang:{name}{{dp_rank="{dp}",tp_rank="{tp}",note="a\\"}} b"}} {value} 1700000000\n'
        for dp in (0, 1)
        for tp in (0, 1)
        for name, value in (("num_running_reqs", 3 + dp), ("gen_throughput", 10.0), ("token_usage", 0.1 * (dp + 1)), ("spec_accept_length", 2 + dp))
    )  # fmt: skip
    sample, _ = read_metrics(text, SGLANG)
    assert (sample.running, sample.gen_tok_s, sample.token_usage, sample.accept_len) == (7, 20.0, 0.2, 2.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# HELP x\n",
        "sglang:num_running_reqs NaN\n",
        "sglang:num_running_reqs{a=\n",
        "sglang:num_running_reqs\n",
        "<html>404</html>",
    ],
)
def test_nothing_known_is_none(text: str) -> None:
    sample, counters = read_metrics(text, SGLANG)
    assert (sample.running, sample.gen_tok_s, counters) == (None, None, {})


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_total(labels: str, value: str) -> None:
    read_metrics(f"sglang:gen_throughput{{{labels}}} {value}", SGLANG)
