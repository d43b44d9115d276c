"""A number with what it counts, in the singular or the plural. Pure: every room that makes sentences has it from here."""

from __future__ import annotations


def plural(n: int, one: str, many: str | None = None) -> str:
    """`1 warning`, `2 warnings`, with a no-break space between thousands."""
    return f"{n:,} {one if n == 1 else many or one + 's'}".replace(",", "\u00a0", f"{n:,}".count(","))
