"""The server's figures from those of its ranks."""

from __future__ import annotations

import pytest

from eagletui.engines.batch import BatchSample
from eagletui.logs.totals import STALE_S, Totals


def decode(gen: float, dp: str = "", *, at: float = 0.0, **more: float) -> tuple[BatchSample, float]:
    return BatchSample("decode", gen, running=1, queued=1, dp_rank=dp, accept_len=more.get("length")), at


def test_a_prefill_tells_no_rate_of_decoding() -> None:
    totals = Totals()
    totals.add(*decode(80.0))
    total = totals.add(BatchSample("prefill", running=0, queued=7, new_tokens=1), 5.0)
    assert (total.gen_tok_s, total.accept_len, total.queued) == (None, None, 7)
    assert totals.add(*decode(81.0, at=6.0)).gen_tok_s == 81.0


def test_the_queue_of_a_rank_that_only_prefills_counts() -> None:
    totals = Totals()
    totals.add(*decode(80.0, "DP0"))
    assert totals.add(BatchSample("prefill", queued=5, dp_rank="DP1"), 1.0).queued == 6
    late = STALE_S + 1
    assert totals.add(BatchSample("prefill", queued=4, dp_rank="DP1"), late).queued == 4


def test_speculation_is_of_the_engine_that_spoke_before() -> None:
    totals = Totals()
    for rank, gen, length, rate in (("DP0", 100.0, 2.0, 0.5), ("DP1", 50.0, 3.0, 0.75)):
        totals.add(BatchSample("engine", gen, dp_rank=rank), 0.0)
        total = totals.add(BatchSample("spec", accept_len=length, accept_rate=rate), 0.0)
    assert (total.gen_tok_s, total.accept_len, total.accept_rate) == (150.0, 2.5, 0.625)
    again = totals.add(BatchSample("engine", 40.0, dp_rank="DP0"), STALE_S)
    assert (again.gen_tok_s, again.accept_len) == (40.0, None)


@pytest.mark.parametrize(("ranks", "expected"), [(("", ""), 20.0), (("DP0", "DP1"), 30.0), (("DP1", "DP1"), 20.0)])
def test_sums_over_data_ranks_alone(ranks: tuple[str, str], expected: float) -> None:
    totals = Totals()
    for gen, rank in zip((10.0, 20.0), ranks, strict=True):
        total = totals.add(*decode(gen, rank))
    assert total.gen_tok_s == expected
