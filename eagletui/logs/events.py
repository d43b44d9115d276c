"""What a log says happens, as typed facts. Produced by the reader, applied by the monitor; nothing else knows what a
line looked like."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from eagletui.engines.batch import BatchSample
from eagletui.logs.state import PhaseName, Progress


class LaunchBegan(NamedTuple):
    """A process began to speak. `args` is what it printed of its arguments; empty when it printed none (yet)."""

    engine: str
    args: dict[str, object]
    source: str = ""


class PhaseBegan(NamedTuple):
    """A stage of the launch began."""

    phase: PhaseName
    source: str = ""


class PhaseEnded(NamedTuple):
    """A stage ended. `seconds` by the log, None when unknown."""

    phase: PhaseName
    seconds: float | None
    source: str = ""


class ProgressSeen(NamedTuple):
    """A bar moved; the minimum over ranks."""

    progress: Progress
    source: str = ""


class BatchSeen(NamedTuple):
    """A throughput line. `sample` as printed by its data rank; `total` is the whole server: the newest of each data
    rank, summed.

    `stamp` is the line's own time (see records.Record), None without one.
    """

    sample: BatchSample
    total: BatchSample
    source: str = ""
    stamp: float | None = None


class ReadySeen(NamedTuple):
    """It says that it serves. `seconds` since the launch began, None when unknown."""

    seconds: float | None
    source: str = ""


class ErrorSeen(NamedTuple):
    """A line that says that it failed. `fatal`: the server does not survive it. `primary`: it names a cause, and is
    no echo."""

    text: str
    fatal: bool
    primary: bool
    rank: str = ""
    source: str = ""


class StoppingSeen(NamedTuple):
    """A wanted stop began (`done` False) or ended in order."""

    done: bool
    source: str = ""


class ProbeLine(NamedTuple):
    """The access log's line of a health or information request from the node itself."""

    path: str
    status: int


Event: TypeAlias = (
    LaunchBegan | PhaseBegan | PhaseEnded | ProgressSeen | BatchSeen | ReadySeen | ErrorSeen | StoppingSeen | ProbeLine
)
