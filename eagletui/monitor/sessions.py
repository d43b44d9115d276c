"""A node whose sshd allows few sessions at a time (MaxSessions): commands wait for each other, and what would be a stream is asked again and again.

sshd refuses one session too many, and how many it allows is not told: the first refusal shows it. From then on one session is kept for commands that
end, and the others go to the streams in the order of their worth: the poller, logs, the loop of nvidia-smi. A stream that there is no session for
is done by short commands. Of commands that wait, those that restart a server come first. Forwarded connections are no sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING

from eagletui.errors import ChannelError
from eagletui.nodes.base import Completed, Node, Stream
from eagletui.shell.follow import parse_file_head, read_range
from eagletui.shell.script import Command
from eagletui.shell.scripts import FOLLOW, KEPT_LOG, LOOP_TOOL, POLL, READ_RANGE, RUN_TOOL

if TYPE_CHECKING:
    import httpx

WAIT_S = 45.0
"""For a session: longer than any command that ends may take."""
LINGER_S = 1.5
"""sshd counts a session for a moment after its command has ended: a refusal so soon says nothing about its limit."""
LINGER_ALONE_S = 3.0
"""As long when no other session of ours is open: then a refusal is a failure, and the node may be slow."""
RETRY_S = 0.3
POLL_EVERY_S = 2.0
"""Each is a login shell with its rc files. A death is seen in twice that."""
LOG_EVERY_S = 1.0
TOOL_EVERY_S = 5.0
TOOL_DEADLINE_S = "10"
"""As long as a call of nvidia-smi has."""
RANGE = 1 << 20
"""Bytes of a log that one command reads."""

_STREAMS = (POLL.name, FOLLOW.name, LOOP_TOOL.name)
"""The order of their worth: without the first nothing is known, without the last only the GPUs are seen less often."""
_RANKS = {**{name: rank for rank, name in enumerate(_STREAMS)}, READ_RANGE.name: 1, KEPT_LOG.name: 1, RUN_TOOL.name: 3}
_OTHER_RANK = 2
_SEQUENCE_RANK = -1
"""A stop that waits for its turn behind a look at the log is a stop that is late."""
_SEQUENCE_LOOKS = frozenset(
    {"keeper-state", "ownership", "listeners", "waits", "shared-memory", "unit-state", "container-state"}
)
"""Scripts by which a sequence sees what came of it, besides those that change something: nobody else runs them."""
_TOLD = {
    POLL.name: f"processes are looked at every {POLL_EVERY_S:.0f} s",
    FOLLOW.name: f"the log is read every {LOG_EVERY_S:.0f} s",
    LOOP_TOOL.name: f"the GPUs are asked every {TOOL_EVERY_S:.0f} s",
}


def _rank(command: Command) -> int:
    script = command.script
    if script.name in _RANKS:
        return _RANKS[script.name]
    return _SEQUENCE_RANK if not script.reads_only or script.name in _SEQUENCE_LOOKS else _OTHER_RANK


class Sessions:
    """A `Node` over a node. `limit` is how many sessions it is known to allow, None while none was refused."""

    def __init__(self, node: Node) -> None:
        self.limit: int | None = None
        self._node = node
        self._running = 0
        self._held: list[_Held] = []
        self._repeated: list[str] = []
        self._waiting: list[tuple[int, int]] = []
        self._turn = 0
        self._left_at = -LINGER_ALONE_S
        self._changed = asyncio.Event()

    @property
    def note(self) -> str | None:
        """What is asked less often than it should be and what to do, a sentence; None where nothing is."""
        told = [_TOLD[name] for name in _STREAMS if name in self._repeated]
        if self.limit is None or not told:
            return None
        many = "one session" if self.limit == 1 else f"{self.limit} sessions"
        return f"{self.name}'s sshd allows {many} at a time, so {', '.join(told)}. Raise MaxSessions in its sshd_config (10 is usual)"

    # The node

    @property
    def name(self) -> str:
        """See base.Node."""
        return self._node.name

    @property
    def latency_ms(self) -> float | None:
        """See base.Node."""
        return self._node.latency_ms

    @property
    def asked_person(self) -> bool:
        """See base.Node."""
        return self._node.asked_person

    async def connect(self, *, may_ask: bool = True) -> None:
        """See base.Node. What was learned is forgotten: sshd may have another configuration by now."""
        self.limit = None
        await self._node.connect(may_ask=may_ask)

    async def ping(self) -> float:
        """See base.Node."""
        return await self._node.ping()

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        return self._node.http_transport()

    def stream_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        return self._node.stream_transport()

    async def aclose(self) -> None:
        """See base.Node."""
        await self._node.aclose()

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - see base.Node
        """See base.Node. `timeout` begins with the session."""
        until = asyncio.get_running_loop().time() + WAIT_S
        while True:
            await self._wait_for_room(_rank(command), until)
            self._running += 1
            refused: ChannelError | None = None
            try:
                return await self._node.run(command, timeout=timeout, limit=limit)
            except ChannelError as error:
                if not error.full:
                    raise
                refused = error
            finally:
                self._running -= 1
                self._left(had_one=refused is None)
            await self._take_refusal(refused, until)

    def stream(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """See base.Node. Where there is no session for it, the same bytes come by short commands."""
        return self._stream(command)

    @contextlib.asynccontextmanager
    async def _stream(self, command: Command) -> AsyncIterator[Stream]:
        async with AsyncExitStack() as stack:
            yield await self._open(command, stack)

    async def _open(self, command: Command, stack: AsyncExitStack) -> Stream:
        rank = _rank(command)
        until = asyncio.get_running_loop().time() + WAIT_S
        while self._may_hold(rank):
            self._end_lesser(rank)
            await self._wait_for_room(rank, until)
            if not self._may_hold(rank):
                break  # that was learned meanwhile
            held = _Held(rank)
            self._held.append(held)
            try:
                held.inner = await stack.enter_async_context(self._node.stream(command))
            except ChannelError as error:
                self._release(held, had_one=not error.full)
                if not error.full:
                    raise
                await self._take_refusal(error, until)
            except BaseException:
                self._release(held)
                raise
            else:
                stack.callback(self._release, held)
                return held
        name = command.script.name
        if name not in _STREAMS:
            raise ChannelError(
                f"it needs a session of its own, and {self.name}'s sshd allows {self.limit} at a time. Raise MaxSessions in its sshd_config",
                full=True,
            )
        self._repeated.append(name)
        stack.callback(self._repeated.remove, name)
        if name == POLL.name:
            return _Polled(self, command)
        return _Ranges(self, command) if name == FOLLOW.name else _Calls(self, command)

    # Who may have a session

    def _may_hold(self, rank: int) -> bool:
        """Whether a stream gets one. What is none of the three streams always does: there is nothing to do it by."""
        return self.limit is None or rank >= len(_STREAMS) or sum(h.rank <= rank for h in self._held) < self.limit - 1

    def _end_lesser(self, rank: int) -> None:
        """Make room for a stream by ending the least of those there are."""
        if self.limit is not None and self._held and len(self._held) >= self.limit - 1:
            least = max(self._held, key=lambda held: held.rank)
            if least.rank > rank:
                least.end()

    async def _wait_for_room(self, rank: int, until: float) -> None:
        """Until there is a session, those of more worth first. Raises ChannelError."""
        self._turn += 1
        mine = (rank, self._turn)
        self._waiting.append(mine)
        try:
            async with asyncio.timeout_at(until):
                while self.limit is not None and (
                    self._running + len(self._held) >= self.limit or min(self._waiting) != mine
                ):
                    await self._changed.wait()
        except TimeoutError:
            raise ChannelError(
                f"{self.name} allows {self.limit} sessions at a time, and none became free", full=True
            ) from None
        finally:
            self._waiting.remove(mine)
            self._notify()

    async def _take_refusal(self, error: ChannelError, until: float) -> None:
        """Learn from it, or wait a moment where it says nothing. Raises the error when there is nothing to wait for."""
        now = asyncio.get_running_loop().time()
        if now > until:
            raise error
        others = self._running + len(self._held)
        if now - self._left_at < (LINGER_S if others else LINGER_ALONE_S):
            await asyncio.sleep(RETRY_S)
            return
        if others == 0:
            raise error
        self.limit = others if self.limit is None else min(self.limit, others)
        for held in sorted(self._held, key=lambda held: held.rank)[self.limit - 1 :]:
            held.end()
        self._notify()

    def _release(self, held: _Held, *, had_one: bool = True) -> None:
        self._held.remove(held)
        self._left(had_one=had_one)

    def _left(self, *, had_one: bool) -> None:
        if had_one:
            self._left_at = asyncio.get_running_loop().time()
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Held:
    """A stream that has a session, until it has to give it up."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.inner: Stream | None = None
        self._reading: asyncio.Timeout | None = None
        self._ended = False

    def _stream(self) -> Stream:
        if self.inner is None or self._ended:
            raise ChannelError("sshd allows few sessions (MaxSessions), so it goes on by short commands")
        return self.inner

    def end(self) -> None:
        """Its reader is told."""
        self._ended = True
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def read(self, limit: int = 65536) -> bytes:
        """See base.Stream. Raises ChannelError when it has to give up its session."""
        inner = self._stream()
        try:
            async with asyncio.timeout(None) as self._reading:
                return await inner.read(limit)
        except TimeoutError:
            self._stream()
            raise
        finally:
            self._reading = None

    async def write(self, data: bytes) -> None:
        """See base.Stream."""
        await self._stream().write(data)

    @property
    def stderr(self) -> bytes:
        """See base.Stream."""
        return b"" if self.inner is None else self.inner.stderr

    @property
    def exit_status(self) -> int | None:
        """See base.Stream."""
        return None if self.inner is None else self.inner.exit_status


class _Repeating:
    """A stream's bytes by commands that end. A read that is cancelled loses none."""

    every_s = 0.0

    def __init__(self, sessions: Sessions, command: Command) -> None:
        self.stderr = b""
        self.exit_status: int | None = None
        self._sessions = sessions
        self._command = command
        self._kept = b""
        self._next_at = 0.0

    async def read(self, limit: int = 65536) -> bytes:
        """See base.Stream."""
        loop = asyncio.get_running_loop()
        while not self._kept:
            await asyncio.sleep(max(0.0, self._next_at - loop.time()))
            more = await self._more()
            if more is None:
                return b""
            self._kept = more
            if len(more) < RANGE:
                self._next_at = loop.time() + self.every_s
        chunk, self._kept = self._kept[:limit], self._kept[limit:]
        return chunk

    async def write(self, data: bytes) -> None:
        """See base.Stream. Nothing reads it."""

    async def _more(self) -> bytes | None:
        """What the next command gives; None at the end."""
        raise NotImplementedError

    def _end(self, done: Completed) -> None:
        self.exit_status, self.stderr = done.exit_status, done.stderr


class _Polled(_Repeating):
    """Each request is answered by a poller of its own: it does not remember whom an earlier `all` saw."""

    every_s = POLL_EVERY_S

    def __init__(self, sessions: Sessions, command: Command) -> None:
        super().__init__(sessions, command)
        self._asked: asyncio.Queue[bytes] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        """See base.Stream."""
        self._asked.put_nowait(data)

    async def _more(self) -> bytes | None:
        asked = await self._asked.get()
        command = Command(self._command.script, self._command.args, asked)
        return (await self._sessions.run(command)).stdout


class _Ranges(_Repeating):
    """A file is read from where it was read to. It ends when the name stands for another file, or a shorter one."""

    every_s = LOG_EVERY_S

    def __init__(self, sessions: Sessions, command: Command) -> None:
        super().__init__(sessions, command)
        path, begin = command.args[0], command.args[1]
        self._path = path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path
        self._begin = int(begin)
        self._offset: int | None = None
        self._file: tuple[str | None, int | None] | None = None

    async def _more(self) -> bytes | None:
        if self._offset is None:
            if self._begin >= 0:
                self._offset = max(0, self._begin - 1)
            else:
                done = await self._sessions.run(read_range(self._path, 0, 0))
                head, _ = parse_file_head(done.stdout)
                if head is None:
                    self._end(done)
                    return None
                self._offset = max(0, head.size + self._begin)
        done = await self._sessions.run(read_range(self._path, self._offset, RANGE))
        head, data = parse_file_head(done.stdout)
        if head is None:
            self._end(done)
            return None
        first = self._file is None
        if not first and ((head.device, head.inode) != self._file or head.size < self._offset):
            self.exit_status = 0
            return None
        self._file = (head.device, head.inode)
        self._offset += len(data)
        return done.stdout if first else data


class _Calls(_Repeating):
    """`nvidia-smi -l 1` as calls without `-l 1`."""

    every_s = TOOL_EVERY_S

    async def _more(self) -> bytes | None:
        words = [
            word if isinstance(word, str) else word.decode("utf-8", "surrogateescape") for word in self._command.args
        ]
        if words and words[0].isdigit():
            words = words[1:]  # the lease
        if words[-2:-1] == ["-l"]:
            words = words[:-2]
        done = await self._sessions.run(Command(RUN_TOOL, (TOOL_DEADLINE_S, *words)))
        if done.exit_status:
            self._end(done)
            return None
        return done.stdout
