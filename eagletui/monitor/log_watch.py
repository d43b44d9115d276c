"""Following a server's log: runs what the follower says, feeds the reader, keeps the store of lines, and dates what was written before we came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from eagletui.engines.batch import BatchSample
from eagletui.errors import ChannelError, CommandTimeout
from eagletui.logs.events import BatchSeen, Event, ReadySeen
from eagletui.logs.follower import Follower, Fresh, Part, Run, Step, Wait
from eagletui.logs.present import Presenter, present
from eagletui.logs.reader import Reader
from eagletui.logs.records import elapsed
from eagletui.logs.state import LogState
from eagletui.logs.store import LineStore
from eagletui.monitor.log_tail import file_of
from eagletui.monitor.snapshot import LogView
from eagletui.nodes.base import Node, Stream
from eagletui.servers.model import Server
from eagletui.shell.follow import parse_file_head, read_range
from eagletui.shell.masking import mask_text

RUN_TIMEOUT_S = 20.0
SLICE = 16 << 10
"""Bytes read at a time: a few milliseconds of work, even when every line is short."""
QUIET_S = 10.0
"""A log that is silent for so long is looked at: it may have been renamed, and another file have its name."""
NO_LOG = "It is not known where this server writes its log; --log PATH names a file on the node."


class LogWatch:
    """The log of one launch. `on_batch(sample, at)` gets throughput figures with the monotonic time they are of, `on_ready` the ready line as it comes."""

    def __init__(
        self,
        node: Node,
        server: Server,
        *,
        skew_s: float | None,
        on_batch: Callable[[BatchSample, float], None],
        on_ready: Callable[[], None],
        on_change: Callable[[], None],
    ) -> None:
        self.store = LineStore()
        self.following = False
        self._node = node
        self._engine = server.engine
        self._source = server.log
        self._skew_s = skew_s
        self._on_batch = on_batch
        self._on_ready = on_ready
        self._on_change = on_change
        path = file_of(server.log)
        self._follower = Follower(path) if path is not None else None
        self._error = server.log.why or NO_LOG if path is None else None
        self._presenter = Presenter(self.store)
        self._reader = self._new_reader()
        self._grew_at: float | None = None
        self._past: list[BatchSeen] = []
        self._past_end = 0
        self._past_age = 0.0
        self._in_past = False
        self._state: tuple[LogState, LogState] | None = None

    @property
    def state(self) -> LogState:
        """What the log says of the launch; quoted text has its secrets masked."""
        raw = self._reader.state
        if self._state is None or self._state[0] is not raw:
            masked = raw if raw.error_text is None else replace(raw, error_text=mask_text(raw.error_text))
            self._state = (raw, masked)
        return self._state[1]

    def view(self) -> LogView:
        """For the screen."""
        return LogView(self.store, self._source.path, self._grew_at, self._error, self.following)

    async def run(self) -> None:
        """Follow until cancelled. Raises NodeError when the link is lost; what was read stays, and a later run goes on at the next byte."""
        if self._follower is None:
            return
        try:
            while True:
                run = self._follower.next_run()
                if run.step is Step.FOLLOW:
                    await self._stream(self._follower, run)
                else:
                    await self._once(self._follower, run)
        finally:
            self.following = False

    async def _once(self, follower: Follower, run: Run) -> None:
        try:
            done = await self._node.run(run.command, timeout=RUN_TIMEOUT_S)
        except CommandTimeout:
            self._say("The log does not answer: its file system may hang. It is asked again.")
            await self._take(follower.finished(b"", None))
            return
        head = parse_file_head(done.stdout)[0] if run.step is Step.MEASURE else None
        if head is not None:
            self._past_end = head.size
            self._past_age = 0.0 if self._skew_s is None else max(0.0, time.time() + self._skew_s - head.mtime)
            self._in_past = head.size > 0
            self._grew_at = time.monotonic() - self._past_age if head.size else None
        await self._take(follower.finished(done.stdout, done.exit_status))

    async def _stream(self, follower: Follower, run: Run) -> None:
        try:
            async with self._node.stream(run.command) as stream:
                while chunk := await self._next(stream, follower):
                    await self._take(follower.took(chunk))
                    if not follower.streaming:
                        return
                await self._take(follower.ended(stream.exit_status))
        except ChannelError as error:
            self._say(f"The log cannot be followed: {error}")
            await self._take([Wait(5.0, str(error))])

    async def _next(self, stream: Stream, follower: Follower) -> bytes:
        """The next bytes; b"" also when the name stands for another file by now: a log that was rotated is a log that went silent."""
        while True:
            try:
                async with asyncio.timeout(QUIET_S):
                    return await stream.read()
            except TimeoutError:
                try:
                    done = await self._node.run(read_range(follower.path, 0, 0), timeout=RUN_TIMEOUT_S)
                except CommandTimeout:
                    continue
                head = parse_file_head(done.stdout)[0]
                if head is not None and follower.changed(head.device, head.inode, head.size):
                    return b""

    async def _take(self, found: list[Fresh | Part | Wait]) -> None:
        for one in found:
            if isinstance(one, Fresh):
                self._say(None)
                self._fresh(one)
            elif isinstance(one, Part):
                await self._feed(one)
            else:
                self.following = False
                if one.error is not None:
                    self._say(one.error)
                await asyncio.sleep(one.seconds)

    def _fresh(self, one: Fresh) -> None:
        if one.text:
            self._presenter.mark(one.text)
        self._reader = self._new_reader()
        self._past.clear()

    async def _feed(self, part: Part) -> None:
        now = time.monotonic()
        follower = self._follower
        assert follower is not None  # noqa: S101 - parts come from it
        self.following = True
        if part.gap:
            self._reader.flush(now)
            self._presenter.mark(f"{part.gap:,} bytes before this were not read".replace(",", "\u00a0"))
        # What was there when we came is as old as the file; only then lines are of now.
        moment = now - self._past_age if self._in_past else now
        events: list[Event] = []
        ended: asyncio.CancelledError | None = None
        for at in range(0, len(part.data), SLICE):
            events += self._reader.feed(part.data[at : at + SLICE], moment)
            present(self._reader, self._presenter)
            if ended is None:
                try:
                    await asyncio.sleep(0)  # a key pressed meanwhile is answered first
                except asyncio.CancelledError as error:
                    ended = error  # the follower has counted these bytes: they are read to their end
        if self._in_past:
            self._past += [event for event in events if isinstance(event, BatchSeen)]
            if follower.offset >= self._past_end:
                self._date_past(moment)
        else:
            self._grew_at = now
            self._apply(events, now)
        self._on_change()
        if ended is not None:
            raise ended

    def _date_past(self, newest_at: float) -> None:
        """The newest line is as old as the file; earlier ones are older by the difference of their times."""
        self._in_past = False
        newest = self._reader.newest_stamp
        for event in self._past:
            behind = elapsed(event.stamp, newest)
            if behind is not None:
                self._on_batch(event.total, newest_at - behind)
        self._past.clear()

    def _apply(self, events: list[Event], now: float) -> None:
        for event in events:
            if isinstance(event, BatchSeen):
                self._on_batch(event.total, now)
            elif isinstance(event, ReadySeen):
                self._on_ready()

    def _new_reader(self) -> Reader:
        return Reader(self._engine, self._presenter.add)

    def _say(self, error: str | None) -> None:
        if error != self._error:
            self._error = error
            self._on_change()
