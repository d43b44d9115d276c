"""The machine eagletui runs on, through the same named scripts as any node: nothing is special about it but the way
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from eagletui.errors import ChannelError, LinkLostError, ShellError
from eagletui.nodes.base import Completed, Stream
from eagletui.nodes.child import start
from eagletui.nodes.session import CHUNK, run_command, stream_command
from eagletui.shell.script import Command

if TYPE_CHECKING:
    import httpx

END_SECONDS = 2.0
"""How long a child and its children may take to end after its pipes were closed, before their group is ended."""
_LOOK_SECONDS = 0.05


class LocalPipes:
    """Pipes of a child in a session of its own, so that its group's id is its pid."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise ValueError("all three pipes are needed")
        self._process = process
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr

    async def read_stdout(self, limit: int) -> bytes:
        """See session.Pipes."""
        return await self._out.read(limit)

    async def read_stderr(self, limit: int) -> bytes:
        """See session.Pipes."""
        return await self._err.read(limit)

    async def write(self, data: bytes) -> bool:
        """See session.Pipes."""
        if self._in.is_closing():
            return False
        try:
            self._in.write(data)
            await self._in.drain()
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    async def write_eof(self) -> None:
        """See session.Pipes."""
        self._in.close()

    async def wait(self) -> int | None:
        """See session.Pipes."""
        await self._process.wait()
        return self.exit_status

    @property
    def exit_status(self) -> int | None:
        """See session.Pipes."""
        status = self._process.returncode
        return status if status is not None and status >= 0 else None

    async def aclose(self, *, spare: bool = False) -> None:
        """Closes the child's pipes, waits for its whole group, then ends that. A command that ended by itself keeps
        the children it left.
        """
        ended = self._process.returncode is not None
        self._close_pipes()
        if ended or spare:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + END_SECONDS
        try:
            while self._lives() and loop.time() < until:  # noqa: ASYNC110 - nobody tells when a group's last member ends
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            if self._lives():
                self._end_group()
        await self._process.wait()

    def _lives(self) -> bool:
        """Whether the child, or a member of its group that outlived it, is there. A group's id is not given to others
        while it has members, so what is seen from before the child's end until now is ours.
        """
        if self._process.returncode is None:
            return True
        try:
            os.killpg(self._process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return not _only_zombies(self._process.pid)

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _close_pipes(self) -> None:
        # Its next write ends a child that looks at no stdin, as sshd's closing does. asyncio has no public way to close
        # the reading ends of a Process, and closing its transport as a whole would kill the child at once.
        transport: asyncio.SubprocessTransport = self._process._transport  # type: ignore[attr-defined]
        for number in (0, 1, 2):
            if (pipe := transport.get_pipe_transport(number)) is not None:
                pipe.close()


def _only_zombies(group: int) -> bool:
    """Whether nobody in a process group runs any more. In a container whose first process reaps nobody, orphans stay
    zombies; where there is no /proc the answer is no.
    """
    states = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 2 and fields[2] == b"%d" % group:
            states.add(fields[0])
    return states == {b"Z"}


class LocalLink:
    """A TCP connection on this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, where: str) -> None:
        self._reader, self._writer, self._where = reader, writer, where

    async def read(self, limit: int) -> bytes:
        """See http.ByteLink."""
        try:
            return await self._reader.read(limit)
        except OSError as exc:
            raise LinkLostError(f"the connection to {self._where} broke: {exc.strerror or exc}") from exc

    async def write(self, data: bytes) -> None:
        """See http.ByteLink."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as exc:
            raise LinkLostError(f"the connection to {self._where} broke: {exc.strerror or exc}") from exc

    @property
    def ended(self) -> bool:
        """See http.ByteLink."""
        return self._reader.at_eof()

    async def aclose(self) -> None:
        """See http.ByteLink."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def dial_here(host: str, port: int) -> LocalLink:
    """Connect to a port of this machine. Raises ChannelError."""
    where = f"{host}:{port}"
    try:
        return LocalLink(*await asyncio.open_connection(host, port), where)
    except ConnectionRefusedError:
        raise ChannelError(f"nobody listens on {where}", refused=True) from None
    except OSError as exc:
        raise ChannelError(f"cannot connect to {where}: {exc.strerror or exc}") from exc


class LocalNode:
    """A `base.Node`: this machine. Its scripts see the user's own PATH."""

    name = "local"
    latency_ms: float | None = None
    asked_person = False

    def __init__(self) -> None:
        self._open: set[LocalPipes] = set()
        self._transports: list[httpx.AsyncBaseTransport] = []

    async def connect(self, *, may_ask: bool = True) -> None:
        """There is nothing to connect to."""

    async def ping(self) -> float:
        """0.0, and latency_ms stays None: no link is not a fast one."""
        return 0.0

    async def _open_pipes(self, line: str) -> LocalPipes:
        try:
            process = await start(
                "sh",
                "-c",
                line,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                limit=CHUNK,
            )
        except OSError as exc:
            raise ShellError(f"cannot start sh on this machine: {exc.strerror or exc}") from exc
        return LocalPipes(process)

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - see base.Node
        """See base.Node."""
        return await run_command(self._open_pipes, command, self.name, timeout, limit)

    def stream(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """See base.Node."""
        return stream_command(self._open_tracked, command, self.name)

    async def _open_tracked(self, line: str) -> LocalPipes:
        pipes = await self._open_pipes(line)
        self._open = {p for p in self._open if p.exit_status is None} | {pipes}
        return pipes

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        from eagletui.nodes.http import NodeTransport

        transport = NodeTransport(dial_here)
        self._transports.append(transport)
        return transport

    def stream_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        from eagletui.nodes.streaming import StreamTransport, dial_timed

        transport = StreamTransport(dial_timed)
        self._transports.append(transport)
        return transport

    async def aclose(self) -> None:
        """Ends what still runs. Never raises."""
        await asyncio.gather(
            *(p.aclose() for p in self._open), *(t.aclose() for t in self._transports), return_exceptions=True
        )
