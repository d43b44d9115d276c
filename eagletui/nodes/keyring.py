"""Which keys are offered to a node, in ssh's order, one at a time, with a record of it for the sentence when none
was accepted. Of an encrypted file the public half is offered first, as ssh does: its passphrase is asked only when the
node has accepted that.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from eagletui.nodes.asking import Asking
from eagletui.nodes.ssh_config import HostSettings

if TYPE_CHECKING:
    import asyncssh

    Unlock = Callable[[], Awaitable["asyncssh.SSHKey | None"]]

_CONTAINER = b"openssh-key-v1\0"


class KeyLibrary(Protocol):
    """What reads keys; every method raises ValueError and OSError for what it cannot use."""

    def read_keys(self, path: Path, certificates: Sequence[Path]) -> Sequence[asyncssh.SSHKeyPair]:
        """Key pairs of a private key file, with its certificates first. Empty: it is encrypted."""

    def locked_keys(self, public: bytes, certificates: Sequence[Path], unlock: Unlock) -> Sequence[asyncssh.SSHKeyPair]:
        """The same for an encrypted file of which the public half is known; `unlock` is called when one is to sign."""

    def unlocked(self, path: Path, passphrase: str) -> asyncssh.SSHKey:
        """The private key of an encrypted file. Takes a while by design. Raises WrongPassphraseError."""

    def with_certificates(
        self, pair: asyncssh.SSHKeyPair, certificates: Sequence[Path]
    ) -> Sequence[asyncssh.SSHKeyPair]:
        """A key of the agent with each certificate file that certifies it."""

    def open_agent(self, path: str) -> asyncssh.SSHAgentClient:
        """A client of the ssh-agent behind a socket; connects on its first question."""


class WrongPassphraseError(ValueError):
    """A passphrase that does not open the key."""


class Keyring:
    """Keys of one login. `tried` and `passed_over` hold words for the user."""

    def __init__(self, settings: HostSettings, asking: Asking, library: KeyLibrary) -> None:
        self._settings = settings
        self._asking = asking
        self._library = library
        self._offers: AsyncIterator[asyncssh.SSHKeyPair] | None = None
        self._agent: asyncssh.SSHAgentClient | None = None
        self._opened: dict[Path, asyncssh.SSHKey | None] = {}
        self.tried: list[str] = []
        self.encrypted: list[str] = []
        self.passed_over: list[str] = []

    async def next(self) -> asyncssh.SSHKeyPair | None:
        """The next key to offer, or None."""
        if self._offers is None:
            self._offers = self._all()
        return await anext(self._offers, None)

    async def _all(self) -> AsyncIterator[asyncssh.SSHKeyPair]:
        """Agent keys that a file names, other agent keys (unless IdentitiesOnly), then files: OpenSSH's
        pubkey_prepare.
        """
        named = {blob: path for path in self._settings.identity_files if (blob := public_blob(path))}
        agent_keys = await self._agent_keys()
        ours = [k for k in agent_keys if k.public_data in named]
        others = [] if self._settings.identities_only else [k for k in agent_keys if k.public_data not in named]
        for pair in ours + others:
            path = named.get(pair.public_data)
            files = self._settings.certificate_files + ((_certificate(path),) if path is not None else ())
            for one in (*self._library.with_certificates(pair, files), pair):
                self.tried.append(f"{pair.get_comment(errors='replace') or 'a key'} (agent)")
                yield one
        held = {k.public_data for k in ours}
        for path in self._settings.identity_files:
            async for pair in self._file_keys(path, held):
                if pair.public_data not in held and self._opened.get(path, pair) is not None:
                    self.tried.append(str(path))
                    yield pair

    async def _agent_keys(self) -> Sequence[asyncssh.SSHKeyPair]:
        if self._settings.agent is None:
            return ()
        self._agent = self._library.open_agent(self._settings.agent)
        try:
            return await self._agent.get_keys()
        except (ValueError, OSError) as exc:
            self.passed_over.append(f"the agent at {self._settings.agent} ({exc})")
            return ()

    async def _file_keys(self, path: Path, held: set[bytes]) -> AsyncIterator[asyncssh.SSHKeyPair]:
        if not path.is_file():  # noqa: ASYNC240 - local and quick, as all reading of keys here
            return
        try:
            pairs = self._library.read_keys(path, self._settings.certificate_files)
            if not pairs:
                pairs = await self._locked(path, held)
        except (ValueError, OSError) as exc:
            if not is_public(path):
                self.passed_over.append(f"{path} ({exc})")
            return
        for pair in pairs:
            yield pair

    async def _locked(self, path: Path, held: set[bytes]) -> Sequence[asyncssh.SSHKeyPair]:
        public = public_blob(path)
        if public is None:
            # An old format, and no FILE.pub: only the passphrase shows which key it is.
            key = await self._unlock(path)
            if key is None:
                return ()
            public = key.public_data
        if public in held:
            return ()
        files = (_certificate(path), *self._settings.certificate_files)
        return self._library.locked_keys(public, files, lambda: self._unlock(path))

    async def _unlock(self, path: Path) -> asyncssh.SSHKey | None:
        """The private key by the person's passphrase, asked once a login for all that signs with it."""
        if path not in self._opened:
            self._opened[path] = await self._ask_and_open(path)
            if self._opened[path] is None:
                self.encrypted.append(str(path))
        return self._opened[path]

    async def _ask_and_open(self, path: Path) -> asyncssh.SSHKey | None:
        for attempt in range(max(self._settings.password_prompts, 1)):
            passphrase = await self._asking.passphrase(path, wrong=attempt > 0)
            if passphrase is None:
                return None
            try:
                return await asyncio.to_thread(self._library.unlocked, path, passphrase)
            except WrongPassphraseError:
                continue
            except (ValueError, OSError) as exc:
                self.passed_over.append(f"{path} ({exc})")
                return None
        return None

    def explain(self) -> str:
        """What was tried and what to do, as the end of a sentence."""
        parts = ["tried " + ", ".join(dict.fromkeys(self.tried)) if self.tried else "there was no key to try"]
        if self.encrypted:
            parts.append(
                f"{', '.join(self.encrypted)} needs its passphrase: load it with `ssh-add {self.encrypted[0]}`"
            )
        if self.passed_over:
            parts.append("passed over " + ", ".join(self.passed_over))
        if not self.encrypted:
            parts.append("load the right key with `ssh-add`, or name it by IdentityFile in ~/.ssh/config")
        return "; ".join(parts)

    async def aclose(self) -> None:
        """Forget the keys and leave the agent. Never raises."""
        self._opened.clear()
        self._offers = None
        if self._agent is not None:
            self._agent.close()
            await self._agent.wait_closed()
            self._agent = None


def _certificate(path: Path) -> Path:
    return Path(f"{path}-cert.pub")


def public_blob(path: Path) -> bytes | None:
    """The public key (SSH wire format) that belongs to a key file: from FILE.pub, or from the file itself if that is
    public or of OpenSSH's own format, which has the public half in clear.
    """
    for candidate in (Path(f"{path}.pub"), path):
        try:
            text = candidate.read_text(encoding="utf-8", errors="replace")
            fields = text.split()
            if "PRIVATE KEY-----" in text:
                if blob := _blob_in_container(text):
                    return blob
            elif len(fields) >= 2 and (blob := base64.b64decode(fields[1], validate=True)):
                return blob
        except (OSError, binascii.Error, ValueError):
            continue
    return None


def _blob_in_container(text: str) -> bytes | None:
    """OpenSSH's PROTOCOL.key: magic, cipher, KDF, its options, the number of keys, then the first public key."""
    _, _, rest = text.partition("-----BEGIN OPENSSH PRIVATE KEY-----")
    body, end, _ = rest.partition("-----END OPENSSH PRIVATE KEY-----")
    if not end:
        return None
    data = base64.b64decode("".join(body.split()), validate=True)
    if not data.startswith(_CONTAINER):
        return None
    at, found = len(_CONTAINER), b""
    for part in range(4):
        if part == 3:
            at += 4
        size = int.from_bytes(data[at : at + 4], "big")
        found = data[at + 4 : at + 4 + size]
        if len(found) != size:
            return None
        at += 4 + size
    return found or None


def is_public(path: Path) -> bool:
    """Whether a file holds a public key only (IdentityFile may name one, to choose a key of the agent)."""
    try:
        with path.open("rb") as file:
            return b"PRIVATE KEY" not in file.read(4096)
    except OSError:
        return False
