"""What a run comes to, when a difference is one, and the bench object both ways."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eagletui.bench.compare import against, flags_differ
from eagletui.bench.conclude import conclude
from eagletui.bench.outcome import Facts, Measured, Repeat, Result, Row
from eagletui.bench.report import result_of, text_of
from eagletui.bench.side_by_side import metrics
from tests.bench_room.made import BEGAN, FACTS, LOAD, measured, rows, run

# --- a run


def test_counts_are_sums_over_repeats_and_latencies_over_all_requests() -> None:
    result = conclude("a", LOAD, FACTS, measured(80.0, 100.0, 90.0), BEGAN)
    assert (result.asked, result.ok, result.failed, result.input_tokens, result.output_tokens) == (12, 12, 0, 3072, 600)
    assert result.duration_s == pytest.approx(4 * 50 / 80 + 4 * 50 / 100 + 4 * 50 / 90, abs=0.002)
    assert result.tok_s_total == pytest.approx(600 / result.duration_s)
    assert result.repeat_means == pytest.approx((80.0, 100.0, 90.0))
    assert result.tok_s is not None
    assert (result.tok_s.mean, result.tok_s.p50) == pytest.approx((90.0, 90.0))
    assert result.itl_ms is not None
    assert result.tpot_ms is not None
    assert result.itl_ms.mean == pytest.approx(result.tpot_ms.mean)
    assert result.ci95 is not None
    assert result.ci95 == pytest.approx((90 - 24.84, 90 + 24.84), abs=0.01)


def test_failures_are_counted_quoted_and_give_no_tokens() -> None:
    bad = [
        Row(0, 4, 0.0, 50.0, None, 256, 20, error="the stream broke", status=200),
        Row(0, 5, 0.0, None, None, None, 0, error="boom", status=500),
        Row(0, 6, 0.0, None, None, None, 0, error="boom", status=500),
    ]
    sent = Measured((Repeat((*rows(100.0), *bad), 2.0, BEGAN, BEGAN + 2),))
    result = conclude("a", replace(LOAD, requests=8, repeats=1), FACTS, sent, BEGAN)
    assert (result.asked, result.ok, result.failed, result.output_tokens) == (8, 4, 4, 200)
    assert [(one.status, one.text, one.count) for one in result.failures] == [
        (500, "boom", 2),
        (200, "the stream broke", 1),
    ]
    assert result.input_tokens == 1024
    ended = conclude("a", replace(LOAD, requests=8, repeats=3), FACTS, sent, BEGAN, complete=False)
    assert (ended.asked, ended.ok, ended.failed) == (24, 4, 3)


def test_when_all_failed_there_is_no_rate() -> None:
    nothing = tuple(Row(0, n, 0.0, None, None, None, 0, error="401", status=401) for n in range(4))
    result = conclude("a", replace(LOAD, repeats=1), FACTS, Measured((Repeat(nothing, 1.0, BEGAN, BEGAN + 1),)), BEGAN)
    assert (result.tok_s_total, result.tok_s, result.ttft_ms, result.ci95, result.repeat_means) == (
        None,
        None,
        None,
        None,
        (),
    )
    told = json.loads(text_of(result))
    assert told["tok_s"] == {"total": None, "per_request": None}
    assert (told["input_tokens"], told["output_tokens"], told["requests"]["failed"]) == (None, 0, 4)


def test_with_one_token_there_is_nothing_between_tokens() -> None:
    one = Measured((Repeat(rows(2.0, tokens=1), 2.0, BEGAN, BEGAN + 2),))
    result = conclude("a", replace(LOAD, repeats=1, output_len=1), FACTS, one, BEGAN)
    assert (result.itl_ms, result.tpot_ms) == (None, None)
    assert result.ttft_ms is not None


def test_accept_length_is_tokens_by_steps() -> None:
    repeats = (replace(measured(80.0).repeats[0], accept_len=1.0), replace(measured(80.0).repeats[0], accept_len=3.0))
    result = conclude("a", replace(LOAD, repeats=2), FACTS, Measured(repeats), BEGAN)
    assert result.accept_len == pytest.approx(1.5)


# --- against a baseline


def test_faster_slower_and_same() -> None:
    base = run("base", 90.2, 89.8, 90.5)
    slower = against(run("a", 82.1, 82.9, 81.7), base)
    assert (slower.run, slower.verdict) == ("base", "slower")
    assert slower.delta_pct == pytest.approx(-8.8, abs=0.05)
    assert slower.break_even == pytest.approx(2.1 * 90.1667 / 82.2333, rel=1e-4)
    assert against(run("a", 97.1, 97.9, 96.7), base).verdict == "faster"
    same = against(run("a", 90.9, 89.1, 90.4), base)
    assert same.verdict == "same"
    assert "within the noise of 3 and 3 repeats" in same.why
    verdicts = [against(run("a", 90.4 - less, 90.0 - less, 90.1 - less), base).verdict for less in (0.5, 0.7, 0.8, 0.9)]
    assert verdicts == ["same", "same", "slower", "slower"]  # p = 0.117, 0.053, 0.038, 0.027
    noisy = against(run("a", 60.0, 110.0, 80.0), base)
    assert noisy.verdict == "same"  # 7 % less, and nobody can tell


def test_one_repeat_tells_nothing_of_the_noise() -> None:
    held = against(run("a", 82.0), run("base", 90.0))
    assert held.verdict == "not-comparable"
    assert held.delta_pct == pytest.approx(-8.9, abs=0.05)
    assert "--repeats 3" in held.why


BASE = run("base", 90.2, 89.8, 90.5)
OTHERS: dict[str, Result] = {
    "input-len 300, not 256": run("a", 82.0, 83.0, 81.0, load=replace(LOAD, input_len=300)),
    "output-len 64, not 50": run("a", 82.0, 83.0, 81.0, load=replace(LOAD, output_len=64)),
    "concurrency 2, not concurrency 1": run("a", 82.0, 83.0, 81.0, load=replace(LOAD, concurrency=2)),
    "2 requests/s, at most 4 at a time, not concurrency 1": run(
        "a", 82.0, 83.0, load=replace(LOAD, rate=2.0, concurrency=9)
    ),
    "prompts of a file": run("a", 82.0, 83.0, load=replace(LOAD, prompts="p.jsonl", prompts_hash="1")),
    "seed 7, not 0": run("a", 82.0, 83.0, load=replace(LOAD, seed=7)),
    "temperature 0.7, not 0": run("a", 82.0, 83.0, load=replace(LOAD, temperature=0.7)),
    "ignore_eos": run("a", 82.0, 83.0, load=replace(LOAD, ignore_eos=False)),
    "runner bench_serving, not builtin": run("a", 82.0, 83.0, load=replace(LOAD, runner="bench_serving")),
    "model /models/y, not /models/x": run("a", 82.0, 83.0, facts=replace(FACTS, model="/models/y/")),
    "usage": run("a", 82.0, 83.0, source="chunks"),
    "answers had 25 tokens, not 50": run("a", 82.0, 83.0, output_tokens=200),
    "2 of 8 requests of this run failed": run("a", 82.0, 83.0, ok=6, output_tokens=300, input_tokens=1536),
    "this run was ended early": run("a", 82.0, 83.0, complete=False),
}


def test_what_was_sent_otherwise_is_named_and_nothing_is_concluded() -> None:
    for named, other in OTHERS.items():
        held = against(other, BASE)
        assert (held.verdict, held.delta_pct, held.break_even) == ("not-comparable", None, None), named
        assert held.tok_s == pytest.approx(90.1667)
        assert named in held.why
        assert ";" not in held.why, f"one difference only: {held.why}"


def test_other_repeats_warmups_presets_and_a_slash_are_no_difference() -> None:
    load = replace(LOAD, preset="mine", warmup=9, requests=5)
    other = run("a", 90.2, 89.9, load=load, facts=replace(FACTS, model="/models/x/", args={"tp": "4"}), asked=8)
    assert against(other, BASE).verdict == "same"


def test_flags_of_two_servers() -> None:
    other = replace(FACTS, args={"tp_size": 8, "speculative-num-steps": "3", "port": 1, "enable-x": True})
    told = [(one.flag, one.before, one.after) for one in flags_differ(FACTS, other)]
    assert told == [("enable-x", None, "true"), ("speculative-num-steps", "2", "3")]
    everything = Facts(args={f"a{n}": n for n in range(200)} | {"tp_size": 4})
    assert [one.flag for one in flags_differ(FACTS, everything)] == ["tp"]  # the rest may be defaults


def test_metrics_side_by_side() -> None:
    base, now = measured(80.0, 81.0, 80.5, ttft_ms=50.0), measured(90.0, 91.0, 90.5, ttft_ms=70.0)
    a, b = (conclude(name, LOAD, FACTS, one, BEGAN) for name, one in (("a", base), ("b", now)))
    rows_a, rows_b = ([row for repeat in one.repeats for row in repeat.rows] for one in (base, now))
    told = {one.name: one for one in metrics(a, b, rows_a, rows_b)}
    assert (told["tok_s"].verdict, told["ttft_mean"].verdict, told["e2e_mean"].verdict) == (
        "faster",
        "slower",
        "faster",
    )
    assert told["ttft_mean"].delta_pct == pytest.approx(40.0)
    assert (told["accept_len"].verdict, told["ttft_p99"].verdict) == (None, None)
    failed = replace(b, ok=b.ok - 1)
    assert {one.verdict for one in metrics(a, failed, rows_a, rows_b)} == {None}


# --- as JSON


def test_the_bench_object_goes_both_ways() -> None:
    result = conclude("a", LOAD, FACTS, measured(82.1, 82.9, 81.7), BEGAN, against=BASE)
    text = text_of(result)
    assert result_of(text) == result_of(json.loads(text)) == result
    told = json.loads(text)
    assert (told["schema"], told["event"], told["run"], told["preset"], told["runner"]) == (
        "eagletui.bench/1",
        "result",
        "a",
        "quick",
        "builtin",
    )
    assert (told["repeats"], told["baseline"]["verdict"], told["launch"]) == (3, "slower", FACTS.launch)
    assert told["ci95_tok_s"] == pytest.approx([80.72, 83.75], abs=0.01)


def test_what_is_no_bench_object_is_told() -> None:
    told = json.loads(text_of(BASE))
    for broken in ("[]", "{", json.dumps({**told, "runner": "other"}), json.dumps({**told, "duration_s": "x"})):
        with pytest.raises(ValueError, match=r"no eagletui\.bench/1 object"):
            result_of(broken)
    assert result_of({**told, "later": 1}) == BASE
