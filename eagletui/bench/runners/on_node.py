"""A program that benchmarks, on the node: started standalone, followed over whatever link there is, and ended by pid and start where it is aborted."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from eagletui.bench.outcome import Facts
from eagletui.errors import BenchError, LaunchingError, LinkLostError, NodeError, RefusedError
from eagletui.history.runs import new_id
from eagletui.launching.acting import Acting
from eagletui.launching.lock import Lock, new_fence
from eagletui.nodes.base import Node
from eagletui.shell.bench_run import (
    FIND_S,
    BenchState,
    BenchTools,
    ask_bench_find,
    ask_bench_start,
    ask_bench_state,
    parse_bench_find,
    parse_bench_start,
    parse_bench_state,
)
from eagletui.shell.follow import parse_file_head, read_range
from eagletui.shell.masking import mask_text, shown
from eagletui.shell.signals import SignalName, ask_signal

LOOK_S: Final = 1.0
"""How often it is looked at: each look starts a shell on the node."""
COMMAND_S: Final = 20.0
LINK_BACK_S: Final = 600.0
"""For so long a lost link is tried again: the run goes on without it."""
LINK_AGAIN_S: Final = 3.0
NEVER_BEGAN_S: Final = 15.0
"""Without a process after so long it was never started."""
TERM_S: Final = 5.0
KEPT_LOG: Final = 1 << 18
"""Characters of its log that are kept, its end."""
MOST_RESULT: Final = 64 << 20
WHO: Final = "benchmark"
_BAR: Final = re.compile(r"(\d{1,9})/(\d{1,9}) \[")
_WHY: Final[dict[str, str]] = {
    "exists": "a run of this name is there already; try again",
    "no-setsid": "the node has no setsid (util-linux or busybox); install it there, or use the runner builtin",
    "unwritable": "its folder for runs (below ~/.local/state/eagletui) cannot be written",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program left: what it wrote to its file ("" for nothing), the end of its log, its exit status. `began`, `ended`: wall clock."""

    result: str
    log: str
    exit_status: int
    began: float
    ended: float


def launcher_pid(facts: Facts) -> int:
    """Of the server that is measured, by the key of its launch. Raises RefusedError where it is not known."""
    words = (facts.launch or "").split()
    if len(words) >= 2 and words[-2].isascii() and words[-2].isdigit():
        return int(words[-2])
    raise RefusedError("a runner on the node needs the server's process there; use the runner builtin for an address")


async def tools_of(node: Node, facts: Facts) -> BenchTools:
    """What is installed beside the server. Raises RefusedError, NodeError."""
    done = await node.run(ask_bench_find(launcher_pid(facts)), timeout=COMMAND_S + 3 * FIND_S)
    return parse_bench_find(done.stdout)


def bar_in(text: str) -> tuple[int, int] | None:
    """Done and total of the last progress bar in a text."""
    found = _BAR.findall(text)
    return (int(found[-1][0]), int(found[-1][1])) if found else None


class OnNode:
    """Runs programs on one node for one server. `port` is the server's: whoever starts or signals holds its lock for that moment."""

    def __init__(self, node: Node, port: int, key: str | None) -> None:
        self._node = node
        self._port = port
        self._key = key

    async def run(self, words: Sequence[str], on_text: Callable[[str], None]) -> Ran:
        """Start it and wait for its end; `on_text` is given its log as it grows, cleaned. Cancelled, it is ended on the node first. Raises
        BenchError, RefusedError, NodeError."""
        run = new_id()
        began = time.time()
        try:
            await self._start(run, words)
            return await self._follow(run, began, on_text)
        except asyncio.CancelledError:
            await asyncio.shield(self._end(run))
            raise

    async def _start(self, run: str, words: Sequence[str]) -> None:
        acting = Acting(self._node, new_fence((self._port,)))
        async with Lock(acting, who=WHO, step=WHO):
            done = await acting.run(
                ask_bench_start(acting.fence.arguments, run, words, self._key), timeout=COMMAND_S
            )  # fmt: skip
        word = parse_bench_start(done.stdout)
        if word != "started":
            said = shown(mask_text(done.stderr.decode("utf-8", "replace")))[-300:].strip()
            why = _WHY.get(word) or "the node did not say that it was started"
            raise BenchError(f"{words[0]} was not started: {why}{f' ({said})' if said else ''}")

    async def _follow(self, run: str, began: float, on_text: Callable[[str], None]) -> Ran:
        offset, log, started = 0, "", time.monotonic()
        while True:
            state = await self._state(run, offset)
            if state.log:
                offset += len(state.log)
                new = shown(mask_text(state.log.decode("utf-8", "replace").replace("\r", "\n")))
                log = (log + new)[-KEPT_LOG:]
                on_text(new)
            if state.exit_status is not None and offset >= state.log_size:
                result = await self._result(state)
                return Ran(result, log, state.exit_status, began, time.time())
            lives = any(one is not None and one.alive for one in (state.keeper, state.process))
            if not lives and state.exit_status is None and time.monotonic() - started > NEVER_BEGAN_S:
                raise BenchError(
                    f"the benchmark on {self._node.name} is gone without an end; it was killed, or the node was booted"
                )
            if offset >= state.log_size:
                await asyncio.sleep(LOOK_S)

    async def _state(self, run: str, offset: int) -> BenchState:
        """Where it stands; a lost link is waited for, since the program goes on without it."""
        until = time.monotonic() + LINK_BACK_S
        while True:
            try:
                done = await self._node.run(ask_bench_state(run, offset), timeout=COMMAND_S)
                return parse_bench_state(done.stdout)
            except NodeError as error:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(LINK_AGAIN_S)
                if isinstance(error, LinkLostError):
                    with contextlib.suppress(NodeError):
                        await self._node.connect(may_ask=False)

    async def _result(self, state: BenchState) -> str:
        if state.result is None or not state.result_size:
            return ""
        if state.result_size > MOST_RESULT:
            raise BenchError(f"{state.result} on {self._node.name} is larger than {MOST_RESULT >> 20} MiB")
        done = await self._node.run(
            read_range(state.result, 0, state.result_size), timeout=6 * COMMAND_S, limit=MOST_RESULT + 65536
        )
        return parse_file_head(done.stdout)[1].decode("utf-8", "replace")

    async def _end(self, run: str) -> None:
        """End exactly its processes: those of the session that was made for it, by pid and start. Never raises."""
        with contextlib.suppress(NodeError, LaunchingError, BenchError):
            acting = Acting(self._node, new_fence((self._port,)))
            async with Lock(acting, who=WHO, step=WHO):
                until = time.monotonic() + TERM_S
                name: SignalName = "TERM"
                while True:
                    state = parse_bench_state(
                        (await acting.run(ask_bench_state(run, 0, members=True), timeout=COMMAND_S)).stdout
                    )
                    if not state.members or state.boot is None:
                        return
                    await acting.run(
                        ask_signal(acting.fence.arguments, name, state.boot, state.members), timeout=COMMAND_S
                    )
                    if name == "KILL":
                        return
                    while time.monotonic() < until:
                        await asyncio.sleep(LOOK_S / 2)
                        now = await acting.run(ask_bench_state(run, 0, members=True), timeout=COMMAND_S)
                        if not parse_bench_state(now.stdout).members:
                            return
                    name = "KILL"
