"""Exceptions in a log: where a traceback begins and ends, whether its process lives on, and the frame that is worth showing.

Sources: CPython's traceback and faulthandler modules. Which of several is the cause is asked of `causes`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_OPEN = 64
"""Tracebacks being read at a time, one a writer: TP 8 over 8 nodes can die at once."""
MAX_FRAMES = 2_000
"""Lines after which a traceback counts as ended without a word."""
AFTER_LINES = 40
"""Bare lines after an exception's last line that still belong to its message (`Last error:` and what follows)."""

CHAIN_WITHIN = 3
"""Lines after an empty one in which a further exception of the chain is announced."""

HEAD = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:\(\w+\))?(?:: |:?\s*\Z)")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_ENDS_ITS_PROCESS = re.compile(
    r'  File "(?:<frozen runpy>|[^"]*)", line [0-9]+, in (?:<module>|_run_module_as_main|_bootstrap|run_\w+_process)\s*\Z'
)
_FRAME = re.compile(r'\s*File "(?P<path>[^"]{1,400})", line (?P<line>[0-9]+),? in (?P<name>\S+)')
_LIBRARY = re.compile(r"(?:site|dist)-packages/|/lib/python[0-9.]+/|<frozen|<string>")
_OURS = re.compile(r"/(?:sglang|vllm|sgl_kernel|flashinfer|lmdeploy|sgl-workspace|vllm-workspace)/")
_EXITS_QUIETLY = ("KeyboardInterrupt", "SystemExit")
_CURRENT_THREAD = re.compile(r"Current thread 0x[0-9a-fA-F]+ ?.{0,60}\(most recent call first\)")


class Frame(NamedTuple):
    """A line of a traceback: its number in the log and its text."""

    number: int
    text: str


class Raised(NamedTuple):
    """A traceback's last line. `fatal`: its process does not live on. `chained`: it was raised because of the one
    before, and says more. `incident`: the same for all of a chain. `frame`: the innermost one outside libraries.
    """

    text: str
    fatal: bool
    rank: str
    chained: bool = False
    incident: int = 0
    frame: Frame | None = None


class _Open:
    __slots__ = ("chained", "fatal", "frame", "incident", "lines", "newest_first", "rank", "thread")

    def __init__(self, rank: str, incident: int, *, fatal: bool, chained: bool) -> None:
        self.rank = rank
        self.incident = incident
        self.fatal = fatal
        self.chained = chained
        self.lines = 0
        self.frame: Frame | None = None


class Tracebacks:
    """Follows tracebacks by writer. Lines without a prefix belong to the writer that opened the last one."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._last: dict[str, _Open] = {}
        self._chaining: set[str] = set()
        self._after: dict[str, int] = {}
        self._incidents = 0
        self._thread: _Open | None = None
        self.interrupted = False
        """A process was ended by Ctrl+C."""
        self.dump = 0
        """The incident of the newest faulthandler dump."""

    @property
    def open(self) -> bool:
        """Whether lines that say nothing by themselves matter just now."""
        return bool(self._open or self._after or self._chaining or self._thread)

    def begin(self, writer: str, rank: str, *, fatal: bool) -> None:
        """A line `Traceback (most recent call last):`, or one that ends in it."""
        self._after.pop(writer, None)
        if len(self._open) >= MAX_OPEN and writer not in self._open:
            return
        before = self._last.pop(writer, None)
        chained = writer in self._chaining and before is not None
        self._chaining.discard(writer)
        if chained and before is not None:
            rank, fatal, incident = rank or before.rank, fatal or before.fatal, before.incident
        else:
            self._incidents += 1
            incident = self._incidents
        self._open[writer] = _Open(rank, incident, fatal=fatal, chained=chained)

    def follow(self, writer: str, text: str, number: int = 0) -> Raised | None:
        """A line of a writer; the exception when it is the last line of an open traceback."""
        current = self._open.get(writer)
        if current is None:
            if writer in self._last and text.startswith(_CHAIN):
                self._chaining.add(writer)
                self._after.pop(writer, None)
            return None
        current.lines += 1
        if not text or text[0] in " \t^|+~":
            if _ENDS_ITS_PROCESS.match(text):
                current.fatal = True
            frame = _FRAME.match(text)
            if frame is not None and (current.frame is None or is_ours(frame["path"])):
                current.frame = Frame(number, text.strip())  # the later, the nearer to where it was raised
            if current.lines > MAX_FRAMES:
                del self._open[writer]
            return None
        del self._open[writer]
        if not _EXCEPTION.match(text) or text.startswith(_EXITS_QUIETLY):
            self.interrupted = self.interrupted or (current.fatal and text.startswith("KeyboardInterrupt"))
            return None
        if len(self._last) < MAX_OPEN or writer in self._last:
            self._last[writer] = current
            self._after[writer] = AFTER_LINES
        return Raised(text, current.fatal, current.rank, current.chained, current.incident, current.frame)

    def after(self, writer: str, text: str) -> Raised | None:
        """Whether a bare line of this writer still belongs to the message of its last exception: that one, without a
        text."""
        left = self._after.get(writer)
        last = self._last.get(writer)
        if left is None or last is None:
            return None
        if not text or left < 0:
            # What comes after an empty line is somebody else's, or says that it goes on with "During handling …".
            left = -CHAIN_WITHIN if left > 0 else left + 1
            if left < 0:
                self._after[writer] = left
            else:
                del self._after[writer]
            return None
        if left <= 1:
            del self._after[writer]
        else:
            self._after[writer] = left - 1
        return Raised("", last.fatal, last.rank, last.chained, last.incident, last.frame)

    def newest_first(self, text: str, number: int) -> Frame | None:
        """Follow a faulthandler dump: the first frame outside libraries of its current thread."""
        if self._thread is None:
            if "Current thread 0x" in text and _CURRENT_THREAD.search(text):
                self._thread = _Open("", 0, fatal=True, chained=False)
            return None
        frame = _FRAME.match(text)
        if frame is None or not is_ours(frame["path"]):
            self._thread.lines += 1
            if frame is None or self._thread.lines > MAX_FRAMES:
                self._thread = None
            return None
        self._thread = None
        return Frame(number, text.strip())

    def record_began(self, writer: str) -> None:
        """A record of its own by this writer: what was said before it is complete."""
        self._after.pop(writer, None)

    def clear(self) -> None:
        """A new launch."""
        self.interrupted = False
        self._open.clear()
        self._last.clear()
        self._chaining.clear()
        self._after.clear()
        self._thread = None


def is_ours(path: str) -> bool:
    """Whether a file is the engine's own, or at least no library's."""
    return _OURS.search(path) is not None or _LIBRARY.search(path) is None
