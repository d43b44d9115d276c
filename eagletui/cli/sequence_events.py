"""The events of `start`, `stop` and `restart`: `step`, and `result` as of `wait`; and the object of a dry run. Unknown is null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from eagletui.cli.plan_text import command_line
from eagletui.cli.sequence_text import elapsed
from eagletui.launching.operator import DryCommand
from eagletui.launching.steps import Ending, Progress, Step
from eagletui.monitor.diagnosis_model import DiagnosisModel, plain
from eagletui.monitor.event_model import ResultEvent, now_iso, result_of
from eagletui.monitor.report import ReasonModel
from eagletui.monitor.waiting import Ended
from eagletui.servers.model import State


class StepEvent(BaseModel):
    """A step began, moved or is over. `lines`: its details. `elapsed_s` since it began, `timeout_s` null where it has none."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["eagletui.event/1"] = Field(default="eagletui.event/1", alias="schema")
    event: Literal["step"] = "step"
    time: str
    name: str
    status: str
    text: str
    lines: list[str]
    elapsed_s: float | None
    timeout_s: float | None


class PlanStep(BaseModel):
    """The commands of one step, each in one line."""

    model_config = ConfigDict(frozen=True)

    name: str
    commands: list[str]
    reads_only: bool


class PlanModel(BaseModel):
    """`--dry-run --json`."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["eagletui.plan/1"] = Field(default="eagletui.plan/1", alias="schema")
    steps: list[PlanStep]


def step_event(step: Step, now: float) -> StepEvent:
    """The step as it is now."""
    took = elapsed(step, now)
    return StepEvent(
        time=now_iso(),
        name=step.name.value,
        status=step.status,
        text=plain(step.text),
        lines=[plain(line) for line in step.lines],
        elapsed_s=None if took is None else round(took, 2),
        timeout_s=step.timeout_s,
    )


def plan_model(commands: Sequence[DryCommand]) -> PlanModel:
    """The steps in their order, each once."""
    steps: dict[str, list[DryCommand]] = {}
    for command in commands:
        steps.setdefault(command.step, []).append(command)
    return PlanModel(
        steps=[
            PlanStep(
                name=name,
                commands=[plain(command_line(one)) for one in told],
                reads_only=all(one.reads_only for one in told),
            )
            for name, told in steps.items()
        ]
    )


_STATES: dict[Ending, State] = {
    "never-started": State.CRASHED, "crashed": State.CRASHED, "stalled": State.STALLED, "no-link": State.OFFLINE,
}  # fmt: skip


def _state(progress: Progress) -> State:
    if progress.ending == "done":
        return State.ABSENT if progress.kind == "stop" else State.STARTING
    return _STATES.get(progress.ending, State.UNKNOWN)


def result_event(progress: Progress, watched: Ended | None, exit_status: int) -> ResultEvent:
    """The last event. `watched`: how the watch over the new server ended, where there was one."""
    step = None if progress.step is None else progress.step.name.value
    if watched is not None:
        diagnosis = result_of(watched).diagnosis
        if diagnosis is None and progress.diagnosis is not None:
            diagnosis = DiagnosisModel.of(progress.diagnosis)
        state = watched.state if progress.ending in {"done", "timed-out", "stalled"} else _state(progress)
        update = {"exit": exit_status, "step": step, "diagnosis": diagnosis, "state": state.value}
        return result_of(watched).model_copy(update=update)
    return ResultEvent(
        time=now_iso(),
        exit=exit_status,
        step=step,
        state=_state(progress).value,
        reason=ReasonModel(code=progress.ending, text=plain(_sentences(progress.text, progress.now_true))),
        server=None,
        ready_s=None if progress.ready_s is None else round(progress.ready_s, 2),
        phases=[],
        diagnosis=None if progress.diagnosis is None else DiagnosisModel.of(progress.diagnosis),
    )


def _sentences(*texts: str) -> str:
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in texts if text)


def refused_event(exit_status: int, code: str, text: str) -> ResultEvent:
    """Nothing was begun, and why."""
    return ResultEvent(
        time=now_iso(), exit=exit_status, step=None, state=State.UNKNOWN.value, reason=ReasonModel(code=code, text=plain(text)), server=None,
        ready_s=None, phases=[], diagnosis=None,
    )  # fmt: skip
