"""Tokens and requests of one server as they are seen: whether work is there now, and for how long it got no token. Pure."""

from __future__ import annotations

from eagletui.engines.batch import BatchSample
from eagletui.engines.metrics import Figures
from eagletui.monitor.figures import tell_tokens

FRESH_S = 30.0
"""How many requests run says something about now for so long: /metrics is asked every 15 s beside a log."""
LINES_S = 60.0
"""A log that told of tokens within it is the better witness of when they came."""
CATCH_UP_S = 3.0
"""Lines that come within it after a break were written during the break: no sign that tokens flow now."""


class Tokens:
    """Fed with batch lines and answers of /metrics; asked by the verdict."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._line_at: float | None = None
        self._work: tuple[float, int, int] | None = None
        """When it was told how many run and how many wait, and how many."""
        self._since: float | None = None
        """Since when requests have been there without a break."""
        self._fresh_since = 0.0

    def line(self, sample: BatchSample, at: float) -> None:
        """A batch line. Only vLLM's say how many requests run *now*: SGLang prints nothing when a batch ends."""
        if tell_tokens(sample):
            self._line_at = at
            self._at = at if self._at is None else max(at, self._at)
        if sample.kind == "engine" and sample.running is not None:
            self._there(sample.running, sample.queued or 0, at)

    def metrics(self, before: Figures | None, after: Figures, at: float, since: float | None = None) -> bool:
        """An answer of /metrics, and the one before it, which came at `since`. True when tokens came in between: when a scheduler hangs,
        its gauges stand, a rate above zero among them, and only what changes tells of tokens."""
        sample = after.sample
        if sample.running is not None or sample.queued is not None:
            self._there(sample.running or 0, sample.queued or 0, at)
        moved = before is not None and _moved(before, after)
        if moved:
            lines = since is not None and self._line_at is not None and at - self._line_at <= LINES_S
            came = since if lines and since is not None else at
            self._at = came if self._at is None else max(came, self._at)
        return moved

    def _there(self, running: int, queued: int, at: float) -> None:
        if self._work is not None and at < self._work[0]:
            return
        # A break in between: what was there before it may have been done, and other requests have come.
        stale = self._work is not None and at - self._work[0] > FRESH_S
        self._work = (at, running, queued)
        if not running and not queued:
            self._since = None
        elif self._since is None or stale:
            self._since = at

    def link_up(self, at: float) -> None:
        """It is seen again, after a break."""
        self._fresh_since = at
        self._work = self._since = None

    def work(self, now: float) -> tuple[int | None, int | None]:
        """How many requests run and wait now; None when it is not known."""
        if self._work is None or now - self._work[0] > FRESH_S:
            return None, None
        return self._work[1], self._work[2]

    def age_s(self, now: float) -> float | None:
        """Since a token was last seen, of those that say something about now."""
        at = self._at
        if at is None or (self._fresh_since and at < self._fresh_since + CATCH_UP_S):
            return None
        return now - at

    def without_s(self, now: float) -> float | None:
        """For how long requests have been there and got no token; None when there are none, or it is not known."""
        if self._since is None or not any(self.work(now)):
            return None
        began = self._since if self._at is None else max(self._since, self._at)
        return max(0.0, now - began)


def _moved(before: Figures, after: Figures) -> bool:
    grown = any(
        value > before.counters.get(name, value) for name, value in after.counters.items() if name.endswith("_tokens")
    )
    old, new = before.sample, after.sample
    busy = bool(new.running)
    return grown or (busy and (old.gen_tok_s, old.token_usage) != (new.gen_tok_s, new.token_usage))
