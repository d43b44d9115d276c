"""Named constant scripts and how one travels to a node.

The remote command line is always `exec sh -c 'eval "$(dd bs=1 count=N 2>/dev/null)"' NAME`: the first N bytes of stdin are a constant prologue and
the constant script; then come the arguments, and then the data. (`dd`, since busybox's `head -c N` takes more than N bytes off a pipe.) Quoting is
the same in bash, dash, fish and tcsh because nothing is quoted but a constant.

Arguments follow as one line with their number, then one line each, in the escapes of `printf %b` (`\0ooo`), so that any byte but NUL passes. The
prologue turns them into positional arguments (a plain one without a process of its own), exports LC_ALL=C and prints MARK: what a noisy rc file
printed before it is dropped by the reader.
"""

from __future__ import annotations

from dataclasses import dataclass

MARK = b"@eagletui begins@\n"
"""Printed by the prologue on stdout and stderr before the script runs; everything up to it is somebody else's noise."""

PROLOGUE = r"""LC_ALL=C; export LC_ALL; unset CDPATH ENV BASH_ENV
IFS= read -r eagletui_n || exit 125
set --
while [ "$eagletui_n" -gt 0 ]; do
IFS= read -r eagletui_a || exit 125
case $eagletui_a in *\\*) eagletui_a=$(printf '%b.' "$eagletui_a"); eagletui_a=${eagletui_a%.};; esac
set -- "$@" "$eagletui_a"
eagletui_n=$((eagletui_n - 1))
done
printf '%s\n' '@eagletui begins@'; printf '%s\n' '@eagletui begins@' >&2
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A named constant POSIX sh script. `reads_only`: it changes nothing on the node (a dry run may run it)."""

    name: str
    text: str
    reads_only: bool = True

    def __post_init__(self) -> None:
        if not self.name or not all(c.isascii() and (c.isalnum() or c == "-") for c in self.name):
            raise ValueError(f"script name {self.name!r} must be letters, digits and hyphens")


@dataclass(frozen=True, slots=True)
class Command:
    """One run of a script: its positional arguments ($1 …) and the bytes that follow on its stdin."""

    script: Script
    args: tuple[str | bytes, ...] = ()
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Wire:
    """What is sent: the remote command line (ASCII, one line) and the first bytes of its stdin."""

    line: str
    stdin: bytes


_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@+-")


def encode_argument(value: str | bytes) -> bytes:
    """An argument in the escapes of `printf %b`, on one line.

    Raises ValueError for NUL, which no argument on Unix can hold.
    """
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ValueError("an argument cannot hold a NUL byte")
    return b"".join(bytes((c,)) if c in _PLAIN else b"\\0%03o" % c for c in raw)


def wire(command: Command) -> Wire:
    """The remote command line and stdin for a command."""
    program = (PROLOGUE + command.script.text).encode()
    arguments = b"".join(encode_argument(a) + b"\n" for a in command.args)
    line = f"exec sh -c 'eval \"$(dd bs=1 count={len(program)} 2>/dev/null)\"' {command.script.name}"
    return Wire(line, program + b"%d\n" % len(command.args) + arguments + command.data)


class MarkStripper:
    """Drops what comes before MARK. `decode` gives the bytes after it; `seen` tells whether it came; `noise` keeps the first 4 KiB before it."""

    def __init__(self) -> None:
        self.seen = False
        self.noise = b""
        self._tail = b""

    def decode(self, chunk: bytes) -> bytes:
        """The part of the output so far that is ours and was not given before."""
        if self.seen:
            return chunk
        self._tail += chunk
        at = self._tail.find(MARK)
        if at < 0:
            keep = len(MARK) - 1
            if len(self._tail) > keep:
                self.noise = (self.noise + self._tail[:-keep])[:4096]
                self._tail = self._tail[-keep:]
            return b""
        self.noise = (self.noise + self._tail[:at])[:4096]
        rest, self._tail, self.seen = self._tail[at + len(MARK) :], b"", True
        return rest

    def flush(self) -> bytes:
        """The end came: what was held back is noise, not ours."""
        self.noise, self._tail = (self.noise + self._tail)[:4096], b""
        return b""
