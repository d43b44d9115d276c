"""Reaching the port of an SSH server: TCP, address by address, or the user's ProxyCommand. Gives a connected socket
either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from dataclasses import dataclass

from eagletui.errors import ConnectError, NodeError, UnknownHostError
from eagletui.nodes.child import start
from eagletui.nodes.ssh_config import HostSettings

CONNECT_SECONDS = 15.0
"""For a TCP connection and the server's first words, where ssh's ConnectTimeout is not set (the kernel's own is
minutes).
"""
END_SECONDS = 2.0
"""For a ProxyCommand to end when it is told to, before it is made to."""
_STDERR_LIMIT = 4096


@dataclass(slots=True)
class Proxy:
    """A running ProxyCommand. Its stderr is kept for the sentence that says why it failed, and never reaches the
    terminal.
    """

    process: asyncio.subprocess.Process

    async def aclose(self) -> None:
        """End it and its children. Never raises."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await self.process.wait()
                return

    async def said(self) -> str:
        """The last line it printed on stderr, if it has ended."""
        if self.process.stderr is None:
            return ""
        try:
            async with asyncio.timeout(0.5):
                text = await self.process.stderr.read(_STDERR_LIMIT)
        except TimeoutError:
            return ""
        lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
        return "".join(c if c.isprintable() else " " for c in lines[-1])[:200] if lines else ""


async def dial_tcp(settings: HostSettings) -> socket.socket:
    """A connection to the host; each of its addresses is tried. Raises UnknownHostError, ConnectError."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(settings.host, settings.port, family=settings.family, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as exc:
        # UnicodeError: a label that no DNS name can have, from the idna codec.
        raise UnknownHostError(
            f"cannot find {_called(settings)}: {getattr(exc, 'strerror', None) or exc}. "
            "Check the name, or give it a HostName in ~/.ssh/config"
        ) from exc
    failure: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            if settings.bind_address is not None:
                await _bind(sock, settings.bind_address)
            await loop.sock_connect(sock, address)
        except OSError as exc:
            sock.close()
            failure = exc
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise connect_error(settings, failure) from failure


async def _bind(sock: socket.socket, name: str) -> None:
    """Connect from this address (BindAddress). Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(name, 0, family=sock.family, type=socket.SOCK_STREAM)
    sock.bind(found[0][4])


def connect_error(settings: HostSettings, failure: OSError) -> NodeError:
    """A sentence for a TCP connection that could not be made."""
    where = _called(settings)
    if failure.errno == errno.ECONNREFUSED:
        return ConnectError(
            f"{where} refused the connection: no SSH server listens on port {settings.port}. Check the port"
        )
    if failure.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN}:
        return ConnectError(f"no route to {where}: {failure.strerror}. Check the network or the VPN")
    if failure.errno == errno.ETIMEDOUT:
        return ConnectError(f"{where} does not answer. Check the network, the VPN or a firewall")
    if settings.bind_address is not None and (
        failure.errno == errno.EADDRNOTAVAIL or isinstance(failure, socket.gaierror)
    ):
        return ConnectError(
            f"cannot connect to {where} from {settings.bind_address}: {failure.strerror}. "
            "Check BindAddress in ssh's configuration"
        )
    return ConnectError(f"cannot connect to {where}: {failure.strerror or failure}")


def _called(settings: HostSettings) -> str:
    return settings.address if settings.name == settings.host else f"{settings.name} ({settings.address})"


async def dial_proxy(settings: HostSettings, command: str) -> tuple[socket.socket, Proxy]:
    """Start the ProxyCommand on one end of a socket pair, as sshd would see a client. Raises ConnectError."""
    ours, theirs = socket.socketpair()
    try:
        process = await start(
            "/bin/sh",
            "-c",
            f"exec {command}",
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as exc:
        ours.close()
        raise ConnectError(f"cannot start the ProxyCommand of {settings.name}: {exc.strerror}") from exc
    finally:
        theirs.close()
    ours.setblocking(False)
    return ours, Proxy(process)
