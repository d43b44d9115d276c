"""A completions server of known pace, a process of its own: what a client measures is held against what was really sent.

`python -m tests.paced_server` prints its port and serves until its stdin ends. POST /v1/completions, /v1/chat/completions and /generate stream
`max_tokens` tokens; the request's `user` field may hold JSON that says how: {"ttft": s, "pace": s a chunk, "tokens": in a chunk, "cut_after": chunks,
"status": N, "error_after": chunks, "silent": s before the head, "usage": false, "running": true}. GET /measured gives what was sent since the last
time it was asked, a list of {"tokens", "first": s after the request was read, "last": likewise}; GET /asked all requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

MODELS = {"object": "list", "data": [{"id": "paced", "object": "model", "owned_by": "vllm"}]}


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _head(status: int, kind: str, length: int | None) -> bytes:
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode()


class Ticker:
    """Streams of one pace are written in one go: a timer each would be more than Python does 64,000 times a second."""

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.streams: set[Stream] = set()
        self._running: asyncio.Task[None] | None = None

    def add(self, stream: Stream) -> None:
        self.streams.add(stream)
        if self._running is None:
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while self.streams:
            due += self.pace
            await asyncio.sleep(max(0.0, due - loop.time()))
            for stream in list(self.streams):
                if stream.tick():
                    self.streams.discard(stream)
        self._running = None


class Stream:
    """One answer under way."""

    def __init__(self, connection: Connection, body: dict[str, Any], how: dict[str, Any], path: str) -> None:
        self.connection = connection
        self.how = how
        self.path = path
        sampling = body.get("sampling_params", {})
        self.left = int(body.get("max_tokens") or sampling.get("max_new_tokens") or 16)
        self.total = self.left
        self.chunks = 0
        self.read_at = asyncio.get_running_loop().time()
        self.first: float | None = None
        self.last = 0.0
        self.prompt = len(body.get("prompt") or body.get("input_ids") or "")

    def tick(self) -> bool:
        """Write the next chunk. True when it was the last."""
        now = asyncio.get_running_loop().time() - self.read_at
        if self.first is None:
            if now < self.how.get("ttft", 0.0):
                return False
            self.first = now
        if self.how.get("cut_after") == self.chunks or self.connection.transport.is_closing():
            self.connection.transport.close()
            return True
        if self.how.get("error_after") == self.chunks:
            self.write({"error": {"message": "CUDA out of memory"}})
            return self.end()
        count = min(self.left, int(self.how.get("tokens", 1)))
        self.left -= count
        self.chunks += 1
        self.last = now
        self.write(self.event(count))
        return self.left == 0 and self.end()

    def event(self, count: int) -> dict[str, Any]:
        done = self.total - self.left
        finish = None if self.left else "length"
        if self.path == "/generate":
            reason = None if finish is None else {"type": finish}
            return {
                "text": "w" * done,
                "meta_info": {"completion_tokens": done, "prompt_tokens": self.prompt, "finish_reason": reason},
            }
        usage = {"completion_tokens": done, "prompt_tokens": self.prompt} if self.how.get("running") else None
        part = {"delta": {"content": " w" * count}} if "chat" in self.path else {"text": " w" * count}
        return {"id": "c", "choices": [{"index": 0, **part, "finish_reason": finish}], "usage": usage}

    def write(self, event: dict[str, Any]) -> None:
        self.connection.transport.write(_chunk(b"data: " + json.dumps(event).encode() + b"\n\n"))

    def end(self) -> bool:
        write = self.connection.transport.write
        if self.path != "/generate" and self.how.get("usage", True):
            self.write({"choices": [], "usage": {"completion_tokens": self.total, "prompt_tokens": self.prompt}})
        write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        self.connection.server.measured.append({"tokens": self.total, "first": self.first, "last": self.last})
        return True


class Connection(asyncio.Protocol):
    """One after the other, requests of one client."""

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self.server = server
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, _, rest = self.data.partition(b"\r\n\r\n")
            fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
            length = int(fields.get(b"content-length", b"0"))
            if len(rest) < length:
                return
            self.data = rest[length:]
            method, path, _ = head.split(b" ", 2)
            self.server.answer(self, method.decode(), path.decode(), rest[:length])


class Server:
    """See the module."""

    def __init__(self) -> None:
        self.measured: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.tickers: dict[float, Ticker] = {}

    def answer(self, connection: Connection, method: str, path: str, body: bytes) -> None:
        if method == "GET":
            told: Any = {"/v1/models": MODELS, "/measured": self.measured, "/asked": self.asked}.get(path)
            data = json.dumps(told).encode()
            connection.transport.write(_head(200 if told is not None else 404, "application/json", len(data)) + data)
            if path == "/measured":
                self.measured = []
            return
        request = json.loads(body)
        self.asked.append({"path": path, **request})
        how = json.loads(request.get("user") or "{}")
        if how.get("status", 200) != 200:
            data = json.dumps({"error": {"message": how.get("message", "no")}}).encode()
            connection.transport.write(_head(how["status"], "application/json", len(data)) + data)
            return
        pace = float(how.get("pace", 0.001))
        stream = Stream(connection, request, how, path)

        def begin() -> None:
            connection.transport.write(_head(200, "text/event-stream", None))
            self.tickers.setdefault(pace, Ticker(pace)).add(stream)

        asyncio.get_running_loop().call_later(how.get("silent", 0.0), begin)


async def serve() -> None:
    """Until stdin ends."""
    loop = asyncio.get_running_loop()
    server = Server()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{listening.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    listening.close()


@dataclass(frozen=True, slots=True)
class Paced:
    """A running one."""

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def paced_server() -> Iterator[Paced]:
    """One in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.paced_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield Paced(int(process.stdout.readline()))
    finally:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait(5)
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve())
