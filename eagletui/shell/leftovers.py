r"""What dead processes left in /dev/shm, and its removal.

shared-memory             reads only; the entries of this uid whose names are those that engines and their libraries give
    entry NAME DEVICE INODE SIZE MODE CHANGED BORN USED\n  NAME: letters, digits and . _ + : @ = - only (others are not told of); MODE octal; CHANGED and BORN
        in epoch seconds (the earlier of its two times of change; BORN 0 where unknown); USED y|n: a process whose maps or descriptors this login may see has it
    done\n
remove-shared-memory PORTS TOKEN NAME:DEVICE:INODE ...
    a line for each, in order, then done\n:   removed NAME\n   gone NAME\n   other NAME\n (another inode, another uid's, no regular file)   used NAME\n (a
    process has it)   failed NAME\n   refused -\n (no such name).     9: fenced
In one iteration the token is compared, the entry and who has it are looked at anew, and it is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eagletui.shell.fragments import FENCE
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

PLACE: Final = "/dev/shm"  # noqa: S108 - where POSIX shared memory is on Linux
REMOVED_AT_ONCE: Final = 64
"""Entries a command is given at most: looking at who has each costs up to 0.1 s on a busy node."""

_NAMES = r"""
is_ours() {
case $1 in *[!0-9A-Za-z._+:@=-]*) return 1;; esac
case $1 in sgl_shm_?*|sglang_?*|nccl-?*|sem.?*|psm_?*|torch_?*) return 0;; esac
return 1
}
"""

SHARED_MEMORY: Final = Script(
    "shared-memory",
    _NAMES
    + r"""
used=$(grep -hs ' /dev/shm/' /proc/[0-9]*/maps 2>/dev/null | sed 's|.* /dev/shm/||'; ls -l /proc/[0-9]*/fd 2>/dev/null | sed -n 's|.* -> /dev/shm/||p')
used="
$used
"
for path in /dev/shm/*; do
name=${path##*/}
is_ours "$name" || continue
if [ -L "$path" ] || [ ! -f "$path" ] || [ ! -O "$path" ]; then continue; fi
facts=$(stat -c '%D %i %s %a %Y %Z %W' "$path" 2>/dev/null) || continue
set -- $facts
changed=$5; [ "$6" -lt "$changed" ] && changed=$6
born=${7:-0}; case $born in ''|*[!0-9]*) born=0;; esac
has=n
case $used in *"
$name
"*|*"
$name (deleted)
"*) has=y;; esac
printf 'entry %s %s %s %s %s %s %s %s\n' "$name" "$1" "$2" "$3" "$4" "$changed" "$born" "$has"
done
printf 'done\n'
exit 0
""",
)

REMOVE_SHARED_MEMORY: Final = Script(
    "remove-shared-memory",
    FENCE
    + _NAMES
    + r"""
for entry in "$@"; do
name=${entry%%:*}; rest=${entry#*:}; device=${rest%%:*}; inode=${rest#*:}
case $device$inode in ''|*[!0-9a-f]*) printf 'refused -\n'; continue;; esac
if ! is_ours "$name"; then printf 'refused -\n'; continue; fi
path=/dev/shm/$name
if [ ! -e "$path" ]; then printf 'gone %s\n' "$name"; continue; fi
if [ -L "$path" ] || [ ! -f "$path" ] || [ ! -O "$path" ]; then printf 'other %s\n' "$name"; continue; fi
if [ "$(stat -c '%D:%i' "$path" 2>/dev/null)" != "$device:$inode" ]; then printf 'other %s\n' "$name"; continue; fi
if grep -qsF " $path" /proc/[0-9]*/maps; then printf 'used %s\n' "$name"; continue; fi
case $(ls -l /proc/[0-9]*/fd 2>/dev/null | grep -F " -> $path") in ?*) printf 'used %s\n' "$name"; continue;; esac
fence
if [ "$(stat -c '%D:%i' "$path" 2>/dev/null)" = "$device:$inode" ] && rm -f "$path" 2>/dev/null; then printf 'removed %s\n' "$name"
else printf 'failed %s\n' "$name"; fi
done
printf 'done\n'
exit 0
""",
    reads_only=False,
)

_NAME = re.compile(r"\A(?:sgl_shm_|nccl-|sem\.|psm_|torch_)[0-9A-Za-z._+:@=-]{1,250}\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of /dev/shm. `made`: the earliest time that it tells of itself, epoch seconds by the node's clock. `used`: a process has it."""

    name: str
    device: str
    inode: int
    size: int
    mode: int
    made: int
    used: bool

    @property
    def path(self) -> str:
        """Its path."""
        return f"{PLACE}/{self.name}"


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One answer. `complete`: its end came."""

    entries: tuple[Entry, ...] = ()
    complete: bool = False


def ask_shared_memory() -> Command:
    """The command whose stdout parse_shared_memory reads."""
    return Command(SHARED_MEMORY)


def ask_remove_shared_memory(fence: tuple[str, str], entries: Iterable[Entry]) -> Command:
    """Remove exactly these (REMOVED_AT_ONCE at most), if nobody has them."""
    return Command(REMOVE_SHARED_MEMORY, (*fence, *(f"{one.name}:{one.device}:{one.inode}" for one in entries)))


def parse_shared_memory(output: bytes) -> SharedMemory:
    """What `shared-memory` printed. Total."""
    entries: list[Entry] = []
    complete = False
    for line in as_text(output).split("\n"):
        words = line.split(" ")
        if line == "done":
            complete = True
        elif len(words) == 9 and words[0] == "entry" and _NAME.match(words[1]) and _is_well(words):
            born, changed = int(words[7]), int(words[6])
            made = min(born, changed) if born else changed
            entries.append(
                Entry(words[1], words[2], int(words[3]), int(words[4]), int(words[5], 8), made, words[8] != "n")
            )
    return SharedMemory(tuple(entries), complete)


def _is_well(words: list[str]) -> bool:
    numbers = all(re.fullmatch(r"[0-9]{1,18}", words[at]) for at in (3, 4, 6, 7))
    return (
        numbers
        and re.fullmatch(r"[0-7]{1,5}", words[5]) is not None
        and re.fullmatch(r"[0-9a-f]{1,16}", words[2]) is not None
    )


def parse_removed(output: bytes) -> tuple[tuple[tuple[str, str], ...], bool]:
    """What became of each name ("removed", "gone", "other", "used", "failed"), and whether the end of the answer came. Total."""
    found = []
    complete = False
    for line in as_text(output).split("\n"):
        word, _, name = line.partition(" ")
        if line == "done":
            complete = True
        elif word in {"removed", "gone", "other", "used", "failed"} and _NAME.match(name):
            found.append((word, name))
    return tuple((name, word) for word, name in found), complete
