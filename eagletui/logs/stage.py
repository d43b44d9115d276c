"""One stage of a launch while it is being watched."""

from __future__ import annotations

from typing import NamedTuple

from eagletui.logs.records import elapsed
from eagletui.logs.state import Phase, PhaseName


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


class Stage:
    """What is known of a stage. It may be left and entered again; times add up."""

    __slots__ = (
        "_began",
        "_ended",
        "_open",
        "_past",
        "began_at",
        "detail",
        "implied",
        "ranks",
        "running",
        "started",
        "sums",
        "told",
    )

    def __init__(self) -> None:
        self.ranks: set[str] = set()
        self.sums: dict[str, float] = {}
        """Durations that each rank told, added up over several parts (five graph captures)."""
        self.told: float | None = None
        self.implied = False
        """Nothing spoke of it yet: it follows from the end of the one before."""
        self.detail = ""
        self.started = self.running = False
        self.began_at: float | None = None
        self._began: Moment | None = None
        self._ended: Moment | None = None
        self._open: set[str] = set()
        self._past: float | None = None

    def start(self, when: Moment) -> None:
        """The launch enters it."""
        self.started = self.running = True
        self._began, self._ended = when, None
        self.began_at = when.at

    def open(self, rank: str) -> None:
        """A rank begins a part of it."""
        self._open.add(rank)

    def end(self, rank: str, when: Moment, seconds: float | None) -> None:
        """A rank ends a part of it."""
        self.ranks.add(rank)
        if seconds is not None:
            before = self.sums.get(rank, 0.0)
            self.sums[rank] = before + seconds if rank in self._open or not before else max(before, seconds)
        self._open.discard(rank)
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

    @property
    def seconds(self) -> float | None:
        """Its duration: the slowest rank's own words, the engine's list, or the time between its lines."""
        if self.sums:
            return max(self.sums.values())
        return self._past if self.told is None else self.told

    def phase(self, name: PhaseName) -> Phase:
        """It as a frozen value."""
        if self.running:
            return Phase(name, "running", None, self.began_at, self.detail)
        return Phase(name, "done", self.seconds, None, self.detail)
