"""The node of the budgets: a real sshd and an ordinary user, in a pid namespace of its own where that is permitted (what else
runs on this machine is then not there to look at), a stand-in engine and a stand-in nvidia-smi with eight GPUs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from eagletui.gpus.smi_rows import Dialect
from tests.engine import STAND_IN
from tests.node_processes import NodeProcess, processes_of
from tests.requires import require
from tests.sshd import Sshd, free_port, ssh_users, start_sshd

NVIDIA_SMI = """#!/bin/sh
# The process table is a shell's own work, so that what it costs is what asking costs.
case "$*" in
*--query-compute-apps*) echo apps >>"${0%/*}/calls"; exit 0;;
esac
exec /usr/bin/python3 -I "${0%/*}/gpus.py" "$@"
"""
GPUS = """import sys, time
rest = ", [N/A]" * {blanks}
try:
    while True:
        for i in range(8):
            print(f"{{i}}, GPU-0000000{{i}}-0000-0000-0000-000000000000{{rest}}")
        sys.stdout.flush()
        if "-l" not in sys.argv:
            break
        time.sleep(1)
except BrokenPipeError:
    pass
"""


@dataclass(slots=True)
class Engine:
    """A running stand-in: its launcher (with this machine's pid) and its children by their titles."""

    launcher: NodeProcess
    port: int
    log: Path
    children: dict[str, int]


@dataclass(slots=True)
class Node:
    """`namespace` is the pid of the namespace's first process (sshd), None where there is none."""

    sshd: Sshd
    user: str
    plain_user: str
    home: Path
    tools: Path
    namespace: int | None

    @property
    def target(self) -> str:
        """What to give to `eagletui connect`."""
        return f"{self.user}@127.0.0.1:{self.sshd.port}"

    def connect(self, *more: str) -> list[str]:
        """The command line of the screen."""
        return [sys.executable, "-m", "eagletui", "connect", self.target, "-F", str(self.sshd.config), *more]

    def ssh(self, user: str, command: str) -> list[str]:
        """The command line of OpenSSH's own client."""
        return ["ssh", "-F", str(self.sshd.config), "-p", str(self.sshd.port), f"{user}@127.0.0.1", command]

    def calls(self) -> int:
        """How often the process table of nvidia-smi was asked for."""
        return len((self.tools / "calls").read_text().splitlines())

    def launch(self, port: int, pace_s: float) -> Engine:
        """Start an engine whose log is silent once it is ready. Raises RuntimeError when it does not."""
        log = self.home / "server.log"
        line = (
            f"cd; LINES_PER_S=0 PACE_S={pace_s} PYTHONPATH=engine exec setsid --fork python3 -m sglang.launch_server "
            f"--model-path /models/tiny --port {port} </dev/null >>server.log 2>&1"
        )
        subprocess.run(self.ssh(self.user, line), check=True, capture_output=True, timeout=20)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            ours = processes_of(self.user)
            launchers = [one for one in ours if "-m sglang.launch_server" in one.line and f"--port {port}" in one.line]
            if launchers:
                mine = {one.line.split()[0]: one.pid for one in ours if one.ppid == launchers[0].pid}
                titled = {title: pid for title, pid in mine.items() if title.startswith("sglang::")}
                if len(titled) == 3:
                    return Engine(launchers[0], port, log, titled)
            time.sleep(0.02)
        raise RuntimeError(f"the stand-in engine did not start: {log.read_text(errors='replace')[-500:]}")

    def end(self, engine: Engine) -> None:
        """Kill all that is left of an engine."""
        for one in processes_of(self.user):
            if one.session == engine.launcher.session:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)


@contextmanager
def bench_node() -> Iterator[Node]:
    """Needs root. Everything is gone afterwards."""
    for name in ("sshd", "ssh", "ssh-keygen", "useradd", "userdel", "setsid"):
        require(name)
    folder = Path(tempfile.mkdtemp(prefix="etui-bench-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        key = folder / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=20)
        tools = _tools_in(folder / "tools")
        unshare = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
        permitted = (
            shutil.which("unshare") is not None
            and not subprocess.run([*unshare, "true"], capture_output=True, check=False, timeout=10).returncode
        )
        with (
            ssh_users(Path(f"{key}.pub").read_text()) as users,
            start_sshd(
                folder / "sshd",
                users,
                key,
                (f"SetEnv PATH={tools}:/usr/bin:/bin",),
                prefix=unshare if permitted else (),
            ) as sshd,
        ):
            user = users["bash"]
            home = Path(pwd.getpwnam(user).pw_dir)
            shutil.copytree(STAND_IN, home / "engine")
            (home / "server.log").touch()
            shutil.chown(home / "server.log", user)
            yield Node(sshd, user, users["dash"], home, tools, sshd.connections()[0] if permitted else None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tools_in(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "nvidia-smi").write_text(NVIDIA_SMI, encoding="utf-8")
    (folder / "nvidia-smi").chmod(0o755)
    (folder / "gpus.py").write_text(GPUS.format(blanks=len(Dialect.NEW.fields) - 2), encoding="utf-8")
    (folder / "calls").touch()
    (folder / "calls").chmod(0o666)
    return folder


__all__ = ["Engine", "Node", "bench_node", "free_port"]
