"""The lean HTTP body: chunked coding at every split, and what a server may do to a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.nodes.streaming import Chunked, StreamTransport, dial_timed

BODY = b"4\r\nwiki\r\n6;ext=1\r\npedia \r\nB\r\nin \r\nchunks\r\n0\r\nTrailer: x\r\n\r\n"


@given(st.lists(st.integers(0, len(BODY)), max_size=8))
@settings(max_examples=60, deadline=None)
def test_chunks_wherever_they_are_cut(cuts: list[int]) -> None:
    decoder, out, before = Chunked(), b"", 0
    for cut in [*sorted(cuts), len(BODY)]:
        out += decoder.feed(BODY[before:cut])
        before = cut
    assert (out, decoder.done) == (b"wikipedia in \r\nchunks", True)


@pytest.mark.parametrize("wrong", [b"x\r\nwiki\r\n", b"-4\r\nwiki\r\n", b"3\r\nwiki\r\n", b"1" * 2000])
def test_what_is_no_chunk_is_said(wrong: bytes) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        Chunked().feed(wrong)


Answers = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served(answers: Answers) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answers(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, httpx.AsyncClient(transport=StreamTransport(dial_timed), timeout=5) as client:
        yield client, f"http://127.0.0.1:{port}/"


def once(answer: bytes) -> Answers:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    return answers


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY, "wikipedia in \r\nchunks"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil it hangs up", "until it hangs up"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", ""),
    ],
)
async def test_each_framing(answer: bytes, text: str) -> None:
    async with served(once(answer)) as (client, url):
        assert (await client.get(url)).text == text


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwi", "cut before its end"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "cut before its end"),
        (b"", "hung up before it answered"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "."),
    ],
)
async def test_each_break_is_an_error(answer: bytes, why: str) -> None:
    async with served(once(answer)) as (client, url):
        with pytest.raises(httpx.RemoteProtocolError, match=why):
            await client.get(url)


async def test_a_connection_is_used_again_and_one_that_was_closed_meanwhile_is_replaced() -> None:
    seen: list[int] = []

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):  # then it hangs up, as a server does with an idle connection
            await reader.readuntil(b"\r\n\r\n")
            seen.append(writer.get_extra_info("peername")[1])
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()

    async with served(answers) as (client, url):
        for _ in range(4):
            assert (await client.get(url)).text == "ok"
            await asyncio.sleep(0.02)
    assert seen[0] == seen[1] != seen[2] == seen[3]


async def test_nobody_there_is_a_connect_error() -> None:
    async with served(once(b"")) as (_, url):
        pass
    async with httpx.AsyncClient(transport=StreamTransport(dial_timed)) as client:
        with pytest.raises(httpx.ConnectError, match="nobody listens"):
            await client.get(url)


async def test_a_slow_reader_stops_the_writer_and_loses_nothing() -> None:
    size = 3 << 20

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size >> 16):
            writer.write(b"x" * (1 << 16))
            await writer.drain()

    async with served(answers) as (client, url), client.stream("GET", url) as response:
        came = 0
        async for part in response.aiter_raw():
            assert len(part) <= (1 << 18) + (1 << 18)
            came += len(part)
            if came < 1 << 19:
                await asyncio.sleep(0.01)
    assert came == size
