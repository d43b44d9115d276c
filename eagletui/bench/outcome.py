"""What a run measured: a row a request, sums, spreads, and what is concluded. Pure values; JSON.md's `bench` object says what each is called outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eagletui.bench.load import Api, Load

TokenSource = Literal["usage", "chunks"]
"""Tokens are counted from the server's `usage`, or, where none came, as chunks that carry text."""
Conclusion = Literal["faster", "slower", "same", "not-comparable"]


@dataclass(frozen=True, slots=True)
class Row:
    """One request. `sent_s`: seconds from its repeat's begin. `ttft_ms`: until the first token; `e2e_ms`: until the last one. `gaps_ms`: the inter-token
    latencies, one a token after the first (a chunk with k tokens gives k times its share); not kept in the history. Of a failed request `error` is
    the reason, quoted and masked, `status` its HTTP status (None: no answer); times are None where they did not come to be."""

    repeat: int
    index: int
    sent_s: float
    ttft_ms: float | None
    e2e_ms: float | None
    input_tokens: int | None
    output_tokens: int
    source: TokenSource = "usage"
    status: int | None = 200
    error: str | None = None
    gaps_ms: Sequence[float] = ()

    @property
    def tok_s(self) -> float | None:
        """Output tokens over the time from sending to the last token."""
        return self.output_tokens / (self.e2e_ms / 1000) if self.e2e_ms and not self.error else None

    @property
    def tpot_ms(self) -> float | None:
        """Time per output token after the first one. None with one token."""
        if self.error or self.e2e_ms is None or self.ttft_ms is None or self.output_tokens < 2:
            return None
        return (self.e2e_ms - self.ttft_ms) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class Repeat:
    """One repeat. `duration_s`: from the first request sent to the last answer's end. `accept_len` over its time, None where not told.
    `began`, `ended`: wall clock, seconds since the epoch."""

    rows: tuple[Row, ...]
    duration_s: float
    began: float
    ended: float
    accept_len: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles (linear interpolation between closest ranks). A percentile is None where a program elsewhere did not tell it."""

    mean: float
    p50: float | None
    p90: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure: its HTTP status (None: no answer), what was said (quoted, masked), how often."""

    status: int | None
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The server that was measured. `args`: its arguments by name without hyphens, masked; `launch`: key of its launch in the history, None where it has
    none there. `machine`: as the history tells machines apart; of a run by address the address."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    args: Mapping[str, object] = field(default_factory=dict)
    node: str | None = None
    machine: str = ""
    server: str | None = None
    port: int | None = None
    launch: str | None = None
    profile: str | None = None
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a runner gives back. `notes`: what the reader should know, sentences (caveats). `link_overhead_ms`: the link's own cost of a first token, of the
    built-in client only."""

    repeats: tuple[Repeat, ...]
    notes: tuple[str, ...] = ()
    link_overhead_ms: float | None = None
    runner_version: str | None = None
    api: Api | None = None
    """Which was asked in the end."""


@dataclass(frozen=True, slots=True)
class Against:
    """A run held against the baseline: of `tok_s.per_request.mean`, a value a repeat. `why`: a sentence. `delta_pct` None where not comparable.
    `break_even`: the accept length at which this run would be as fast as the baseline, None where it cannot be told."""

    run: str
    tok_s: float | None
    delta_pct: float | None
    verdict: Conclusion
    why: str
    break_even: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A run, concluded. `asked`: all that the load asks for, also of a run that was ended early. `began`: wall clock, seconds since
    the epoch. Spreads are over all requests that were answered; None: nothing to say. `tok_s_total` = output tokens ÷ duration,
    None when all failed. `repeat_means`: `tok_s.per_request.mean` of each repeat. `complete` False: it was aborted."""

    run: str
    load: Load
    facts: Facts
    began: float
    asked: int
    ok: int
    failures: tuple[Failure, ...]
    duration_s: float
    input_tokens: int | None
    output_tokens: int
    source: TokenSource
    tok_s_total: float | None
    tok_s: Spread | None
    ttft_ms: Spread | None
    tpot_ms: Spread | None
    itl_ms: Spread | None
    e2e_ms: Spread | None
    accept_len: float | None
    repeat_means: tuple[float, ...]
    ci95: tuple[float, float] | None
    link_overhead_ms: float | None
    notes: tuple[str, ...]
    against: Against | None = None
    runner_version: str | None = None
    complete: bool = True
    windows: tuple[tuple[float, float], ...] = ()
    """Begin and end of each repeat, wall clock."""

    @property
    def failed(self) -> int:
        """Asked, and not answered well; of a run that was ended early what was sent in vain."""
        return self.asked - self.ok if self.complete else sum(one.count for one in self.failures)


@dataclass(frozen=True, slots=True)
class BenchProgress:
    """A run under way, for a screen and for events. `stage`: what is done now; `done` of `asked` requests of all repeats; `tok_s`: mean per request so far;
    `rate`: requests a second lately; `eta_s`: seconds
    to its end by its own pace, None before that is known. `at`: monotonic. `line`: last thing that a runner on
    the node said, clean text."""

    stage: Literal["preparing", "warmup", "measuring", "reading", "ended"]
    repeat: int = 0
    repeats: int = 0
    done: int = 0
    asked: int = 0
    failed: int = 0
    open: int = 0
    tok_s: float | None = None
    rate: float | None = None
    eta_s: float | None = None
    began_at: float | None = None
    at: float = 0.0
    line: str = ""
