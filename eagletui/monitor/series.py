"""A bounded series of (time, value) for charts, and the gaps in which nobody could look."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from math import inf

CAPACITY = 86_400
"""Points kept: a day at one a second."""
GAPS = 256
"""Gaps kept: a link that breaks more often than every five minutes of a day is no longer worth a mark each."""


class Series:
    """Appends in time order, drops the oldest beyond its capacity. `revision` grows with every change."""

    __slots__ = ("_capacity", "_gaps", "_times", "_values", "revision")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._times: list[float] = []
        self._values: list[float] = []
        self._gaps: deque[tuple[float, float]] = deque(maxlen=GAPS)
        """An end of infinity is a gap that goes on."""
        self.revision = 0

    def __len__(self) -> int:
        return len(self._times)

    def append(self, at: float, value: float) -> None:
        """Add a point; a time before the last one is taken as the last one."""
        if self._times and at < self._times[-1]:
            at = self._times[-1]
        self._times.append(at)
        self._values.append(value)
        self.revision += 1
        if len(self._times) > self._capacity + self._capacity // 8:  # in blocks: deleting one from the front is O(n)
            cut = len(self._times) - self._capacity
            del self._times[:cut], self._values[:cut]

    def last(self) -> tuple[float, float] | None:
        """The newest point."""
        return (self._times[-1], self._values[-1]) if self._times else None

    def window(self, since: float, until: float) -> tuple[list[float], list[float]]:
        """Points with since <= time <= until, as (times, values)."""
        low = bisect_left(self._times, since)
        high = bisect_left(self._times, until, lo=low)
        while high < len(self._times) and self._times[high] == until:
            high += 1
        return self._times[low:high], self._values[low:high]

    def gap_began(self, at: float) -> None:
        """From now on nobody looks. One that goes on already began earlier."""
        if not self._gaps or self._gaps[-1][1] != inf:
            self._gaps.append((at, inf))
            self.revision += 1

    def gap_ended(self, at: float) -> None:
        """It is looked at again."""
        if self._gaps and self._gaps[-1][1] == inf:
            self._gaps[-1] = (self._gaps[-1][0], at)
            self.revision += 1

    def gaps(self, since: float, until: float) -> list[tuple[float, float]]:
        """Those within the window, cut to it, as (begin, end)."""
        return [(max(a, since), min(b, until)) for a, b in self._gaps if b >= since and a <= until]

    def slept(self, woke_at: float, seconds: float) -> None:
        """The clock of all times stood still for so long just now: what was before is older by that, and between lies a gap."""
        self._times = [at - seconds if at < woke_at else at for at in self._times]
        shifted = [(a - seconds if a < woke_at else a, b - seconds if b < woke_at else b) for a, b in self._gaps]
        self._gaps = deque(shifted, maxlen=GAPS)
        if not self._gaps or self._gaps[-1][1] != inf:
            self._gaps.append((woke_at - seconds, woke_at))
        self.revision += 1
