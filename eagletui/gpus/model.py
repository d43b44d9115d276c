"""GPUs as facts. Memory in MiB, power in watts, temperature in °C, utilisation 0 to 100. None is "the tool did not say"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GpuState = Literal["ok", "lost", "error"]
GpuErrorCode = Literal[
    "no-tool",
    "no-devices",
    "driver-mismatch",
    "no-driver",
    "no-permission",
    "nvml-error",
    "lost",
    "timeout",
    "unparsable",
]


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process in nvidia-smi's compute table. A MIG instance's process carries the parent GPU's uuid where it is known."""

    pid: int
    name: str | None
    mem_mib: int | None
    gpu_uuid: str


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG instance of a GPU: `device` counts within the GPU."""

    device: int
    profile: str
    uuid: str
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One row of nvidia-smi. `throttle` lists active clocks_event_reasons with hyphens, without gpu-idle and applications-clocks-setting."""

    index: int
    uuid: str | None = None
    name: str | None = None
    state: GpuState = "ok"
    util_pct: int | None = None
    mem_used_mib: int | None = None
    mem_total_mib: int | None = None
    temp_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    throttle: tuple[str, ...] = ()
    ecc_uncorrected: int | None = None
    mig_enabled: bool = False
    mig: tuple[MigInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()
    driver: str | None = None


@dataclass(frozen=True, slots=True)
class GpuError:
    """Why there are no rows, or not all of them. `text` is what the tool said, or a sentence of ours for a timeout."""

    code: GpuErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class GpuReport:
    """One answer: rows sorted by index, and an error when something is wrong with the answer itself."""

    gpus: tuple[Gpu, ...] = field(default=())
    error: GpuError | None = None
