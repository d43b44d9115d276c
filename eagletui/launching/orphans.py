"""Ending processes of an engine that belong to no server, one by one and only those that the person named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from eagletui.engines.shapes import title_of
from eagletui.errors import NodeError
from eagletui.launching.acting import Acting
from eagletui.launching.lock import Lock, new_fence
from eagletui.launching.steps import KILL_AFTER_TERM_S, STOP_AFTER_KILL_S
from eagletui.nodes.base import Node
from eagletui.servers.family import Identity, to_process
from eagletui.servers.model import Orphan
from eagletui.shell.processes import ask_processes, parse_processes
from eagletui.shell.signals import SignalName, ask_signal, parse_signal

POLL_S = 0.5
_SIGNALS: tuple[tuple[SignalName, float], ...] = (("TERM", KILL_AFTER_TERM_S), ("KILL", STOP_AFTER_KILL_S))
_WHY = {
    "foreign": "another user's",
    "ancestor": "what this login runs in",
    "refused": "an sshd",
    "failed": "not ours to signal",
}


async def end_orphans(node: Node, orphans: Sequence[Orphan], who: str) -> str:
    """TERM, then KILL to those that are left; what became of each in a sentence. Raises NodeError, RefusedError (somebody else does the same)."""
    pairs = [(one.process.pid, one.process.started) for one in orphans]
    acting = Acting(node, new_fence(()))
    async with Lock(acting, who=who, step="end-orphans"):
        fates: dict[int, str] = {}
        left, boot = await _alive(acting, pairs)
        for name, seconds in _SIGNALS:
            if left:
                fates |= await _signal(acting, name, boot, left)
                left = await _until_gone(acting, left, seconds)
    spared = {pid: fate for pid, fate in fates.items() if fate in _WHY}
    gone = len(pairs) - len(left)
    said = [f"{gone} of {len(pairs)} ended"]
    said += [f"pid {pid} is left ({_WHY.get(fates.get(pid, ''), 'it does not end')})" for pid, _ in left]
    return "; ".join(said) + ("" if left or not spared else f"; not signalled: {', '.join(map(str, spared))}")


async def _signal(acting: Acting, name: SignalName, boot: str, pairs: Sequence[Identity]) -> dict[int, str]:
    done = await acting.run(ask_signal(acting.fence.arguments, name, boot, pairs))
    return dict(parse_signal(done.stdout).fates)


async def _until_gone(acting: Acting, pairs: list[Identity], seconds: float) -> list[Identity]:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        pairs, _ = await _alive(acting, pairs)
        if not pairs or loop.time() >= until:
            return pairs
        await asyncio.sleep(POLL_S)


async def _alive(acting: Acting, pairs: Sequence[Identity]) -> tuple[list[Identity], str]:
    """Those that live now, and the boot in which they count."""
    table = parse_processes((await acting.run(ask_processes())).stdout)
    if table.boot_id is None or not table.rows:
        raise NodeError("the node does not show its processes, so nobody was signalled")
    there = {
        (one.pid, one.started)
        for one in map(to_process, table.rows)
        if not one.gone and title_of(one.argv, one.comm) is not None  # of another boot it would be somebody else
    }
    return [pair for pair in pairs if pair in there], table.boot_id
