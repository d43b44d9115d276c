"""A benchmark as a whole: who is measured, by whom, what it comes to, and that it is kept. What the screen and the command line use (runner.Bench)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from eagletui.bench.conclude import conclude
from eagletui.bench.load import Load
from eagletui.bench.outcome import BenchProgress, Measured, Result
from eagletui.bench.presets import PRESETS
from eagletui.bench.runner import Runner, Target
from eagletui.errors import BenchError, HistoryError, RefusedError
from eagletui.history.runs import new_id

if TYPE_CHECKING:
    from eagletui.bench.kept import KeptRuns

RUNNERS: Final[dict[str, str]] = {
    "builtin": "eagletui.bench.builtin:BuiltinRunner",
    "bench_serving": "eagletui.bench.runners.bench_serving:BenchServingRunner",
}
"""Runner to module:class, imported when it is used."""


class Source(Protocol):
    """Finds the server that is meant."""

    async def target(self, tell: Callable[[str], None]) -> Target:
        """`tell` is told what is waited for, a few words. Raises NothingThereError, RefusedError (several), BenchError, NodeError."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its result, or what was raised."""

    result: Result | None = None
    error: BaseException | None = None


class SessionRun:
    """See runner.BenchRun."""

    def __init__(self, session: BenchSession, load: Load, run: str) -> None:
        self.load = load
        self.run = run
        self.kept = False
        """It has its place in the history."""
        self._session = session
        self._progress = BenchProgress(
            "preparing", repeats=load.repeats, asked=load.requests * load.repeats, at=time.monotonic()
        )
        self._aborted = False
        self._task = asyncio.create_task(self._whole())

    @property
    def progress(self) -> BenchProgress:
        """See runner.BenchRun."""
        return self._progress

    def abort(self) -> None:
        """See runner.BenchRun."""
        if not self._task.done() and not self._aborted:
            self._aborted = True
            self._task.cancel()

    async def wait(self) -> Result:
        """See runner.BenchRun."""
        ended = await asyncio.shield(self._task)
        if ended.result is not None:
            return ended.result
        raise ended.error if ended.error is not None else BenchError("nothing was measured")

    async def _whole(self) -> Ended:
        """Never raises but when it is cancelled by somebody else than `abort`."""
        began = time.time()
        runner = runner_named(self.load.runner)
        target: Target | None = None
        try:
            target = await self._session.source.target(self._waits)
            self._session.quiet(True)
            measured = await runner.run(self.load, target, self._told)
            return await self._concluded(target, measured, began, complete=True)
        except asyncio.CancelledError:
            if not self._aborted:
                raise
            measured_so_far: Measured | None = getattr(runner, "partial", None)
            if target is None or measured_so_far is None or not any(repeat.rows for repeat in measured_so_far.repeats):
                return Ended(error=BenchError("it was ended before anything was measured"))
            return await self._concluded(target, measured_so_far, began, complete=False)
        except ExceptionGroup as group:
            return Ended(error=_first(group))
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            return Ended(error=error)
        finally:
            self._session.quiet(False)
            self._told(replace(self._progress, stage="ended", at=time.monotonic()))

    async def _concluded(self, target: Target, measured: Measured, began: float, *, complete: bool) -> Ended:
        kept = self._session.kept
        load = replace(self.load, api=measured.api or self.load.api)
        notes: list[str] = []
        baseline: Result | None = None
        if kept is not None:
            try:
                baseline = await asyncio.to_thread(kept.baseline_for, load, target.facts)
            except HistoryError as error:
                notes.append(f"it was held against no baseline: {error}")
        result = conclude(self.run, load, target.facts, measured, began, complete=complete, against=baseline)
        if kept is not None and self._session.keeps:
            rows = [row for repeat in measured.repeats for row in repeat.rows]
            try:
                await asyncio.to_thread(kept.record, result, rows)
                self.kept = True
            except HistoryError as error:
                notes = [f"it is not kept: {error}"]
        return Ended(replace(result, notes=(*result.notes, *dict.fromkeys(notes))))

    def _waits(self, what: str) -> None:
        self._told(replace(self._progress, line=what, at=time.monotonic()))

    def _told(self, progress: BenchProgress) -> None:
        self._progress = progress
        if self._session.on_change is not None:
            self._session.on_change()


class BenchSession:
    """See runner.Bench. `kept` None: nothing is kept, and nothing is compared. `quiet`: called with True when measuring begins, with False when it ended:
    who watches the server asks it as little as possible then. `keeps` False: it is compared and not kept."""

    def __init__(
        self, source: Source, kept: KeptRuns | None, *, presets: tuple[Load, ...] = PRESETS, quiet: Callable[[bool], None] = lambda _on: None, keeps:
        bool = True ) -> None:  # fmt: skip
        self.on_change: Callable[[], None] | None = None
        self.source = source
        self.kept = kept
        self.quiet = quiet
        self.keeps = keeps
        self._presets = presets
        self._current: SessionRun | None = None

    @property
    def current(self) -> SessionRun | None:
        """See runner.Bench."""
        return self._current

    def presets(self) -> tuple[Load, ...]:
        """See runner.Bench."""
        return self._presets

    def runners(self) -> tuple[str, ...]:
        """See runner.Bench."""
        return tuple(RUNNERS)

    def begin(self, load: Load) -> SessionRun:
        """See runner.Bench."""
        if self._current is not None and self._current.progress.stage != "ended":
            return self._current
        self._current = SessionRun(self, load, new_id())
        return self._current

    async def aclose(self) -> None:
        """See runner.Bench."""
        if self._current is not None:
            self._current.abort()
            await asyncio.gather(self._current.wait(), return_exceptions=True)


def runner_named(name: str) -> Runner:
    """A new one. Raises RefusedError for one that this eagletui has not."""
    from importlib import import_module

    if name not in RUNNERS:
        raise RefusedError(f"there is no runner {name!r}: there are {', '.join(RUNNERS)}")
    module, _, attribute = RUNNERS[name].partition(":")
    runner: Runner = getattr(import_module(module), attribute)()
    return runner


def _first(group: ExceptionGroup) -> BaseException:
    """What a task group's failure is of."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
