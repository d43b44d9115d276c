"""The `explain` object, `eagletui.explain/1` (unknown is null, never 0 and never a missing key), from what the reader found."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from eagletui.logs.explain import Explained, Explanation, Server
from eagletui.logs.figures import Figure, Figures
from eagletui.monitor.diagnosis_model import DiagnosisModel, plain
from eagletui.monitor.masked import masked_args
from eagletui.monitor.phase_model import PhaseModel, ProgressModel, phases_of

DIGITS = 4
RATE_DIGITS = 1
"""Rates and accept lengths: more would be noise."""
SUMMED_WHOLE = 1_000.0
"""A sum of what several ranks told at different moments is told in whole tokens from here on."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class WarningModel(_Model):
    """Something the server went on after, where it was told first."""

    code: str
    line: int
    text: str
    count: int


class RateModel(_Model):
    """A measure over the launch."""

    last: float
    mean: float
    max: float


class LevelModel(_Model):
    """A gauge over the launch."""

    last: float
    max: float


class CountModel(_Model):
    """Requests over the launch."""

    last: int
    max: int


class MetricsModel(_Model):
    """Throughput, summed over data ranks. Rates in tokens a second, lengths in tokens a step, `token_usage` 0 to 1."""

    decode_samples: int
    gen_tok_s: RateModel | None
    accept_len: RateModel | None
    running: CountModel | None
    queued: CountModel | None
    token_usage: LevelModel | None


class LaunchModel(_Model):
    """One launch; `started` as the log prints it, without a zone."""

    started: str | None
    state: str
    phase: str | None
    progress: ProgressModel | None
    phases: list[PhaseModel]
    ready_s: float | None
    diagnosis: DiagnosisModel | None
    warnings: list[WarningModel]
    args: dict[str, object]
    metrics: MetricsModel


class ServerModel(_Model):
    """One server of the file; `id` is its outer prefix, "" when there is none."""

    id: str
    engine: str | None
    launches: list[LaunchModel]


class ExplainModel(_Model):
    """The whole object."""

    schema_: Literal["eagletui.explain/1"] = Field(default="eagletui.explain/1", alias="schema")
    lines: int
    bytes: int
    servers: list[ServerModel]


def build(told: Explanation) -> ExplainModel:
    """The object. Quoted text and arguments are masked here, on the way out."""
    return ExplainModel(lines=told.lines, bytes=told.bytes, servers=[_server(one) for one in told.servers])


def _server(server: Server) -> ServerModel:
    return ServerModel(id=plain(server.id), engine=server.engine, launches=[_launch(one) for one in server.launches])


def _launch(one: Explained) -> LaunchModel:
    bar = one.progress
    return LaunchModel(
        started=one.started,
        state=one.state,
        phase=one.phase,
        progress=None if bar is None else ProgressModel(
            done=bar.done, total=bar.total, unit=bar.unit, rate=_round(bar.rate), eta_s=_round(bar.eta_s)
        ),
        phases=phases_of(one.log.phases),
        ready_s=_round(one.log.ready_s),
        diagnosis=None if one.diagnosis is None else DiagnosisModel.of(one.diagnosis),
        warnings=[
            WarningModel(code=w.code, line=w.line, text=plain(w.text), count=w.count) for w in one.warnings
        ],
        args=masked_args(one.log.args),
        metrics=_metrics(one.figures),
    )  # fmt: skip


def _metrics(figures: Figures) -> MetricsModel:
    return MetricsModel(
        decode_samples=figures.decode_samples,
        gen_tok_s=_rate(figures.gen_tok_s, whole=figures.summed),
        accept_len=_rate(figures.accept_len),
        running=_count(figures.running),
        queued=_count(figures.queued),
        token_usage=_level(figures.token_usage),
    )


def _rate(figure: Figure, *, whole: bool = False) -> RateModel | None:
    if figure.last is None or figure.mean is None or figure.largest is None:
        return None

    def told(value: float) -> float:
        return float(round(value)) if whole and value >= SUMMED_WHOLE else round(value, RATE_DIGITS)

    return RateModel(last=told(figure.last), mean=told(figure.mean), max=told(figure.largest))


def _level(figure: Figure) -> LevelModel | None:
    if figure.last is None or figure.largest is None:
        return None
    return LevelModel(last=round(figure.last, DIGITS), max=round(figure.largest, DIGITS))


def _count(figure: Figure) -> CountModel | None:
    if figure.last is None or figure.largest is None:
        return None
    return CountModel(last=int(figure.last), max=int(figure.largest))


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
