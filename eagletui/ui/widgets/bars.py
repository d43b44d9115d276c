"""Thin bars and sparklines as text. They know numbers, not what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from eagletui.ui.widgets.lines import Line, Span

_HEAVY, _TURN, _LIGHT = "━", "╾", "─"
_LEVELS = "▁▂▃▄▅▆"
"""Not up to the full block: rows of full blocks grow together into a slab."""


def bar(parts: Sequence[tuple[float, str]], width: int) -> Line:
    """A bar of `width` cells. `parts` are (fraction of the whole, role) from the left; the rest is the track. Half cells count."""
    halves = width * 2
    spans: list[Span] = []
    filled = 0.0
    used = 0
    for fraction, role in parts:
        filled += max(0.0, fraction)
        end = min(halves, round(filled * halves))
        if not used and filled * halves > 0 and not end:
            end = 1  # something is not nothing
        # Only the last part may end in a half cell: two colours cannot share one character.
        end -= 0 if role == parts[-1][1] else end % 2
        size = max(0, end - used)
        spans.append((_HEAVY * (size // 2) + (_TURN if size % 2 else ""), role))
        used += size
    spans.append((_LIGHT * (width - (used + 1) // 2), "track"))
    return tuple(span for span in spans if span[0])


def sparkline(
    values: Sequence[float | None], width: int, *, top: float, anchor: int = 0, per: int | None = None
) -> str:
    """Values (newest last) as blocks on one row, `top` being the highest one. Unknown is a blank.

    Several values share a cell (`per`, else what makes them fit) and the highest counts. `anchor` is the newest value's number in an endless
    count: cells then end at fixed numbers, and the picture moves by whole cells instead of wobbling.
    """
    if width <= 0 or not values:
        return " " * max(0, width)
    share = per or max(1, -(-len(values) // width))
    newest = anchor % share + 1
    cells: list[str] = []
    end = len(values)
    size = newest
    while end > 0 and len(cells) < width:
        known = [v for v in values[max(0, end - size) : end] if v is not None]
        cells.append(_level(max(known), top) if known else " ")
        end -= size
        size = share
    return "".join(reversed(cells)).rjust(width)


def _level(value: float, top: float) -> str:
    if top <= 0:
        return _LEVELS[0]
    return _LEVELS[max(0, min(len(_LEVELS) - 1, int(value / top * len(_LEVELS))))]
