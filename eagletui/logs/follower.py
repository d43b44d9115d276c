"""Following a log over links that break: which script comes next, from which offset, and what an end means. Sans-IO:
the monitor runs what this says.

A log up to WHOLE bytes is read from its start; of a longer one its last WHOLE bytes, and before them the begin of the
launch that they belong to. After a break it goes on at the next byte, once the bytes before it have proved to be the
ones that were read. A file that was cut, and another file under the name, begin anew, told by a marker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from eagletui.shell.follow import (
    NO_FILE,
    NOT_READABLE,
    NOT_REGULAR,
    FileHead,
    HeadReader,
    find_launch,
    follow_from,
    measure,
    parse_file_head,
    parse_launch_offset,
    read_range,
)
from eagletui.shell.poll import FileWord
from eagletui.shell.script import Command

WHOLE = 4 * 1024 * 1024
"""Bytes read at most of what was written before we came."""
LAUNCH_HEAD = 1024 * 1024
"""Bytes read from where the launch began, when that is before the tail."""
LAUNCH_SEARCH = 256 * 1024 * 1024
"""Bytes at the end of the log that are searched, on the node, for the launch's begin: half a second of grep. A log begins with
its first launch, so the file's begin is searched, too."""
BEHIND = 256 * 1024 * 1024
"""Bytes fetched at most after a break; when more was written meanwhile, only the end of it is."""
MEMORY = 256
"""Bytes before the offset that must be the same again when a file is opened anew: a file that was cut and grew again has
others."""
HOLE = 4096
"""NUL bytes in a row at the begin of a file that are taken for a hole and not waited through: it may be gigabytes."""
RETRY_S = (1.0, 2.0, 5.0)
"""Waits before the next try when there is no file, the last one for ever: a log may be made late."""
BREAK_S = 0.5
"""Wait before going on after a stream that ended without a reason of its own."""
_NOTICES = (b"tail: 'standard input': file truncated\n", b"tail: standard input: file truncated\n")
"""What GNU tail prints in the midst of the bytes (its error text, in the C locale) before it begins at the start of a file
that became shorter. A log can hold the same words; they are then the file's."""
_TAIL = b"tail: "
PACKET = 4096
"""Bytes: tail writes its name whole, so only a chunk that was cut by its size can end within it. The "t" at the end of a
short chunk is the log's, and shown."""
_TAIL_FAILED = re.compile(rb"tail: [^\n]{1,200}\n\Z")
Identity = tuple[str | None, int | None]
"""A file: its device and inode, None where the node did not say."""


class Step(Enum):
    """What kind of run comes next."""

    MEASURE = auto()
    """Run to its end: which file it is, how long, and where its first byte is that is no NUL."""
    FIND = auto()
    """Run to its end: where the launch began."""
    HEAD = auto()
    """Run to its end: the begin of the launch."""
    FOLLOW = auto()
    """Stream until it ends."""


class Run(NamedTuple):
    """The next run. After it call `finished` (MEASURE, FIND, HEAD) with its output, or `took` with each chunk and
    `ended` (FOLLOW)."""

    step: Step
    command: Command


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new stream of bytes begins: what was read before belongs to another file. `text` is the marker to show, empty
    for the first stream."""

    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """Something to tell by a marker; the stream goes on."""

    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of the file. `gap`: how many were left out before them. `at`: when they were written (epoch seconds of the node),
    None where that is not known."""

    data: bytes
    gap: int = 0
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to read now: end the stream if one runs, and take `next_run` after `seconds`.

    `error` is a sentence that says why and what to do, None when it is only a break.
    """

    seconds: float
    error: str | None


Found = Fresh | Told | Part | Wait


class Follower:
    """Reads one file. `next_run` says what to run; feed back what came; `offset` is the next byte to read.

    `places` are ways to open it, the best first (a descriptor of who writes it, then its name). `name` is its name, the
    last place if it is not told. `file`: the device and inode that it must have, where they are known: then another file
    under its name is not this log.
    """

    def __init__(self, *places: str, name: str | None = None, file: Identity | None = None) -> None:
        self.name = places[-1] if name is None else name
        self.offset = 0
        self.pid = 0
        """The process on the node that reads the file for us, 0 while none does."""
        self.error: str | None = None
        self._places = places
        self._place = 0
        self._bound = file
        self._file: Identity | None = None
        self._step = Step.MEASURE
        self._hole = 0
        self._launch: int | None = None
        self._head = HeadReader()
        self._tries = 0
        self._ends = 0
        self._gap = 0
        self._missed = False
        self._cut = False
        self._behind = False
        self._memory = b""
        self._unproved = b""
        self._held = b""
        self._own_words: int | None = None
        self._skipped_hole = False
        self._unnamed = 0

    @property
    def path(self) -> str:
        """Where the file is opened now."""
        return self._places[self._place]

    @property
    def head(self) -> FileHead | None:
        """What the stream that runs, or ran last, said of its file when it began; None before it did."""
        return self._head.head

    @property
    def streaming(self) -> bool:
        """Whether the stream that runs is still the right one; False: end it, and ask for the next run."""
        return self._step is Step.FOLLOW

    def next_run(self, keeper: int = 0) -> Run:
        """The run that comes next. `keeper`: the process on the node with which a stream is to end, 0 for none."""
        if self._step is Step.MEASURE:
            return Run(self._step, measure(self.path))
        if self._step is Step.FIND:
            return Run(self._step, find_launch(self.path, self._hole, LAUNCH_SEARCH))
        if self._step is Step.HEAD and self._launch is not None:
            return Run(self._step, read_range(self.path, self._launch, self._head_length()))
        self.pid = 0
        self._head = HeadReader()
        self._unproved, self._held = self._memory, b""
        return Run(Step.FOLLOW, follow_from(self.path, self.offset - len(self._memory), keeper))

    def finished(self, output: bytes, status: int | None) -> list[Found]:
        """A run that is no stream ended. `status` None: the link broke, or it took too long."""
        if status is not None and status in (NO_FILE, NOT_READABLE, NOT_REGULAR):
            return self._refused(status)
        if status != 0 and self._step is Step.MEASURE:
            return [Wait(BREAK_S, self.error)]
        if self._step is Step.MEASURE:
            return self._measured(parse_file_head(output)[0])
        if self._step is Step.FIND:
            return self._found(parse_launch_offset(output) if status == 0 else None)
        head, data = parse_file_head(output)
        launch, self._step = self._launch, Step.FOLLOW
        if status != 0 or head is None or launch is None or not data:
            return []
        gap, self._gap = launch - self._hole, max(0, self.offset - launch - len(data))
        return [Part(data, gap)]

    def took(self, chunk: bytes) -> list[Found]:
        """A chunk of the stream came."""
        had_head = self._head.head is not None
        data = self._head.decode(chunk)
        if self._step is not Step.FOLLOW:
            return []  # what still comes of a stream that is to end
        if self._head.failed:
            return self._again()
        head = self._head.head
        if head is not None and not had_head:
            self.error = None
            self._ends = 0
            self.pid = head.pid
            if (again := self._wrong(head)) is not None:
                return again
        data, proved = self._prove(data)
        if not proved:
            self._cut = True
            return self._again()
        data, noticed = self._without_notice(data)
        if self.offset == 0 and len(data) >= HOLE and not self._skipped_hole and not data[:HOLE].strip(b"\0"):
            self._skipped_hole = True
            return self._again()
        out: list[Found] = []
        if data:
            self.offset += len(data)
            self._memory = (self._memory + data)[-MEMORY:]
            self._tries = self._ends = 0
            out.append(Part(data, self._gap))
            self._gap = 0
        if noticed:
            self._own_words = self.offset
            out += self._again()
        return out

    def ended(self, status: int | None) -> list[Found]:
        """The stream ended: by its exit status, None when the link broke."""
        self.pid = 0
        if status is not None and status in (NO_FILE, NOT_READABLE, NOT_REGULAR):
            return self._refused(status)
        if status and (failed := _TAIL_FAILED.search(self._memory)) is not None:
            self._memory = self._memory[: failed.start()]  # tail's last words were no bytes of the file
            self.offset -= len(failed[0])
        wait = (BREAK_S, *RETRY_S)[min(self._ends, len(RETRY_S))]
        self._ends += 1
        return [Wait(wait, self.error)]

    def looked(self, word: FileWord, read_to: int | None) -> list[Found]:
        """What stands under the name now, and how far the node has read the file (a byte offset) by the poller's word.

        A file that lost its name is followed on while somebody holds it; another one under the name is the log from now
        on, once all of the old one came, unless this log is bound to its file.
        """
        if self._step is not Step.FOLLOW or word == "gone" or self._file is None:
            return []
        if word == "same":
            self._unnamed = 0
            return []
        self._unnamed += 1
        other = word == "other"
        if other and self._bound is None:
            if self._unnamed < 2 or (read_to is not None and self.offset + len(self._held) < read_to):
                return []
            self._step = Step.MEASURE
            return []
        if self._unnamed > 1:
            return []
        now = "is another file now" if other else "has lost its name"
        return [Told(f"{self.name} {now}; the file that was open is followed on")]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _measured(self, head: FileHead | None) -> list[Found]:
        if head is None:
            return [Wait(BREAK_S, self.error)]
        which = (head.device, head.inode)
        if self._bound is not None and which != self._bound:
            return self._elsewhere(f"The log of this launch is gone: {self.name} is another file now.")
        self.error = None
        self._hole = min(head.start, head.size)
        cut, self._cut = self._cut or head.size < self.offset, False
        self._step = Step.FOLLOW
        if which == self._file and not cut:
            return self._resumed(head)
        marker = self._marker(which, cut=cut)
        self._file = which
        self._launch = self._own_words = None
        self._skipped_hole = False
        self._unnamed = 0
        self._start_at(max(self._hole, head.size - WHOLE))
        self._gap = self.offset - self._hole
        self._step = Step.FIND if self._gap else Step.FOLLOW
        return [Fresh(marker)]

    def _marker(self, which: Identity, *, cut: bool) -> str:
        missed, self._missed = self._missed, False
        if self._file is None:
            return f"{self.name} is there now; following it" if missed else ""
        if which != self._file:
            return f"{self.name} was replaced; following the new file"
        size = f"{self._hole:,}".replace(",", "\u00a0")
        hole = f", behind a hole of {size} bytes" if self._hole else ""
        return f"{self.name} was cut; following it from its start{hole}" if cut else ""

    def _resumed(self, head: FileHead) -> list[Found]:
        """It is the same file: it goes on at the next byte, but not through a hole, nor through more than can be shown."""
        behind, self._behind = self._behind, False
        if self._hole > self.offset:
            skipped = self._hole - self.offset
            self._start_at(self._hole)
            return [Told(f"a hole of {skipped:,} NUL bytes was skipped".replace(",", "\u00a0"))]
        if behind:
            begin = max(self.offset, head.size - WHOLE)
            self._gap = begin - self.offset
            self._start_at(begin)
        return []

    def _start_at(self, offset: int) -> None:
        self.offset = offset
        self._memory = b""

    def _found(self, offset: int | None) -> list[Found]:
        """Where the last launch began: before the tail, its head is read, too."""
        if offset is not None and offset < self.offset:
            self._launch, self._step = offset, Step.HEAD
        else:
            self._step = Step.FOLLOW
        return []

    def _head_length(self) -> int:
        return min(LAUNCH_HEAD, self.offset - (self._launch or 0))

    def _wrong(self, head: FileHead) -> list[Found] | None:
        """What to do when the stream did not open the file as it was left; None when it did."""
        if self._file != (head.device, head.inode):
            return self._again()
        if head.size < self.offset:
            self._cut = True
            return self._again()
        if head.size - self.offset > BEHIND:
            self._behind = True
            return self._again()
        return None

    def _prove(self, data: bytes) -> tuple[bytes, bool]:
        """The bytes after those that are known already; False when those are others than they were."""
        if not self._unproved or not data:
            return data, True
        known = self._unproved[: len(data)]
        self._unproved = self._unproved[len(known) :]
        return data[len(known) :], data.startswith(known)

    def _without_notice(self, data: bytes) -> tuple[bytes, bool]:
        """The bytes of the file before tail's notice that it was cut, and whether there is one. A begun notice is held."""
        data, self._held = self._held + data, b""
        at = min((found for notice in _NOTICES if (found := data.find(notice)) >= 0), default=-1)
        if at == 0 and self._own_words == self.offset:
            return data, False  # it stood there when the file was opened again: the log itself says so
        if at >= 0:
            return data[:at], True
        least = 1 if len(data) >= PACKET else len(_TAIL)
        for notice in _NOTICES:
            for size in range(min(len(notice) - 1, len(data)), least - 1, -1):
                if data.endswith(notice[:size]):
                    data, self._held = data[:-size], data[-size:]
                    return data, False
        return data, False

    def _again(self) -> list[Found]:
        """Look anew at what is under the path."""
        self.pid = 0
        self._step = Step.MEASURE
        wait = 0.0 if self._tries == 0 else BREAK_S
        self._tries += 1
        return [Wait(wait, None)]

    def _elsewhere(self, error: str) -> list[Found]:
        """The next place, or from the first one again after a while."""
        self._step = Step.MEASURE
        if self._place + 1 < len(self._places):
            self._place += 1
            return []
        self._place = 0
        self.error = error
        wait = RETRY_S[min(self._tries, len(RETRY_S) - 1)]
        self._tries += 1
        return [Wait(wait, error)]

    def _refused(self, status: int) -> list[Found]:
        self._missed = self._missed or (status == NO_FILE and self._file is None)
        if status == NO_FILE:
            return self._elsewhere(f"There is no log at {self.name}. It is looked for again; --log PATH names another.")
        if status == NOT_READABLE:
            return self._elsewhere(
                f"The log {self.name} may not be read by this login. Log in as the server's user, "
                f"or make it readable: chmod a+r {self.name} (and chmod a+x on a closed folder above it)"
            )
        return self._elsewhere(
            f"{self.name} is no regular file, so its past cannot be read. "
            "Send the server's output to a file, and name it with --log."
        )
