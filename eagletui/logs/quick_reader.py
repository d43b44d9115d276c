"""The reader for a whole log whose events nobody wants: what tells nothing while a server serves is passed over, many lines at once."""

from __future__ import annotations

from functools import cached_property

from eagletui.engines.batch import BatchSample
from eagletui.engines.rulebook import rule_book
from eagletui.engines.spec import ENGINES, load_engine
from eagletui.logs.decoder import RawLine
from eagletui.logs.events import Event
from eagletui.logs.launch import Launch
from eagletui.logs.reader import Reader
from eagletui.logs.skim import Run, Skim
from eagletui.logs.stage import Moment


class QuickReader(Reader):
    """A Reader that can also skim. What it knows afterwards is what a Reader knows that read every line, and each launch's figures.

    `re2`: google-re2 may be used where it is installed.
    """

    def __init__(self, engine: str | None = None, *, re2: bool = True) -> None:
        super().__init__(engine)
        self._engines = [engine] if engine else list(ENGINES)
        self._re2 = re2

    @cached_property
    def _skim(self) -> Skim | None:
        """Made when a server serves: most logs that fail never come so far. None where a pattern of the user's own holds no literal."""
        try:
            return Skim([load_engine(name) for name in self._engines], rule_book(), re2=self._re2)
        except ValueError:
            return None

    def _measure(self, launch: Launch, sample: BatchSample, total: BatchSample) -> None:
        launch.figures.add(sample, total)

    def skim(self, lines: bytes, now: float) -> None:
        """Whole lines, each ended by LF, of a log whose events nobody wants: what `feed` makes of them, without reading those that
        tell nothing. Everything is read unless one server alone serves, and nothing is going on in its log."""
        launch = self._serving()
        skim = self._skim if launch is not None and not self._decoder.partial else None
        block = Skim.plain(lines) if skim is not None else None
        places = None
        if launch is not None and skim is not None and block is not None:
            places = skim.to_read(block, batches=launch.engine == "sglang")
        if block is None or places is None:
            self.feed(lines, now)
            return
        self.bytes += len(lines)
        self._forget_provisional()
        ignored: list[Event] = []
        at = 1
        for place in places:
            if place < at:
                continue
            self._pass_over(Skim.run(block, at, place), block[at:place], now)
            at = self._read_from(place, block, now, ignored)
            while at < len(block) and self._serving() is not launch:
                # A traceback is open, or it is over with this launch.
                at = self._read_from(at, block, now, ignored)
        self._pass_over(Skim.run(block, at, len(block)), block[at:], now)
        self._look_at_partial(now, ignored)
        self._settle(now)

    def _read_from(self, start: int, block: bytes, now: float, events: list[Event]) -> int:
        """Read the line that begins there; gives where the next one begins."""
        end = block.index(b"\n", start) + 1
        for line in self._decoder.decode(block[start:end]):
            self._read(line, now, events)
            self._spoken = line if line.text and not line.text.isspace() else self._spoken
        return end

    def _serving(self) -> Launch | None:
        """The launch that serves, where it is all that this log is about, and no traceback is open."""
        if self._watch is not None or len(self._servers) != 1 or self._faults.listening:
            return None
        server = self._servers.get("")
        launch = server.launch if server is not None else None
        if server is None or launch is None or server is not self._latest or server.engine is None:
            return None
        serves = launch.served and not launch.crashed and not launch.stopping and launch.current == "serving"
        return launch if serves else None

    def _pass_over(self, run: Run, text: bytes, now: float) -> None:
        """Take lines in that need not be read."""
        server = self._latest
        if not run.lines or server is None or server.launch is None:
            return
        self.lines += run.lines
        self._decoder.passed(run.lines)
        stamp = run.newest(self.newest_stamp)
        if stamp is not None:
            self._newest = Moment(stamp, now)
        last = text.rstrip(b"\n \t").rpartition(b"\n")[2].decode("utf-8", "replace")
        if last:
            self._spoken = RawLine(last, len(last), self._decoder.number - 1)
        told = run.add_to(server.launch.figures, server.totals, now)
        if told is not None:
            server.launch.tokens_seen(told)
        self._faults.clock = run.clock or self._faults.clock
