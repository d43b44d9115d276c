"""Following a server's log: its files' bytes into one reader, the store of lines, and the dates of what was written before we came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from eagletui.engines.batch import BatchSample
from eagletui.logs.advice import Before
from eagletui.logs.events import BatchSeen, Event, ReadySeen
from eagletui.logs.follower import Part
from eagletui.logs.present import Presenter, present
from eagletui.logs.reader import Reader
from eagletui.logs.records import elapsed
from eagletui.logs.state import LogState
from eagletui.logs.store import LineStore
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.log_stream import AnyFollower, LogStream
from eagletui.monitor.log_tail import followers_of, kept_by
from eagletui.monitor.masked import MaskedStates
from eagletui.monitor.snapshot import LogView
from eagletui.monitor.together import Together
from eagletui.nodes.base import Node
from eagletui.servers.model import Server
from eagletui.shell.masking import mask_text
from eagletui.shell.poll import PollAnswer

SLICE = 16 << 10
"""Bytes read at a time: a few milliseconds of work, even when every line is short."""
LAST_LINES = 8
FRESH_S = 5.0
"""A line younger than this is news."""
NO_LOG = "It is not known where this server writes its log; --log PATH names a file on the node."


class LogWatch:
    """The log of one launch, a `log_stream.Sink`. `on_batch(sample, at)` gets throughput figures with the monotonic time they are of,
    `on_ready` the ready line as it comes; `on_caught_up` is called when everything that was there was read, and a ready line in it."""

    def __init__(
        self,
        node: Node,
        server: Server,
        *,
        keeper: Keeper,
        skew_s: float | None,
        on_batch: Callable[[BatchSample, float], None],
        on_ready: Callable[[], None],
        on_caught_up: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self.store = LineStore()
        self._source = server.log
        self._on_batch = on_batch
        self._on_ready = on_ready
        self._on_caught_up = on_caught_up
        self._on_change = on_change
        self._presenter = Presenter(self.store)
        self._reader = Reader(server.engine, self._presenter.add)
        kept = kept_by(server.log)
        followers: list[AnyFollower] = [kept] if kept is not None else [*followers_of(server.log)]
        self._streams = [
            LogStream(node, follower, number, sink=self, keeper=keeper, skew_s=skew_s)
            for number, follower in enumerate(followers)
        ]
        self._errors: dict[int, str] = {} if self._streams else {0: server.log.why or NO_LOG}
        self._before: tuple[Before, ...] = ()
        self._grew_at: float | None = None
        self._past: dict[int, list[BatchSeen]] = {}
        self._masked = MaskedStates()

    @property
    def following(self) -> bool:
        """Whether bytes come as they are written."""
        return any(stream.following for stream in self._streams)

    @property
    def catching_up(self) -> bool:
        """What was there when we came is still being read: the state is that of some time ago."""
        return any(stream.in_past for stream in self._streams)

    @property
    def empty(self) -> bool | None:
        """Whether nothing was ever written into it; None where it was not read."""
        if self._errors or not self._streams or (not self.following and not self._reader.bytes):
            return None
        return not self._reader.bytes

    @property
    def last_line(self) -> str | None:
        """The last line that says anything, masked."""
        for number in range(self.store.end - 1, max(self.store.first, self.store.end - LAST_LINES) - 1, -1):
            line = self.store.line(number)
            if line is not None and line.text.strip():
                return mask_text(line.text.strip())
        return None

    @property
    def state(self) -> LogState:
        """What the log says of the launch; quoted text has its secrets masked."""
        return self._masked.of(self._reader.state)

    def remember(self, before: tuple[Before, ...]) -> None:
        """Earlier launches of its kind: see Reader."""
        self._before = before
        self._reader.remember(before)
        self._on_change()

    def view(self) -> LogView:
        """For the screen."""
        error = self._errors[min(self._errors)] if self._errors else None
        name = self._source.path or (self._streams[0].follower.name if self._streams else None)
        return LogView(self.store, name, self._grew_at, error, self.following, self._before)

    async def run(self) -> None:
        """Follow until cancelled. Raises NodeError when the link is lost; what was read stays, and a later run goes on at the next byte."""
        async with Together() as tasks:
            for stream in self._streams:
                tasks.create_task(stream.run(), name="log-stream")

    async def look(self, ask: Callable[[int, str], Awaitable[PollAnswer | None]]) -> None:
        """Ask the poller what stands under the files' names. Raises LinkLostError."""
        for stream in self._streams:
            await stream.look(ask)

    async def take_bytes(self, stream: LogStream, part: Part) -> None:
        """See Sink."""
        now = time.monotonic()
        if part.gap:
            self._presenter.channel = stream.channel
            self._reader.flush(now, stream.channel)
            self._presenter.skipped(f"{part.gap:,} bytes before this were not read".replace(",", "\u00a0"))
        # What was there when we came is as old as the file; only then lines are of now.
        moment = stream.looked_at - stream.past_age_s if stream.in_past else now
        if part.at is not None:
            moment = now - stream.age_s(part.at)
        events: list[Event] = []
        ended: asyncio.CancelledError | None = None
        for at in range(0, len(part.data), SLICE):
            self._presenter.channel = stream.channel  # another stream's part may have come between two slices
            events += self._reader.feed(part.data[at : at + SLICE], moment, stream.channel)
            present(self._reader, self._presenter)
            if ended is None:
                try:
                    await asyncio.sleep(0)  # a key pressed meanwhile is answered first
                except asyncio.CancelledError as error:
                    ended = error  # the follower has counted these bytes: they are read to their end
        self._grew_at = max(moment, self._grew_at or moment)
        if stream.in_past:
            self._past.setdefault(stream.channel, []).extend(e for e in events if isinstance(e, BatchSeen))
            if stream.follower.offset >= stream.past_end:
                stream.in_past = False
                self._date_past(self._past.pop(stream.channel), moment)
                if self._reader.state.state == "ready":
                    self._on_caught_up()
        else:
            self._apply(events, moment, fresh=now - moment < FRESH_S)
        self._on_change()
        if ended is not None:
            raise ended

    def take_marker(self, stream: LogStream, text: str, *, anew: bool) -> None:
        """See Sink. The launch stays what it is: a log that was cut or renamed is still its log."""
        if anew:
            self._presenter.channel = stream.channel
            self._reader.flush(time.monotonic(), stream.channel)
        if text:
            self._presenter.mark(text)
            self._on_change()

    def say(self, stream: LogStream, error: str | None) -> None:
        """See Sink."""
        before = self._errors.get(stream.channel)
        if error is None:
            self._errors.pop(stream.channel, None)
        else:
            self._errors[stream.channel] = error
        if error != before:
            self._on_change()

    def _date_past(self, past: list[BatchSeen], newest_at: float) -> None:
        """The newest line is as old as the file; earlier ones are older by the difference of their times."""
        newest = self._reader.newest_stamp
        for event in past:
            behind = elapsed(event.stamp, newest)
            if behind is not None:
                self._on_batch(event.total, newest_at - behind)

    def _apply(self, events: list[Event], moment: float, *, fresh: bool) -> None:
        for event in events:
            if isinstance(event, BatchSeen):
                self._on_batch(event.total, moment)
            elif isinstance(event, ReadySeen) and fresh:
                self._on_ready()
