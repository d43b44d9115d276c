"""Requests to the script `poll` and its answers, decoded as they come in.

Total: lines that are no answer are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from eagletui.shell.processes import StatRow, parse_stat
from eagletui.shell.script import Command
from eagletui.shell.scripts import LEASE_S, POLL

_LINE_LIMIT = 8 << 20
"""Bytes of one line: `pids` of a node with a million processes."""
_OPEN_LIMIT = 64
"""Answers begun and not ended: more are not asked at a time, so the oldest is of a request nobody waits for."""
_ANSWER = re.compile(rb"\A(\d{1,18}) (stat|pids|pid|file|io|machine|done)(?: (.*))?\Z", re.DOTALL)
_PID = re.compile(rb"\A(\d{1,10}) \(")
FileWord = Literal["same", "other", "missing", "gone"]
_WORDS: dict[bytes, FileWord] = {b"same": "same", b"other": "other", b"missing": "missing", b"gone": "gone"}
_WORD_LIMIT = 128
"""Characters of a boot id, a machine id or a host name that are kept."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Which machine answers: its boot, its own id and its host name, each None where it does not tell."""

    boot: str | None = None
    id: str | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """What a process read since it began: bytes that came from a disk, and bytes that it asked for by read(2)."""

    pid: int
    from_disk: int
    asked: int


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The answer to request `seq`.

    `pids` None unless `all` was asked. `torn` live, but their names hold a newline, so their stat was cut. `shell` is
    the pid of who answers, when it was asked by `ping`; `file` what `look` saw under a name, and `read_to` the byte offset up to which the file
    was read. `io`: of the processes asked for, those whose counters may be read. `machine` when it was asked for.
    """

    seq: int
    rows: tuple[StatRow, ...] = ()
    pids: frozenset[int] | None = None
    torn: frozenset[int] = frozenset()
    shell: int | None = None
    file: FileWord | None = None
    read_to: int | None = None
    io: tuple[ReadBytes, ...] = ()
    machine: Machine | None = None


def start_poll(lease_s: int = LEASE_S) -> Command:
    """The stream that answers requests written to its stdin, for `lease_s` seconds at most."""
    return Command(POLL, (str(lease_s),))


def ask_ping(seq: int) -> bytes:
    """Whether the node answers, and who there."""
    return b"%d ping\n" % seq


def ask_look(seq: int, pid: int, path: str) -> bytes | None:
    """Whether a path is still the file that a `follow` (its pid) reads. None: no request can hold that path."""
    raw = path.encode("utf-8", "surrogateescape")
    return None if b"\n" in raw or b"\0" in raw else b"%d look %d %b/\n" % (seq, pid, raw)


def ask_family(seq: int, pids: Iterable[int]) -> bytes:
    """Which of these live, with their stat."""
    return b"%d family %b\n" % (seq, " ".join(str(int(pid)) for pid in pids).encode())


def ask_all(seq: int) -> bytes:
    """All pids of the node, and the stat of those that no earlier `all` saw."""
    return b"%d all\n" % seq


def ask_io(seq: int, pids: Iterable[int]) -> bytes:
    """What these have read so far."""
    return b"%d io %b\n" % (seq, " ".join(str(int(pid)) for pid in pids).encode())


def ask_machine(seq: int) -> bytes:
    """Which machine it is."""
    return b"%d machine\n" % seq


@dataclass(slots=True)
class _Open:
    rows: list[StatRow] = field(default_factory=list)
    pids: frozenset[int] | None = None
    torn: set[int] = field(default_factory=set)
    shell: int | None = None
    file: FileWord | None = None
    read_to: int | None = None
    io: list[ReadBytes] = field(default_factory=list)
    machine: Machine | None = None

    def take(self, kind: bytes, rest: bytes) -> None:
        """One line of the answer, by its kind."""
        if kind == b"pid":
            self.shell = int(rest) if rest.isdigit() and len(rest) <= 10 else None
        elif kind == b"file":
            word, _, position = rest.partition(b" ")
            self.file = _WORDS.get(word)
            self.read_to = int(position) if position.isdigit() and len(position) < 20 else None
        elif kind == b"io":
            self.io += _io(rest)
        elif kind == b"machine":
            words = [word.decode("ascii", "replace")[:_WORD_LIMIT] for word in (*rest.split(), b"-", b"-", b"-")[:3]]
            self.machine = Machine(*(None if word == "-" else word for word in words))
        elif kind == b"pids":
            self.pids = frozenset(int(word) for word in rest.split() if word.isdigit() and len(word) <= 10)
        elif (row := parse_stat(rest)) is not None:
            self.rows.append(row)
        elif (torn := _PID.match(rest)) is not None:
            self.torn.add(int(torn[1]))


class PollDecoder:
    """Turns what `poll` prints into answers, in the order in which they end."""

    def __init__(self) -> None:
        self._tail = b""
        self._skipping = False
        self._open: dict[int, _Open] = {}

    def feed(self, chunk: bytes) -> list[PollAnswer]:
        """The answers that this chunk ends."""
        *lines, self._tail = (self._tail + chunk).split(b"\n")
        if len(self._tail) > _LINE_LIMIT:
            self._tail, too_long = b"", True
        else:
            too_long = False
        if self._skipping and lines:
            lines, self._skipping = lines[1:], False
        self._skipping = self._skipping or too_long
        return [answer for line in lines if (answer := self._line(line)) is not None]

    def _line(self, line: bytes) -> PollAnswer | None:
        found = _ANSWER.match(line)
        if found is None:
            return None
        seq, kind, rest = int(found[1]), found[2], found[3] or b""
        if kind == b"done":
            ended = self._open.pop(seq, None) or _Open()
            return PollAnswer(
                seq,
                tuple(ended.rows),
                ended.pids,
                frozenset(ended.torn),
                ended.shell,
                ended.file,
                ended.read_to,
                tuple(ended.io),
                ended.machine,
            )
        answer = self._open.setdefault(seq, _Open())
        if len(self._open) > _OPEN_LIMIT:
            del self._open[next(iter(self._open))]
        answer.take(kind, rest)
        return None


def _io(rest: bytes) -> list[ReadBytes]:
    """Of a line that is none, nothing; a counter that is not told (a kernel without task accounting) makes it none."""
    words = rest.split()
    if len(words) != 3 or not all(word.isdigit() and len(word) < 20 for word in words):
        return []
    return [ReadBytes(*(int(word) for word in words))]
