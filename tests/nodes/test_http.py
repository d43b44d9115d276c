"""HTTP that a node makes: through a forwarding of a real sshd, without a port of ours, and through nothing at all."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from eagletui.errors import LinkLostError
from eagletui.nodes.http import channel_error
from eagletui.nodes.local import LocalNode
from eagletui.nodes.ssh import SshNode
from tests.sshd import Sshd, free_port, start_sshd


class Server:
    """A small HTTP server on 127.0.0.1 whose /stream goes on as the test says."""

    def __init__(self) -> None:
        self.port = 0
        self.go = asyncio.Event()
        self.connections = 0
        self.bodies: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await self.answer(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                self.bodies.append(await reader.readexactly(int(fields.get(b"Content-Length", b"0"))))
                path = head.split()[1]
                if not await self.send(path, writer):
                    break

    async def send(self, path: bytes, writer: asyncio.StreamWriter) -> bool:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        if path == b"/health":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        elif path == b"/busy":
            writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
        elif path == b"/stream":
            writer.write(chunked + b"5\r\nfirst\r\n")
            await self.go.wait()
            writer.write(b"6\r\nsecond\r\n0\r\n\r\n")
        elif path == b"/half":
            writer.write(chunked + b"5\r\nfirst\r\n")
            return False
        elif path == b"/hang":
            await asyncio.sleep(60)
        elif path == b"/flood":
            writer.write(chunked)
            for _ in range(320):
                writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    served = Server()
    listening = await asyncio.start_server(served.accept, "127.0.0.1", 0)
    served.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield served
        await served.end()


@pytest.fixture
async def node(sshd_server: Sshd) -> AsyncIterator[SshNode]:
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    await node.connect()
    yield node
    await node.aclose()


def client_of(node: SshNode | LocalNode, server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=node.http_transport(), base_url=f"http://127.0.0.1:{server.port}", timeout=5)


@pytest.fixture(params=["ssh", "local"])
async def either(request: pytest.FixtureRequest, sshd_server: Sshd) -> AsyncIterator[SshNode | LocalNode]:
    node = SshNode(sshd_server.target(), config_file=sshd_server.config) if request.param == "ssh" else LocalNode()
    await node.connect()
    yield node
    await node.aclose()


async def test_answers(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client:
        assert (await client.get("/health")).text == "ok"
        assert (await client.get("/busy")).status_code == 503
        await client.post("/health", content=b"z" * 3_000_000)
        assert server.bodies[-1] == b"z" * 3_000_000
        assert server.connections == 1, "a connection is kept"


async def test_a_body_is_streamed(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client, client.stream("GET", "/stream") as response:
        parts = response.aiter_bytes()
        assert await anext(parts) == b"first"
        server.go.set()
        assert b"".join([p async for p in parts]) == b"second"


async def test_a_large_body_and_many_at_once(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client:
        assert len((await client.get("/flood")).content) == 320 * 65536
        answers = await asyncio.gather(*(client.get("/health") for _ in range(64)))
        assert {a.text for a in answers} == {"ok"}


async def test_a_server_that_dies_in_its_answer(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/half")
        assert (await client.get("/health")).text == "ok"


async def test_timeouts(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client:
        begin = time.monotonic()
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/hang", timeout=0.3)
        assert time.monotonic() - begin < 2
        assert (await client.get("/health")).text == "ok"


async def test_nobody_listens(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client:
        with pytest.raises(httpx.ConnectError) as caught:
            await client.get(f"http://127.0.0.1:{free_port()}/health")
    error = channel_error(caught.value)
    assert error is not None
    assert (error.refused, error.forbidden) == (True, False)


async def test_https_is_refused_with_a_sentence(either: SshNode | LocalNode, server: Server) -> None:
    async with client_of(either, server) as client:
        with pytest.raises(httpx.UnsupportedProtocol, match="not https"):
            await client.get(f"https://127.0.0.1:{server.port}/health")


@pytest.mark.parametrize("option", ["AllowTcpForwarding no", "PermitOpen none", "DisableForwarding yes"])
async def test_forbidden_forwarding(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, server: Server, option: str
) -> None:
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, (option,)) as sshd:
        node = SshNode(sshd.target(), config_file=sshd.config)
        await node.connect()
        async with client_of(node, server) as client:
            with pytest.raises(httpx.ConnectError) as caught:
                await client.get("/health")
        assert await node.ping() > 0
        await node.aclose()
    error = channel_error(caught.value)
    assert error is not None
    assert (error.refused, error.forbidden) == (False, True)
    assert "AllowTcpForwarding" in str(error)


async def test_forwarding_needs_no_session(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, server: Server
) -> None:
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, ("MaxSessions 0",)) as sshd:
        node = SshNode(sshd.target(), config_file=sshd.config)
        await node.connect()
        async with client_of(node, server) as client:
            assert (await client.get("/health")).text == "ok"
        await node.aclose()


async def test_a_cut_link(sshd_server: Sshd, server: Server) -> None:
    before = set(sshd_server.connections())
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    await node.connect()
    async with client_of(node, server) as client:
        async with client.stream("GET", "/stream") as response:
            parts = response.aiter_bytes()
            assert await anext(parts) == b"first"
            assert sshd_server.send_since(before, signal.SIGKILL)
            with pytest.raises(httpx.ReadError) as caught:
                await anext(parts)
        assert isinstance(caught.value.__cause__, LinkLostError)
        with pytest.raises(httpx.ConnectError) as again:
            await client.get("/health")
        assert isinstance(again.value.__cause__, LinkLostError)
        await node.connect()
        assert (await client.get("/health")).text == "ok"
    await node.aclose()


def listening() -> set[str]:
    """Inodes of the TCP sockets on which this process listens."""
    mine = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            mine.add(str(link.readlink()))
    found = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A":
                found.add(f"socket:[{fields[9]}]")
    return found & mine


async def test_no_port_is_opened_here(sshd_server: Sshd, server: Server) -> None:
    before = listening()
    assert len(before) == 1, "the small HTTP server of this test, so the measurement sees something"
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    await node.connect()
    async with client_of(node, server) as client, client.stream("GET", "/stream") as response:
        assert await anext(response.aiter_bytes()) == b"first"
        assert listening() == before
        server.go.set()
    await node.aclose()
