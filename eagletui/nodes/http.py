"""HTTP over whatever a node can open: an httpcore network backend on byte links, and the httpx transport around it.
Opens no port here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from ssl import SSLContext
from types import TracebackType
from typing import Any, Protocol, Self

import httpcore
import httpx

from eagletui.errors import ChannelError, NodeError

MAX_CONNECTIONS = 100
"""A benchmark at 64 streams fits; every one is a channel on the one SSH connection."""
KEEP_CONNECTIONS = 20
KEEP_SECONDS = 30.0


class ByteLink(Protocol):
    """A connection to a port of the node. Methods raise NodeError subclasses only."""

    async def read(self, limit: int) -> bytes:
        """Next bytes, b"" at the end. Raises LinkLostError."""

    async def write(self, data: bytes) -> None:
        """Send, waiting while the other side does not read. Raises LinkLostError."""

    @property
    def ended(self) -> bool:
        """Whether the other side closed it and everything was read."""

    async def aclose(self) -> None:
        """Close. Never raises."""


Dial = Callable[[str, int], Awaitable[ByteLink]]
"""Opens a connection from the node to (host, port). Raises ChannelError (refused, forbidden), LinkLostError."""


class _DialError(httpcore.ConnectError):
    """httpcore raises errors on `from None`, which drops their cause; this one carries it."""

    def __init__(self, error: NodeError) -> None:
        super().__init__(str(error))
        self.error = error


class _BrokenError(httpcore.ReadError):
    def __init__(self, error: NodeError) -> None:
        super().__init__(str(error))
        self.error = error


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, link: ByteLink) -> None:
        self._link = link

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        try:
            async with asyncio.timeout(timeout):
                return await self._link.read(max_bytes)
        except TimeoutError:
            raise httpcore.ReadTimeout(f"no answer in {timeout:g} s") from None
        except NodeError as exc:
            raise _BrokenError(exc) from exc

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's signature
        try:
            async with asyncio.timeout(timeout):
                await self._link.write(buffer)
        except TimeoutError:
            raise httpcore.WriteTimeout(f"the request was not taken in {timeout:g} s") from None
        except NodeError as exc:
            raise _BrokenError(exc) from exc

    async def aclose(self) -> None:
        await self._link.aclose()

    async def start_tls(
        self,
        ssl_context: SSLContext,  # noqa: ARG002 - httpcore's signature
        server_hostname: str | None = None,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        await self.aclose()
        raise httpcore.UnsupportedProtocol("no TLS on a node's link")

    def get_extra_info(self, info: str) -> Any:
        # The pool asks this of an idle connection: readable then means that the server hung up.
        return self._link.ended if info == "is_readable" else None


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, dial: Dial) -> None:
        self._dial = dial

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,  # noqa: ARG002 - of this machine: means nothing there
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                return _Stream(await self._dial(host, port))
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"no connection to {host}:{port} in {timeout:g} s") from None
        except NodeError as exc:
            raise _DialError(exc) from exc

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_HTTPX_ERRORS: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (httpcore.ConnectTimeout, httpx.ConnectTimeout),
    (httpcore.ReadTimeout, httpx.ReadTimeout),
    (httpcore.WriteTimeout, httpx.WriteTimeout),
    (httpcore.PoolTimeout, httpx.PoolTimeout),
    (httpcore.ConnectError, httpx.ConnectError),
    (httpcore.ReadError, httpx.ReadError),
    (httpcore.WriteError, httpx.WriteError),
    (httpcore.LocalProtocolError, httpx.LocalProtocolError),
    (httpcore.RemoteProtocolError, httpx.RemoteProtocolError),
    (httpcore.UnsupportedProtocol, httpx.UnsupportedProtocol),
    (httpcore.TimeoutException, httpx.TimeoutException),
    (httpcore.NetworkError, httpx.NetworkError),
    (httpcore.ProtocolError, httpx.ProtocolError),
)


class _Translated:
    """Turns httpcore's errors into httpx's; a NodeError becomes the new error's `__cause__`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for core, public in _HTTPX_ERRORS:
            if isinstance(exc, core):
                raise public(str(exc)) from (exc.error if isinstance(exc, _DialError | _BrokenError) else exc)


class _Body(httpx.AsyncByteStream):
    def __init__(self, parts: Any) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _Translated():
            async for part in self._parts:
                yield part

    async def aclose(self) -> None:
        with _Translated():
            await self._parts.aclose()


class NodeTransport(httpx.AsyncBaseTransport):
    """Requests that a node makes. httpx.ConnectError carries a ChannelError (`refused`, `forbidden`) or
    LinkLostError as its `__cause__`.
    """

    def __init__(self, dial: Dial) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            network_backend=_Backend(dial),
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=KEEP_CONNECTIONS,
            keepalive_expiry=KEEP_SECONDS,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        if request.url.scheme != "http":
            raise httpx.UnsupportedProtocol("a server on a node is asked by http, not https", request=request)
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise httpx.LocalProtocolError("the body of a request must be asynchronous", request=request)
        asked = httpcore.Request(
            method=request.method,
            url=httpcore.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _Translated():
            answer = await self._pool.handle_async_request(asked)
        return httpx.Response(
            status_code=answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """Close every connection."""
        with _Translated():
            await self._pool.aclose()


def channel_error(error: httpx.TransportError) -> ChannelError | None:
    """Why a node could not open the connection, or None where that was not the trouble."""
    return error.__cause__ if isinstance(error.__cause__, ChannelError) else None
