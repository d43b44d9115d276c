"""A sweep carried out: each cell is launched by the sequence of a restart, waited for, measured and written down. A cell that cannot be measured is
written down with the reason, and the next one has its turn; what is no cell's fault (the link, another eagletui, a stop that failed) ends the sweep,
to be gone on with."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from eagletui.bench.outcome import BenchProgress, Result
from eagletui.bench.sweep.cells import Cell, Changes
from eagletui.bench.sweep.state import CellState, SweepState, SweepStore
from eagletui.engines.command_line import change, value_of
from eagletui.errors import BenchError, NodeError
from eagletui.launching.operator import Operator
from eagletui.launching.plan import Plan, Wish
from eagletui.launching.steps import Progress

Measure = Callable[[Cell, Progress, Callable[[BenchProgress], None]], Awaitable[Result]]
"""Benchmarks the server that was just launched. Raises BenchError, NodeError."""
_CELLS_FAULT = frozenset({"crashed", "stalled", "timed-out", "never-started"})
"""Ends of a sequence that tell of the cell, and not of the node."""


class EndedError(Exception):
    """The sweep cannot go on now; the cell stays unfinished."""

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every cell. `port`: of the server that is meant, None where there is but one. `accepted`: codes of the questions that the person
    has answered with yes before it began; a plan that asks another one is not begun. `again`: launch what was refused as of no help, too."""

    port: int | None
    accepted: frozenset[str]
    again: bool = False


def base_values(command: tuple[str, ...], cells: tuple[CellState, ...]) -> Changes:
    """What each flag that any cell changes was before. Without a profile a restart begins with what runs now, which is the cell before."""
    flags = dict.fromkeys(flag for one in cells for flag, _ in one.cell.changes)
    return tuple((flag, value_of(command, flag)) for flag in flags)


def changes_of(cell: Cell, base: Changes) -> Changes:
    """A cell's flags, and those that another cell may have left, as they were."""
    own = dict(cell.changes)
    return (*((flag, value) for flag, value in base if flag not in own), *cell.changes)


def would_be(command: tuple[str, ...], cell: Cell, base: Changes) -> tuple[str, ...]:
    """The command that a cell runs."""
    return change(command, changes_of(cell, base))


class Sweep:
    """Carries a sweep out from where `state` is. `on_change` is called after each change of `state`, and of `running` and `measuring`."""

    def __init__(
        self, state: SweepState, store: SweepStore, operator: Operator, measure: Measure, terms: Terms, on_change: Callable[[], None]
    ) -> None:  # fmt: skip
        self.state = state
        self.running: Progress | None = None
        self.measuring: BenchProgress | None = None
        self._store = store
        self._operator = operator
        self._measure = measure
        self._terms = terms
        self.on_change = on_change

    async def run(self) -> SweepState:
        """To the end. Raises EndedError when it stopped before, NodeError, SweepError."""
        self._keep(replace(self.state, pid=os.getpid(), over=False, why=""))
        try:
            while (number := self.state.at) is not None:
                await self._cell(number)
        except (EndedError, NodeError) as error:
            self._keep(replace(self.state, pid=None, doing="", why=str(error)))
            raise
        except asyncio.CancelledError:
            self._keep(replace(self.state, pid=None, doing="", why="It was interrupted."))
            raise
        self._keep(replace(self.state, pid=None, doing="", over=True))
        return self.state

    async def put_back(self, *, stop: bool, baseline: str | None, terms: Terms) -> Progress | None:
        """When all is done: stop what runs, or launch the baseline again. None where that is not needed, or would ask. Raises NodeError."""
        last = self.state.cells[-1]
        if not stop and last.cell.baseline and last.outcome == "measured":
            return None
        wish = Wish(
            "stop" if stop else "restart", port=terms.port, profile=self.state.profile, variant=None if stop else baseline,
            changes=() if stop else self.state.base,
        )  # fmt: skip
        plan = await self._operator.prepare(wish)
        if plan.refused or any(one.code not in terms.accepted for one in plan.questions):
            return None
        return await self._followed(await self._operator.check(plan))

    async def _cell(self, number: int) -> None:
        cell = self.state.cells[number].cell
        begun = CellState(cell, "running", began=time.time())
        self._keep(replace(self.state.put(number, begun), doing="launching"))
        state = await self._launched(begun)
        if state.outcome == "running" and self.running is not None:
            self._keep(replace(self.state.put(number, state), doing="measuring"))
            state = await self._measured(state, self.running)
        self._keep(replace(self.state.put(number, replace(state, ended=time.time())), doing=""))

    async def _launched(self, begun: CellState) -> CellState:
        cell = begun.cell
        self.running = self.measuring = None
        wish = Wish(
            "restart", port=self._terms.port, profile=self.state.profile, variant=cell.variant,
            changes=changes_of(cell, self.state.base), again=self._terms.again,
        )  # fmt: skip
        plan = await self._operator.prepare(wish)
        if plan.refused:
            return _failed(begun, "refused", "; ".join(one.text for one in plan.refusals))
        unasked = [one for one in plan.questions if one.code not in self._terms.accepted]
        if unasked:
            return _failed(begun, "asks", f"it would have asked: {'; '.join(one.text for one in unasked)}")
        plan = await self._operator.check(plan)
        bad = [one.text for one in plan.checks or () if one.result == "fail"]
        if bad:
            return _failed(begun, "preflight", "; ".join(bad))
        return _started(begun, await self._followed(plan))

    async def _followed(self, plan: Plan) -> Progress:
        run = self._operator.begin(plan)
        before = self._operator.on_change

        def news() -> None:
            self.running = run.progress
            self.on_change()

        self._operator.on_change = news
        try:
            self.running = await run.wait()
        finally:
            self._operator.on_change = before
        return self.running

    async def _measured(self, state: CellState, progress: Progress) -> CellState:
        def news(now: BenchProgress) -> None:
            self.measuring = now
            self.on_change()

        try:
            result = await self._measure(state.cell, progress, news)
        except BenchError as error:
            return _failed(state, "requests", str(error))
        finally:
            self.measuring = None
        if result.tok_s is None:
            told = result.failures[0].text if result.failures else "no request was answered"
            return replace(
                _failed(state, "requests", f"no request of {result.asked} was answered well: {told}"), result=result
            )
        return replace(state, outcome="measured", result=result)

    def _keep(self, state: SweepState) -> None:
        self.state = state
        self._store.write(state)
        self.on_change()


def _started(begun: CellState, progress: Progress) -> CellState:
    """Raises EndedError for what is not the cell's fault."""
    state = replace(begun, ready_s=progress.ready_s, log=progress.log)
    if progress.ending == "done":
        return state
    text = " ".join(part for part in (progress.text, progress.now_true) if part)
    if progress.ending in _CELLS_FAULT:
        found = progress.diagnosis
        told = progress.text or progress.ending
        return replace(_failed(state, progress.ending, told), diagnosis=None if found is None else found.code)
    if progress.ending == "refused":
        return _failed(state, "preflight", text)
    raise EndedError(text or f"The sequence ended: {progress.ending}.", progress.result)


def _failed(state: CellState, failure: str, text: str) -> CellState:
    return replace(state, outcome="failed", failure=failure, text=text)
