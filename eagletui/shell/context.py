r"""What a process was started with, and what a login gives: the scripts `launch-context` and `login-environment`. Both read only.

launch-context PID
    boot BOOT\n  home HEX\n (this login's)    then  gone\n, or
    pid PID STARTED UID\n   argv HEX\n (its cmdline as it stands)   environ HEX\n, or  noenviron\n where it cannot be read
    cwd HEX\n  exe HEX\n (links; "-" where they cannot be read)   umask OCTAL\n   cpus LIST\n
    limit LINE\n            each line of /proc/PID/limits
    fd N HEX TYPE\n         0, 1 and 2: the link, and regular, character, fifo, socket, directory or other
    done\n                  only where it is the same process at the end
login-environment SECONDS
    boot BOOT\n  home HEX\n  shell HEX\n  own HEX\n (what our own shell was started with: LC_ALL as it was)
    said HEX\n              what the login shell wrote as a login shell that reads its files; among it  NUL @env NUL, its environment, NUL @end NUL
    done\n
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from eagletui.shell.details import split_arguments
from eagletui.shell.fragments import READ_PROCESS
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

LOGIN_SHELL_S: Final = 10
"""Seconds that a login shell may take to read its files (conda and modules take one or two)."""

_HOME: Final = r"""
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
hexed() { printf '%s' "$1" | hex; }
boot=-; read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
uid=$(id -u)
entry=$(getent passwd "$uid" 2>/dev/null) || entry=$(grep "^[^:]*:[^:]*:$uid:" /etc/passwd 2>/dev/null)
home=${entry%:*}; home=${home##*:}
case ${HOME:-} in /*) home=$HOME;; esac
printf 'boot %s\nhome %s\n' "$boot" "$(hexed "$home")"
"""

LAUNCH_CONTEXT: Final = Script(
    "launch-context",
    _HOME
    + READ_PROCESS
    + r"""
case ${1:-} in ''|0*|*[!0-9]*|???????????*) printf '%s\n' 'not a process' >&2; exit 2;; esac
pid=$1; at=/proc/$pid
if ! stat_of "$pid"; then printf 'gone\n'; exit 0; fi
case $stat_state in Z|X) printf 'gone\n'; exit 0;; esac
started=$stat_started
uid_of "$pid"
printf 'pid %s %s %s\n' "$pid" "$started" "${uid_real:--}"
printf 'argv %s\n' "$(hex 2>/dev/null <"$at/cmdline")"
if cat "$at/environ" >/dev/null 2>&1; then printf 'environ %s\n' "$(hex 2>/dev/null <"$at/environ")"; else printf 'noenviron\n'; fi
link() {
link_to=$(readlink "$2" 2>/dev/null && printf x) || { printf '%s -' "$1"; return; }
printf '%s %s' "$1" "$(hexed "${link_to%?x}")"
}
link cwd "$at/cwd"; printf '\n'; link exe "$at/exe"; printf '\n'
while read -r key value more; do
case $key in
Umask:) printf 'umask %s\n' "$value";;
Cpus_allowed_list:) printf 'cpus %s\n' "$value";;
esac
done 2>/dev/null <"$at/status"
while IFS= read -r line; do printf 'limit %s\n' "$line"; done 2>/dev/null <"$at/limits"
for n in 0 1 2; do
f=$at/fd/$n
if [ -f "$f" ]; then t=regular; elif [ -c "$f" ]; then t=character; elif [ -p "$f" ]; then t=fifo
elif [ -S "$f" ]; then t=socket; elif [ -d "$f" ]; then t=directory; else t=other; fi
link "fd $n" "$f"; printf ' %s\n' "$t"
done
stat_of "$pid" && [ "$stat_started" = "$started" ] && printf 'done\n'
exit 0
""",
)

# The login shell's own command is a constant that every shell reads alike (fish and tcsh have no `>&3` and other quotes): what is told stands in a variable.
LOGIN_ENVIRONMENT: Final = Script(
    "login-environment",
    _HOME
    + r"""
shell=${entry##*:}
case $shell in /*) ;; *) shell=/bin/sh;; esac
[ -x "$shell" ] || shell=/bin/sh
printf 'shell %s\nown %s\n' "$(hexed "$shell")" "$(hex <"/proc/$$/environ")"
case ${shell##*/} in csh|tcsh) login=;; *) login=-l;; esac
was=$(tr '\000' '\n' <"/proc/$$/environ" 2>/dev/null | sed -n 's/^LC_ALL=//p')
if [ -n "$was" ]; then LC_ALL=$was; else unset LC_ALL; fi
EAGLETUI_TELL='printf "\0@env\0"; cat /proc/self/environ; printf "\0@end\0"'; export EAGLETUI_TELL
seconds=${1:-}; case $seconds in ''|*[!0-9]*|???*) seconds=10;; esac
limit=; timeout 1 true >/dev/null 2>&1 && limit="timeout $seconds"
printf 'said %s\n' "$($limit "$shell" $login -c 'exec sh -c "$EAGLETUI_TELL"' 2>/dev/null </dev/null | hex)"
printf 'done\n'
exit 0
""",
)


Environment = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What a process was started with. `argv` is exact (empty words kept), `environ` as it was at its start: None where it cannot be read. `soft`: soft
    limits by the names and units of /proc/PID/limits, None for unlimited. `outputs`: (descriptor, link, type). `home`: this login's. `complete`: it was the
    same process at the end. NOT masked."""

    boot: str | None = None
    home: str | None = None
    pid: int | None = None
    started: int | None = None
    uid: int | None = None
    argv: tuple[str, ...] = ()
    environ: Environment | None = None
    cwd: str | None = None
    exe: str | None = None
    umask: str | None = None
    cpus: str | None = None
    soft: tuple[tuple[str, int | None], ...] = ()
    outputs: tuple[tuple[int, str, str], ...] = ()
    gone: bool = False
    complete: bool = False


@dataclass(frozen=True, slots=True)
class LoginEnvironment:
    """What a login gets. `environ` of the login shell after it read its files, None where it did not come that far; `own` that of a plain command over
    ssh. NOT masked."""

    boot: str | None = None
    home: str | None = None
    shell: str | None = None
    own: Environment = ()
    environ: Environment | None = None
    complete: bool = False


def ask_launch_context(pid: int) -> Command:
    """The command whose stdout parse_launch_context reads."""
    return Command(LAUNCH_CONTEXT, (str(pid),))


def ask_login_environment() -> Command:
    """The command whose stdout parse_login_environment reads."""
    return Command(LOGIN_ENVIRONMENT, (str(LOGIN_SHELL_S),))


def environment_of(raw: bytes) -> Environment:
    """The variables of a /proc/PID/environ; of a name that is there twice the first counts, as for getenv(3). What is no variable is left out."""
    found: dict[str, str] = {}
    for entry in as_text(raw).split("\0"):
        name, equals, value = entry.partition("=")
        if equals and name:
            found.setdefault(name, value)
    return tuple(found.items())


_LIMIT = re.compile(r"(Max [a-z -]{1,40}?) {2,}(\d{1,20}|unlimited) +(?:\d{1,20}|unlimited)(?: |\Z)")
_TELLER = frozenset({"EAGLETUI_TELL"})


def _hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _text(text: str) -> str | None:
    raw = _hex(text)
    return as_text(raw) if raw else None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def parse_launch_context(output: bytes) -> LaunchContext:
    """What `launch-context` printed. Total."""
    found: dict[str, str] = {}
    soft: list[tuple[str, int | None]] = []
    outputs: list[tuple[int, str, str]] = []
    for line in as_text(output).split("\n"):
        key, _, rest = line.partition(" ")
        words = rest.split(" ")
        if key == "limit":
            if (limit := _LIMIT.match(rest)) is not None:
                soft.append((limit[1], None if limit[2] == "unlimited" else int(limit[2])))
        elif key == "fd" and len(words) == 3 and (number := _number(words[0])) is not None:
            outputs.append((number, _text(words[1]) or "", words[2]))
        elif key:
            found.setdefault(key, rest)
    who = [*found.get("pid", "").split(" "), "", "", ""]
    environ = _hex(found["environ"]) if "environ" in found else None
    umask, cpus = found.get("umask", ""), found.get("cpus", "")
    return LaunchContext(
        boot=found.get("boot") if found.get("boot") not in {"", "-"} else None,
        home=_text(found.get("home", "")),
        pid=_number(who[0]),
        started=_number(who[1]),
        uid=_number(who[2]),
        argv=split_arguments(_hex(found.get("argv", "")) or b""),
        environ=None if environ is None else environment_of(environ),
        cwd=_text(found.get("cwd", "")),
        exe=_text(found.get("exe", "")),
        umask=umask if re.fullmatch(r"[0-7]{3,4}", umask) else None,
        cpus=cpus if re.fullmatch(r"[0-9,-]{1,4000}", cpus) else None,
        soft=tuple(soft),
        outputs=tuple(outputs),
        gone="gone" in found,
        complete="done" in found,
    )


def parse_login_environment(output: bytes) -> LoginEnvironment:
    """What `login-environment` printed. Total."""
    found: dict[str, str] = {}
    for line in as_text(output).split("\n"):
        key, _, rest = line.partition(" ")
        found.setdefault(key, rest)
    said = _hex(found.get("said", "")) or b""
    _, begun, after = said.partition(b"\0@env\0")
    inside, ended, _ = after.rpartition(b"\0@end\0")
    environ = environment_of(inside) if begun and ended else None
    return LoginEnvironment(
        boot=found.get("boot") if found.get("boot") not in {"", "-"} else None,
        home=_text(found.get("home", "")),
        shell=_text(found.get("shell", "")),
        own=environment_of(_hex(found.get("own", "")) or b""),
        environ=None if environ is None else tuple(pair for pair in environ if pair[0] not in _TELLER),
        complete="done" in found,
    )
