r"""Who keeps a process, as the script `ownership` tells it: control groups, what it descends from, its namespaces, its Slurm job; the same of our own shell.

ownership PID ...
    of PID\n          first this shell's own pid, then each that is there
      cgroup HEX\n    /proc/PID/cgroup ("-": not readable), at most 4 KiB
      ns PID MNT\n    the links of /proc/PID/ns/pid and mnt ("pid:[4026531836]"), "-" where not readable
      job HEX\n       SLURM_JOB_ID of its environment; "-": none, or not readable
      above PID PPID UID STATE STARTED TTY COMM ARGV\n   itself, then each process it descends from, up to pid 1 or one that cannot be seen. UID "-" if
                      unknown; TTY: field 7 of its stat, 0 for none; COMM and ARGV (at most 4 KiB) are hex, "-" where empty
    host HEX\n        the kernel's host name
    address TEXT\n    each local IPv4 address; address6 HEX\n each IPv6 address (32 digits)
    done\n
Reads only.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from eagletui.shell.fragments import READ_PROCESS
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

OWNERSHIP: Final = Script(
    "ownership",
    READ_PROCESS
    + r"""
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
link() { name=$(readlink "/proc/$1/ns/$2" 2>/dev/null); printf ' %s' "${name:--}"; }
look() {
printf 'of %s\n' "$1"
groups=$(head -c 4096 "/proc/$1/cgroup" 2>/dev/null | hex); printf 'cgroup %s\n' "${groups:--}"
printf 'ns'; link "$1" pid; link "$1" mnt; printf '\n'
job=$(tr '\0' '\n' 2>/dev/null <"/proc/$1/environ" | sed -n 's/^SLURM_JOB_ID=//p' | head -n 1 | hex); job=${job%0a}
printf 'job %s\n' "${job:--}"
at=$1; count=0
while [ "$at" -gt 0 ] && [ "$count" -lt 48 ]; do
stat_of "$at" || break
uid_of "$at"
words=$(head -c 4096 "/proc/$at/cmdline" 2>/dev/null | hex); name=$(printf '%s' "$stat_comm" | hex)
printf 'above %s %s %s %s %s %s %s %s\n' "$at" "$stat_parent" "${uid_real:--}" "$stat_state" "$stat_started" "$stat_tty" "${name:--}" "${words:--}"
at=$stat_parent; count=$((count + 1))
case $at in ''|*[!0-9]*) break;; esac
done
}
look "$$"
for pid in "$@"; do
case $pid in ''|*[!0-9]*|0*|???????????*) continue;; esac
[ -d "/proc/$pid" ] && look "$pid"
done
printf 'host %s\n' "$(hex 2>/dev/null </proc/sys/kernel/hostname)"
sed -n '/|-- /{s/.*|-- //;h;};/host LOCAL/{g;s/^/address /;p;}' /proc/net/fib_trie 2>/dev/null
while read -r address more; do printf 'address6 %s\n' "$address"; done 2>/dev/null </proc/net/if_inet6
printf 'done\n'
exit 0
""",
)


@dataclass(frozen=True, slots=True)
class Above:
    """A process, or one that it descends from. `started` in ticks since boot, `tty` the device number of its terminal, 0 for none."""

    pid: int
    parent: int
    uid: int | None
    state: str
    started: int
    tty: int
    comm: str
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a process stands in. `above`: itself first, then what it descends from, nearest first. None: it could not be read (`job`: or there is none)."""

    pid: int
    cgroup: str | None = None
    pid_ns: str | None = None
    mnt_ns: str | None = None
    job: str | None = None
    above: tuple[Above, ...] = ()


@dataclass(frozen=True, slots=True)
class Ownership:
    """One answer. `own`: our remote shell. `addresses`: the node's own. `complete`: its end came."""

    own: Surroundings | None = None
    others: tuple[Surroundings, ...] = ()
    host: str | None = None
    addresses: frozenset[str] = frozenset()
    complete: bool = False

    def of(self, pid: int) -> Surroundings | None:
        """Of one of the processes that were asked for; None: it is gone."""
        return next((one for one in self.others if one.pid == pid), None)


def ask_ownership(pids: Iterable[int]) -> Command:
    """The command whose stdout parse_ownership reads."""
    return Command(OWNERSHIP, tuple(str(pid) for pid in pids))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None


def _text(word: str) -> str | None:
    try:
        return as_text(bytes.fromhex(word)) or None
    except ValueError:
        return None


def _above(words: list[str]) -> Above | None:
    if len(words) != 8:
        return None
    pid, parent, started, tty = (_number(words[at]) for at in (0, 1, 4, 5))
    if pid is None or parent is None or started is None or tty is None:
        return None
    argv = (_text(words[7]) or "").split("\0")
    while argv and not argv[-1]:  # the last NUL, and those that a renamed process is padded with
        argv.pop()
    return Above(pid, parent, _number(words[2]), words[3], started, tty, _text(words[6]) or "", tuple(argv))


@dataclass(slots=True)
class _Open:
    pid: int
    cgroup: str | None = None
    pid_ns: str | None = None
    mnt_ns: str | None = None
    job: str | None = None
    above: list[Above] = field(default_factory=list)

    def close(self) -> Surroundings:
        return Surroundings(self.pid, self.cgroup, self.pid_ns, self.mnt_ns, self.job, tuple(self.above))

    def take(self, key: str, rest: str) -> None:
        if key == "cgroup":
            self.cgroup = _text(rest)
        elif key == "job":
            self.job = _text(rest)
        elif key == "ns" and len(words := rest.split(" ")) == 2:
            self.pid_ns, self.mnt_ns = (None if word == "-" else word for word in words)
        elif key == "above" and (above := _above(rest.split(" "))) is not None:
            self.above.append(above)


def _address(key: str, text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(bytes.fromhex(text) if key == "address6" else text))
    except ValueError:
        return None


def parse_ownership(output: bytes) -> Ownership:
    """What the script `ownership` printed. Total."""
    found: list[_Open] = []
    host: str | None = None
    addresses: set[str] = set()
    complete = False
    for line in as_text(output).split("\n"):
        key, _, rest = line.partition(" ")
        if key == "of" and (pid := _number(rest)) is not None:
            found.append(_Open(pid))
        elif key == "host":
            host = (_text(rest) or "").strip() or None
        elif key in {"address", "address6"} and (address := _address(key, rest)) is not None:
            addresses.add(address)
        elif line == "done":
            complete = True
        elif found:
            found[-1].take(key, rest)
    closed = tuple(one.close() for one in found)
    return Ownership(closed[0] if closed else None, closed[1:], host, frozenset(addresses), complete)
