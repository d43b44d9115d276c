"""From bytes to lines: the framing of a log that several processes write to at once.

The result is the same however the bytes are cut into chunks. Sources: FORMATS.md sections 1 and 4 (ANSI, NUL holes,
bars glued to records).
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

HEAD = 64 * 1024
"""Characters kept of one line. A `server_args=` line is 20 to 30 KB and must be whole; a dump of requests may be
megabytes and need not be."""

STRING_LIMIT = 4096
"""Characters that an OSC or DCS sequence may hide. One that is never ended must not swallow a log."""


class RawLine(NamedTuple):
    """One line: its head (at most HEAD characters, no escape sequence, no control character but tab), its whole
    length, its LF line number from 1."""

    text: str
    length: int
    number: int


_ODD_BYTES = bytes(c for c in range(1, 32) if c not in b"\t\n\r") + b"\x7f"
_ODD = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SHOWN = {chr(c): chr(0x2400 + c) for c in range(32)} | {"\x7f": "\u2421"}

# A raw 8-bit ST (0x9c) is no UTF-8, so it arrives as U+FFFD.
_STRING = rf"[\]PX^_][^\x07\x1b\x9c\ufffd\n\r]{{0,{STRING_LIMIT}}}"
_CSI = r"[0-?]{0,64}[ -/]{0,16}"
_ESCAPE = re.compile(
    rf"\x1b(?:\[{_CSI}[@-~]?|{_STRING}(?:\x07|\x9c|\ufffd|\x1b\\)?|[ -/]{{0,16}}[0-~]?)|\x9b{_CSI}[@-~]?"
)
_ESCAPE_BEGUN = re.compile(rf"(?:\x1b(?:\[{_CSI}|{_STRING}\x1b?|[ -/]{{0,16}})|\x9b{_CSI})\Z")
_ESCAPE_SIZE = STRING_LIMIT + 8

_END = re.compile(r"(\r\n|\r|\n)")
_STAMP = re.compile(r"\[2[0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_STAMP_SIZE = len("[2026-11-30 00:40:16")
_BAR_END = re.compile(r"(?:it/s|s/it)[^\]\[]{0,80}\]\s*\Z")
# A stamp after one of these belongs to the line: an outer prefix ("svc | [2025-…"), or a quotation.
_LEADS = frozenset(" \t|\"'`=([{,:;<")


def _begun(shape: str) -> re.Pattern[str]:
    """A pattern for any beginning of the shape ("d" is a digit) at the end of a text."""
    pattern = ""
    for char in reversed(shape):
        pattern = f"(?:{'[0-9]' if char == 'd' else re.escape(char)}{pattern})?"
    return re.compile(rf"\[{pattern}\Z")


_STAMP_BEGUN = _begun("2ddd-dd-dd dd:dd:dd")


class LineDecoder:
    """Incremental: `decode` gives the lines that a chunk completes, `flush` the unfinished last one, `partial` shows
    it without taking it.

    A line ends at LF, CR or CR LF, or where a stamp `[YYYY-MM-DD HH:MM:SS` is glued to what stands before it. An
    empty line that a lone CR ends is dropped (bars begin with CR). Escape sequences and NUL vanish; other control
    characters and bidi overrides are replaced by a visible sign.
    """

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._escape = ""
        self._held = ""
        self._parts: list[str] = []
        self._length = 0
        self._last = ""
        self._number = 1
        self._after_cr = False
        self._empty_cr = False

    @property
    def partial(self) -> str:
        """The unfinished last line so far, at most HEAD characters."""
        return (self._head() + self._held)[:HEAD]

    @property
    def number(self) -> int:
        """The LF line number of the unfinished last line."""
        return self._number

    def passed(self, lines: int) -> None:
        """So many whole lines were not given: the next one's number is higher by them. Only between two whole lines."""
        self._number += lines

    def decode(self, chunk: bytes) -> list[RawLine]:
        """The lines that this chunk completes."""
        return self._split(self._clean(chunk, final=False))

    def flush(self) -> list[RawLine]:
        """The end came: the unfinished line, if there is one. An unfinished escape sequence is dropped."""
        out = self._split(self._clean(b"", final=True))
        if self._held:
            held, self._held = self._held, ""
            self._append(held)
        if self._length:
            out.append(self._take())
        self._escape = ""
        self._after_cr = self._empty_cr = False
        return out

    def _clean(self, chunk: bytes, *, final: bool) -> str:
        if b"\0" in chunk:
            chunk = chunk.translate(None, b"\0")  # a hole in a sparse file may be gigabytes
        plain = chunk.isascii() and len(chunk.translate(None, _ODD_BYTES)) == len(chunk)
        text = self._utf8.decode(chunk, final)
        if plain and not self._escape and len(text) == len(chunk):
            return text
        if self._escape:
            text, self._escape = self._escape + text, ""
        if "\x1b" in text or "\x9b" in text:
            cut = _ESCAPE_BEGUN.search(text, max(0, len(text) - _ESCAPE_SIZE))
            if cut and not final:
                self._escape = text[cut.start() :]
                text = text[: cut.start()]
            text = _ESCAPE.sub("", text)
        if _ODD.search(text):
            text = _ODD.sub(lambda found: _SHOWN.get(found[0], "\ufffd"), text)
        return text

    def _split(self, text: str) -> list[RawLine]:
        if not text:
            return []
        if self._held:
            text, self._held = self._held + text, ""
        at = text.rfind("[", max(0, len(text) - _STAMP_SIZE + 1))
        if at >= 0 and _STAMP_BEGUN.match(text, at):
            text, self._held = text[:at], text[at:]
        out: list[RawLine] = []
        if self._after_cr or "\r" in text:
            self._split_slowly(text, out)
            return out
        pieces = text.split("\n")
        rest = pieces.pop()
        number = self._number
        if pieces and (self._length or pieces[0].find("[2", 1) > 0 or len(pieces[0]) > HEAD):
            self._add(pieces[0], out)
            out.append(self._take())
            number += 1
            del pieces[0]
        for piece in pieces:
            if len(piece) > HEAD or piece.find("[2", 1) > 0:
                self._number = number
                self._add(piece, out)
                out.append(self._take())
            else:
                out.append(RawLine(piece, len(piece), number))
            number += 1
        self._number = number
        self._add(rest, out)
        return out

    def _split_slowly(self, text: str, out: list[RawLine]) -> None:
        """The same for a text with CR in it."""
        pieces = _END.split(text)
        for i in range(0, len(pieces) - 1, 2):
            self._add(pieces[i], out)
            self._end(pieces[i + 1], out)
        self._add(pieces[-1], out)

    def _end(self, ender: str, out: list[RawLine]) -> None:
        if ender == "\n" and self._after_cr:  # the second half of a CR LF that was cut
            if self._empty_cr:
                out.append(RawLine("", 0, self._number))
        elif ender != "\r" or self._length:
            out.append(self._take())
            self._empty_cr = False
        else:
            self._empty_cr = True
        self._after_cr = ender == "\r"
        if ender != "\r":
            self._number += 1
            self._empty_cr = False

    def _add(self, piece: str, out: list[RawLine]) -> None:
        """Add to the current line; what stands before a glued stamp is a line of its own."""
        if not piece:
            return
        self._after_cr = self._empty_cr = False
        start = 0
        if piece.find("[2") >= 0:
            for found in _STAMP.finditer(piece):
                at = found.start()
                self._append(piece[start:at])
                start = at
                if self._length and self._is_glued():
                    out.append(self._take())
        self._append(piece[start:] if start else piece)

    def _is_glued(self) -> bool:
        if self._last not in _LEADS:
            return True
        return self._last.isspace() and self._length <= HEAD and _BAR_END.search(self._head()) is not None

    def _append(self, piece: str) -> None:
        if not piece:
            return
        if self._length < HEAD:
            self._parts.append(piece[: HEAD - self._length])
        self._length += len(piece)
        self._last = piece[-1]

    def _head(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def _take(self) -> RawLine:
        line = RawLine(self._head(), self._length, self._number)
        self._parts = []
        self._length = 0
        self._last = ""
        return line
