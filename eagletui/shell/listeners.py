r"""Who listens on a few ports, as the script `listeners` tells it.

listeners PORT ...
    listen PORT PROTO LOCALHEX UID INODE PID\n for each listening TCP socket of these ports (tcp|tcp6; LOCALHEX as in /proc/net/tcp), once for each process
    that holds it and whose descriptors this login may see; PID "-" where there is none such.  done\n
    exit 2: a word that is no port; 4: this login cannot read who listens
Reads only. Descriptors are looked at only if there is a listener.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

LISTENERS: Final = Script(
    "listeners",
    r"""
unset IFS
[ -r /proc/net/tcp ] || { printf '%s\n' 'the listening sockets cannot be read' >&2; exit 4; }
wanted=' '
for port in "$@"; do
case $port in ''|*[!0-9]*|0*|??????*) printf '%s\n' 'not a port' >&2; exit 2;; esac
wanted="$wanted$(printf '%04X' "$port"):$port "
done
rows=$(for file in tcp tcp6; do
grep ' 0A ' "/proc/net/$file" 2>/dev/null | while read -r slot local remote state queues timer retries uid wait inode more; do
[ "$state" = 0A ] || continue
case $wanted in *" ${local##*:}:"*)
port=${wanted#*" ${local##*:}:"}; printf '%s %s %s %s %s\n' "${port%% *}" "$file" "${local%:*}" "$uid" "$inode";; esac
done
done)
if [ -n "$rows" ]; then
held=$(ls -l /proc/[0-9]*/fd 2>/dev/null | sed -n -e 's|^/proc/\([0-9]*\)/fd:$|pid \1|p' -e 's|.* -> socket:\[\([0-9]*\)\]$|sock \1|p' |
while read -r word number; do
case $word in pid) pid=$number;; *) case $rows in *" $number"*) printf '%s:%s\n' "$number" "$pid";; esac;; esac
done)
printf '%s\n' "$rows" | while read -r port file local uid inode; do
seen=
for pair in $held; do
if [ "${pair%%:*}" = "$inode" ]; then seen=y; printf 'listen %s %s %s %s %s %s\n' "$port" "$file" "$local" "$uid" "$inode" "${pair#*:}"; fi
done
[ -n "$seen" ] || printf 'listen %s %s %s %s %s -\n' "$port" "$file" "$local" "$uid" "$inode"
done
fi
printf 'done\n'
exit 0
""",
)


@dataclass(frozen=True, slots=True)
class PortHolder:
    """Who listens on a port. `pid` None: nobody whose descriptors this login may see. `uid`: of who made the socket."""

    port: int
    uid: int
    inode: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Listening:
    """One answer. `complete`: its end came, so that a port that is not in it is free."""

    holders: tuple[PortHolder, ...] = ()
    complete: bool = False


def ask_listeners(ports: Iterable[int]) -> Command:
    """The command whose stdout parse_listeners reads. Port 0 is no port."""
    return Command(LISTENERS, tuple(str(port) for port in sorted(set(ports)) if port > 0))


def parse_listeners(output: bytes) -> Listening:
    """What the script `listeners` printed. Total."""
    found: list[PortHolder] = []
    complete = False
    for line in as_text(output).split("\n"):
        words = line.split(" ")
        if line == "done":
            complete = True
        elif (
            len(words) == 7
            and words[0] == "listen"
            and all(re.fullmatch(r"[0-9]{1,12}", words[at]) for at in (1, 4, 5))
        ):
            pid = int(words[6]) if re.fullmatch(r"[0-9]{1,10}", words[6]) else None
            found.append(PortHolder(int(words[1]), int(words[4]), int(words[5]), pid))
    return Listening(tuple(found), complete)
