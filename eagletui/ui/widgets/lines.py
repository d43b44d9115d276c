"""Lines of spans: text with a role each. The one place where foreign text is made safe and cut to cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from unicodedata import category

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from textual.strip import Strip

from eagletui.ui.widgets.ink import Ink

Span = tuple[str, str]
Line = tuple[Span, ...]
EMPTY: Line = ()
ELLIPSIS = "…"


def clean(text: str) -> str:
    """Text that a terminal only draws: control, escape and direction-changing characters become `·`, tabs and odd spaces a space."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\n" or category(c) == "Zs" else "·" for c in text)


def width_of(line: Iterable[Span]) -> int:
    """Cells a line takes."""
    return sum(cell_len(text) for text, _ in line)


def tidy(line: Line) -> Line:
    """The line with every text cleaned, so that its width is what a terminal will take."""
    return tuple((clean(text), role) for text, role in line)


def plain(line: Iterable[Span]) -> str:
    """The text alone, for tests and the clipboard."""
    return "".join(text for text, _ in line)


def cut(text: str, width: int) -> str:
    """The first cells of a text: at most `width`, with an ellipsis when something was left off."""
    if width <= 0:
        return ""
    if cell_len(text) <= width:
        return text
    return _head(text, width - 1) + ELLIPSIS


def _head(text: str, width: int) -> str:
    if text.isascii():
        return text[: max(0, width)]
    used = 0
    out = 0
    for start, end, cells in _graphemes(text):
        if used + cells > width:
            break
        used += cells
        out = end
        del start
    return text[:out]


def _graphemes(text: str) -> Iterable[tuple[int, int, int]]:
    spans, _ = split_graphemes(text)
    return spans


def fit(line: Line, width: int, *, pad: str = "text") -> Line:
    """The line at exactly `width` cells: cleaned, cut with an ellipsis, or padded."""
    out: list[Span] = []
    room = width
    for raw, role in line:
        text = clean(raw)
        cells = cell_len(text)
        if cells > room:
            # A cut that falls between two spans still says that something is missing.
            out.append((cut(text, room), role) if room else ("", role))
            if not room and out:
                _mark_cut(out)
            room -= cell_len(out[-1][0])
            break
        out.append((text, role))
        room -= cells
    if room > 0:
        out.append((" " * room, pad))
    return tuple(span for span in out if span[0])


def _mark_cut(out: list[Span]) -> None:
    for at in range(len(out) - 1, -1, -1):
        text, role = out[at]
        if text:
            out[at] = (cut(text + " ", cell_len(text)), role)
            return


_ON_MARK = {"dim": "text", "faint": "text"}
"""Greys are not readable on every ground: in a terminal's own colours the mark's may be that very grey."""


def marked(line: Line, width: int) -> Line:
    """The line at exactly `width` cells, on the ground of what is chosen."""
    return tuple((text, f"{_ON_MARK.get(role, role)} on-selection") for text, role in fit(line, width))


def skip(line: Line, cells: int) -> Line:
    """The line without its first cells, for horizontal scrolling. A wide character cut in half leaves a blank."""
    out: list[Span] = []
    for raw, role in line:
        text = clean(raw)
        have = cell_len(text)
        if cells >= have:
            cells -= have
            continue
        if cells:
            head = _head(text, cells)
            rest = text[len(head) :]
            lost = cells - cell_len(head)
            if lost > 0 and rest:
                rest = " " * (cell_len(rest[0]) - lost) + rest[1:]
            text, cells = rest, 0
        out.append((text, role))
    return tuple(out)


def spread(left: Line, right: Line, width: int, *, pad: str = "text") -> Line:
    """Left and right with the gap between; the left is cut when both do not fit."""
    left, right = tidy(left), tidy(right)
    need = width_of(right)
    if need >= width:
        return fit(right, width, pad=pad)
    gap = 1 if left and right else 0
    return fit(left, width - need - gap, pad=pad) + (((" ", pad),) if gap else ()) + right


def wrap(text: str, width: int, limit: int) -> list[str]:
    """Words on at most `limit` rows of `width` cells; long words are split, a cut end has an ellipsis."""
    rows: list[str] = []
    row = ""
    words = clean(text).split(" ")
    while words:
        word = words.pop(0)
        joined = f"{row} {word}" if row else word
        if cell_len(joined) <= width:
            row = joined
            continue
        if row:
            rows.append(row)
            row = ""
            words.insert(0, word)
        else:
            head = _head(word, width) or word[:1]
            rows.append(head)
            if word[len(head) :]:
                words.insert(0, word[len(head) :])
        if len(rows) > limit:
            break
    if row:
        rows.append(row)
    if len(rows) > limit:
        rows = [*rows[: limit - 1], _cut_on(rows[limit - 1], width)] if limit > 0 else []
    return rows


def _cut_on(row: str, width: int) -> str:
    """The last row of a text that goes on: with an ellipsis, in place of its end where there is no room."""
    return f"{row} {ELLIPSIS}" if cell_len(row) + 2 <= width else cut(row + "  ", width)


def changed(old: Line, new: Line) -> tuple[int, int] | None:
    """First and past-the-last cell in which two lines of equal width differ; None when they are equal."""
    if old == new:
        return None
    first = 0
    at = 0
    shortest = min(len(old), len(new))
    while at < shortest and old[at] == new[at]:
        first += cell_len(new[at][0])
        at += 1
    end = width_of(new)
    back = 1
    while back <= shortest - at and old[-back] == new[-back]:
        end -= cell_len(new[-back][0])
        back += 1
    return first, max(end, first + 1)


def strip_of(line: Sequence[Span], ink: Ink, width: int) -> Strip:
    """The line in the theme's colours."""
    return Strip([Segment(text, ink.style(role)) for text, role in line], width)
