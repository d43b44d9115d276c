r"""What processes wait for that do not end, as the script `waits` tells it.

waits PID ...
    wait PID STATE WCHAN STACK\n for each that is there: STATE its letter; WCHAN the kernel's function it waits in, STACK the innermost functions of its kernel
    stack (root alone may read it), both hex, "-" where unknown.  done\n
Reads only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from eagletui.shell.fragments import READ_PROCESS
from eagletui.shell.processes import as_text
from eagletui.shell.script import Command, Script

WAITS: Final = Script(
    "waits",
    READ_PROCESS
    + r"""
hex() { od -An -v -tx1 2>/dev/null | tr -d ' \n'; }
for pid in "$@"; do
case $pid in ''|*[!0-9]*|0*|???????????*) continue;; esac
stat_of "$pid" || continue
wchan=$(head -c 64 "/proc/$pid/wchan" 2>/dev/null | hex)
stack=$(head -c 512 "/proc/$pid/stack" 2>/dev/null | head -n 6 | hex)
printf 'wait %s %s %s %s\n' "$pid" "$stat_state" "${wchan:--}" "${stack:--}"
done
printf 'done\n'
exit 0
""",
)
_FRAME = re.compile(r"\[<[0-9a-f]+>\] ([A-Za-z_][A-Za-z0-9_.]*)")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A process that is still there. `state` as in /proc/PID/stat; `where` the kernel's functions, innermost first; () where unknown."""

    pid: int
    state: str
    where: tuple[str, ...] = ()


def ask_waits(pids: Iterable[int]) -> Command:
    """The command whose stdout parse_waits reads."""
    return Command(WAITS, tuple(str(pid) for pid in pids))


def _text(word: str) -> str:
    try:
        return as_text(bytes.fromhex(word))
    except ValueError:
        return ""


def parse_waits(output: bytes) -> tuple[Waiting, ...]:
    """What the script `waits` printed. Total."""
    found = []
    for line in as_text(output).split("\n"):
        words = line.split(" ")
        if len(words) != 5 or words[0] != "wait" or not re.fullmatch(r"[0-9]{1,10}", words[1]):
            continue
        stack = tuple(_FRAME.findall(_text(words[4])))
        wchan = _text(words[3]).strip()
        named = (wchan,) if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", wchan) else ()
        found.append(Waiting(int(words[1]), words[2][:1], stack or named))
    return tuple(found)
