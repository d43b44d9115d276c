"""When it will be ready, in words. Without earlier launches there are none, and no number anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagletui.logs.state import SHOWN_NAMES, Phase
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui import format as fmt

if TYPE_CHECKING:
    from eagletui.history.estimate import Estimate

LATE_S = 2.0
LATE = 0.1
"""A phase is called later than usual from this many seconds, and this share of the usual time, on: nothing takes equally long twice."""


def starts_words(estimate: Estimate) -> str:
    """`6 starts`, `1 cold start`: what it is made of. Cold: the weights came from disk."""
    kind = {True: "cold ", False: "warm ", None: ""}[estimate.cold]
    return fmt.plural(estimate.starts, f"{kind}start")


def promise(snapshot: Snapshot, now: float) -> str:
    """`ready in ~1:05`; "" where nothing can be promised: no earlier launch, or one that is late."""
    estimate = snapshot.estimate
    if estimate is None or estimate.ready_in_s is None or estimate.late is not None:
        return ""
    # It goes on between two snapshots, and a second is left until it is ready.
    return f"ready in ~{fmt.duration(max(1.0, estimate.ready_in_s - max(0.0, now - snapshot.at)))}"


def late_words(snapshot: Snapshot, now: float) -> str:
    """`weights usually 0:48, now 3:10`; "" while it is not late."""
    estimate = snapshot.estimate
    if estimate is None or estimate.late is None:
        return ""
    running = next((p for p in snapshot.startup.phases if p.status == "running" and p.name == estimate.late), None)
    usual = estimate.usual.get(estimate.late)
    if running is None or running.began_at is None or usual is None:
        return f"usually ready after {fmt.duration(estimate.total_s)}"
    return f"{SHOWN_NAMES[running.name]} usually {fmt.duration(usual)}, now {fmt.duration(now - running.began_at)}"


def short_late_words(snapshot: Snapshot) -> str:
    """`usually 0:48`, for where the phase and its time stand already."""
    estimate = snapshot.estimate
    usual = estimate.usual.get(estimate.late) if estimate is not None and estimate.late is not None else None
    return f"usually {fmt.duration(usual)}" if usual is not None else ""


def beyond(seconds: float | None, usual: float | None) -> str:
    """`+0:06` when it took longer than usual, else ""."""
    if seconds is None or usual is None or seconds - usual < max(LATE_S, LATE * usual):
        return ""
    return f"+{fmt.duration(seconds - usual)}"


def usual_of(estimate: Estimate | None, phase: Phase) -> float | None:
    """The median seconds of a phase in earlier launches."""
    return estimate.usual.get(phase.name) if estimate is not None else None
