"""Sentences for a connection that did not come to a login: what, where and what to do."""

from __future__ import annotations

import asyncssh

from eagletui.errors import AuthError, ConnectError, HostKeyError, LoginCancelledError, NodeError
from eagletui.nodes.dial import CONNECT_SECONDS
from eagletui.nodes.ssh_config import HostSettings
from eagletui.nodes.ssh_login import LoginClient

CAUSES: tuple[type[Exception], ...] = (asyncssh.Error, OSError, ValueError)
"""What a connection can fail with. asyncssh raises ValueError for options that it cannot use."""


def reason(exc: BaseException) -> str:
    """An error of the library in printable characters."""
    text = exc.reason if isinstance(exc, asyncssh.DisconnectError | asyncssh.ChannelOpenError) else str(exc)
    return "".join(c if c.isprintable() else " " for c in text)[:200] or type(exc).__name__


def refusal(settings: HostSettings, exc: Exception, client: LoginClient | None, proxy_said: str) -> NodeError:
    """The error for a connection that failed with one of CAUSES. `proxy_said` is the ProxyCommand's last word."""
    where, why = settings.called, reason(exc)
    if client is not None and client.refusal is not None:
        return client.refusal
    if client is not None and client.asking.cancelled:
        return LoginCancelledError(f"the login at {where} was stopped")
    if isinstance(exc, asyncssh.HostKeyNotVerifiable):
        return HostKeyError(f"the host certificate of {where} cannot be trusted: {why}")
    if isinstance(exc, asyncssh.PermissionDenied) or "authentication failures" in why:
        return _auth_error(settings, why, client)
    if isinstance(exc, asyncssh.ChannelOpenError):
        text = f"the jump host cannot connect to {where}: {why}"
    elif proxy_said:
        text = f"the ProxyCommand for {where} failed: {proxy_said}"
    elif isinstance(exc, asyncssh.KeyExchangeFailed):
        text = f"{where} and this program share no algorithm: {why}"
    elif isinstance(exc, asyncssh.ConnectionLost | ConnectionError):
        text = _closed(settings, client)
    else:
        text = f"cannot connect to {where}: {why}"
    return ConnectError(text)


def _closed(settings: HostSettings, client: LoginClient | None) -> str:
    where = settings.called
    if client is not None and client.asking.interrupted:
        return (
            f"{where} closed the connection while it waited for an answer. sshd waits 2 minutes "
            "unless its LoginGraceTime says otherwise; connect again and answer sooner"
        )
    if client is not None and client.heard and not client.showed_key:
        return (
            f"{where} closed the connection before it showed its host key: as sshd does where no algorithm of "
            f"HostKeyAlgorithms, KexAlgorithms, Ciphers or MACs is common to both. Try `{_verbose(settings)}`"
        )
    if client is not None and client.heard:
        return f"{where} closed the connection before the login was done. Try `{_verbose(settings)}`"
    return (
        f"{where} closed the connection before the login. Either too many logins are open there (sshd's MaxStartups): "
        f"try again in a moment; or it is no SSH server: try `{_verbose(settings)}`"
    )


def _verbose(settings: HostSettings) -> str:
    """The same login with ssh, which says each of its steps."""
    return f"ssh -v {f'-p {settings.port} ' if settings.port != 22 else ''}{settings.user}@{settings.name}"


def timed_out(settings: HostSettings, client: LoginClient | None, *, tunnelled: bool) -> ConnectError:
    """The error for a connection or a login that took too long."""
    seconds = settings.connect_timeout or CONNECT_SECONDS
    if client is None and not tunnelled:
        return ConnectError(
            f"{settings.called} gave no answer in {seconds:g} s. Check the network, the VPN or a firewall"
        )
    return ConnectError(
        f"{settings.called} did not finish the login in time. Try `{_verbose(settings)}` to see where it stops"
    )


def _auth_error(settings: HostSettings, why: str, client: LoginClient | None) -> AuthError:
    if client is None:
        return AuthError(f"{settings.called} accepts no login of {settings.user}: {why}")
    parts = list(client.asking.refused)
    if "publickey" in client.methods or client.keyring.tried or not client.methods:
        parts.append(client.keyring.explain())
    if client.asking.needs_person:
        parts.insert(0, f"nobody could be asked for {' or '.join(client.asking.unasked)}")
    if client.asking.expired:
        parts.insert(0, f"the password has expired: run `ssh {settings.name}` and choose a new one")
    if "authentication failures" in why:
        parts.append(
            "too many keys were offered: set IdentitiesOnly yes and one IdentityFile"
            if client.keyring.tried
            else "it allows no more attempts in one connection (sshd's MaxAuthTries)"
        )
    if not parts:
        parts.append("none of these is among the PreferredAuthentications that this program can use")
    offers = f" (it offers {', '.join(client.methods)})" if client.methods else ""
    banner = f". It said: {client.banner}" if client.banner else ""
    return AuthError(
        f"{settings.called} accepts no login of {settings.user}{offers}: {'; '.join(parts)}{banner}",
        needs_person=client.asking.needs_person,
    )
