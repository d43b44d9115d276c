"""HTTP questions to a server on the node: when to ask, and what an answer or its absence means."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from eagletui.errors import ChannelError, LinkLostError
from eagletui.nodes.base import Node

STARTING_EVERY_S = 2.0
WARMING_EVERY_S = 0.5
"""Once it answered 503 it is seconds from ready: asked oftener, so that readiness is on the screen within a second."""
READY_EVERY_S = 10.0
"""Each /health of SGLang costs a token and a log line, so a ready server is asked seldom."""
HEALTH_TIMEOUT_S = 25.0
"""A busy SGLang took 8 s to answer; one with a stuck scheduler answers 503 after 20 s by itself."""
BODY_LIMIT = 4 << 20
"""Bytes of a body that are read: /metrics of a real server has 85 KB."""


def health_interval_s(*, ready: bool, last_status: int | None) -> float:
    """Seconds between two /health probes."""
    if ready and last_status == 200:
        return READY_EVERY_S
    return WARMING_EVERY_S if last_status == 503 else STARTING_EVERY_S


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `error` is one word when nothing did: refused, forbidden, timeout, closed; `detail` a sentence for it."""

    status: int | None
    latency_ms: float | None
    body: bytes = b""
    error: str | None = None
    detail: str | None = None


def load_httpx() -> None:
    """Import httpx without its command line, which brings all of rich: that halves its 0.3 s. Safe to call in a thread, and again."""
    if "httpx" not in sys.modules:
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    import httpx  # noqa: F401


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it. The chain can be a ring: an OSError may be its own context."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


def failure(error: BaseException) -> tuple[str, str]:
    """A word and a sentence for a request that got no answer. Raises LinkLostError when it is the link that is gone."""
    import httpx

    for cause in _causes(error):
        # While connecting it is the link to the node; later it may be just this connection that broke.
        if isinstance(cause, LinkLostError) and isinstance(error, httpx.ConnectError):
            raise LinkLostError(str(cause)) from None
        if isinstance(cause, ChannelError) and cause.forbidden:
            return "forbidden", "the node's sshd forbids forwarding (AllowTcpForwarding), so HTTP cannot be asked"
        if isinstance(cause, ChannelError) and cause.refused:
            return "refused", "nothing listens there yet"
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return "timeout", "it did not answer in time"
    if isinstance(error, httpx.ConnectError):
        return "refused", "nothing listens there yet"
    return "closed", "it closed the connection without an answer"


class Prober:
    """Asks one server over the node's link. One request at a time a path is the caller's business."""

    def __init__(self, node: Node, host: str, port: int) -> None:
        load_httpx()
        import httpx

        self._base = ""
        self.aim(host, port)
        # Bodies come as they are sent: a few bytes of gzip can be gigabytes.
        headers = {"user-agent": "eagletui", "accept-encoding": "identity"}
        self._client = httpx.AsyncClient(transport=node.http_transport(), trust_env=False, headers=headers)

    def aim(self, host: str, port: int) -> None:
        """Ask there from now on."""
        self._base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def get(self, path: str, timeout_s: float) -> Answer:
        """One GET, answered or given up within its seconds whatever the server does. Raises LinkLostError when the link is gone."""
        import httpx

        began = time.monotonic()
        body = bytearray()
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._client.stream("GET", self._base + path, timeout=httpx.Timeout(timeout_s)) as reply,
            ):
                async for chunk in reply.aiter_raw():
                    body += chunk
                    if len(body) >= BODY_LIMIT:
                        break
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            word, sentence = failure(error)
            return Answer(None, None, error=word, detail=sentence)
        return Answer(reply.status_code, (time.monotonic() - began) * 1000, bytes(body[:BODY_LIMIT]))

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
