"""Whether a log that does not grow tells of a stall: from how long nothing moved, by the log's own clock and the time since. Pure."""

from __future__ import annotations

from eagletui.logs.diagnose import make
from eagletui.logs.launch import Launch
from eagletui.logs.records import elapsed
from eagletui.logs.stage import Moment
from eagletui.logs.stall import NO_TOKEN_S, clock, limit_s
from eagletui.logs.state import SHOWN_NAMES, Diagnosis, Quote

BUILDING_S = limit_s("compile").stalled_s or 0.0
"""In whichever phase kernels are built."""


def quiet_s(launch: Launch, newest: float | None, idle_s: float) -> float:
    """Seconds since something last moved. `newest`: the stamp of the log's newest line; `idle_s`: since it last grew."""
    return (elapsed(launch.moved.stamp, newest) or 0.0) + idle_s


def stall(launch: Launch, newest: float | None, idle_s: float) -> Diagnosis | None:
    """The diagnosis `stalled`, None when what is known explains the silence."""
    if launch.verdict == "starting" and launch.current is not None:
        quiet = quiet_s(launch, newest, idle_s)
        limit = limit_s(launch.current, launch.pace).stalled_s
        if limit is not None and _builds(launch, launch.moved):
            limit = max(limit, BUILDING_S)
        if limit is None or quiet < limit:
            return None
        bar = launch.progress
        what = f"no {bar.unit.rstrip('s')} for" if bar is not None and bar.done < bar.total else "nothing moved for"
        where = SHOWN_NAMES[launch.current]
        return _told(launch, f"{where}: {what} {clock(quiet)}, where {clock(limit)} is the limit")
    if launch.verdict == "ready":
        return _without_tokens(launch, newest, idle_s)
    return None


def _builds(launch: Launch, moved: Moment) -> bool:
    """Whether kernels are being built since something last moved."""
    return launch.compiling is not None and (moved.until(launch.compiling) or 0.0) >= 0


def _without_tokens(launch: Launch, newest: float | None, idle_s: float) -> Diagnosis | None:
    """Requests are there, and no token came. What a last line told of running ones ends unseen (SGLang prints nothing when a batch
    ends), so alone it proves nothing: a queue does, and so does an engine that says itself that requests get no answer.
    """
    if launch.tokens is None:
        return None
    quiet = (elapsed(launch.tokens.stamp, newest) or 0.0) + idle_s
    queued, running = launch.figures.queued.last or 0, launch.figures.running.last or 0
    doubted = launch.doubted is not None and (launch.tokens.until(launch.doubted) or 0.0) > 0
    keeps_telling = launch.engine == "vllm"
    if quiet < (BUILDING_S if _builds(launch, launch.tokens) else NO_TOKEN_S) or not (
        queued or (running and (doubted or keeps_telling))
    ):
        return None
    there = [f"{running:.0f} running" if running else "", f"{queued:.0f} queued" if queued else ""]
    return _told(launch, f"no token for {clock(quiet)}, with requests {' and '.join(one for one in there if one)}")


def _told(launch: Launch, said: str) -> Diagnosis:
    quotes = tuple(Quote(one.line, one.text) for one in launch.warnings.values() if one.code == "health-check-failed")
    return make(launch.facing, "stalled", said[:1].upper() + said[1:], launch.current, None, quotes)
