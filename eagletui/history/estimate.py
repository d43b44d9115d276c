"""When a launch will be ready, from how long earlier ones took. Pure: seconds in, seconds out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from eagletui.history.launches import EarlierLaunch
from eagletui.history.pace import Pace
from eagletui.logs.state import SHOWN_NAMES, LogState, PhaseName

NEWEST = 20
"""Earlier launches that count."""
SLACK_S = 2.0
SLACK = 0.25
"""A phase is late only beyond this much, and this share, over its median: nothing takes equally long twice."""
FAR = 1.5
"""Beyond so many times what makes it late, earlier launches say nothing about its end."""
WIDENS = 0.5
"""Each second beyond anything seen makes the rest half a second longer: what is late is likely to stay so for a while."""
GAPS_AT_MOST = 1.25
"""Phases do not add up to the whole: time between them is spread over them, up to this factor."""
_ONE_BAR = ("weights", "draft-weights")
"""Phases whose bar counts all of it."""
_USUAL_ORDER = list(SHOWN_NAMES)


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


@dataclass(frozen=True, slots=True)
class Now:
    """The launch that is being estimated, at `at` (monotonic). `pace`: of its present bar. `cold`: what its bytes say so far.
    `age_s`: seconds since its launcher began; `spent`: seconds in earlier visits of the phase it is in again."""

    log: LogState
    at: float
    pace: Pace = field(default_factory=Pace)
    cold: bool | None = None
    age_s: float | None = None
    spent: Mapping[PhaseName, float] = field(default_factory=dict)


def estimate(earlier: Sequence[EarlierLaunch], now: Now) -> Estimate | None:
    """What launches that became ready (newest first) say of one that has not. None without any."""
    alike = [launch for launch in earlier if now.cold is not None and launch.cold is now.cold]
    cold = now.cold if alike else None
    launches = (alike or list(earlier))[:NEWEST]
    if not launches:
        return None
    samples = _samples(launches)
    usual = usual_of(launches)
    total = median(launch.ready_s for launch in launches)
    present, elapsed = _present(now)
    if present is None:  # it has printed nothing yet, or there is no log: the whole is one phase
        whole = [launch.ready_s + (launch.lead_s or 0.0) for launch in launches]
        left, late = _left(whole, now.age_s or 0.0, None)
        return Estimate(len(launches), total, left, usual, "launch" if late else None, cold)
    bar = now.pace.left_s(now.at)
    left, late = _left(samples.get(present, []), elapsed, bar if present in _ONE_BAR else None)
    if left is not None and bar is not None and present not in _ONE_BAR:
        left = max(left, bar[0])  # of several bars (graphs have five) one tells how long it takes at least
    to_come = sum(usual[name] for name in _to_come(launches, now.log, present)) * _gaps(launches, usual)
    ready_in = None if left is None else left + to_come
    return Estimate(len(launches), total, ready_in, usual, present if late else None, cold)


def usual_of(launches: Sequence[EarlierLaunch]) -> dict[PhaseName, float]:
    """The median seconds of each phase."""
    return {name: median(seconds) for name, seconds in _samples(launches).items()}


def _samples(launches: Sequence[EarlierLaunch]) -> dict[PhaseName, list[float]]:
    found: dict[PhaseName, list[float]] = {}
    for launch in launches:
        for name, seconds in launch.phases.items():
            if name != "serving":
                found.setdefault(name, []).append(seconds)
    return found


def _present(now: Now) -> tuple[PhaseName | None, float]:
    """The phase it is in, and for how long."""
    running = next((phase for phase in now.log.phases if phase.status == "running"), None)
    if running is None:
        return now.log.phase if now.log.phases else None, 0.0
    elapsed = 0.0 if running.began_at is None else max(0.0, now.at - running.began_at)
    return running.name, elapsed + now.spent.get(running.name, 0.0)


def _left(earlier: Sequence[float], elapsed: float, bar: tuple[float, float] | None) -> tuple[float | None, bool]:
    """Seconds left of a phase that took so long earlier (None: nothing can be promised), and whether it is late.

    `bar`: what its bar needs at its pace and the share that is done, where that is to be trusted.
    """
    if not earlier:
        return (0.0 if bar is None else bar[0]), False
    usual = median(earlier)
    limit = max(*earlier, usual + max(SLACK_S, SLACK * usual))
    late = elapsed > limit
    if elapsed <= usual:
        by_time = usual - elapsed
        # The further the bar, the more it tells of this launch, and the less the earlier ones do.
        return (by_time if bar is None else bar[1] * bar[0] + (1 - bar[1]) * by_time), late
    if bar is not None:
        return bar[0], late
    longer = [seconds for seconds in earlier if seconds > elapsed]
    if longer:
        return median(longer) - elapsed, late
    return (None if elapsed > FAR * limit else WIDENS * (elapsed - usual)), late


def _to_come(launches: Sequence[EarlierLaunch], log: LogState, present: PhaseName) -> list[PhaseName]:
    """Phases that most earlier launches had, and had after where this one is. What it passed by without is not to come."""
    counts = Counter(name for launch in launches for name in launch.phases if name != "serving")
    known = [name for name, count in counts.items() if 2 * count >= len(launches)]
    seen = [phase.name for phase in log.phases if phase.name in counts]
    reached = present if present in counts else (seen[-1] if seen else None)
    return [
        name
        for name in known
        if name != present and name not in seen and (reached is None or _is_after(launches, name, reached))
    ]


def _is_after(launches: Sequence[EarlierLaunch], name: PhaseName, other: PhaseName) -> bool:
    """Whether a phase comes after another one: as most launches that had both had them, else as it is usual."""
    orders = [list(launch.phases) for launch in launches if name in launch.phases and other in launch.phases]
    if not orders:
        return _USUAL_ORDER.index(name) > _USUAL_ORDER.index(other)
    return 2 * sum(order.index(name) > order.index(other) for order in orders) >= len(orders)


def _gaps(launches: Sequence[EarlierLaunch], usual: Mapping[PhaseName, float]) -> float:
    """What the sum of phases is multiplied by: they leave out the time between them."""
    total, phases = median(launch.ready_s for launch in launches), sum(usual.values())
    return min(GAPS_AT_MOST, max(1.0, total / phases)) if phases > 0 else 1.0
