"""A key exchange and a login by asyncssh, with nothing left to a default of it that reads a file: its questions come
here.
"""

from __future__ import annotations

import asyncio
import copy
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import asyncssh
from asyncssh import encryption, kex, mac, public_key

from eagletui.errors import HostKeyError
from eagletui.nodes.asking import Asking
from eagletui.nodes.host_check import Trust
from eagletui.nodes.keyring import Keyring, WrongPassphraseError
from eagletui.nodes.prompter import clean_line
from eagletui.nodes.ssh_config import HostSettings

if TYPE_CHECKING:
    from eagletui.nodes.keyring import Unlock

LOGIN_SECONDS = 60.0
"""For each step of a login once the host key is right: a security key may wait for a touch. Questions do not count."""
BANNER_LIMIT = 200
"""Characters of the server's greeting in the sentence of a login that failed."""


class LoginDeadline:
    """The deadline of a connection that is being made: it moves on with each step and stands still while a person is
    asked.
    """

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout: asyncio.Timeout | None = timeout

    def end(self) -> None:
        """The login is over; a question may still be on its way out."""
        self._timeout = None

    def next_step(self) -> None:
        """A step of the login begins."""
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + LOGIN_SECONDS)

    def pause(self, asked: bool) -> None:
        """A question opens or is closed."""
        if not asked:
            self.next_step()
        elif self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(None)


class LoginClient(asyncssh.SSHClient):
    """asyncssh's questions about one connection, answered; what went wrong is kept for the sentence."""

    def __init__(self, trust: Trust, keyring: Keyring, asking: Asking, deadline: LoginDeadline) -> None:
        self.trust = trust
        self.keyring = keyring
        self.asking = asking
        self.refusal: HostKeyError | None = None
        self.banner = ""
        self.lost: Exception | None = None
        self.methods: Sequence[str] = ()
        self.showed_key = False
        self._deadline = deadline
        self._conn: asyncssh.SSHClientConnection | None = None

    @property
    def heard(self) -> bool:
        """Whether the other side has told its version: it is an SSH server."""
        return self._conn is not None and bool(self._conn.get_extra_info("server_version"))

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._conn = conn

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = exc or ConnectionError("closed")

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - asyncssh's signature
        self.showed_key = True
        self.refusal = self.trust.judge(key.public_data)
        return self.refusal is None

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002 - asyncssh's signature
        self.showed_key = True
        self.refusal = self.trust.judge_authority(key.public_data)
        return self.refusal is None

    def auth_banner_received(self, msg: str, lang: str) -> None:  # noqa: ARG002 - asyncssh's signature
        self.banner = clean_line(msg, BANNER_LIMIT)
        self.asking.banner(msg)

    def begin_auth(self, username: str) -> None:  # noqa: ARG002 - asyncssh's signature
        # Reached only after the host has signed the key exchange with the key that was judged.
        self.trust.confirmed()
        self._deadline.next_step()

    def _step(self) -> None:
        self._deadline.next_step()
        if self._conn is not None and not self.methods:
            self.methods = tuple(self._conn.get_server_auth_methods())

    async def public_key_auth_requested(self) -> asyncssh.SSHKeyPair | None:
        self._step()
        return None if self.asking.cancelled else await self.keyring.next()

    async def password_auth_requested(self) -> str | None:
        self._step()
        return await self.asking.password()

    def password_change_requested(self, prompt: str, lang: str) -> tuple[str, str]:  # noqa: ARG002 - asyncssh's signature
        self.asking.expired = True
        # asyncssh's word for "go on with the next way of login".
        return cast("tuple[str, str]", NotImplemented)

    async def kbdint_auth_requested(self) -> str | None:
        self._step()
        return "" if self.asking.may_be_challenged() else None

    async def kbdint_challenge_received(
        self,
        name: str,
        instructions: str,
        lang: str,  # noqa: ARG002 - asyncssh's signature
        prompts: Sequence[tuple[str, bool]],
    ) -> Sequence[str] | None:
        self._deadline.next_step()
        return await self.asking.challenge(name, instructions, prompts)


async def handshake(
    settings: HostSettings, client: LoginClient, sock: socket.socket | None, tunnel: asyncssh.SSHClientConnection | None,
    *, keepalive_s: float, keepalive_count: int,
) -> asyncssh.SSHClientConnection:  # fmt: skip
    """Key exchange and login with nothing left to a default that reads a file."""
    methods = list(settings.login_methods)
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
        encryption_algs=_usable("Ciphers", settings.ciphers, encryption.get_encryption_algs()),
        kex_algs=_usable("KexAlgorithms", settings.key_exchanges, kex.get_kex_algs()),
        mac_algs=_usable("MACs", settings.macs, mac.get_mac_algs()),
        signature_algs=_usable("PubkeyAcceptedAlgorithms", settings.signatures, public_key.get_public_key_algs()),
        x509_trusted_certs=None,
        x509_trusted_cert_paths=[],
        username=settings.user,
        # None: no default keys and no agent of its own; the client is asked for each key.
        client_keys=None,
        # Without a way of login the list must still not be empty, which would mean all of them.
        preferred_auth=methods or ["none"],
        public_key_auth="publickey" in methods,
        kbdint_auth="keyboard-interactive" in methods,
        password_auth="password" in methods,
        host_based_auth=False,
        gss_host=None,
        agent_forwarding=False,
        x11_forwarding=False,
        compression_algs=["zlib@openssh.com", "none"] if settings.compression else None,
        # None of its own: the caller's stands still while a person is asked.
        login_timeout=0,
        keepalive_interval=keepalive_s,
        keepalive_count_max=keepalive_count,
    )


def _supported() -> list[str]:
    names = public_key.get_default_certificate_algs() + public_key.get_default_public_key_algs()
    return [name.decode("ascii") for name in names]


def _usable(keyword: str, wanted: Sequence[str], supported: Sequence[bytes]) -> Sequence[str]:
    """Those of the user's algorithms that the library has. () stands for its defaults."""
    names = {name.decode("ascii") for name in supported}
    found = [name for name in wanted if name in names]
    if wanted and not found:
        raise asyncssh.KeyExchangeFailed(f"none of {keyword} {','.join(wanted)} is known here")
    return found or ()


# Keys


class _LockedPair(asyncssh.public_key.SSHLocalKeyPair):
    """A key of which the public half is known and the private one is opened when it is to sign."""

    def __init__(self, public: asyncssh.SSHKey, certificate: asyncssh.SSHCertificate | None, unlock: Unlock) -> None:
        super().__init__(public, None, certificate, None)
        self._unlock = unlock

    async def sign_async(self, data: bytes) -> bytes:
        """Called by asyncssh in place of `sign`. Raises ValueError: it goes on with the next key."""
        key = await self._unlock()
        if key is None:
            raise ValueError("not unlocked")
        if key.public_data != self.key_public_data:
            raise ValueError("the public half beside the file belongs to another key")
        return await asyncio.to_thread(key.sign, data, self.sig_algorithm)


class AsyncsshKeys:
    """`keyring.KeyLibrary` by asyncssh."""

    def read_keys(self, path: Path, certificates: Sequence[Path]) -> Sequence[asyncssh.SSHKeyPair]:
        """See KeyLibrary."""
        return asyncssh.load_keypairs(str(path), None, [str(c) for c in certificates], ignore_encrypted=True)

    def locked_keys(self, public: bytes, certificates: Sequence[Path], unlock: Unlock) -> Sequence[asyncssh.SSHKeyPair]:
        """See KeyLibrary."""
        key = public_key.decode_ssh_public_key(public)
        found = [c for c in _read_certificates(certificates) if c.key.public_data == public]
        return [*(_LockedPair(key, c, unlock) for c in found), _LockedPair(key, None, unlock)]

    def unlocked(self, path: Path, passphrase: str) -> asyncssh.SSHKey:
        """See KeyLibrary."""
        try:
            return asyncssh.read_private_key(str(path), passphrase)
        except asyncssh.KeyEncryptionError as exc:
            if "bcrypt" in str(exc):
                raise
            raise WrongPassphraseError from None
        except asyncssh.KeyImportError as exc:
            # PEM has no checksum: a wrong passphrase gives a key that cannot be read.
            if "decrypt" in str(exc):
                raise WrongPassphraseError from None
            raise

    def with_certificates(
        self, pair: asyncssh.SSHKeyPair, certificates: Sequence[Path]
    ) -> Sequence[asyncssh.SSHKeyPair]:
        """See KeyLibrary."""
        certified = []
        for certificate in _read_certificates(certificates):
            if certificate.key.public_data == pair.public_data and not pair.has_cert:
                one = copy.copy(pair)
                one.set_certificate(certificate)
                certified.append(one)
        return certified

    def open_agent(self, path: str) -> asyncssh.SSHAgentClient:
        """See KeyLibrary."""
        return asyncssh.SSHAgentClient(path)


def _read_certificates(paths: Sequence[Path]) -> Iterator[asyncssh.SSHCertificate]:
    """Those of the files that can be read, each once."""
    seen: set[bytes] = set()
    for path in paths:
        try:
            found = asyncssh.load_certificates(str(path))
        except (ValueError, OSError):
            continue
        for certificate in found:
            if certificate.public_data not in seen:
                seen.add(certificate.public_data)
                yield certificate
