"""The times that the recorded log tells of itself, at another pace. Pure: a text in, a text out."""

from __future__ import annotations

import re
from typing import Final

_ELAPSED: Final = re.compile(rb"(?<=elapsed=)([0-9]+\.[0-9]+)(?= s)")
_BAR: Final = re.compile(rb"\[(\d\d):(\d\d)<(\d\d):(\d\d), +([0-9]+\.[0-9]+)(it/s|s/it)\]")


def paced(text: bytes, speed: float) -> bytes:
    """The text as an engine prints it whose time passes `speed` times as fast: its durations, and its bars' times and rates."""

    def elapsed(found: re.Match[bytes]) -> bytes:
        return b"%.2f" % (float(found[1]) / speed)

    def bar(found: re.Match[bytes]) -> bytes:
        rate = float(found[5]) if found[6] == b"it/s" else 1 / max(0.005, float(found[5]))
        rate *= speed
        told = b"%5.2fit/s" % rate if rate >= 1 else b"%5.2fs/it" % (1 / rate)
        spent, left = (_clock(int(found[n]) * 60 + int(found[n + 1]), speed) for n in (1, 3))
        return b"[%s<%s, %s]" % (spent, left, told)

    return _BAR.sub(bar, _ELAPSED.sub(elapsed, text))


def _clock(seconds: int, speed: float) -> bytes:
    """As tqdm writes it."""
    whole = int(seconds / speed)
    return b"%02d:%02d" % (whole // 60, whole % 60)
