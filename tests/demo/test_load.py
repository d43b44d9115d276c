"""The load of the simulated server, its log file and its metrics."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import pytest

from eagletui.demo import shape
from eagletui.demo.engine import Engine
from eagletui.demo.load import GEN_TOK_S, Load, together
from eagletui.demo.logfile import LogFile
from eagletui.demo.world import start_recording
from eagletui.engines.metrics import read_metrics
from eagletui.engines.sglang import SGLANG

LAUNCHED = 1_800_000_000.0
READY = LAUNCHED + shape.READY
BATCH = re.compile(r"Decode batch, #running-req: (\d+), .*accept len: ([\d.]+), .*token/s\): ([\d.]+), #queue-req: 0$")


def test_under_load_throughput_grows_with_the_requests_that_run() -> None:
    lines = [line for line in Load(seed=1).run(shape.READY + 900) if line.text.startswith("Decode")]
    found = [BATCH.search(line.text) for line in lines]
    rows = [(int(m[1]), float(m[2]), float(m[3])) for m in found if m is not None]
    assert len(rows) == len(lines)
    assert min(n for n, _, _ in rows) >= 1
    assert max(n for n, _, _ in rows) == 8
    assert all(rate == pytest.approx(together(n), rel=0.12) for n, _, rate in rows)
    assert sorted(n for n, _, _ in rows)[len(rows) // 2] == 1  # mostly one stream, at 82
    assert together(1) == GEN_TOK_S < together(2) < 2 * GEN_TOK_S
    assert all(1.9 < accept < 2.35 for _, accept, _ in rows)
    gaps = [b.at - a.at for a, b in itertools.pairwise(lines)]
    assert all(0.9 < gap < 2.8 for gap in gaps)


def test_lines_are_in_order_and_the_same_each_time() -> None:
    first, second = Load(seed=7).run(shape.READY + 100), Load(seed=7).run(shape.READY + 100)
    assert first == second
    assert [line.at for line in first] == sorted(line.at for line in first)
    assert first != Load(seed=8).run(shape.READY + 100)


def test_nothing_is_served_before_it_is_ready() -> None:
    assert Load(seed=1).run(shape.READY) == []


def test_its_own_clients_stand_back_while_somebody_else_sends() -> None:
    load = Load(seed=1)
    load.run(shape.READY + 30)
    request, line = load.begin(load.now, 100, 0)
    assert "#new-token: 100," in line.text
    lines = [one.text for one in load.run(load.now + 10)]
    running = [int(m[1]) for text in lines if (m := re.match(r"Decode batch, #running-req: (\d+)", text))]
    assert running[-5:] == [1] * 5
    load.end(request, load.now)
    load.end(request, load.now)
    assert load.running == 0
    load.run(load.now + 6)
    assert load.running >= 1


def test_streams_share_the_server_and_counts_add_up() -> None:
    load = Load(seed=1)
    load.run(shape.READY + 1)
    alone = load.begin(load.now, 10, 5)[0]
    assert load.pace() == pytest.approx(GEN_TOK_S)
    others = [load.begin(load.now, 10, 5)[0] for _ in range(7)]
    assert load.running == 8
    assert load.pace() < GEN_TOK_S < 8 * load.pace()
    load.got(alone, load.now + 0.1, 3)
    for request in (alone, *others):
        load.end(request, load.now + 1)
    assert (load.totals.requests, load.totals.prompt_tokens, load.totals.cached_tokens) == (8, 120, 40)
    assert load.totals.generated == 3
    assert sum(load.totals.ttft.counts) == 1
    assert sum(load.totals.e2e.counts) == 8


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def parse_metrics(text: bytes) -> list[Sample]:
    """Every line that is no comment; one that is no sample fails."""
    found = []
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            name, labels, value = re.fullmatch(r"([\w:]+)(?:\{(.*)\})? (\S+)", line).groups()  # type: ignore[union-attr]
            found.append(Sample(name, dict(re.findall(r'(\w+)="([^"]*)"', labels or "")), float(value)))
    return found


def metric(text: bytes, name: str, **labels: str) -> float:
    values = [
        sample.value
        for sample in parse_metrics(text)
        if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
    ]
    assert len(values) == 1, (name, values)
    return values[0]


def test_metrics_move_with_the_load_and_counters_never_fall() -> None:
    engine = Engine(start_recording(), launched=LAUNCHED, pid=4711)
    engine.advance(READY + 60)
    early = engine.metrics(READY + 60)
    engine.answered(READY + 60, "GET", "/metrics", 200, 40000)
    engine.answered(READY + 60, "GET", "/v1/loads?include=all", 200, 40000)
    engine.advance(READY + 120)
    late = engine.metrics(READY + 120)
    running = int(metric(late, "sglang:num_running_reqs", tp_rank="0"))
    assert metric(late, "sglang:gen_throughput") > 0.85 * GEN_TOK_S
    assert 1 <= running <= 8
    assert metric(late, "sglang:spec_accept_length") == pytest.approx(2.11, abs=0.2)
    grown = metric(late, "sglang:generation_tokens_total") - metric(early, "sglang:generation_tokens_total")
    assert 0.8 * GEN_TOK_S < grown / 60 < together(8)
    assert metric(late, "sglang:http_requests_total", endpoint="/v1/loads") == 1
    assert metric(late, "sglang:http_responses_total", endpoint="/metrics", status_code="200") == 1
    sample = read_metrics(late.decode(), SGLANG).sample
    assert sample.running == metric(late, "sglang:num_running_reqs", tp_rank="0")
    counters = set(re.findall(r"# TYPE (\S+) (?:counter|histogram)", late.decode()))
    before = {(s.name, *sorted(s.labels.items())): s.value for s in parse_metrics(early)}
    after = {(s.name, *sorted(s.labels.items())): s.value for s in parse_metrics(late)}
    fallen = [
        key
        for key, value in before.items()
        if re.sub(r"_(bucket|sum|count)$", "", str(key[0])) in counters and after.get(key, -1.0) < value
    ]
    assert fallen == []


def test_histograms_are_whole() -> None:
    engine = Engine(start_recording(), launched=LAUNCHED, pid=4711)
    engine.advance(READY + 60)
    text = engine.metrics(READY + 60)
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "prompt_tokens_histogram"):
        count = metric(text, f"sglang:{name}_count")
        assert count == metric(text, "sglang:num_requests_total")
        assert metric(text, f"sglang:{name}_bucket", le="+Inf") == count
        buckets = [s.value for s in parse_metrics(text) if s.name == f"sglang:{name}_bucket"]
        assert buckets == sorted(buckets)
    mean = metric(text, "sglang:e2e_request_latency_seconds_sum") / metric(
        text, "sglang:e2e_request_latency_seconds_count"
    )
    assert mean == pytest.approx(1.05, abs=0.15)


def test_metrics_during_warm_up_know_no_tokens() -> None:
    engine = Engine(start_recording(), launched=LAUNCHED, pid=4711)
    engine.advance(READY - 3)
    assert b"sglang:generation_tokens_total{" not in engine.metrics(READY - 3)


def test_a_file_reads_as_written() -> None:
    file = LogFile()
    file.append(b"hello ")
    file.append(b"server_args=1 server_args=2")
    assert file.size == 33
    assert file.read(6, 11) == b"server_args"
    assert file.read(33, 5) == b""
    assert file.read(99, 5) == b""
    assert file.read(-1, 5) == b""
    assert file.rfind(b"server_args=", 1000) == 20
    assert file.rfind(b"server_args=", 13) == 20
    assert file.rfind(b"server_args=", 12) is None
    assert file.rfind(b"absent", 1000) is None


def test_beyond_its_capacity_the_head_reads_as_nul() -> None:
    file = LogFile(capacity=100)
    for n in range(50):
        file.append(b"%04d\n" % n)
    assert file.size == 250
    whole, at = b"", 0
    while piece := file.read(at, 7):
        whole += piece
        at += len(piece)
    assert len(whole) == 250
    kept = whole.lstrip(b"\0")
    assert kept.endswith(b"0048\n0049\n")
    assert 50 <= len(kept) <= 100
    assert set(whole[: 250 - len(kept)]) == {0}
