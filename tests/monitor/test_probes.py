"""HTTP questions to servers that misbehave, over the local node."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from eagletui.errors import ChannelError, LinkLostError
from eagletui.monitor.probes import Prober, failure, health_interval_s
from eagletui.nodes.local import LocalNode
from eagletui.shell.fetch import BODY_LIMIT

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def asking(talk: Talk) -> AsyncIterator[Prober]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    node = LocalNode()
    await node.connect()
    async with Prober(node, "127.0.0.1", server.sockets[0].getsockname()[1]) as prober:
        yield prober
    server.close()
    await node.aclose()


async def test_a_reset_is_an_answer_that_did_not_come() -> None:
    """httpx's chain of causes is a ring then; walking it must end."""

    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with asking(reset) as prober, asyncio.timeout(10):
        answer = await prober.get("/health", 3)
    assert (answer.status, answer.error) == (None, "closed")


def test_causes_in_a_ring() -> None:
    error, other = httpx.ReadError("x"), OSError()
    error.__cause__, other.__context__ = other, error
    assert failure(error)[0] == "closed"


async def test_drops_of_a_header_do_not_stretch_the_deadline() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" * 100:
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0.2)

    async with asking(drip) as prober:
        began = time.monotonic()
        answer = await prober.get("/health", 1)
    assert answer.error == "timeout"
    assert time.monotonic() - began < 4


async def test_an_endless_body_is_cut() -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with asking(flood) as prober:
        answer = await prober.get("/metrics", 20)
    assert answer.status == 200
    assert len(answer.body) == BODY_LIMIT


async def test_a_small_gzip_stays_small() -> None:
    packed = gzip.compress(b"\0" * (64 << 20))

    async def bomb(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
        await writer.drain()

    async with asking(bomb) as prober:
        answer = await prober.get("/health", 5)
    assert answer.body == packed


async def test_nobody_there_is_refused() -> None:
    node = LocalNode()
    await node.connect()
    async with Prober(node, "127.0.0.1", 1) as prober:
        assert (await prober.get("/health", 3)).error == "refused"
    await node.aclose()


@pytest.mark.parametrize(
    ("cause", "word"),
    [
        (ChannelError("no", forbidden=True), "forbidden"),
        (ChannelError("no", refused=True), "refused"),
        (None, "refused"),
    ],
)
def test_why_a_connection_was_not_made(cause: Exception | None, word: str) -> None:
    error = httpx.ConnectError("x")
    error.__cause__ = cause
    assert failure(error)[0] == word


def test_a_lost_link_is_no_answer_of_the_server() -> None:
    error = httpx.ConnectError("x")
    error.__cause__ = LinkLostError("the link to n is lost")
    with pytest.raises(LinkLostError):
        failure(error)


@pytest.mark.parametrize(
    ("ready", "status", "seconds"),
    [(False, None, 2), (False, 503, 0.5), (True, 200, 10), (True, 503, 0.5), (True, None, 2), (False, 404, 2)],
)
def test_how_often_health_is_asked(ready: bool, status: int | None, seconds: float) -> None:
    assert health_interval_s(ready=ready, last_status=status) == seconds


async def test_a_connection_that_closes_with_the_link_is_no_answer_of_the_server() -> None:
    """The link's end is known a moment after the end of what went through it."""

    class Breaking(LocalNode):
        async def ping(self) -> float:
            raise LinkLostError("the link is lost")

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server, Prober(Breaking(), "127.0.0.1", server.sockets[0].getsockname()[1]) as prober:
        with pytest.raises(LinkLostError):
            await prober.get("/health", 5)
