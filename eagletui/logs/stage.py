"""One stage of a launch while it is being watched."""

from __future__ import annotations

import re
from typing import NamedTuple

from eagletui.logs.records import elapsed
from eagletui.logs.state import Gap, Phase, PhaseName


class Moment(NamedTuple):
    """When a line was: its own stamp (None without one), and its arrival on the reader's clock, both in seconds."""

    stamp: float | None
    at: float

    def until(self, later: Moment) -> float | None:
        """Seconds by the stamps, else by arrival; None when both lines came at once, which tells nothing."""
        seconds = elapsed(self.stamp, later.stamp)
        if seconds is not None:
            return seconds
        return later.at - self.at if later.at > self.at else None


MAX_GAPS = 16


class Stage:
    """What is known of a stage. It may be left and entered again; times add up."""

    __slots__ = (
        "_began",
        "_ended",
        "_open",
        "_opened",
        "_past",
        "began_at",
        "detail",
        "gaps",
        "implied",
        "ranks",
        "running",
        "spans",
        "started",
        "sums",
        "told",
    )

    def __init__(self) -> None:
        self.ranks: set[str] = set()
        self.sums: dict[str, float] = {}
        """Durations that each rank told, added up over several parts (five graph captures)."""
        self.spans: dict[str, float] = {}
        """The time between each rank's own lines, where it told no duration."""
        self.gaps: list[Gap] = []
        self.told: float | None = None
        self.implied = False
        """Nothing spoke of it yet: it follows from the end of the one before."""
        self.detail = ""
        self.started = self.running = False
        self.began_at: float | None = None
        self._began: Moment | None = None
        self._ended: Moment | None = None
        self._open: set[str] = set()
        self._opened: dict[str, Moment] = {}
        self._past: float | None = None

    def start(self, when: Moment) -> None:
        """The launch enters it."""
        self.started = self.running = True
        self._began, self._ended = when, None
        self.began_at = when.at

    def open(self, rank: str, when: Moment | None = None) -> None:
        """A rank begins a part of it."""
        self._open.add(rank)
        if when is not None:
            self._opened[rank] = when

    def gap(self, seconds: float, stamp: float | None) -> None:
        """A silence of so many seconds, that a line with this stamp ended."""
        since = elapsed(self._began.stamp, stamp) if self._began is not None else None
        if len(self.gaps) < MAX_GAPS:
            self.gaps.append(Gap(max(0.0, (since or seconds) - seconds), seconds))

    def end(self, rank: str, when: Moment, seconds: float | None) -> None:
        """A rank ends a part of it."""
        self.ranks.add(rank)
        if seconds is not None:
            before = self.sums.get(rank, 0.0)
            self.sums[rank] = before + seconds if rank in self._open or not before else max(before, seconds)
        elif rank in self._opened:
            spent = self._opened[rank].until(when)
            if spent is not None:
                self.spans[rank] = self.spans.get(rank, 0.0) + spent
        self._open.discard(rank)
        self._opened.pop(rank, None)
        if self.running:
            self._ended = when

    def close(self, when: Moment) -> None:
        """The launch leaves it."""
        spent = self._began.until(self._ended or when) if self._began is not None else None
        if spent is not None:
            self._past = (self._past or 0.0) + spent
        self.running = False
        self.began_at = None

    def settle(self, when: Moment) -> bool:
        """Correct when it began by the newest moment of the log; whether that changed anything."""
        if not self.running or self._began is None or self.began_at is None:
            return False
        age = elapsed(self._began.stamp, when.stamp)
        if age is None or when.at - age >= self.began_at:
            return False
        self.began_at = when.at - age
        return True

    def began_before(self, at: float) -> None:
        """Its bar has run since then (on the reader's clock): bars have no stamps, and who comes later sees only how long they have run."""
        if self.running and self.began_at is not None:
            self.began_at = min(self.began_at, at)

    @property
    def seconds(self) -> float | None:
        """Its duration: the slowest rank's own words, the engine's list, or the time between its lines."""
        if self.sums:
            return max(self.sums.values())
        return self._past if self.told is None else self.told

    @property
    def by_rank(self) -> tuple[tuple[str, float], ...]:
        """Each rank's own duration, where more than one told it."""
        told = {rank: seconds for rank, seconds in (self.sums or self.spans).items() if rank}
        return tuple(sorted(told.items(), key=lambda one: _order(one[0]))) if len(told) > 1 else ()

    def phase(self, name: PhaseName, quiet_since: float | None = None) -> Phase:
        """It as a frozen value. `quiet_since`: when something last moved in it."""
        gaps = tuple(self.gaps)
        if self.running:
            return Phase(name, "running", None, self.began_at, self.detail, self.by_rank, gaps, quiet_since)
        return Phase(name, "done", self.seconds, None, self.detail, self.by_rank, gaps)


def _order(rank: str) -> tuple[int, ...]:
    """Ranks by their numbers: TP10 comes after TP9."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", rank))
