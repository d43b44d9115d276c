"""A node's text in our sentences: secrets masked, one line, nothing that a terminal obeys. Pure."""

from __future__ import annotations

import re

from eagletui.shell.masking import mask_text, shown

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]+")


def plain(text: str) -> str:
    """Text that is safe to show."""
    return _CONTROL.sub(" ", shown(mask_text(text))).strip()


def age(seconds: float) -> str:
    """ "12 s", "5 min", "3 h", "2 d"."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
