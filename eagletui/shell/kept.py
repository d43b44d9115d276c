"""A log that somebody else keeps for a process: a container's runtime, the journal. What the script `kept-log` prints, as bytes of the log.

Shapes: `docker logs --timestamps` puts "2026-11-30T00:40:16.123456789Z " before each entry; an entry holds 16 KiB at most, so a longer line has more
of them in its midst. `journalctl --output=json` prints an object a line (systemd.journal-fields(7)); MESSAGE is a string, or a list of bytes where it
is no UTF-8. Total: what fits neither is the tool's own complaint.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from eagletui.shell.script import Command
from eagletui.shell.scripts import KEPT_LOG, LEASE_S

RUNTIMES = frozenset({"docker", "podman", "nerdctl"})
ENTRY = 16 * 1024
"""Bytes that a container runtime takes as one entry."""
LINE_LIMIT = 1 << 20
"""Bytes of one line of the tool; of a longer one the rest is dropped."""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d) ?")


@dataclass(frozen=True, slots=True)
class Kept:
    """A line of the log, with its newline. `mark`: what to resume after; `at`: when it was written (epoch seconds, the node's clock)."""

    line: bytes
    mark: str
    at: float | None


def kept_log(kind: str, name: str, since: str) -> Command:
    """The log of a container ("docker", "podman", "nerdctl"), a "unit" or "user-unit", after the mark `since`; "" for its last lines."""
    return Command(KEPT_LOG, (kind, name, since, str(LEASE_S)))


class KeptDecoder:
    """`decode` gives the log's lines in what came; `complaint` keeps the first line that was none of them."""

    def __init__(self, kind: str) -> None:
        self.complaint = ""
        self._read = _container_line if kind in RUNTIMES else _journal_line
        self._tail = b""

    def decode(self, chunk: bytes) -> list[Kept]:
        """The lines that this chunk completes."""
        *lines, self._tail = (self._tail + chunk).split(b"\n")
        self._tail = self._tail[:LINE_LIMIT]
        found = []
        for line in lines:
            kept = self._read(line[:LINE_LIMIT])
            if kept is not None:
                found.append(kept)
            elif line.strip() and not self.complaint:
                self.complaint = line[:300].decode("utf-8", "replace").strip()
        return found

    def flush(self) -> list[Kept]:
        """The end came: an unfinished line is not taken, it comes again."""
        if self._tail.strip() and not self.complaint and self._read(self._tail) is None:
            self.complaint = self._tail[:300].decode("utf-8", "replace").strip()
        self._tail = b""
        return []


def _container_line(line: bytes) -> Kept | None:
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    parts, rest = [], line[stamp.end() :]
    while len(rest) > ENTRY and (inner := _STAMP.match(rest, ENTRY)) is not None:
        parts.append(rest[:ENTRY])
        rest = rest[inner.end() :]
    mark = stamp[0].decode().strip()
    return Kept(b"".join(parts) + rest + b"\n", mark, _seconds(mark))


def _seconds(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", stamp)).astimezone(UTC).timestamp()
    except ValueError:
        return None


def _journal_line(line: bytes) -> Kept | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(cursor := entry.get("__CURSOR"), str):
        return None
    message, micros = entry.get("MESSAGE"), entry.get("__REALTIME_TIMESTAMP")
    if isinstance(message, list):
        text = bytes(b for b in message if isinstance(b, int) and 0 <= b < 256)
    else:
        text = str(message or "").encode("utf-8", "surrogateescape")
    at = int(micros) / 1e6 if isinstance(micros, str) and micros.isdigit() and len(micros) < 18 else None
    return Kept(text + b"\n", cursor, at)
