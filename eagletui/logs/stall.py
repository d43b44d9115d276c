"""How long nothing may move before it is called a stall: a limit a phase, adapted to the pace seen and to earlier launches.

LOGS.md, Diagnosis (stall limits). Pure; whoever knows of other witnesses (bytes read, CPU time) extends the quiet while.
"""

from __future__ import annotations

from typing import NamedTuple

from eagletui.logs.state import Pace, PhaseName

NO_TOKEN_S = 60.0
"""Requests are there and no token came for so long."""
SEVERAL = 4.0
"""A bar may take this many times its longest interval for its next step: reads come in bursts."""
FEW_MOVES = 3
"""With fewer steps of a bar seen its pace says little: a step may take twice as many times as long."""
_AFTER_USUAL_S: dict[PhaseName, float] = {"graphs": 120.0, "kv-cache": 120.0}


class Limits(NamedTuple):
    """Seconds without a move after which it is told, and called a stall. None: never."""

    warn_s: float | None
    stalled_s: float | None


_LIMITS: dict[PhaseName, Limits] = {
    "launch": Limits(180.0, 600.0),  # imports from a cold network file system take minutes
    "distributed": Limits(120.0, 300.0),
    "weights": Limits(150.0, 300.0),
    "draft-weights": Limits(150.0, 300.0),
    "kv-cache": Limits(60.0, 120.0),
    "compile": Limits(900.0, 1800.0),
    "graphs": Limits(120.0, 300.0),
    "warmup": Limits(300.0, 600.0),
    "serving": Limits(None, None),
}


def limit_s(phase: PhaseName, pace: Pace | None = None, usual_s: float | None = None) -> Limits:
    """The limits of a phase. `usual_s`: how long the whole phase takes by earlier launches, where that is known.

    Serving has none of its own: there it is requests without tokens (NO_TOKEN_S) that tell.
    """
    warn, stalled = _LIMITS[phase]
    if warn is None or stalled is None:
        return Limits(warn, stalled)
    if usual_s is not None:
        # A silent phase of usual length is no stall; a short one is missed no later than without knowing it.
        extra = _AFTER_USUAL_S.get(phase, stalled)
        stalled = usual_s + extra if phase == "graphs" else max(stalled, usual_s + extra)
        warn = min(max(warn, usual_s), stalled)
    if pace is not None:
        times = SEVERAL * 2 if pace.moves < FEW_MOVES else SEVERAL
        stalled = max(stalled, times * max(pace.longest_s, pace.interval_s))
        warn = min(max(warn, 2 * pace.longest_s), stalled)
    return Limits(warn, stalled)


def clock(seconds: float) -> str:
    """Minutes and seconds as in "5:12", with hours from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
