"""The lines of a followed log, by number. A bounded ring now; the interface is what a spool file will have, too."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

CAPACITY = 100_000
"""Lines kept, about 25 MB."""


class LineKind(IntEnum):
    """What a stored line is, for colour and folding."""

    PLAIN = 0
    WARNING = 1
    ERROR = 2
    PROGRESS = 3
    PROBE = 4
    """Access-log lines of our own probes, folded: `count` of them in a row."""
    MARKER = 5
    """A line of ours: a rotation, a gap, the end of the log."""
    DEBUG = 6


@dataclass(frozen=True, slots=True)
class StoredLine:
    """One line as shown. `text` is clean (no escape sequences, no control characters); `time` ("14:05:39") and `rank`
    ("TP0") were taken off its front.

    `level` is the level word when the line had one ("WARNING"), taken off the front, too. `count` is how many lines
    are folded in it. `number` and `channel` are the line's own in its file, as a quotation has them (state.Quote); of a
    bar and of folded lines the newest one's. A line of ours has number 0.
    """

    text: str
    kind: LineKind = LineKind.PLAIN
    time: str = ""
    rank: str = ""
    level: str = ""
    count: int = 1
    number: int = 0
    channel: int = 0


class LineStore:
    """Lines numbered from 0 for as long as the store lives: `first` is the oldest still kept, `end` is one past the
    newest. `counted`: lines were read from their file's begin on, so that their own numbers are those of the file.

    `revision` grows with every change, `replace_last` included (a progress bar or a probe count that updates in place).
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._lines: deque[StoredLine] = deque(maxlen=capacity)
        self.end = 0
        self.revision = 0
        self.counted = True
        self.warnings = 0
        self.errors = 0

    @property
    def first(self) -> int:
        """Number of the oldest kept line."""
        return self.end - len(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def append(self, line: StoredLine) -> int:
        """Add a line and give its number."""
        self._lines.append(line)
        self.end += 1
        self.revision += 1
        self.warnings += line.kind is LineKind.WARNING
        self.errors += line.kind is LineKind.ERROR
        return self.end - 1

    def replace(self, number: int, line: StoredLine) -> bool:
        """Put `line` in the place of an earlier one (same kind); False when that one is no longer kept."""
        if not self.first <= number < self.end:
            return False
        self._lines[number - self.end] = line
        self.revision += 1
        return True

    def drop_last(self) -> None:
        """Take the newest line back: it was shown unfinished, and turned out to belong into another one."""
        if self._lines:
            self._lines.pop()
            self.end -= 1
            self.revision += 1

    def line(self, number: int) -> StoredLine | None:
        """The line with this number, None when it is not kept."""
        return self._lines[number - self.end] if self.first <= number < self.end else None

    def numbered(self, line: int, channel: int = 0) -> list[int]:
        """Where a line is shown, by its own number in its file: in several places where bars are glued to it, in none
        when it is no longer kept (or was folded, or drawn over by a later state of its bar)."""
        if not line:
            return []
        return [
            at for at, kept in enumerate(self._lines, self.first) if kept.number == line and kept.channel == channel
        ]

    def of_kind(self, kind: LineKind) -> list[int]:
        """Where the kept lines of a kind are, in order."""
        return [at for at, kept in enumerate(self._lines, self.first) if kept.kind is kind]
