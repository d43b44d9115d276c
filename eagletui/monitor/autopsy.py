"""Why a server died or stands: its log's diagnosis, refined by the kernel and its control group, which are asked when it is dead.

A death is on the screen at once; its cause may sharpen for SETTLE_S after it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from eagletui.errors import ChannelError, CommandTimeout
from eagletui.logs.state import Diagnosis, LogState
from eagletui.monitor.snapshot import Verdict
from eagletui.nodes.base import Node
from eagletui.servers.model import Member, Server, State
from eagletui.servers.witnesses import Witnessed, refine, stands, unexplained
from eagletui.shell.kernel import KernelLog, OomCount, ask_kernel_log, ask_oom_count, parse_kernel_log, parse_oom_count
from eagletui.shell.processes import TICKS_PER_S

SETTLE_S = 10.0
"""What is written within it may still tell the cause: ranks end one after another, and each flushes its own."""
SILENT_S = 3.0
"""A dead family whose log did not grow for so long will write no more."""
AGAIN_S = 3.0
"""The kernel is asked at the death and once more: a driver reports late."""
ASK_TIMEOUT_S = 10.0


async def read_kernel_log(node: Node) -> KernelLog:
    """What the kernel says, or why that cannot be read. Raises LinkLostError."""
    try:
        done = await node.run(ask_kernel_log(), timeout=ASK_TIMEOUT_S)
    except CommandTimeout:
        return KernelLog(error="it did not answer")
    except ChannelError as error:
        return KernelLog(error=str(error))
    return parse_kernel_log(done.stdout)


class Case(NamedTuple):
    """What is known of the server now. `missing`: members that died, by pid. `rank`: which one stands, where one is to blame.
    `grew_at`: when the log last grew."""

    server: Server
    missing: Mapping[int, Member]
    log: LogState
    verdict: Verdict
    rank: str | None
    grew_at: float | None


class Autopsy:
    """Of one launch. `died` is set when it is dead; run() gathers then what can be read.

    `on_change` is called when the diagnosis may have changed.
    """

    def __init__(self, node: Node, on_change: Callable[[], None]) -> None:
        self._node = node
        self._on_change = on_change
        self._death = asyncio.Event()
        self._died_at: float | None = None
        self._before: OomCount | None = None
        self._after: OomCount | None = None
        self._kernel: KernelLog | None = None
        self._kernel_at = 0.0
        self._done = False
        self._told: tuple[object, Diagnosis | None] | None = None

    def died(self, at: float) -> None:
        """It is dead since then."""
        if self._died_at is None:
            self._died_at = at
            self._death.set()

    def lives(self) -> None:
        """It was taken for dead, and is not: its launcher began anew."""
        if self._died_at is not None:
            self._died_at, self._kernel, self._done, self._told = None, None, False, None
            self._death.clear()

    async def run(self, pid: int) -> None:
        """Count kills while it lives, wait for its death, and ask. Raises LinkLostError."""
        if self._before is None:
            self._before = await self._count(pid)
        while True:
            await self._death.wait()
            if not self._done:
                await self._ask()
                await asyncio.sleep(AGAIN_S)
                await self._ask()
                self._done = True
            left = SETTLE_S - (time.monotonic() - (self._died_at or 0.0))
            await asyncio.sleep(max(0.0, left))
            self._on_change()
            self._death.clear()

    async def _ask(self) -> None:
        if self._before is not None:
            self._after = await self._count(self._before.group) or self._after
        self._kernel = await read_kernel_log(self._node)
        self._kernel_at = time.monotonic()
        self._on_change()

    async def _count(self, whose: int | str) -> OomCount | None:
        try:
            done = await self._node.run(ask_oom_count(whose), timeout=ASK_TIMEOUT_S)
        except (CommandTimeout, ChannelError):
            return None
        return parse_oom_count(done.stdout)

    # What is asked

    def diagnosis(self, case: Case, now: float) -> Diagnosis | None:
        """Why it is as it is; None while it is well, or while the cause of its death is still gathered."""
        state, log = case.verdict.state, case.log
        if state is State.STALLED:
            return log.diagnosis or stands(case.server.engine, log.phase, case.rank, case.verdict.reason)
        if state is not State.CRASHED:
            return None
        found = log.diagnosis
        if found is None:
            started = case.verdict.reason.code != "never-started"
            found = unexplained(case.server.engine, log.phase, started=started)
        key = (found, self._kernel, self._after)
        if self._told is None or self._told[0] != key:
            self._told = (key, refine(found, self._witnessed(case)))
        told = self._told[1]
        # That nobody knows why is said last; what the kernel knows is said at once.
        unknown = log.diagnosis is None and told is not None and told.code == found.code
        return None if unknown and not self._is_silent(case.grew_at, now) else told

    def _is_silent(self, grew_at: float | None, now: float) -> bool:
        """Whether the log will tell no more."""
        died_at = self._died_at if self._died_at is not None else now
        if now - died_at >= SETTLE_S:
            return True
        quiet = now - max(died_at, grew_at or died_at) >= SILENT_S
        return quiet and self._kernel is not None

    def _witnessed(self, case: Case) -> Witnessed:
        members = (*case.missing.values(), *case.server.family)
        died_s = None
        if self._kernel is not None and self._kernel.uptime_s is not None and self._died_at is not None:
            died_s = self._kernel.uptime_s - (self._kernel_at - self._died_at)
        return Witnessed(
            members={member.process.pid: member.process.comm for member in members},
            launched_s=case.server.launcher.started / TICKS_PER_S,
            died_s=died_s,
            kernel=self._kernel,
            before=self._before,
            after=self._after,
        )
