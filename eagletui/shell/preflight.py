r"""What can be known of a node before a server is launched on it: the script `preflight`, and what it tells as facts. Total.

preflight PATH CWD PROGRAM LOG TMP HUB TOOLS LAUNCHER HANDLE [MODEL HUBNAME]...    reads only
    PATH: the launch's own; CWD, LOG, TMP, MODEL absolute; PROGRAM absolute, or a bare name that is looked for on PATH; HUB: the folder of downloaded
    models, empty for the login's own; TOOLS: names with blanks between; LAUNCHER and HANDLE: whose tool is asked of a
    container or unit; MODEL with HUBNAME (`models--org--name`, or empty).
    Empty words are not looked at. What a user can choose comes back in hex.
    login UID HEX-of-name HEX-of-home HEX-of-/proc/self/cgroup\n
    program WORD HEX-of-path\n      WORD found, absent, directory, denied (not executable), noexec (its file system forbids it)
    interpreter WORD HEX-of-path\n  of a script (`#!`), the program of `env` resolved on PATH; no line for a binary
    path KEY LETTERS NEAR BLOCKS UNIT TOTAL INODES ALL\n   KEY cwd, log, folder (of the log), state, tmp, shm, hub, model-N, config-N,
                                    hub-N. LETTERS: f d o (other) l (a link to nothing) or -, then r w x or - as this login may. NEAR: bytes of the
                                    longest part of the path that exists. Then of its file system: blocks free for this login, their size in bytes,
                                    blocks in all, inodes free, inodes in all; "-": unknown
    near KEY LETTERS\n              of that part, where it is not the whole
    weights N COUNT BROKEN UNREADABLE SHARDS TOTAL SIZE\n   of model N, a folder: weight files, links to nothing or empty, not readable, files named
                                    `model-…-of-TOTAL…`, the number in those names, bytes of the last file ("-" unknown)
    snapshots N COUNT\n             downloads of model N in HUB that have a config.json
    tool NAME\n                     one of TOOLS that is on the login's PATH
    logind TEXT\n                   a line `FILE:Kill…=…` of logind's configuration;  logind-runs\n where it runs;  linger\n;  bus\n (the user's, a socket)
    handle STATUS HEX\n             what docker or podman (`inspect`: its state), or systemctl (`show`: LoadState, of the user's manager, else of the
                                    system's) said of HANDLE, and the exit status
    done\n
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

FIND_PROGRAM = r"""
nl='
'
tab='	'
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
# Is the file $1 on a file system that forbids to run it?
noexec() {
real=$(readlink -f "$1" 2>/dev/null) || real=$1
best=; forbids=
while read -r device at type options rest; do
case $at in *\\*) at=$(printf '%b' "$at");; esac
case $real in "${at%/}"/*)
if [ "${#at}" -ge "${#best}" ]; then
best=$at; forbids=
case ,$options, in *,noexec,*) forbids=y;; esac
fi;;
esac
done 2>/dev/null </proc/self/mounts
[ -n "$forbids" ]
}
# The program $1 as execvp would find it on $path from $cwd: $found and the word $how.
find_program() {
found=$1; how=absent
case $1 in
'') return;;
/*) ;;
*/*) found=$cwd/$1;;
*)
set -f; old=$IFS; IFS=:
for d in $path:; do
case $d in '') d=$cwd;; /*) ;; *) d=$cwd/$d;; esac
if [ -f "$d/$1" ]; then
[ "$how" = absent ] && { found=$d/$1; how=denied; }
if [ -x "$d/$1" ]; then found=$d/$1; break; fi
fi
done
IFS=$old; set +f;;
esac
if [ -d "$found" ]; then how=directory
elif [ ! -e "$found" ]; then how=absent
elif noexec "$found"; then how=noexec  # not every sh's -x knows of it
elif [ -x "$found" ]; then how=found
else how=denied
fi
}
# The interpreter of the script $1, as its first line names it: $interpreter, empty for a binary.
find_interpreter() {
interpreter=
begin=$(head -c 1024 "$1" 2>/dev/null | tr -d '\000')
case $begin in '#!'*) ;; *) return;; esac
line=${begin%%"$nl"*}; line=${line#'#!'}
while :; do case $line in ' '*|"$tab"*) line=${line#?};; *) break;; esac; done
interpreter=${line%%[ "$tab"]*}
case $interpreter in
*/env)
words=${line#"$interpreter"}; interpreter=
set -f
for word in $words; do case $word in -*|*=*) ;; *) interpreter=$word; break;; esac; done
set +f;;
*/sh)
# pip writes this where the interpreter's path is too long for a first line
second=${begin#*"$nl"}; second=${second%%"$nl"*}
case $second in "'''exec' "*' "$0" "$@"'*)
second=${second#"'''exec' "}; second=${second%%' "$0"'*}; second=${second#'"'}; interpreter=${second%'"'};;
esac;;
esac
}
"""
"""Functions for scripts: `path` and `cwd` are the launch's own."""

PREFLIGHT = Script(
    "preflight",
    FIND_PROGRAM
    + r"""
path=$1; cwd=$2; program=$3; log=$4; tmp=$5; hub=$6; tools=$7; launcher=$8; handle=$9
[ "$#" -ge 9 ] || { printf '%s\n' 'nine words at least' >&2; exit 2; }
shift 9
limit() { if timeout 1 true >/dev/null 2>&1; then timeout 5 "$@"; else "$@"; fi; }
letters() {
if [ -d "$1" ]; then l=d; elif [ -f "$1" ]; then l=f; elif [ -e "$1" ]; then l=o; elif [ -L "$1" ]; then l=l; else l=-; fi
if [ -r "$1" ]; then l=${l}r; else l=$l-; fi
if [ -w "$1" ]; then l=${l}w; else l=$l-; fi
if [ -x "$1" ]; then l=${l}x; else l=$l-; fi
}
look() {
near=$2
while [ -n "$near" ] && [ ! -e "$near" ]; do
case $near in */*) near=${near%/*};; *) near=;; esac
done
space=$(limit stat -f -c '%a %S %b %d %c' -- "${near:-/}" 2>/dev/null) || space='- - - - -'
letters "$2"
printf 'path %s %s %s %s\n' "$1" "$l" "${#near}" "$space"
[ "$near" = "$2" ] || { letters "${near:-/}"; printf 'near %s %s\n' "$1" "$l"; }
}
uid=$(id -u); user=$(id -un 2>/dev/null)
printf 'login %s %s %s %s\n' "$uid" "$(printf %s "${user:--}" | hex)" "$(printf %s "${HOME:--}" | hex)" "$(head -c 4096 /proc/self/cgroup 2>/dev/null | hex)"
if [ -n "$program" ]; then
find_program "$program"
printf 'program %s %s\n' "$how" "$(printf %s "$found" | hex)"
if [ "$how" = found ]; then
find_interpreter "$found"
if [ -n "$interpreter" ]; then
find_program "$interpreter"
printf 'interpreter %s %s\n' "$how" "$(printf %s "$found" | hex)"
fi
fi
fi
[ -n "$cwd" ] && look cwd "$cwd"
if [ -n "$log" ]; then letters "$log"; printf 'path log %s - - - - - -\n' "$l"; look folder "${log%/*}/"; fi
look state "${XDG_STATE_HOME:-$HOME/.local/state}/eagletui/launches"
[ -n "$tmp" ] && look tmp "$tmp"
look shm /dev/shm
n=0
hub=${hub:-$HOME/.cache/huggingface/hub}
if [ "$#" -gt 1 ]; then look hub "$hub"; fi
while [ "$#" -gt 1 ]; do
model=$1; name=$2; shift 2
look "model-$n" "$model"
if [ -d "$model" ]; then
letters "$model/config.json"; printf 'path config-%s %s - - - - - -\n' "$n" "$l"
count=0; broken=0; unreadable=0; shards=0; total=0; last=
for f in "$model"/*.safetensors "$model"/*.bin "$model"/*.gguf "$model"/*.pt "$model"/*.pth; do
if [ ! -e "$f" ] && [ ! -L "$f" ]; then continue; fi
count=$((count + 1)); last=$f
if [ ! -s "$f" ]; then broken=$((broken + 1)); elif [ ! -r "$f" ]; then unreadable=$((unreadable + 1)); fi
case ${f##*/} in model-*-of-*.safetensors)
of=${f##*-of-}; of=${of%%.*}
case $of in ''|*[!0-9]*|??????????*) ;; *) shards=$((shards + 1)); total=$of;; esac;;
esac
done
size=-; [ -n "$last" ] && size=$(stat -L -c %s -- "$last" 2>/dev/null)
printf 'weights %s %s %s %s %s %s %s\n' "$n" "$count" "$broken" "$unreadable" "$shards" "$total" "${size:--}"
elif [ -n "$name" ]; then
letters "$hub/$name"; printf 'path hub-%s %s - - - - - -\n' "$n" "$l"
count=0
for f in "$hub/$name"/snapshots/*/config.json; do [ -e "$f" ] && count=$((count + 1)); done
printf 'snapshots %s %s\n' "$n" "$count"
fi
n=$((n + 1))
done
set -f
for t in $tools; do
case $t in -*|*[!0-9A-Za-z_.-]*) continue;; esac
command -v "$t" >/dev/null 2>&1 && printf 'tool %s\n' "$t"
done
set +f
for d in /etc /run /usr/local/lib /usr/lib; do
for f in "$d/systemd/logind.conf" "$d"/systemd/logind.conf.d/*.conf; do
[ -f "$f" ] || continue
while IFS= read -r line || [ -n "$line" ]; do
case $line in *[Kk]ill*=*) printf 'logind %s:%s\n' "$f" "$line";; esac
done <"$f" 2>/dev/null
done
done
[ -d /run/systemd/sessions ] && printf 'logind-runs\n'
[ -n "$user" ] && [ -e "/var/lib/systemd/linger/$user" ] && printf 'linger\n'
[ -S "/run/user/$uid/bus" ] && printf 'bus\n'
answered() { printf 'handle %s %s\n' "$1" "$(printf %s "$2" | head -c 1000 | hex)"; }
if [ -n "$handle" ]; then
case $launcher in
docker|podman)
said=$(limit "$launcher" container inspect --format '{{.State.Status}}' -- "$handle" 2>&1 </dev/null)
answered "$?" "$said";;
systemd)
XDG_RUNTIME_DIR=${XDG_RUNTIME_DIR:-/run/user/$uid}; export XDG_RUNTIME_DIR
said=$(limit systemctl --user show --property=LoadState -- "$handle" 2>&1 </dev/null)
case $said in *=loaded*) ;; *) said=$(limit systemctl --system show --property=LoadState -- "$handle" 2>&1 </dev/null);; esac
answered "$?" "$said";;
esac
fi
printf 'done\n'
exit 0
""",
)


@dataclass(frozen=True, slots=True)
class PathFact:
    """What a path is to this login. `kind`: f, d, o (other), l (a link to nothing), - (not there). `near`: bytes of its longest part that exists, and
    what that is (`near_kind`, `near_enter`, `near_write`). Space of its file system in bytes, None unknown (inodes also where it counts none)."""

    kind: str = "-"
    read: bool = False
    write: bool = False
    enter: bool = False
    near: int | None = None
    near_kind: str = "-"
    near_write: bool = False
    near_enter: bool = False
    free: int | None = None
    size: int | None = None
    inodes: int | None = None

    @property
    def there(self) -> bool:
        """It exists (a link to nothing does not)."""
        return self.kind in {"f", "d", "o"}


@dataclass(frozen=True, slots=True)
class Program:
    """`word`: found, absent, directory, denied, noexec."""

    word: str
    path: str


@dataclass(frozen=True, slots=True)
class Weights:
    """Weight files of a model's folder. `shards` are named as parts of `total`; `last_size` is the size of the last file in bytes."""

    count: int
    broken: int
    unreadable: int
    shards: int
    total: int
    last_size: int | None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One answer. `complete`: its end came. `logind`: (file, line) of its Kill… settings. `handle`: exit status and words of the launcher's tool."""

    uid: int | None = None
    user: str | None = None
    home: str | None = None
    cgroup: str = ""
    program: Program | None = None
    interpreter: Program | None = None
    paths: tuple[tuple[str, PathFact], ...] = ()
    weights: tuple[tuple[int, Weights], ...] = ()
    snapshots: tuple[tuple[int, int], ...] = ()
    tools: frozenset[str] = frozenset()
    logind: tuple[tuple[str, str], ...] = ()
    logind_runs: bool = False
    linger: bool = False
    bus: bool = False
    handle: tuple[int, str] | None = None
    complete: bool = False

    def path(self, key: str) -> PathFact | None:
        """What is known of the path with this key."""
        return dict(self.paths).get(key)


def ask_preflight(
    *,
    path: str,
    cwd: str,
    program: str,
    log: str,
    tmp: str,
    hub: str = "",
    tools: Iterable[str] = (),
    launcher: str = "setsid",
    handle: str = "",
    models: Sequence[tuple[str, str]] = (),
) -> Command:
    """The command whose stdout parse_preflight reads. `models`: absolute path and name in the hub's folder (or empty) of each."""
    words = [word for pair in models for word in pair]
    return Command(PREFLIGHT, (path, cwd, program, log, tmp, hub, " ".join(tools), launcher, handle, *words))


_LETTERS = re.compile(r"[fdol-][r-][w-][x-]")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _unhex(text: str) -> str | None:
    try:
        return as_text(bytes.fromhex(text))
    except ValueError:
        return None


def _named(text: str) -> str | None:
    name = _unhex(text)
    return name if name not in {"-", ""} else None


def _path(words: list[str]) -> tuple[str, PathFact] | None:
    if not _LETTERS.fullmatch(words[1]):
        return None
    key, letters, near = words[0], words[1], _number(words[2])
    blocks, unit, total, inodes, all_inodes = (_number(word) for word in words[3:])
    kind, read, write, enter = letters[0], letters[1] == "r", letters[2] == "w", letters[3] == "x"
    return key, PathFact(
        kind,
        read,
        write,
        enter,
        near,
        kind,
        write,
        enter,
        None if blocks is None or unit is None else blocks * unit,
        None if total is None or unit is None else total * unit,
        inodes if all_inodes else None,
    )


def _program(words: list[str]) -> Program | None:
    path = _unhex(words[1]) if len(words) == 2 else None
    return (
        Program(words[0], path) if path and words[0] in {"found", "absent", "directory", "denied", "noexec"} else None
    )


def _near(fact: PathFact, letters: str) -> PathFact:
    return PathFact(
        fact.kind, fact.read, fact.write, fact.enter, fact.near, letters[0], letters[2] == "w", letters[3] == "x",
        fact.free, fact.size, fact.inodes,
    )  # fmt: skip


def _rows(lines: list[str], length: int) -> list[list[str]]:
    """The lines that have so many words."""
    return [words for words in (line.split(" ") for line in lines) if len(words) == length]


def _paths(lines: dict[str, list[str]]) -> tuple[tuple[str, PathFact], ...]:
    found = (_path(words) for words in _rows(lines.get("path", []), 8))
    paths = dict(pair for pair in found if pair is not None)
    for key, letters in _rows(lines.get("near", []), 2):
        if key in paths and _LETTERS.fullmatch(letters):
            paths[key] = _near(paths[key], letters)
    return tuple(paths.items())


def _weights(rows: list[list[str]]) -> tuple[tuple[int, Weights], ...]:
    found: dict[int, Weights] = {}
    for words in rows:
        numbers = [number for number in map(_number, words[:6]) if number is not None]
        if len(numbers) == 6:
            n, count, broken, unreadable, shards, total = numbers
            found[n] = Weights(count, broken, unreadable, shards, total, _number(words[6]))
    return tuple(found.items())


def _handle(rows: list[list[str]]) -> tuple[int, str] | None:
    found = ((_number(status), _unhex(said)) for status, said in rows)
    return next(((status, said) for status, said in found if status is not None and said is not None), None)


def _logind(lines: list[str]) -> tuple[tuple[str, str], ...]:
    parts = (line.partition(":") for line in lines)
    return tuple((file, setting) for file, colon, setting in parts if colon)


def parse_preflight(output: bytes) -> NodeFacts:
    """What the script `preflight` printed; lines it does not know are passed over."""
    lines: dict[str, list[str]] = {}
    for line in as_text(output).split("\n"):
        key, _, rest = line.partition(" ")
        lines.setdefault(key, []).append(rest)
    uid, user, home, cgroup = next(iter(_rows(lines.get("login", []), 4)), ["", "", "", ""])
    program, interpreter = (
        next((p for p in map(_program, _rows(lines.get(key, []), 2)) if p is not None), None)
        for key in ("program", "interpreter")
    )
    counts = ((_number(n), _number(count)) for n, count in _rows(lines.get("snapshots", []), 2))
    return NodeFacts(
        uid=_number(uid),
        user=_named(user),
        home=_named(home),
        cgroup=_unhex(cgroup) or "",
        program=program,
        interpreter=interpreter,
        paths=_paths(lines),
        weights=_weights(_rows(lines.get("weights", []), 7)),
        snapshots=tuple((n, count) for n, count in counts if n is not None and count is not None),
        tools=frozenset(lines.get("tool", [])),
        logind=_logind(lines.get("logind", [])),
        logind_runs="logind-runs" in lines,
        linger="linger" in lines,
        bus="bus" in lines,
        handle=_handle(_rows(lines.get("handle", []), 2)),
        complete="done" in lines,
    )
