"""Tables on a terminal, and what people write for a time."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import time
from collections.abc import Collection, Sequence
from datetime import datetime

from eagletui.errors import UsageError

GAP = 2
"""Blanks between columns."""
LEAST = 8
"""Cells that a column keeps however narrow the terminal is."""
_AGO = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(s|min|m|h|d|w)(?: ago)?")
_UNIT_S = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def table(
    rows: Sequence[Sequence[str]], right: Collection[int] = (), *, gives: Sequence[int] = (), drops: Sequence[int] = ()
) -> str:  # fmt: skip
    """Rows of as many texts each, the first one a head. `right`: columns of numbers. Where a terminal is too narrow for all, columns of `gives` are cut,
    in this order, and then those of `drops` left out, one after the other, until the rest fits. In a pipe all is whole."""
    shown = list(range(len(rows[0])))
    for dropped in (None, *drops):
        shown = [at for at in shown if at != dropped]
        widths = {at: max(len(row[at]) for row in rows) for at in shown}
        over = sum(widths.values()) + GAP * (len(shown) - 1) - room()
        for at in gives:
            if at in widths:
                less = max(0, min(over, widths[at] - LEAST))
                widths[at] -= less
                over -= less
        if over <= 0:
            break
    return "\n".join(
        (" " * GAP).join(_cell(row[at], widths[at], right=at in right) for at in shown).rstrip() for row in rows
    )


def wrapped(text: str) -> str:
    """A sentence in as many lines as the terminal needs, broken between words."""
    return textwrap.fill(text, room(), subsequent_indent="  ", break_on_hyphens=False) if sys.stdout.isatty() else text


def room() -> int:
    """Cells of a line; without a terminal as many as it needs."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1_000_000


def _cell(text: str, width: int, *, right: bool) -> str:
    if len(text) > width:
        text = text[: width - 1] + "…"
    return text.rjust(width) if right else text.ljust(width)


def when(wall: float) -> str:
    """`12-01 15:04` of this year, `2025-12-01` of another, in the terminal's zone."""
    at = time.localtime(wall)
    return time.strftime("%m-%d %H:%M" if at.tm_year == time.localtime().tm_year else "%Y-%m-%d", at)


def since(text: str) -> float:
    """Seconds since the epoch of what a person writes: `90min`, `2h`, `3d`, `1w` ago, or a day or moment in ISO 8601 (of the terminal's zone where it
    names none). Raises UsageError."""
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        return max(0.0, time.time() - float(ago[1]) * _UNIT_S[ago[2]])
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text!r} is no time; write 90min, 2h, 3d, 2026-11-30 or 2026-11-30T14:00") from None
