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
MEASURED_AFTER_S = 60.0
"""How long after an earlier start of the demo was ready somebody measured it."""
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
    """Write down what the simulated node did before, as it would have been watched and measured: its starts, and a run of the newest one, which is
    the baseline. Raises HistoryError."""
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
    starts = earlier_starts(speed)
    for start in starts:
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
    newest = starts[0]
    ready = now - newest.ago_s + (newest.lead_s + (state.ready_s or 0.0))
    _measure(
        history,
        machine,
        Identity(machine, None, newest.pid, newest.ticks).key,
        newest.ticks,
        ready + MEASURED_AFTER_S,
        speed,
    )


def _measure(history: History, machine: str, launch: str, seed: int, began: float, speed: float) -> None:
    """The run that a person would have made of a start when it was new. `seed`: whatever is that start's own."""
    from eagletui.bench.conclude import conclude
    from eagletui.bench.kept import KeptRuns
    from eagletui.bench.outcome import Facts, Measured, Repeat, Row
    from eagletui.bench.presets import preset_named
    from eagletui.demo import shape
    from eagletui.demo.benchmarked import benchmarked
    from eagletui.demo.facts import VERSION
    from eagletui.engines.command_line import flags

    load = preset_named("quick")
    rows: list[Row] = []
    repeats: list[Repeat] = []
    at = began
    for number, answers in enumerate(
        benchmarked(
            seed, repeats=load.repeats, requests=load.requests, tokens=load.output_len, prompt=load.input_len,
            at_once=load.concurrency or 1, speed=speed,
        )
    ):  # fmt: skip
        sent = tuple(
            Row(
                number, index, one.sent_s, one.ttft_s * 1000, one.e2e_s * 1000, load.input_len, load.output_len,
                gaps_ms=tuple(gap * 1000 for gap in one.gaps_s),
            )
            for index, one in enumerate(answers)
        )  # fmt: skip
        seconds = max(one.sent_s + one.e2e_s for one in answers)
        steps = sum(one.steps for one in answers)
        repeats.append(Repeat(sent, seconds, at, at + seconds, load.output_len * len(sent) / steps))
        rows += sent
        at += seconds
    facts = Facts(
        "sglang", VERSION, shape.MODEL, dict(flags(shape.COMMAND)), "demo", machine, f"sglang:{shape.PORT}", shape.PORT, launch
    )  # fmt: skip
    kept = KeptRuns(history)
    result = conclude(kept.new_id(), load, facts, Measured(tuple(repeats)), began)
    kept.record(result, rows)
    kept.set_baseline(result.run)
