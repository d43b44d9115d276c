"""Starting the stand-in engine as a real process, here or as another user."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.sshd import free_port

STAND_IN = Path(__file__).parent / "stand_in"
CANARY = "sk-canary-7f3e9d1c5b"
"""A secret that must never come out anywhere."""


@dataclass(slots=True)
class Engine:
    """A running stand-in: its launcher, port and log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    started_elsewhere: int | None = None
    """The session of one that was not started here (then `process` is not its launcher)."""

    @property
    def session(self) -> int:
        """What tells its processes from others of the same user."""
        return self.pid if self.started_elsewhere is None else self.started_elsewhere

    @property
    def pid(self) -> int:
        """The launcher's pid."""
        return self.process.pid

    def children(self) -> dict[str, int]:
        """Pid by process title."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) == self.pid:
                    title = (stat.parent / "cmdline").read_bytes().split(b"\0")[0].decode()
                    found[title] = int(stat.parent.name)
        return found

    def wait_for(self, text: str, seconds: float = 15.0) -> None:
        """Until the log holds a text."""
        until = time.monotonic() + seconds
        while text not in self.log.read_text(errors="replace"):
            assert time.monotonic() < until, f"{text!r} never came: {self.log.read_text(errors='replace')[-500:]}"
            time.sleep(0.05)


@contextmanager
def running_engine(folder: Path, *, pace_s: float = 0.05, tp: int = 2, port: int | None = None) -> Iterator[Engine]:
    """A stand-in SGLang as our own user; it and its children are ended afterwards."""
    port, log = port or free_port(), folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sglang.launch_server", "--model-path", "/models/tiny", "--port", str(port), "--tp", str(tp), "--api-key", CANARY],
            env={**os.environ, "PYTHONPATH": str(STAND_IN), "PACE_S": str(pace_s)},
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield Engine(process, port, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


@contextmanager
def engine_of_user(user: str, home: Path, *, pace_s: float = 0.05, log_mode: int = 0o644) -> Iterator[tuple[int, Path]]:
    """The same as another user (we are root), with the system's own Python. Gives its port and log."""
    with user_engine(user, home, pace_s=pace_s, log_mode=log_mode) as engine:
        yield engine.port, engine.log


@contextmanager
def user_engine(
    user: str,
    home: Path,
    *,
    pace_s: float = 0.05,
    log: Path | None = None,
    log_mode: int = 0o644,
    appends: bool = False,
    lines_per_s: float | None = None,
    prefix: Sequence[str] = (),
) -> Iterator[Engine]:
    """A stand-in of another user, with the system's own Python.

    `log`: a file that is there already, instead of `home`/server.log. `appends`: its descriptor does (as `>>` makes
    it). `lines_per_s`: the numbered lines of the stand-in. `prefix`: a program that starts it (`nsenter …`, `setsid`).
    """
    place = home / "engine"
    shutil.copytree(STAND_IN, place, dirs_exist_ok=True)
    if log is None:
        log = home / "server.log"
        log.touch()
        subprocess.run(["chown", f"{user}:", str(log)], check=True, timeout=20)
        log.chmod(log_mode)
    subprocess.run(["chown", "-R", f"{user}:", str(place)], check=True, timeout=20)
    port = free_port()
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(place), "PACE_S": str(pace_s), "HOME": str(home)}
    if lines_per_s is not None:
        env["LINES_PER_S"] = str(lines_per_s)
    with log.open("ab" if appends else "wb") as out:
        process = subprocess.Popen(
            [*prefix, "/usr/bin/python3", "-m", "sglang.launch_server", "--model-path", "/models/tiny", "--port", str(port), "--tp", "2"],
            env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, user=user, group=user, extra_groups=[],
        )  # fmt: skip
    try:
        yield Engine(process, port, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
