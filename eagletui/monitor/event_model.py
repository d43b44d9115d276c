"""The events of commands that go on for a while, `eagletui.event/1`: one JSON object a line, the last one is `result`. Unknown is null,
never 0 and never a missing key; text of the node is masked and plain."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from eagletui.monitor.diagnosis_model import DiagnosisModel, plain
from eagletui.monitor.happenings import Happening, LogTold, PhaseTold, ProgressTold, StateTold
from eagletui.monitor.phase_model import PhaseModel, phases_of
from eagletui.monitor.report import ReasonModel
from eagletui.monitor.waiting import Ended
from eagletui.servers.model import Reason, Server


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["eagletui.event/1"] = Field(default="eagletui.event/1", alias="schema")
    event: str
    time: str


class ServerRef(BaseModel):
    """Which server is meant."""

    model_config = ConfigDict(frozen=True)

    id: str
    engine: str
    pid: int
    port: int | None


class StateEvent(_Event):
    """Another state, another reason, or another server."""

    event: Literal["state"] = "state"
    state: str
    reason: ReasonModel
    server: ServerRef | None


class PhaseEvent(_Event):
    """A phase began or ended. `usual_s`: the median of `starts` earlier launches of the same kind."""

    event: Literal["phase"] = "phase"
    name: str
    status: Literal["running", "done"]
    seconds: float | None
    rank: str | None
    usual_s: float | None
    starts: int | None


class ProgressEvent(_Event):
    """A bar moved, told once a second at most. `ready_in_s` by `starts` earlier launches."""

    event: Literal["progress"] = "progress"
    phase: str | None
    done: int
    total: int
    unit: str
    rate: float | None
    eta_s: float | None
    elapsed_s: float | None
    ready_in_s: float | None
    starts: int | None


class LogEvent(_Event):
    """A line of the log that tells of trouble. `code`: of a warning, as in `explain`."""

    event: Literal["log"] = "log"
    level: Literal["error", "warning"]
    code: str | None
    text: str


class ResultEvent(_Event):
    """The end. `exit` is the exit status, `step` the last one reached (null for `wait`), `ready_s` seconds from launch to ready."""

    event: Literal["result"] = "result"
    exit: int
    step: str | None
    state: str
    reason: ReasonModel
    server: ServerRef | None
    ready_s: float | None
    phases: list[PhaseModel]
    diagnosis: DiagnosisModel | None


def now_iso() -> str:
    """ISO 8601 in UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _ref(server: Server | None) -> ServerRef | None:
    return None if server is None else ServerRef(id=server.id, engine=server.engine, pid=server.pid, port=server.port)


def _reason(reason: Reason) -> ReasonModel:
    return ReasonModel(code=reason.code, text=plain(reason.text))


def event_of(happening: Happening) -> StateEvent | PhaseEvent | ProgressEvent | LogEvent:
    """A happening of now as an event."""
    time = now_iso()
    match happening:
        case StateTold(state, reason, server):
            return StateEvent(time=time, state=state.value, reason=_reason(reason), server=_ref(server))
        case PhaseTold():
            return PhaseEvent(
                time=time, name=happening.name, status="done" if happening.done else "running", seconds=_seconds(happening.seconds),
                rank=None, usual_s=_seconds(happening.usual_s), starts=happening.starts,
            )  # fmt: skip
        case ProgressTold():
            one = happening
            return ProgressEvent(
                time=time, phase=one.phase, done=one.done, total=one.total, unit=plain(one.unit), rate=_seconds(one.rate), eta_s=_seconds(one.eta_s),
                elapsed_s=_seconds(one.elapsed_s), ready_in_s=_seconds(one.ready_in_s), starts=one.starts,
            )  # fmt: skip
        case LogTold():
            level: Literal["error", "warning"] = "error" if happening.level == "error" else "warning"
            return LogEvent(time=time, level=level, code=happening.code, text=plain(happening.text))


def result_of(ended: Ended) -> ResultEvent:
    """The end as the last event."""
    return ResultEvent(
        time=now_iso(),
        exit=ended.exit,
        step=None,
        state=ended.state.value,
        reason=_reason(ended.reason),
        server=_ref(ended.server),
        ready_s=_seconds(ended.ready_s),
        phases=phases_of(ended.phases),
        diagnosis=None if ended.diagnosis is None else DiagnosisModel.of(ended.diagnosis),
    )
