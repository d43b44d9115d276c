"""Noticing that this machine slept or that this process was stopped, and how old things are then. Time is an argument.

Timers and `time.monotonic()` stand still while a laptop sleeps (on Linux and macOS alike), so a sleep is seen only by another clock:
CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC of macOS, which both go on. A stopped process (SIGSTOP, a debugger, a machine that swaps) sees
its own tick come late instead. A virtual machine that was paused may have all its clocks stand still; its wall clock jumps when it is set.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Literal

GAP_S = 5.0
"""Less than it is a busy machine."""
_GOES_ON = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
KEPT = 64
"""Sleeps that are remembered: more of them than a series has points for are not asked about."""

Kind = Literal["slept", "stopped", "set"]
_WORDS: dict[Kind, str] = {
    "slept": "this machine slept {}",
    "stopped": "eagletui was stopped for {}",
    "set": "the clock of this machine was set forward by {}",
}


@dataclass(frozen=True, slots=True)
class Clocks:
    """One look at three clocks, in seconds: `wall` is the time of day, `steady` stands still in a sleep, `going` does not."""

    wall: float
    steady: float
    going: float


@dataclass(frozen=True, slots=True)
class Missed:
    """Time that passed without us. `slept`: the steady clock missed it too; `stopped`: only we did; `set`: only the time of day has it."""

    kind: Kind
    seconds: float

    def sentence(self) -> str:
        """What to tell the user."""
        whole = round(self.seconds)
        hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
        return _WORDS[self.kind].format(f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}")


def read_clocks() -> Clocks:
    """Now."""
    steady = time.monotonic()
    return Clocks(time.time(), steady, steady if _GOES_ON is None else time.clock_gettime(_GOES_ON))


def missed(before: Clocks, now: Clocks, expected_s: float) -> Missed | None:
    """What was missed between two looks that should be `expected_s` apart; None when it is less than GAP_S."""
    asleep = (now.going - before.going) - (now.steady - before.steady)
    late = now.steady - before.steady - expected_s
    if asleep > GAP_S:
        return Missed("slept", asleep)
    if late > GAP_S:
        return Missed("stopped", late)
    jumped = (now.wall - before.wall) - (now.going - before.going)
    return Missed("set", jumped) if jumped > GAP_S else None


class Sleeps:
    """The sleeps so far, which the monotonic clock does not know of."""

    def __init__(self) -> None:
        self._slept: deque[tuple[float, float]] = deque(maxlen=KEPT)

    def add(self, woke_at: float, seconds: float) -> None:
        """It woke at that monotonic time."""
        self._slept.append((woke_at, seconds))

    def aged(self, at: float) -> float:
        """A monotonic time as it would be if the clock had gone on: `now - aged(at)` is a true age."""
        return at - sum(seconds for woke_at, seconds in self._slept if at < woke_at)

    def __bool__(self) -> bool:
        return bool(self._slept)
