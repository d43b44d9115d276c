"""Exceptions in a log: which line names the cause, and whether the process that raised it is gone.

Only the minimum: the last line of a traceback, and whether it killed. Which of several is the cause is the
diagnosis's question.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_OPEN = 64
"""Tracebacks being read at a time, one a writer: TP 8 over 8 nodes can die at once."""
MAX_FRAMES = 2_000
"""Lines after which a traceback counts as ended without a word."""

_EXCEPTION = re.compile(r"(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:: |:?\s*\Z)")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_ENDS_ITS_PROCESS = re.compile(
    r'  File "(?:<frozen runpy>|[^"]*)", line [0-9]+, in (?:<module>|_run_module_as_main|_bootstrap)\s*\Z'
)
_EXITS_QUIETLY = ("KeyboardInterrupt", "SystemExit")


class Raised(NamedTuple):
    """A traceback's last line. `fatal`: its process does not live on. `chained`: it was raised because of the one
    before, and says more."""

    text: str
    fatal: bool
    rank: str
    chained: bool = False


class _Open:
    __slots__ = ("chained", "fatal", "lines", "rank")

    def __init__(self, rank: str, *, fatal: bool, chained: bool) -> None:
        self.rank = rank
        self.fatal = fatal
        self.chained = chained
        self.lines = 0


class Tracebacks:
    """Follows tracebacks by writer. Lines without a prefix belong to the writer that opened the last one."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._last: dict[str, _Open] = {}
        self._chaining: set[str] = set()

    def begin(self, writer: str, rank: str, *, fatal: bool) -> None:
        """A line `Traceback (most recent call last):`, or one that ends in it."""
        if len(self._open) >= MAX_OPEN:
            return
        before = self._last.pop(writer, None)
        chained = writer in self._chaining and before is not None
        self._chaining.discard(writer)
        if chained and before is not None:
            rank, fatal = rank or before.rank, fatal or before.fatal
        self._open[writer] = _Open(rank, fatal=fatal, chained=chained)

    def follow(self, writer: str, text: str) -> Raised | None:
        """A line of a writer; the exception when it is the last line of an open traceback."""
        current = self._open.get(writer)
        if current is None:
            if writer in self._last and text.startswith(_CHAIN):
                self._chaining.add(writer)
            return None
        current.lines += 1
        if not text or text[0] in " \t^|+~":
            if _ENDS_ITS_PROCESS.match(text):
                current.fatal = True
            if current.lines > MAX_FRAMES:
                del self._open[writer]
            return None
        del self._open[writer]
        if not _EXCEPTION.match(text) or text.startswith(_EXITS_QUIETLY):
            return None
        if len(self._last) < MAX_OPEN:
            self._last[writer] = current
        return Raised(text, current.fatal, current.rank, current.chained)

    def clear(self) -> None:
        """A new launch."""
        self._open.clear()
        self._last.clear()
        self._chaining.clear()
