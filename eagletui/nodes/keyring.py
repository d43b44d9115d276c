"""Which keys are offered to a node, in ssh's order, one at a time, with a record of it for the sentence when none
was accepted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from eagletui.nodes.ssh_config import HostSettings

if TYPE_CHECKING:
    import asyncssh

    ReadKeys = Callable[[Path, Sequence[Path]], Sequence["asyncssh.SSHKeyPair"]]
    OpenAgent = Callable[[str], "asyncssh.SSHAgentClient"]


class Keyring:
    """Keys of one login. `tried` and `passed_over` hold words for the user."""

    def __init__(self, settings: HostSettings) -> None:
        self._settings = settings
        self._offers: AsyncIterator[asyncssh.SSHKeyPair] | None = None
        self._agent: asyncssh.SSHAgentClient | None = None
        self.tried: list[str] = []
        self.encrypted: list[str] = []
        self.passed_over: list[str] = []

    async def next(self, read_keys: ReadKeys, open_agent: OpenAgent) -> asyncssh.SSHKeyPair | None:
        """The next key to offer, or None."""
        if self._offers is None:
            self._offers = self._all(read_keys, open_agent)
        return await anext(self._offers, None)

    async def _all(self, read_keys: ReadKeys, open_agent: OpenAgent) -> AsyncIterator[asyncssh.SSHKeyPair]:
        """Agent keys that a file names, other agent keys (unless IdentitiesOnly), then files: OpenSSH's
        pubkey_prepare.
        """
        named = {blob: path for path in self._settings.identity_files if (blob := public_blob(path))}
        agent_keys = await self._agent_keys(open_agent)
        ours = [k for k in agent_keys if k.public_data in named]
        others = [] if self._settings.identities_only else [k for k in agent_keys if k.public_data not in named]
        for pair in ours + others:
            self.tried.append(f"{pair.get_comment() or 'a key'} (agent)")
            yield pair
        held = {k.public_data for k in ours}
        for path in self._settings.identity_files:
            for pair in self._file_keys(path, read_keys):
                if pair.public_data not in held:
                    self.tried.append(str(path))
                    yield pair

    async def _agent_keys(self, open_agent: OpenAgent) -> Sequence[asyncssh.SSHKeyPair]:
        if self._settings.agent is None:
            return ()
        self._agent = open_agent(self._settings.agent)
        try:
            return await self._agent.get_keys()
        except (ValueError, OSError) as exc:
            self.passed_over.append(f"the agent at {self._settings.agent} ({exc})")
            return ()

    def _file_keys(self, path: Path, read_keys: ReadKeys) -> Sequence[asyncssh.SSHKeyPair]:
        if not path.is_file():
            return ()
        try:
            pairs = read_keys(path, self._settings.certificate_files)
        except (ValueError, OSError) as exc:
            if not is_public(path):
                self.passed_over.append(f"{path} ({exc})")
            return ()
        if not pairs:
            self.encrypted.append(str(path))
        return pairs

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
        """Leave the agent. Never raises."""
        if self._agent is not None:
            self._agent.close()
            await self._agent.wait_closed()
            self._agent = None


def public_blob(path: Path) -> bytes | None:
    """The public key (SSH wire format) that belongs to a key file: from FILE.pub, or from the file if that is public
    itself.
    """
    for candidate in (Path(f"{path}.pub"), path):
        try:
            fields = candidate.read_text(encoding="utf-8", errors="replace").split()
            if len(fields) >= 2 and (blob := base64.b64decode(fields[1], validate=True)):
                return blob
        except (OSError, binascii.Error, ValueError):
            continue
    return None


def is_public(path: Path) -> bool:
    """Whether a file holds a public key only (IdentityFile may name one, to choose a key of the agent)."""
    try:
        with path.open("rb") as file:
            return b"PRIVATE KEY" not in file.read(4096)
    except OSError:
        return False
