"""Runs made elsewhere: recorded lines of bench_serving, its first version's, with all requests, and what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagletui.bench.compare import against
from eagletui.bench.foreign import ForeignRun, read_foreign
from eagletui.bench.outcome import Spread
from eagletui.bench.report import result_of, text_of

RECORDED = (Path(__file__).parent.parent / "data" / "bench" / "sglang-0.5.16-eagle3.jsonl").read_text()
WRITTEN = 1_796_000_000.0


def read(*lines: object) -> tuple[ForeignRun, ...]:
    found = read_foreign("\n".join(json.dumps(one) for one in lines), WRITTEN)
    assert not found.problems
    return found.runs


def line(number: int = 0, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(RECORDED.splitlines()[number])
    return {**told, **more}


def figures(spread: Spread | None) -> tuple[float | None, ...]:
    assert spread is not None
    return tuple(None if one is None else round(one, 2) for one in (spread.mean, spread.p50, spread.p90, spread.p99))


def detailed(tok_s: float, **more: Any) -> dict[str, Any]:
    """A line with four requests of 11 tokens and one that failed."""
    gap = 1 / tok_s
    return line(
        completed=4, total_output_tokens=44, total_input_tokens=80, duration=2.0, random_input_len=20, random_output_len=11,
        input_lens=[20] * 5, output_lens=[11] * 4 + [0], ttfts=[gap] * 4 + [0.0], itls=[[gap] * 10] * 4 + [[]],
        errors=[""] * 4 + ["api-key=sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa refused"], generated_texts=[""] * 5, **more,
    )  # fmt: skip


def test_recorded_lines() -> None:
    one, other = read_foreign(RECORDED, WRITTEN, node="gpu", machine="m1").runs
    result = one.result
    assert (result.facts.engine, result.facts.version, result.facts.model, result.facts.machine) == (
        "sglang",
        "0.5.16",
        "/srv/models/tiny-llama",
        "m1",
    )
    assert (result.facts.args["tp-size"], result.facts.args["speculative-num-steps"]) == (2, 2)
    load = result.load
    assert (load.runner, load.api, load.input_len, load.output_len, load.concurrency, load.rate, load.spread) == (
        "bench_serving", "generate", 400, 400, 32, None, 0.5,
    )  # fmt: skip
    assert (result.ok, result.output_tokens, round(result.duration_s, 3)) == (500, 150346, 31.462)
    assert figures(result.ttft_ms) == (104.68, 43.41, 61.38, 1607.18)
    assert result.tok_s is not None
    assert figures(result.tok_s) == (round(150346 / (500 * 1.8756162), 2), None, None, None)
    assert result.accept_len == pytest.approx(2.228, abs=0.001)
    assert result.began + result.duration_s == pytest.approx(other.result.began)
    assert other.result.began + other.result.duration_s == pytest.approx(WRITTEN)
    assert any("--output-details" in note for note in result.notes)
    assert result_of(text_of(result)) == result


def test_lines_that_follow_each_other_alike_are_repeats_of_one_run() -> None:
    again = line(duration=30.0)
    again["server_info"] = {**again["server_info"], "random_seed": 5}  # it was started again with the same settings
    otherwise = line()
    otherwise["server_info"] = {**otherwise["server_info"], "speculative_num_steps": 3}
    runs = read(line(), again, otherwise, line())
    assert [one.result.load.repeats for one in runs] == [2, 1, 1]
    assert (runs[0].result.ok, len(runs[0].result.repeat_means)) == (1000, 2)
    assert figures(runs[0].result.ttft_ms) == (104.68, None, None, None)
    assert len({one.source for one in runs}) == 3
    unknown = [line(server_info=None), line(server_info=None)]  # nobody says that their servers were alike
    assert [one.result.load.repeats for one in read(*unknown)] == [1, 1]
    assert [one.result.load.repeats for one in read(*({**one, "tag": "x"} for one in unknown))] == [2]


def test_with_every_request_nothing_is_derived() -> None:
    (one,) = read(detailed(80.0, tag="steps2"), detailed(82.0, tag="steps2"), detailed(81.0, tag="steps2"))
    result = one.result
    assert one.tag == "steps2"
    assert (result.asked, result.ok, result.failed, result.output_tokens, result.input_tokens) == (15, 12, 3, 132, 240)
    assert result.repeat_means == pytest.approx((80.0, 82.0, 81.0))
    assert result.tok_s is not None
    assert result.tok_s.p50 == pytest.approx(81.0)
    assert result.itl_ms is not None
    ((_, text, count),) = [(two.status, two.text, two.count) for two in result.failures]
    assert (count, "sk-a" in text, "refused" in text) == (3, False, True)
    assert "derived" in against(result, read(line())[0].result).why


def test_the_first_versions_and_vllms() -> None:
    first = {
        "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "completed": 10, "total_input": 100, "total_output": 200,
        "mean_e2e_latency": 2000.0, "median_e2e_latency": 1900.0, "median_ttft": 40.0, "median_itl": 12.0, "output_token_throughput": 20.0,
        "random_input_len": 16, "random_output_len": 32, "random_range_ratio": 0.0, "benchmark_duration": 10.0,
    }  # fmt: skip
    vllm = {
        "date": "20260101-120000", "backend": "vllm", "model_id": "acme/x", "num_prompts": 12, "request_rate": "inf", "max_concurrency": None,
        "duration": 5.0, "completed": 10, "total_input_tokens": 100, "total_output_tokens": 200, "mean_ttft_ms": 30.0, "median_ttft_ms": 29.0,
        "p99_ttft_ms": 50.0,
    }  # fmt: skip
    one, other = (found.result for found in read(first, vllm))
    assert (one.load.rate, one.load.concurrency, one.load.spread, one.facts.model, one.tok_s_total) == (
        4.0,
        None,
        1.0,
        None,
        20.0,
    )
    assert one.tok_s is not None
    assert (one.tok_s.mean, one.ttft_ms) == (10.0, None)
    assert any("median TTFT 40.0 ms, ITL 12.0 ms" in note for note in one.notes)
    assert (other.facts.engine, other.facts.model, other.asked, other.failed, other.load.concurrency) == (
        "vllm",
        "acme/x",
        12,
        2,
        12,
    )
    assert (other.tok_s, other.repeat_means, other.ttft_ms) == (None, (), Spread(30.0, 29.0, None, 50.0))
    assert len(read_foreign(json.dumps(vllm, indent=1), WRITTEN).runs) == 1


def test_what_a_server_tells_of_itself_is_masked() -> None:
    told = line()
    told["server_info"] = {
        **told["server_info"],
        "api_key": "sk-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        "x\ud800": "\ud800",
    }
    told["server_info"]["served_model_name"] = "tiny"
    (one,) = read(told)
    assert one.result.facts.model == "tiny"
    text = text_of(one.result)
    assert "sk-b" not in text
    assert one.result.facts.args["api-key"] == "***"


def test_what_is_none_is_told_and_ends_nothing() -> None:
    assert read_foreign("", WRITTEN).problems == ()
    for text in ("no json\n", "[1, null]", '{"a": 1}\n', '{"completed": NaN, "duration": 1}', "[" * 100_000):
        found = read_foreign(text, WRITTEN)
        assert found.runs == ()
        assert found.problems


def test_nothing_that_a_line_may_hold_ends_it() -> None:
    odds: tuple[Any, ...] = (None, "x", [], {}, True, -1, float("nan"), float("inf"), [None], [[None]], "\ud800")
    for odd in odds:
        for key in line():
            if key not in {"completed", "duration"}:
                (one,) = read_foreign(json.dumps({**detailed(80.0), key: odd}) + "\n" + RECORDED, WRITTEN).runs[:1]
                assert text_of(one.result)
