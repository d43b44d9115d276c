"""One figure for the whole server from lines that each data rank prints for itself: sums over data ranks, never over
tensor ranks."""

from __future__ import annotations

from eagletui.engines.batch import BatchSample

STALE_S = 30.0
"""A data rank that printed nothing for this long beside others that do is idle: its last rate is no longer its rate."""
MAX_RANKS = 4_096


class Totals:
    """The newest decode figures of each data rank."""

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[float, BatchSample]] = {}
        self._accept: float | None = None

    def add(self, sample: BatchSample, at: float) -> BatchSample:
        """Take a sample of one rank in, and give the server's. `at`: any clock in seconds, the log's or the reader's,
        the same for every call."""
        if sample.kind == "spec":
            self._accept = sample.accept_len
        elif sample.kind == "prefill":
            known = self._ranks.get(sample.dp_rank)
            if known is not None:  # a prefill knows the queue, not the decode rate
                self._ranks[sample.dp_rank] = (known[0], _requests_of(sample, known[1]))
        elif len(self._ranks) < MAX_RANKS or sample.dp_rank in self._ranks:
            self._ranks[sample.dp_rank] = (at, sample)
        if len(self._ranks) == 1 and not sample.dp_rank and sample.kind == "decode":
            return sample
        return self._sum(sample, at)

    def _sum(self, sample: BatchSample, at: float) -> BatchSample:
        live = [kept for when, kept in self._ranks.values() if at - when < STALE_S]
        if not live:
            return sample
        accepts = [kept.accept_len for kept in live if kept.accept_len is not None]
        usages = [kept.token_usage for kept in live if kept.token_usage is not None]
        return sample._replace(
            gen_tok_s=_sum([kept.gen_tok_s for kept in live]),
            accept_len=sum(accepts) / len(accepts) if accepts else self._accept,
            running=_count([kept.running for kept in live]),
            queued=_count([kept.queued for kept in live]),
            token_usage=max(usages) if usages else None,
            dp_rank="",
        )


def _requests_of(prefill: BatchSample, decode: BatchSample) -> BatchSample:
    return decode._replace(
        running=decode.running if prefill.running is None else prefill.running,
        queued=decode.queued if prefill.queued is None else prefill.queued,
        token_usage=decode.token_usage if prefill.token_usage is None else prefill.token_usage,
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _count(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
