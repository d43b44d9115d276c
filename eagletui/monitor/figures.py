"""Throughput figures as they come, from lines and /metrics, into the last ones shown. Pure."""

from __future__ import annotations

from dataclasses import replace

from eagletui.engines.batch import BatchSample
from eagletui.engines.metrics import Figures, between
from eagletui.monitor.snapshot import STALE_S, Throughput

SERIES = ("gen_tok_s", "accept_len", "running", "queued")
"""Figures that are kept over time."""
_SHOWN = (*SERIES, "token_usage", "accept_rate")


def tell_tokens(sample: BatchSample) -> bool:
    """Whether tokens came out, or in: a prefill of one token is a health check's."""
    return bool(sample.gen_tok_s) or (sample.kind == "prefill" and (sample.new_tokens or 0) > 1)


def taken(old: Throughput, sample: BatchSample, at: float) -> tuple[Throughput, dict[str, float]] | None:
    """The last figures with this sample's, and what it told by name; None when it tells nothing, or /metrics less than
    the log. Fields that it does not tell keep their value, and their age: it is that of the rate, since that is what
    is read as "now"."""
    source = "metrics" if sample.kind == "metrics" else "log"
    if source == "metrics" and old.source == "log" and old.at is not None and at - old.at <= STALE_S:
        return None
    if sample.kind == "prefill":
        # Its "#running-req" leaves out the requests that the batch itself begins: 0 in the middle of a load.
        sample = sample._replace(running=None)
    told = {name: value for name in _SHOWN if (value := getattr(sample, name)) is not None}
    if not told:
        return None
    rate_at = at if old.at is None or old.gen_tok_s is None or "gen_tok_s" in told else old.at
    rate_source = source if rate_at == at else old.source
    return replace(old, **told, at=rate_at, source=rate_source), told


def told_by_metrics(before: Figures | None, after: Figures, seconds: float, *, moved: bool) -> BatchSample:
    """What an answer of /metrics tells of now. `before` came so many seconds earlier; `moved`: tokens came in between.

    The gauges keep the last busy moment's figures: those of an idle server, and of one whose scheduler hangs.
    """
    sample = after.sample if before is None else between(before, after, seconds)
    if sample.running == 0 or (before is not None and not moved):
        return sample._replace(gen_tok_s=None, accept_len=None, accept_rate=None)
    return sample
