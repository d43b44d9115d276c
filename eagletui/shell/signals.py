r"""The only sender of signals: the text SEND, and the script `signal` that is built on it.

signal PORTS TOKEN NAME BOOT PID:STARTED ...      NAME is TERM or KILL; BOOT the boot id in which STARTED counts (field 22 of /proc/PID/stat)
    a line for each pair, in order, then done\n:
    sent PID\n      the process of this pid has this start time and was signalled
    gone PID\n      there is no such process, or only its exit status is left of it
    other PID\n     the pid is another process's now (another start time, or another boot)
    foreign PID\n   its real, effective or saved uid is not ours; or it cannot be told
    ancestor PID\n  this shell itself, or what it descends from
    refused PID\n   pid 0 or 1, an sshd, or words that are no pair ("-" for the pid)
    failed PID\n    the kernel said no
    exit 2: NAME or BOOT is none (nothing was signalled); 9: fenced, see lock.py (what was said before it was signalled); 5: this /proc shows another pid
    namespace than that of this shell (nothing was signalled)

In one iteration of the loop the token is compared, and the process's start time, uid, name and place above us are read anew, and then the shell's own `kill`
is called, with nothing in between. A zombie whose threads live on is signalled.

`kept-log` (scripts.py) has SEND as well, for the reader that it started itself, its own child by parent and start time; it watches and acts on no server, so it
has no lock, and nothing to compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from eagletui.shell.fragments import FENCE, SEND
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

SIGNAL: Final = Script(
    "signal",
    FENCE
    + SEND
    + r"""
name=${1:-}; boot=${2:-}
case $name in TERM|KILL) ;; *) printf '%s\n' 'not TERM and not KILL' >&2; exit 2;; esac
case $boot in ''|*[!0-9a-f-]*) printf '%s\n' 'not a boot id' >&2; exit 2;; esac
shift 2
send_prepare
now=; read -r now 2>/dev/null </proc/sys/kernel/random/boot_id
for pair in "$@"; do
pid=${pair%%:*}; started=${pair#*:}
case $pid in ''|*[!0-9]*|???????????*) printf 'refused -\n'; continue;; esac
if [ "$pid" = "$pair" ]; then printf 'refused -\n'; continue; fi
if [ "$now" != "$boot" ]; then printf 'other %s\n' "$pid"; continue; fi
fence
send "$name" "$pid" "$started"
printf '%s %s\n' "$said" "$pid"
done
printf 'done\n'
exit 0
""",
    reads_only=False,
)

SignalName = Literal["TERM", "KILL"]
Fate = Literal["sent", "gone", "other", "foreign", "ancestor", "refused", "failed"]
FATES: Final[dict[str, Fate]] = {
    "sent": "sent", "gone": "gone", "other": "other", "foreign": "foreign", "ancestor": "ancestor", "refused": "refused", "failed": "failed",
}  # fmt: skip
ANOTHER_NAMESPACE: Final = 5
"""Exit status of `signal` where /proc shows other processes than those the shell could signal."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of each pair. `complete`: the end of the answer came, so that nothing was left out."""

    fates: tuple[tuple[int, Fate], ...] = ()
    complete: bool = False

    def of(self, pid: int) -> Fate | None:
        """What became of this one."""
        return dict(self.fates).get(pid)


def ask_signal(fence: tuple[str, str], name: SignalName, boot: str, processes: Iterable[tuple[int, int]]) -> Command:
    """Signal exactly these (pid, start ticks). `fence`: ports and token, as `Fence.arguments`."""
    return Command(SIGNAL, (*fence, name, boot, *(f"{pid}:{started}" for pid, started in processes)))


def parse_signal(output: bytes) -> Sent:
    """What `signal` printed. Total."""
    fates: list[tuple[int, Fate]] = []
    complete = False
    for line in as_text(output).split("\n"):
        word, _, pid = line.partition(" ")
        if line == "done":
            complete = True
        elif word in FATES and re.fullmatch(r"[0-9]{1,10}", pid):
            fates.append((int(pid), FATES[word]))
    return Sent(tuple(fates), complete)
