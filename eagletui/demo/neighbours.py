"""Who else uses the simulated node: another user's job or listener, and another user's lock. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eagletui.demo import gpus
from eagletui.demo.files import Files
from eagletui.demo.processes import LENA, Proc
from eagletui.demo.scenarios import Neighbour
from eagletui.demo.smi import Holder

PID: Final = 38_114
SHELL: Final = 12_874
"""lena's login shell."""
BEFORE_S: Final = 5_400.0
"""How long before the world opened it began, when it did not wait."""
INODE: Final = 2_771_093
TAKES_S: Final = 0.4
"""A job that waits for a GPU looks so often, in the node's time at 1×."""


@dataclass(slots=True)
class Job:
    """A neighbour's process; `started` None while it waits for its GPU."""

    neighbour: Neighbour
    started: float | None

    @property
    def argv(self) -> tuple[str, ...]:
        """While it waits it is a script of hers that looks at the GPU."""
        return self.neighbour.argv if self.started is not None else ("bash", "when-free.sh", str(self.neighbour.gpu))

    def process(self, opened: float) -> Proc:
        """As /proc shows it."""
        waiting = self.started is None
        began = opened - BEFORE_S if self.started is None else self.started
        comm = "bash" if waiting else "python3"
        return Proc(
            PID if waiting else PID + 1, SHELL, PID, SHELL, comm, began, self.neighbour.uid, self.argv, busy=0.0 if waiting else 0.9,
            threads=1 if waiting else 38, rss_mib=4 if waiting else 2100, cwd="/home/lena",
            cgroup=f"/user.slice/user-{self.neighbour.uid}.slice/session-4.scope",
        )  # fmt: skip

    def look(self, now: float, free_mib: int | None, speed: float) -> None:
        """It waits: whether there is room for it now. `free_mib`: on its GPU."""
        if self.started is None and free_mib is not None and free_mib >= self.neighbour.mib + gpus.RESERVED_MIB:
            self.started = now + TAKES_S / speed

    def holds(self, now: float) -> int:
        """MiB of its GPU."""
        return self.neighbour.mib if self.started is not None and now >= self.started else 0

    def listener(self) -> tuple[str, str, int, int] | None:
        """As World.listeners has them."""
        port = self.neighbour.port
        return None if port is None else ("tcp", f"0100007F:{port:04X}", self.neighbour.uid, INODE)


def job_of(neighbour: Neighbour | None, opened: float) -> Job | None:
    """Her job when the world opens."""
    if neighbour is None:
        return None
    return Job(neighbour, None if neighbour.waits else opened - BEFORE_S)


def holder_of(job: Job | None, reading: gpus.Reading, now: float) -> list[Holder]:
    """What it holds of one GPU."""
    if job is None or job.neighbour.gpu != reading.index or not job.holds(now):
        return []
    return [Holder(reading, job.process(now).pid, job.argv[0], job.holds(now))]


SHIM_PID: Final = 41_790
"""What stands between pid 1 and a container's processes."""
RENEWED_S: Final = 15.0
LENAS_AGE_S: Final = 12
"""How long ago she took the lock."""


def shim(at: float) -> Proc:
    """containerd's."""
    argv = ("/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-address", "/run/containerd/containerd.sock")
    return Proc(
        SHIM_PID,
        1,
        SHIM_PID,
        1017,
        "containerd-shim",
        at,
        0,
        argv,
        threads=12,
        cgroup="/system.slice/containerd.service",
    )


def renew_lock(files: Files, port: int, boot: float, now: float) -> None:
    """Her eagletui goes on."""
    lease = files.get(f"/tmp/eagletui-lock-{port}/lease")  # noqa: S108 - a simulated path
    if lease is not None and now - lease.mtime >= RENEWED_S:
        files.write(f"/tmp/eagletui-lock-{port}/lease", f"{int(now - boot):<12}\n".encode(), LENA, now)  # noqa: S108 - as above


def lock_of_lena(files: Files, port: int, boot: float, boot_id: str, opened: float) -> None:
    """Somebody else restarts the server of this port just now."""
    since = int(opened - boot) - LENAS_AGE_S
    parts = {
        "owner": "lena", "client": "lena-laptop", "step": "preflight", "since": f"{since}", "lease": f"{since + LENAS_AGE_S:<12}",
        "boot": boot_id, "token": "7Qx2mB9cT4vN",
    }  # fmt: skip
    folder = f"/tmp/eagletui-lock-{port}"  # noqa: S108 - a simulated path
    files.make_directory(folder, LENA, opened)
    for name, text in parts.items():
        files.write(f"{folder}/{name}", f"{text}\n".encode(), LENA, opened, 0o600 if name == "token" else 0o644)
