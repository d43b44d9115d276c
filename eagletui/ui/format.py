"""Numbers as words. Unknown is `–`, here and nowhere else."""

from __future__ import annotations

import time

from eagletui.shell.plural import plural as _plural

plural = _plural
"""As in every room."""

UNKNOWN = "–"
MIB_PER_GIB = 1024
PRECISE_AGE_S = 10.0
"""Below it an age has a decimal: at the scale of a glance the tenth tells that it moves."""
LATENCY_DECIMAL_MS = 10.0


def duration(seconds: float | None) -> str:
    """`1:52`, `2:14:08`, `3d 04:10` (days take over where seconds stop to matter)."""
    if seconds is None or seconds < 0 or seconds != seconds:  # noqa: PLR0124 - not a number
        return UNKNOWN
    whole = int(seconds)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d {hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def seconds(value: float | None) -> str:
    """A short duration of a measurement: `0.4 s`, `12 s`."""
    if value is None:
        return UNKNOWN
    return f"{value:.1f} s" if value < PRECISE_AGE_S else f"{value:.0f} s"


def age(at: float | None, now: float) -> str:
    """`now` within a second, `4.2 s ago`, `12 s ago`, `2:10 ago`; `–` when it never was. Both monotonic."""
    if at is None:
        return UNKNOWN
    passed = max(0.0, now - at)
    if passed < 1.0:
        return "now"  # tenths of a second that change with each paint tell nothing
    return f"{seconds(passed)} ago" if passed < 60 else f"{duration(passed)} ago"


def clock(wall: float | None) -> str:
    """`12:03:44` of a wall-clock time, in the terminal's zone."""
    return UNKNOWN if wall is None else time.strftime("%H:%M:%S", time.localtime(wall))


def latency(ms: float | None) -> str:
    """`0.8 ms`, `11 ms`, `1.1 s`."""
    if ms is None:
        return UNKNOWN
    if ms >= 1000:
        return f"{ms / 1000:.1f} s"
    return f"{ms:.0f} ms" if ms >= LATENCY_DECIMAL_MS else f"{ms:.1f} ms"


def gib(mib: float | None) -> str:
    """`132.1` from MiB."""
    return UNKNOWN if mib is None else f"{mib / MIB_PER_GIB:.1f}"


def whole_gib(mib: float | None) -> str:
    """`140` from MiB."""
    return UNKNOWN if mib is None else f"{mib / MIB_PER_GIB:.0f}"


def number(value: float | None, decimals: int = 0) -> str:
    """A number with this many decimals."""
    return UNKNOWN if value is None else f"{value:.{decimals}f}"


def count(value: int | None) -> str:
    """`18 204`, with a no-break space between thousands."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", "\u00a0")


def watts(value: float | None) -> str:
    """`640 W`, `5.2 kW`."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f} W" if value < 1000 else f"{value / 1000:.1f} kW"
