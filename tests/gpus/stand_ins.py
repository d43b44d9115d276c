"""Stand-in nvidia-smi programs as real processes, run the way a node runs them: by a named script, over stdin."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import Dialect, LoopParser
from eagletui.gpus.sequence import Ended, Outcome, Surveyed, full_survey
from eagletui.shell.script import Command, MarkStripper, wire
from eagletui.shell.scripts import LOOP_TOOL, RUN_TOOL

DATA = Path(__file__).parent.parent / "data" / "gpus"
CASES = sorted(p.parent.name for p in (DATA / "cases").glob("*/case.json"))


def build(folder: Path, gpus_txt: str, *, old_names: bool = False, drop: Sequence[str] = ()) -> Path:
    """A folder for PATH with the scripted stand-in. `drop`: starts of field names that this version does not know."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("nvidia-smi", "smi.awk"):
        (folder / name).write_bytes((DATA / "stand-in" / name).read_bytes())
    fields = (DATA / "stand-in" / "fields.txt").read_text().splitlines()
    gone = ("clocks_event_reasons", *drop) if old_names else tuple(drop)
    (folder / "fields.txt").write_text("".join(f"{f}\n" for f in fields if not f.startswith(gone)))
    (folder / "gpus.txt").write_text(("opt\tnames\told\n" if old_names else "") + gpus_txt)
    (folder / "nvidia-smi").chmod(0o755)
    return folder


def program(folder: Path, text: str) -> Path:
    """A folder for PATH whose nvidia-smi is this sh text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nvidia-smi").write_text("#!/bin/sh\n" + text)
    (folder / "nvidia-smi").chmod(0o755)
    return folder


def case(folder: Path, name: str) -> Path:
    """The stand-in of a stored case."""
    source = DATA / "cases" / name
    if (source / "gpus.txt").exists():
        build(folder, (source / "gpus.txt").read_text())
    else:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "nvidia-smi").write_bytes((source / "nvidia-smi").read_bytes())
        (folder / "nvidia-smi").chmod(0o755)
    if (source / "delay").exists():
        (folder / "delay").write_bytes((source / "delay").read_bytes())
    return folder


def expectation(name: str) -> dict[str, Any]:
    """What the report of a stored case must contain."""
    found: dict[str, Any] = json.loads((DATA / "cases" / name / "case.json").read_text())["expect"]
    return found


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def run_tool(folder: Path, argv: Sequence[str], seconds: float) -> Outcome:
    """One call with a deadline on the "node", as run-tool makes it."""
    sent = wire(Command(RUN_TOOL, (f"{seconds:g}", *argv)))
    done = subprocess.run(
        ["sh", "-c", sent.line],
        input=sent.stdin,
        capture_output=True,
        env=_environment(folder),
        timeout=30,
        check=False,
    )
    strip = MarkStripper()
    stdout = strip.decode(done.stdout)
    assert strip.seen
    return Outcome(done.returncode, stdout, MarkStripper().decode(done.stderr))


def drive(folder: Path, seconds: float = 10) -> tuple[Surveyed, list[tuple[str, ...]]]:
    """A whole survey of a stand-in, and the calls that it took."""
    steps = full_survey()
    calls = [next(steps)]
    while True:
        try:
            calls.append(steps.send(run_tool(folder, calls[-1], seconds)))
        except StopIteration as stop:
            found: Surveyed = stop.value
            return found, calls


def answer(
    replies: Sequence[Outcome | Ended], dialect: Dialect = Dialect.NEW
) -> tuple[Surveyed, list[tuple[str, ...]]]:
    """A survey that is told these replies in turn; it must ask for exactly as many."""
    steps = full_survey(dialect)
    calls = [next(steps)]
    for at, reply in enumerate(replies):
        try:
            calls.append(steps.send(reply))
        except StopIteration as stop:
            assert at == len(replies) - 1, f"it asked for {at + 1} calls only"
            found: Surveyed = stop.value
            return found, calls
    raise AssertionError(f"it asks for one more call: {calls[-1]}")


@contextmanager
def loop_process(folder: Path, argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A loop on the "node", as loop-tool makes it; it ends when its stdin does."""
    sent = wire(Command(LOOP_TOOL, ("900", *argv)))
    with subprocess.Popen(
        ["sh", "-c", sent.line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(folder),
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(sent.stdin)
        process.stdin.flush()
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def read_rounds(process: subprocess.Popen[bytes], parser: LoopParser, wanted: int, seconds: float) -> list[GpuReport]:
    """The first rounds that a loop prints, or those that came within the time."""
    assert process.stdout is not None
    found: list[GpuReport] = []
    strip, end = MarkStripper(), time.monotonic() + seconds
    while len(found) < wanted and (left := end - time.monotonic()) > 0:
        if select.select([process.stdout], [], [], left)[0]:
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                break
            found += parser.feed(strip.decode(chunk))
    return found


def as_json(report: GpuReport) -> dict[str, Any]:
    """The report as `status --json` names it."""
    return {
        "gpus": json.loads(json.dumps([asdict(gpu) for gpu in report.gpus])),
        "gpu_error": asdict(report.error) if report.error else None,
    }


def mismatches(want: Any, got: Any, path: str = "$") -> list[str]:
    """Where `got` does not contain `want`: own keys of objects, whole lists, and matchers that start with `$`."""
    if isinstance(want, dict):
        marks = [key for key in want if key.startswith("$")]
        if marks:
            return [] if _matches(marks[0], want, got) else [f"{path}: {got!r} is not {want!r}"]
        if not isinstance(got, Mapping):
            return [f"{path}: {got!r} is no object"]
        return [fault for key, value in want.items() for fault in mismatches(value, got.get(key), f"{path}.{key}")]
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return [f"{path}: {got!r} is no list of {len(want)}"]
        return [f for i, (w, g) in enumerate(zip(want, got, strict=True)) for f in mismatches(w, g, f"{path}[{i}]")]
    return [] if want == got else [f"{path}: {got!r}, wanted {want!r}"]


def _matches(mark: str, want: Mapping[str, Any], got: Any) -> bool:
    value = want[mark]
    number = isinstance(got, int | float)
    tests: dict[str, Callable[[], bool]] = {
        "$approx": lambda: number and bool(abs(got - value) <= want["$tol"]),
        "$contains": lambda: str(value).lower() in str(got).lower(),
        "$absent_or_null": lambda: got is None,
        "$min": lambda: number and bool(got >= value),
        "$length": lambda: len(got) == value,
        "$any_of": lambda: any(not mismatches(w, got) for w in value),
        "$has": lambda: any(not mismatches(value, g) for g in got),
        "$lacks": lambda: all(mismatches(value, g) for g in got),
    }
    return tests[mark]()
