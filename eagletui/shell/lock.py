r"""The lock of a port, on the node: taken, renewed, released, looked at; and the fence that every script stands behind that changes something.

The lock of port N is the directory `/tmp/eagletui-lock-N` (mode 0755, so that anybody may see who holds it) with a file each for `owner`, `client`,
`step` (free text), `since` and `lease` (the node's uptime in whole seconds when it was taken, and last renewed), `boot` and `token` (0600; whoever may
read it could do nothing with it, as scripts trust only a directory of their own uid). Port 0 is the lock of a server that has no port. It is made whole
in a directory of our own and renamed to its place, so that there is no half-made lock; rename(2) replaces nothing but an empty directory of ours. Ages are
of the uptime and not of the clock: a clock that is set frees no lock.

Each script takes PORTS ("30000" or "30000,30001", numbers) and TOKEN (letters and digits) as its first two arguments; `lock-look` has no token.
lock-take PORTS TOKEN WHO CLIENT STEP LEASE_S ENDED    all ports or none, in the order given. ENDED: a lock of ours that names this client is stale
    (whoever asks knows that this client is gone); may be empty
    taken PORT\n or overtook HOLDER\n for each (the holder that was there, of ours, stale), done\n
    exit 7: it is locked; holder HOLDER\n for each port that is, and nothing was taken.  6: it cannot be written (the sentence on stderr).  2: no such number
lock-renew PORTS TOKEN STEP                      STEP may be empty: it stays
    done\n
lock-release PORTS TOKEN                         done\n; what is not ours any more is left: exit 9
lock-look PORTS LEASE_S                          free PORT\n or holder HOLDER\n for each, done\n
HOLDER: PORT STATE UID USER WHO CLIENT AGE IDLE STEP.  STATE held, stale (not renewed for LEASE_S), boot (of an earlier boot), foreign (another uid's: never
taken over), planted (no lock of eagletui: a link, a file, a directory that holds something else). USER (of UID), WHO, CLIENT, STEP are hex. AGE and IDLE are
seconds since it was taken and since it was renewed. "-" where unknown.

Every script that changes something includes FENCE and has PORTS TOKEN as its first two arguments (they are shifted away). It compares the token in every
lock, and renews the lease. With another token in a lock, or none, the script does nothing; exit 9 and on stdout
    fenced WHO CLIENT AGE STEP PORT\n   of whoever holds it now, WHO, CLIENT and STEP as hex, "-" where unknown
`fence` may be called again, just before what must not be done twice (never in a pipeline or in a subshell, whose exit would end only that).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from eagletui.shell.fragments import FENCE, READ_KEY, READ_PORTS
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

LEASE_S: Final = 60
"""Seconds of the node's uptime without a renewal after which the lock's own uid may take it over. Whoever holds one renews it four times as often."""
TAKEN_ALREADY: Final = 7
"""Exit status of `lock-take` where somebody holds one of the ports."""
NOT_WRITTEN: Final = 6
"""Exit status of `lock-take` where the lock could not be written (/tmp full, read-only)."""

_JUDGE = r"""
lock_judge() {
lock_at=/tmp/eagletui-lock-$1; lock_state=held; lock_seen=; lock_idle=-
if [ -L "$lock_at" ]; then lock_state=planted; return; fi
if [ ! -e "$lock_at" ]; then lock_state=free; return; fi
if [ ! -d "$lock_at" ]; then lock_state=planted; return; fi
lock_clock; lock_since "$lock_at/lease"; lock_idle=$lock_age; lock_lease=$lock_value
lock_was=; if [ -f "$lock_at/boot" ] && [ ! -L "$lock_at/boot" ]; then read -r lock_was 2>/dev/null <"$lock_at/boot"; fi
if [ ! -O "$lock_at" ]; then lock_state=foreign; return; fi
if [ -f "$lock_at/token" ] && [ ! -L "$lock_at/token" ]; then read -r lock_seen 2>/dev/null <"$lock_at/token"; fi
if [ -z "$lock_seen" ]; then
lock_state=planted
if [ -z "$(ls -A "$lock_at" 2>/dev/null)" ]; then lock_state=free; fi
elif [ "$lock_was" != "$lock_boot" ]; then lock_state=boot; lock_idle=-
elif [ "$lock_idle" != - ] && [ "$lock_idle" -gt "$lease_s" ]; then lock_state=stale
elif [ -n "$ended" ] && [ -f "$lock_at/client" ] && [ ! -L "$lock_at/client" ]; then
lock_whose=; IFS= read -r lock_whose 2>/dev/null <"$lock_at/client"
if [ "$lock_whose" = "$ended" ]; then lock_state=stale; fi
fi
}
lock_tell() {
lock_uid=$(stat -c '%u %U' "$lock_at" 2>/dev/null); lock_name=${lock_uid#* }
printf '%s %s %s %s %s' "$1" "$2" "$lock_state" "${lock_uid%% *}" "$(printf '%s' "$lock_name" | od -An -v -tx1 | tr -d ' \n')"
if [ "$lock_state" = planted ]; then printf ' - - - - -\n'; return; fi
lock_word "$lock_at/owner"; lock_word "$lock_at/client"
lock_since "$lock_at/since"; if [ "$lock_was" != "$lock_boot" ]; then lock_age=-; fi
printf ' %s %s' "$lock_age" "$lock_idle"; lock_word "$lock_at/step"; printf '\n'
}
"""

# Whoever takes a lock away first makes `over` in it, standing inside: in that very directory, whatever has its name by now. Only one can, so that the name
# stays that directory's until it is moved, and nobody ever moves a lock that another has just taken. An `over` that was left lying is as stale as a lock.
_AWAY = r"""
lock_away() {
cd "/tmp/eagletui-lock-$1" 2>/dev/null || return 1
lock_leave "$1" "$2" "$3"; lock_left=$?
cd /
return $lock_left
}
lock_leave() {
lock_clock
if ! mkdir over 2>/dev/null; then
lock_since over/since
if [ "$lock_age" = - ]; then
case $lock_state in boot) ;; stale) [ "${lock_idle:--}" != - ] && [ "$lock_idle" -gt $((2 * lease_s)) ] || return 1;; *) return 1;; esac
elif [ "$lock_age" -le "${lease_s:-60}" ]; then return 1; fi
mv over "$stage/over-$1" 2>/dev/null && mkdir over 2>/dev/null || return 1
fi
printf '%s\n' "$lock_up" >over/since
lock_got=; read -r lock_got 2>/dev/null <token
lock_number lease
if [ . -ef "/tmp/eagletui-lock-$1" ] && [ "$lock_got" = "$2" ] && [ "${3:-$lock_value}" = "$lock_value" ] &&
mv "/tmp/eagletui-lock-$1" "$stage/" 2>/dev/null; then rm -rf "$stage/eagletui-lock-$1"; return 0; fi
rm -rf over
return 1
}
"""

_LEASE_ARGUMENT = r"""
case $lease_s in ''|*[!0-9]*|0?*|???????*) printf '%s\n' 'not a number of seconds' >&2; exit 2;; esac
"""

LOCK_TAKE: Final = Script(
    "lock-take",
    READ_PORTS
    + READ_KEY
    + "ended=${7:-}; lease_s=${6:-}"
    + _LEASE_ARGUMENT
    + _JUDGE
    + _AWAY
    + r"""
who=$3; client=$4; step=$5
stage=/tmp/eagletui-taking-$lock_token
umask 022
mkdir -m 700 "$stage" || exit 6
mine=; notices=; failed=
undo() {
for lock_port in $mine; do
lock_away "$lock_port" "$lock_token" ""
done
rm -rf "$stage"
}
make() {
mkdir "$stage/new" "$stage/new/eagletui-lock-$1" && cd "$stage/new/eagletui-lock-$1" || return 1
lock_clock
printf '%s\n' "$who" >owner && printf '%s\n' "$client" >client && printf '%s\n' "$step" >step && printf '%s\n' "$lock_up" >since &&
printf '%-12s\n' "$lock_up" >lease && printf '%s\n' "$lock_boot" >boot && : >token && chmod 600 token && printf '%s\n' "$lock_token" >token
lock_made=$?; cd /
return $lock_made
}
take() {
lock_judge "$1"
if [ "$lock_seen" = "$lock_token" ]; then
{ printf '%-12s\n' "$lock_up" 1<>"$lock_at/lease"; } 2>/dev/null
printf 'taken %s\n' "$1"; return 0
fi
case $lock_state in
free) ;;
stale|boot) overtook="$(lock_tell overtook "$1")"; lock_away "$1" "$lock_seen" "$lock_lease" || return 7;;
*) return 7;;
esac
make "$1" || return 6
mv "$stage/new/eagletui-lock-$1" /tmp/ 2>/dev/null; lock_moved=$?
rm -rf "$stage/new"
if [ $lock_moved -ne 0 ]; then
# Somebody was quicker, or it cannot be written there.
lock_judge "$1"; if [ "$lock_state" = free ]; then return 6; fi
return 7
fi
mine="$mine $1"
if [ -n "$overtook" ]; then printf '%s\n' "$overtook"; else printf 'taken %s\n' "$1"; fi
}
for port in $lock_ports; do
overtook=
take "$port" >>"$stage/said"; status=$?
if [ $status -ne 0 ]; then break; fi
done
if [ $status -eq 7 ]; then
failed=$port
for port in $lock_ports; do
lock_judge "$port"
if [ "$port" = "$failed" ] || [ "$lock_state" = foreign ] || [ "$lock_state" = planted ]; then lock_tell holder "$port"
elif [ "$lock_state" = held ] && [ "$lock_seen" != "$lock_token" ]; then lock_tell holder "$port"; fi
done
undo; exit 7
fi
if [ $status -ne 0 ]; then printf '%s\n' "the lock of port $port cannot be written in /tmp" >&2; undo; exit 6; fi
cat "$stage/said"
rm -rf "$stage"
printf 'done\n'
exit 0
""",
    reads_only=False,
)

LOCK_RENEW: Final = Script(
    "lock-renew",
    FENCE
    + r"""
if [ -n "${1:-}" ]; then
for lock_port in $lock_ports; do printf '%s\n' "$1" >"/tmp/eagletui-lock-$lock_port/step"; done
fi
printf 'done\n'
exit 0
""",
    reads_only=False,
)

LOCK_RELEASE: Final = Script(
    "lock-release",
    FENCE
    + _AWAY
    + r"""
stage=/tmp/eagletui-leaving-$lock_token
mkdir -m 700 "$stage" || exit 6
for port in $lock_ports; do
lock_state=held; lock_away "$port" "$lock_token" ""
done
rm -rf "$stage"
printf 'done\n'
exit 0
""",
    reads_only=False,
)

LOCK_LOOK: Final = Script(
    "lock-look",
    READ_PORTS
    + "ended=; lease_s=${2:-}"
    + _LEASE_ARGUMENT
    + _JUDGE
    + r"""
for port in $lock_ports; do
lock_judge "$port"
if [ "$lock_state" = free ]; then printf 'free %s\n' "$port"; else lock_tell holder "$port"; fi
done
printf 'done\n'
exit 0
""",
)

State = Literal["held", "stale", "boot", "foreign", "planted"]
_STATES: Final[dict[str, State]] = {
    "held": "held", "stale": "stale", "boot": "boot", "foreign": "foreign", "planted": "planted",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a port's lock. Foreign text (`user`, `who`, `client`, `step`) is as it stands there: mask and `shown` before it is shown.

    `age_s` seconds since it was taken, `idle_s` since it was renewed, by the node's uptime. None where it is unknown.
    """

    port: int
    state: State
    uid: int | None = None
    user: str | None = None
    who: str | None = None
    client: str | None = None
    age_s: int | None = None
    idle_s: int | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class LockAnswer:
    """What `lock-take` or `lock-look` said. `overtook`: whose stale lock was taken over. `complete`: its end came."""

    taken: tuple[int, ...] = ()
    free: tuple[int, ...] = ()
    holders: tuple[Holder, ...] = ()
    overtook: tuple[Holder, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Fenced:
    """Who holds the lock now that was ours. As in Holder."""

    who: str | None = None
    client: str | None = None
    age_s: int | None = None
    step: str | None = None
    port: int | None = None


def port_list(ports: Iterable[int]) -> str:
    """Ports as scripts take them: each once, in their order, so that two who want the same ones never hold one each."""
    return ",".join(str(port) for port in sorted(set(ports)))


def ask_lock_take(ports: Iterable[int], token: str, who: str, client: str, step: str, ended: str = "") -> Command:
    """Take all of these ports' locks, or none. `ended`: a client that is known to run no more; what it holds is stale at once."""
    return Command(LOCK_TAKE, (port_list(ports), token, who, client, step, str(LEASE_S), ended))


def ask_lock_renew(ports: Iterable[int], token: str, step: str = "") -> Command:
    """Renew the lease, and say which step it is held for ("": as before)."""
    return Command(LOCK_RENEW, (port_list(ports), token, step))


def ask_lock_release(ports: Iterable[int], token: str) -> Command:
    """Give the locks back."""
    return Command(LOCK_RELEASE, (port_list(ports), token))


def ask_lock_look(ports: Iterable[int]) -> Command:
    """Who holds these ports."""
    return Command(LOCK_LOOK, (port_list(ports), str(LEASE_S)))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _text(word: str) -> str | None:
    try:
        return as_text(bytes.fromhex(word)) or None
    except ValueError:
        return None


def _holder(words: list[str]) -> Holder | None:
    if len(words) != 9 or (port := _number(words[0])) is None or words[1] not in _STATES:
        return None
    user, who, client, step = (_text(words[at]) for at in (3, 4, 5, 8))
    return Holder(
        port, _STATES[words[1]], _number(words[2]), user, who, client, _number(words[6]), _number(words[7]), step
    )


def parse_lock(output: bytes) -> LockAnswer:
    """What `lock-take` or `lock-look` printed. Total."""
    taken: list[int] = []
    free: list[int] = []
    holders: list[Holder] = []
    overtook: list[Holder] = []
    complete = False
    for line in as_text(output).split("\n"):
        word, _, rest = line.partition(" ")
        words = rest.split(" ")
        if word == "done" and not rest:
            complete = True
        elif word in {"taken", "free"} and (port := _number(rest)) is not None:
            (taken if word == "taken" else free).append(port)
        elif word in {"holder", "overtook"} and (holder := _holder(words)) is not None:
            (holders if word == "holder" else overtook).append(holder)
    return LockAnswer(tuple(taken), tuple(free), tuple(holders), tuple(overtook), complete)


def parse_fenced(output: bytes) -> Fenced | None:
    """What a script printed that found another token; None where it found its own. Total."""
    for line in as_text(output).split("\n"):
        words = line.split(" ")
        if words[0] == "fenced" and len(words) == 6:
            return Fenced(_text(words[1]), _text(words[2]), _number(words[3]), _text(words[4]), _number(words[5]))
    return None
