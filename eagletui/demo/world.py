"""The simulated node: a machine with eight H200, the launches of a server, and whoever else works there, as facts at a time. Pure.

`now` is always the node's clock in unix seconds; the node's clock is the user's. `opened` is when the world begins: the
launch is then `into_start` seconds old by its own clock, so that at 1× it is ready about 15 s later.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from eagletui.demo import gpus, processes, shape
from eagletui.demo.engine import Engine, Segment
from eagletui.demo.files import Entry, Files, furnished
from eagletui.demo.gpus import Reading
from eagletui.demo.launches import Kept, Pane
from eagletui.demo.logfile import LogFile
from eagletui.demo.neighbours import holder_of, job_of, renew_lock
from eagletui.demo.opening import furnish
from eagletui.demo.processes import Descriptor, Proc
from eagletui.demo.scenarios import Scenario
from eagletui.demo.settings import Failure, Settings, bind_failure, flag_names, read_settings, recorded_settings
from eagletui.demo.smi import Holder
from eagletui.nodes.recording import Recording, load_recording

INTO_START_S: Final = 95.0
UPTIME_S: Final = 9 * 86_400.0 + 4711
"""The node was booted so long before the world opened."""


FIRST_OWN_PID: Final = 700_000
OWN_PIDS: Final = 3_000_000
"""Shells of ours have pids of their own range, so that however many there were none has a launch's."""
PIDS_A_LAUNCH: Final = 640
"""How far the pids of one launch lie before those of the next."""
FIRST_LATER_PID: Final = 52_400
MODELS: Final = frozenset({shape.MODEL, shape.DRAFT_MODEL})


@lru_cache(maxsize=1)
def recorded() -> Mapping[str, object]:
    """What the recorded server told of its settings. Raises RecordingError."""
    for record in start_recording().channel("log"):
        if (at := record.data.find(b"server_args=")) >= 0:
            return recorded_settings(record.data[at:].decode())
    return {}


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
        self.scenario = scenario
        self.now = opened
        """The time up to which everything has happened."""
        self.boot = opened - UPTIME_S
        self.boot_id = f"8f1f2c1e-6d57-4c0e-9b1a-{zlib.crc32(str(self.boot).encode()):012x}"
        self.files: Files = furnished(self.boot, {name: uid for uid, name in processes.USERS.items()})
        self.job = job_of(scenario.neighbour if scenario is not None else None, opened)
        self.engines: list[Engine] = []
        """Every launch, the newest last."""
        self.kept: list[Kept] = []
        """Keepers under way."""
        self.panes: dict[str, Pane] = {}
        """tmux's sessions of ours, by name."""
        self.shells: dict[int, Proc] = {}
        """Processes above launches that are no engine's: keepers, tmux's shells."""
        self.reading: dict[int, tuple[str, int]] = {}
        """Processes of ours that follow a file: its path, and up to which offset they have read."""
        self.removed: set[str] = set()
        """Names in /dev/shm that were removed."""
        self._own_pid = FIRST_OWN_PID
        self._next_pid = FIRST_LATER_PID
        launched = opened - (into_start if scenario is None else scenario.opens) / speed
        furnish(self, scenario, launched)

    @property
    def engine(self) -> Engine:
        """The newest launch."""
        return self.engines[-1]

    @property
    def log_path(self) -> str:
        """Where the newest launch writes."""
        return self.engine.log_path

    def advance(self, now: float) -> None:
        """Let happen what is due."""
        self.now = max(self.now, now)
        for engine in self.engines:
            engine.advance(now)
            if (entry := self.files.get(engine.log_path)) is not None and entry.log is engine.log:
                entry.mtime = engine.written_at
        if self.scenario is not None and self.scenario.locked:
            renew_lock(self.files, shape.PORT, self.boot, now)
        self.kept = [kept for kept in self.kept if not kept.look(self, now)]
        if self.job is not None and self.job.started is None:
            gpu = self.job.neighbour.gpu or 0
            held = max((r.process_mib or 0 for r in self.readings(now) if r.index == gpu), default=0)
            self.job.look(now, gpus.TOTAL_MIB - held, self.speed)

    def own_pid(self) -> int:
        """A pid for one more shell that runs a script of ours."""
        self._own_pid = FIRST_OWN_PID + (self._own_pid - FIRST_OWN_PID + 3) % OWN_PIDS
        return self._own_pid

    def new_pid(self) -> int:
        """A pid with room behind it for a whole launch."""
        self._next_pid += PIDS_A_LAUNCH
        return self._next_pid

    # Launches

    def settings_of(self, argv: Sequence[str]) -> Settings:
        """What a command asks of the engine."""
        return read_settings(argv, recorded(), MODELS)

    def flags(self) -> tuple[str, ...]:
        """Every option that the engine takes."""
        return flag_names(recorded())

    def launch(
        self, argv: Sequence[str], at: float, *, log: str, pid: int, parent: int = 1, group: int | None = None, cwd: str = processes.HOME,
        env: Mapping[str, str] | None = None, failure: Failure | None = None, cgroup: str = processes.SESSION,
    ) -> Engine:  # fmt: skip
        """A process of this command begins then, and writes to this file."""
        settings = self.settings_of(argv)
        if failure is not None:
            settings = replace(settings, failure=failure)
        listening = {int(local.rpartition(":")[2], 16) for _, local, _, _ in self.listeners(at)}
        taken = settings.port in listening
        if taken and settings.failure is None:
            settings = replace(settings, failure=bind_failure(settings.host, settings.port))
        entry = self.files.get(log) or self.files.write(log, b"", processes.UID, at)
        scenario = self.scenario
        if self.engines and scenario is not None and (not scenario.again or scenario.cured_by(settings.values)):
            scenario = replace(scenario, at=None)
        engine = Engine(
            start_recording(), launched=at, pid=pid, speed=self.speed, utc_offset=self.utc_offset, scenario=scenario, settings=settings,
            log=entry.log, log_path=Files.clean(log), parent=parent, group=group, cwd=cwd, env=env,
            port_is_taken=taken, cgroup=cgroup,
        )  # fmt: skip
        self.engines.append(engine)
        return engine

    def serving(self, port: int, now: float) -> Engine | None:
        """The launch that listens on a port."""
        for engine in reversed(self.engines):
            if engine.settings.port == port and engine.http_state(now) != "closed":
                return engine
        return None

    def foreign_port(self, port: int) -> bool:
        """Whether somebody else listens there."""
        return self.job is not None and self.job.neighbour.port == port

    def signal(self, now: float, pid: int, number: int) -> None:
        """A process that is the login's own got a signal. What is not simulated in depth dies at once."""
        for engine in self.engines:
            if any(proc.pid == pid for proc in engine.processes(now)):
                engine.signal(now, pid, number)
                return
        self.shells.pop(pid, None)

    # Processes

    def processes(self, now: float, own_pid: int | None = None, name: str = "poll") -> list[Proc]:
        """Every process, by pid; with the shell that asks, when its pid is given."""
        found = processes.system(self.boot)
        found += [proc for engine in self.engines for proc in engine.processes(now)]
        found += self.shells.values()
        found += [pane.process(name) for name, pane in self.panes.items() if pane.is_busy(self)]
        if self.job is not None:
            found.append(self.job.process(self.opened))
        if own_pid is not None:
            found += processes.login(own_pid, name, now, self.opened)
        return sorted(found, key=lambda proc: proc.pid)

    def ticks(self, proc: Proc) -> int:
        """Its start as /proc/PID/stat has it."""
        return int((proc.started - self.boot) * processes.CLK_TCK)

    def is_ours(self, proc: Proc) -> bool:
        """Whether the login user may look into it."""
        return proc.uid == processes.UID

    def engine_of(self, pid: int, now: float) -> Engine | None:
        """The launch to whose family a process belongs."""
        for engine in self.engines:
            if engine.pid <= pid < engine.pid + PIDS_A_LAUNCH and any(
                proc.pid == pid for proc in engine.processes(now)
            ):
                return engine
        return None

    def read_bytes(self, proc: Proc, now: float) -> tuple[int, int] | None:
        """What it read so far: bytes from the disk, and bytes asked for. None where the login may not know."""
        if not self.is_ours(proc):
            return None
        engine = self.engine_of(proc.pid, now)
        return processes.read_bytes(proc, engine.e(now)) if engine is not None else (0, 40_000)

    def serves(self, proc: Proc) -> bool:
        """Whether it belongs to a server's family."""
        return self.engine_of(proc.pid, self.now) is not None

    def descriptors(self, proc: Proc) -> list[Descriptor]:
        """Its descriptors 0 to 2."""
        engine = self.engine_of(proc.pid, self.now)
        log = engine.log_path if engine is not None else self.output_of(proc)
        entry = self.files.get(log) if log else None
        if entry is None:
            terminal = [Descriptor(n, "/dev/pts/3", 24, 6, 0, int(self.opened), "character") for n in range(3)]
            return terminal if proc.comm in {"bash", "htop", "tmux: server"} else []
        if proc.state == "Z":
            return []
        facts = (self.files.device(log), entry.inode, entry.size, int(entry.mtime), "regular")
        null = Descriptor(0, "/dev/null", 5, 4, 0, int(self.boot), "character")
        return [null, *(Descriptor(n, log, *facts) for n in (1, 2))]

    def output_of(self, proc: Proc) -> str:
        """The file into which a keeper's output goes: that of its launch."""
        return next(
            (engine.log_path for engine in self.engines if engine.parent == proc.pid and proc.pid in self.shells), ""
        )

    def _socket(self, engine: Engine) -> int:
        return processes.HTTP_INODE + self.engines.index(engine)

    def sockets(self, proc: Proc, now: float) -> list[int]:
        """Inodes of the sockets it holds."""
        engine = self.engine_of(proc.pid, now)
        if engine is not None and proc.pid == engine.pid and engine.http_state(now) != "closed":
            return [self._socket(engine)]
        return []

    def listeners(self, now: float) -> list[tuple[str, str, int, int]]:
        """What listens: (tcp or tcp6, ADDRESS:PORT as /proc/net has it, uid, inode)."""
        found = [
            ("tcp", "00000000:0016", 0, processes.SSHD_INODE),
            ("tcp6", "00000000000000000000000000000000:0016", 0, processes.SSHD_INODE + 1),
        ]
        for engine in self.engines:
            if engine.http_state(now) != "closed":
                address = "0100007F" if engine.settings.host in {"127.0.0.1", "localhost"} else "00000000"
                found.insert(0, ("tcp", f"{address}:{engine.settings.port:04X}", processes.UID, self._socket(engine)))
        if self.job is not None and (taken := self.job.listener()) is not None:
            found.insert(0, taken)
        return found

    # Files

    def entry(self, path: str) -> Entry | None:
        """The file behind a path, also by way of /proc/PID/fd; None where there is no such regular file."""
        found = re.fullmatch(r"/proc/(\d+)/fd/([12])", path)
        engine = self.engine_of(int(found[1]), self.now) if found else None
        entry = self.files.get(engine.log_path if engine is not None else path)
        return entry if entry is not None and entry.kind == "file" else None

    def file(self, path: str) -> LogFile | None:
        """Its bytes."""
        entry = self.entry(path)
        return entry.log if entry is not None else None

    def is_other(self, path: str) -> bool:
        """Whether there is something at the path that is no regular file."""
        found = self.files.get(path)
        return (found is not None and found.kind != "file") or bool(re.fullmatch(r"/proc/\d+/fd/0", path))

    def shared_memory(self, now: float) -> list[Segment]:
        """What is in /dev/shm, by name."""
        found = [one for engine in self.engines for one in engine.shared_memory(now) if one.name not in self.removed]
        return sorted(found)

    # The kernel

    def kernel_lines(self, now: float) -> list[str]:
        """What it said of the servers, each line with its time since the boot."""
        found: list[str] = []
        for engine in self.engines:
            if (
                engine.killed_by_kernel is not None
                and engine.scenario is not None
                and engine.e(now) >= engine.killed_by_kernel
            ):
                at = engine.node_time(engine.killed_by_kernel) - self.boot
                pid = str(engine.rank_pid(engine.scenario.rank))
                lines = enumerate(engine.scenario.kernel)
                found += [f"[{at + 0.000_3 * n:12.6f}] {line.replace('{pid}', pid)}" for n, line in lines]
        return found

    def oom_kills(self, now: float) -> int:
        """How many processes of the login's control group it killed for memory."""
        return sum(
            engine.scenario.kills for engine in self.engines
            if engine.killed_by_kernel is not None and engine.scenario is not None and engine.e(now) >= engine.killed_by_kernel
        )  # fmt: skip

    # GPUs

    def _on_gpu(self, index: int, now: float) -> tuple[Engine, float] | None:
        """The launch that holds a GPU, else the newest that will, with its time."""
        times = [(engine, e) for engine in self.engines if (e := engine.gpu_time(index, now)) is not None]
        return next((one for one in times if one[1] >= shape.DISTRIBUTED), times[-1] if times else None)

    def readings(self, now: float) -> tuple[Reading, ...]:
        """The GPUs."""
        job = self.job
        found = []
        for index in range(shape.RANKS):
            on = self._on_gpu(index, now)
            others = job.holds(now) if job is not None and job.neighbour.gpu == index else 0
            works = on is not None and not on[0].is_gone(now)
            found.append(gpus.reading(index, on[1] if on is not None else None, now, others, works=works))
        return tuple(found)

    def holders(self, readings: tuple[Reading, ...]) -> list[Holder]:
        """Which process holds a GPU's memory: its scheduler, and somebody else's job."""
        found: list[Holder] = []
        for reading in readings:
            on = self._on_gpu(reading.index, self.now)
            if on is not None and reading.process_mib:
                pid = on[0].rank_pid(reading.index)
                found.append(Holder(reading, pid, f"sglang::scheduler_TP{reading.index}", reading.process_mib))
            found += holder_of(self.job, reading, self.now)
        return found
