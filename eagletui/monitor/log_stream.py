"""One file of a server's log: runs what its follower says, and hands over what comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from eagletui.errors import ChannelError, CommandTimeout
from eagletui.logs.follower import Follower, Found, Fresh, Part, Run, Step, Told, Wait
from eagletui.logs.kept_follower import KeptFollower
from eagletui.monitor.keeper import Keeper
from eagletui.nodes.base import Node, Stream
from eagletui.shell.follow import FileHead, parse_file_head
from eagletui.shell.poll import PollAnswer

RUN_TIMEOUT_S = 20.0
REFUSED_WAIT_S = 5.0
"""Before a stream that the node had no session for is asked for again."""

AnyFollower = Follower | KeptFollower


class Sink(Protocol):
    """Who takes what a stream reads."""

    async def take_bytes(self, stream: LogStream, part: Part) -> None:
        """Bytes came. All of them are taken, also when it is cancelled meanwhile: the follower has counted them."""

    def take_marker(self, stream: LogStream, text: str, *, anew: bool) -> None:
        """Something to tell in the midst of the lines; `anew`: the bytes that come now are of another file."""

    def say(self, stream: LogStream, error: str | None) -> None:
        """Why nothing comes, a sentence; None when something does."""


class LogStream:
    """`channel` tells the files of one server apart. While `in_past`, bytes up to offset `past_end` were written before we looked, the
    newest of them `past_age_s` seconds before `looked_at` (monotonic)."""

    def __init__(
        self, node: Node, follower: AnyFollower, channel: int, *, sink: Sink, keeper: Keeper, skew_s: float | None
    ) -> None:
        self.channel = channel
        self.follower = follower
        self.in_past = False
        self.past_end = 0
        self.past_age_s = 0.0
        self.looked_at = 0.0
        self.following = False
        self._node = node
        self._sink = sink
        self._keeper = keeper
        self._skew_s = skew_s
        self._turn: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Follow until cancelled. Raises NodeError when the link is lost; a later run goes on at the next byte."""
        try:
            while True:
                run = self.follower.next_run(await self._keeper.wait() if self.follower.streaming else 0)
                if run.step is Step.FOLLOW:
                    await self._stream(run)
                else:
                    await self._once(run)
        finally:
            self.following = False

    async def look(self, ask: Callable[[int, str], Awaitable[PollAnswer | None]]) -> None:
        """Ask the poller what stands under the name. Raises LinkLostError."""
        follower = self.follower
        if not follower.pid:
            return
        answer = await ask(follower.pid, follower.name)
        if answer is None or answer.file is None:
            return
        for one in follower.looked(answer.file, answer.read_to):
            if isinstance(one, Told):
                self._sink.take_marker(self, one.text, anew=False)
        if not follower.streaming and self._turn is not None and not self._turn.expired():
            self._turn.reschedule(asyncio.get_running_loop().time())

    async def _once(self, run: Run) -> None:
        try:
            done = await self._node.run(run.command, timeout=RUN_TIMEOUT_S)
        except CommandTimeout:
            self._sink.say(self, "The log does not answer: its file system may hang. It is asked again.")
            await self._take(self.follower.finished(b"", None))
            return
        except ChannelError as error:
            await self._refused(error)
            return
        if run.step is Step.MEASURE:
            self._date(parse_file_head(done.stdout)[0])
        await self._take(self.follower.finished(done.stdout, done.exit_status))

    async def _stream(self, run: Run) -> None:
        follower = self.follower
        try:
            async with self._node.stream(run.command) as stream, asyncio.timeout(None) as self._turn:
                await self._read(stream)
                await self._take(follower.ended(stream.exit_status))
        except TimeoutError:
            if follower.streaming:
                raise
        except ChannelError as error:
            await self._refused(error)
        finally:
            self._turn = None

    async def _read(self, stream: Stream) -> None:
        follower = self.follower
        began = False
        while chunk := await stream.read():
            offset = follower.offset
            found = follower.took(chunk)
            if not began and follower.head is not None and follower.streaming:
                began = True
                self._opened(follower.head, offset)
            await self._take(found)
            if not follower.streaming:
                # The stream is ended before anything else is run.
                raise TimeoutError

    def _opened(self, head: FileHead, offset: int) -> None:
        """The stream is there: what was written during a break is of the past, too."""
        self.following = True
        self._sink.say(self, None)
        if head.size > max(self.past_end, offset):
            self._date(head)

    def _date(self, head: FileHead | None) -> None:
        if head is None:
            return
        self.in_past = head.size > 0
        self.past_end = head.size
        self.looked_at = time.monotonic()
        self.past_age_s = self.age_s(head.mtime)

    async def _refused(self, error: ChannelError) -> None:
        self._sink.say(self, f"The log cannot be followed: {error}")
        self.following = False
        await asyncio.sleep(REFUSED_WAIT_S)

    async def _take(self, found: list[Found]) -> None:
        ended: asyncio.CancelledError | None = None
        for one in found:
            if isinstance(one, Fresh):
                self._sink.say(self, None)
                self._sink.take_marker(self, one.text, anew=True)
            elif isinstance(one, Told):
                self._sink.take_marker(self, one.text, anew=False)
            elif isinstance(one, Part):
                try:
                    await self._sink.take_bytes(self, one)
                except asyncio.CancelledError as error:
                    ended = error  # what the follower has counted is taken, all of it
            elif ended is None:
                await self._wait(one)
        if ended is not None:
            raise ended

    def age_s(self, at: float) -> float:
        """How long ago that was by the node's clock (epoch seconds)."""
        return 0.0 if self._skew_s is None else max(0.0, time.time() + self._skew_s - at)

    async def _wait(self, one: Wait) -> None:
        self.following = False
        if one.error is not None:
            self._sink.say(self, one.error)
        await asyncio.sleep(one.seconds)
