"""The simulated node: a machine with eight H200 and one launch of a server, as facts at a time. Pure.

`now` is always the node's clock in unix seconds; the node's clock is the user's. `opened` is when the world begins: the
launch is then `into_start` seconds old by its own clock, so that at 1× it is ready about 15 s later.
"""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from eagletui.demo import gpus, processes, shape
from eagletui.demo.engine import Engine
from eagletui.demo.gpus import Reading
from eagletui.demo.logfile import LogFile
from eagletui.demo.processes import Descriptor, Proc
from eagletui.demo.scenarios import Scenario
from eagletui.demo.smi import Holder
from eagletui.nodes.recording import Recording, load_recording

INTO_START_S: Final = 95.0
LAUNCHER_PID: Final = 41_822
UPTIME_S: Final = 9 * 86_400.0 + 4711
"""The node was booted so long before the world opened."""
HOST: Final = "gpu-node"
MACHINE_ID: Final = "5b0c1f6e2d9a4c7f8e3b6a1d4f7c2e90"


@lru_cache(maxsize=1)
def start_recording() -> Recording:
    """The start that ships with the program. Raises RecordingError."""
    return load_recording(Path(__file__).parent / "recordings" / "start.zst")


class World:
    """Everything that can be asked of the node. Raises RecordingError when the recording that ships is broken.

    `utc_offset`: seconds that the node's local time is ahead of UTC (log stamps are local time).
    """

    def __init__(
        self,
        *,
        opened: float,
        speed: float = 1.0,
        utc_offset: float = 0.0,
        into_start: float = INTO_START_S,
        scenario: Scenario | None = None,
    ) -> None:
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        self.opened = opened
        self.speed = speed
        self.utc_offset = utc_offset
        self.boot = opened - UPTIME_S
        self.boot_id = f"8f1f2c1e-6d57-4c0e-9b1a-{zlib.crc32(str(self.boot).encode()):012x}"
        launched = opened - (into_start if scenario is None else scenario.opens) / speed
        self.engine = Engine(
            start_recording(),
            launched=launched,
            pid=LAUNCHER_PID,
            speed=speed,
            utc_offset=utc_offset,
            scenario=scenario,
        )
        stamp = f"{datetime.fromtimestamp(launched + utc_offset, UTC):%m%d-%H%M%S}"
        self.log_path = f"/data/eagle3/k25_2step_{stamp}.log"
        self.reading: dict[int, int] = {}
        """Processes of ours that follow the log, and up to which offset they have read."""
        self._own_pid = 52_000

    def advance(self, now: float) -> None:
        """Let happen what is due."""
        self.engine.advance(now)

    def own_pid(self) -> int:
        """A pid for one more shell that runs a script of ours."""
        self._own_pid += 3
        return self._own_pid

    # Processes

    def processes(self, now: float, own_pid: int | None = None, name: str = "poll") -> list[Proc]:
        """Every process, by pid; with the shell that asks, when its pid is given."""
        found = processes.system(self.boot)
        found += self._family(now)
        if own_pid is not None:
            found += processes.login(own_pid, name, now, self.opened)
        return sorted(found, key=lambda proc: proc.pid)

    def _family(self, now: float) -> list[Proc]:
        engine = self.engine
        if engine.is_gone(now):
            return []
        found = processes.family(engine.pid, engine.launched, self.speed, engine.e(now))
        scenario = engine.scenario
        if scenario is None or scenario.rank is None or not engine.happened(now):
            return found
        killed = engine.rank_pid(scenario.rank)
        return [proc for proc in found if proc.pid != killed]

    def is_ours(self, proc: Proc) -> bool:
        """Whether the login user may look into it."""
        return proc.uid == processes.UID

    def read_bytes(self, proc: Proc, now: float) -> tuple[int, int] | None:
        """What it read so far: bytes from the disk, and bytes asked for. None where the login may not know."""
        if not self.is_ours(proc):
            return None
        return processes.read_bytes(proc, self.engine.e(now)) if self.serves(proc) else (0, 40_000)

    def serves(self, proc: Proc) -> bool:
        """Whether it belongs to the server's family."""
        return proc.session == self.engine.pid

    def descriptors(self, proc: Proc) -> list[Descriptor]:
        """Its descriptors 0 to 2."""
        if not self.serves(proc):
            terminal = [Descriptor(n, "/dev/pts/3", 24, 6, 0, int(self.opened), "character") for n in range(3)]
            return terminal if proc.comm in {"bash", "htop", "tmux: server"} else []
        log, size = self.log_path, self.engine.log.size
        written = int(self.engine.written_at)
        return [
            Descriptor(0, "/dev/null", 5, 4, 0, int(self.boot), "character"),
            *(Descriptor(n, log, processes.LOG_DEVICE, processes.LOG_INODE, size, written, "regular") for n in (1, 2)),
        ]

    def sockets(self, proc: Proc, now: float) -> list[int]:
        """Inodes of the sockets it holds."""
        if proc.pid == self.engine.pid and self.engine.http_state(now) != "closed":
            return [processes.HTTP_INODE]
        return []

    def listeners(self, now: float) -> list[tuple[str, str, int, int]]:
        """What listens: (tcp or tcp6, ADDRESS:PORT as /proc/net has it, uid, inode)."""
        found = [
            ("tcp", "00000000:0016", 0, processes.SSHD_INODE),
            ("tcp6", "00000000000000000000000000000000:0016", 0, processes.SSHD_INODE + 1),
        ]
        if self.engine.http_state(now) != "closed":
            found.insert(0, ("tcp", f"0100007F:{shape.PORT:04X}", processes.UID, processes.HTTP_INODE))
        return found

    # Files

    def file(self, path: str) -> LogFile | None:
        """The growing file behind a path, also by way of /proc/PID/fd; None where there is no such regular file."""
        if path == self.log_path:
            return self.engine.log
        found = re.fullmatch(r"/proc/(\d+)/fd/([12])", path)
        known = {p.pid for p in processes.family(self.engine.pid, 0.0, 1.0, shape.READY)}
        return self.engine.log if found and int(found[1]) in known else None

    def is_other(self, path: str) -> bool:
        """Whether there is something at the path that is no regular file."""
        return path in {"/", "/data", "/data/eagle3", "/dev/null"} or bool(re.fullmatch(r"/proc/\d+/fd/0", path))

    # The kernel

    def kernel_lines(self, now: float) -> list[str]:
        """What it said of this server, each line with its time since the boot."""
        scenario = self.engine.scenario
        if scenario is None or not self.engine.happened(now):
            return []
        at = self.engine.node_time(scenario.at) - self.boot
        pid = str(self.engine.rank_pid(scenario.rank))
        return [f"[{at + 0.000_3 * n:12.6f}] {line.replace('{pid}', pid)}" for n, line in enumerate(scenario.kernel)]

    def oom_kills(self, now: float) -> int:
        """How many processes of the server's control group it killed for memory."""
        scenario = self.engine.scenario
        return scenario.kills if scenario is not None and self.engine.happened(now) else 0

    # GPUs

    def readings(self, now: float) -> tuple[Reading, ...]:
        """The GPUs."""
        return gpus.readings(None if self.engine.is_gone(now) else self.engine.e(now), now)

    def holders(self, readings: tuple[Reading, ...]) -> list[Holder]:
        """Which process holds a GPU's memory: its scheduler."""
        first = self.engine.pid + processes.LAUNCHER_CHILDREN + 1
        return [
            Holder(reading, first + reading.index, f"sglang::scheduler_TP{reading.index}")
            for reading in readings
            if reading.process_mib
        ]
