"""Whether requests are there and get tokens: from lines, and from what changes in /metrics."""

from __future__ import annotations

from eagletui.engines.batch import BatchSample
from eagletui.engines.metrics import Figures
from eagletui.monitor.figures import told_by_metrics
from eagletui.monitor.tokens import FRESH_S, Tokens


def told(
    running: int, *, rate: float | None = 80.0, usage: float = 0.1, queued: int = 0, tokens: float | None = None
) -> Figures:
    counters = {} if tokens is None else {"gen_tokens": tokens}
    return Figures(BatchSample("metrics", gen_tok_s=rate, running=running, queued=queued, token_usage=usage), counters)


def test_gauges_that_stand_are_no_tokens() -> None:
    """A scheduler that hangs leaves its last rate in /metrics for ever."""
    tokens = Tokens()
    first = told(2)
    assert not tokens.metrics(None, first, 100.0)
    assert not tokens.metrics(first, told(2), 115.0)
    assert tokens.age_s(115.0) is None
    assert tokens.without_s(115.0) == 15.0
    assert tokens.metrics(first, told(2, rate=81.0), 120.0)
    assert tokens.age_s(121.0) == 1.0
    assert tokens.without_s(121.0) == 1.0


def test_where_lines_tell_of_tokens_an_answer_tells_no_later_time() -> None:
    """The last token of a scheduler that hangs came some time between two answers."""
    tokens = Tokens()
    tokens.line(BatchSample("decode", gen_tok_s=80.0, running=2), 101.0)
    assert tokens.metrics(told(2), told(2, rate=81.0), 115.0, 100.0)
    assert tokens.age_s(116.0) == 15.0
    alone = Tokens()
    assert alone.metrics(told(2), told(2, rate=81.0), 115.0, 100.0)
    assert alone.age_s(116.0) == 1.0


def test_what_changes_tells_of_tokens() -> None:
    for before, after in (
        (told(2, usage=0.1), told(2, usage=0.2)),
        (told(2, tokens=5), told(2, tokens=6)),
        (told(0, rate=None, tokens=5), told(0, rate=None, tokens=6)),
    ):
        assert Tokens().metrics(before, after, 1.0)
    for before, after in (
        (told(2, tokens=5), told(2, tokens=5)),
        (told(2, tokens=5), told(2, tokens=0)),  # it began anew
        (told(2), told(0, rate=0.0, usage=0.0)),  # the last request was aborted
    ):
        assert not Tokens().metrics(before, after, 1.0)


def test_the_wait_begins_with_the_requests_not_with_the_last_token() -> None:
    tokens = Tokens()
    tokens.line(BatchSample("decode", gen_tok_s=80.0, running=1), 0.0)
    tokens.metrics(None, told(0, rate=0.0), 3000.0)
    assert tokens.without_s(3001.0) is None
    tokens.metrics(told(0, rate=0.0), told(1, rate=0.0), 3600.0)
    assert tokens.without_s(3610.0) == 10.0
    assert tokens.work(3610.0) == (1, 0)


def test_an_old_count_says_nothing_about_now() -> None:
    tokens = Tokens()
    tokens.metrics(None, told(1), 100.0)
    assert tokens.without_s(100.0 + FRESH_S + 1) is None
    assert tokens.work(100.0 + FRESH_S + 1) == (None, None)
    tokens.metrics(told(1), told(1), 500.0)
    assert tokens.without_s(510.0) == 10.0


def test_vllms_lines_tell_how_many_run_now_and_sglangs_do_not() -> None:
    tokens = Tokens()
    tokens.line(BatchSample("engine", gen_tok_s=0.0, running=1, queued=3), 10.0)
    tokens.line(BatchSample("engine", gen_tok_s=0.0, running=1, queued=3), 20.0)
    assert tokens.without_s(25.0) == 15.0
    tokens.line(BatchSample("engine", gen_tok_s=12.0, running=1, queued=0), 30.0)
    assert tokens.without_s(31.0) == 1.0
    other = Tokens()
    other.line(BatchSample("decode", gen_tok_s=80.0, running=1), 10.0)
    assert other.work(11.0) == (None, None)


def test_after_a_break_of_the_link_it_begins_anew() -> None:
    tokens = Tokens()
    tokens.metrics(None, told(1), 100.0)
    tokens.line(BatchSample("decode", gen_tok_s=80.0), 100.0)
    tokens.link_up(110.0)
    assert tokens.without_s(111.0) is None
    assert tokens.age_s(111.0) is None
    tokens.line(BatchSample("decode", gen_tok_s=80.0), 114.0)
    assert tokens.age_s(115.0) == 1.0


def test_a_rate_that_stands_is_not_of_now() -> None:
    """What the chart and the title show must not go on while no token comes."""
    assert told_by_metrics(None, told(2), 0.0, moved=False).gen_tok_s == 80.0
    assert told_by_metrics(told(2), told(2, rate=81.0), 15.0, moved=True).gen_tok_s == 81.0
    hung = told_by_metrics(told(2), told(2), 15.0, moved=False)
    assert (hung.gen_tok_s, hung.running) == (None, 2)
    assert told_by_metrics(told(2), told(0), 15.0, moved=True).gen_tok_s is None
