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
        self._spec: dict[str, tuple[float, BatchSample]] = {}
        self._spoke = ""

    @property
    def of_one(self) -> bool:
        """No data rank has named itself: each line tells of the whole server."""
        return self._ranks.keys() <= {""}

    def add(self, sample: BatchSample, at: float) -> BatchSample:
        """Take a sample of one rank in, and give the server's. `at`: any clock in seconds, the log's or the reader's,
        the same for every call. A prefill tells nothing of decoding: its total has no rate, so that an old one is not
        taken for a new one."""
        if sample.kind == "spec":
            # It names no rank where the line before it, of the same engine, did.
            self._keep(self._spec, sample.dp_rank or self._spoke, at, sample)
            return self._sum(sample, at)
        if sample.kind == "prefill":
            known = self._ranks.get(sample.dp_rank)
            if known is None or known[1].kind == "prefill":
                self._keep(self._ranks, sample.dp_rank, at, sample)
            else:  # it knows the queue, not the decode rate
                self._ranks[sample.dp_rank] = (known[0], _requests_of(sample, known[1]))
            return self._sum(sample, at)._replace(gen_tok_s=None, accept_len=None, accept_rate=None)
        self._spoke = sample.dp_rank
        self._keep(self._ranks, sample.dp_rank, at, sample)
        if len(self._ranks) == 1 and not sample.dp_rank and sample.kind == "decode":
            return sample
        return self._sum(sample, at)

    @staticmethod
    def _keep(ranks: dict[str, tuple[float, BatchSample]], rank: str, at: float, sample: BatchSample) -> None:
        if len(ranks) < MAX_RANKS or rank in ranks:
            ranks[rank] = (at, sample)

    def _sum(self, sample: BatchSample, at: float) -> BatchSample:
        live = [kept for when, kept in self._ranks.values() if at - when < STALE_S]
        spec = [kept for when, kept in self._spec.values() if at - when < STALE_S]
        if not live:
            return sample
        usages = [kept.token_usage for kept in live if kept.token_usage is not None]
        return sample._replace(
            gen_tok_s=_sum([kept.gen_tok_s for kept in live]),
            accept_len=_mean([kept.accept_len for kept in (*live, *spec)]),
            accept_rate=_mean([kept.accept_rate for kept in (*live, *spec)]),
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


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _count(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
