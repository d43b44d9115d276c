"""Following a log over links that break: which script comes next, from which offset, and what an end means. Sans-IO:
the monitor runs what this says.

A log up to WHOLE bytes is read from its start; of a longer one its last WHOLE bytes, and before them the begin of the
launch that they belong to. After a break it goes on at the next byte. A file that became shorter, or another inode
under the name, is a new stream, told by a marker.
"""

from __future__ import annotations

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
    parse_file_head,
    parse_launch_offset,
    read_range,
)
from eagletui.shell.script import Command

WHOLE = 4 * 1024 * 1024
"""Bytes read at most of what was written before we came."""
LAUNCH_HEAD = 1024 * 1024
"""Bytes read from where the launch began, when that is before the tail."""
LAUNCH_SEARCH = 1024 * 1024 * 1024
"""Bytes of the log that are searched, on the node, for the launch's begin: a second or two of grep."""
RETRY_S = (1.0, 2.0, 5.0)
"""Waits before the next try when there is no file, the last one for ever: a log may be made late."""
BREAK_S = 0.5
"""Wait before going on after a stream that ended without a reason of its own."""


class Step(Enum):
    """What kind of run comes next."""

    MEASURE = auto()
    """Run to its end: says how long the file is."""
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
class Part:
    """Bytes of the file. `gap`: how many were left out before them."""

    data: bytes
    gap: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to read now: end the stream if one runs, and take `next_run` after `seconds`.

    `error` is a sentence that says why and what to do, None when it is only a break.
    """

    seconds: float
    error: str | None


class Follower:
    """Reads one path. `next_run` says what to run; feed back what came; `offset` is the next byte to read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0
        self.error: str | None = None
        self._file: tuple[str | None, int | None] | None = None
        self._step = Step.MEASURE
        self._launch: int | None = None
        self._head = HeadReader()
        self._tries = 0
        self._gap = 0
        self._marker = ""

    @property
    def streaming(self) -> bool:
        """Whether the stream that runs is still the right one; False: end it, and ask for the next run."""
        return self._step is Step.FOLLOW

    def next_run(self) -> Run:
        """The run that comes next."""
        if self._step is Step.MEASURE:
            return Run(self._step, read_range(self.path, 0, 0))
        if self._step is Step.FIND:
            return Run(self._step, find_launch(self.path, LAUNCH_SEARCH))
        if self._step is Step.HEAD and self._launch is not None:
            return Run(self._step, read_range(self.path, self._launch, self._head_length()))
        self._head = HeadReader()
        return Run(Step.FOLLOW, follow_from(self.path, self.offset))

    def finished(self, output: bytes, status: int | None) -> list[Fresh | Part | Wait]:
        """A run that is no stream ended. `status` None: the link broke, or it took too long."""
        if status is not None and status in (NO_FILE, NOT_READABLE, NOT_REGULAR):
            return [self._refused(status)]
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
        self._gap = max(0, self.offset - launch - len(data))
        return [Part(data, launch)]

    def took(self, chunk: bytes) -> list[Fresh | Part | Wait]:
        """A chunk of the stream came."""
        had_head = self._head.head is not None
        data = self._head.decode(chunk)
        if self._step is not Step.FOLLOW:
            return []  # what still comes of a stream that is to end
        if self._head.failed:
            return self._again("")
        out: list[Fresh | Part | Wait] = []
        head = self._head.head
        if head is not None and not had_head:
            self.error = None
            again = self._other(head)
            if again is not None:
                return self._again(again)
        if data:
            self.offset += len(data)
            self._tries = 0
            out.append(Part(data, self._gap))
            self._gap = 0
        return out

    def ended(self, status: int | None) -> list[Fresh | Part | Wait]:
        """The stream ended: by its exit status, None when the link broke."""
        if status in (NO_FILE, NOT_READABLE, NOT_REGULAR):
            return [self._refused(status)]
        return [Wait(BREAK_S, self.error)]

    def changed(self, device: str | None, inode: int | None, size: int) -> bool:
        """Whether the path is no longer what is followed (renamed, made anew, cut), by what the poller sees: end the
        stream then, and go on."""
        if self._file is None or self._step is not Step.FOLLOW:
            return False
        return (device, inode) != self._file or size < self.offset

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _measured(self, head: FileHead | None) -> list[Fresh | Part | Wait]:
        if head is None:
            return [Wait(BREAK_S, self.error)]
        self.error = None
        self._tries = 0
        which = (head.device, head.inode)
        if which == self._file and head.size >= self.offset and not self._marker:
            self._step = Step.FOLLOW  # it was away for a while
            return []
        marker = self._marker or (f"{self.path} was replaced; following the new file" if self._file is not None else "")
        self._marker = ""
        self._file = which
        self.offset = max(0, head.size - WHOLE)
        self._gap = self.offset
        self._launch = None
        self._step = Step.FIND if self.offset else Step.FOLLOW
        return [Fresh(marker)]

    def _found(self, offset: int | None) -> list[Fresh | Part | Wait]:
        """Where the last launch began: before the tail, its head is read, too."""
        if offset is not None and offset < self.offset:
            self._launch, self._step = offset, Step.HEAD
        else:
            self._step = Step.FOLLOW
        return []

    def _head_length(self) -> int:
        return min(LAUNCH_HEAD, self.offset - (self._launch or 0))

    def _other(self, head: FileHead) -> str | None:
        """What to say when the stream opened another file than the one read so far; None when it is the same."""
        if self._file != (head.device, head.inode):
            return ""
        return f"{self.path} was cut; following it from its start" if head.size < self.offset else None

    def _again(self, marker: str) -> list[Fresh | Part | Wait]:
        """Look anew at what is under the path."""
        self._marker = marker
        self._step = Step.MEASURE
        return [Wait(0.0 if self._tries == 0 else BREAK_S, None)]

    def _refused(self, status: int) -> Wait:
        self._step = Step.MEASURE
        wait = RETRY_S[min(self._tries, len(RETRY_S) - 1)]
        self._tries += 1
        if status == NO_FILE:
            self.error = f"There is no log at {self.path}. It is looked for again; --log PATH names another."
        elif status == NOT_READABLE:
            self.error = (
                f"The log {self.path} may not be read by this login. Log in as the server's user, "
                f"or make it readable: chmod a+r {self.path}"
            )
        else:
            self.error = (
                f"{self.path} is no regular file, so its past cannot be read. "
                "Send the server's output to a file, and name it with --log."
            )
        return Wait(wait, self.error)
