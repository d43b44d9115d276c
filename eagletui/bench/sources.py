"""Which server is measured: one by its address, or one on a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from eagletui.bench.client import Client, Manner
from eagletui.bench.facts import arguments, facts_of, masked, served_name
from eagletui.bench.outcome import Facts
from eagletui.bench.runner import Target
from eagletui.bench.witness import NodeWitness
from eagletui.engines.command_line import flags, value_of
from eagletui.engines.spec import load_engine
from eagletui.errors import ConnectError, NothingThereError, RefusedError, UsageError
from eagletui.history.launches import Identity, machine_name
from eagletui.launching.looking import find_servers
from eagletui.launching.on_node import read_machine
from eagletui.nodes.base import Node
from eagletui.nodes.streaming import StreamTransport, dial_timed
from eagletui.servers.model import Server
from eagletui.shell.masking import shown

if TYPE_CHECKING:
    from eagletui.servers.record import Record

_KEY_FLAG = "api-key"
LOOK_EVERY_S = 2.0
"""While a server starts."""
HEALTH_S = 10.0
"""A busy server's /health takes seconds."""


def _nobody_listens(_what: str) -> None:
    """What is waited for is told to nobody."""


def checked_url(url: str) -> str:
    """An address without a path's end. Raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise UsageError(f"{shown(url[:80])!r} is no address: write http://HOST:PORT")
    if parts.username or parts.password:
        raise UsageError("an address with a login in it is shown and kept; name a variable with --api-key-env instead")
    base = url.rstrip("/").removesuffix("/v1").removesuffix("/v1/completions").removesuffix("/v1/chat/completions")
    return base.rstrip("/")


class UrlSource:
    """See session.Source: by address, over this machine's own network."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.base = checked_url(url)
        self._api_key = api_key

    def transport(self, connections: int) -> httpx.AsyncBaseTransport:
        """What requests go over."""
        if self.base.startswith("https:"):
            limit = connections or None
            return httpx.AsyncHTTPTransport(
                trust_env=False, limits=httpx.Limits(max_connections=limit, max_keepalive_connections=limit)
            )
        return StreamTransport(dial_timed)

    async def target(self, tell: Callable[[str], None]) -> Target:  # noqa: ARG002 - see session.Source
        """Raises ConnectError where nobody answers there."""
        where = urlsplit(self.base)
        address = where.netloc
        facts = Facts(machine=address, port=where.port)
        client = Client(self.transport(1), self.base, Manner("completions", fixed=True), self._api_key)
        try:
            if (why := await client.reach()) is not None:
                raise ConnectError(f"{address} does not answer: {why}")
            facts = await facts_of(client, facts)
        finally:
            await client.aclose()
        return Target(facts, self.base, self.transport, None, self._api_key)


class NodeSource:
    """See session.Source: the server of a node. `port`: which one. `chosen`: the server that is shown, for a screen; `record_of`: what launched it."""

    def __init__(
        self,
        node: Node,
        name: str,
        port: int | None = None,
        chosen: Callable[[], Server | None] = lambda: None,
        record_of: Callable[[Server], Record | None] = lambda _server: None,
        api_key: str | None = None,
    ) -> None:
        self._node = node
        self._name = name
        self._port = port
        self._chosen = chosen
        self._record_of = record_of
        self._api_key = api_key

    async def target(self, tell: Callable[[str], None] = _nobody_listens) -> Target:
        """Raises NothingThereError, RefusedError (several), NodeError."""
        server = self._chosen() or await self._ready(tell)
        machine = await read_machine(self._node)
        record = self._record_of(server)
        process = server.launcher
        named = machine_name(machine, self._node.name)
        key = value_of(server.command, _KEY_FLAG)
        api_key = self._api_key or (key if isinstance(key, str) else None)
        base = f"http://{f'[{server.host}]' if ':' in server.host else server.host}:{server.port}"
        facts = Facts(
            engine=server.engine, model=server.model, args=command_arguments(server.command), node=self._name, machine=named,
            server=server.id, port=server.port, launch=Identity(named, machine.boot, process.pid, process.started).key,
            profile=None if record is None else record.profile, variant=None if record is None else record.variant,
        )  # fmt: skip
        client = Client(self._node.stream_transport(), base, Manner("completions", fixed=True), api_key)
        try:
            told = await facts_of(client, replace(facts, args={}, model=None))
            name = served_name(await client.get_json("/v1/models"))
        finally:
            await client.aclose()
        facts = replace(
            facts, version=told.version, model=name or told.model or facts.model, args={**told.args, **facts.args}
        )

        def transport(_connections: int) -> httpx.AsyncBaseTransport:
            return self._node.stream_transport()

        return Target(facts, base, transport, self._node, api_key, NodeWitness(self._node, server))

    async def _ready(self, tell: Callable[[str], None]) -> Server:
        """The server, once it answers: one that starts is waited for, one that ended meanwhile is not."""
        while True:
            server = self._one_of((await find_servers(self._node)).servers)
            if server.port is not None and server.listening and await self._answers(server):
                return server
            tell("waiting until the server is ready …")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _answers(self, server: Server) -> bool:
        path = load_engine(server.engine).health_path
        url = f"http://{f'[{server.host}]' if ':' in server.host else server.host}:{server.port}{path}"
        async with httpx.AsyncClient(transport=self._node.http_transport(), timeout=HEALTH_S, trust_env=False) as http:
            try:
                return (await http.get(url)).status_code == 200
            except httpx.HTTPError:
                return False

    def _one_of(self, servers: tuple[Server, ...]) -> Server:
        wanted = [one for one in servers if self._port is None or one.port == self._port]
        if not wanted:
            what = f"no server on port {self._port}" if self._port is not None else "no server"
            raise NothingThereError(f"there is {what} on {self._name} to benchmark")
        if len(wanted) > 1:
            listed = ", ".join(f"{one.engine} on {one.port} (pid {one.pid})" for one in wanted)
            raise RefusedError(f"{len(wanted)} servers run on {self._name}: {listed}; name one with --port")
        return wanted[0]


def command_arguments(command: tuple[str, ...]) -> dict[str, object]:
    """The flags of a command by name, masked."""
    found: dict[str, object] = {}
    for name, value in flags(command):
        if value is None or isinstance(value, bool):
            found[name] = value
        else:
            found[name] = masked(name, " ".join(value) if isinstance(value, tuple) else value)
    return found


__all__ = ["NodeSource", "UrlSource", "arguments", "checked_url", "command_arguments"]
