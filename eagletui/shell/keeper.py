r"""What launches: the keeper, the script `launch` that starts it, and `keeper-state`, which tells what became of it.

The keeper is a few lines of sh in a session of its own, `sh -c TEXT eagletui-keeper DIR` (DIR: the record's directory, see records.py). It runs the command of
launch/ in its foreground, with nothing behind an `&`, since a shell would then have it ignore SIGINT and SIGQUIT. `setsid setsid` is how it gets there:
the second one is called by the leader of a session, which cannot make another, so that every setsid forks (busybox's has no -f), and the shell that started it
goes on. Its files in DIR, 0600:
    begun     made by `launch` before anything else: a record is launched once
    keeper    PID STARTED\n  of the keeper (STARTED: field 22 of /proc/PID/stat)
    process   PID STARTED\n  of the command, written by itself before it becomes the command
    exit      STATUS\n       128 + n: ended by signal n; 127: no such program; 126: it cannot be run, or its folder not entered; 125: the keeper could not
Whatever the shell or `env` says on the way to the command is in the log.

launch PORTS TOKEN ID          starts the keeper of a record, and waits for nothing. The log is made (and its directories), never opened where it is already
    started\n
    exit 3, nothing was started:  missing\n (no such record, or it launches nothing)   begun\n (it was launched before)   no-setsid\n
    log-exists\n   log-unwritable\n (the sentence on stderr)   unwritable\n (the record's directory; on stderr).    2: no such argument. 9: fenced
keeper-state ID LINES          reads only
    boot BOOT\n  record y|n\n  begun y|n\n
    keeper PID STARTED ALIVE\n  process PID STARTED ALIVE STATE PARENT GROUP SESSION\n   (where written; ALIVE y|n, the rest "-" where there is none)
    fd N SAME HEX\n             descriptors 1 and 2 of the process: whether each is the log (y|n, "-" unknown), and its link
    log HEX DEVICE INODE SIZE MTIME\n   its path; "-" four times where there is none
    exit STATUS\n
    member PID STARTED\n        where STATUS is 0: what lives on in the keeper's session, or in one that is numbered with the process
    @tail\n                     then to the end: the last LINES lines of the log, of its last 4 KiB
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from eagletui.shell.fragments import FENCE
from eagletui.shell.processes import as_text
from eagletui.shell.record_texts import ALIVE, PLACE
from eagletui.shell.records import Written, written_of
from eagletui.shell.script import Command, Script

TAIL_LINES: Final = 20
"""Of the log, when a launch died at once: a traceback's end, or what the shell said."""

# Stands between single quotes in `launch` and in what the tmux launcher runs, so it holds none. It begins with PATH as its whole environment. Variables
# are exported one by one, so that no value is ever an argument, which every user of the node could read: only those that a shell gives another meaning are
# handed to `env`. What is needed while they are exported has names that no environment has.
_KEEPER: Final = r"""
mask=$(umask); umask 077
exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
dir=$1; launch=$dir/launch
me() {
me_line=; me_more=
while IFS= read -r me_more || [ -n "$me_more" ]; do me_line=$me_more; done </proc/self/stat
me_pid=; read -r me_pid me_more </proc/self/stat
set -- ${me_line##*")"}
printf "%s %s\n" "$me_pid" "${20}"
}
fail() { printf "eagletui: %s\n" "$1"; printf "125\n" 2>/dev/null >"$dir/exit"; exit 125; }
log=$(cat "$launch/log"; printf x); log=${log%x}
exec >>"$log" 2>&1 </dev/null
me >"$dir/keeper" || fail "$dir cannot be written"
cwd=$(cat "$launch/cwd"; printf x); cwd=${cwd%x}
words() { od -An -v -to1 <"$1" | tr -d "\n" | sed "s/ 000/x:/g;s/ /\\\\0/g" | tr ":" "\n"; }
word() { word=$(printf "%b" "$1"); word=${word%x}; }
cpus=; limits=
while read -r key a b; do
case $key in
umask) mask=$a;;
soft) limits="$limits $a:$b";;
cpus) cpus=$a;;
esac
done 2>/dev/null <"$launch/limits"
env=$(command -v env) || fail "there is no program env"
default=
while read -r key a b; do
case $key in
SigIgn:) case $a in *[!0]?*|*[!01]) if env --default-signal true 2>/dev/null; then default=--default-signal; fi;; esac;;
Cpus_allowed_list:) if [ "$a" = "$cpus" ]; then cpus=; fi;;
esac
done </proc/self/status
if [ -n "$cpus" ] && ! taskset -c "$cpus" true 2>/dev/null; then
printf "eagletui: it cannot be kept to the CPUs %s\n" "$cpus"; cpus=
fi
set -f; IFS="
"
set --; eagletui_n=0; special=
for w in $(words "$launch/env"); do
word "$w"; name=${word%%=*}
case $name in
""|[0-9]*|*[!A-Za-z0-9_]*|_|PWD|OLDPWD|SHLVL|IFS|OPT*|PPID|UID|EUID|GROUPS|SHELLOPTS|BASH*|EPOCH*|*RANDOM|SECONDS|LINENO|HISTCMD|FUNCNAME|DIRSTACK|PIPESTATUS)
special="$special$w$IFS";;
*) set -- "$@" "$word"; eagletui_n=$((eagletui_n + 1));;
esac
done
if [ -n "$cpus" ]; then set -- "$@" "$(command -v taskset)" -c "$cpus"; fi
set -- "$@" "$env" -u _ -u PWD -u OLDPWD -u SHLVL $default --
for w in $special; do word "$w"; set -- "$@" "$word"; done
first=y
for w in $(words "$launch/argv"); do
word "$w"
if [ "$first" = y ]; then
first=
case $word in *=*) set -- "$@" "$(command -v nice)" -n 0;; esac
fi
set -- "$@" "$word"
done
[ -z "$first" ] || fail "there is no command in $launch/argv"
unset IFS; set +f
run() {
me >"$dir/process" || { printf "eagletui: %s cannot be written\n" "$dir"; exit 125; }
for l in $limits; do
k=${l%%:*}; n=${l#*:}
ulimit -S -$k $n 2>/dev/null && continue
if [ $k = u ]; then ulimit -S -p $n 2>/dev/null && continue; fi
printf "eagletui: the limit that ulimit -%s shows cannot be set to %s\n" "$k" "$n"
done
cd "$cwd" || exit 126
umask "$mask"
unset PATH
while [ "$eagletui_n" -gt 0 ]; do export "$1"; shift; eagletui_n=$((eagletui_n - 1)); done 2>/dev/null
exec "$@"
}
exec >/dev/null 2>&1
( run "$@" ) >>"$log" 2>&1
status=$?
printf "%s\n" "$status" >"$dir/exit"
"""

START: Final = (
    "eagletui_keeper='"
    + _KEEPER
    + "'\n"
    + r"""
start_keeper() { setsid setsid env -i "PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}" sh -c "$eagletui_keeper" eagletui-keeper "$1" </dev/null >/dev/null 2>&1; }
"""
)
"""Defines `start_keeper DIR`: it returns at once, and the keeper is nobody's child."""

PREPARE: Final = r"""
wrong() { printf '%s\n' "$1" >&2; exit 2; }
no_launch() { printf '%s\n' "$1"; exit 3; }
id=${1:-}; id_is_well "$id" || wrong 'not an id'
records_place || { printf '%s\n' "$why" >&2; no_launch missing; }
dir=$root/$id
[ -f "$dir/launch/argv" ] && [ -O "$dir" ] || no_launch missing
if [ -e "$dir/begun" ]; then no_launch begun; fi
command -v setsid >/dev/null 2>&1 || no_launch no-setsid
log=$(cat "$dir/launch/log" && printf x) || no_launch missing
log=${log%x}
case $log in /*) ;; *) no_launch missing;; esac
if [ -e "$log" ] || [ -L "$log" ]; then no_launch log-exists; fi
fence
( umask 077; set -C; : >"$dir/begun" ) 2>/dev/null || { if [ -e "$dir/begun" ]; then no_launch begun; else no_launch unwritable; fi; }
mask=
while read -r key a b; do case $key in umask) mask=$a;; esac; done 2>/dev/null <"$dir/launch/limits"
(
case $mask in ''|*[!0-7]*) ;; *) umask "$mask";; esac
mkdir -p "${log%/*}/" && set -C && : >"$log"
) || { rm -f "$dir/begun"; if [ -e "$log" ] || [ -L "$log" ]; then no_launch log-exists; else no_launch log-unwritable; fi; }
"""
"""After FENCE, PLACE: looks at the record $1, marks it as begun and makes its log; leaves `dir` and `log`."""

LAUNCH: Final = Script(
    "launch",
    FENCE
    + PLACE
    + START
    + PREPARE
    + r"""
start_keeper "$dir" || no_launch no-setsid
printf 'started\n'
exit 0
""",
    reads_only=False,
)

# What is written last is read first: where there is an exit status, there is the process that it is of.
KEEPER_STATE: Final = Script(
    "keeper-state",
    PLACE
    + ALIVE
    + r"""
id=${1:-}; id_is_well "$id" || { printf '%s\n' 'not an id' >&2; exit 2; }
lines=${2:-}; case $lines in ''|*[!0-9]*|0*|?????*) printf '%s\n' 'not a number' >&2; exit 2;; esac
boot=-; read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
printf 'boot %s\n' "$boot"
records_place || { printf 'record n\n'; exit 0; }
dir=$root/$id
if [ ! -d "$dir" ]; then printf 'record n\n'; exit 0; fi
begun=n; if [ -e "$dir/begun" ]; then begun=y; fi
printf 'record y\nbegun %s\n' "$begun"
status=; if [ -f "$dir/exit" ]; then read -r status status_more 2>/dev/null <"$dir/exit"; fi
keeper=; pid=
if identity_in "$dir/keeper"; then
keeper=$identity_pid
if alive "$identity_pid" "$identity_started"; then a=y; else a=n; fi
printf 'keeper %s %s %s\n' "$identity_pid" "$identity_started" "$a"
fi
log=; if [ -f "$dir/launch/log" ]; then log=$(cat "$dir/launch/log" 2>/dev/null; printf x); log=${log%x}; fi
if identity_in "$dir/process"; then
pid=$identity_pid
if alive "$identity_pid" "$identity_started"; then
printf 'process %s %s y %s %s %s %s\n' "$identity_pid" "$identity_started" "$stat_state" "$stat_parent" "$stat_group" "$stat_session"
for n in 1 2; do
link=$(readlink "/proc/$pid/fd/$n" 2>/dev/null && printf x) || { printf 'fd %s - -\n' "$n"; continue; }
link=${link%?x}
if [ -n "$log" ] && [ "$log" -ef "/proc/$pid/fd/$n" ]; then same=y; else same=n; fi
printf 'fd %s %s %s\n' "$n" "$same" "$(printf '%s' "$link" | hex)"
done
else printf 'process %s %s n - - - -\n' "$identity_pid" "$identity_started"; fi
fi
if [ -n "$log" ]; then
set -- $(stat -L -c '%d %i %s %Y' "$log" 2>/dev/null || echo '- - - -')
printf 'log %s %s %s %s %s\n' "$(printf '%s' "$log" | hex)" "$@"
fi
case $status in ''|*[!0-9]*|????*) ;; *) printf 'exit %s\n' "$status";; esac
if [ "$status" = 0 ] && [ -n "$pid" ]; then
for p in /proc/[0-9]*; do
p=${p#/proc/}
stat_of "$p" || continue
case $stat_state in Z|X) continue;; esac
if [ "$p" = "$keeper" ]; then continue; fi
if [ "$stat_session" = "$pid" ] || [ "$stat_session" = "$keeper" ]; then printf 'member %s %s\n' "$p" "$stat_started"; fi
done
fi
printf '@tail\n'
if [ -n "$log" ] && [ -f "$log" ]; then tail -c 4096 "$log" 2>/dev/null | tail -n "$lines"; fi
exit 0
""",
)


@dataclass(frozen=True, slots=True)
class Output:
    """A standard descriptor of the launched process. `is_log` None: it cannot be told. `link` as /proc shows it."""

    number: int
    is_log: bool | None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class KeeperState:
    """What became of a launch. `record`: it is there; `begun`: somebody began to launch it. `state`, `parent`, `group`, `session` of the process while it
    lives. `log_size` None where there is no log. `members`: what lives in its sessions although it ended well. `tail`: the end of the log, foreign text.
    """

    boot: str | None = None
    record: bool = False
    begun: bool = False
    keeper: Written | None = None
    process: Written | None = None
    state: str | None = None
    parent: int | None = None
    group: int | None = None
    session: int | None = None
    outputs: tuple[Output, ...] = ()
    log: str | None = None
    log_size: int | None = None
    members: tuple[tuple[int, int], ...] = ()
    exit_status: int | None = None
    tail: bytes = b""
    complete: bool = False

    @property
    def lives(self) -> bool:
        """Whether the launched process is alive; one whose exit status is there ended while it was looked at."""
        return self.process is not None and self.process.alive and self.exit_status is None


def ask_launch(fence: tuple[str, str], record_id: str) -> Command:
    """Start the keeper of this record."""
    return Command(LAUNCH, (*fence, record_id))


def ask_keeper_state(record_id: str, lines: int = TAIL_LINES) -> Command:
    """The command whose stdout parse_keeper_state reads."""
    return Command(KEEPER_STATE, (record_id, str(lines)))


def parse_launch(output: bytes) -> tuple[str, str | None]:
    """What `launch` (or `launch-tmux`) printed: a word ("started", "missing", "begun", "no-setsid", "log-exists", …; "" for none), and a name. Total."""
    word, _, name = as_text(output).partition("\n")[0].partition(" ")
    return (word if re.fullmatch(r"[a-z]{1,20}(?:-[a-z]{1,20})?", word) else "", name or None)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,19}", text) else None


def _path(text: str) -> str | None:
    try:
        return as_text(bytes.fromhex(text)) or None
    except ValueError:
        return None


def parse_keeper_state(output: bytes) -> KeeperState:
    """What `keeper-state` printed. Total."""
    head, mark, tail = output.partition(b"@tail\n")
    found: dict[str, list[str]] = {}
    outputs: list[Output] = []
    members: list[tuple[int, int]] = []
    for line in as_text(head).split("\n"):
        key, *rest = line.split(" ")
        if key == "fd" and len(rest) == 3 and (number := _number(rest[0])) is not None:
            outputs.append(Output(number, {"y": True, "n": False}.get(rest[1]), _path(rest[2])))
        elif key == "member" and (member := written_of([*rest, "y"])) is not None:
            members.append((member.pid, member.started))
        else:
            found.setdefault(key, rest)

    def word(key: str, at: int = 0) -> str:
        words = found.get(key, [])
        return words[at] if at < len(words) else ""

    return KeeperState(
        boot=word("boot") if word("boot") not in {"", "-"} else None,
        record=word("record") == "y",
        begun=word("begun") == "y",
        keeper=written_of(found.get("keeper", [])),
        process=written_of(found.get("process", [])),
        state=word("process", 3) if word("process", 3) not in {"", "-"} else None,
        parent=_number(word("process", 4)),
        group=_number(word("process", 5)),
        session=_number(word("process", 6)),
        outputs=tuple(outputs),
        log=_path(word("log")),
        log_size=_number(word("log", 3)),
        members=tuple(members),
        exit_status=_number(word("exit")),
        tail=tail,
        complete=bool(mark),
    )
