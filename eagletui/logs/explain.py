"""A whole log, read once: every server and launch in it, what became of each, and why. Pure: blocks of bytes in, values out.

The same reader as live. Memory is flat: nothing of the log is kept but what the answer holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from eagletui.logs.advice import summary_of
from eagletui.logs.causes import CODED_ECHO, ECHO, Causes, Clue, signal_code, was_asked
from eagletui.logs.diagnose import Facing, make
from eagletui.logs.figures import Figures
from eagletui.logs.launch import Launch
from eagletui.logs.quick_reader import QuickReader
from eagletui.logs.reader import Reader
from eagletui.logs.stage import Moment
from eagletui.logs.standing import stall
from eagletui.logs.state import Diagnosis, LogState, LogVerdict, PhaseName, Progress, Quote, Warned

WITH_A_YEAR = 3 * 366 * 86_400
"""Stamps below it lack a year or a date (records.Record): no moment can be made of them."""
HEAD = 64 * 1024
"""Bytes looked at to tell whether a log stands newest first."""
LONG_LINE = 64 * 1024
"""Bytes of an unfinished line that are kept to be given whole."""
ENOUGH_FALLS = 3
"""Falling times needed to say so: several writers swap lines of one second."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One launch. `started`: as the log prints it, ISO without a zone; `state` and `diagnosis` take the exit status and the idle
    time into account.
    """

    started: str | None
    state: LogVerdict
    progress: Progress | None
    log: LogState
    figures: Figures
    diagnosis: Diagnosis | None

    @property
    def phase(self) -> PhaseName | None:
        """The one it is in, or was in at its end."""
        return self.log.phase

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """What it went on after."""
        return self.log.warnings


@dataclass(frozen=True, slots=True)
class Server:
    """One server of the file; `id` is its outer prefix, "" when there is none."""

    id: str
    engine: str | None
    launches: tuple[Explained, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole file. `lines` counts LF lines, an unfinished last one too."""

    lines: int
    bytes: int
    servers: tuple[Server, ...]

    @property
    def worst(self) -> LogVerdict:
        """Of the current launches: the exit status is about it."""
        states = [server.launches[-1].state for server in self.servers if server.launches]
        return next((one for one in ("crashed", "stalled") if one in states), states[0] if states else "unknown")


def explain(
    blocks: Iterable[bytes], *, engine: str | None = None, idle_s: float | None = None, exit_code: int | None = None,
    newest_first: bool = False, quick: bool = True, re2: bool = True,
) -> Explanation:  # fmt: skip
    """Read a log. `engine`: its name where it is known; `idle_s`: how long it has not grown; `exit_code`: what the process
    returned, None when that is not known; `newest_first`: the blocks come in the opposite order of the file. `quick`: lines that
    tell nothing need not be read one by one; `re2`: google-re2 may be used for that where it is installed. Neither changes what
    comes out.
    """
    reader = QuickReader(engine, re2=re2)
    lines_of = _Lines(reader, quick=quick)
    size = lines = 0
    last = b"\n"
    text = False
    for block in blocks:
        if not block:
            continue
        size += len(block)
        lines += block.count(b"\n")
        last = block[-1:]
        text = text or block.strip(b"\0 \r\n\t") != b""
        lines_of.feed(block)
    lines_of.end()
    reader.flush(0.0)
    lines += last != b"\n"
    stamp = reader.newest_stamp
    if exit_code is not None and text:
        _apply_exit(reader, exit_code, lines)
    servers = [
        Server(
            source,
            launches[-1].engine or None,
            tuple(_explained(one, stamp, idle_s if one is launches[-1] else None) for one in launches),
        )
        for source, launches in reader.launches.items()
    ]
    if not text:
        servers = [Server("", engine, (_never_started(engine or "", exit_code),))]
    told = Explanation(lines, size, tuple(servers))
    return _renumbered(told) if newest_first else told


class _Lines:
    """Gives a reader whole lines, many at once; a line that does not end is given as it comes."""

    def __init__(self, reader: QuickReader, *, quick: bool) -> None:
        self._reader = reader
        self._quick = quick
        self._rest = b""
        self._inside = False
        """The begin of the line that comes was given already."""

    def feed(self, block: bytes) -> None:
        """The next bytes."""
        if not self._quick:
            self._reader.feed(block, 0.0)
            return
        if self._inside:
            end = block.find(b"\n") + 1
            self._reader.feed(block[:end] if end else block, 0.0)
            self._inside = not end
            if not end:
                return
            block = block[end:]
        end = block.rfind(b"\n") + 1
        if end:
            self._reader.skim(self._rest + block[:end], 0.0)
            self._rest = block[end:]
        else:
            self._rest += block
        if len(self._rest) > LONG_LINE:
            self.end()
            self._inside = True

    def end(self) -> None:
        """What is left."""
        if self._rest:
            self._reader.feed(self._rest, 0.0)
            self._rest = b""


def _apply_exit(reader: Reader, exit_code: int, lines: int) -> None:
    """What its exit status says of the last launch: a wanted end, or a death whose cause the clues tell."""
    launch = reader.latest
    if exit_code == 0 or was_asked(exit_code) or (launch is not None and launch.stopping):
        if launch is not None:
            if was_asked(exit_code):
                launch.was_ended()
            else:
                launch.stop(done=True)
        return
    if launch is None:
        launch = reader.assume_launch()
    if launch is None:
        return
    code = "never-started" if exit_code == 127 and launch.began is None else signal_code(exit_code)
    said = f"{summary_of(code)} (exit code {exit_code})" if code else ""
    quote = Quote(0, f"exit code {exit_code}")  # it stands nowhere in the log, only after it
    launch.ended(Clue(code, CODED_ECHO if code else ECHO, said, quote, launch.moved, fatal=True, after_line=lines))


def _explained(launch: Launch, newest: float | None, idle_s: float | None) -> Explained:
    state, diagnosis = launch.verdict, launch.diagnosis
    if idle_s is not None and state in ("starting", "ready"):
        stalled = stall(launch, newest, idle_s)
        if stalled is not None:
            state, diagnosis = "stalled", stalled
    return Explained(
        started=_iso(launch.began), state=state, progress=launch.last_progress, log=launch.state, figures=launch.figures,
        diagnosis=diagnosis,
    )  # fmt: skip


def _never_started(engine: str, exit_code: int | None) -> Explained:
    facing = Facing(engine, {}, "launch", (), Causes(), None, None, served=False)
    said = "The log is empty" + ("" if exit_code is None else f", and the process ended with exit code {exit_code}")
    diagnosis = make(facing, "never-started", said, "launch", None, ())
    return Explained(None, "crashed", None, LogState("crashed", "launch"), Figures(), diagnosis)


def _iso(began: Moment | None) -> str | None:
    if began is None or began.stamp is None or began.stamp < WITH_A_YEAR:
        return None
    return datetime.fromtimestamp(int(began.stamp), UTC).replace(tzinfo=None).isoformat()


def _renumbered(told: Explanation) -> Explanation:
    """With the line numbers of the file, whose lines were read from its end."""

    def number(line: int) -> int:
        return told.lines + 1 - line if line else 0

    def fix(one: Explained) -> Explained:
        found = one.diagnosis
        if found is not None:
            found = replace(found, evidence=tuple(replace(quote, line=number(quote.line)) for quote in found.evidence))
        log = replace(one.log, warnings=tuple(replace(w, line=number(w.line)) for w in one.warnings))
        return replace(one, diagnosis=found, log=log)

    servers = tuple(replace(server, launches=tuple(fix(one) for one in server.launches)) for server in told.servers)
    return replace(told, servers=servers)


_OUTER_TIME = re.compile(rb"(?:[A-Z]+ )?([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+)(?:Z|[+-][0-9]{2}:?[0-9]{2}) ")


def is_newest_first(head: bytes) -> bool:
    """Whether the outer times of a log's beginning fall (an export of a cloud's log viewer)."""
    times: list[bytes] = [
        found[1] for line in head[:HEAD].splitlines() if (found := _OUTER_TIME.match(line)) is not None
    ]
    falls = sum(later < earlier for earlier, later in pairwise(times))
    rises = sum(later > earlier for earlier, later in pairwise(times))
    return falls >= ENOUGH_FALLS and falls > 4 * rises
