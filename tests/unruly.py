"""The stand-in engine that misbehaves (tests/stand_in/unruly) as a real process, here or as another user, and what else runs beside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.sshd import free_port

UNRULY = Path(__file__).parent / "stand_in" / "unruly"


def started_of(pid: int) -> int:
    """Field 22 of its stat: its identity together with the pid. 0: it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def lives(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until(true: Callable[[], object], what: str, seconds: float = 15.0) -> None:
    """Fails with `what` when it does not become true."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def package_for(folder: Path) -> Path:
    """A copy of the stand-in where another user may read it: the checkout may lie where only its owner gets."""
    place = folder / "unruly-package"
    if not place.exists():
        shutil.copytree(UNRULY, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


@dataclass(slots=True)
class Unruly:
    """A running one."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def pid(self) -> int:
        """The launcher's, unless something was put before it."""
        return self.process.pid

    def wait_for(self, text: str = "fired up", seconds: float = 20.0) -> None:
        """Until the log holds a text."""
        wait_until(lambda: text in self.log.read_text(errors="replace"), f"{text!r} never came", seconds)


def command_of(port: int, *more: str) -> tuple[str, ...]:
    """What is launched."""
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    return (python, "-m", "sglang.launch_server", "--model-path", "/m", "--port", str(port), "--tp", "2", *more)


@contextmanager
def unruly(
    folder: Path, words: str = "", *, user: str | None = None, before: Sequence[str] = (), more: Sequence[str] = ()
) -> Iterator[Unruly]:
    """One that does what `words` say (see the stand-in), in a session of its own; all of that session is ended afterwards. `before`: a program that
    starts it (the rest of its arguments are the command). `user`: whose it is (we are root)."""
    port, log = free_port(), folder / "unruly.log"
    package = package_for(folder) if user else UNRULY
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*before, *command_of(port, *more)],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(package), "UNRULY": f"slow=0.1 {words}", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, user=user, group=user,
            extra_groups=[] if user else None,
        )  # fmt: skip
    try:
        yield Unruly(process, port, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        for entry in Path("/dev/shm").glob(f"sgl_shm_{process.pid}*"):
            entry.unlink(missing_ok=True)
