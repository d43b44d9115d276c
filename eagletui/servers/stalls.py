"""Whether a launch that writes nothing still moves: how long its log has been quiet, against the limit of its phase, and what other
witnesses see meanwhile. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.logs.stall import Limits, clock, limit_s
from eagletui.logs.state import SHOWN_NAMES, LogState, PhaseName

BUSY_TIMES = 2.0
"""CPU time alone extends a limit so many times and no further: a rank that waits in a collective for ever spins."""
MOVING_S = 20.0
"""What moved within it moves: bytes read are asked for every few seconds."""
_WORDS: dict[str, str] = {"read": "bytes are read", "gpu-memory": "GPU memory grows"}
"""Witnesses that move, in words; each is enough for the limit to count anew."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What other witnesses saw, as ages in seconds; None: not asked, or it never moved while it was looked at.

    `read_s`: since the family last read bytes; `gpu_memory_s`: since its GPU memory last grew. `busy`: whether it uses CPU time now,
    None when that is not known.
    """

    read_s: float | None = None
    gpu_memory_s: float | None = None
    busy: bool | None = None


@dataclass(frozen=True, slots=True)
class Stillness:
    """`quiet_s`: since the phase moved by its log. `still_s`: since anything moved that counts. `stalled_s` is the limit in force,
    `warn_s` when it is told. `moving`: what moves meanwhile, in words. `waits_for`: what of the phase does not come ("shard")."""

    phase: PhaseName
    quiet_s: float
    still_s: float
    warn_s: float | None
    stalled_s: float | None
    moving: tuple[str, ...] = ()
    waits_for: str = "line"

    @property
    def stalled(self) -> bool:
        """Nothing moves longer than this phase explains."""
        return self.stalled_s is not None and self.still_s >= self.stalled_s

    @property
    def told(self) -> str:
        """What does not move, and for how long: "no shard for 5:12". Empty while it is not worth a word."""
        if self.warn_s is None or self.quiet_s < self.warn_s:
            return ""
        words = f"no {self.waits_for} for {clock(self.quiet_s)}"
        return f"{words}, but {' and '.join(self.moving)}" if self.moving and not self.stalled else words


def stillness(log: LogState, quiet_s: float, moves: Moves, usual_s: float | None = None) -> Stillness | None:
    """Of a launch that is under way; None when it is not, or serves. `quiet_s`: since its phase moved by the log. `usual_s`: how long
    the phase takes by earlier launches."""
    phase = log.phase
    if log.state != "starting" or phase is None or phase == "serving":
        return None
    limits: Limits = limit_s(phase, log.pace, usual_s)
    if limits.stalled_s is None:
        return None
    ages = {"read": moves.read_s, "gpu-memory": moves.gpu_memory_s}
    still = min([quiet_s, *(age for age in ages.values() if age is not None)])
    # A witness speaks for as long as it takes to be asked again, and no longer.
    moving = [_WORDS[name] for name, age in ages.items() if age is not None and age < min(quiet_s, MOVING_S)]
    limit = limits.stalled_s if moves.busy is False else limits.stalled_s * BUSY_TIMES
    if moves.busy and not moving and quiet_s >= limits.stalled_s:
        moving.append("its processes are busy")
    return Stillness(phase, quiet_s, still, limits.warn_s, limit, tuple(moving), _awaited(log))


def _awaited(log: LogState) -> str:
    bar = log.progress
    if bar is None or bar.done >= bar.total or not bar.unit:
        return "line"
    return bar.unit.removesuffix("s")


def where(phase: PhaseName | None) -> str:
    """The phase in a sentence."""
    return SHOWN_NAMES[phase] if phase is not None else "its work"
