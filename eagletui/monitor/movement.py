"""What moves while a log is quiet: CPU time and states of the family, bytes read, GPU memory. The poller and the GPUs' loop tell it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable

from eagletui.gpus.model import GpuReport
from eagletui.monitor.poller import Poller
from eagletui.servers.family import Identity
from eagletui.servers.stalls import Moves
from eagletui.shell.poll import ReadBytes
from eagletui.shell.processes import TICKS_PER_S, StatRow

ASK_AFTER_S = 15.0
"""A log that is quiet for so long is reason to ask what the family reads."""
ASK_EVERY_S = 5.0
READ_BYTES = 1 << 20
"""So much between two looks is reading weights or packages, and no log line of its own."""
GREW_MIB = 64
"""So much more GPU memory is a tensor, and no fluctuation."""
CPU_WINDOW_S = 5.0
BUSY_SHARE = 0.2
"""Of one core over the window: threads that only wait use a hundredth of it."""
SUSPENDED_S = 0.9
"""A tool that looks into a process (py-spy, gdb) stops it for less."""


class Movement:
    """Of one launch."""

    def __init__(self) -> None:
        self._cpu: dict[Identity, int] = {}
        self._spent: deque[tuple[float, int]] = deque()
        """Clock ticks that the family used, added up, with the time of each look."""
        self._since: dict[Identity, tuple[str, float]] = {}
        """The state (T or D) that a member is in, and since when."""
        self._read: dict[int, int] = {}
        self._read_at: float | None = None
        self._asked_at = float("-inf")
        self._gpu_mib: int | None = None
        self._gpu_at: float | None = None

    # What is told

    def polled(self, rows: Iterable[StatRow], members: Collection[Identity], now: float) -> None:
        """The poller's answer about the family."""
        spent = self._spent[-1][1] if self._spent else 0
        known = set(members)
        here: set[Identity] = set()
        for row in rows:
            who = (row.pid, row.started)
            if who not in known:
                continue
            here.add(who)
            spent += max(0, row.cpu_ticks - self._cpu.get(who, row.cpu_ticks))
            self._cpu[who] = row.cpu_ticks
            if row.state not in "TD":
                self._since.pop(who, None)
            elif who not in self._since or self._since[who][0] != row.state:
                self._since[who] = (row.state, now)
        for who in [who for who in self._cpu if who not in here]:
            del self._cpu[who]
            self._since.pop(who, None)
        self._spent.append((now, spent))
        while len(self._spent) > 2 and now - self._spent[1][0] > CPU_WINDOW_S:
            self._spent.popleft()

    async def ask(self, poller: Poller, pids: Collection[int], quiet_s: float | None) -> None:
        """Ask what the family read, while its log is quiet. Raises LinkLostError."""
        now = time.monotonic()
        if quiet_s is None or quiet_s < ASK_AFTER_S or now - self._asked_at < ASK_EVERY_S:
            return
        self._asked_at = now
        self.read(await poller.io(pids), time.monotonic())

    def read(self, rows: Iterable[ReadBytes], now: float) -> None:
        """What each process read so far: from a disk, or by read(2) from wherever."""
        grew = 0
        for row in rows:
            total = max(row.from_disk, row.asked)
            grew += max(0, total - self._read.get(row.pid, total))
            self._read[row.pid] = total
        if grew >= READ_BYTES:
            self._read_at = now

    def gpus(self, report: GpuReport, pids: Collection[int], now: float) -> None:
        """The memory of the family's own GPUs, where the process table tells which they are; of all else."""
        ours = [gpu for gpu in report.gpus if any(process.pid in pids for process in gpu.processes)]
        told = [gpu.mem_used_mib for gpu in ours or report.gpus if gpu.mem_used_mib is not None]
        if not told:
            return
        used = sum(told)
        if self._gpu_mib is None or used < self._gpu_mib:
            self._gpu_mib = used
        elif used - self._gpu_mib >= GREW_MIB:
            self._gpu_mib, self._gpu_at = used, now

    # What is asked

    def moves(self, now: float) -> Moves:
        """As ages."""
        return Moves(
            None if self._read_at is None else now - self._read_at,
            None if self._gpu_at is None else now - self._gpu_at,
            self._busy(),
        )

    def _busy(self) -> bool | None:
        if len(self._spent) < 2:
            return None
        (first_at, first), (last_at, last) = self._spent[0], self._spent[-1]
        seconds = last_at - first_at
        return None if seconds < 1 else (last - first) / TICKS_PER_S >= BUSY_SHARE * seconds

    def suspended(self, now: float) -> frozenset[Identity]:
        """Members that a signal stopped, and that did not go on at once."""
        return frozenset(who for who, (state, at) in self._since.items() if state == "T" and now - at >= SUSPENDED_S)

    def waiting(self, now: float) -> dict[Identity, float]:
        """How long members have been waiting in the kernel without a break, as far as two looks a second can tell."""
        return {who: now - at for who, (state, at) in self._since.items() if state == "D"}
