"""Following a file and reading parts of it: the commands, and the first line that says which file it is (its shape
stands in scripts.py). Total."""

from __future__ import annotations

import re
from dataclasses import dataclass

from eagletui.shell.script import Command
from eagletui.shell.scripts import FOLLOW, LAUNCH_OFFSET, LEASE_S, MEASURE, READ_RANGE

_HEAD = re.compile(rb"\Afile (\d{1,20}|-) (\d{1,20}|-) (\d{1,19}) (\d{1,19}) (\d{1,19}) (\d{1,10})\Z")
_HEAD_LIMIT = 200
"""Bytes: the first line is six numbers. Anything longer is not ours."""

NO_FILE, NOT_READABLE, NOT_REGULAR = 3, 4, 5
"""Exit statuses of follow, read-range and launch-offset when the file cannot be followed."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """Which file it is: `size` in bytes and `mtime` in epoch seconds when it was opened; `start` is the 0-based
    offset of the bytes that follow. `pid`: the process that has it open as descriptor 3, 0 when none stays."""

    device: str | None
    inode: int | None
    size: int
    mtime: float
    start: int
    pid: int = 0


def _named(path: str) -> str:
    """A path that no program takes for an option."""
    return "./" + path if path.startswith("-") else path


def follow_from(path: str, offset: int, keeper: int = 0) -> Command:
    """Follow a file from a 0-based offset for as long as process `keeper` lives (0: until stdin ends)."""
    return Command(FOLLOW, (_named(path), f"+{max(0, offset) + 1}", str(keeper), str(LEASE_S)))


def follow_last(path: str, size: int, keeper: int = 0) -> Command:
    """Follow a file, beginning with its last `size` bytes."""
    return Command(FOLLOW, (_named(path), f"-{max(0, size)}", str(keeper), str(LEASE_S)))


def measure(path: str) -> Command:
    """Which file it is; `start` of its head is how many NUL bytes it begins with."""
    return Command(MEASURE, (_named(path),))


def read_range(path: str, offset: int, length: int) -> Command:
    """At most `length` bytes from a 0-based offset."""
    return Command(READ_RANGE, (_named(path), str(max(0, offset)), str(max(0, length))))


def find_launch(path: str, begin: int, limit: int) -> Command:
    """Where in the last `limit` bytes, not before offset `begin`, the last launch printed its arguments."""
    return Command(LAUNCH_OFFSET, (_named(path), str(max(0, begin)), str(max(0, limit))))


def _head(line: bytes) -> FileHead | None:
    found = _HEAD.match(line)
    if found is None:
        return None
    device, inode = found[1].decode(), found[2]
    return FileHead(
        device=None if device == "-" else device,
        inode=int(inode) if inode != b"-" else None,
        size=int(found[3]),
        mtime=float(found[4]),
        start=int(found[5]),
        pid=int(found[6]),
    )


def parse_file_head(output: bytes) -> tuple[FileHead | None, bytes]:
    """The first line of follow or read-range, and the raw bytes after it.

    Without a first line that is ours: None and all the bytes.
    """
    line, newline, rest = output.partition(b"\n")
    head = _head(line) if newline else None
    return (head, rest) if head is not None else (None, output)


class HeadReader:
    """Takes the first line off a stream of chunks.

    `head` is None until it came; `failed` when the stream began with something else.
    """

    def __init__(self) -> None:
        self.head: FileHead | None = None
        self.failed = False
        self._pending = b""

    def decode(self, chunk: bytes) -> bytes:
        """The bytes of the file in this chunk."""
        if self.head is not None or self.failed:
            return chunk
        self._pending += chunk
        if b"\n" not in self._pending and len(self._pending) <= _HEAD_LIMIT:
            return b""
        self.head, rest = parse_file_head(self._pending)
        self.failed, self._pending = self.head is None, b""
        return rest

    def flush(self) -> bytes:
        """The end came: what was held back."""
        rest, self._pending = self._pending, b""
        return rest


def parse_launch_offset(output: bytes) -> int | None:
    """The absolute 0-based offset that launch-offset found, None when there is none."""
    text = output.strip()
    return int(text) if re.fullmatch(rb"[0-9]{1,19}", text) else None
