"""Constant texts of the scripts that deal with records (records.py, keeper.py, units.py): where records lie, who lives, words of a file."""

from __future__ import annotations

from typing import Final

from eagletui.shell.fragments import READ_PROCESS

# Defines `id_is_well`, and `records_place`, which sets `root` or leaves it empty and says why in `why`. Builtins only, but for odd cases.
PLACE: Final = r"""
unset IFS
id_is_well() {
case $1 in ''|-*|*[!0-9A-Za-z-]*) return 1;; esac
[ "${#1}" -le 64 ]
}
records_place() {
root=; why=
machine=; read -r machine place_more 2>/dev/null </etc/machine-id
case $machine in ''|uninitialized) machine=; read -r machine place_more 2>/dev/null </proc/sys/kernel/hostname;; esac
[ -n "$machine" ] || machine=$(uname -n 2>/dev/null)
case $machine in ''|.*|*[!0-9A-Za-z._-]*) machine=_$(printf '%s' "$machine" | tr -c '0-9A-Za-z._-' '_');; esac
case ${XDG_STATE_HOME:-} in
/*) state=$XDG_STATE_HOME;;
*)
place_home=${HOME:-}
case $place_home in /*) ;; *)
place_uid=$(id -u)
place_home=$(getent passwd "$place_uid" 2>/dev/null) || place_home=$(grep "^[^:]*:[^:]*:$place_uid:" /etc/passwd 2>/dev/null)
place_home=${place_home%:*}; place_home=${place_home##*:};;
esac
case $place_home in /*) ;; *) why='this login has no home directory'; return 1;; esac
state=${place_home%/}/.local/state;;
esac
root=${state%/}/eagletui/launches/$machine
}
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
"""

# Defines `alive PID STARTED`: 0 when that very process is there, and not only its exit status; and `identity_in FILE`, which reads such a pair. Builtins only.
ALIVE: Final = (
    READ_PROCESS
    + r"""
identity_in() {
identity_pid=; identity_started=
[ -f "$1" ] || return 1
read -r identity_pid identity_started identity_more 2>/dev/null <"$1"
case $identity_pid in ''|0*|1|*[!0-9]*|???????????*) return 1;; esac
case $identity_started in ''|*[!0-9]*|????????????????????*) return 1;; esac
}
alive() {
stat_of "$1" || return 1
[ "$stat_started" = "$2" ] || return 1
case $stat_state in Z|X) [ "$stat_threads" -gt 1 ];; esac
}
record_lives() {
for record_file in keeper process; do
if identity_in "$1/$record_file" && alive "$identity_pid" "$identity_started"; then return 0; fi
done
return 1
}
"""
)

# Words of a file whose words end with NUL, as lines of `printf %b` that end with x (which keeps newlines at their end): no program of POSIX but od can
# read NUL. `for word in $(words FILE)` with IFS a newline and set -f, then `value=$(printf '%b' "$word")` and `${value%x}`.
WORDS: Final = r"""
words() { od -An -v -to1 <"$1" 2>/dev/null | tr -d '\n' | sed 's/ 000/x:/g;s/ /\\0/g' | tr ':' '\n'; }
newline='
'
"""
