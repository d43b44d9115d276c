"""Where `sweep` tells how it goes: events on stdout, or lines on stderr with one that is redrawn on a terminal. What the steps of each launch tell is
`restart --wait`'s own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from eagletui.bench.sweep.cells import masked_changes
from eagletui.bench.sweep.report import Line, columns
from eagletui.cli import wait_text as text
from eagletui.cli.sequence_output import JsonSteps, LiveSteps, PlainSteps, StepOutput, step_output_for
from eagletui.cli.wait_output import JsonOutput, LiveOutput, Output, PlainOutput, output_for
from eagletui.monitor.diagnosis_model import plain
from eagletui.monitor.event_model import now_iso
from eagletui.ui.format import duration

if TYPE_CHECKING:
    from eagletui.bench.outcome import Against, BenchProgress
    from eagletui.bench.sweep.state import CellState, SweepState
    from eagletui.launching.steps import Progress

BENCH_EVERY_S = 1.0
"""A progress event of a benchmark this often at most."""


class CellEvent(BaseModel):
    """A cell began, or had its turn. `number` from 1. `left_s`: seconds to the sweep's end by what cells took so far."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["eagletui.event/1"] = Field(default="eagletui.event/1", alias="schema")
    event: Literal["cell"] = "cell"
    time: str
    number: int
    of: int
    name: str
    baseline: bool
    outcome: str
    run: str | None
    tok_s: float | None
    ready_s: float | None
    failure: str | None
    text: str | None
    diagnosis: str | None
    left_s: float | None


class BenchEvent(BaseModel):
    """How far a cell's benchmark is."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["eagletui.event/1"] = Field(default="eagletui.event/1", alias="schema")
    event: Literal["bench"] = "bench"
    time: str
    stage: str
    repeat: int
    repeats: int
    done: int
    asked: int
    failed: int
    tok_s: float | None
    eta_s: float | None


def bench_event(progress: BenchProgress) -> BenchEvent:
    """As it is now."""
    return BenchEvent(
        time=now_iso(), stage=progress.stage, repeat=progress.repeat, repeats=progress.repeats, done=progress.done,
        asked=progress.asked, failed=progress.failed, tok_s=progress.tok_s, eta_s=progress.eta_s,
    )  # fmt: skip


class SweepCell(BaseModel):
    """A cell in the result."""

    model_config = ConfigDict(frozen=True)

    name: str
    baseline: bool
    variant: str | None
    changes: dict[str, str | bool | None]
    outcome: str
    run: str | None
    tok_s: float | None
    ci95_tok_s: tuple[float, float] | None
    ttft_p50_ms: float | None
    accept_len: float | None
    ready_s: float | None
    delta_pct: float | None
    verdict: str | None
    why: str | None
    failure: str | None
    text: str | None
    diagnosis: str | None


class SweepResult(BaseModel):
    """The last event. `complete`: every cell had its turn; `why`: why not, else null."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    schema_: Literal["eagletui.sweep/1"] = Field(default="eagletui.sweep/1", alias="schema")
    event: Literal["result"] = "result"
    time: str
    sweep: str
    node: str
    file: str
    exit: int
    complete: bool
    why: str | None
    failed: int
    cells: list[SweepCell]


def result_of(state: SweepState, lines: Iterable[Line], exit_status: int) -> SweepResult:
    """The whole of it: the cells that had their turn with what they are held against, and the ones still to come."""
    against = {line.cell.cell.turn: line.against for line in lines}
    return SweepResult(
        time=now_iso(),
        sweep=state.id,
        node=plain(state.node),
        file=plain(state.file),
        exit=exit_status,
        complete=state.at is None,
        why=plain(state.why) or None,
        failed=state.failed,
        cells=[_cell(one, against.get(one.cell.turn)) for one in state.cells],
    )


def _cell(one: CellState, against: Against | None) -> SweepCell:
    cell, result = one.cell, one.result
    return SweepCell(
        name=plain(cell.name),
        baseline=cell.baseline,
        variant=cell.variant,
        changes=masked_changes(cell.changes),
        outcome=one.outcome,
        run=None if result is None else result.run,
        tok_s=None if result is None or result.tok_s is None else result.tok_s.mean,
        ci95_tok_s=None if result is None else result.ci95,
        ttft_p50_ms=None if result is None or result.ttft_ms is None else result.ttft_ms.p50,
        accept_len=None if result is None else result.accept_len,
        ready_s=one.ready_s,
        delta_pct=None if against is None else against.delta_pct,
        verdict=None if against is None else against.verdict,
        why=None if against is None else plain(against.why),
        failure=one.failure,
        text=plain(one.text) or None,
        diagnosis=one.diagnosis,
    )


class SweepOutput(Protocol):
    """Is told what happens. Every method may raise what write_all does (NobodyReads, OSError)."""

    watching: Output
    colour: bool

    def say(self, lines: Iterable[str]) -> None:
        """Sentences for a person."""

    def cell(self, state: SweepState, number: int) -> None:
        """A cell begins, or had its turn."""

    def steps(self, state: SweepState, progress: Progress) -> None:
        """How its launch stands."""

    def bench(self, state: SweepState, progress: BenchProgress) -> None:
        """How its benchmark stands."""

    def end(self, result: SweepResult) -> None:
        """Nothing follows."""


def sweep_output_for(*, as_json: bool) -> SweepOutput:
    """What fits where we are."""
    out = output_for(as_json=as_json)
    if isinstance(out, JsonOutput):
        return JsonSweep(out)
    return LinesSweep(out)


class _Steps:
    """The steps of one launch after another: each is told from its begin."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._turn: int | None = None
        self._steps: StepOutput | None = None

    def of(self, turn: int | None) -> StepOutput:
        if self._steps is None or turn != self._turn:
            self._turn, self._steps = turn, _steps_for(self._out)
        return self._steps


def _steps_for(out: Output) -> StepOutput:
    match out:
        case JsonOutput():
            return JsonSteps(out)
        case LiveOutput():
            return LiveSteps(out)
        case PlainOutput():
            return PlainSteps(out)
    return step_output_for(as_json=False)


class JsonSweep:
    """Events, each written at once. A person's sentences go to stderr."""

    colour = False

    def __init__(self, out: JsonOutput) -> None:
        self.watching: Output = out
        self._out = out
        self._steps = _Steps(out)
        self._benched_at = float("-inf")

    def say(self, lines: Iterable[str]) -> None:
        """See SweepOutput."""
        self._steps.of(None).say(lines)

    def cell(self, state: SweepState, number: int) -> None:
        """See SweepOutput."""
        one = state.cells[number]
        result = one.result
        self._out.write(
            CellEvent(
                time=now_iso(), number=number + 1, of=len(state.cells), name=plain(one.cell.name), baseline=one.cell.baseline,
                outcome=one.outcome, run=None if result is None else result.run,
                tok_s=None if result is None or result.tok_s is None else result.tok_s.mean, ready_s=one.ready_s, failure=one.failure,
                text=plain(one.text) or None, diagnosis=one.diagnosis, left_s=state.left_s(time.time()),
            ).model_dump_json(by_alias=True)
        )  # fmt: skip

    def steps(self, state: SweepState, progress: Progress) -> None:
        """See SweepOutput."""
        self._steps.of(state.at).show(progress)

    def bench(self, state: SweepState, progress: BenchProgress) -> None:  # noqa: ARG002 - see SweepOutput
        """See SweepOutput."""
        now = time.monotonic()
        if now - self._benched_at < BENCH_EVERY_S:
            return
        self._benched_at = now
        self._out.write(bench_event(progress).model_dump_json(by_alias=True))

    def end(self, result: SweepResult) -> None:
        """See SweepOutput."""
        self._out.write(result.model_dump_json(by_alias=True))


class LinesSweep:
    """Lines on stderr, and on a terminal one below them that is redrawn."""

    def __init__(self, out: Output) -> None:
        self.watching: Output = out
        self.colour = isinstance(out, LiveOutput) and out.colour
        self._out = out
        self._steps = _Steps(out)

    def say(self, lines: Iterable[str]) -> None:
        """See SweepOutput."""
        self._steps.of(None).say(lines)

    def cell(self, state: SweepState, number: int) -> None:
        """See SweepOutput."""
        one = state.cells[number]
        head = f"cell {number + 1} of {len(state.cells)}: {text.safe(one.cell.name)}"
        if one.outcome == "failed":
            told = f"{head} · {one.failure}: {text.safe(one.text)}"
        elif one.result is not None:
            _, ready, tok_s, ci, ttft, accept, *_ = columns(Line(one, None))
            told = f"{head} · ready after {ready} · {tok_s} ± {ci} tok/s · TTFT {ttft} · accept {accept}"
        else:
            left = state.left_s(time.time())
            told = head if left is None else f"{head} · about {duration(left)} left"
        self.say((told,))

    def steps(self, state: SweepState, progress: Progress) -> None:
        """See SweepOutput."""
        self._steps.of(state.at).show(progress)

    def bench(self, state: SweepState, progress: BenchProgress) -> None:  # noqa: ARG002 - see SweepOutput
        """See SweepOutput."""
        if isinstance(self._out, LiveOutput):
            rate = "" if progress.tok_s is None else f" · {progress.tok_s:.1f} tok/s"
            failed = f" · {progress.failed} failed" if progress.failed else ""
            eta = "" if progress.eta_s is None else f" · {duration(progress.eta_s)} to go"
            line = f"  measuring · {progress.done} of {progress.asked} requests{rate}{failed}{eta}"
            self._out.draw([], line[: self._out.room()])

    def end(self, result: SweepResult) -> None:
        """See SweepOutput: the report is the command's own."""
