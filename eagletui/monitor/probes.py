"""HTTP questions to a server on the node: when to ask, and what an answer or its absence means."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

from eagletui.errors import ChannelError
from eagletui.nodes.base import Node

if TYPE_CHECKING:
    import httpx

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


def failure(error: httpx.HTTPError | TimeoutError) -> tuple[str, str]:
    """A word and a sentence for a request that got no answer."""
    import httpx

    cause = error.__cause__
    while cause is not None and not isinstance(cause, ChannelError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ChannelError) and cause.forbidden:
        return "forbidden", "the node's sshd forbids forwarding (AllowTcpForwarding), so HTTP cannot be asked"
    if isinstance(cause, ChannelError) and cause.refused:
        return "refused", "nothing listens there yet"
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        return "refused", "nothing listens there yet"
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return "timeout", "it did not answer in time"
    return "closed", "it closed the connection without an answer"


class Prober:
    """Asks one server over the node's link. One request at a time a path is the caller's business."""

    def __init__(self, node: Node, host: str, port: int) -> None:
        load_httpx()
        import httpx

        shown = f"[{host}]" if ":" in host else host
        self._client = httpx.AsyncClient(
            transport=node.http_transport(),
            base_url=f"http://{shown}:{port}",
            trust_env=False,
            headers={"user-agent": "eagletui"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def get(self, path: str, timeout_s: float) -> Answer:
        """One GET. Never raises for anything that the server or the link does."""
        import httpx

        began = time.monotonic()
        body = bytearray()
        try:
            async with self._client.stream("GET", path, timeout=httpx.Timeout(timeout_s)) as reply:
                async for chunk in reply.aiter_bytes():
                    body += chunk
                    if len(body) >= BODY_LIMIT or time.monotonic() - began > timeout_s:
                        break
        except (httpx.HTTPError, TimeoutError) as error:
            word, sentence = failure(error)
            return Answer(None, None, error=word, detail=sentence)
        return Answer(reply.status_code, (time.monotonic() - began) * 1000, bytes(body[:BODY_LIMIT]))

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
