"""Throughput over a whole launch: last, mean and largest of what its batch lines told, in constant memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from eagletui.engines.batch import BatchSample


@dataclass(slots=True)
class Figure:
    """One measure. `mean` over all values told."""

    last: float | None = None
    largest: float | None = None
    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        """A value that a line told; None changes nothing."""
        if value is None:
            return
        self.last = value
        self.total += value
        self.count += 1
        if self.largest is None or value > self.largest:
            self.largest = value

    def add_all(self, values: Sequence[float]) -> None:
        """The same for each of several values, to the last digit: sum() would round otherwise."""
        if not values:
            return
        self.last = values[-1]
        self.total = deque(accumulate(values, initial=self.total), maxlen=1)[0]
        self.count += len(values)
        largest = max(values)
        if self.largest is None or largest > self.largest:
            self.largest = largest

    @property
    def mean(self) -> float | None:
        """None before the first value."""
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class Figures:
    """Of the whole server, summed over data ranks. `decode_samples`: lines that told a generation rate. `summed`: several ranks
    told one.
    """

    decode_samples: int = 0
    summed: bool = False
    gen_tok_s: Figure = field(default_factory=Figure)
    accept_len: Figure = field(default_factory=Figure)
    running: Figure = field(default_factory=Figure)
    queued: Figure = field(default_factory=Figure)
    token_usage: Figure = field(default_factory=Figure)

    def add(self, sample: BatchSample, total: BatchSample) -> None:
        """One line: as its data rank told it, and the whole server by then."""
        if sample.kind in ("decode", "engine"):
            self.decode_samples += 1
            self.summed = self.summed or total.gen_tok_s != sample.gen_tok_s
            self.gen_tok_s.add(total.gen_tok_s)
            self.running.add(total.running)
        if sample.kind != "prefill":
            self.accept_len.add(total.accept_len)
        if sample.kind != "spec":
            self.queued.add(total.queued if sample.kind != "prefill" else sample.queued)
            self.token_usage.add(total.token_usage if sample.kind != "prefill" else sample.token_usage)
