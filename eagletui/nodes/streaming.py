"""HTTP for many long answers at a time: an httpx transport over what a node can dial, leaner than httpcore's pool.

A benchmark reads tens of thousands of small chunks a second, and a pool that hands each through ten layers becomes what is measured. Heads are
h11's; bodies are decoded here, and everything of one read is given on at once. `response.extensions["arrived"]()` tells when the newest bytes came
(loop time): with many answers at once they are looked at later than that; `extensions["sent"]` when the request was written. No cookies, no
redirects, no TLS, no limit on connections: who asks decides how many there are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import cast

import h11
import httpx

from eagletui.errors import ChannelError, LinkLostError, NodeError
from eagletui.nodes.http import ByteLink, Dial

READ = 1 << 16
MAX_SIZE_LINE = 1024
"""Of a chunk: a size of 16 digits, and extensions that nobody sends."""
BUFFERED = 1 << 18
"""Unread bytes of one connection: then the sender has to wait."""


class Chunked:
    """The chunked transfer coding, incremental. `done`: its last chunk and the trailers were read. Raises httpx.RemoteProtocolError."""

    __slots__ = ("_before_size", "_left", "_rest", "_trailers", "done")

    def __init__(self) -> None:
        self.done = False
        self._left = 0
        self._before_size = False
        self._trailers = False
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """What these bytes hold of the body."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        out: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.done:
            if not (self._left or self._before_size or self._trailers):
                # Nearly all: a chunk that is there wholly, with its line and its end.
                end = data.find(b"\r\n", at)
                length = _size_of(data[at:end]) if end >= 0 else 0
                stop = end + 2 + length
                if length and data[stop : stop + 2] == b"\r\n":
                    out.append(data[end + 2 : stop])
                    at = stop + 2
                    continue
            if self._left:
                part = data[at : at + self._left]
                out.append(part)
                at += len(part)
                self._left -= len(part)
                self._before_size = not self._left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._rest = data[at:]
                if len(self._rest) > MAX_SIZE_LINE:
                    raise httpx.RemoteProtocolError("a chunk's size is no size")
                break
            line = data[at:end].rstrip(b"\r")
            at = end + 1
            self._line(line)
        return out[0] if len(out) == 1 else b"".join(out)

    def _line(self, line: bytes) -> None:
        if self._trailers:
            self.done = not line
        elif self._before_size:
            if line:
                raise httpx.RemoteProtocolError("a chunk is longer than its size")
            self._before_size = False
        else:
            try:
                self._left = int(line.split(b";", 1)[0].strip(), 16)
            except ValueError:
                raise httpx.RemoteProtocolError("a chunk's size is no size") from None
            if self._left < 0:
                raise httpx.RemoteProtocolError("a chunk's size is no size")
            self._trailers = not self._left


def _size_of(line: bytes) -> int:
    """Of a chunk, 0 for what has to be looked at closely."""
    try:
        return max(0, int(line, 16))
    except ValueError:
        return 0


class TimedLink(asyncio.Protocol):
    """A TCP connection of this machine that knows when its bytes came. See http.ByteLink; `arrived`: loop time of the newest read's first byte."""

    def __init__(self, where: str) -> None:
        self.arrived = 0.0
        self._where = where
        self._loop = asyncio.get_running_loop()
        self._parts: deque[tuple[float, bytes]] = deque()
        self._size = 0
        self._eof = False
        self._broken: OSError | None = None
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        self._parts.append((self._loop.time(), data))
        self._size += len(data)
        if self._size > BUFFERED and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """See asyncio."""
        self._eof = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._eof = True
        self._broken = exc if isinstance(exc, OSError) else None
        self._room.set()
        self._wake()

    def pause_writing(self) -> None:
        """See asyncio."""
        self._room.clear()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._room.set()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def read(self, limit: int) -> bytes:  # noqa: ARG002 - what came is bounded by BUFFERED
        """See http.ByteLink."""
        while not self._parts:
            if self._broken is not None:
                raise LinkLostError(f"the connection to {self._where} broke: {self._broken.strerror or self._broken}")
            if self._eof:
                return b""
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        self.arrived = self._parts[0][0]
        data = self._parts[0][1] if len(self._parts) == 1 else b"".join(part for _, part in self._parts)
        self._parts.clear()
        self._size = 0
        if self._paused and self._transport is not None and not self._eof:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """See http.ByteLink."""
        if self._transport is None or self._transport.is_closing():
            raise LinkLostError(f"the connection to {self._where} broke")
        self._transport.write(data)
        await self._room.wait()

    @property
    def ended(self) -> bool:
        """See http.ByteLink."""
        return self._eof and not self._parts

    async def aclose(self) -> None:
        """See http.ByteLink."""
        if self._transport is not None:
            self._transport.abort()


async def dial_timed(host: str, port: int) -> TimedLink:
    """Connect to a port from this machine. Raises ChannelError."""
    where = f"{host}:{port}"
    try:
        _, link = await asyncio.get_running_loop().create_connection(lambda: TimedLink(where), host, port)
    except ConnectionRefusedError:
        raise ChannelError(f"nobody listens on {where}", refused=True) from None
    except OSError as error:
        raise ChannelError(f"cannot connect to {where}: {error.strerror or error}") from None
    return link


class StreamTransport(httpx.AsyncBaseTransport):
    """See the module. Errors are httpx's; a NodeError is their `__cause__`, as with http.NodeTransport."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._idle: dict[tuple[str, int], list[ByteLink]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        if request.url.scheme != "http":
            raise httpx.UnsupportedProtocol("asked by http, not https", request=request)
        where = (request.url.host, request.url.port or 80)
        body = await request.aread()
        while True:
            link, fresh = await self._link(where)
            try:
                return await self._asked(link, where, request, body, fresh=fresh)
            except _StaleError:
                await link.aclose()  # it was closed while it was idle: nobody read the request
            except NodeError as error:
                await link.aclose()
                raise httpx.ReadError(str(error)) from error
            except BaseException:
                await link.aclose()
                raise

    async def _link(self, where: tuple[str, int]) -> tuple[ByteLink, bool]:
        idle = self._idle.get(where, [])
        while idle:
            link = idle.pop()
            if not link.ended:
                return link, False
            await link.aclose()
        try:
            return await self._dial(*where), True
        except NodeError as error:
            raise httpx.ConnectError(str(error)) from error

    async def _asked(
        self, link: ByteLink, where: tuple[str, int], request: httpx.Request, body: bytes, *, fresh: bool
    ) -> httpx.Response:
        http = h11.Connection(h11.CLIENT)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"transfer-encoding"]
        try:
            head = http.send(h11.Request(method=request.method, target=request.url.raw_path, headers=headers)) or b""
            data = (http.send(h11.Data(data=body)) or b"") if body else b""
            data += http.send(h11.EndOfMessage()) or b""
        except h11.LocalProtocolError as error:
            raise httpx.LocalProtocolError(str(error)) from None
        try:
            sent = asyncio.get_running_loop().time()
            await link.write(head + data)
            answer = await self._head(link, http, fresh=fresh)
        except NodeError:
            if fresh:
                raise
            raise _StaleError from None
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from None
        rest, _ = http.trailing_data
        stream = _Body(self, link, where, answer, rest, has_body=request.method != "HEAD")
        arrived = stream.arrived
        told = {"arrived": arrived, "sent": sent}
        return httpx.Response(answer.status_code, headers=answer.headers.raw_items(), stream=stream, extensions=told)

    async def _head(self, link: ByteLink, http: h11.Connection, *, fresh: bool) -> h11.Response:
        came = False
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await link.read(READ)
                if not data and not came and not fresh:
                    raise _StaleError
                came = came or bool(data)
                if not data:
                    raise httpx.RemoteProtocolError("the server hung up before it answered")
                http.receive_data(data)
            elif isinstance(event, h11.Response):
                return event
            elif not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the server hung up before it answered")

    def keep(self, where: tuple[str, int], link: ByteLink) -> None:
        """A connection whose answer was read to its end can be used again."""
        self._idle.setdefault(where, []).append(link)

    async def aclose(self) -> None:
        """Close what is idle; answers that are being read close their own."""
        links = [link for idle in self._idle.values() for link in idle]
        self._idle.clear()
        await asyncio.gather(*(link.aclose() for link in links))


class _StaleError(Exception):
    """A connection that was kept had been closed."""


class _Body(httpx.AsyncByteStream):
    """What follows a head, as it comes; the connection is given back at its end, and closed when it is left before."""

    def __init__(
        self, transport: StreamTransport, link: ByteLink, where: tuple[str, int], answer: h11.Response, rest: bytes, *, has_body: bool
    ) -> None:  # fmt: skip
        self._transport = transport
        self._link = link
        self._where = where
        self._rest = rest
        headers = {bytes(name).lower(): bytes(value) for name, value in answer.headers}
        self._chunked = Chunked() if b"chunked" in headers.get(b"transfer-encoding", b"").lower() else None
        length = headers.get(b"content-length")
        self._left = int(length) if self._chunked is None and length is not None and length.isdigit() else None
        if not has_body or answer.status_code in {204, 304}:
            self._chunked, self._left = None, 0
        self._closes = b"close" in headers.get(b"connection", b"").lower() or answer.http_version == b"1.0"
        self._open = True

    def arrived(self) -> float:
        """Loop time at which the newest bytes came."""
        at = getattr(self._link, "arrived", None)
        return at if isinstance(at, float) and at else asyncio.get_running_loop().time()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        data, self._rest = self._rest, b""
        while True:
            if data:
                part = self._decoded(data)
                if part:
                    yield part
            if self._chunked.done if self._chunked is not None else self._left == 0:
                await self._done()
                return
            try:
                data = await self._link.read(READ)
            except NodeError as error:
                await self.aclose()
                raise httpx.ReadError(str(error)) from error
            if not data:
                await self.aclose()
                if self._chunked is None and self._left is None:
                    return  # it ends with the connection
                raise httpx.RemoteProtocolError("the answer was cut before its end")

    def _decoded(self, data: bytes) -> bytes:
        if self._chunked is not None:
            return self._chunked.feed(data)
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        return data

    async def _done(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._closes or self._link.ended:
            await self._link.aclose()
        else:
            self._transport.keep(self._where, self._link)

    async def aclose(self) -> None:
        """See httpx."""
        if self._open:
            self._open = False
            await self._link.aclose()
