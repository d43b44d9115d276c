r"""systemd: a record's keeper as a transient unit, and units that exist already, started, stopped and looked at by their names.

launch-systemd PORTS TOKEN ID NAME       NAME: letters, digits, `_` and `-`
    as `launch` (see keeper.py), but  started NAME\n, with the name that was used: where a unit of that name exists, NAME-2 and so on.
    exit 3 also:  no-systemd\n (no systemd-run)   unit-failed\n (what systemd-run said on stderr; nothing was started)
unit-start PORTS TOKEN UNIT              UNIT: NAME.service, in the user's own manager where it knows it, else in the system's
    started\n        exit 3:  no-systemd\n   unit-missing\n (neither manager knows it)   unit-failed\n (what systemctl said on stderr)
unit-stop PORTS TOKEN UNIT               asks for the stop and waits for nothing
    stopping\n       exit 3 as above
unit-state UNIT LINES                    reads only; in the words of `keeper-state`: the unit's main process, its exit status (none while systemd is about to
                                         start or stop it: that would be the one of before), its last lines in the journal. begun y: it is active, or
                                         about to be

The unit runs the same keeper as `setsid` does, from a file in the record's folder: command, environment and limits come from launch/ there, so that
nothing of them stands in the unit, where `$` and `%` mean something. The unit's own output goes to the log as well: it is what sh says if the keeper
cannot run. Root's units are the system's (where systemd runs it), everybody else's are of the user's manager.
Nobody but eagletui ends members: Restart=no, no SIGKILL after the unit's stop (SendSIGKILL=no), and a member that the kernel ends for memory takes no
other with it (OOMPolicy=continue). A person's own `systemctl stop` sends SIGTERM to all, as ever.
"""

from __future__ import annotations

import re
from typing import Final

from eagletui.shell.fragments import FENCE, READ_PROCESS
from eagletui.shell.keeper import PREPARE, START
from eagletui.shell.record_texts import PLACE
from eagletui.shell.script import Command, Script

PROPERTIES: Final[tuple[tuple[str, str], ...]] = (
    ("StandardInput", "null"),
    ("KillSignal", "SIGTERM"),
    ("SendSIGKILL", "no"),
    ("TimeoutStopSec", "300"),
    ("OOMPolicy", "continue"),
    ("Restart", "no"),
    ("TasksMax", "infinity"),
)
"""Of the transient unit, beside its output. 300 s: a server may drain, yet the node's shutdown does not wait for ever."""

_MANAGER: Final = r"""
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then XDG_RUNTIME_DIR=/run/user/$(id -u); export XDG_RUNTIME_DIR; fi
"""

_UNIT: Final = (
    _MANAGER
    + r"""
no_unit() { printf '%s\n' "$1"; exit 3; }
unit=${1:-}
case $unit in ''|-*|.*|*[!0-9A-Za-z:_.@\\-]*) printf '%s\n' 'not a unit' >&2; exit 2;; esac
case $unit in ?*.service) ;; *) printf '%s\n' 'not a service' >&2; exit 2;; esac
command -v systemctl >/dev/null 2>&1 || no_unit no-systemd
loaded=$(systemctl --user --no-ask-password show --property=LoadState -- "$unit" 2>/dev/null </dev/null)
manager=--user
case $loaded in *=loaded) ;; *)
manager=--system
loaded=$(systemctl --system --no-ask-password show --property=LoadState -- "$unit" 2>/dev/null </dev/null)
case $loaded in *=loaded) ;; *) no_unit unit-missing;; esac;;
esac
"""
)
"""After the arguments before it were shifted away: looks at $1, leaves `unit` and `manager`."""

LAUNCH_SYSTEMD: Final = Script(
    "launch-systemd",
    FENCE
    + PLACE
    + START
    + r"""
name=${2:-}
case $name in ''|-*|*[!0-9A-Za-z_-]*) printf '%s\n' 'not a name' >&2; exit 2;; esac
command -v systemd-run >/dev/null 2>&1 || { printf 'no-systemd\n'; exit 3; }
"""
    + PREPARE
    + _MANAGER
    + r"""
undo() { rm -f "$dir/begun" "$dir/launch/keeper"; [ -s "$log" ] || rm -f "$log"; }
PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
case $dir$PATH in *'$'*) undo; printf '%s\n' 'the path of the record holds a dollar sign, which systemd reads as a variable' >&2; no_launch unit-failed;; esac
env=$(command -v env) || { undo; printf '%s\n' 'there is no program env' >&2; no_launch unit-failed; }
( umask 077; printf '%s\n' "$eagletui_keeper" >"$dir/launch/keeper" ) || { undo; no_launch unwritable; }
manager=--user
if [ "$(id -u)" = 0 ] && [ -S /run/systemd/private ]; then manager=; fi
output=append:$log
case $log in *//*|*/./*|*/../*|*/.|*/..) output=null;; esac
unit=$name; n=1
while :; do
said=$(systemd-run $manager --quiet --collect --no-ask-password --service-type=exec --unit="$unit" \
--description='a server that eagletui launched' --working-directory=/ \
--property=StandardOutput="$output" --property=StandardError="$output" """
    + " ".join(f"--property={name}={value}" for name, value in PROPERTIES)
    + r""" \
"$env" -i "PATH=$PATH" sh "$dir/launch/keeper" "$dir" 2>&1 </dev/null) && break
case $said in *already*|*exists*) ;; *) n=10;; esac
n=$((n + 1))
if [ "$n" -ge 10 ]; then
undo; printf '%s\n' "${said:-there are too many units of that name}" >&2
no_launch unit-failed
fi
unit=$name-$n
done
printf 'started %s\n' "$unit"
exit 0
""",
    reads_only=False,
)

UNIT_START: Final = Script(
    "unit-start",
    FENCE
    + _UNIT
    + r"""
fence
said=$(systemctl "$manager" --no-ask-password --no-block start -- "$unit" 2>&1 </dev/null) || { printf '%s\n' "$said" >&2; no_unit unit-failed; }
printf 'started\n'
exit 0
""",
    reads_only=False,
)

UNIT_STOP: Final = Script(
    "unit-stop",
    FENCE
    + _UNIT
    + r"""
fence
said=$(systemctl "$manager" --no-ask-password --no-block stop -- "$unit" 2>&1 </dev/null) || { printf '%s\n' "$said" >&2; no_unit unit-failed; }
printf 'stopping\n'
exit 0
""",
    reads_only=False,
)

TELL_PROCESS: Final = (
    READ_PROCESS
    + r"""
nl='
'
tell_process() {
case $1 in ''|0*|1|*[!0-9]*|???????????*) return 1;; esac
stat_of "$1" || return 1
printf 'process %s %s y %s %s %s %s\n' "$1" "$stat_started" "$stat_state" "$stat_parent" "$stat_group" "$stat_session"
}
begin_state() {
boot=-; read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
printf 'boot %s\nrecord y\nbegun %s\n' "$boot" "$1"
}
"""
)
"""Defines `begin_state BEGUN` (y or n), and `tell_process PID`, which prints its line in the words of `keeper-state`."""

UNIT_STATE: Final = Script(
    "unit-state",
    TELL_PROCESS
    + r"""
lines=${2:-}; case $lines in ''|*[!0-9]*|0*|?????*) printf '%s\n' 'not a number' >&2; exit 2;; esac
"""
    + _UNIT
    + r"""
shown=$(systemctl "$manager" --no-ask-password show --property=MainPID --property=ActiveState --property=Job \
--property=ExecMainCode --property=ExecMainStatus -- "$unit" 2>/dev/null </dev/null)
value_of() { value="$nl$shown$nl"; case $value in *"$nl$1="*) value=${value#*"$nl$1="}; value=${value%%"$nl"*};; *) value=;; esac; }
value_of MainPID; pid=$value; value_of ActiveState; active=$value
value_of ExecMainCode; code=$value; value_of ExecMainStatus; status=$value; value_of Job; job=$value
case $active$job in inactive|failed) begin_state n;; *) begin_state y;; esac
tell_process "$pid"
printf 'log  - - 0 -\n'
case $active$job in inactive|failed)
case $status in ''|*[!0-9]*|????*) ;; *)
case $code in 1) printf 'exit %s\n' "$status";; 2|3) printf 'exit %s\n' "$((128 + status))";; esac;;
esac;;
esac
printf '@tail\n'
where=--unit; [ "$manager" = --user ] && where=--user-unit
journalctl "$where=$unit" --output=cat --no-pager --lines="$lines" 2>/dev/null </dev/null | tail -c 4096
exit 0
""",
)

UNIT_NAME: Final = re.compile(r"(?![.-])[0-9A-Za-z:_.@\\-]{1,200}\.service")
"""A unit that a profile may name."""


def ask_launch_systemd(fence: tuple[str, str], record_id: str, name: str) -> Command:
    """Start the keeper of this record as a unit of that name."""
    return Command(LAUNCH_SYSTEMD, (*fence, record_id, name))


def ask_unit_start(fence: tuple[str, str], unit: str) -> Command:
    """Start a unit that exists."""
    return Command(UNIT_START, (*fence, unit))


def ask_unit_stop(fence: tuple[str, str], unit: str) -> Command:
    """Stop a unit that exists."""
    return Command(UNIT_STOP, (*fence, unit))


def ask_unit_state(unit: str, lines: int) -> Command:
    """What became of it; keeper.parse_keeper_state reads it."""
    return Command(UNIT_STATE, (unit, str(lines)))
