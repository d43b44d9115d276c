"""From a drawing of a bar to progress: n/N is the truth, the pace is worked out where its own clock allows."""

from __future__ import annotations

from eagletui.engines.bars import Bar
from eagletui.logs.state import Progress

TRUSTED_ELAPSED_S = 5.0
"""A bar prints whole seconds: from here on n ÷ elapsed is better than the rate it prints."""
SLOW_SHARD_S = 20.0
"""A shard is some 5 GB: slower than this is a disk or a network far below what such a node has."""
SLOW_AFTER = 2
"""Shards after which a pace can be told."""


def is_slow(bar: Bar) -> bool:
    """Whether shards come slower than any disk in order gives them. Several readers at once finish in a bunch: no pace."""
    if bar.label.startswith("Multi-thread") or bar.done < SLOW_AFTER or not bar.total or bar.done >= bar.total:
        return False
    return bar.elapsed_s is not None and bar.elapsed_s / bar.done >= SLOW_SHARD_S


def progress_of(bar: Bar, unit: str, rank: str) -> Progress:
    total = bar.total or 0
    rate = bar.rate
    if bar.elapsed_s is not None and bar.elapsed_s >= TRUSTED_ELAPSED_S and bar.done:
        rate = bar.done / bar.elapsed_s
    left = max(0, total - bar.done)
    eta = 0.0 if not left else (left / rate if rate and bar.done else None)
    return Progress(bar.done, total, unit, rate, eta, bar.label, rank)
