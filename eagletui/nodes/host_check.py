"""Is it the host that it should be? Judges a shown key before any login, words the refusal, and stores new keys where
the user allows it.

asyncssh's own matching cannot tell an unknown key from a changed one; known_hosts.py can.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from eagletui.errors import HostKeyError
from eagletui.nodes.known_hosts import (
    Entry,
    KnownKeys,
    Verdict,
    fingerprint,
    key_type,
    lookup,
    lookup_name,
    new_line,
    order_algorithms,
)
from eagletui.nodes.prompter import Field, Prompter, Question, clean_line
from eagletui.nodes.ssh_config import HostSettings

_SALT_BYTES = 20
"""What OpenSSH uses: the length of a SHA-1."""


class Trust(Protocol):
    """Who may answer. `judge` and `judge_authority` give None for yes, else the error to raise."""

    def algorithms(self, supported: Sequence[str]) -> Sequence[str]:
        """Host key algorithms to offer, best first."""

    def judge(self, blob: bytes) -> HostKeyError | None:
        """Judge a plain key (SSH wire format)."""

    def judge_authority(self, blob: bytes) -> HostKeyError | None:
        """Judge the key that signed a host certificate."""

    def confirmed(self) -> None:
        """The host has proved that it owns the key that was judged last."""

    async def reconsider(self, prompter: Prompter, login: str) -> bool:
        """Whether to connect again after a refusal of the key, since it may be judged otherwise then; a person may be
        asked. `login` names it for the question. Raises HostKeyError, LoginCancelledError.
        """


@dataclass(slots=True)
class PinnedKey:
    """Exactly one key is right, whatever the files say."""

    name: str
    blob: bytes

    def algorithms(self, supported: Sequence[str]) -> Sequence[str]:
        """See Trust."""
        return order_algorithms(supported, KnownKeys((Entry(self.name, 0, "", key_type(self.blob), self.blob),)))

    def judge(self, blob: bytes) -> HostKeyError | None:
        """See Trust."""
        if blob == self.blob:
            return None
        return HostKeyError(
            f"{self.name} showed the host key {fingerprint(blob)}, not the expected {fingerprint(self.blob)}"
        )

    def judge_authority(self, blob: bytes) -> HostKeyError | None:
        """See Trust."""
        return self.judge(blob)

    def confirmed(self) -> None:
        """Nothing to store."""

    async def reconsider(self, prompter: Prompter, login: str) -> bool:  # noqa: ARG002 - see Trust
        """Never: there is one right key."""
        return False


@dataclass(slots=True)
class FileTrust:
    """What the user's and the system's known_hosts files say, and the person where they say nothing. `config_file` only
    words the advice.

    The key exchange cannot wait for a person. So an unknown key is refused there and remembered; after the person said
    yes the connection is made again, and then exactly that key is accepted, and stored once the host has proved it.
    """

    settings: HostSettings
    config_file: Path | None = None
    known: KnownKeys = field(init=False)
    _new: bytes | None = field(init=False, default=None)
    _unknown: bytes | None = field(init=False, default=None)
    _agreed: bytes | None = field(init=False, default=None)
    _certificate_refused: str = field(init=False, default="")
    _may_be_certified: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self._look_up()

    def _look_up(self) -> None:
        s = self.settings
        self.known = lookup(_read_all((*s.user_known_hosts, *s.global_known_hosts)), s.host, s.port, s.alias)

    def algorithms(self, supported: Sequence[str]) -> Sequence[str]:
        """See Trust: what the configuration allows, types on file first."""
        allowed = [a for a in self.settings.algorithms if a in supported] or supported
        if self._agreed is not None:
            # The key that was agreed on and no other: the host may have several.
            return order_algorithms(allowed, self.known.with_key(self._agreed), certificates=False)
        return order_algorithms(allowed, self.known, certificates=self._may_be_certified)

    def judge(self, blob: bytes) -> HostKeyError | None:
        """See Trust."""
        found = self.known.judge(blob)
        self._new = self._unknown = None
        match found.verdict, found.entry:
            case Verdict.KNOWN, _:
                return None
            case Verdict.UNKNOWN, _ if self.settings.accept_new or blob == self._agreed:
                self._new = blob
                return None
            case Verdict.UNKNOWN, _ if self._agreed is not None:
                return HostKeyError(
                    f"{self._where} now shows {_show(blob)}, not {_show(self._agreed)} that was agreed on: "
                    "do not connect, ask who runs it"
                )
            case Verdict.REVOKED, entry if entry is not None:
                return HostKeyError(
                    f"the host key of {self._where} is revoked by {entry.place} ({_show(blob)}): "
                    "do not connect, ask who runs it"
                )
            case Verdict.CHANGED, entry if entry is not None:
                name = lookup_name(self.settings.host, self.settings.port, self.settings.alias)
                return HostKeyError(
                    f"the host key of {self._where} has changed: it shows {_show(blob)}, "
                    f"but {entry.place} has {_show(entry.blob)}. Somebody may be listening in, or the node was "
                    "installed anew. If its administrator confirms the new fingerprint, "
                    f"remove the old key with: ssh-keygen -f {entry.file} -R '{name}'"
                )
        self._unknown = blob
        return HostKeyError(
            f"the host key of {self._where} is not known: {_show(blob)}{self._certificate_refused}. "
            f"Run `{self._ssh(ask=True)}` once, compare the fingerprint and say yes; that stores it"
            + (". KnownHostsCommand is not run here" if self.settings.known_hosts_command else ""),
            needs_person=not self._never_asked,
        )

    @property
    def _never_asked(self) -> bool:
        return self.settings.strict or self.settings.batch

    async def reconsider(self, prompter: Prompter, login: str) -> bool:
        """See Trust. As ssh does, a certificate that is not trusted leaves the plain key to be judged."""
        if self._certificate_refused and self._may_be_certified:
            self._may_be_certified = False
            return True
        blob = self._unknown
        if blob is None or self._agreed is not None or self._never_asked or not prompter.can_ask:
            return False
        if not await self._agrees(prompter, login, blob):
            return False
        # The files may have been written while the person looked at the fingerprint.
        self._look_up()
        self._agreed = blob
        return True

    async def _agrees(self, prompter: Prompter, login: str, blob: bytes) -> bool:
        """Asked until the answer is one. A fingerprint is pasted to have it compared."""
        told: tuple[str, ...] = (
            f"The host key of {self._where} is not known{self._certificate_refused}. It shows:",
            _show(blob),
            "Compare it with what the machine's administrator says, or with `ssh-keygen -lf` on the machine itself.",
        )
        label = "Connect and store it? yes, no, or the fingerprint"
        if obstacle := _cannot_store(self.settings.user_known_hosts):
            told += (f"It cannot be stored, so it will be asked about again: {obstacle}.",)
            label = "Connect? yes, no, or the fingerprint"
        while True:
            answers = await prompter.ask(Question(login, (Field(label, secret=False),), told=told))
            answer = answers[0].strip() if answers else "no"
            if answer.lower() == "yes" or answer == fingerprint(blob):
                return True
            if answer.lower() == "no":
                return False
            if answer.startswith("SHA256:"):
                raise HostKeyError(
                    f"the host key of {self._where} is {_show(blob)}, not {clean_line(answer)}: "
                    "do not connect, ask who runs it"
                )
            told = ("Please type yes, no, or the fingerprint.",)

    def judge_authority(self, blob: bytes) -> HostKeyError | None:
        """See Trust."""
        found = self.known.judge_authority(blob)
        if found.verdict is Verdict.KNOWN:
            # What may still be wrong with the certificate itself (its time, its names) is found after this.
            self._certificate_refused = ", and its host certificate is not good for this name and time"
            return None
        if found.entry is not None:
            self._certificate_refused = ""
            return HostKeyError(
                f"the authority of the host certificate of {self._where} is revoked by {found.entry.place}"
            )
        self._certificate_refused = ", and its host certificate is signed by an authority that is not known"
        return HostKeyError(
            f"the host certificate of {self._where} is signed by an authority that is not known: {_show(blob)}. "
            f"Run `{self._ssh()}` once, or add an @cert-authority line to known_hosts"
        )

    def confirmed(self) -> None:
        """Stores a key that `accept-new` let pass. A file that cannot be written is passed over: it is accepted as
        new again next time.
        """
        blob, self._new = self._new, None
        if blob is None or not self.settings.user_known_hosts:
            return
        name = lookup_name(self.settings.host, self.settings.port, self.settings.alias)
        salt = os.urandom(_SALT_BYTES) if self.settings.hash_known_hosts else None
        try:
            _append(self.settings.user_known_hosts[0], new_line(name, blob, salt))
        except OSError:
            return

    @property
    def _where(self) -> str:
        return self.settings.called

    def _ssh(self, *, ask: bool = False) -> str:
        """The same login with ssh. `ask`: so that it asks about an unknown key, whatever the configuration says."""
        s = self.settings
        words = [
            "ssh",
            *(("-F", str(self.config_file)) if self.config_file else ()),
            *(("-p", str(s.port)) if s.port != 22 else ()),
            *(("-o", "StrictHostKeyChecking=ask") if ask and s.strict else ()),
            *(("-o", "BatchMode=no") if ask and s.batch else ()),
        ]
        return " ".join([*words, f"{s.user}@{s.name}"])


def _show(blob: bytes) -> str:
    return f"{key_type(blob) or 'a key'} {fingerprint(blob)}"


def _read_all(paths: Sequence[Path]) -> list[tuple[str, str]]:
    texts = []
    for path in paths:
        try:
            # A device or a pipe might never end.
            if not path.is_file():
                continue
            texts.append((str(path), path.read_text(encoding="utf-8", errors="surrogateescape")))
        except OSError:
            continue
    return texts


def _cannot_store(files: Sequence[Path]) -> str:
    """Why a key cannot be added to the first of known_hosts files, as far as can be told beforehand; "" if it can."""
    if not files:
        return "UserKnownHostsFile is none"
    path = files[0]
    try:
        if path.exists():
            if not path.is_file():
                return f"{path} is not a file"
            return "" if os.access(path, os.W_OK) else f"{path} cannot be written"
        folder = next(p for p in path.absolute().parents if p.exists())
    except OSError as error:
        return f"{path}: {error.strerror}"
    return "" if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) else f"{folder} cannot be written"


def _append(path: Path, line: str) -> None:
    """Add a line, wholly or not at all: half a key would look like another key of that host."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        end = os.lseek(handle, 0, os.SEEK_END)
        torn = bool(end) and os.pread(handle, 1, end - 1) != b"\n"
        data = (b"\n" if torn else b"") + line.encode("utf-8", "surrogateescape")
        try:
            while data:
                data = data[os.write(handle, data) :]
        except OSError:
            os.ftruncate(handle, end)
            raise
    finally:
        os.close(handle)
