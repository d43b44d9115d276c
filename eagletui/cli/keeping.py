"""Where a command keeps the launches it watches: the user's own file, and for the demo one that goes with it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagletui.history.store import History
_FOLDER = "eagletui-demo-"
"""How a folder of the demo's history is called, before the pid of whose it is."""


def history_of(node: str, speed: float | None = None) -> History:
    """The history to give to a NodeMonitor of the node that a user named. No file is opened or made before its first use."""
    from eagletui.history.store import History, default_path

    if node != "demo":
        return History(default_path())
    _remove_left_ones()
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER}{os.getpid()}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return History(folder / "history.db", first=lambda history: _fill(history, speed or 1.0))


def _remove_left_ones() -> None:
    """Folders of those that were ended by a signal: nobody looks into them again."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*-*"):
        pid = folder.name.removeprefix(_FOLDER).partition("-")[0]
        if pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)  # what is another user's stays


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _fill(history: History, speed: float) -> None:
    """Write down the starts that the simulated node had before, as they would have been watched. Raises HistoryError."""
    from eagletui.demo import shape
    from eagletui.demo.earlier import earlier_starts, log_of_a_start
    from eagletui.demo.shape import HOST, MACHINE_ID
    from eagletui.history.launches import Identity, LaunchRecord, PhaseTime, kept_command, kind_of, machine_name
    from eagletui.history.reads import is_cold
    from eagletui.logs.reader import Reader
    from eagletui.shell.poll import Machine

    now = float(int(time.time()))  # stamps are whole seconds: wherever in one a start began, it is told alike
    reader = Reader("sglang")
    reader.feed(log_of_a_start(now, speed), 0.0)
    state = reader.state
    between = (state.ready_s or 0.0) - sum(phase.seconds or 0.0 for phase in state.phases)
    machine = machine_name(Machine(None, MACHINE_ID, HOST), "demo")
    kind = kind_of("sglang", shape.COMMAND, shape.MODEL, shape.RANKS)
    for start in earlier_starts(speed):
        phases = tuple(
            PhaseTime(phase.name, phase.seconds * start.pace(phase.name))
            for phase in state.phases
            if phase.seconds is not None and phase.name != "serving"
        )
        history.record(
            LaunchRecord(
                identity=Identity(machine, None, start.pid, start.ticks),
                node="demo",
                kind=kind,
                command=kept_command(shape.COMMAND),
                started=datetime.fromtimestamp(now, UTC) - timedelta(seconds=start.ago_s),
                outcome="ready",
                phases=phases,
                ready_s=max(0.0, between) + sum(phase.seconds or 0.0 for phase in phases),
                lead_s=start.lead_s,
                read=start.read,
                size=start.size,
                cold=is_cold(start.read, start.size),
            )
        )
