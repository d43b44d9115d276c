"""How a launch of the simulated engine ends: what its processes do about signals, in the recorded order and times. Pure.

All times are the engine's own, in seconds since its launch. Recorded with SGLang 0.5 on H200s: TERM while it serves drains without limit and
ends with status -9; while it starts it ends at once, and children that still import live on; KILL of the launcher takes all along; a dead
scheduler ends the server after 5 s, a dead detokenizer after 66; with a scheduler that hangs a TERM takes 85.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from eagletui.demo import shape
from eagletui.demo.load import Line
from eagletui.demo.processes import LAUNCHER_CHILDREN, POOL, POOL_WORKERS
from eagletui.demo.settings import SIGQUIT

HUP: Final = 1
INT: Final = 2
QUIT: Final = 3
KILL: Final = 9
TERM: Final = 15
REAPED_S: Final = 0.05
"""How long a dead process is a zombie."""
SCHEDULER_TOLD_S: Final = 0.6
SCHEDULER_GONE_S: Final = 5.0
DETOKENIZER_GONE_S: Final = 66.0
HANGING_GONE_S: Final = 85.0
ORPHANS_S: Final = 31.0
LEAST_DRAIN_S: Final = 0.4
TOLD_EVERY_S: Final = 5.0
MEMORY_BACK_S: Final = 0.3
"""From a process's death until its GPU memory is free."""


@dataclass(slots=True)
class Fate:
    """When a process dies, and when it is reaped (never, for one that is stuck: its threads wait in the driver)."""

    dead: float
    gone: float


class Life:
    """The end of one launch, as far as it is known. `ranks`: its schedulers; `stuck`: the rank whose process is never done dying."""

    def __init__(self, pid: int, ranks: int, stuck: int | None = None) -> None:
        self.pid = pid
        self.ranks = ranks
        self.fates: dict[int, Fate] = {}
        self.halted = math.inf
        """From when it writes and serves nothing any more by itself."""
        self.hangs = math.inf
        """From when its scheduler makes no more tokens."""
        self.draining: float | None = None
        self.drained: float | None = None
        self.exit: tuple[float, int] | None = None
        """When the launcher ended, and with which status, as a shell tells it."""
        self.tidy = False
        """It cleaned up after itself."""
        self.unsaid: list[Line] = []
        self._stuck = None if stuck is None else self.rank_pid(stuck)

    # Who is who

    def rank_pid(self, rank: int | None) -> int:
        """The process of a rank; the launcher's for None."""
        return self.pid if rank is None else self.pid + LAUNCHER_CHILDREN + 1 + rank

    @property
    def tracker(self) -> int:
        """The resource tracker's pid."""
        return self.pid + LAUNCHER_CHILDREN

    @property
    def detokenizer(self) -> int:
        """Its pid."""
        return self.rank_pid(self.ranks)

    @property
    def pool(self) -> tuple[int, ...]:
        """The compile workers and, last, their parent."""
        parent = self.tracker + POOL
        return (*(parent + offset for offset in POOL_WORKERS), parent)

    def is_dead(self, pid: int, e: float) -> bool:
        """Whether this member has died by then."""
        fate = self.fates.get(pid)
        return fate is not None and e >= fate.dead

    def is_gone(self, e: float) -> bool:
        """Whether the launcher has."""
        return self.is_dead(self.pid, e)

    def is_stuck(self, pid: int) -> bool:
        """Whether it is a zombie for ever, whose threads live."""
        fate = self.fates.get(pid)
        return fate is not None and fate.gone == math.inf

    # What happens

    def _dies(self, pid: int, e: float, reaped: float = REAPED_S) -> None:
        """It dies then, unless it died before."""
        fate = self.fates.get(pid)
        if fate is None or fate.dead > e:
            self.fates[pid] = Fate(e, math.inf if pid == self._stuck else e + reaped)

    def _ends(self, e: float, status: int) -> None:
        self._dies(self.pid, e)
        if self.exit is None or self.exit[0] > e:
            self.exit = (e, status)
        self.halted = min(self.halted, e)

    def _everything(self, e: float, status: int) -> None:
        """kill_process_tree: children first."""
        for n, pid in enumerate((*self.pool, *(self.rank_pid(r) for r in range(self.ranks)), self.detokenizer)):
            self._dies(pid, e + 0.002 * n)
        self._ends(e + 0.05, status)
        self._dies(self.tracker, e + 0.35)

    def say(self, line: Line) -> None:
        """For the log, when it is due."""
        self.unsaid.append(line)
        self.unsaid.sort(key=lambda one: one.at)

    def crash(self, e: float, says: list[Line], gone: float, status: int, rank: int | None = None) -> None:
        """It comes to its end by itself: what it says, and when all is over."""
        self.halted = min(self.halted, e)
        for line in says:
            self.say(line)
        if rank is not None:
            self._dies(self.rank_pid(rank), e)
        self._everything(e + gone, status)

    def hang(self, e: float) -> None:
        """No token comes any more; the front end knows nothing of it."""
        self.hangs = min(self.hangs, e)

    def signal(self, pid: int, number: int, e: float) -> None:
        """A signal that this login may send to one of its processes."""
        if self.is_dead(pid, e) or number not in {HUP, INT, QUIT, KILL, TERM}:
            return
        if pid == self.pid:
            self._to_launcher(number, e)
        elif pid == self.tracker:
            if number not in {INT, TERM}:  # multiprocessing's tracker ignores these
                self._dies(pid, e)
        elif pid in self.pool:
            self._dies(pid, e)
        else:
            self._to_child(pid, number, e)

    def _to_launcher(self, number: int, e: float) -> None:
        if number == HUP:
            return
        if number == KILL:
            self._ends(e, 128 + KILL)
            self._everything(e + 0.02, 128 + KILL)
        elif number == QUIT:
            self.say(Line(e, "", SIGQUIT))
            self.halted = min(self.halted, e)
            self._everything(e + 0.1, 128 + KILL)
        elif e < shape.HTTP_OPEN:
            self._ends(e + 0.01, 128 + number)
            if e >= shape.DISTRIBUTED:
                self._everything(e + 0.02, 128 + number)
                return
            for rank in range(self.ranks + 1):  # they still import, and nobody told them
                self._dies(self.rank_pid(rank), e + ORPHANS_S)
            self._dies(self.tracker, e + ORPHANS_S + 1.0)
        elif self.draining is None:
            self.draining = e
            if e >= self.hangs:
                self._everything(e + HANGING_GONE_S, 128 + KILL)

    def _to_child(self, pid: int, number: int, e: float) -> None:
        self._dies(pid, e)
        if self.is_dead(self.pid, e):
            return
        if pid == self.detokenizer:
            self._everything(e + DETOKENIZER_GONE_S, 128 + KILL)
            return
        rank = pid - self.rank_pid(0)
        told = f"Subprocess scheduler_{rank} (pid={pid}) crashed with exit code -{number}. Triggering SIGQUIT for cleanup..."
        says = [Line(e + SCHEDULER_TOLD_S, "", told), Line(e + SCHEDULER_TOLD_S + 0.1, "", SIGQUIT)]
        self.crash(e, says, SCHEDULER_GONE_S, 128 + KILL)

    def drains(self, e: float, running: int) -> None:
        """It drains, and so many requests run at this look."""
        if self.draining is None or self.drained is not None or self.halted < math.inf:
            return
        since = e - self.draining
        told = round(since % TOLD_EVERY_S, 1) == round(LEAST_DRAIN_S / 2, 1)
        if running and told:
            ids = ", ".join(f"'{(self.pid * 7919 + n * 104_729) % 2**32:08x}'" for n in range(running))
            self.say(
                Line(
                    e,
                    "",
                    f"Gracefully exiting... Remaining number of requests {running}. Remaining requests remaining_rids=[{ids}].",
                )
            )
        if running or since < LEAST_DRAIN_S:
            return
        self.drained = e
        self.tidy = True
        self.say(
            Line(e, "", "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
        )
        for pid in self.pool:
            self._dies(pid, e + 0.05)
        for rank in range(self.ranks):
            self._dies(self.rank_pid(rank), e + 0.4 + 0.02 * rank)
        self._dies(self.detokenizer, e + 0.6)
        self.say(
            Line(e + 0.85, "", f"kill_process_tree called: parent_pid={self.pid}, include_parent=True, pid={self.pid}")
        )
        self._ends(e + 0.9, 128 + KILL)
        self._dies(self.tracker, e + 1.0)
