"""What travels in an SSH connection: a command's three pipes, a forwarded connection. asyncssh's errors stay in
here.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from eagletui.errors import LinkLostError

if TYPE_CHECKING:
    import asyncssh

    from eagletui.nodes.ssh import SshNode

CLOSE_SECONDS = 2.0
"""For the node to confirm that something is closed. It is let go either way."""


class SshPipes:
    """`session.Pipes` over one SSH session."""

    def __init__(
        self,
        streams: tuple[asyncssh.SSHWriter[bytes], asyncssh.SSHReader[bytes], asyncssh.SSHReader[bytes]],
        node: SshNode,
    ) -> None:
        self._in, self._out, self._err = streams
        self._channel: asyncssh.SSHClientChannel[bytes] = self._in.channel  # type: ignore[assignment]
        self._node: SshNode | None = node
        self._errors = node.link_errors

    def _lost(self, exc: Exception | None = None) -> LinkLostError:
        return self._node.lost(exc) if self._node is not None else LinkLostError("the command was closed")

    async def _read(self, reader: asyncssh.SSHReader[bytes], limit: int) -> bytes:
        try:
            chunk = await reader.read(limit)
        except self._errors as exc:
            raise self._lost(exc) from exc
        if not chunk and self._node is not None and self._node.is_lost and self.exit_status is None:
            raise self._lost()
        return chunk

    async def read_stdout(self, limit: int) -> bytes:
        """See session.Pipes."""
        return await self._read(self._out, limit)

    async def read_stderr(self, limit: int) -> bytes:
        """See session.Pipes."""
        return await self._read(self._err, limit)

    async def write(self, data: bytes) -> bool:
        """See session.Pipes."""
        if self._in.is_closing():
            return self._nobody()
        try:
            self._in.write(data)
            await self._in.drain()
        except BrokenPipeError:
            return self._nobody()
        except self._errors as exc:
            raise self._lost(exc) from exc
        return True

    def _nobody(self) -> bool:
        if self._node is not None and self._node.is_lost:
            raise self._lost()
        return False

    async def write_eof(self) -> None:
        """See session.Pipes."""
        with contextlib.suppress(*self._errors):
            self._in.write_eof()

    async def wait(self) -> int | None:
        """See session.Pipes."""
        await self._channel.wait_closed()
        if (
            self.exit_status is None
            and self._channel.get_exit_signal() is None
            and self._node is not None
            and self._node.is_lost
        ):
            raise self._lost()
        return self.exit_status

    @property
    def exit_status(self) -> int | None:
        """See session.Pipes."""
        return self._channel.get_exit_status() if self._channel.get_exit_signal() is None else None

    async def aclose(self, *, spare: bool = False) -> None:
        """See session.Pipes."""
        node, self._node = self._node, None
        if node is None:
            return
        await self.write_eof()
        if not spare and self.exit_status is None and not node.is_lost:
            # What looks at no stdin and prints nothing would stay: a login shell in an rc file that waits, for one.
            with contextlib.suppress(*self._errors):
                self._channel.send_signal("TERM")
        # Not close(): that first sends what is left, which a process that reads no more would never take.
        self._channel.abort()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._channel.wait_closed()
        except TimeoutError:
            pass
        finally:
            node.give_back()


class SshLink:
    """`http.ByteLink` over one forwarded connection."""

    def __init__(self, reader: asyncssh.SSHReader[bytes], writer: asyncssh.SSHWriter[bytes], node: SshNode) -> None:
        self._reader, self._writer, self._node = reader, writer, node
        self._errors = node.link_errors

    async def read(self, limit: int) -> bytes:
        """See http.ByteLink."""
        try:
            chunk = await self._reader.read(limit)
        except self._errors as exc:
            raise self._node.lost(exc) from exc
        if not chunk and self._node.is_lost:
            raise self._node.lost()
        return chunk

    async def write(self, data: bytes) -> None:
        """See http.ByteLink."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except self._errors as exc:
            raise self._node.lost(exc) from exc

    @property
    def ended(self) -> bool:
        """See http.ByteLink."""
        return self._reader.at_eof()

    async def aclose(self) -> None:
        """See http.ByteLink."""
        self._writer.close()
