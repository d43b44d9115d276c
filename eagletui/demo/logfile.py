"""A file on the simulated node that grows: the server's log. In memory, with a bound."""

from __future__ import annotations

from typing import Final

CAPACITY: Final = 32 << 20
"""Bytes kept. The demo writes about 0.4 MiB an hour at 1×; only a long session at a high speed reaches this."""


class LogFile:
    """Bytes by offset. Beyond the capacity the head is punched out, as fallocate(1) does: it reads as NUL bytes."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._bytes = bytearray()
        self._base = 0

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._base + len(self._bytes)

    def append(self, data: bytes) -> None:
        """Write at the end."""
        self._bytes += data
        if len(self._bytes) > self._capacity:
            cut = len(self._bytes) - self._capacity // 2  # in halves: cutting the front moves what is left
            del self._bytes[:cut]
            self._base += cut

    def read(self, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset`; empty at the end and beyond."""
        if offset < 0 or limit <= 0:
            return b""
        if offset < self._base:
            return bytes(min(limit, self._base - offset))
        return bytes(self._bytes[offset - self._base : offset - self._base + limit])

    def rfind(self, needle: bytes, limit: int) -> int | None:
        """Offset of the last `needle` that begins in the last `limit` bytes; None when it is not there."""
        found = self._bytes.rfind(needle, max(0, len(self._bytes) - limit))
        return None if found < 0 else self._base + found
