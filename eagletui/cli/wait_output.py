"""Where `wait` tells what happens: events on stdout, or lines on stderr with one that is redrawn on a terminal."""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from eagletui.cli import wait_text as text
from eagletui.cli.hangup import EXIT_STATUS as TERMINAL_GONE
from eagletui.cli.hangup import READER_GONE
from eagletui.history.estimate import Estimate
from eagletui.monitor.happenings import Happening, ProgressTold
from eagletui.monitor.snapshot import Snapshot
from eagletui.monitor.waiting import READY, Ended

STDOUT, STDERR = 1, 2
QUIET_S = 30.0
"""Without a line for so long the present is told, so that a file shows that it goes on."""
NO_WIDTH = 80
"""Columns of a terminal that does not tell them."""
WIDE = 200
ERASE = "\x1b[K"
"""To the line's end: spaces would be text, which a terminal that is made narrower wraps."""


class Output(Protocol):
    """Is told what happens. Every method may raise what write_all does."""

    descriptor: int
    """What it writes to: who waits for nobody may as well end."""
    settled_s: float
    """See Teller."""

    def connecting(self, name: str) -> None:
        """The login takes its time."""

    def show(self, happenings: Sequence[Happening], snapshot: Snapshot) -> None:
        """What is new, and how it is now."""

    def end(self, ended: Ended, waited_s: float, estimate: Estimate | None) -> None:
        """Nothing follows. `estimate`: the last that was known."""


def output_for(*, as_json: bool) -> Output:
    """What fits where we are."""
    if as_json:
        return JsonOutput()
    if os.isatty(STDERR) and os.environ.get("TERM", "dumb") not in ("", "dumb"):
        return LiveOutput(colour="NO_COLOR" not in os.environ)
    return PlainOutput()


class NobodyReads(Exception):  # noqa: N818 - an outcome that is expected
    """What it writes to is gone. `exit_status` is as a shell tells it."""

    def __init__(self, exit_status: int) -> None:
        super().__init__(exit_status)
        self.exit_status = exit_status


def write_all(descriptor: int, data: bytes) -> None:
    """At once where that is possible, and without a buffer that could be left over. Raises NobodyReads, OSError (a full disk)."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # somebody else made the terminal so
            select.select((), (descriptor,), ())
        except BrokenPipeError:
            raise NobodyReads(READER_GONE) from None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise NobodyReads(TERMINAL_GONE) from None


class JsonOutput:
    """Events, one JSON object a line, each written at once. A failure is also a sentence on stderr."""

    descriptor = STDOUT
    settled_s = 0.0

    def connecting(self, name: str) -> None:
        """See Output."""

    def show(self, happenings: Sequence[Happening], snapshot: Snapshot) -> None:  # noqa: ARG002 - see Output
        """See Output."""
        from eagletui.monitor.event_model import event_of

        for one in happenings:
            self.write(event_of(one).model_dump_json(by_alias=True))

    def end(self, ended: Ended, waited_s: float, estimate: Estimate | None) -> None:
        """See Output."""
        from eagletui.monitor.event_model import result_of

        self.write(result_of(ended).model_dump_json(by_alias=True))
        if ended.exit != READY:
            said = next(text.end_lines(ended, waited_s=waited_s, colour=False, estimate=estimate))
            write_all(STDERR, f"eagletui: {said}\n".encode())

    def write(self, line: str) -> None:
        """Write an event."""
        write_all(self.descriptor, f"{line}\n".encode())


class _Lines:
    """Lines on stderr. `colour`: by the terminal's own palette. `live`: what runs is not a line."""

    descriptor = STDERR
    settled_s = 1.0

    def __init__(self, *, colour: bool, live: bool) -> None:
        self.colour = colour
        self._live = live
        self._told_several = False
        self._sparse = text.Sparse()

    def lines(self, happenings: Sequence[Happening], snapshot: Snapshot) -> Iterator[str]:
        """What is said of them."""
        if snapshot.undecided and not self._told_several:
            self._told_several = True
            yield text.several(snapshot.inventory.servers)
        for one in happenings:
            if self._live or not isinstance(one, ProgressTold) or self._sparse.takes(one, snapshot.at):
                yield from text.lines_of(one, colour=self.colour, live=self._live)

    def last_lines(self, ended: Ended, waited_s: float, estimate: Estimate | None) -> Iterator[str]:
        """How it ended."""
        return text.end_lines(ended, waited_s=waited_s, colour=self.colour, estimate=estimate)


class PlainOutput(_Lines):
    """Lines with the time of day, for a file or a pipe."""

    def __init__(self) -> None:
        super().__init__(colour=False, live=False)
        self._said_at = float("inf")

    def connecting(self, name: str) -> None:
        """See Output."""
        self.say(f"connecting to {text.safe(name)} …")

    def show(self, happenings: Sequence[Happening], snapshot: Snapshot) -> None:
        """See Output."""
        said = list(self.lines(happenings, snapshot))
        if not said and snapshot.at - self._said_at >= QUIET_S:
            said = [text.live_line(snapshot, WIDE)]
        for line in said:
            self.say(line)
        if said or self._said_at == float("inf"):
            self._said_at = snapshot.at

    def end(self, ended: Ended, waited_s: float, estimate: Estimate | None) -> None:
        """See Output."""
        for line in self.last_lines(ended, waited_s, estimate):
            self.say(line)

    def say(self, line: str) -> None:
        """Write a line with the time of day."""
        write_all(self.descriptor, f"{text.stamped(line, time.time())}\n".encode())


class LiveOutput(_Lines):
    """Lines, and below them one that is redrawn in place: over what stood there, in one write, so that nothing flickers."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__(colour=colour, live=True)
        self._drawn = ""

    def connecting(self, name: str) -> None:
        """See Output."""
        self.draw([], f"  connecting to {text.safe(name)} …")

    def show(self, happenings: Sequence[Happening], snapshot: Snapshot) -> None:
        """See Output."""
        self.draw(list(self.lines(happenings, snapshot)), text.live_line(snapshot, self.room()))

    def end(self, ended: Ended, waited_s: float, estimate: Estimate | None) -> None:
        """See Output."""
        self.draw(list(self.last_lines(ended, waited_s, estimate)), "")

    def room(self) -> int:
        """Columns of the line that is redrawn."""
        try:
            columns = os.get_terminal_size(self.descriptor).columns
        except OSError:
            columns = 0
        return (columns or NO_WIDTH) - 1  # the last column would wrap

    def draw(self, lines: list[str], live: str) -> None:
        """Lines that stay, and below them the one that is redrawn."""
        if not lines and live == self._drawn:
            return
        out, left = self._back()
        for line in lines:
            out += line + (ERASE if left > text.cells(line) else "") + "\n"
            left = 0
        out += live + (ERASE if left > text.cells(live) else "")
        self._drawn = live
        write_all(self.descriptor, out.encode())

    def _back(self) -> tuple[str, int]:
        """To the begin of the line that is redrawn, and how many columns stand there. A terminal that was made narrower has wrapped that line: it is
        erased whole, by all the rows that it has now."""
        stands, columns = text.cells(self._drawn), self.room() + 1
        if stands <= columns:
            return "\r", stands
        return f"\r\x1b[{(stands - 1) // columns}A\x1b[J", 0
