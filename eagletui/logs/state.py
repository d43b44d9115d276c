"""What the log says about a launch. Durations in seconds by the log's own timestamps, else by arrival."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

PhaseName = Literal[
    "launch", "distributed", "weights", "draft-weights", "kv-cache", "compile", "graphs", "warmup", "serving"
]
SHOWN_NAMES: dict[str, str] = {
    "launch": "imports", "distributed": "distributed", "weights": "weights", "draft-weights": "draft weights", "kv-cache": "KV cache",
    "compile": "compile", "graphs": "CUDA graphs", "warmup": "warm-up", "serving": "serving",
}  # fmt: skip
LogVerdict = Literal["starting", "ready", "stalled", "crashed", "stopped", "unknown"]


@dataclass(frozen=True, slots=True)
class Progress:
    """A bar: n/N is the truth. `rate` per second as computed or printed, `eta_s` null when it cannot be trusted.
    `label` is the bar's own words."""

    done: int
    total: int
    unit: str
    rate: float | None = None
    eta_s: float | None = None
    label: str = ""
    rank: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the bar of the present phase moves: seconds between its last two moves, the longest such while, how many moves."""

    interval_s: float
    longest_s: float
    moves: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A while without output in a stage: seconds after the stage's begin, and how long it was."""

    after_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Phase:
    """One stage of the launch. `seconds` None while it runs (then `began_at`, monotonic, is set) or when it is
    unknown. `detail`: a few words ("TP 8, nccl 2.28.9").

    `ranks`: what each rank told of its own duration, in seconds, where they told it; the slowest is `seconds`. `gaps`:
    the long silences in it. `quiet_since`: when it last moved (monotonic), while it runs.
    """

    name: PhaseName
    status: Literal["done", "running"]
    seconds: float | None = None
    began_at: float | None = None
    detail: str = ""
    ranks: tuple[tuple[str, float], ...] = ()
    gaps: tuple[Gap, ...] = ()
    quiet_since: float | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """A line of the log as evidence. `line`: its LF line number from 1, 0 where it is of another witness; `channel` as
    the reader's; `text` is clean."""

    line: int
    text: str
    channel: int = 0


Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why it failed, or does not move. `code` as LOGS.md's table; `rank` None where no one rank is to blame. `summary` and
    `advice` are sentences of ours; `clock`: when, as the log prints it ("14:05:39"), empty without a time."""

    code: str
    severity: Severity
    phase: PhaseName | None
    rank: str | None
    summary: str
    advice: str
    evidence: tuple[Quote, ...] = ()
    clock: str = ""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something the server goes on after. `line` and `text` are of its first occurrence, `count` how often it came."""

    code: str
    line: int
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class LogState:
    """The log's own verdict on the current launch. `ready_s`: seconds from launch to ready by the log; `args` is what
    the server printed of its arguments."""

    state: LogVerdict = "unknown"
    phase: PhaseName | None = None
    phases: tuple[Phase, ...] = ()
    progress: Progress | None = None
    ready_s: float | None = None
    engine: str | None = None
    args: dict[str, object] = field(default_factory=dict)
    error_text: str | None = None
    """The latest line that says it failed, as quoted evidence (clean text); None when none was seen."""
    launch_count: int = 0
    diagnosis: Diagnosis | None = None
    """Why it crashed, or stands; None while it is well, and for a crash whose cause is still being gathered."""
    warnings: tuple[Warned, ...] = ()
    pace: Pace | None = None
    """Of the bar of the present phase, None before it moved twice."""
    stopping: bool = False
    """A wanted stop began (a signal came, requests drain): what ends from now on ends on request."""
