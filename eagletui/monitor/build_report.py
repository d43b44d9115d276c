"""From what was seen to the `status` object. Pure; secrets are masked here, on the way out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from eagletui.gpus.model import Gpu, GpuReport
from eagletui.logs.state import LogState
from eagletui.monitor.assessment import Assessment
from eagletui.monitor.diagnosis_model import DiagnosisModel
from eagletui.monitor.phase_model import ProgressModel
from eagletui.monitor.report import (
    GpuErrorModel,
    GpuModel,
    GpuProcessModel,
    HealthModel,
    LaunchModel,
    LinkModel,
    MemberModel,
    MigModel,
    OrphanModel,
    ReasonModel,
    ServerModel,
    StatusModel,
    ThroughputModel,
)
from eagletui.monitor.snapshot import Health, Throughput
from eagletui.servers.attribution import Owners
from eagletui.servers.model import Inventory, Member, Orphan
from eagletui.servers.record import Record
from eagletui.shell.masking import mask_argv, mask_text, shown


def _text(text: str | None) -> str | None:
    return None if text is None else shown(text)


def _masked(text: str) -> str:
    return shown(mask_text(text))


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else round(max(0.0, now - at), 1)


def _member(member: Member) -> MemberModel:
    process = member.process
    return MemberModel(
        pid=process.pid, started=process.started, role=member.role, rank=member.rank, state=process.state, orphan=member.orphan
    )  # fmt: skip


def _health(health: Health | None, now: float) -> HealthModel | None:
    if health is None:
        return None
    error = health.error if None in (health.error, health.detail) else f"{health.error}: {health.detail}"
    return HealthModel(
        path=health.path, status=health.status, latency_ms=_rounded(health.latency_ms), age_s=_age(health.at, now), error=error
    )  # fmt: skip


def _throughput(seen: Throughput | None, now: float) -> ThroughputModel | None:
    if seen is None or seen.at is None:
        return None
    return ThroughputModel(
        gen_tok_s=seen.gen_tok_s, accept_len=seen.accept_len, running=seen.running, queued=seen.queued, token_usage=seen.token_usage,
        age_s=_age(seen.at, now), stale=seen.stale,
    )  # fmt: skip


def _progress(log: LogState) -> ProgressModel | None:
    bar = log.progress
    return (
        None
        if bar is None
        else ProgressModel(done=bar.done, total=bar.total, unit=bar.unit, rate=bar.rate, eta_s=bar.eta_s)
    )


def _reason_text(one: Assessment) -> str:
    """The reason, and that the log could not be a witness, which weakens it."""
    text = one.reason.text
    if one.log_error is not None and one.log_error not in text:
        text = f"{text}. {one.log_error}"
    return _masked(text)


def _launch(record: Record | None) -> LaunchModel | None:
    if record is None:
        return None
    profile, variant = (None if one is None else _masked(one) for one in (record.profile, record.variant))
    return LaunchModel(id=shown(record.id), profile=profile, variant=variant)


def _server(one: Assessment, now: float) -> ServerModel:
    server = one.server
    return ServerModel(
        id=server.id, engine=server.engine, pid=server.pid, user=_text(server.user), port=server.port, model=_text(server.model),
        log=_text(server.log.path), command=[shown(word) for word in mask_argv(server.command)], cwd=_text(server.cwd),
        family=[_member(m) for m in server.family],
        state=one.state.value, phase=one.log.phase, reason=ReasonModel(code=one.reason.code, text=_reason_text(one)),
        progress=_progress(one.log), uptime_s=_rounded(server.age_s), log_age_s=_rounded(one.log_age_s),
        health=_health(one.health, now), throughput=_throughput(one.throughput, now),
        launch=_launch(one.record),
        diagnosis=None if one.diagnosis is None else DiagnosisModel.of(one.diagnosis),
    )  # fmt: skip


def _gpu(gpu: Gpu, owners: Owners) -> GpuModel:
    processes = []
    for process in gpu.processes:
        owner = owners.of(process)
        name = _masked(process.name) if process.name is not None else None
        processes.append(
            GpuProcessModel(
                pid=process.pid, user=_text(owner.user), name=name, mem_mib=process.mem_mib, server=owner.server
            )
        )
    return GpuModel(
        index=gpu.index, uuid=gpu.uuid, name=gpu.name, state=gpu.state, util_pct=gpu.util_pct, mem_used_mib=gpu.mem_used_mib,
        mem_total_mib=gpu.mem_total_mib, temp_c=gpu.temp_c, power_w=gpu.power_w, power_limit_w=gpu.power_limit_w,
        throttle=list(gpu.throttle), ecc_uncorrected=gpu.ecc_uncorrected,
        mig=[
            MigModel(device=m.device, profile=m.profile, uuid=m.uuid, mem_used_mib=m.mem_used_mib, mem_total_mib=m.mem_total_mib)
            for m in gpu.mig
        ],
        processes=processes,
    )  # fmt: skip


def _orphan(orphan: Orphan, report: GpuReport) -> OrphanModel:
    pid = orphan.process.pid
    held = [p.mem_mib for gpu in report.gpus for p in gpu.processes if p.pid == pid and p.mem_mib is not None]
    return OrphanModel(
        pid=pid, name=_masked(orphan.name), user=_text(orphan.user), gpu_mem_mib=sum(held) if held else None, age_s=_rounded(orphan.age_s)
    )  # fmt: skip


def build_status(
    node: str,
    link: LinkModel,
    *,
    inventory: Inventory,
    servers: Sequence[Assessment],
    gpus: GpuReport,
    now: float,
) -> StatusModel:
    """The object. `now` is the monotonic time that ages count to."""
    owners = Owners(inventory)
    return StatusModel(
        node=node,
        time=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        link=link,
        servers=[_server(one, now) for one in servers],
        orphans=[_orphan(o, gpus) for o in inventory.orphans],
        gpus=[_gpu(gpu, owners) for gpu in gpus.gpus],
        gpu_error=None if gpus.error is None else GpuErrorModel(code=gpus.error.code, text=gpus.error.text),
    )
