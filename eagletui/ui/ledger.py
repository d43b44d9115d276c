"""What the Experiments screen looks through and writes into, as values and a protocol; who fills it knows the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eagletui.bench.compare import rate_of
from eagletui.bench.outcome import Against, Result
from eagletui.bench.side_by_side import Metric
from eagletui.launching.plan import FlagChange


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run of the list. `against`: held against the baseline that there is now (None: there is none, or it is that). `changes`: its flags against the
    baseline's, else against those that most runs of the model have; masked."""

    result: Result
    against: Against | None = None
    baseline: bool = False
    note: str = ""
    tags: tuple[str, ...] = ()
    changes: tuple[FlagChange, ...] = ()

    @property
    def id(self) -> str:
        """Of the run."""
        return self.result.run


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """A launch of the list. `started`: wall clock, seconds since the epoch. `outcome`: "ready", "crashed", "stopped", "unknown"; `ended`: what
    became of a server that had been ready. `command` is masked. `changes`: its flags against the baseline's launch, or the newest one of its
    model. `best`: its fastest run, of `runs`. `phases`: (shown name, seconds)."""

    key: str
    started: float
    outcome: str
    command: tuple[str, ...] = ()
    engine: str = ""
    model: str | None = None
    node: str = ""
    profile: str | None = None
    variant: str | None = None
    diagnosis: str | None = None
    ended: str | None = None
    ready_s: float | None = None
    cold: bool | None = None
    runs: int = 0
    best: RunEntry | None = None
    phases: tuple[tuple[str, float], ...] = ()
    changes: tuple[FlagChange, ...] = ()

    @property
    def id(self) -> str:
        """Of the launch."""
        return self.key


def server_rate(result: Result) -> float | None:
    """Tokens a second of the whole server, as a chart of it shows them: of one request at a time its rate, else of all together."""
    alone = result.load.rate is None and result.load.concurrency == 1
    return rate_of(result) if alone else result.tok_s_total


Entry = RunEntry | LaunchEntry


@dataclass(frozen=True, slots=True)
class Kept:
    """Everything that is kept of a machine (or of all): runs and launches, newest first."""

    runs: tuple[RunEntry, ...] = ()
    launches: tuple[LaunchEntry, ...] = ()
    sweep: str = ""
    """How far a sweep of this node is that some eagletui carries out now, a few words."""

    @property
    def baseline(self) -> RunEntry | None:
        """The newest run that is one."""
        return next((one for one in self.runs if one.baseline), None)

    def base_of(self, entry: Entry | None) -> RunEntry | None:
        """What a run is held against: itself where it is a baseline; the newest one where it is not told."""
        if isinstance(entry, RunEntry):
            if entry.baseline:
                return entry
            if entry.against is not None:
                return next((one for one in self.runs if one.id == entry.against.run), None)
        return self.baseline


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs: `against` is B held against A, `changes` the flags that A has otherwise than B, `metrics` side by side."""

    a: RunEntry
    b: RunEntry
    against: Against
    changes: tuple[FlagChange, ...]
    metrics: tuple[Metric, ...]


class Ledger(Protocol):
    """The history, for the screen. Every method blocks for some milliseconds and is called in a thread; each raises HistoryError with a sentence."""

    def look(self) -> Kept:
        """All of it, as it is now."""

    def compare(self, a: RunEntry, b: RunEntry) -> Compared:
        """B held against A."""

    def set_baseline(self, run: str, *, off: bool = False) -> None:
        """This run is what others of its kind are held against; `off`: no longer."""

    def note(self, run: str, text: str) -> None:
        """What the person writes about a run; "" takes it away."""
