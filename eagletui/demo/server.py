"""The simulated node's SSH server: asyncssh over a socket pair, in process. No port, no file, no subprocess.

It runs only the named scripts (an exec request of the one line that `shell.script.wire` writes) and forwards only to
the engine's port. Whatever a client does not read stops the writer: asyncssh's window, then `drain`.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import asyncssh

from eagletui.demo import answers, smi
from eagletui.demo.answer import Answer, refused
from eagletui.demo.answers import Poll
from eagletui.demo.engine import Engine
from eagletui.demo.engine_http import HttpLink
from eagletui.demo.processes import USER
from eagletui.demo.world import World
from eagletui.shell.script import MARK, Command, Script, wire


def _command_line() -> re.Pattern[str]:
    """The one line that `script.wire` writes, whatever it is: groups are the script's bytes and its name."""
    sample = wire(Command(Script("NAME", "")))
    size = str(len(sample.stdin) - len(b"0\n"))
    pattern = re.escape(sample.line).replace(size, r"(\d{1,7})").replace("NAME", "([A-Za-z0-9-]+)")
    return re.compile(pattern)


COMMAND_LINE: Final = _command_line()
ARGUMENT_LIMIT: Final = 4096
DATA_LIMIT: Final = 8 << 20
LOOK_S: Final = 0.1
"""How often a followed file is looked at; `tail -f` on a real node is told by the kernel, or looks every 0.2 s."""
DEATH_LOOK_S: Final = 0.25
"""How often a connection looks whether its server lives."""
IDLE_S: Final = 60.0
"""How often a program that ended by itself is looked at again: there is nothing to see, its stdin is waited for."""
READ_SIZE: Final = 1 << 16
POLL_LINE_LIMIT: Final = 1 << 20
LINK_ERRORS: Final = (asyncssh.Error, OSError)
"""The other side closed the channel, or the link broke: nobody is left to tell."""
Process = asyncssh.SSHServerProcess[bytes]
Talk = Callable[[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]], Awaitable[None]]


class DemoServer:
    """One world behind an SSH server. `now` gives the node's clock (unix seconds)."""

    def __init__(self, world: World, now: Callable[[], float]) -> None:
        self.world = world
        self.now = now
        self._key = asyncssh.generate_private_key("ssh-ed25519", comment="")
        self._connections: list[asyncssh.SSHServerConnection] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def host_key(self) -> bytes:
        """Its public host key in SSH wire format."""
        return self._key.public_data

    async def serve(self, sock: socket.socket) -> None:
        """Speak SSH on one end of a socket pair, until `aclose` or the other end is closed. Returns after the login;
        run it beside the client's connect. Raises asyncssh.Error, OSError.
        """
        connection = await asyncssh.run_server(
            sock,
            config=(),
            server_factory=lambda: _Server(self),
            process_factory=self._process,
            server_host_keys=[self._key],
            encoding=None,
            agent_forwarding=False,
            x11_forwarding=False,
            allow_scp=False,
            keepalive_interval=0,
        )
        self._connections.append(connection)

    async def aclose(self) -> None:
        """End every script and connection. Never raises."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.abort()
        await asyncio.gather(*(connection.wait_closed() for connection in connections), return_exceptions=True)

    async def _owned(self, work: Coroutine[Any, Any, None]) -> None:
        """Run as a task that `aclose` cancels: asyncssh leaves its own running."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        try:
            await asyncio.wait({task})
            if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, LINK_ERRORS):
                raise error
        finally:
            task.cancel()
            self._tasks.discard(task)

    async def _process(self, process: Process) -> None:
        async def run() -> None:
            try:
                await self._run(process)
            except (asyncssh.SignalReceived, asyncssh.BreakReceived):
                process.exit_with_signal("TERM")

        await self._owned(run())

    def connect_http(self, port: int) -> Talk | None:
        """Who answers a forwarded connection to a port: an engine, or somebody else; None where nobody listens."""
        engine = self.world.serving(port, self.now())
        if engine is None and not self.world.foreign_port(port):
            return None

        async def talk(reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes]) -> None:
            async def answer() -> None:
                try:
                    if engine is not None:
                        await self._until_it_dies(engine, HttpLink(engine, reader, writer, self.now).run())
                    elif await reader.readline():
                        writer.write(
                            b"HTTP/1.0 404 File not found\r\nContent-Type: text/html\r\n\r\n" + answers.NOT_FOUND_PAGE
                        )
                        await writer.drain()
                finally:
                    writer.close()

            await self._owned(answer())

        return talk

    async def _until_it_dies(self, engine: Engine, work: Coroutine[Any, Any, None]) -> None:
        """A server's death closes its connections, in whatever they are."""
        link = asyncio.ensure_future(work)
        try:
            while not link.done() and not engine.is_gone(self.now()):
                await asyncio.wait({link}, timeout=DEATH_LOOK_S)
                self.world.advance(self.now())
        finally:
            link.cancel()
            (ended,) = await asyncio.gather(link, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended

    # Scripts

    async def _run(self, process: Process) -> None:
        found = COMMAND_LINE.fullmatch(process.command or "")
        if found is None:
            await _finish(process, refused("this simulated node runs eagletui's named scripts only", 127))
            return
        args = await _read_arguments(process, int(found[1]))
        if args is None:
            process.exit(125)
            return
        process.stdout.write(MARK)
        process.stderr.write(MARK)
        streams: dict[str, Callable[[Process, list[bytes]], Awaitable[None]]] = {
            "poll": self._poll,
            "follow": self._follow,
            "loop-tool": self._loop_tool,
        }
        stream = streams.get(found[2])
        if stream is not None:
            await stream(process, args)
        else:
            data = await _rest(process) if found[2] in answers.GIVEN else b""
            await _finish(process, answers.answer(self.world, found[2], args, self.now(), data))

    async def _poll(self, process: Process, args: list[bytes]) -> None:  # noqa: ARG002 - one shape for all
        poll = Poll(self.world)
        rest = b""
        while (chunk := await process.stdin.read(READ_SIZE)) and len(rest) < POLL_LINE_LIMIT:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                process.stdout.write(poll.answer(line, self.now()))
            await process.stdout.drain()
        process.exit(0)

    async def _follow(self, process: Process, args: list[bytes]) -> None:
        self.world.advance(self.now())
        pid = self.world.own_pid()
        head, at = answers.follow(self.world, args, pid)
        path = args[0].decode("utf-8", "surrogateescape") if args else ""
        file = self.world.file(path)
        if head.status or file is None:
            await _finish(process, head)
            return
        process.stdout.write(head.stdout)
        self.world.reading[pid] = path, at

        async def grow() -> None:
            nonlocal at
            self.world.advance(self.now())
            while chunk := file.read(at, READ_SIZE):
                at += len(chunk)
                self.world.reading[pid] = path, at
                process.stdout.write(chunk)
                await process.stdout.drain()

        try:
            await _until_stdin_ends(process, grow, LOOK_S)
        finally:
            del self.world.reading[pid]
        process.exit(0)

    async def _loop_tool(self, process: Process, args: list[bytes]) -> None:
        args = args[1:]  # a lease: the simulated node lives no longer than its client
        if args[:1] != [b"nvidia-smi"]:
            await _finish(process, answers.tool(self.world, args, self.now()))
            return
        every = smi.loop_seconds([argument.decode("utf-8", "replace") for argument in args[1:]])
        answer = Answer()
        ended = asyncio.Event()

        async def once() -> None:
            nonlocal answer
            self.world.advance(self.now())
            answer = answers.tool(self.world, args, self.now())
            process.stdout.write(answer.stdout)
            process.stderr.write(answer.stderr)
            await process.stdout.drain()
            if every is None or answer.status:
                ended.set()

        await _until_stdin_ends(process, once, every or IDLE_S, ended)
        process.exit(answer.status)


class _Server(asyncssh.SSHServer):
    """asyncssh's questions."""

    def __init__(self, server: DemoServer) -> None:
        self._server = server

    def begin_auth(self, username: str) -> bool:
        """Its one user needs no key (nobody else holds the other end of the socket pair); no other user gets in."""
        return username != USER

    def connection_requested(
        self,
        dest_host: str,
        dest_port: int,
        orig_host: str,  # noqa: ARG002 - asyncssh's signature
        orig_port: int,  # noqa: ARG002 - asyncssh's signature
    ) -> Talk:
        """Only ports are open on which somebody listens."""
        talk = self._server.connect_http(dest_port) if dest_host in {"127.0.0.1", "localhost"} else None
        if talk is None:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "Connection refused")
        return talk


async def _read_arguments(process: Process, script_bytes: int) -> list[bytes] | None:
    """Skip the script, and take the arguments after it; None when stdin ends before."""
    left = script_bytes
    while left:
        chunk = await process.stdin.read(min(left, READ_SIZE))
        if not chunk:
            return None
        left -= len(chunk)
    count = (await process.stdin.readline()).strip()
    if not count.isdigit() or int(count) > ARGUMENT_LIMIT:
        return None
    args: list[bytes] = []
    for _ in range(int(count)):
        line = await process.stdin.readline()
        if not line.endswith(b"\n"):
            return None
        args.append(answers.decode_argument(line[:-1]))
    return args


async def _rest(process: Process) -> bytes:
    """All that follows on stdin."""
    data = bytearray()
    while (chunk := await process.stdin.read(READ_SIZE)) and len(data) < DATA_LIMIT:
        data += chunk
    return bytes(data)


async def _finish(process: Process, answer: Answer) -> None:
    process.stderr.write(answer.stderr)
    process.stdout.write(answer.stdout)
    await process.stdout.drain()
    process.exit(answer.status)


async def _stdin_ends(process: Process) -> None:
    while await process.stdin.read(READ_SIZE):
        pass


async def _until_stdin_ends(
    process: Process, step: Callable[[], Awaitable[None]], every: float, over: asyncio.Event | None = None
) -> None:
    """`step` now and then every so many seconds, until stdin ends, or until a step set `over`."""
    ended = asyncio.ensure_future(_stdin_ends(process))
    try:
        while not ended.done() and not (over is not None and over.is_set()):
            await step()
            if over is None or not over.is_set():
                await asyncio.wait({ended}, timeout=every)
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)
