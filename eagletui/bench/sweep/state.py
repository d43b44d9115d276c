"""How far a sweep is: a small file for each, written anew after every change, so that one that was interrupted goes on at its first unfinished cell."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from eagletui.bench.load import Load
from eagletui.bench.outcome import Result
from eagletui.bench.sweep.cells import Cell
from eagletui.engines.command_line import Value
from eagletui.errors import EagletuiError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = 1
"""A file of another number is not gone on with."""
Outcome = Literal["pending", "running", "measured", "failed"]


class SweepError(EagletuiError):
    """A sweep's file that cannot be used, or one that another eagletui is at."""


@dataclass(frozen=True, slots=True)
class CellState:
    """What became of a cell. `failure`: one word ("refused", "preflight", "asks", "never-started", "crashed", "stalled",
    "timed-out", "requests"), `text` a sentence on it. `diagnosis`: its code where the log told one. `ready_s`: from launch to ready.
    `began`, `ended`: wall clock, seconds since the epoch."""

    cell: Cell
    outcome: Outcome = "pending"
    result: Result | None = None
    failure: str | None = None
    text: str = ""
    diagnosis: str | None = None
    ready_s: float | None = None
    log: str | None = None
    began: float | None = None
    ended: float | None = None

    @property
    def finished(self) -> bool:
        """It has had its turn."""
        return self.outcome in {"measured", "failed"}


@dataclass(frozen=True, slots=True)
class SweepState:
    """A sweep, as it is kept. `base`: the value that each flag had before anything was changed, where no profile says it. `doing`:
    what is done now, a few words. `pid`: the process that is at it, None while none is. `over`: it came to its end. `why`: why it stopped before
    that, a sentence."""

    id: str
    node: str
    file: str
    profile: str | None
    load: Load
    cells: tuple[CellState, ...]
    base: tuple[tuple[str, Value], ...] = ()
    began: float = 0.0
    doing: str = ""
    pid: int | None = None
    over: bool = False
    why: str = ""
    format: int = FORMAT

    @property
    def at(self) -> int | None:
        """The first cell that has not had its turn, None when all had."""
        return next((number for number, one in enumerate(self.cells) if not one.finished), None)

    @property
    def failed(self) -> int:
        """Cells that could not be measured."""
        return sum(one.outcome == "failed" for one in self.cells)

    def put(self, number: int, state: CellState) -> SweepState:
        """With another state of one cell."""
        return replace(self, cells=(*self.cells[:number], state, *self.cells[number + 1 :]))

    def left_s(self, now: float) -> float | None:
        """Seconds to its end, by what cells took so far; None before one was measured. `now`: wall clock."""
        took = [
            one.ended - one.began
            for one in self.cells
            if one.outcome == "measured" and one.began is not None and one.ended is not None
        ]
        number = self.at
        if not took or number is None:
            return None
        mean = sum(took) / len(took)
        began = self.cells[number].began
        spent = 0.0 if began is None else now - began
        return mean * (len(self.cells) - number - 1) + max(0.0, mean - spent)


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[SweepState]:
    from pydantic import TypeAdapter

    return TypeAdapter(SweepState)


def default_folder() -> Path:
    """Where sweeps are kept: `sweeps` in eagletui's folder of XDG_DATA_HOME."""
    from platformdirs import user_data_path

    return user_data_path("eagletui", appauthor=False) / "sweeps"


class SweepStore:
    """The files of a folder. Every method raises SweepError with a sentence."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, sweep: str) -> SweepState | None:
        """What is known of a sweep; None where it is new. One of another version is refused, and nothing of it is lost."""
        path = self._path(sweep)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SweepError(f"{path} cannot be read: {error.strerror}") from None
        try:
            state = _adapter().validate_json(content)
        except ValueError:
            raise SweepError(
                f"{path} holds no sweep that this eagletui can read; --fresh begins it anew (the file is kept beside it)"
            ) from None
        if state.format != FORMAT:
            raise SweepError(f"{path} is of another eagletui (format {state.format}); --fresh begins it anew")
        return state

    def write(self, state: SweepState) -> None:
        """Whole or not at all, for this user alone."""
        path = self._path(state.id)
        beside = path.with_suffix(f".{os.getpid()}.new")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_adapter().dump_json(state))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise SweepError(
                f"{path} cannot be written: {error.strerror}. What was measured is in the history"
            ) from None

    def set_aside(self, sweep: str) -> None:
        """Keep what was there under another name, and begin anew."""
        path = self._path(sweep)
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_suffix(f".{int(time.time())}.old"))

    @contextlib.contextmanager
    def alone(self, sweep: str) -> Iterator[None]:
        """While this process is at a sweep no other one is."""
        path = self._path(sweep).with_suffix(".lock")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SweepError(f"{path} cannot be made: {error.strerror}") from None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SweepError("another eagletui is at this sweep now; it goes on by itself") from None
            yield
        finally:
            os.close(descriptor)

    def under_way(self, node: str) -> tuple[SweepState, ...]:
        """Sweeps of a node that a living process is at, for a screen. What cannot be read is passed over."""
        found: list[SweepState] = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob("*.json"):
                with contextlib.suppress(SweepError):
                    state = self.read(path.stem)
                    if state is not None and state.node == node and state.pid is not None and self._is_held(state.id):
                        found.append(state)
        return tuple(found)

    def _is_held(self, sweep: str) -> bool:
        try:
            with self.alone(sweep):
                return False
        except SweepError:
            return True

    def _path(self, sweep: str) -> Path:
        return self.folder / f"{sweep}.json"
