"""The one poller of a node: a stream that answers a line per request, so that a tick starts no process there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager

from eagletui.errors import ChannelError, LinkLostError, NodeError
from eagletui.nodes.base import Node, Stream
from eagletui.shell.poll import (
    Machine,
    PollAnswer,
    PollDecoder,
    ReadBytes,
    ask_all,
    ask_family,
    ask_io,
    ask_look,
    ask_machine,
    ask_ping,
    start_poll,
)

ANSWER_TIMEOUT_S = 15.0
"""As long as the link's keepalive waits: after that the node's shell is taken for frozen."""
FIRST_ANSWER_S = 30.0
"""For the first answer: before it, rc files may take their time, and a login shell that never runs us is told with its own sentence."""
REASON_S = 1.0
"""Between a request that nobody takes and the stream's end, which says why."""

_Request = Callable[[int], bytes]


class Poller:
    """Asks and waits for the answer; answers come in the order of the requests."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._decoder = PollDecoder()
        self._seq = 0
        self._waiting: dict[int, asyncio.Future[PollAnswer]] = {}
        self._answers = False
        self._ended: NodeError | None = None

    async def read_answers(self) -> None:
        """Run beside the requests until the stream ends. Raises ChannelError then, LinkLostError when the link broke, or ShellError."""
        why: NodeError = ChannelError("the poller on the node ended")
        try:
            while chunk := await self._stream.read():
                self._answers = True
                for answer in self._decoder.feed(chunk):
                    waiter = self._waiting.pop(answer.seq, None)
                    if waiter is not None and not waiter.done():
                        waiter.set_result(answer)
            raise why
        except NodeError as error:
            why = error
            raise
        finally:
            self._ended = why
            for waiter in self._waiting.values():
                if not waiter.done():  # not cancelled: a cancellation would end the asking task without a word
                    waiter.set_exception(why)

    async def family(self, pids: Iterable[int]) -> PollAnswer:
        """Which of these live. Raises LinkLostError."""
        return await self._ask(lambda seq: ask_family(seq, pids))

    async def all(self) -> PollAnswer:
        """All pids. Raises LinkLostError."""
        return await self._ask(ask_all)

    async def shell(self) -> int | None:
        """The pid of the shell that answers. Raises LinkLostError."""
        return (await self._ask(ask_ping)).shell

    async def io(self, pids: Iterable[int]) -> tuple[ReadBytes, ...]:
        """What these have read so far, of those whose counters may be read. Raises LinkLostError."""
        return (await self._ask(lambda seq: ask_io(seq, pids))).io

    async def machine(self) -> Machine:
        """Which machine it is. Raises LinkLostError."""
        return (await self._ask(ask_machine)).machine or Machine()

    async def look(self, pid: int, path: str) -> PollAnswer | None:
        """Whether a path is still the file that a `follow` reads; None for a path that cannot be asked for. Raises LinkLostError."""
        if ask_look(0, pid, path) is None:
            return None
        return await self._ask(lambda seq: ask_look(seq, pid, path) or b"")

    async def _ask(self, request: _Request) -> PollAnswer:
        if self._ended is not None:
            raise self._ended
        self._seq += 1
        seq = self._seq
        waiter: asyncio.Future[PollAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[seq] = waiter
        seconds = ANSWER_TIMEOUT_S if self._answers else FIRST_ANSWER_S
        try:
            async with asyncio.timeout(seconds):
                try:
                    await self._stream.write(request(seq))
                except LinkLostError:
                    await asyncio.wait((waiter,), timeout=REASON_S)
                    if not waiter.done():
                        raise
                return await waiter
        except TimeoutError:
            raise LinkLostError(f"the node's shell did not answer for {seconds:.0f} s") from None
        finally:
            self._waiting.pop(seq, None)
            waiter.cancel()


def open_poller(node: Node) -> AbstractAsyncContextManager[Stream]:
    """The stream to give to Poller."""
    return node.stream(start_poll())
