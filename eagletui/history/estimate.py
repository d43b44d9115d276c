"""When a launch will be ready, from how long earlier ones took. Pure: seconds in, seconds out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eagletui.logs.state import PhaseName


@dataclass(frozen=True, slots=True)
class Estimate:
    """What earlier launches of the same kind say of this one. There is none without earlier launches.

    `starts`: how many earlier launches it is made of. `total_s`: the median of their times to ready. `ready_in_s`: seconds
    from now; None when nothing can be promised (a phase takes longer than it ever did). `usual`: the median seconds of
    each phase. `late`: the phase that takes longer than usual, None while it does not. `cold`: made of launches whose
    weights came from disk (True), from memory (False), or of all alike (None).
    """

    starts: int
    total_s: float
    ready_in_s: float | None
    usual: Mapping[PhaseName, float]
    late: PhaseName | None = None
    cold: bool | None = None
