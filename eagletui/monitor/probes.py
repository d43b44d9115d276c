"""HTTP questions to a server on the node: when to ask, and what an answer or its absence means."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from eagletui.errors import ChannelError, CommandTimeout, LinkLostError, NodeError
from eagletui.nodes.base import Node
from eagletui.shell.fetch import BODY_LIMIT, Fetched, ask_http, parse_fetch

STARTING_EVERY_S = 2.0
WARMING_EVERY_S = 0.5
"""Once it answered 503 it is seconds from ready: asked oftener, so that readiness is on the screen within a second."""
READY_EVERY_S = 10.0
"""Each /health of SGLang costs a token and a log line, so a ready server is asked seldom."""
HEALTH_TIMEOUT_S = 25.0
"""A busy SGLang took 8 s to answer; one with a stuck scheduler answers 503 after 20 s by itself."""
TOOL_LIMIT_S = 8.0
"""curl on the node looks at no stdin, so its deadline alone ends it there: within ten seconds of our own end."""
GRACE_S = 4.0
"""Beyond the tool's deadline: `timeout` gives it a second, the login shell and the round trip take theirs."""
NO_TOOL_RETRY_S = 60.0
"""A node without curl is looked at again, but not each second."""


def health_interval_s(*, ready: bool, last_status: int | None) -> float:
    """Seconds between two /health probes."""
    if ready and last_status == 200:
        return READY_EVERY_S
    return WARMING_EVERY_S if last_status == 503 else STARTING_EVERY_S


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `error` is one word when nothing did: refused, forbidden, timeout, closed; `detail` a sentence for it.

    `detail` beside a status says how it was asked, where that was not by forwarding; `latency_ms` is then the tool's own time, None where it tells none.
    """

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
            return "refused", _SENTENCES["refused"]
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return "timeout", _SENTENCES["timeout"]
    if isinstance(error, httpx.ConnectError):
        return "refused", _SENTENCES["refused"]
    return "closed", _SENTENCES["closed"]


_SENTENCES = {
    "refused": "nothing listens there",
    "timeout": "it did not answer in time",
    "closed": "it closed the connection without an answer",
}
_FORBIDDEN: WeakKeyDictionary[Node, set[tuple[str, int]]] = WeakKeyDictionary()
"""Where a node's sshd forbade forwarding, so that a prober that is made for one look need not hear it again: sshd logs each try as an error."""


def _unasked(why: str) -> Answer:
    return Answer(
        None,
        None,
        error="forbidden",
        detail=f"the node's sshd forbids forwarding (AllowTcpForwarding, PermitOpen), and {why}",
    )


_NO_TOOL = _unasked("the node has neither curl nor wget. Allow forwarding or install curl to see its health")


def _told(fetched: Fetched) -> Answer:
    """What a tool on the node fetched, as any answer."""
    if fetched.status is not None:
        latency_ms = None if fetched.seconds is None else fetched.seconds * 1000
        detail = f"asked by {fetched.tool} on the node, since its sshd forbids forwarding"
        return Answer(fetched.status, latency_ms, fetched.body, detail=detail)
    if fetched.failure == "no-tool":
        return _NO_TOOL
    sentence = _SENTENCES.get(fetched.failure or "")
    if sentence is None:
        return _unasked("this address cannot be given to curl")
    return Answer(None, None, error=fetched.failure, detail=sentence)


class Prober:
    """Asks one server over the node's link: by a forwarded connection, or by curl on the node where its sshd forbids that.

    Which way it is, is found out once: make a new one after a reconnect. `as_before`: begin with what the last prober of the same address found.
    """

    def __init__(self, node: Node, host: str, port: int, *, as_before: bool = False) -> None:
        load_httpx()
        import httpx

        self._node = node
        self._address = (host, port)
        self._forbidden = as_before and (host, port) in _FORBIDDEN.get(node, ())
        self._no_tool_until = 0.0
        self._asking: dict[str, asyncio.Lock] = {}
        self._base = ""
        self.aim(host, port)
        # Bodies come as they are sent: a few bytes of gzip can be gigabytes.
        headers = {"user-agent": "eagletui", "accept-encoding": "identity"}
        self._client = httpx.AsyncClient(transport=node.http_transport(), trust_env=False, headers=headers)

    def aim(self, host: str, port: int) -> None:
        """Ask there from now on."""
        if (host, port) != self._address:
            self._address, self._forbidden = (host, port), False  # PermitOpen is about addresses
        self._base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def get(self, path: str, timeout_s: float) -> Answer:
        """One GET, answered or given up within its seconds whatever the server does; one at a time for a path. Raises LinkLostError when the link is gone."""
        async with self._asking.setdefault(path, asyncio.Lock()):
            if not self._forbidden:
                answer = await self._forwarded(path, timeout_s)
                forbidden = _FORBIDDEN.setdefault(self._node, set())
                if answer.error != "forbidden":
                    forbidden.discard(self._address)
                    return answer
                self._forbidden = True
                forbidden.add(self._address)
            return await self._by_tool(path, timeout_s)

    async def _forwarded(self, path: str, timeout_s: float) -> Answer:
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
            if word == "closed":
                await self._node.ping()  # a link that breaks closes its connections first, and says so afterwards
            return Answer(None, None, error=word, detail=sentence)
        return Answer(reply.status_code, (time.monotonic() - began) * 1000, bytes(body[:BODY_LIMIT]))

    async def _by_tool(self, path: str, timeout_s: float) -> Answer:
        if time.monotonic() < self._no_tool_until:
            return _NO_TOOL
        seconds = min(timeout_s, TOOL_LIMIT_S)
        try:
            done = await self._node.run(ask_http(*self._address, path, seconds), timeout=seconds + GRACE_S)
        except LinkLostError:
            raise
        except CommandTimeout:
            return Answer(None, None, error="timeout", detail=_SENTENCES["timeout"])
        except NodeError as error:
            return _unasked(f"curl could not be run there: {error}")
        fetched = parse_fetch(done.exit_status, done.stdout, done.stderr)
        if fetched.failure == "no-tool":
            self._no_tool_until = time.monotonic() + NO_TOOL_RETRY_S
        return _told(fetched)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()
