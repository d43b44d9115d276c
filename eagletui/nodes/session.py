"""One remote command, whatever carries it: feeding its stdin, dropping rc-file noise, limits, deadlines. Both kinds
of node share this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from eagletui.errors import CommandTimeout, LinkLostError, ShellError
from eagletui.nodes.base import Completed
from eagletui.shell.script import Command, MarkStripper, wire

CHUNK = 65536
"""Bytes a read asks for: 64 KiB is where asyncssh reads at full speed, and small enough to keep the loop answering."""
RUN_STDERR_LIMIT = 65536
STREAM_STDERR_LIMIT = 16384
STATUS_SECONDS = 2.0
"""For the exit status of a process that has closed its output; one that goes on without output has none."""
START_SECONDS = 20.0
"""How long a login shell's rc files may take before our script begins: slower is not usable for a monitor."""


class Pipes(Protocol):
    """The three pipes of a process somewhere. Methods raise NodeError subclasses only."""

    async def read_stdout(self, limit: int) -> bytes:
        """Next bytes, b"" at the end. Raises LinkLostError."""

    async def read_stderr(self, limit: int) -> bytes:
        """Next bytes, b"" at the end. Raises LinkLostError."""

    async def write(self, data: bytes) -> bool:
        """Send, waiting while the other side does not read. False: nobody reads any more. Raises LinkLostError."""

    async def write_eof(self) -> None:
        """End its stdin. Never raises for a process that is gone."""

    async def wait(self) -> int | None:
        """Its exit status once it ended; None where a signal ended it or nobody said. Raises LinkLostError."""

    @property
    def exit_status(self) -> int | None:
        """The exit status, if it is known already."""

    async def aclose(self, *, spare: bool = False) -> None:
        """End its stdin, end it (not where it is to be spared: it changes something), and let it go. Never raises."""


Opener = Callable[[str], Awaitable[Pipes]]
"""Starts a command line and gives its pipes. Raises NodeError."""


async def _feed(pipes: Pipes, data: bytes) -> bool:
    view = memoryview(data)
    for at in range(0, len(view), CHUNK):
        if not await pipes.write(bytes(view[at : at + CHUNK])):
            return False
    return True


async def _gather(
    read: Callable[[int], Awaitable[bytes]], limit: int, decode: Callable[[bytes], bytes] = bytes
) -> bytes:
    """Reads to the end and keeps the first `limit` bytes; the rest is read and dropped, so that the process can end."""
    kept = bytearray()
    while chunk := await read(CHUNK):
        kept += decode(chunk)[: limit - len(kept)]
    return bytes(kept)


async def _feed_and_end(pipes: Pipes, data: bytes) -> None:
    await _feed(pipes, data)
    await pipes.write_eof()


async def run_command(opener: Opener, command: Command, node: str, seconds: float, limit: int) -> Completed:
    """Run to the end. Raises CommandTimeout, ShellError, LinkLostError, and whatever the opener raises."""
    sent = wire(command)
    stripper, quiet = MarkStripper(), MarkStripper()
    pipes: Pipes | None = None
    tasks: list[asyncio.Task[bytes] | asyncio.Task[None]] = []
    try:
        async with asyncio.timeout(seconds):
            pipes = await opener(sent.line)
            out = asyncio.create_task(_gather(pipes.read_stdout, limit, stripper.decode))
            err = asyncio.create_task(_gather(pipes.read_stderr, RUN_STDERR_LIMIT, quiet.decode))
            tasks = [out, err, asyncio.create_task(_feed_and_end(pipes, sent.stdin))]
            await asyncio.gather(*tasks)
            status = await pipes.wait()
    except TimeoutError:
        raise CommandTimeout(f"{command.script.name} on {node} did not end in {seconds:g} s; it was let go") from None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if pipes is not None:
            await pipes.aclose(spare=not command.script.reads_only)
    stripper.flush()
    if not stripper.seen:
        quiet.flush()
        raise _shell_error(node, status, stripper.noise or quiet.noise)
    return Completed(status, out.result(), err.result())


def _shell_error(node: str, status: int | None, said: bytes) -> ShellError:
    lines = [_clean(line) for line in said.decode("utf-8", "replace").splitlines()]
    last = next((line for line in reversed(lines) if line), "")  # what came before is the rc files' usual noise
    how = "" if status is None else f" (exit status {status})"
    return ShellError(
        f"the login shell on {node} ended{how} before our script ran"
        + (f"; it said: {last}" if last else " and said nothing")
        + f". Check that `ssh {node} sh -c true` works, that no rc file reads stdin or exits, and no ForceCommand stands in the way"
    )


def _clean(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line).strip()[:160]


class CommandStream:
    """A `base.Stream` over pipes."""

    def __init__(self, pipes: Pipes, command: Command, node: str) -> None:
        self._pipes = pipes
        self._what = f"{command.script.name} on {node}"
        self._spare = not command.script.reads_only
        self._node = node
        self._stripper = MarkStripper()
        self._stderr = bytearray()
        self._quiet = MarkStripper()
        self._deadline = asyncio.get_running_loop().time() + START_SECONDS
        self._feeding = asyncio.create_task(_feed(pipes, wire(command).stdin))
        self._listening = asyncio.create_task(self._listen())

    async def read(self, limit: int = CHUNK) -> bytes:
        """See base.Stream."""
        while True:
            chunk = await (self._pipes.read_stdout(limit) if self._stripper.seen else self._read_first(limit))
            if not chunk:
                return await self._end()
            if ours := self._stripper.decode(chunk):
                return ours

    async def _read_first(self, limit: int) -> bytes:
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._pipes.read_stdout(limit)
        except TimeoutError:
            self._stripper.flush()
            said = _clean(self._stripper.noise.decode("utf-8", "replace"))
            raise ShellError(
                f"the login shell on {self._node} did not begin our script in {START_SECONDS:.0f} s"
                + (f"; it said: {said}" if said else "; look for an rc file that waits for something")
            ) from None

    async def _end(self) -> bytes:
        self._stripper.flush()
        if self._stripper.seen:
            # Its end of output can come before word of its exit status.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STATUS_SECONDS):
                    await self._pipes.wait()
                    await asyncio.shield(self._listening)
            return b""
        await asyncio.gather(self._listening, return_exceptions=True)
        self._quiet.flush()
        raise _shell_error(self._node, await self._pipes.wait(), self._stripper.noise or self._quiet.noise)

    async def write(self, data: bytes) -> None:
        """See base.Stream."""
        # The command's own stdin goes first; a second writer in between would break the script in two.
        if not (await asyncio.shield(self._feeding) and await _feed(self._pipes, data)):
            raise LinkLostError(f"{self._what} has ended and reads no more")

    @property
    def stderr(self) -> bytes:
        """See base.Stream."""
        return bytes(self._stderr)

    @property
    def exit_status(self) -> int | None:
        """See base.Stream."""
        return self._pipes.exit_status

    async def _listen(self) -> None:
        # Read for ever: stdout and stderr share one window, and a full stderr would stop stdout.
        with contextlib.suppress(LinkLostError):
            while chunk := await self._pipes.read_stderr(CHUNK):
                self._stderr += self._quiet.decode(chunk)[: STREAM_STDERR_LIMIT - len(self._stderr)]

    async def aclose(self) -> None:
        """End it. Never raises."""
        self._feeding.cancel()
        self._listening.cancel()
        await asyncio.gather(self._feeding, self._listening, return_exceptions=True)
        await self._pipes.aclose(spare=self._spare)


@contextlib.asynccontextmanager
async def stream_command(opener: Opener, command: Command, node: str) -> AsyncIterator[CommandStream]:
    """Start a command that goes on, and end it on the way out. Raises what the opener raises."""
    stream = CommandStream(await opener(wire(command).line), command, node)
    try:
        yield stream
    finally:
        await stream.aclose()
