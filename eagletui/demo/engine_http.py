"""The simulated engine's HTTP/1.1 over one forwarded connection: GETs, and generation with and without a stream.

Shapes are those of SGLang 0.5 (recorded): uvicorn's headers, `data: {…}` events and `[DONE]`, `{"detail": …}`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol

import h11

from eagletui.demo.engine import Engine
from eagletui.demo.jobs import GENERATING, Job, RefusedError
from eagletui.demo.load import PREFILL_S, Request

BODY_LIMIT: Final = 8 << 20
READ_SIZE: Final = 1 << 16
HANG_TOLD_S: Final = 20.0
"""SGLang's own limit for a health request that no token answers."""
HANG_LOOK_S: Final = 0.5
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream; charset=utf-8"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


class ByteReader(Protocol):
    """What is read from."""

    async def read(self, n: int = -1, /) -> bytes:
        """At most n bytes, b"" at the end."""


class ByteWriter(Protocol):
    """What is written to; `drain` waits while the other side's window is full."""

    def write(self, data: bytes, /) -> None:
        """Send."""

    async def drain(self) -> None:
        """Wait until there is room."""


class HttpLink:
    """One connection to the engine, with keep-alive. `now` gives the node's clock."""

    def __init__(self, engine: Engine, reader: ByteReader, writer: ByteWriter, now: Callable[[], float]) -> None:
        self._engine = engine
        self._reader = reader
        self._writer = writer
        self._now = now
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=READ_SIZE)
        self._port = engine.load.free_port()
        self._bodiless = False

    async def run(self) -> None:
        """Answer requests until the client is done or talks nonsense. Raises what the reader and writer raise."""
        try:
            while (request := await self._request()) is not None:
                if self._engine.is_gone(self._now()):
                    return
                await self._answer(*request)
                if self._h11.our_state is h11.MUST_CLOSE or self._h11.their_state is not h11.DONE:
                    return
                self._h11.start_next_cycle()
        except h11.RemoteProtocolError as error:
            if self._h11.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                await self._whole(error.error_status_hint, "text/plain", b"Invalid HTTP request received.")

    async def _event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while True:
            event = self._h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._h11.receive_data(await self._reader.read(READ_SIZE))

    async def _request(self) -> tuple[h11.Request, bytes] | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = await self._event()
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_LIMIT:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return head, bytes(body)
            else:
                return None

    async def _send(self, *events: h11.Event) -> None:
        for event in events:
            data = self._h11.send(event)
            if data:
                self._writer.write(data)
        await self._writer.drain()

    def _head(self, status: int, kind: str, length: int | None) -> h11.Response:
        headers = [("date", formatdate(self._now(), usegmt=True)), ("server", "uvicorn")]
        if length is not None:
            headers.append(("content-length", str(length)))
        if kind:
            headers.append(("content-type", kind))
        if length is None:
            headers.append(("transfer-encoding", "chunked"))
        return h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode())

    async def _whole(self, status: int, kind: str, body: bytes) -> None:
        events: list[h11.Event] = [self._head(status, kind, len(body))]
        if body and not self._bodiless:
            events.append(h11.Data(data=body))
        await self._send(*events, h11.EndOfMessage())

    async def _answer(self, head: h11.Request, body: bytes) -> None:
        method, target = head.method.decode(), head.target.decode("latin-1")
        path = target.partition("?")[0]
        self._bodiless = method == "HEAD"
        engine = self._engine
        engine.advance(self._now())
        if path in GENERATING and method == "POST":
            await self._generate(path, body)
            return
        kind, status, out = JSON, 200, b""
        if method != "GET" or path in GENERATING:
            status, out = 405, b'{"detail":"Method Not Allowed"}'
        elif path == "/health":
            kind, status = "", await self._health()
        elif path == "/health_generate":
            kind, status = "", await self._generated_health()
        elif path == "/metrics":
            kind, out = METRICS, engine.metrics(self._now())
        elif (found := engine.body(path, self._now())) is not None:
            out = found
        else:
            status, out = 404, b'{"detail":"Not Found"}'
        engine.answered(self._now(), method, target, status, self._port)
        await self._whole(status, kind, out)

    async def _health(self) -> int:
        if self._engine.http_state(self._now()) != "ready":
            return 503
        await asyncio.sleep(self._engine.probe(self._now()))
        return 200

    async def _generated_health(self) -> int:
        """A token has to come for this one: a scheduler that hangs gives 503 after a while."""
        if self._engine.no_tokens(self._now()):
            await asyncio.sleep(HANG_TOLD_S / self._engine.speed)
            return 503
        return await self._health()

    # Generation

    async def _generate(self, path: str, body: bytes) -> None:
        engine = self._engine
        try:
            job = Job(path, body)
        except RefusedError as error:
            engine.answered(self._now(), "POST", path, 400, self._port)
            said = {"object": "error", "message": str(error), "type": "BadRequestError", "param": None, "code": 400}
            await self._whole(400, JSON, json.dumps(said).encode())
            return
        await asyncio.sleep(engine.ready_in(self._now()))
        request = engine.begin(self._now(), job.prompt_tokens)
        try:
            if job.stream:
                await self._stream(job, request)
            else:
                async for _ in self._steps(job, request):
                    pass
                engine.answered(self._now(), "POST", path, 200, self._port)
                await self._whole(200, JSON, job.whole(self._now()))
        finally:
            engine.end(self._now(), request)

    async def _steps(self, job: Job, request: Request) -> AsyncIterator[int]:
        """Wait for each step of the engine, and say how many tokens it gave."""
        engine = self._engine
        due = self._now() + PREFILL_S / engine.speed
        while job.done < job.tokens:
            while engine.no_tokens(self._now()) and not engine.is_gone(self._now()):  # noqa: ASYNC110 - simulated time has no event
                await asyncio.sleep(HANG_LOOK_S)  # no token comes any more
            await asyncio.sleep(max(0.0, due - self._now()))
            if engine.is_gone(self._now()):
                raise ConnectionResetError("the server ended")
            tokens = engine.step(self._now(), request, job.tokens - job.done)
            job.done += tokens
            due += engine.step_seconds(tokens, request)
            yield tokens

    async def _stream(self, job: Job, request: Request) -> None:
        self._engine.answered(self._now(), "POST", job.path, 200, self._port)
        await self._send(self._head(200, EVENTS, None))
        first = True
        async for tokens in self._steps(job, request):
            for event in job.events(tokens, first, self._now()):
                await self._send(h11.Data(data=b"data: " + event + b"\n\n"))
            first = False
        if job.usage_at_end:
            await self._send(h11.Data(data=b"data: " + job.last(self._now()) + b"\n\n"))
        await self._send(h11.Data(data=b"data: [DONE]\n\n"), h11.EndOfMessage())
