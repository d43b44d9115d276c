"""The objects of `history`, `launches` and `compare`: eagletui.history/1 and eagletui.compare/1 (unknown is null, never 0 and never a missing key)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from eagletui.bench.compare import flags_differ
from eagletui.bench.kept import KeptRun
from eagletui.bench.outcome import Against, Conclusion
from eagletui.bench.report import BenchModel, report
from eagletui.bench.side_by_side import Metric
from eagletui.history.launches import LaunchRecord
from eagletui.monitor.phase_model import PhaseModel

HISTORY: Final = "eagletui.history/1"
COMPARE: Final = "eagletui.compare/1"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, allow_inf_nan=False)


class RunModel(BenchModel):
    """A bench object with what a person and the history know beside it. `baseline` is held against the baseline that there is now;
    `is_baseline`: others are held against this one."""

    origin: Literal["measured", "imported"]
    is_baseline: bool
    note: str
    tags: list[str]


class LaunchModel(_Model):
    """A launch. `id` is what a run's `launch` says; `by`: who saw or made it ("watched", "eagletui"), `who`: the person. Secrets in `command` are masked."""

    id: str
    node: str
    machine: str
    engine: str
    model: str | None
    tp: int | None
    flags: dict[str, str]
    command: list[str]
    started: datetime
    outcome: Literal["ready", "crashed", "stopped", "unknown"]
    ended: Literal["crashed", "stopped"] | None
    ready_s: float | None
    cold: bool | None
    diagnosis: str | None
    profile: str | None
    variant: str | None
    by: str
    who: str | None
    record: str | None
    phases: list[PhaseModel]


class HistoryModel(_Model):
    """Newest first."""

    schema_: Literal["eagletui.history/1"] = Field(alias="schema")
    launches: list[LaunchModel]
    runs: list[RunModel]


class FlagModel(_Model):
    """An argument that the servers of two runs have otherwise; null: it was not given."""

    flag: str
    a: str | None
    b: str | None


class MetricModel(_Model):
    """See bench.side_by_side.Metric."""

    name: str
    unit: str
    a: float | None
    b: float | None
    delta_pct: float | None
    verdict: Conclusion | None


class CompareModel(_Model):
    """B held against A."""

    schema_: Literal["eagletui.compare/1"] = Field(alias="schema")
    a: RunModel
    b: RunModel
    flags: list[FlagModel]
    metrics: list[MetricModel]
    delta_pct: float | None
    verdict: Conclusion
    why: str
    break_even_accept_len: float | None


def run_model(run: KeptRun) -> RunModel:
    """A run as it is kept."""
    told = report(replace(run.result, against=run.against)).model_dump(by_alias=True)
    return RunModel(**told, origin=run.origin, is_baseline=run.baseline, note=run.note, tags=list(run.tags))


def launch_model(launch: LaunchRecord) -> LaunchModel:
    """A launch as it is kept."""
    return LaunchModel(
        id=launch.identity.key, node=launch.node, machine=launch.identity.machine, engine=launch.kind.engine,
        model=launch.kind.model, tp=launch.kind.tp, flags=dict(launch.kind.flags), command=list(launch.command),
        started=launch.started, outcome=launch.outcome, ended=launch.ended, ready_s=launch.ready_s, cold=launch.cold,
        diagnosis=launch.diagnosis, profile=launch.profile, variant=launch.variant, by=launch.origin, who=launch.who,
        record=launch.record, phases=_phases(launch),
    )  # fmt: skip


def _phases(launch: LaunchRecord) -> list[PhaseModel]:
    found: list[PhaseModel] = []
    for one in launch.phases:
        found.append(PhaseModel(name=one.name, seconds=one.seconds, rank=None))
        found += [PhaseModel(name=one.name, seconds=seconds, rank=rank) for rank, seconds in one.ranks]
    return found


def compare_model(a: KeptRun, b: KeptRun, held: Against, found: tuple[Metric, ...]) -> CompareModel:
    """Two runs."""
    flags = flags_differ(a.result.facts, b.result.facts)
    return CompareModel(
        schema=COMPARE, a=run_model(a), b=run_model(b), flags=[FlagModel(flag=one.flag, a=one.before, b=one.after) for one in flags],
        metrics=[
            MetricModel(name=one.name, unit=one.unit, a=one.a, b=one.b, delta_pct=one.delta_pct, verdict=one.verdict)
            for one in found
        ],
        delta_pct=held.delta_pct, verdict=held.verdict, why=held.why, break_even_accept_len=held.break_even,
    )  # fmt: skip


def text_of(model: BaseModel) -> str:
    """As it is printed."""
    return model.model_dump_json(by_alias=True, indent=1)
