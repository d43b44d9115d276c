"""Runs named scripts for real: the wire's line in a login shell, its stdin, and the reader's view of stdout."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from eagletui.shell.script import Command, MarkStripper, wire
from tests.requires import require

LOGIN_SHELLS = ("sh", "bash", "dash", "fish", "tcsh", "busybox", "bash-as-sh")
"""`busybox` and `bash-as-sh` are that program as login shell *and* as `sh`, as on Alpine and on Red Hat."""
_AS_SH = {"busybox": "busybox", "bash-as-sh": "bash"}


@cache
def applets(busybox: str) -> tuple[str, ...]:
    """Every program that this busybox is."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, timeout=10, check=True)
    return tuple(name for name in listed.stdout.split() if name not in {"busybox", "["})


def login(shell: str, folder: Path) -> tuple[list[str], dict[str, str]]:
    """How sshd would start this login shell with a command line, and the environment it gets."""
    path = require(_AS_SH.get(shell, shell))
    environment = {k: v for k, v in os.environ.items() if k not in {"ENV", "BASH_ENV"}} | {"HOME": str(folder)}
    if shell not in _AS_SH:
        return [path, "-c"], environment
    programs = folder / f"{shell}-bin"
    if not programs.exists():
        programs.mkdir()
        for name in applets(path) if shell == "busybox" else ("sh",):
            (programs / name).symlink_to(path)
    link = programs / "sh"
    return [str(link), "-c"], environment | {"PATH": f"{programs}{os.pathsep}{environment['PATH']}"}


def run(command: Command, folder: Path, shell: str = "sh", timeout: float = 20.0) -> tuple[int, bytes, bytes]:
    """Exit status, stdout without noise, stderr. stdin ends after the command's data."""
    argv, environment = login(shell, folder)
    sent = wire(command)
    done = subprocess.run(
        [*argv, sent.line],
        input=sent.stdin,
        capture_output=True,
        timeout=timeout,
        env=environment,
        cwd=folder,
        check=False,
    )
    stripper = MarkStripper()
    return done.returncode, stripper.decode(done.stdout), MarkStripper().decode(done.stderr)


@contextmanager
def stream(command: Command, folder: Path, shell: str = "sh") -> Iterator[subprocess.Popen[bytes]]:
    """A running script whose stdin stays open. On the way out its stdin is closed and it must end by itself."""
    argv, environment = login(shell, folder)
    sent = wire(command)
    process = subprocess.Popen(
        [*argv, sent.line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        process.stdin.write(sent.stdin)
        process.stdin.flush()
        yield process
        process.stdin.close()
        process.wait(timeout=10)
    finally:
        process.stdin.close()
        if process.poll() is None:
            process.kill()
            process.wait(timeout=10)
        process.stdout.close()
        process.stderr.close()
        with suppress(ProcessLookupError):  # busybox's tail has no --pid, and ends only when it writes
            os.killpg(process.pid, signal.SIGKILL)


class Reading:
    """What a stream has said so far, without noise."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._file = process.stdout
        os.set_blocking(self._file.fileno(), False)
        self._stripper = MarkStripper()

    def more(self) -> bytes:
        """What has come since; b"" when nothing has."""
        try:
            chunk = os.read(self._file.fileno(), 65536)
        except BlockingIOError:
            return b""
        return self._stripper.decode(chunk)
