"""known_hosts files, read as sshd(8) "SSH_KNOWN_HOSTS FILE FORMAT" and OpenSSH's hostfile.c do. Pure: takes texts,
opens nothing.

An entry is `[@marker] names type base64 [comment]`; names are comma-separated patterns (`*`, `?`, `!` negates) or one
hashed name
`|1|base64 salt|base64 HMAC-SHA1(salt, name)`. A port other than 22 is looked up as `[host]:port`, and then, for a
match only, without it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

DEFAULT_PORT = 22
_RSA_ALGORITHMS = ("rsa-sha2-512", "rsa-sha2-256", "ssh-rsa")
_CERTIFICATE = "-cert-v01@openssh.com"


class Verdict(Enum):
    """What the files say about a key. The value is for messages of tests, not for the user."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that names the host. `marker` is "" (a plain key), "cert-authority" or "revoked"; `blob` is the key
    in SSH wire format.
    """

    file: str
    line: int
    marker: str
    key_type: str
    blob: bytes

    @property
    def place(self) -> str:
        """FILE:LINE, as editors and `ssh-keygen` understand it."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the entry that decided it (None for UNKNOWN)."""

    verdict: Verdict
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What all files say about one host. `entries` name it with its port, `portless` without (they can only confirm
    a key).
    """

    entries: tuple[Entry, ...] = ()
    portless: tuple[Entry, ...] = ()

    @property
    def key_types(self) -> tuple[str, ...]:
        """Types of the plain keys on file, in the files' order: what to ask the host for first."""
        return tuple(dict.fromkeys(e.key_type for e in self.entries + self.portless if not e.marker))

    @property
    def has_authority(self) -> bool:
        """Whether a certificate authority is trusted for this host."""
        return any(e.marker == "cert-authority" for e in self.entries + self.portless)

    def with_key(self, blob: bytes) -> KnownKeys:
        """The same, as if the host's key `blob` were on file before all others."""
        return KnownKeys((Entry("", 0, "", key_type(blob), blob), *self.entries), self.portless)

    def judge(self, blob: bytes) -> Judgement:
        """Whether a plain host key is the one on file. Any other plain key on file means CHANGED, of whatever type
        (as hostfile.c does).
        """
        return self._judge(blob, "")

    def judge_authority(self, blob: bytes) -> Judgement:
        """Whether the key that signed a host's certificate is trusted for it. An unknown authority is UNKNOWN, never
        CHANGED.
        """
        found = self._judge(blob, "cert-authority")
        return Judgement(Verdict.UNKNOWN) if found.verdict is Verdict.CHANGED else found

    def _judge(self, blob: bytes, marker: str) -> Judgement:
        both = self.entries + self.portless
        for entry in both:
            if entry.marker == "revoked" and entry.blob == blob:
                return Judgement(Verdict.REVOKED, entry)
        for entry in both:
            if entry.marker == marker and entry.blob == blob:
                return Judgement(Verdict.KNOWN, entry)
        for entry in self.entries:
            if entry.marker == marker:
                return Judgement(Verdict.CHANGED, entry)
        return Judgement(Verdict.UNKNOWN)


def lookup_name(host: str, port: int, alias: str | None = None) -> str:
    """The name under which a host stands in known_hosts: HostKeyAlias as it is, else the lower-case host,
    `[host]:port` off port 22.
    """
    if alias is not None:
        return alias.lower()
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def lookup(files: Iterable[tuple[str, str]], host: str, port: int, alias: str | None = None) -> KnownKeys:
    """All entries for a host in `files` ((path, text) each). Lines that cannot be read are passed over, as ssh does."""
    name = lookup_name(host, port, alias)
    plain = host.lower() if alias is None and port != DEFAULT_PORT else None
    entries: list[Entry] = []
    portless: list[Entry] = []
    for file, text in files:
        for number, line in enumerate(text.split("\n"), 1):
            parsed = _parse(line)
            if parsed is None:
                continue
            marker, names, key_type, blob = parsed
            if _matches(names, name):
                entries.append(Entry(file, number, marker, key_type, blob))
            elif plain is not None and _matches(names, plain):
                portless.append(Entry(file, number, marker, key_type, blob))
    return KnownKeys(tuple(entries), tuple(portless))


def _parse(line: str) -> tuple[str, str, str, bytes] | None:
    fields = line.split()
    if not fields or fields[0].startswith("#"):
        return None
    marker = ""
    if fields[0].startswith("@"):
        marker = fields.pop(0)[1:]
        if marker not in {"cert-authority", "revoked"}:
            return None
    if len(fields) < 3:
        return None
    names, declared, encoded = fields[:3]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    return (marker, names, declared, blob) if key_type(blob) == declared else None


def _matches(names: str, name: str) -> bool:
    if names.startswith("|"):
        return _matches_hashed(names, name)
    found = False
    for pattern in names.lower().split(","):
        if pattern.startswith("!"):
            if _wild(pattern[1:], name):
                return False
        elif _wild(pattern, name):
            found = True
    return found


def _wild(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern:
        return pattern == name
    # Runs of stars are one star: `(?s:.*)` twice in a row would backtrack without end on a hostile file.
    parts = re.split(r"(\*+|\?)", pattern)
    return (
        re.fullmatch("".join(".*" if p.startswith("*") else "." if p == "?" else re.escape(p) for p in parts), name)
        is not None
    )


def _matches_hashed(names: str, name: str) -> bool:
    fields = names.split("|")
    if len(fields) != 4 or fields[1] != "1":
        return False
    try:
        salt, digest = base64.b64decode(fields[2], validate=True), base64.b64decode(fields[3], validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(_hash_name(salt, name), digest)


def _hash_name(salt: bytes, name: str) -> bytes:
    return hmac.new(salt, name.encode("utf-8", "surrogateescape"), hashlib.sha1).digest()


def key_type(blob: bytes) -> str:
    """The type a key in SSH wire format says it has; "" when it is not such a key."""
    size = int.from_bytes(blob[:4], "big")
    if len(blob) < 4 or not 0 < size <= 64 or len(blob) < 4 + size:
        return ""
    name = blob[4 : 4 + size]
    return name.decode("ascii") if name.isascii() else ""


def fingerprint(blob: bytes) -> str:
    """`SHA256:…` as `ssh` and `ssh-keygen -l` print it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def new_line(name: str, blob: bytes, salt: bytes | None = None) -> str:
    """A line for a known_hosts file, with its newline; the name is hashed with a 20-byte salt when one is given
    (HashKnownHosts).
    """
    if salt is not None:
        name = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(_hash_name(salt, name)).decode()}"
    return f"{name} {key_type(blob)} {base64.b64encode(blob).decode()}\n"


def order_algorithms(allowed: Sequence[str], known: KnownKeys, *, certificates: bool = True) -> tuple[str, ...]:
    """The host key algorithms to offer, best first: those whose key is on file come first, so that the host shows
    that key and not another.

    Certificates are offered (first) only where an authority is trusted; otherwise a host that has one would be
    refused for it. None are offered without `certificates`.
    """
    plain = [a for a in allowed if not a.endswith(_CERTIFICATE)]
    certified = [a for a in allowed if a.endswith(_CERTIFICATE)] if certificates and known.has_authority else []
    wanted = {a for t in known.key_types for a in (_RSA_ALGORITHMS if t == "ssh-rsa" else (t,))}
    return (*certified, *(a for a in plain if a in wanted), *(a for a in plain if a not in wanted))
