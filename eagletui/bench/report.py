"""The `bench` object of the machine-readable side, schema eagletui.bench/1: from a Result and back, for `--json`, the history and imports.

Beyond what the schema's first readers know it tells what was sent (`load`), each repeat (`repeat_means`, `windows`), whether it came to its end
(`complete`), where and of which launch it was. Of a Result nothing is lost but `gaps_ms` of its rows, which it does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eagletui.bench.load import Api, Load, RunnerName
from eagletui.bench.outcome import Against, Conclusion, Facts, Failure, Result, Spread, TokenSource

SCHEMA: Final = "eagletui.bench/1"


class _Part(BaseModel):
    """Readers of later versions meet keys of earlier ones, and the other way round: unknown ones are passed over."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, populate_by_name=True)


class SpreadModel(_Part):
    """Mean and percentiles. Null: whoever measured it did not tell."""

    mean: float
    p50: float | None
    p90: float | None
    p99: float | None


class RatesModel(_Part):
    """Output tokens a second: of all together, and of each request."""

    total: float | None
    per_request: SpreadModel | None


class ErrorModel(_Part):
    """A kind of failure. `status` null: there was no answer."""

    status: int | None
    text: str
    count: int


class RequestsModel(_Part):
    """Sums over repeats."""

    asked: int
    ok: int
    failed: int
    errors: list[ErrorModel]


class ServerModel(_Part):
    """What was measured. `id`: as in `status`; `args` are masked."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)
    node: str | None = None
    machine: str = ""
    id: str | None = None
    port: int | None = None
    profile: str | None = None
    variant: str | None = None


class LoadModel(_Part):
    """What each repeat sent, as bench.load.Load has it."""

    requests: int
    input_len: int
    output_len: int
    concurrency: int | None
    rate: float | None
    warmup: int
    seed: int
    spread: float
    api: Api | None
    ignore_eos: bool
    temperature: float
    prompts: str | None
    prompts_hash: str | None


class AgainstModel(_Part):
    """The run held against the baseline."""

    run: str
    tok_s: float | None
    delta_pct: float | None
    verdict: Conclusion
    why: str
    break_even_accept_len: float | None = None


class BenchModel(_Part):
    """A run. `launch`: key of its launch in the history. `windows`: begin and end of each repeat."""

    schema_: Literal["eagletui.bench/1"] = Field(alias="schema")
    event: Literal["result"] = "result"
    run: str
    time: datetime
    preset: str
    runner: RunnerName
    runner_version: str | None = None
    server: ServerModel
    launch: str | None = None
    load: LoadModel
    complete: bool = True
    requests: RequestsModel
    duration_s: float
    input_tokens: int | None
    output_tokens: int
    token_source: TokenSource
    tok_s: RatesModel
    ttft_ms: SpreadModel | None
    tpot_ms: SpreadModel | None
    itl_ms: SpreadModel | None
    e2e_ms: SpreadModel | None
    accept_len: float | None
    repeats: int
    repeat_means: list[float]
    ci95_tok_s: tuple[float, float] | None
    windows: list[tuple[datetime, datetime]] = Field(default_factory=list)
    link_overhead_ms: float | None
    notes: list[str]
    baseline: AgainstModel | None


def report(result: Result) -> BenchModel:
    """The object. `model_dump_json(by_alias=True)`, or text_of, gives its text."""
    load, facts = result.load, result.facts
    return BenchModel(
        schema=SCHEMA,
        run=result.run,
        time=_time(result.began),
        preset=load.preset,
        runner=load.runner,
        runner_version=result.runner_version,
        server=ServerModel(
            engine=facts.engine,
            version=facts.version,
            model=facts.model,
            args=dict(facts.args),
            node=facts.node,
            machine=facts.machine,
            id=facts.server,
            port=facts.port,
            profile=facts.profile,
            variant=facts.variant,
        ),
        launch=facts.launch,
        load=LoadModel(**{name: getattr(load, name) for name in LoadModel.model_fields}),
        complete=result.complete,
        requests=RequestsModel(
            asked=result.asked,
            ok=result.ok,
            failed=result.failed,
            errors=[ErrorModel(status=one.status, text=one.text, count=one.count) for one in result.failures],
        ),
        duration_s=result.duration_s,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        token_source=result.source,
        tok_s=RatesModel(total=result.tok_s_total, per_request=_spread(result.tok_s)),
        ttft_ms=_spread(result.ttft_ms),
        tpot_ms=_spread(result.tpot_ms),
        itl_ms=_spread(result.itl_ms),
        e2e_ms=_spread(result.e2e_ms),
        accept_len=result.accept_len,
        repeats=load.repeats,
        repeat_means=list(result.repeat_means),
        ci95_tok_s=result.ci95,
        windows=[(_time(began), _time(ended)) for began, ended in result.windows],
        link_overhead_ms=result.link_overhead_ms,
        notes=list(result.notes),
        baseline=_against(result.against),
    )


def text_of(result: Result) -> str:
    """It as one line of JSON."""
    return report(result).model_dump_json(by_alias=True)


def result_of(source: str | bytes | Mapping[str, object]) -> Result:
    """The Result that an object tells of, given as its text or as what a JSON reader made of it. Raises ValueError, with a sentence."""
    try:
        if isinstance(source, str | bytes):
            return _result(BenchModel.model_validate_json(source))
        return _result(BenchModel.model_validate(source))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"it is no {SCHEMA} object ({where + ': ' if where else ''}{first['msg']})") from None


def _result(told: BenchModel) -> Result:
    server, load = told.server, told.load
    return Result(
        run=told.run,
        load=Load(preset=told.preset, repeats=told.repeats, runner=told.runner, **load.model_dump()),
        facts=Facts(
            engine=server.engine,
            version=server.version,
            model=server.model,
            args=server.args,
            node=server.node,
            machine=server.machine,
            server=server.id,
            port=server.port,
            launch=told.launch,
            profile=server.profile,
            variant=server.variant,
        ),
        began=told.time.timestamp(),
        asked=told.requests.asked,
        ok=told.requests.ok,
        failures=tuple(Failure(one.status, one.text, one.count) for one in told.requests.errors),
        duration_s=told.duration_s,
        input_tokens=told.input_tokens,
        output_tokens=told.output_tokens,
        source=told.token_source,
        tok_s_total=told.tok_s.total,
        tok_s=_spread_of(told.tok_s.per_request),
        ttft_ms=_spread_of(told.ttft_ms),
        tpot_ms=_spread_of(told.tpot_ms),
        itl_ms=_spread_of(told.itl_ms),
        e2e_ms=_spread_of(told.e2e_ms),
        accept_len=told.accept_len,
        repeat_means=tuple(told.repeat_means),
        ci95=told.ci95_tok_s,
        link_overhead_ms=told.link_overhead_ms,
        notes=tuple(told.notes),
        against=_against_of(told.baseline),
        runner_version=told.runner_version,
        complete=told.complete,
        windows=tuple((began.timestamp(), ended.timestamp()) for began, ended in told.windows),
    )


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _spread(spread: Spread | None) -> SpreadModel | None:
    return None if spread is None else SpreadModel(mean=spread.mean, p50=spread.p50, p90=spread.p90, p99=spread.p99)


def _spread_of(told: SpreadModel | None) -> Spread | None:
    return None if told is None else Spread(told.mean, told.p50, told.p90, told.p99)


def _against(one: Against | None) -> AgainstModel | None:
    if one is None:
        return None
    return AgainstModel(
        run=one.run,
        tok_s=one.tok_s,
        delta_pct=one.delta_pct,
        verdict=one.verdict,
        why=one.why,
        break_even_accept_len=one.break_even,
    )


def _against_of(told: AgainstModel | None) -> Against | None:
    if told is None:
        return None
    return Against(told.run, told.tok_s, told.delta_pct, told.verdict, told.why, told.break_even_accept_len)
