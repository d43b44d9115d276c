"""Which figures are of now."""

from __future__ import annotations

import pytest

from eagletui.engines.batch import BatchSample
from eagletui.monitor.figures import taken, tell_tokens
from eagletui.monitor.snapshot import STALE_S, Throughput

SPOKE = Throughput(80.0, 2.0, 3, 0, 0.1, at=100.0, source="log", accept_rate=0.5)
METRICS = Throughput(80.0, None, 3, 0, 0.1, at=100.0, source="metrics")


@pytest.mark.parametrize(
    ("old", "sample", "expected"),
    [
        (Throughput(), BatchSample("decode", 80.0, 2.0, 1, 0, 0.1, accept_rate=0.5), (80.0, 1, 110.0, "log", 0.5)),
        (SPOKE, BatchSample("decode", 90.0, running=4), (90.0, 4, 110.0, "log", 0.5)),
        (SPOKE, BatchSample("prefill", running=0, queued=9), (80.0, 3, 100.0, "log", 0.5)),
        (METRICS, BatchSample("metrics", None, running=0), (80.0, 0, 100.0, "metrics", None)),
        (METRICS, BatchSample("metrics", 70.0, running=1), (70.0, 1, 110.0, "metrics", None)),
        (Throughput(), BatchSample("metrics", None, running=0), (None, 0, 110.0, "metrics", None)),
    ],
)
def test_the_age_is_that_of_the_rate(old: Throughput, sample: BatchSample, expected: tuple[object, ...]) -> None:
    found = taken(old, sample, 110.0)
    assert found is not None
    now = found[0]
    assert (now.gen_tok_s, now.running, now.at, now.source, now.accept_rate) == expected


def test_metrics_wait_while_the_log_speaks() -> None:
    sample = BatchSample("metrics", 1.0)
    assert taken(SPOKE, sample, 100.0 + STALE_S) is None
    assert taken(SPOKE, sample, 101.0 + STALE_S) is not None
    assert taken(SPOKE, BatchSample("decode"), 110.0) is None


def test_a_health_checks_token_is_no_traffic() -> None:
    assert not tell_tokens(BatchSample("prefill", new_tokens=1))
    assert tell_tokens(BatchSample("prefill", new_tokens=2))
    assert tell_tokens(BatchSample("decode", 0.1))
    assert not tell_tokens(BatchSample("decode", 0.0))
