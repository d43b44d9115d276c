"""A machine over SSH, by asyncssh: the only client that imports it. One connection carries everything; no terminal,
no agent, no port here.

asyncssh is given every option (`config=None` keeps it from reading ~/.ssh/config): the settings are what `ssh -G`
says. Where no `ssh` is installed, its own reader of ssh_config gives the same settings. Keys are offered one at a
time, so that a refusal can name them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import asyncssh
from asyncssh import public_key

from eagletui.errors import AuthError, ChannelError, ConnectError, HostKeyError, LinkLostError, NodeError
from eagletui.nodes.base import Completed, Stream
from eagletui.nodes.channels import CLOSE_SECONDS, SshLink, SshPipes
from eagletui.nodes.dial import CONNECT_SECONDS, Proxy, dial_proxy, dial_tcp
from eagletui.nodes.host_check import FileTrust, PinnedKey, Trust
from eagletui.nodes.keyring import Keyring
from eagletui.nodes.session import run_command, stream_command
from eagletui.nodes.ssh_config import HostSettings, ask_ssh, have_ssh, home, parse_ssh_g
from eagletui.nodes.target import Target, parse_target
from eagletui.shell.script import Command

if TYPE_CHECKING:
    import httpx

# Without a handler Python prints a library's warnings on stderr, which is the user's screen.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())

KEEPALIVE_SECONDS = 5.0
KEEPALIVE_COUNT = 2
"""asyncssh gives up at the tick after `count` unanswered ones: a dead link is noticed after 15 s."""
LOGIN_SECONDS = 60.0
"""For a login once the host key is right: a security key may wait for a touch."""
SESSIONS = 6
"""Commands at a time. sshd's MaxSessions is 10 by default, and a session counts there until its last process ended."""
SESSION_WAIT_SECONDS = 10.0
JUMP_LIMIT = 8

_LINK_ERRORS: tuple[type[Exception], ...] = (asyncssh.Error, OSError)
_HOP_ERRORS: tuple[type[Exception], ...] = (*_LINK_ERRORS, ValueError)
"""asyncssh raises ValueError for options that it cannot use."""


class _Client(asyncssh.SSHClient):
    """asyncssh's questions about one connection, answered; what went wrong is kept for the sentence."""

    def __init__(self, trust: Trust, keyring: Keyring, deadline: asyncio.Timeout) -> None:
        self.trust = trust
        self.keyring = keyring
        self.refusal: HostKeyError | None = None
        self.banner = ""
        self.lost: Exception | None = None
        self.methods: Sequence[str] = ()
        self._deadline = deadline
        self._conn: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._conn = conn

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc or ConnectionError("closed")

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - asyncssh's signature
        self.refusal = self.trust.judge(key.public_data)
        return self.refusal is None

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - asyncssh's signature
        self.refusal = self.trust.judge_authority(key.public_data)
        return self.refusal is None

    def auth_banner_received(self, msg: str, lang: str) -> None:  # noqa: ARG002 - asyncssh's signature
        self.banner = " ".join("".join(c if c.isprintable() else " " for c in msg).split())[:200]

    def begin_auth(self, username: str) -> None:  # noqa: ARG002 - asyncssh's signature
        # Reached only after the host has signed the key exchange with the key that was judged.
        self.trust.confirmed()
        self._deadline.reschedule(asyncio.get_running_loop().time() + LOGIN_SECONDS)

    async def public_key_auth_requested(self) -> asyncssh.SSHKeyPair | None:
        if self._conn is not None and not self.methods:
            self.methods = tuple(self._conn.get_server_auth_methods())
        return await self.keyring.next(read_keys, open_agent)


def read_keys(path: Path, certificates: Sequence[Path]) -> Sequence[asyncssh.SSHKeyPair]:
    """Key pairs of a private key file, with its certificates first. Empty: it is encrypted. Raises ValueError,
    OSError.
    """
    return asyncssh.load_keypairs(str(path), None, [str(c) for c in certificates], ignore_encrypted=True)


def open_agent(path: str) -> asyncssh.SSHAgentClient:
    """A client of the ssh-agent behind a socket; connects on its first question."""
    return asyncssh.SSHAgentClient(path)


class SshNode:
    """A `base.Node` over SSH. `config_file` is ssh's -F. Raises UsageError for a name that ssh would refuse."""

    link_errors = _LINK_ERRORS

    def __init__(self, name: str, *, config_file: Path | None = None) -> None:
        self.name = name
        self.latency_ms: float | None = None
        self.asked_person = False
        self._target = parse_target(name)
        self._config_file = config_file
        self._given: tuple[socket.socket, HostSettings, Trust] | None = None
        self._lock = asyncio.Lock()
        self._slots = asyncio.Semaphore(SESSIONS)
        self._conns: list[asyncssh.SSHClientConnection] = []
        self._client: _Client | None = None
        self._hops: list[tuple[str, _Client]] = []
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

    async def connect(self, *, may_ask: bool = True) -> None:  # noqa: ARG002 - nobody is asked yet
        """See base.Node: anew if the link was lost; nothing happens while there is one."""
        async with self._lock:
            if not self.is_lost:
                return
            await self._close_link()
            try:
                await self._open_link()
            except BaseException:
                await self._close_link()
                raise

    async def _open_link(self) -> None:
        if self._given is not None:
            sock, settings, trust = self._given
            if sock.fileno() < 0:
                raise ConnectError(f"the link to {self.name} cannot be opened a second time")
            await self._open_hop(settings, trust, sock)
            return
        for settings in await self._route(await self._resolve(self._target), 0):
            await self._open_hop(settings, FileTrust(settings, self._config_file), None)

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

    async def _open_hop(self, settings: HostSettings, trust: Trust, sock: socket.socket | None) -> None:
        tunnel = self._conns[-1] if self._conns else None
        proxy: Proxy | None = None
        keyring = Keyring(settings)
        client: _Client | None = None
        try:
            async with asyncio.timeout(settings.connect_timeout or CONNECT_SECONDS) as deadline:
                if sock is None and tunnel is None:
                    if settings.proxy_command is not None:
                        sock, proxy = await dial_proxy(settings, settings.proxy_command)
                        self._proxies.append(proxy)
                    else:
                        sock = await dial_tcp(settings)
                client = _Client(trust, keyring, deadline)
                self._conns.append(await _handshake(settings, client, sock, tunnel))
                self._client = client
                self._hops.append((settings.name, client))
        except TimeoutError:
            raise self._timed_out(settings, client, tunnel is not None) from None
        except _HOP_ERRORS as exc:
            raise _refusal(settings, exc, client, keyring, await proxy.said() if proxy is not None else "") from exc
        finally:
            await keyring.aclose()
            if sock is not None and (client is None or client is not self._client):
                sock.close()

    def _timed_out(self, settings: HostSettings, client: _Client | None, tunnelled: bool) -> ConnectError:
        seconds = settings.connect_timeout or CONNECT_SECONDS
        if client is None and not tunnelled:
            return ConnectError(
                f"{_called(settings)} gave no answer in {seconds:g} s. Check the network, the VPN or a firewall"
            )
        return ConnectError(
            f"{_called(settings)} did not finish the login in time. Try `ssh -v {settings.name}` to see where it stops"
        )

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
        try:
            streams = await conn.open_session(line, encoding=None, request_pty=False)
        except _LINK_ERRORS as exc:
            self.give_back()
            if self.is_lost:
                raise self.lost() from exc
            raise ChannelError(
                f"{self.name} refused one more session ({_reason(exc)}). "
                "Close other connections to it, or raise MaxSessions in its sshd_config",
                full=True,
            ) from exc
        except BaseException:
            self.give_back()
            raise
        return SshPipes(streams, self)

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
        try:
            reader, writer = await conn.open_connection(host, port, encoding=None)
        except asyncssh.ChannelOpenError as exc:
            if self.is_lost:
                raise self.lost() from exc
            if exc.code == asyncssh.constants.OPEN_ADMINISTRATIVELY_PROHIBITED:
                raise ChannelError(
                    f"{self.name} forbids forwarding (AllowTcpForwarding, PermitOpen)", forbidden=True
                ) from exc
            refused = exc.code == asyncssh.constants.OPEN_CONNECT_FAILED
            raise ChannelError(f"{self.name} cannot connect to {host}:{port}: {_reason(exc)}", refused=refused) from exc
        except _LINK_ERRORS as exc:
            raise self.lost(exc) from exc
        return SshLink(reader, writer, self)

    def http_transport(self) -> httpx.AsyncBaseTransport:
        """See base.Node."""
        from eagletui.nodes.http import NodeTransport

        transport = NodeTransport(self.dial)
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


def _supported() -> list[str]:
    names = public_key.get_default_certificate_algs() + public_key.get_default_public_key_algs()
    return [name.decode("ascii") for name in names]


async def _handshake(
    settings: HostSettings, client: _Client, sock: socket.socket | None, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    """Key exchange and login with nothing left to a default that reads a file."""
    return await asyncssh.connect(
        settings.host,
        settings.port,
        sock=sock,
        tunnel=tunnel,
        config=None,
        client_factory=lambda: client,
        # Nothing is trusted here: every key comes to the client's own judgement. b"" would mean ~/.ssh/known_hosts.
        known_hosts=([], [], [], [], [], [], []),
        host_key_alias=settings.alias,
        server_host_key_algs=list(client.trust.algorithms(_supported())),
        x509_trusted_certs=None,
        x509_trusted_cert_paths=[],
        username=settings.user,
        # None: no default keys and no agent of its own; the client is asked for each key.
        client_keys=None,
        public_key_auth=settings.public_key_login,
        preferred_auth=["publickey"],
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        agent_forwarding=False,
        x11_forwarding=False,
        compression_algs=["zlib@openssh.com", "none"] if settings.compression else None,
        login_timeout=LOGIN_SECONDS,
        keepalive_interval=KEEPALIVE_SECONDS,
        keepalive_count_max=KEEPALIVE_COUNT,
    )


def _called(settings: HostSettings) -> str:
    return settings.address if settings.name == settings.host else f"{settings.name} ({settings.address})"


def _reason(exc: BaseException) -> str:
    text = exc.reason if isinstance(exc, asyncssh.DisconnectError | asyncssh.ChannelOpenError) else str(exc)
    return "".join(c if c.isprintable() else " " for c in text)[:200] or type(exc).__name__


def _refusal(
    settings: HostSettings, exc: Exception, client: _Client | None, keyring: Keyring, proxy_said: str
) -> NodeError:
    """A sentence for a connection that did not come to a login."""
    where, why = _called(settings), _reason(exc)
    if client is not None and client.refusal is not None:
        return client.refusal
    if isinstance(exc, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(f"the host certificate of {where} cannot be trusted: {why}")
    if isinstance(exc, asyncssh.PermissionDenied) or "authentication failures" in why:
        return _auth_error(settings, why, client, keyring)
    if isinstance(exc, asyncssh.ChannelOpenError):
        text = f"the jump host cannot connect to {where}: {why}"
    elif proxy_said:
        text = f"the ProxyCommand for {where} failed: {proxy_said}"
    elif isinstance(exc, asyncssh.KeyExchangeFailed):
        text = f"{where} and this program share no algorithm: {why}"
    elif isinstance(exc, asyncssh.ConnectionLost | ConnectionError):
        text = (
            f"{where} closed the connection before the login. Its sshd may have too many logins under way (MaxStartups), "
            f"or it is no SSH server. Try `ssh -v {settings.name}`"
        )
    else:
        text = f"cannot connect to {where}: {why}"
    return ConnectError(text)


def _auth_error(settings: HostSettings, why: str, client: _Client | None, keyring: Keyring) -> AuthError:
    offers = f" (it offers {', '.join(client.methods)})" if client is not None and client.methods else ""
    many = ""
    if "authentication failures" in why:
        many = "; too many keys were offered: set IdentitiesOnly yes and one IdentityFile"
    banner = f". It said: {client.banner}" if client is not None and client.banner else ""
    return AuthError(
        f"{_called(settings)} accepts no login of {settings.user}{offers}: {keyring.explain()}{many}{banner}"
    )


_DEFAULT_KEYS = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_TEXT_OPTIONS = (
    "HostKeyAlias",
    "IdentityAgent",
    "ProxyCommand",
    "HostKeyAlgorithms",
    "ConnectTimeout",
    "PreferredAuthentications",
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
    StrictHostKeyChecking and HashKnownHosts: unknown host keys are then refused even where `accept-new` is set.
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
        value = options.config.get(name)
        lines += [f"{name} {_joined(value)}"] if value is not None else []
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
