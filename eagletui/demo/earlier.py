"""The starts that the simulated node had before it is looked at: when they were, and how their paces differed. Pure.

They went as its present start goes, by the same recording; each stage a little quicker or slower.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from eagletui.demo import shape
from eagletui.demo.world import UPTIME_S, World

AGO_H: Final = (3.2, 7.6, 25.9, 29.3, 50.1, 74.8)
"""When they were, in hours before the world opens."""
QUICKEST: Final = 0.94
SLOWEST: Final = 1.08


class EarlierStart(NamedTuple):
    """One of them: its launcher's pid and start in clock ticks since the boot, and how many seconds ago it was.

    `lead_s`: from the launcher's start to its first line of its own. `read`, `size`: bytes of its weights that came from
    the disk, and all of them.
    """

    number: int
    ago_s: float
    pid: int
    ticks: int
    lead_s: float
    read: int
    size: int

    def pace(self, stage: str) -> float:
        """How long a stage took, as a share of what the recording took."""
        return Random(f"{self.number} {stage}").uniform(QUICKEST, SLOWEST)  # noqa: S311 - it only spreads times


def earlier_starts(speed: float = 1.0) -> list[EarlierStart]:
    """Newest first."""
    size = int(shape.RANKS * shape.WEIGHTS_GIB * 2**30)
    return [
        EarlierStart(
            number,
            hours * 3600.0,
            40_007 - 1_913 * number,
            int((UPTIME_S - hours * 3600.0) * 100),
            shape.SERVER_ARGS / speed,
            int(size * shape.FROM_DISK),
            size,
        )
        for number, hours in enumerate(AGO_H)
    ]


def log_of_a_start(opened: float, speed: float = 1.0) -> bytes:
    """The log of a whole start that ended when the world opens, in unix seconds."""
    whole = shape.READY + 0.5
    world = World(opened=opened, speed=speed, into_start=whole)
    world.advance(opened)
    return world.engine.log.read(0, world.engine.log.size)
