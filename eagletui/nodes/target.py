"""How a user names a machine: `host`, `user@host`, `host:port`, `user@host:port`, `[::1]:port`, `::1`,
`ssh://user@host:port`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.errors import UsageError

_SHELL_CHARACTERS = frozenset("'`\"$\\;&<>|(){}")
"""OpenSSH refuses these in a host or user name, since a ProxyCommand hands both to a shell (readconf.c,
valid_hostname).
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A machine as it was named. `user` and `port` are None where ssh's configuration decides."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port is not None else self.host
        return (
            (f"{self.user}@" if self.user is not None else "")
            + host
            + (f":{self.port}" if self.port is not None else "")
        )


def parse_target(text: str) -> Target:
    """The parts of a node's name. Raises UsageError with a sentence for what ssh would not accept either."""
    rest = text.removeprefix("ssh://")
    if rest != text:
        rest = rest.removesuffix("/")
    user: str | None
    user, at, place = rest.rpartition("@")
    if not at:
        user = None
    host, port = _split_port(text, place)
    _check(text, "host", host)
    if user is not None:
        _check(text, "user", user)
    return Target(host, user, port)


def _split_port(text: str, place: str) -> tuple[str, int | None]:
    if place.startswith("["):
        host, bracket, after = place[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise UsageError(f"{text!r} is no node name: write an IPv6 address with a port as [::1]:2222")
        return host, _port(text, after[1:]) if after else None
    if place.count(":") == 1:
        host, _, port = place.partition(":")
        return host, _port(text, port)
    return place, None


def _port(text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise UsageError(f"{text!r} is no node name: {digits!r} is not a port between 1 and 65535")
    return int(digits)


def _check(text: str, part: str, value: str) -> None:
    if not value:
        raise UsageError(f"{text!r} is no node name: its {part} is empty")
    if value.startswith("-"):
        raise UsageError(f"{text!r} is no node name: a {part} cannot begin with a hyphen")
    if any(c in _SHELL_CHARACTERS or c.isspace() or not c.isprintable() for c in value):
        raise UsageError(f"{text!r} is no node name: its {part} holds a character that ssh refuses")
