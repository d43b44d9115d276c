"""A machine over SSH, by asyncssh. One connection carries everything; no terminal, no agent, no port here.

asyncssh is given every option (`config=None` keeps it from reading ~/.ssh/config): the settings are what `ssh -G`
says. Where no `ssh` is installed, its own reader of ssh_config gives the same settings. Keys are offered one at a
time, so that a refusal can name them. Login and refusals are in ssh_login.py and ssh_refusal.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import asyncssh
from asyncssh.stream import SSHClientStreamSession, SSHStreamSession, SSHTCPStreamSession

from eagletui.errors import ChannelError, ConnectError, HostKeyError, LinkLostError
from eagletui.nodes.asking import Asking, login_words
from eagletui.nodes.base import Completed, Stream
from eagletui.nodes.channels import CLOSE_SECONDS, SshLink, SshPipes
from eagletui.nodes.dial import CONNECT_SECONDS, Proxy, dial_proxy, dial_tcp
from eagletui.nodes.host_check import FileTrust, PinnedKey, Trust
from eagletui.nodes.keyring import Keyring
from eagletui.nodes.prompter import Nobody, Prompter
from eagletui.nodes.session import run_command, stream_command
from eagletui.nodes.ssh_config import HostSettings, ask_ssh, have_ssh, home, parse_ssh_g
from eagletui.nodes.ssh_login import AsyncsshKeys, LoginClient, LoginDeadline, handshake
from eagletui.nodes.ssh_refusal import CAUSES, reason, refusal, timed_out
from eagletui.nodes.target import Target, parse_target
from eagletui.shell.script import Command

if TYPE_CHECKING:
    import httpx

# Without a handler Python prints a library's warnings on stderr, which is the user's screen.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())
# Of each packet that asyncssh still writes to a link that broke, a line on the user's terminal: that it broke is told by its state.
logging.getLogger("asyncio").addFilter(lambda told: told.getMessage() != "socket.send() raised exception.")

KEEPALIVE_SECONDS = 5.0
KEEPALIVE_COUNT = 2
"""asyncssh gives up at the tick after `count` unanswered ones: a dead link is noticed after 15 s."""
SESSIONS = 6
"""Commands at a time. sshd's MaxSessions is 10 by default, and a session counts there until its last process ended."""
SESSION_WAIT_SECONDS = 10.0
JUMP_LIMIT = 8

_LINK_ERRORS: tuple[type[Exception], ...] = (asyncssh.Error, OSError)
ATTEMPTS = 3
"""Connections to one machine in a row: the first, one without host certificates, one after a person agreed to its key."""


class _Bounded(SSHStreamSession[bytes]):
    """Nothing is queued without bound for a slow reader.

    asyncssh grants a whole new window with the first packet that it delivers, also while more of the last window waits:
    resumed at one byte below its limit, it delivers a packet, grants a window (2 MiB), and pauses again. So reading goes
    on when little is left, and pauses when so much is there that all that can wait was delivered in between: three
    windows at most.
    """

    def connection_made(self, chan: Any) -> None:
        """See asyncssh."""
        super().connection_made(chan)
        self._limit = 2 * chan.get_recv_window()

    def _maybe_resume_reading(self) -> bool:
        return self._recv_buf_len < self._limit // 4 and super()._maybe_resume_reading()


class _CommandSession(_Bounded, SSHClientStreamSession[bytes]):
    """A command's three pipes."""


class _ForwardedSession(_Bounded, SSHTCPStreamSession[bytes]):
    """A forwarded connection."""


class SshNode:
    """A `base.Node` over SSH. `config_file` is ssh's -F, `prompter` asks the person during a login. Raises UsageError for
    a name that ssh would refuse.
    """

    link_errors = _LINK_ERRORS

    def __init__(self, name: str, *, config_file: Path | None = None, prompter: Prompter | None = None) -> None:
        self.name = name
        self._prompter: Prompter = prompter or Nobody()
        self.latency_ms: float | None = None
        self.asked_person = False
        self._target = parse_target(name)
        self._config_file = config_file
        self._given: tuple[socket.socket, HostSettings, Trust] | None = None
        self._lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(SESSIONS)
        self._conns: list[asyncssh.SSHClientConnection] = []
        self._client: LoginClient | None = None
        self._hops: list[tuple[str, LoginClient]] = []
        self._proxies: list[Proxy] = []
        self._transports: list[httpx.AsyncBaseTransport] = []

    @classmethod
    def over_socket(cls, name: str, sock: socket.socket, *, host_key: bytes, user: str) -> Self:
        """A node behind a connected socket, whose host key (SSH wire format) is known beforehand. It lets `user` in
        without a key.

        The socket is used for one connection: `connect` after the link was lost raises ConnectError.
        """
        node = cls(name)
        node._given = (
            sock,
            HostSettings(name=name, host=name, user=user, login_methods=()),
            PinnedKey(name, host_key),
        )
        return node

    # The link

    @property
    def is_lost(self) -> bool:
        """Whether there is no link (any more)."""
        return not self._conns or self._client is None or self._client.lost is not None or self._conns[-1].is_closed()

    def lost(self, exc: Exception | None = None) -> LinkLostError:
        """The error for a link that broke. Where a jump host's connection did, that is told: nothing behind it can live."""
        for hop, client in self._hops[:-1]:
            if client.lost is not None:
                return LinkLostError(f"the link to {self.name} is lost: the connection to its jump host {hop} broke")
        why = exc or (self._client.lost if self._client is not None else None)
        if isinstance(why, asyncssh.DisconnectError):
            return LinkLostError(f"the link to {self.name} is lost: {why.reason}")
        return LinkLostError(f"the link to {self.name} is lost" + (f": {why}" if why is not None and str(why) else ""))

    async def connect(self, *, may_ask: bool = True) -> None:
        """See base.Node: anew if the link was lost; nothing happens while there is one."""
        async with self._lock:
            if not self.is_lost:
                return
            await self._close_link()
            self.asked_person = False
            try:
                await self._open_link(self._prompter if may_ask else Nobody())
            except BaseException:
                await self._close_link()
                raise

    async def _open_link(self, prompter: Prompter) -> None:
        if self._given is not None:
            sock, settings, trust = self._given
            if sock.fileno() < 0:
                raise ConnectError(f"the link to {self.name} cannot be opened a second time")
            await self._open_hop(settings, trust, Nobody(), sock)
            return
        for settings in await self._route(await self._resolve(self._target), 0):
            await self._open_trusted(settings, prompter)

    async def _resolve(self, target: Target) -> HostSettings:
        if have_ssh():
            return await ask_ssh(target, self._config_file)
        return settings_without_ssh(target, self._config_file)

    async def _route(self, last: HostSettings, depth: int) -> list[HostSettings]:
        """The hops in the order they are made. As with ssh, the first jump host may need jump hosts of its own."""
        if depth > JUMP_LIMIT:
            raise ConnectError(
                f"the jump hosts of {self.name} lead in a circle: check ProxyJump in ssh's configuration"
            )
        if not last.proxy_jump:
            return [last]
        hops = [await self._resolve(parse_target(jump)) for jump in last.proxy_jump]
        return [*await self._route(hops[0], depth + 1), *(h.without_proxy() for h in hops[1:]), last.without_proxy()]

    async def _open_trusted(self, settings: HostSettings, prompter: Prompter) -> None:
        """One machine on the way, connected to again where its key is judged otherwise then."""
        trust = FileTrust(settings, self._config_file)
        on_the_way_to = "" if settings.name == self._target.host else self.name
        for attempt in range(ATTEMPTS):
            try:
                await self._open_hop(settings, trust, prompter, None, on_the_way_to)
            except HostKeyError:
                if attempt == ATTEMPTS - 1 or not await trust.reconsider(
                    prompter, login_words(settings, on_the_way_to)
                ):
                    raise
            else:
                return

    async def _open_hop(
        self,
        settings: HostSettings,
        trust: Trust,
        prompter: Prompter,
        sock: socket.socket | None,
        on_the_way_to: str = "",
    ) -> None:
        tunnel = self._conns[-1] if self._conns else None
        proxy: Proxy | None = None
        client: LoginClient | None = None
        try:
            async with asyncio.timeout(settings.connect_timeout or CONNECT_SECONDS) as timeout:
                if sock is None and tunnel is None:
                    if settings.proxy_command is not None:
                        sock, proxy = await dial_proxy(settings, settings.proxy_command)
                        self._proxies.append(proxy)
                    else:
                        sock = await dial_tcp(settings)
                deadline = LoginDeadline(timeout)
                asking = Asking(settings, prompter, on_the_way_to=on_the_way_to, pause=deadline.pause)
                keyring = Keyring(settings, asking, AsyncsshKeys())
                client = LoginClient(trust, keyring, asking, deadline)
                try:
                    conn = await handshake(
                        settings, client, sock, tunnel, keepalive_s=KEEPALIVE_SECONDS, keepalive_count=KEEPALIVE_COUNT
                    )
                finally:
                    deadline.end()
                self._conns.append(conn)
                self._client = client
                self._hops.append((settings.name, client))
                self.asked_person = self.asked_person or asking.answered
        except TimeoutError:
            raise timed_out(settings, client, tunnelled=tunnel is not None) from None
        except CAUSES as exc:
            raise refusal(settings, exc, client, await proxy.said() if proxy is not None else "") from exc
        finally:
            if client is not None:
                await client.asking.aclose()
                await client.keyring.aclose()
            if sock is not None and (client is None or client is not self._client):
                sock.close()

    async def _close_link(self) -> None:
        conns, self._conns, self._hops = self._conns, [], []
        for conn in reversed(conns):
            conn.close()
        for conn in reversed(conns):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await conn.wait_closed()
        proxies, self._proxies = self._proxies, []
        for proxy in proxies:
            await proxy.aclose()

    def _connection(self) -> asyncssh.SSHClientConnection:
        if self.is_lost:
            raise self.lost()
        return self._conns[-1]

    async def ping(self) -> float:
        """See base.Node. One keepalive request and its answer, which every SSH server gives at once and logs nowhere.

        asyncssh has no public call for it; a forwarding that is refused would be one, but sshd logs each as an error.
        """
        conn = self._connection()
        begin = time.perf_counter()
        try:
            async with asyncio.timeout(KEEPALIVE_SECONDS * (KEEPALIVE_COUNT + 1)):
                await conn._make_global_request(b"keepalive@openssh.com")
        except TimeoutError:
            raise LinkLostError(f"the link to {self.name} does not answer") from None
        except _LINK_ERRORS as exc:
            raise self.lost(exc) from exc
        if self.is_lost:
            raise self.lost()
        self.latency_ms = (time.perf_counter() - begin) * 1000
        return self.latency_ms

    # Commands

    async def _open_pipes(self, line: str) -> SshPipes:
        conn = self._connection()
        try:
            async with asyncio.timeout(SESSION_WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise ChannelError(f"{SESSIONS} commands run on {self.name} already and none ended") from None
        session = _CommandSession()
        try:
            chan, _ = await conn.create_session(lambda: session, line, encoding=None, request_pty=False)
        except _LINK_ERRORS as exc:
            self.give_back()
            if self.is_lost:
                raise self.lost() from exc
            raise ChannelError(
                f"{self.name} refused one more session ({reason(exc)}). "
                "Close other connections to it, or raise MaxSessions in its sshd_config",
                full=True,
            ) from exc
        except BaseException:
            self.give_back()
            raise
        stdin, stdout = asyncssh.SSHWriter(session, chan), asyncssh.SSHReader(session, chan)
        return SshPipes((stdin, stdout, asyncssh.SSHReader(session, chan, asyncssh.EXTENDED_DATA_STDERR)), self)

    def give_back(self) -> None:
        """A session ended."""
        self._slots.release()

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - see base.Node
        """See base.Node."""
        return await run_command(self._open_pipes, command, self.name, timeout, limit)

    def stream(self, command: Command) -> AbstractAsyncContextManager[Stream]:
        """See base.Node."""
        return stream_command(self._open_pipes, command, self.name)

    # HTTP

    async def dial(self, host: str, port: int) -> SshLink:
        """A connection from the node to (host, port). Raises ChannelError (`refused`, `forbidden`), LinkLostError."""
        conn = self._connection()
        session = _ForwardedSession()
        try:
            chan, _ = await conn.create_connection(lambda: session, host, port, encoding=None)
        except asyncssh.ChannelOpenError as exc:
            if self.is_lost:
                raise self.lost() from exc
            if exc.code == asyncssh.constants.OPEN_ADMINISTRATIVELY_PROHIBITED:
                raise ChannelError(
                    f"{self.name} forbids forwarding (AllowTcpForwarding, PermitOpen)", forbidden=True
                ) from exc
            refused = exc.code == asyncssh.constants.OPEN_CONNECT_FAILED
            raise ChannelError(f"{self.name} cannot connect to {host}:{port}: {reason(exc)}", refused=refused) from exc
        except _LINK_ERRORS as exc:
            raise self.lost(exc) from exc
        return SshLink(asyncssh.SSHReader(session, chan), asyncssh.SSHWriter(session, chan), self)

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        from eagletui.nodes.http import NodeTransport

        transport = NodeTransport(self.dial)
        self._transports.append(transport)
        return transport

    def stream_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        from eagletui.nodes.streaming import StreamTransport

        transport = StreamTransport(self.dial)
        self._transports.append(transport)
        return transport

    async def aclose(self) -> None:
        """See base.Node."""
        transports, self._transports = self._transports, []
        await asyncio.gather(*(t.aclose() for t in transports), return_exceptions=True)
        async with self._lock:
            await self._close_link()
        if self._given is not None:
            self._given[0].close()


_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_TEXT_OPTIONS = (
    "HostKeyAlias",
    "IdentityAgent",
    "ProxyCommand",
    "HostKeyAlgorithms",
    "ConnectTimeout",
    "PreferredAuthentications",
    "Ciphers",
    "KexAlgorithms",
    "MACs",
    "BindAddress",
)
_YES_NO_OPTIONS = (
    "IdentitiesOnly",
    "Compression",
    "PubkeyAuthentication",
    "KbdInteractiveAuthentication",
    "PasswordAuthentication",
)


def settings_without_ssh(target: Target, config_file: Path | None) -> HostSettings:
    """Settings by asyncssh's own reader of ssh_config, for machines without `ssh`. Raises ConnectError.

    They are written as `ssh -G` would print them, so that one parser gives both. asyncssh does not know
    StrictHostKeyChecking, HashKnownHosts, BatchMode and NumberOfPasswordPrompts: then unknown host keys are asked about
    whatever is set, and it is asked three times at most.
    """
    files = [config_file] if config_file is not None else [p for p in (Path(home(), ".ssh/config"),) if p.is_file()]
    try:
        options = asyncssh.SSHClientConnectionOptions(
            host=target.host,
            port=target.port if target.port is not None else (),
            username=target.user if target.user is not None else (),
            config=[str(f) for f in files],
            client_keys=None,
            known_hosts=None,
            x509_trusted_certs=None,
        )
    except (ValueError, OSError) as exc:
        raise ConnectError(f"cannot read ssh's configuration for {target}: {exc}") from exc
    lines = [f"hostname {options.host}", f"user {options.username}", f"port {options.port}"]
    lines += [f"proxyjump {options.tunnel}"] if options.tunnel else []
    for name in _TEXT_OPTIONS:
        # asyncssh reads `none` as None: it is not the same as nothing said.
        value = options.config.get(name, "")
        lines += [f"{name} {'none' if value is None else _joined(value)}"] if value != "" else []
    for name in _YES_NO_OPTIONS:
        value = options.config.get(name)
        lines += [f"{name} {'yes' if value else 'no'}"] if value is not None else []
    keys = options.config.get("IdentityFile")
    lines += [f"identityfile {p}" for p in (keys if isinstance(keys, list) else [f"~/.ssh/{k}" for k in _DEFAULT_KEYS])]
    certificates = options.config.get("CertificateFile")
    lines += [f"certificatefile {p}" for p in (certificates if isinstance(certificates, list) else [])]
    lines.append(f"userknownhostsfile {_joined(options.config.get('UserKnownHostsFile') or '~/.ssh/known_hosts')}")
    lines.append(
        f"globalknownhostsfile {_joined(options.config.get('GlobalKnownHostsFile') or '/etc/ssh/ssh_known_hosts')}"
    )
    return parse_ssh_g(target, "\n".join(lines))


def _joined(value: object) -> str:
    return " ".join(str(v) for v in value) if isinstance(value, list | tuple) else str(value)
