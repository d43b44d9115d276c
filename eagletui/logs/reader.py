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
from eagletui.engines.spec import ENGINES, Engine, Mark, detail_in, elapsed_in, load_engine
from eagletui.logs.decoder import LineDecoder, RawLine
from eagletui.logs.events import BatchSeen, Event, LaunchBegan, PhaseBegan, ProbeLine, ProgressSeen
from eagletui.logs.faults import Tracebacks
from eagletui.logs.launch import LOADING, Launch
from eagletui.logs.records import Record, is_later, read_record
from eagletui.logs.stage import Moment
from eagletui.logs.state import LogState, PhaseName, Progress
from eagletui.logs.totals import Totals

MAX_SOURCES = 64
"""Servers told apart in one file by their outer prefix; lines of further ones mean nothing."""
TRUSTED_ELAPSED_S = 5.0
"""A bar prints whole seconds: from here on n ÷ elapsed is better than the rate it prints."""
PARTIAL_LIMIT = 4_096
"""An unfinished line longer than this is neither a bar nor a prompt."""
PARTIAL_READ = 8_192
"""Characters of an unfinished line that are looked at, more than are shown: it is read anew with each chunk, and one of megabytes
would cost milliseconds each time."""
MAX_ERROR = 2_000
"""Characters of a quoted line."""

_TRACEBACK = "Traceback (most recent call last):"
_ANYBODYS = ("fatal", "echo", "traceback", "stopping", "stopped")
_PROMPT = re.compile(r"(?:\[y/N\]|\(y/n\)|[Pp]assphrase[^:\n]{0,200}:|[Pp]assword[^:\n]{0,100}:)\s*\Z")
_PROBE = re.compile(
    r"(?P<client>127\.0\.0\.1|::1|\[::1\]|localhost):[0-9]+ - "
    r'"GET (?P<path>/[a-z_0-9/]*)(?:\?[^" ]*)? HTTP/[0-9.]+" (?P<status>[0-9]{3})'
)
PROBE_PATHS = frozenset(
    (
        "/health",
        "/health_generate",
        "/ready",
        "/ping",
        "/metrics",
        "/server_info",
        "/get_server_info",
        "/model_info",
        "/get_model_info",
        "/v1/models",
        "/version",
        "/load",
        "/get_load",
        "/v1/loads",
    )
)
"""What we ask a server. Only GETs are ours."""


class Line(NamedTuple):
    """A line with what it was taken for, for showing it. `bar` and `probe` are None for what is neither; `error`: it
    begins or ends an exception."""

    record: Record
    bar: Bar | None = None
    probe: ProbeLine | None = None
    error: bool = False


class _Server:
    """One server of a file."""

    def __init__(self, source: str, engine: Engine | None) -> None:
        self.source = source
        self.engine = engine
        self.launch: Launch | None = None
        self.launches = 0
        self.totals = Totals()
        self.bars: dict[str, Bar] = {}


def probe_in(text: str) -> ProbeLine | None:
    """The request that an access-log line tells of, when it is one of our own kind."""
    if '"GET /' not in text:
        return None
    found = _PROBE.match(text)
    if found is None or found["path"] not in PROBE_PATHS:
        return None
    return ProbeLine(found["path"], int(found["status"]))


class Reader:
    """`feed` takes bytes as they come and gives events; `state` is the current launch of the server, `servers` of
    each in a shared file.

    `watch` is called with every line read, in order, for showing it.
    """

    def __init__(self, engine: str | None = None, watch: Callable[[Line], None] | None = None) -> None:
        """`engine`: its name where it is known, else the log tells. Raises KeyError for a name that is not known."""
        self._hint = load_engine(engine) if engine is not None else None
        self._known = [load_engine(name) for name in ENGINES] if engine is None else []
        self._decoder = LineDecoder()
        self._decoders = {0: self._decoder}
        self._servers: dict[str, _Server] = {}
        self._latest: _Server | None = None
        self._tracebacks = Tracebacks()
        self._watch = watch
        self._newest: Moment | None = None
        self.lines = 0
        self.bytes = 0

    # ---- in ----------------------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes, now: float, channel: int = 0) -> list[Event]:
        """What these bytes tell. `now`: the reader's clock in seconds (monotonic). `channel`: which of the server's files
        they are of; lines of several are merged as they arrive, and never mixed within a line."""
        self.bytes += len(chunk)
        self._decoder = self._decoders.get(channel) or self._decoders.setdefault(channel, LineDecoder())
        events: list[Event] = []
        for line in self._decoder.decode(chunk):
            self._read(line, now, events)
        self._look_at_partial(now, events)
        self._settle(now)
        return events

    def flush(self, now: float, channel: int = 0) -> list[Event]:
        """The stream of a channel ended: its unfinished last line counts as a line."""
        events: list[Event] = []
        for line in self._decoders[channel].flush() if channel in self._decoders else ():
            self._read(line, now, events)
        self._settle(now)
        return events

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

    def _look_at_partial(self, now: float, events: list[Event]) -> None:
        text = self._decoder.partial
        server = self._latest
        if server is None and not text:
            return
        if not text or len(text) > PARTIAL_LIMIT:
            if server is not None and server.launch is not None:
                server.launch.wait_for(None)
            return
        record = read_record(RawLine(text, len(text), 0))
        bar = read_bar(record.text)
        if bar is not None:
            server = self._server_of(record)
            if server is not None:
                self._bar(server, bar, record, events)
        elif (_PROMPT.search(text) if len(text) < 1_000 else None) is not None:
            server = self._server_of(record)
            if server is not None:
                when = Moment(record.stamp, now)
                self._launched(server, self._engine_or_any(server), when, seen=False).wait_for(text.strip())
                return
        if server is not None and server.launch is not None:
            server.launch.wait_for(None)

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

    def _server_of(self, record: Record) -> _Server | None:
        """The server that a record is of. A line without an outer prefix in a file that has them belongs to who spoke
        last."""
        if not record.source and self._latest is not None:
            return self._latest
        server = self._servers.get(record.source)
        if server is None:
            if len(self._servers) >= MAX_SOURCES:
                return None
            server = self._servers[record.source] = _Server(record.source, self._hint)
        self._latest = server
        return server

    def _meaning(self, server: _Server, record: Record, when: Moment, events: list[Event]) -> Line:
        text = record.text
        if server.engine is None and record.process:
            server.engine = load_engine("vllm")
        sample = self._batch(server, text)
        if sample is not None:
            self._sample(server, sample, record, when, events)
            return Line(record)
        error = self._traceback(server, record, when, events)
        mark = self._mark(server, text)
        if mark is not None:
            self._apply(server, mark, record, when, events)
            return Line(record, error=error or mark.act in ("fatal", "echo", "traceback"))
        if error:
            return Line(record, error=True)
        probe = probe_in(text)
        if probe is not None:
            events.append(probe)
            return Line(record, probe=probe)
        bar = read_bar(text)
        if bar is not None:
            self._bar(server, bar, record, events)
        return Line(record, bar=bar)

    # ---- engines -----------------------------------------------------------------------------------------------------

    def _batch(self, server: _Server, text: str) -> BatchSample | None:
        for engine in (server.engine,) if server.engine is not None else self._known:
            if text.startswith(engine.batch_words):
                sample = engine.read_batch(text)
                if sample is not None:
                    server.engine = engine
                    return sample
        return None

    def _mark(self, server: _Server, text: str) -> Mark | None:
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

    def _engine_or_any(self, server: _Server) -> str:
        return server.engine.name if server.engine is not None else ""

    def _launched(self, server: _Server, engine: str, when: Moment, *, seen: bool) -> Launch:
        """The server's launch; a new one when there is none, or when `seen` says that a process begins."""
        if server.launch is None or seen:
            server.launches += 1
            server.launch = Launch(engine, server.source, when, server.launches, seen=seen)
            server.totals = Totals()
            server.bars.clear()
            if seen:
                self._tracebacks.clear()
                self._newest = when if when.stamp is not None else None
        return server.launch

    def _apply(self, server: _Server, mark: Mark, record: Record, when: Moment, events: list[Event]) -> None:
        act = mark.act
        if act in ("launch", "args"):
            events += self._begin_launch(server, mark, record, when)
            return
        launch = server.launch
        if launch is None:
            if act in ("gone", "traceback") or not (mark.sure or act in ("fatal", "echo", "stopping", "stopped")):
                return
            launch = self._launched(server, self._engine_or_any(server), when, seen=False)
        launch.engine = self._engine_or_any(server)
        detail = detail_in(server.engine, record.text) if mark.phase and server.engine is not None else None
        if act == "end" and detail is not None:
            launch.describe(cast("PhaseName", detail[0]), record.rank, detail[1])
        events += _tell(launch, mark, record, when)
        if act != "end" and detail is not None:
            launch.describe(cast("PhaseName", detail[0]), record.rank, detail[1])

    def _begin_launch(self, server: _Server, mark: Mark, record: Record, when: Moment) -> list[Event]:
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

    def _traceback(self, server: _Server, record: Record, when: Moment, events: list[Event]) -> bool:
        """Follow exceptions; whether this line is the head or the last line of one."""
        text = record.text
        writer = record.source + record.process
        if text.endswith(_TRACEBACK):
            self._tracebacks.begin(writer, record.rank, fatal="hit an exception" in text)
            return True
        if record.time and not record.origin:
            return False  # a record of its own: SGLang prints the lines of a traceback bare
        raised = self._tracebacks.follow(writer, text)
        if raised is None:
            return False
        launch = server.launch
        if launch is None:
            if not raised.fatal:
                return True
            launch = self._launched(server, self._engine_or_any(server), when, seen=False)
        events += launch.fail(
            raised.text[:MAX_ERROR], raised.rank, when, fatal=raised.fatal, primary=True, replaces=raised.chained
        )
        return True

    def _sample(self, server: _Server, sample: BatchSample, record: Record, when: Moment, events: list[Event]) -> None:
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

    def _bar(self, server: _Server, bar: Bar, record: Record, events: list[Event]) -> None:
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
        self._progress(server, bar, unit, record, events)

    def _progress(self, server: _Server, bar: Bar, unit: str, record: Record, events: list[Event]) -> None:
        if any(one.total != bar.total or one.label not in (bar.label, "") for one in server.bars.values()):
            server.bars.clear()
        server.bars[record.source + record.process] = bar
        slowest = min(server.bars.values(), key=lambda one: one.done)
        progress = _progress_of(slowest, unit, record.rank)
        if server.launch is not None and progress != server.launch.progress:
            server.launch.move_bar(progress)
            events.append(ProgressSeen(progress, server.source))


def _progress_of(bar: Bar, unit: str, rank: str) -> Progress:
    total = bar.total or 0
    rate = bar.rate
    if bar.elapsed_s is not None and bar.elapsed_s >= TRUSTED_ELAPSED_S and bar.done:
        rate = bar.done / bar.elapsed_s
    left = max(0, total - bar.done)
    eta = 0.0 if not left else (left / rate if rate and bar.done else None)
    return Progress(bar.done, total, unit, rate, eta, bar.label, rank)


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
    elif act in ("fatal", "echo"):
        primary = act == "fatal" and not text.endswith(_TRACEBACK)
        events = launch.fail(text[:MAX_ERROR], rank, when, fatal=True, primary=primary)
    elif act in ("stopping", "stopped") or (act == "gone" and launch.stopping):
        events = launch.stop(done=act != "stopping")
    return events
