"""What runs on the "node" (this machine) as the login user, so that a test can say in numbers what eagletui keeps there."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class NodeProcess(NamedTuple):
    """One process; `line` is its command line as one text."""

    pid: int
    ppid: int
    session: int
    line: str

    def __str__(self) -> str:
        line = " ".join(self.line.split())
        shown = line if len(line) < 120 else f"{line[:40]} … {line[-60:]}"
        return f"{self.pid} (of {self.ppid}) {shown}"


def processes_of(user: str, *, without: Collection[int] = ()) -> list[NodeProcess]:
    """Those of a user that live, but not sshd's own, nor those of the sessions `without` (a server that a test runs)."""
    uid = pwd.getpwnam(user).pw_uid
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if folder.stat().st_uid != uid:
                continue
            comm, rest = (folder / "stat").read_text(errors="replace").partition("(")[2].rsplit(")", 1)
            state, ppid, _, session = rest.split()[:4]
            if state in "ZX" or comm.startswith("sshd") or int(session) in without:
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            found.append(NodeProcess(int(folder.name), int(ppid), int(session), line or f"[{comm}]"))
    return sorted(found)


def told(processes: Collection[NodeProcess]) -> str:
    """For a test's message: the number, and each one."""
    return f"{len(processes)} processes on the node: " + "; ".join(str(one) for one in processes)


def seconds_until_gone(user: str, *, limit: float, without: Collection[int] = ()) -> float:
    """How long it takes until nothing of a user runs. Fails after `limit` seconds, with what is left."""
    began = time.monotonic()
    while left := processes_of(user, without=without):
        took = time.monotonic() - began
        assert took < limit, f"after {took:.1f} s there are still {told(left)}"
        time.sleep(0.05)
    return time.monotonic() - began


def end_processes_of(user: str, *, without: Collection[int] = ()) -> None:
    """Kill what is left, so that a test does not fail because of another one."""
    for one in processes_of(user, without=without):
        with suppress(ProcessLookupError):
            os.kill(one.pid, signal.SIGKILL)


def files_of(user: str) -> dict[str, float]:
    """Every file of a user where programs leave temporary ones, with its time of change."""
    entry = pwd.getpwnam(user)
    found: dict[str, float] = {}
    for top in ("/tmp", "/var/tmp", "/dev/shm", "/run", entry.pw_dir):
        for folder, names, files in os.walk(top):
            names[:] = [name for name in names if not os.path.ismount(Path(folder, name))]
            for name in (*names, *files):
                path = Path(folder, name)
                with suppress(OSError):
                    status = path.lstat()
                    if status.st_uid == entry.pw_uid:
                        found[str(path)] = status.st_ctime
    return found
