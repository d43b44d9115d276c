"""Constant texts that several scripts begin with. They stand here once, so that what they do is done in one way.

READ_PORTS  reads $1 as ports (`lock_ports`), defines how a lock's files are read     READ_KEY  reads $2 as the token
FENCE       both, then compares the token in every lock and renews the lease: see lock.py
READ_PROCESS  a process's stat and uid by builtins        SEND  the only text of the house that calls `kill`: see signals.py
"""

from __future__ import annotations

from typing import Final

# Builtins only, as `fence` is called before each signal. Numbers are looked at before they are used as such: bash runs what stands in a subscript.
READ_PORTS: Final = r"""
unset IFS
unset -f kill read printf test 2>/dev/null
lock_ports=; lock_rest=${1:-},
while [ -n "$lock_rest" ]; do
lock_port=${lock_rest%%,*}; lock_rest=${lock_rest#*,}
case $lock_port in ''|*[!0-9]*|0?*|??????*) printf '%s\n' 'not a port' >&2; exit 2;; esac
lock_ports="$lock_ports $lock_port"
done
lock_word() {
lock_hex=
if [ -f "$1" ] && [ ! -L "$1" ]; then lock_hex=$(od -An -v -tx1 -N 160 "$1" 2>/dev/null | tr -d ' \n'); lock_hex=${lock_hex%0a}; fi
printf ' %s' "${lock_hex:--}"
}
lock_number() {
lock_value=
if [ -f "$1" ] && [ ! -L "$1" ]; then read -r lock_value lock_more 2>/dev/null <"$1"; fi
case $lock_value in ''|*[!0-9]*|0?*|??????????????*) lock_value=-;; esac
}
lock_since() {
lock_number "$1"; lock_age=-
if [ "$lock_value" != - ] && [ "$lock_value" -le "$lock_up" ]; then lock_age=$((lock_up - lock_value)); fi
}
lock_clock() {
lock_up=0; read -r lock_up lock_more 2>/dev/null </proc/uptime; lock_up=${lock_up%%.*}
case $lock_up in ''|*[!0-9]*) lock_up=0;; esac
lock_boot=-; read -r lock_boot 2>/dev/null </proc/sys/kernel/random/boot_id
}
"""

READ_KEY: Final = r"""
lock_token=${2:-}
case $lock_token in ''|*[!0-9A-Za-z]*|???????????????????????????????????????????????????????????????*) printf '%s\n' 'not a token' >&2; exit 2;; esac
"""

FENCE: Final = (
    READ_PORTS
    + READ_KEY
    + r"""
fenced() {
printf 'fenced'; lock_word "$lock_at/owner"; lock_word "$lock_at/client"
lock_clock; lock_since "$lock_at/since"
printf ' %s' "$lock_age"; lock_word "$lock_at/step"; printf ' %s\n' "$lock_port"
exit 9
}
fence() {
for lock_port in $lock_ports; do
lock_at=/tmp/eagletui-lock-$lock_port; lock_seen=
if [ -d "$lock_at" ] && [ ! -L "$lock_at" ] && [ -O "$lock_at" ]; then read -r lock_seen 2>/dev/null <"$lock_at/token"; fi
[ "$lock_seen" = "$lock_token" ] || fenced
done
}
fence
lock_clock
for lock_port in $lock_ports; do { printf '%-12s\n' "$lock_up" 1<>"/tmp/eagletui-lock-$lock_port/lease"; } 2>/dev/null; done
shift 2
"""
)
"""Text that a script which changes something begins with. It defines `fence`."""

READ_PROCESS: Final = r"""
unset IFS
unset -f kill read printf test 2>/dev/null
stat_of() {
stat_comm=; stat_state=; stat_parent=; stat_group=; stat_session=; stat_tty=; stat_threads=; stat_started=; stat_whole=
while IFS= read -r stat_line || [ -n "$stat_line" ]; do stat_whole="$stat_whole $stat_line"; done 2>/dev/null <"/proc/$1/stat"
case $stat_whole in *')'*) ;; *) return 1;; esac
stat_comm=${stat_whole%')'*}; stat_comm=${stat_comm#*'('}
set -- ${stat_whole##*')'}
[ $# -ge 20 ] || return 1
stat_state=$1; stat_parent=$2; stat_group=$3; stat_session=$4; stat_tty=$5; stat_threads=${18}; stat_started=${20}
}
uid_of() {
uid_real=; uid_effective=; uid_saved=
while read -r uid_key uid_real uid_effective uid_saved uid_more; do case $uid_key in Uid:) return 0;; esac; done 2>/dev/null <"/proc/$1/status"
uid_real=; return 1
}
"""
"""Text that defines `stat_of PID` (a comm may hold anything: fields count after the last parenthesis) and `uid_of PID`. Builtins only."""

SEND: Final = (
    READ_PROCESS
    + r"""
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
)
"""Text that defines `send NAME PID STARTED`, which leaves in `said` what became of it; `send_prepare` is called once before. Builtins only."""
