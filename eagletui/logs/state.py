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
class Phase:
    """One stage of the launch. `seconds` None while it runs (then `began_at`, monotonic, is set) or when it is
    unknown. `detail`: a few words ("TP 8, nccl 2.28.9")."""

    name: PhaseName
    status: Literal["done", "running"]
    seconds: float | None = None
    began_at: float | None = None
    detail: str = ""


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
    stopping: bool = False
    """A wanted stop began (a signal came, requests drain): what ends from now on ends on request."""
