"""From bytes to events and the state of a launch: framing, records, the engine's tables, one tracker a server.

Pure: the clock is an argument. The result does not depend on how the bytes are cut. Unknown lines mean nothing, and
nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, cast

from eagletui.engines.bars import Bar, read_bar
from eagletui.engines.batch import BatchSample
from eagletui.engines.rulebook import RuleBook
from eagletui.engines.spec import ENGINES, Mark, detail_in, elapsed_in, load_engine
from eagletui.logs.advice import Before
from eagletui.logs.causes import Clue
from eagletui.logs.decoder import LineDecoder, RawLine
from eagletui.logs.events import BatchSeen, Event, LaunchBegan, PhaseBegan, ProbeLine, ProgressSeen
from eagletui.logs.fault_reader import FaultReader
from eagletui.logs.launch import LOADING, Launch
from eagletui.logs.probe_lines import probe_in
from eagletui.logs.progress import is_slow, progress_of
from eagletui.logs.records import Record, is_later, read_record
from eagletui.logs.server_log import ServerLog
from eagletui.logs.stage import Moment
from eagletui.logs.state import LogState, PhaseName, Progress
from eagletui.logs.totals import Totals
from eagletui.logs.witness import quote

MAX_SOURCES = 64
"""Servers told apart in one file by their outer prefix; lines of further ones mean nothing."""
PARTIAL_LIMIT = 4_096
"""An unfinished line longer than this is neither a bar nor a prompt."""
PARTIAL_READ = 8_192
"""Characters of an unfinished line that are looked at, more than are shown: it is read anew with each chunk, and one of megabytes
would cost milliseconds each time."""
KNOWN_BEFORE = 8
"""Earlier launches of a log that advice takes into account."""

_ANYBODYS = ("stopping", "stopped")
_PROMPT = re.compile(
    r"(?:\[y/N\]|\[Y/n\]|\(y/n\)|\(yes/no(?:/\[fingerprint\])?\)\??|[Pp]assphrase[^:\n]{0,200}:|[Pp]assword[^:\n]{0,100}:|"
    r"\(input will not be visible\):|Username for '[^'\n]{1,200}':)\s*\Z"
)
_BUILDS = re.compile(
    r"(?P<done>Finished (?:loading|building) JIT)|(?:Loading|Building) JIT|JIT (?:Pre-)?[Cc]ompil|AUTOTUNE [a-z]"
)
_WHOLE_PROMPT = re.compile(r"(?:\[y/N\]|\(y/n\))\s*\Z")
MAX_PROMPT = 1_000
"""Characters of a line that may be a prompt."""


def _asks(text: str, prompt: re.Pattern[str]) -> bool:
    return len(text) < MAX_PROMPT and prompt.search(text) is not None


class Line(NamedTuple):
    """A line with what it was taken for, for showing it. `bar` and `probe` are None for what is neither; `error`: it
    begins or ends an exception."""

    record: Record
    bar: Bar | None = None
    probe: ProbeLine | None = None
    error: bool = False


class Reader:
    """`feed` takes bytes as they come and gives events; `state` is the current launch of the server, `servers` of
    each in a shared file.

    `watch` is called with every line read, in order, for showing it.
    """

    def __init__(
        self,
        engine: str | None = None,
        watch: Callable[[Line], None] | None = None,
        *,
        rules: RuleBook | None = None,
    ) -> None:
        """`engine`: its name where it is known, else the log tells. Raises KeyError for a name that is not known. `rules`:
        of failures; those in force when not given.
        """
        self._hint = load_engine(engine) if engine is not None else None
        self._known = [load_engine(name) for name in ENGINES] if engine is None else []
        self._decoder = LineDecoder()
        self._decoders = {0: self._decoder}
        self._servers: dict[str, ServerLog] = {}
        self._latest: ServerLog | None = None
        self._spoke: ServerLog | None = None
        """Who spoke last of those that are known to be a server: a neighbour's line takes nothing from it."""
        self._faults = FaultReader(
            rules, lambda server, when, seen: self._launched(server, self._engine_or_any(server), when, seen=seen)
        )
        self._watch = watch
        self._newest: Moment | None = None
        self._provisional: tuple[ServerLog, tuple[Clue, ...]] | None = None
        """A server whose only launch is known from a prompt, and what was said before it."""
        self._waiting: Launch | None = None
        self._spoken: RawLine | None = None
        """The last whole line that is not empty."""
        self._remembered: tuple[Before, ...] = ()
        self.lines = 0
        self.bytes = 0

    # ---- in ----------------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes, now: float, channel: int = 0) -> list[Event]:
        """What these bytes tell. `now`: the reader's clock in seconds (monotonic). `channel`: which of the server's files
        they are of; lines of several are merged as they arrive, and never mixed within a line."""
        self.bytes += len(chunk)
        self._decoder = self._decoders.get(channel) or self._decoders.setdefault(channel, LineDecoder())
        self._faults.channel = channel
        self._forget_provisional()
        events: list[Event] = []
        lines = self._decoder.decode(chunk)
        for line in lines:
            self._read(line, now, events)
        self._spoken = next((line for line in reversed(lines) if line.text and not line.text.isspace()), self._spoken)
        self._look_at_partial(now, events)
        self._settle(now)
        return events

    def flush(self, now: float, channel: int = 0) -> list[Event]:
        """The stream of a channel ended: its unfinished last line counts as a line."""
        events: list[Event] = []
        self._faults.channel = channel
        for line in self._decoders[channel].flush() if channel in self._decoders else ():
            self._read(line, now, events)
        self._settle(now)
        return events

    def remember(self, before: tuple[Before, ...]) -> None:
        """Launches of the same kind before the first of this log, oldest first: what is advised takes them into account."""
        self._remembered = before
        for server in self._servers.values():
            if server.launch is not None:
                server.launch.remember(before)

    # ---- out ---------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> LogState:
        """The current launch of the server that this log is about (in a shared file, the one that spoke of itself
        first)."""
        for server in self._servers.values():
            if server.launch is not None:
                return server.launch.state
        return LogState(engine=self._hint.name if self._hint else None)

    @property
    def servers(self) -> dict[str, LogState]:
        """The current launch of every server in the file, by its outer prefix."""
        return {source: server.launch.state for source, server in self._servers.items() if server.launch is not None}

    @property
    def launches(self) -> dict[str, tuple[Launch, ...]]:
        """Every launch of every server in the file that is one, oldest first, by its outer prefix."""
        return {
            source: (*server.past, server.launch)
            for source, server in self._servers.items()
            if server.launch is not None
        }

    @property
    def latest(self) -> Launch | None:
        """The current launch of the server that spoke last."""
        return self._latest.launch if self._latest is not None else None

    def assume_launch(self) -> Launch | None:
        """A launch of the server that spoke last, where none was recognised but there must have been one."""
        if self._latest is None:
            return None
        when = Moment(self.newest_stamp, 0.0)
        return self._launched(self._latest, self._engine_or_any(self._latest), when, seen=False)

    @property
    def newest_stamp(self) -> float | None:
        """The time of the newest line that has one (see records.Record)."""
        return self._newest.stamp if self._newest is not None else None

    @property
    def last_progress(self) -> Progress | None:
        """The last bar of the current launch, its stage over or not."""
        for server in self._servers.values():
            if server.launch is not None:
                return server.launch.last_progress
        return None

    @property
    def partial(self) -> Line | None:
        """The unfinished last line, as it stands: of the channel that spoke last, if that has one."""
        decoders = (self._decoder, *self._decoders.values())
        text = next((decoder.partial for decoder in decoders if decoder.partial), "")
        if not text:
            return None
        record = read_record(RawLine(text[:PARTIAL_READ], len(text), 0))
        return Line(record, read_bar(record.text) if len(text) <= PARTIAL_LIMIT else None)

    # ---- lines -------------------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        if self._newest is None:
            return
        when = Moment(self._newest.stamp, now)
        for server in self._servers.values():
            if server.launch is not None:
                server.launch.settle(when)

    def _forget_provisional(self) -> None:
        """A prompt alone tells of a launch only while it stands there: what comes after it is read as if nothing had been asked."""
        if self._waiting is not None:
            self._waiting.wait_for(None)  # it may be another server's turn to speak
            self._waiting = None
        if self._provisional is not None:
            server, early = self._provisional
            self._provisional = None
            server.launch = None
            server.launches -= 1
            server.early.extend(early)

    def _look_at_partial(self, now: float, events: list[Event]) -> None:
        text = self._decoder.partial
        number = self._decoder.number
        server = self._latest
        if server is None and not text:
            return
        if self._spoken is not None and not text.strip() and _asks(self._spoken.text, _WHOLE_PROMPT):
            text, number = (
                self._spoken.text,
                self._spoken.number,
            )  # what collects the lines ends each of them, this one too
        if not text or len(text) > PARTIAL_LIMIT:
            if server is not None and server.launch is not None:
                server.launch.wait_for(None)
            return
        record = read_record(RawLine(text, len(text), number))
        bar = read_bar(record.text)
        if bar is not None:
            server = self._server_of(record)
            if server is not None:
                self._bar(server, bar, record, Moment(record.stamp, now), events)
        elif _asks(text, _PROMPT) and self._ask(record, now):
            return
        if server is not None and server.launch is not None:
            server.launch.wait_for(None)

    def _ask(self, record: Record, now: float) -> bool:
        """A prompt stands there: the server whose it is waits. Whether there is one."""
        server = self._server_of(record)
        if server is None:
            return False
        if server.launch is None:
            self._provisional = (server, tuple(server.early))
        launch = self._launched(server, self._engine_or_any(server), Moment(record.stamp, now), seen=False)
        launch.wait_for(record.text.strip(), record.number)
        self._waiting = launch
        return True

    def _read(self, line: RawLine, now: float, events: list[Event]) -> None:
        self.lines += 1
        record = read_record(line)
        server = self._server_of(record)
        if record.stamp is not None:
            when = Moment(record.stamp, now)
            if self._newest is None or is_later(self._newest.stamp, record.stamp):
                self._newest = when
        else:  # it was printed after the last line that has a time; uvicorn's lines under vLLM have none
            when = Moment(self._newest.stamp if self._newest is not None else None, now)
        shown = self._meaning(server, record, when, events) if server is not None else Line(record)
        if self._watch is not None:
            self._watch(shown)

    def _server_of(self, record: Record) -> ServerLog | None:
        """The server that a record is of. A line without an outer prefix in a file that has them belongs to who spoke
        last."""
        if not record.source and self._latest is not None:
            return self._latest if self._latest.launch is not None or self._spoke is None else self._spoke
        server = self._servers.get(record.source)
        if server is None:
            if len(self._servers) >= MAX_SOURCES:
                return None
            server = self._servers[record.source] = ServerLog(record.source, self._hint)
        self._latest = server
        if server.launch is not None:
            self._spoke = server
        return server

    def _meaning(self, server: ServerLog, record: Record, when: Moment, events: list[Event]) -> Line:
        text = record.text
        if server.engine is None and record.process:
            server.engine = load_engine("vllm")
        sample = self._batch(server, text)
        if sample is not None:
            self._sample(server, sample, record, when, events)
            return Line(record)
        mark = self._mark(server, text)
        if mark is not None and mark.act in ("launch", "args"):
            self._apply(server, mark, record, when, events)
            return Line(record)
        error = self._faults.read(server, record, when, events)
        probe = probe_in(text) if mark is None else None
        bar = read_bar(text) if probe is None else None  # a bar may be the only word of its phase (vLLM's graphs)
        if server.launch is not None and ("JIT" in text or "AUTOTUNE" in text):
            built = _BUILDS.search(text, 0, PARTIAL_LIMIT)
            if built is not None:
                server.launch.compiles(when, done=built["done"] is not None)
        if server.launch is not None and not server.launch.served:
            server.launch.heard(record.stamp, bar.elapsed_s if bar is not None else None)
        if mark is not None:
            self._apply(server, mark, record, when, events)
        if probe is not None:
            events.append(probe)
        if bar is not None:
            self._bar(server, bar, record, when, events)
        return Line(record, bar, probe, error)

    # ---- engines -----------------------------------------------------------------------------------------------------

    def _batch(self, server: ServerLog, text: str) -> BatchSample | None:
        for engine in (server.engine,) if server.engine is not None else self._known:
            if text.startswith(engine.batch_words):
                sample = engine.read_batch(text)
                if sample is not None:
                    server.engine = engine
                    return sample
        return None

    def _mark(self, server: ServerLog, text: str) -> Mark | None:
        """The milestone that a text is. While the engine is not known, only what one engine alone prints tells it."""
        if server.engine is not None:
            return server.engine.mark(text)
        for engine in self._known:
            mark = engine.mark(text)
            if mark is not None and mark.sure:
                server.engine = engine
                return mark
            if mark is not None and mark.act in _ANYBODYS:
                return mark
        return None

    def _engine_or_any(self, server: ServerLog) -> str:
        return server.engine.name if server.engine is not None else ""

    def _launched(self, server: ServerLog, engine: str, when: Moment, *, seen: bool) -> Launch:
        """The server's launch; a new one when there is none, or when `seen` says that a process begins."""
        if server.launch is None or seen:
            server.launches += 1
            earlier = (*server.past, server.launch) if server.launch is not None else ()
            if server.launch is not None:
                server.past.append(server.launch)
            before = self._remembered + tuple(
                Before(one.diagnosis.code if one.diagnosis is not None else None, one.args, one.served)
                for one in earlier[-KNOWN_BEFORE:]
            )
            server.launch = Launch(engine, server.source, when, server.launches, seen=seen, before=before)
            server.totals = Totals()
            server.bars.clear()
            for clue in server.early:
                server.launch.clue(clue)
            server.early.clear()
            if seen:
                self._faults.clear()
                self._newest = when if when.stamp is not None else None
        return server.launch

    def _apply(self, server: ServerLog, mark: Mark, record: Record, when: Moment, events: list[Event]) -> None:
        act = mark.act
        if act in ("launch", "args"):
            events += self._begin_launch(server, mark, record, when)
            return
        launch = server.launch
        if launch is None:
            if act == "gone" or not (mark.sure or act in _ANYBODYS):
                return
            launch = self._launched(server, self._engine_or_any(server), when, seen=False)
        launch.engine = self._engine_or_any(server)
        launch.move(when)
        detail = detail_in(server.engine, record.text) if mark.phase and server.engine is not None else None
        if act == "end" and detail is not None:
            launch.describe(cast("PhaseName", detail[0]), record.rank, detail[1])
        events += _tell(launch, mark, record, when)
        if act != "end" and detail is not None:
            launch.describe(cast("PhaseName", detail[0]), record.rank, detail[1])

    def _begin_launch(self, server: ServerLog, mark: Mark, record: Record, when: Moment) -> list[Event]:
        engine, launch = server.engine, server.launch
        if engine is None:
            return []
        args = engine.read_args(record.text) if mark.act == "args" else {}
        # vLLM tells its version first and its arguments next: one launch.
        began: list[Event] = []
        if launch is None or not launch.speechless:
            launch = self._launched(server, engine.name, when, seen=True)
            began = [PhaseBegan("launch", server.source)]
        for name, keys in engine.arguments.items():
            found = next((args[key] for key in keys if args.get(key) is not None), None)
            if found is not None:
                args.setdefault(name, found)
        launch.note_args(args)
        return [LaunchBegan(engine.name, args, server.source), *began]

    # ---- faults, figures, bars ---------------------------------------------------------------------------------------

    def _sample(
        self, server: ServerLog, sample: BatchSample, record: Record, when: Moment, events: list[Event]
    ) -> None:
        if not sample.dp_rank and record.ranks:
            data_rank = next((rank for rank in record.ranks if rank.startswith("DP")), "")
            if data_rank:
                sample = sample._replace(dp_rank=data_rank)
        total = server.totals.add(sample, when.at if when.stamp is None else when.stamp)
        events.append(BatchSeen(sample, total, server.source, when.stamp))
        if (server.launch is None or server.launch.current is None) and sample.kind != "prefill":
            # A log that begins in mid-life: only a server that serves decodes.
            launch = server.launch or self._launched(server, self._engine_or_any(server), when, seen=False)
            events += launch.ready(when)
        if server.launch is not None:
            self._measure(server.launch, sample, total)
            if (sample.gen_tok_s or 0) > 0 or (sample.input_tok_s or 0) > 0 or (sample.new_tokens or 0) > 1:
                server.launch.tokens_seen(when)

    def _measure(self, launch: Launch, sample: BatchSample, total: BatchSample) -> None:
        """A launch's throughput over its whole life is asked of a log that exists (QuickReader), not of one that is followed."""

    def _bar(self, server: ServerLog, bar: Bar, record: Record, when: Moment, events: list[Event]) -> None:
        launch = server.launch
        if launch is None or launch.served or launch.crashed or bar.total is None or bar.total <= 0:
            return
        engine = server.engine
        kind = engine.bar_phase(bar.label) if engine is not None and bar.label else None
        current = launch.current
        if kind is None:
            if bar.label or current not in (*LOADING, "graphs", "compile"):
                return
            unit = "shards" if current in LOADING else "graphs"
        else:
            unit = kind.unit
            if kind.phase == "weights":
                if current not in (*LOADING, "launch", "distributed"):
                    return  # somebody else's: weights are loaded
                if current not in LOADING:
                    return
            elif kind.phase != current:
                return
        self._progress(server, bar, unit, record, when, events)

    def _progress(
        self, server: ServerLog, bar: Bar, unit: str, record: Record, when: Moment, events: list[Event]
    ) -> None:
        if any(one.total != bar.total or one.label not in (bar.label, "") for one in server.bars.values()):
            server.bars.clear()
        server.bars[record.source + record.process] = bar
        slowest = min(server.bars.values(), key=lambda one: one.done)
        progress = progress_of(slowest, unit, record.rank)
        if server.launch is not None and progress != server.launch.progress:
            server.launch.move_bar(progress, slowest.elapsed_s, when)
            events.append(ProgressSeen(progress, server.source))
            if unit == "shards" and is_slow(slowest):
                server.launch.warn("slow-load", quote(record, self._faults.channel), when)


def _tell(launch: Launch, mark: Mark, record: Record, when: Moment) -> list[Event]:
    """What a milestone does to a launch."""
    text, rank, act = record.text, record.rank, mark.act
    phase = cast("PhaseName", mark.phase)
    events: list[Event] = []
    if act == "begin":
        events = launch.begin(phase, rank, when)
    elif act == "within":
        events = launch.within(phase, rank, when)
    elif act == "end":
        events = launch.end(phase, rank, when, elapsed_in(text), cast("PhaseName", mark.then) if mark.then else None)
    elif act == "ready":
        events = launch.ready(when)
    elif act == "timings":
        launch.told(text)
    elif act in ("stopping", "stopped") or (act == "gone" and launch.stopping):
        events = launch.stop(done=act != "stopping")
    return events
