"""What the script `details` prints of a few processes: exact argv, cwd, standard descriptors, sockets; then who
listens, and user names. Total.

Socket addresses are those of /proc/net/tcp and tcp6 (proc_pid_net(5)): 32-bit words in the byte order of the node,
taken as little-endian.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from eagletui.shell.processes import as_text
from eagletui.shell.script import Command
from eagletui.shell.scripts import DETAILS

_DELETED = " (deleted)"
_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
_UNIT = re.compile(r"(?!user@|ssh|sshd|session-)[A-Za-z0-9:_.@\\-]{1,200}\.service\Z")
_TYPES = frozenset({"regular", "character", "fifo", "socket", "directory", "other"})


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A standard descriptor.

    `link` is what /proc shows, without " (deleted)", which is `deleted`. Size in bytes, mtime in epoch seconds.
    """

    number: int
    link: str
    type: str
    readable: bool
    deleted: bool = False
    device: str | None = None
    inode: int | None = None
    size: int | None = None
    mtime: float | None = None


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    """A process looked at closely.

    `fds_readable` False: another user's, so `fds` and `sockets` (inodes) are unknown, not empty. `keeper`: "docker ID" or
    "podman ID" or "nerdctl ID" (12 hex digits), "unit NAME.service" or "user-unit NAME.service", in which it runs, told only where its output is a pipe,
    a socket or cannot be seen.
    """

    pid: int
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    fds: tuple[Descriptor, ...] = ()
    sockets: frozenset[int] = frozenset()
    fds_readable: bool = True
    keeper: str | None = None

    def fd(self, number: int) -> Descriptor | None:
        """The standard descriptor with this number."""
        return next((fd for fd in self.fds if fd.number == number), None)


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket of the node's network namespace. `address` None when it could not be read."""

    port: int
    address: str | None
    uid: int | None
    inode: int


@dataclass(frozen=True, slots=True)
class Details:
    """One answer. `complete`: its end came, so a pid that was asked for and is not there is gone."""

    processes: tuple[ProcessDetails, ...] = ()
    listeners: tuple[Listener, ...] = ()
    users: tuple[tuple[int, str], ...] = ()
    complete: bool = False

    def of(self, pid: int) -> ProcessDetails | None:
        """The details of one process."""
        return next((p for p in self.processes if p.pid == pid), None)


def ask_details(pids: Iterable[int], uids: Iterable[int] = ()) -> Command:
    """The command whose stdout parse_details reads. `uids`: users whose names are wanted beside those of the processes."""
    return Command(DETAILS, (*(str(pid) for pid in pids), *(f"u{uid}" for uid in uids)))


@dataclass(slots=True)
class _Open:
    """A process while its lines come in."""

    pid: int
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    fds: list[Descriptor] = field(default_factory=list)
    sockets: set[int] = field(default_factory=set)
    readable: bool = True
    keeper: str | None = None

    def close(self) -> ProcessDetails:
        return ProcessDetails(
            self.pid, self.argv, self.cwd, tuple(self.fds), frozenset(self.sockets), self.readable, self.keeper
        )


def _hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def split_arguments(raw: bytes) -> tuple[str, ...]:
    """A /proc/PID/cmdline as arguments, empty ones kept.

    A title that overwrote the arguments and is padded with NULs is one argument.
    """
    parts = raw.removesuffix(b"\0").split(b"\0")
    if not any(parts[1:]):
        parts = parts[:1]
    return tuple(as_text(part) for part in parts) if any(parts) else ()


def keeper_of(cgroups: str) -> str | None:
    """Whose output a process's is, by its /proc/PID/cgroup (cgroups(7): lines of `hierarchy:controllers:path`): a container of
    docker, podman, containerd or Kubernetes (64 hex digits in the path), else a systemd service that is no user session."""
    if (container := _CONTAINER.search(cgroups)) is not None:
        runtime = "podman" if "libpod" in cgroups else "docker" if "docker" in cgroups else "nerdctl"
        return f"{runtime} {container[1][:12]}"
    units = [word for word in re.split(r"[/\n]", cgroups) if _UNIT.match(word)]
    user = "user-" if "/user@" in cgroups else ""
    return f"{user}unit {units[-1]}" if units else None


def _descriptor(words: list[str]) -> Descriptor | None:
    if len(words) != 8:
        return None
    number, raw = _number(words[0]), _hex(words[1])
    if number is None or raw is None:
        return None
    link = as_text(raw)
    seconds = _number(words[5])
    return Descriptor(
        number=number,
        link=link.removesuffix(_DELETED),
        type=words[6] if words[6] in _TYPES else "other",
        readable=words[7] == "y",
        deleted=link.endswith(_DELETED),
        device=words[2] if words[2] != "-" else None,
        inode=_number(words[3]),
        size=_number(words[4]),
        mtime=None if seconds is None else float(seconds),
    )


def _address(text: str) -> str | None:
    raw = _hex(text)
    if raw is None or len(raw) not in {4, 16}:
        return None
    packed = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _listener(words: list[str]) -> Listener | None:
    if len(words) != 4:
        return None
    host, _, port = words[1].partition(":")
    raw, inode = _hex(port), _number(words[3])
    if raw is None or len(raw) != 2 or inode is None:
        return None
    return Listener(int.from_bytes(raw, "big"), _address(host), _number(words[2]), inode)


def _take(process: _Open, key: str, rest: str) -> None:
    if key == "argv":
        process.argv = split_arguments(_hex(rest) or b"")
    elif key == "cwd":
        process.cwd = as_text(_hex(rest) or b"") or None
    elif key == "nofd":
        process.readable = False
    elif key == "cgroup":
        process.keeper = keeper_of(as_text(_hex(rest) or b""))
    elif key == "sock" and (inode := _number(rest)) is not None:
        process.sockets.add(inode)
    elif key == "fd" and (descriptor := _descriptor(rest.split(" "))) is not None:
        process.fds.append(descriptor)


def parse_details(output: bytes) -> Details:
    """What the script `details` printed; lines it does not know are passed over."""
    closed: dict[int, ProcessDetails] = {}
    listeners: dict[int, Listener] = {}
    users: dict[int, str] = {}
    current: _Open | None = None
    complete = False
    for line in as_text(output).split("\n"):
        key, _, rest = line.partition(" ")
        if key in {"pid", "listen", "user", "done"} and current is not None:
            closed[current.pid], current = current.close(), None
        if key == "pid":
            pid = _number(rest)
            current = None if pid is None else _Open(pid)
        elif key == "listen" and (listener := _listener(rest.split(" "))) is not None:
            listeners[listener.inode] = listener
        elif key == "user":
            uid, _, name = rest.partition(" ")
            number = _number(uid)
            if number is not None and name:
                users[number] = name
        elif key == "done":
            complete = True
        elif current is not None:
            _take(current, key, rest)
    if current is not None:
        closed[current.pid] = current.close()
    return Details(tuple(closed.values()), tuple(listeners.values()), tuple(sorted(users.items())), complete)
