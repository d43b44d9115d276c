"""A bounded series of (time, value) for charts."""

from __future__ import annotations

from bisect import bisect_left

CAPACITY = 86_400
"""Points kept: a day at one a second."""


class Series:
    """Appends in time order, drops the oldest beyond its capacity. `revision` grows with every point."""

    __slots__ = ("_capacity", "_times", "_values", "revision")

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._times: list[float] = []
        self._values: list[float] = []
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
