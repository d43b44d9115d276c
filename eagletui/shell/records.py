r"""The records of launches on the node: listed, made, replaced, copied, thinned out. What they mean stands in servers/record.py.

A record is a directory `${XDG_STATE_HOME:-$HOME/.local/state}/eagletui/launches/MACHINE/ID/`, 0700 as all above it that we make. MACHINE is /etc/machine-id
(else the host's name), with `_` for what is not a letter, digit, `.`, `_` or `-`: many nodes may share a home. ID: letters, digits and `-`. In it:
    record.json                    what is shown and copied; masked; replaced as a whole
    launch/{argv,env}              exact, each word followed by NUL;  launch/{cwd,log}  a path, nothing behind it;
    launch/limits                  lines  umask OCTAL\n  soft LETTER NUMBER|unlimited\n (as `ulimit -S` takes it)  cpus LIST\n (as taskset takes it)
    begun, keeper, process, exit   written by the launch itself, see keeper.py
What is in launch/ is never printed by any of these. A record of a stop has no launch/.

records COUNT          reads only; the newest COUNT of this machine, and beyond them those whose processes live
    @node\n BOOT\n MACHINE\n FOLDER (hex)\n   then for each, oldest first:
    \0@record ID LAUNCH BEGUN\n   (y|n: launch/ is there; it was begun to be launched)
    keeper PID STARTED ALIVE\n  process PID STARTED ALIVE\n  (where written; ALIVE y|n: there is a process of that number and start time now, not only its
    exit status)  exit STATUS\n   \0@json\n  the bytes of record.json, at most 256 KiB.    At the end  \0@done\n.
    Where there is nowhere to look:  @none REASON\n instead of all
record-create PORTS TOKEN ID RECORD ARGV ENV CWD LOG LIMITS     the last six: bytes of the parts that follow on stdin, in this order; ARGV 0: no launch/
record-update PORTS TOKEN ID RECORD [PID STARTED]               the same for record.json alone; PID and STARTED go to the file `process`, where there is none
    yet: of what was launched without our keeper (a unit or a container that exists)
record-copy PORTS TOKEN NEW OLD RECORD ARGV CWD LOG             launch/ of OLD for NEW, which must not be there yet. Parts of 0 bytes are as in OLD (LOG has
    to be given). ARGV: words, each followed by NUL:  `@N` the Nth word of OLD's argv from 0,  `+TEXT` a new word
record-prune PORTS TOKEN KEEP                                   takes away all but the newest KEEP, but none whose keeper or process lives
    done FOLDER\n (hex; of record-prune: done COUNT\n, how many were taken away)
    exit 3: `exists`: NEW or ID is there already; `missing`: OLD, or ID to be updated, is not; `cut`: fewer bytes came than were told; `word N`: OLD has no
    such word. 4: it cannot be written (`unwritable FOLDER`, hex; the sentence on stderr). Nothing is left of what was begun. 2: no such argument. 9: fenced
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Final, Literal

from eagletui.shell.fragments import FENCE
from eagletui.shell.masking import MASK
from eagletui.shell.processes import as_text
from eagletui.shell.record_texts import ALIVE, PLACE, WORDS
from eagletui.shell.script import Command, Script

KEPT: Final = 50
"""Records that stay when old ones are taken away: months of restarts, less than a megabyte."""
SHOWN: Final = 20
"""Records that are looked at when one connects: each costs the node a process and a millisecond."""
NOT_WRITTEN: Final = 4
"""Exit status of a script that could not write."""
NOT_AS_ASKED: Final = 3
"""Exit status where what is on the node is not what was asked about; the word on stdout says what."""

Launch = Literal["argv", "env", "cwd", "log", "limits"]

RECORDS: Final = Script(
    "records",
    PLACE
    + ALIVE
    + r"""
case ${1:-} in ''|*[!0-9]*|0?*|??????*) printf '%s\n' 'not a number' >&2; exit 2;; esac
count=$1
records_place || { printf '@none %s\n' "$why"; exit 0; }
boot=-; read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id
printf '@node\n%s\n%s\n%s\n' "$boot" "$machine" "$(printf '%s' "$root" | hex)"
told() {
if identity_in "$d/$1"; then
if alive "$identity_pid" "$identity_started"; then a=y; else a=n; fi
printf '%s %s %s %s\n' "$1" "$identity_pid" "$identity_started" "$a"
fi
}
set -- "$root"/[0-9A-Za-z]*
for d in "$@"; do
left=$#; shift
[ -f "$d/record.json" ] || continue
if [ "$left" -gt "$count" ]; then record_lives "$d" || continue; fi
id=${d##*/}; id_is_well "$id" || continue
launch=n; if [ -f "$d/launch/argv" ]; then launch=y; fi
begun=n; if [ -e "$d/begun" ]; then begun=y; fi
printf '\0@record %s %s %s\n' "$id" "$launch" "$begun"
told keeper; told process
status=; if [ -f "$d/exit" ]; then read -r status status_more 2>/dev/null <"$d/exit"; fi
case $status in ''|*[!0-9]*|????*) ;; *) printf 'exit %s\n' "$status";; esac
printf '\0@json\n'; head -c 262144 "$d/record.json" 2>/dev/null
done
printf '\0@done\n'
exit 0
""",
)

# What comes on stdin goes to a file at once and is cut there: `head -c` of busybox takes more from a pipe than it gives. `new` is a directory
# of ours that is renamed to its place when it is whole.
_WRITE: Final = r"""
umask 077
new=
unwritable() {
[ -n "$new" ] && rm -rf "$new"
printf 'unwritable %s\n' "$(printf '%s' "$root" | hex)"
exit 4
}
not_as_asked() { [ -n "$new" ] && rm -rf "$new"; printf '%s\n' "$1"; exit 3; }
wrong() { printf '%s\n' "$1" >&2; exit 2; }
records_place || { printf '%s\n' "$why" >&2; unwritable; }
take() {
at=0; whole=0
for n in "$@"; do
case $n in ''|*[!0-9]*|0?*|?????????*) wrong 'not a length';; esac
whole=$((whole + n))
done
cat >"$new/stdin" || unwritable
[ "$(wc -c <"$new/stdin")" -eq "$whole" ] || not_as_asked cut
}
part() {
[ "$2" -gt 0 ] || return 0
tail -c +$((at + 1)) "$new/stdin" | head -c "$2" >"$1" || unwritable
[ "$(wc -c <"$1")" -eq "$2" ] || unwritable
at=$((at + $2))
}
stage() {
mkdir -p "$root" || unwritable
[ -O "$root" ] || { printf '%s\n' 'it belongs to somebody else' >&2; unwritable; }
new=$root/.new-$id.$$
mkdir "$new" || { new=; unwritable; }
}
# What became of it when there is no room is known once it was written: the sizes are looked at, and then it is moved.
place() {
rm -f "$new/stdin" "$new/words"
if [ -e "$root/$id" ]; then not_as_asked exists; fi
mv "$new" "$root/$id" || unwritable
printf 'done %s\n' "$(printf '%s' "$root/$id" | hex)"
exit 0
}
"""

RECORD_CREATE: Final = Script(
    "record-create",
    FENCE
    + PLACE
    + _WRITE
    + r"""
id=${1:-}; id_is_well "$id" || wrong 'not an id'
[ $# -eq 7 ] || wrong 'not six lengths'
shift
if [ -e "$root/$id" ]; then not_as_asked exists; fi
stage
take "$@"
part "$new/record.json" "$1"
if [ "$2" -gt 0 ]; then
mkdir "$new/launch" || unwritable
part "$new/launch/argv" "$2"; : >"$new/launch/env" || unwritable
part "$new/launch/env" "$3"; part "$new/launch/cwd" "$4"; part "$new/launch/log" "$5"; part "$new/launch/limits" "$6"
fi
fence
place
""",
    reads_only=False,
)

RECORD_UPDATE: Final = Script(
    "record-update",
    FENCE
    + PLACE
    + _WRITE
    + r"""
id=${1:-}; id_is_well "$id" || wrong 'not an id'
[ $# -eq 2 ] || [ $# -eq 4 ] || wrong 'not a length'
case ${2:-} in ''|*[!0-9]*|0*|?????????*) wrong 'not a length';; esac
case ${3:-2} in ''|*[!0-9]*|0*|1|????????*) wrong 'not a process';; esac
case ${4:-2} in ''|*[!0-9]*|0?*|????????????????????*) wrong 'not a process';; esac
[ -d "$root/$id" ] || not_as_asked missing
new=$root/.new-$id.$$
mkdir "$new" || { new=; unwritable; }
cat >"$new/record.json" || unwritable
[ "$(wc -c <"$new/record.json")" -eq "$2" ] || not_as_asked cut
if [ $# -eq 4 ]; then printf '%s %s\n' "$3" "$4" >"$new/process" || unwritable; fi
fence
mv -f "$new/record.json" "$root/$id/record.json" || unwritable
if [ $# -eq 4 ] && [ ! -e "$root/$id/process" ]; then mv "$new/process" "$root/$id/process" || unwritable; fi
rm -rf "$new"
printf 'done %s\n' "$(printf '%s' "$root/$id" | hex)"
exit 0
""",
    reads_only=False,
)

RECORD_COPY: Final = Script(
    "record-copy",
    FENCE
    + PLACE
    + _WRITE
    + WORDS
    + r"""
id=${1:-}; id_is_well "$id" || wrong 'not an id'
old=${2:-}; id_is_well "$old" || wrong 'not an id'
[ $# -eq 6 ] || wrong 'not four lengths'
shift 2
if [ -e "$root/$id" ]; then not_as_asked exists; fi
old=$root/$old/launch
[ -f "$old/argv" ] || not_as_asked missing
stage
take "$@"
part "$new/record.json" "$1"
mkdir "$new/launch" || unwritable
for f in env cwd limits; do
if [ -f "$old/$f" ]; then cp "$old/$f" "$new/launch/$f" || unwritable; fi
done
if [ "$2" -gt 0 ]; then
part "$new/words" "$2"
set -f; IFS=$newline
: >"$new/launch/argv" || unwritable
for w in $(words "$new/words"); do
case $w in
'\0053'*) value=$(printf '%b' "$w"); value=${value%x}; printf '%s\0' "${value#+}" >>"$new/launch/argv" || unwritable;;
'\0100'*)
value=$(printf '%b' "$w"); value=${value%x}; n=${value#@}; found=; i=0
case $n in ''|*[!0-9]*|??????*) not_as_asked "word $n";; esac
for v in $(words "$old/argv"); do
if [ "$i" -eq "$n" ]; then found=y; value=$(printf '%b' "$v"); printf '%s\0' "${value%x}" >>"$new/launch/argv" || unwritable; break; fi
i=$((i + 1))
done
[ -n "$found" ] || not_as_asked "word $n";;
*) not_as_asked 'word';;
esac
done
unset IFS; set +f
else cp "$old/argv" "$new/launch/argv" || unwritable
fi
part "$new/launch/cwd" "$3"; part "$new/launch/log" "$4"
fence
place
""",
    reads_only=False,
)

RECORD_PRUNE: Final = Script(
    "record-prune",
    FENCE
    + PLACE
    + ALIVE
    + r"""
case ${1:-} in ''|*[!0-9]*|0*|??????*) printf '%s\n' 'not a number' >&2; exit 2;; esac
keep=$1; gone=0
records_place || { printf 'done 0\n'; exit 0; }
for d in "$root"/.new-*; do
p=${d##*.}
case $p in ''|*[!0-9]*) continue;; esac
if [ -d "$d" ] && [ ! -d "/proc/$p" ]; then rm -rf "$d"; fi
done
set -- "$root"/[0-9A-Za-z]*
while [ $# -gt "$keep" ]; do
d=$1; shift
id_is_well "${d##*/}" || continue
if [ -L "$d" ] || [ ! -f "$d/record.json" ]; then continue; fi
record_lives "$d" && continue
fence
rm -rf "$d" && gone=$((gone + 1))
done
printf 'done %s\n' "$gone"
exit 0
""",
    reads_only=False,
)


ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}\Z")
"""What a record may be called."""


@dataclass(frozen=True, slots=True)
class LaunchFiles:
    """What is written to launch/: exact, and never masked. `limits`: lines of its file."""

    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    cwd: str
    log: str
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A process as a file of a record names it: its number, its start in ticks, and whether that very process is alive."""

    pid: int
    started: int
    alive: bool


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """One record as it lies there. `json` are the bytes of record.json. `launch`: it can be launched again; `begun`: somebody began to launch it."""

    id: str
    launch: bool = False
    begun: bool = False
    keeper: Written | None = None
    process: Written | None = None
    exit_status: int | None = None
    json: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordList:
    """What `records` printed. `records`: newest first. `folder`: where they lie, None with `why` it cannot be told. `complete`: the end came."""

    boot: str | None = None
    machine: str | None = None
    folder: str | None = None
    why: str | None = None
    records: tuple[RecordFiles, ...] = field(default=())
    complete: bool = False


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """What a script that writes said. `folder`: of the record that is there now. `word`: "exists", "missing", "cut", "word", "unwritable" (`folder` is where it
    could not), "" for what is none of these. `count` of those that `record-prune` took away."""

    done: bool = False
    folder: str | None = None
    count: int | None = None
    word: str = ""


def ask_records(count: int = SHOWN) -> Command:
    """The command whose stdout parse_records reads."""
    return Command(RECORDS, (str(count),))


def ask_record_create(fence: tuple[str, str], record_id: str, record: bytes, launch: LaunchFiles | None) -> Command:
    """Make a record; `launch` None for one that launches nothing. Raises ValueError for a NUL in a word."""
    parts = [record, *((b"",) * 5 if launch is None else _launch_parts(launch))]
    return Command(RECORD_CREATE, (*fence, record_id, *_lengths(parts)), b"".join(parts))


def ask_record_update(
    fence: tuple[str, str], record_id: str, record: bytes, process: tuple[int, int] | None = None
) -> Command:
    """Replace record.json. `process`: (pid, start ticks) of what was launched without our keeper, which would have written it."""
    told = () if process is None else tuple(str(number) for number in process)
    return Command(RECORD_UPDATE, (*fence, record_id, str(len(record)), *told), record)


def ask_record_copy(
    fence: tuple[str, str],
    record_id: str,
    old: str,
    record: bytes,
    *,
    log: str,
    argv: Sequence[str | int] = (),
    cwd: str | None = None,
) -> Command:
    """Make a record that launches what `old` did. `argv`: if anything differs, its words, a number being that word of `old`."""
    edits = [f"@{word}" if isinstance(word, int) else f"+{word}" for word in argv]
    parts = [record, _nul_ended(edits), _raw(cwd or ""), _raw(log)]
    return Command(RECORD_COPY, (*fence, record_id, old, *_lengths(parts)), b"".join(parts))


def ask_record_prune(fence: tuple[str, str], keep: int = KEPT) -> Command:
    """Take away what is old and dead."""
    return Command(RECORD_PRUNE, (*fence, str(keep)))


def edits_of(old: Sequence[str], new: Sequence[str]) -> tuple[str | int, ...]:
    """How the command `new` comes from `old`, both masked: numbers of the old words that stay, and new words. A secret that stays is so never needed.

    Raises ValueError when a new word is or holds a mask: what it stands for is not known here.
    """
    edits: list[str | int] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(a=list(old), b=list(new), autojunk=False).get_opcodes():
        if tag == "equal":
            edits += range(i1, i2)
            continue
        for word in new[j1:j2]:
            if MASK in word:
                raise ValueError("a word that is masked cannot be made anew")
            edits.append(word)
    return tuple(edits)


def parse_records(output: bytes) -> RecordList:
    """What `records` printed. Total."""
    parts = output.split(b"\0")
    head = as_text(parts[0]).split("\n")
    if head[0].startswith("@none"):
        return RecordList(why=head[0].removeprefix("@none").strip() or None, complete=True)
    if head[0] != "@node" or len(head) < 4:
        return RecordList()
    found: list[RecordFiles] = []
    complete = False
    for part in parts[1:]:
        if part.startswith(b"@record ") and (one := _record(as_text(part))) is not None:
            found.append(one)
        elif part.startswith(b"@json\n") and found:
            found[-1] = replace(found[-1], json=part.removeprefix(b"@json\n"))
        elif part == b"@done\n":
            complete = True
    boot = head[1] if head[1] not in {"", "-"} else None
    return RecordList(boot, head[2] or None, _path(head[3]), None, tuple(reversed(found)), complete)


def parse_record_answer(exit_status: int | None, output: bytes) -> RecordAnswer:
    """What a script that writes records printed. Total."""
    word, _, rest = as_text(output).partition("\n")[0].partition(" ")
    if exit_status == 0 and word == "done":
        count = int(rest) if re.fullmatch(r"[0-9]{1,9}", rest) else None
        return RecordAnswer(True, _path(rest), count)
    if word not in {"exists", "missing", "cut", "word", "unwritable"}:
        return RecordAnswer()
    return RecordAnswer(word=word, folder=_path(rest) if word == "unwritable" else None)


def _record(text: str) -> RecordFiles | None:
    lines = text.split("\n")
    words = lines[0].split(" ")
    if len(words) != 4 or ID.match(words[1]) is None:
        return None
    written: dict[str, Written] = {}
    status: int | None = None
    for line in lines[1:]:
        key, *rest = line.split(" ")
        if key in {"keeper", "process"} and (one := written_of(rest)) is not None:
            written[key] = one
        elif key == "exit" and len(rest) == 1 and re.fullmatch(r"[0-9]{1,3}", rest[0]):
            status = int(rest[0])
    return RecordFiles(
        words[1], words[2] == "y", words[3] == "y", written.get("keeper"), written.get("process"), status
    )


def written_of(words: Sequence[str]) -> Written | None:
    """PID STARTED ALIVE."""
    if len(words) < 3 or not re.fullmatch(r"[0-9]{1,10}", words[0]) or not re.fullmatch(r"[0-9]{1,19}", words[1]):
        return None
    return Written(int(words[0]), int(words[1]), words[2] == "y")


def _path(text: str) -> str | None:
    try:
        return as_text(bytes.fromhex(text)) or None
    except ValueError:
        return None


def _raw(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError("a word of a command cannot hold a NUL byte")
    return raw


def _nul_ended(words: Sequence[str]) -> bytes:
    return b"".join(_raw(word) + b"\0" for word in words)


def _launch_parts(launch: LaunchFiles) -> list[bytes]:
    env = [f"{name}={value}" for name, value in launch.env]
    limits = "".join(f"{line}\n" for line in launch.limits)
    return [_nul_ended(launch.argv), _nul_ended(env), _raw(launch.cwd), _raw(launch.log), _raw(limits)]


def _lengths(parts: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(str(len(part)) for part in parts)
