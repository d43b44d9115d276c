"""The bytes of a log for `explain`: a file or stdin, compressed or not, in blocks; from its end where it stands newest first."""

from __future__ import annotations

import gzip
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Protocol, cast

from eagletui.errors import UsageError
from eagletui.logs.explain import HEAD, is_newest_first

BLOCK = 256 * 1024
IN_MEMORY = 16 << 20
"""Of a log that cannot be read backwards where it lies; more goes into a temporary file."""
MAX_LINE = 4 << 20
"""A line longer than this is cut when a log is read backwards."""
PACKED = 32 * 1024
"""Bytes unpacked at a time: zstd may make hundreds of times as many of them."""
ZSTD_WINDOW = 1 << 31
"""Bytes; what `zstd --long=31` needs."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Log:
    """An opened log: its blocks in the order of time."""

    def __init__(self, file: BinaryIO, head: bytes, *, seekable: bool) -> None:
        self._file = file
        self._head = head
        self._seekable = seekable
        self.newest_first = is_newest_first(head)

    def blocks(self) -> Iterator[bytes]:
        """Its bytes, oldest first."""
        if not self.newest_first:
            yield self._head
            while block := self._file.read(BLOCK):
                yield block
            return
        if self._seekable:
            yield from _backwards(self._file)
            return
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as whole:
            whole.write(self._head)
            while block := self._file.read(BLOCK):
                whole.write(block)
            yield from _backwards(cast("BinaryIO", whole))


def _backwards(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines of a file from its last to its first, each ending in LF."""
    file.seek(0, 2)
    at = file.tell()
    rest = b""
    first = True
    while at > 0:
        size = min(BLOCK, at)
        at -= size
        file.seek(at)
        lines = (file.read(size) + rest).split(b"\n")
        rest = lines.pop(0)
        if first and lines and not lines[-1]:
            lines.pop()  # the LF at the end of the file ends a line, and begins none
        first = False
        if lines:
            yield b"\n".join(reversed(lines)) + b"\n"
        if len(rest) > MAX_LINE:
            rest = rest[:MAX_LINE]
    if rest or not first:
        yield rest + b"\n"


@contextmanager
def open_log(name: str) -> Iterator[Log]:
    """The log of a name, "-" for stdin. Raises UsageError for what cannot be read: which, why, and what to do."""
    if name == "-":
        yield from _opened(sys.stdin.buffer, "stdin", seekable=False)
        return
    path = Path(name)
    if path.is_dir():
        raise UsageError(f"{name} is a folder: name the log file in it")
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise UsageError(
            f"{name}: there is no such file here. A log on a node is explained by `eagletui connect NODE`"
        ) from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
    with file:
        yield from _opened(file, name, seekable=file.seekable())


def _opened(file: IO[bytes], name: str, *, seekable: bool) -> Iterator[Log]:
    try:
        begin = _read_some(file, 4)
        plain = _plain(begin, cast("BinaryIO", _Again(begin, file)))
        seekable = seekable and not begin.startswith((_GZIP, _ZSTD))
        head = _read_some(plain, HEAD)
        if seekable:
            file.seek(len(head))
        yield Log(cast("BinaryIO", file) if seekable else plain, head, seekable=seekable)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except Exception as error:  # zstandard's own error, which is imported only where it is used
        if type(error).__name__ != "ZstdError":
            raise
        raise UsageError(f"{name} cannot be decompressed: {error}") from None


def _plain(begin: bytes, file: BinaryIO) -> BinaryIO:
    """The file's bytes without their compression, which its first ones tell."""
    if begin.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=file))
    if begin.startswith(_ZSTD):
        import zstandard

        unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        return cast("BinaryIO", _Zstd(file, lambda: cast("_Frame", unpacker.decompressobj())))
    return file


class _Frame(Protocol):
    """What unpacks one frame."""

    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, /) -> bytes: ...


class _Zstd:
    """The bytes of one frame or several. Raises EOFError where the last one is cut: zstandard's own reader takes a cut file for
    its end.
    """

    def __init__(self, file: BinaryIO, begin: Callable[[], _Frame]) -> None:
        self._file = file
        self._begin = begin
        self._frame: _Frame | None = None
        self._packed = b""
        self._plain = b""

    def read(self, size: int = -1) -> bytes:
        """So many bytes or fewer, none at the end."""
        while not self._plain and self._more():
            pass
        part, self._plain = (self._plain, b"") if size < 0 else (self._plain[:size], self._plain[size:])
        return part

    def _more(self) -> bool:
        """Unpack what was read, or read on; whether there was anything."""
        if not self._packed:
            self._packed = self._file.read(PACKED)
        if not self._packed:
            if self._frame is not None:
                raise EOFError("Compressed file ended before its end was reached")
            return False
        frame = self._frame = self._frame or self._begin()
        self._plain = frame.decompress(self._packed)
        self._packed = frame.unused_data if frame.eof else b""
        if frame.eof:
            self._frame = None
        return True


def _read_some(file: IO[bytes], size: int) -> bytes:
    """So many bytes, or all that there are."""
    parts: list[bytes] = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Again:
    """A stream whose first bytes were already read."""

    def __init__(self, begin: bytes, file: IO[bytes]) -> None:
        self._begin = begin
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """As a file's."""
        if not self._begin:
            more: bytes = self._file.read(size)
            return more
        if size < 0:
            size = len(self._begin)
        part, self._begin = self._begin[:size], self._begin[size:]
        return part

    def readable(self) -> bool:
        """As a file's."""
        return True


def from_terminal(name: str) -> bool:
    """Whether a person would have to type the log."""
    return name == "-" and sys.stdin.isatty()
