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
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from eagletui.shell.lock import FENCE
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

SEND: Final = r"""
unset IFS
unset -f kill read printf test 2>/dev/null
stat_of() {
stat_comm=; stat_state=; stat_parent=; stat_threads=; stat_started=; stat_whole=
while IFS= read -r stat_line || [ -n "$stat_line" ]; do stat_whole="$stat_whole $stat_line"; done 2>/dev/null <"/proc/$1/stat"
case $stat_whole in *')'*) ;; *) return 1;; esac
stat_comm=${stat_whole%')'*}; stat_comm=${stat_comm#*'('}
set -- ${stat_whole##*')'}
[ $# -ge 20 ] || return 1
stat_state=$1; stat_parent=$2; stat_threads=${18}; stat_started=${20}
}
uid_of() {
uid_real=; uid_effective=; uid_saved=
while read -r uid_key uid_real uid_effective uid_saved uid_more; do case $uid_key in Uid:) return 0;; esac; done 2>/dev/null <"/proc/$1/status"
uid_real=; return 1
}
above_us() {
above=$$; above_count=0
while [ "$above" -gt 0 ] && [ "$above_count" -lt 64 ]; do
[ "$above" = "$1" ] && return 0
stat_of "$above" || return 1
above=$stat_parent; above_count=$((above_count + 1))
case $above in ''|*[!0-9]*) return 1;; esac
done
return 1
}
send_prepare() {
send_self=; read -r send_self send_more 2>/dev/null </proc/self/stat
[ "$send_self" = "$$" ] || { printf '%s\n' 'this /proc is not that of our own processes' >&2; exit 5; }
uid_of "$$" || { printf '%s\n' 'our own uid cannot be read' >&2; exit 5; }
send_uid=$uid_real
send_above=" "; send_at=$$; send_count=0
while [ "$send_at" -gt 0 ] && [ "$send_count" -lt 64 ]; do
send_above="$send_above$send_at "; stat_of "$send_at" || break
send_at=$stat_parent; send_count=$((send_count + 1))
case $send_at in ''|*[!0-9]*) break;; esac
done
}
send() {
case $2 in ''|*[!0-9]*|0*|1|????????*) said=refused; return;; esac
case $3 in ''|*[!0-9]*|0?*|????????????????????*) said=refused; return;; esac
case $send_above in *" $2 "*) said=ancestor; return;; esac
if above_us "$2"; then said=ancestor; return; fi
if ! uid_of "$2"; then said=foreign; [ -d "/proc/$2" ] || said=gone; return; fi
if [ "$uid_real" != "$send_uid" ] || [ "$uid_effective" != "$send_uid" ] || [ "$uid_saved" != "$send_uid" ]; then said=foreign; return; fi
if ! stat_of "$2"; then said=gone; return; fi
if [ "$stat_started" != "$3" ]; then said=other; return; fi
case $stat_state in Z|X) if [ "$stat_threads" -le 1 ]; then said=gone; return; fi;; esac
case $stat_comm in sshd|sshd-*|dropbear) said=refused; return;; esac
if kill -s "$1" "$2" 2>/dev/null; then said=sent; else said=failed; fi
}
"""
"""Text that defines `send NAME PID STARTED`, which leaves in `said` what became of it; `send_prepare` is called once before. Builtins only."""

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


def ask_signal(
    fence: tuple[str, str], name: SignalName, boot: str, processes: Iterable[tuple[int, int]]
) -> Command:
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
