"""Cold or warm: whether the weights came from a disk or were in memory already, by what the family read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from eagletui.shell.poll import ReadBytes

FLOOR = 256 << 20
"""Bytes: less is read from any disk within a second or two, so it makes no start cold."""
MOSTLY = 0.5
"""The share of the weights that has to come from a disk for a cold start."""
TOLD = 0.1
"""The share that has to be loaded before a start can be called warm while it goes on."""
_SIZE = re.compile(r"\b([0-9]{1,7}(?:\.[0-9]{1,4})?) (GB|GiB|MB|MiB)\b")
_UNIT = {"GB": 2**30, "GiB": 2**30, "MB": 2**20, "MiB": 2**20}
"""Engines count memory in powers of two, whatever they call them."""


def told_size(detail: str, ranks: int) -> int | None:
    """Bytes of the weights of all ranks, by what the log says one holds ("…, 96.20 GB"); None where it does not."""
    found = _SIZE.search(detail)
    return None if found is None else int(float(found[1]) * _UNIT[found[2]]) * max(1, ranks)


def is_cold(read: int, size: int, done: float = 1.0) -> bool:
    """Whether a start that read so many bytes of its weights from a disk, of so many, is cold. `done`: the share of the weights that
    these bytes are of (0 to 1)."""
    return read >= FLOOR * done and read >= MOSTLY * size


class WeightsRead:
    """What a family read since its weights began to load.

    A process that appears later counts from its first answer: what it read before was no weights.
    """

    def __init__(self) -> None:
        self._first: dict[int, ReadBytes] = {}
        self._last: dict[int, ReadBytes] = {}
        self._begun = 0
        self._looks = 0

    def see(self, rows: Iterable[ReadBytes]) -> None:
        """The counters now. Of a process that ended what it had read stays."""
        for row in rows:
            before = self._last.get(row.pid)
            if before is not None and (row.from_disk < before.from_disk or row.asked < before.asked):
                continue  # another process with the number of one that ended
            self._first.setdefault(row.pid, row)
            self._last[row.pid] = row
        self._begun = self._begun or len(self._first)
        self._looks += 1

    @property
    def is_whole(self) -> bool:
        """Whether the most of those that were looked at were so from the begin: ranks that were found late have read unseen."""
        return 2 * self._begun >= len(self._first) > 0

    @property
    def from_disk(self) -> int | None:
        """Bytes that came from a disk; None where no process let itself be looked at."""
        if not self._last:
            return None
        return sum(row.from_disk - self._first[pid].from_disk for pid, row in self._last.items())

    def size(self, told: int | None) -> int:
        """Of how many bytes: what the log tells, else what was asked for by read(2), or came from the disk (mapped files are not
        asked for)."""
        asked = sum(row.asked - self._first[pid].asked for pid, row in self._last.items())
        return max(told or 0, asked, self.from_disk or 0)

    def so_far(self, done: float | None, size: int | None) -> bool | None:
        """Whether it is a cold start, while it loads: `done` is the share that is loaded (0 to 1), `size` the bytes of the whole
        by earlier launches, None where they do not tell. None as long as it cannot be said."""
        read = self.from_disk
        if read is None or done is None or done < TOLD or self._looks < 2 or not self.is_whole:
            return None
        return is_cold(read, self.size(None if size is None else int(size * done)), done)
