"""The `status` object, `eagletui.status/1`: unknown is null, never 0 and never a missing key; secrets in commands are masked."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from eagletui.monitor.diagnosis_model import DiagnosisModel
from eagletui.monitor.phase_model import ProgressModel


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class LinkModel(_Model):
    """`latency_ms` is null for `local` and until it was measured."""

    state: Literal["up", "down", "connecting"]
    latency_ms: float | None = None
    error: str | None = None


class MemberModel(_Model):
    """A member of the family; `started` is field 22 of /proc/PID/stat."""

    pid: int
    started: int
    role: str
    rank: str | None
    state: str
    orphan: bool


class ReasonModel(_Model):
    """Why this state: a code and one line."""

    code: str
    text: str


class HealthModel(_Model):
    """The last probe."""

    path: str
    status: int | None
    latency_ms: float | None
    age_s: float | None
    error: str | None


class ThroughputModel(_Model):
    """The last figures; `stale`: they are the last, not the current."""

    gen_tok_s: float | None
    accept_len: float | None
    running: int | None
    queued: int | None
    token_usage: float | None
    age_s: float | None
    stale: bool


class LaunchModel(_Model):
    """What launched a server: the id of its record on the node, the profile (null: none was used) and its variant (null: none), and who."""

    id: str
    profile: str | None
    variant: str | None = None
    by: Literal["eagletui"] = "eagletui"


class ServerModel(_Model):
    """One server. `launch` is null for one that eagletui did not launch."""

    id: str
    engine: str
    pid: int
    user: str | None
    port: int | None
    model: str | None
    log: str | None
    command: list[str]
    cwd: str | None
    family: list[MemberModel]
    state: str
    phase: str | None
    reason: ReasonModel
    progress: ProgressModel | None
    uptime_s: float | None
    log_age_s: float | None
    health: HealthModel | None
    throughput: ThroughputModel | None
    launch: LaunchModel | None = None
    diagnosis: DiagnosisModel | None = None


class OrphanModel(_Model):
    """Looks like an engine's process and belongs to no family."""

    pid: int
    name: str
    user: str | None
    gpu_mem_mib: int | None
    age_s: float | None


class GpuProcessModel(_Model):
    """A process on a GPU. `user` null: the pid is not in our /proc, so it is neither ours nor others'."""

    pid: int
    user: str | None
    name: str | None
    mem_mib: int | None
    server: str | None


class MigModel(_Model):
    """A MIG instance."""

    device: int
    profile: str
    uuid: str
    mem_used_mib: int | None
    mem_total_mib: int | None


class GpuModel(_Model):
    """One GPU."""

    index: int
    uuid: str | None
    name: str | None
    state: str
    util_pct: int | None
    mem_used_mib: int | None
    mem_total_mib: int | None
    temp_c: int | None
    power_w: float | None
    power_limit_w: float | None
    throttle: list[str]
    ecc_uncorrected: int | None
    mig: list[MigModel]
    processes: list[GpuProcessModel]


class GpuErrorModel(_Model):
    """Why GPU rows are missing or incomplete."""

    code: str
    text: str


class StatusModel(_Model):
    """One snapshot of a node. `time` is ISO 8601 in UTC."""

    schema_: Literal["eagletui.status/1"] = Field(default="eagletui.status/1", alias="schema")
    node: str
    time: str
    link: LinkModel
    servers: list[ServerModel]
    orphans: list[OrphanModel]
    gpus: list[GpuModel]
    gpu_error: GpuErrorModel | None
