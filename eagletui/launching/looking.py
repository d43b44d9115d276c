"""Looking at a node before anything is done: its servers, and its GPUs. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Protocol

from eagletui.errors import CommandTimeout
from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import CALL_TIMEOUT_S
from eagletui.gpus.sequence import TIMEOUT, Outcome, Reply, survey
from eagletui.nodes.base import Completed
from eagletui.servers.discovery import discover
from eagletui.servers.family import Identity
from eagletui.servers.model import Inventory
from eagletui.shell.script import Command
from eagletui.shell.scripts import RUN_TOOL

DISCOVERY_TIMEOUT_S = 20.0
GRACE_S = 3.0
"""Beyond the node's own deadline for a tool: the round trip, and its `timeout -k 1`."""


class Runs(Protocol):
    """What a look needs: a node, or the `Acting` of a sequence (whose dry run tells each command)."""

    async def run(self, command: Command, *, timeout: float = ..., limit: int = ...) -> Completed:  # noqa: ASYNC109 - see nodes.base
        """As nodes.base.Node has it."""


async def find_servers(node: Runs, *, known: Collection[Identity] = (), keepers: Collection[int] = ()) -> Inventory:
    """What is on the node now. `known` and `keepers` of records: see servers.family. Raises NodeError."""
    steps: Generator[Command, bytes, Inventory] = discover(known=frozenset(known), keepers=frozenset(keepers))
    command = next(steps)
    while True:
        done = await node.run(command, timeout=DISCOVERY_TIMEOUT_S)
        try:
            command = steps.send(done.stdout)
        except StopIteration as end:
            inventory: Inventory = end.value
            return inventory


async def see_gpus(node: Runs) -> GpuReport:
    """The GPUs with who holds their memory. A tool that hangs is a report with its error. Raises NodeError."""
    steps = survey()
    argv = next(steps)
    while True:
        command = Command(RUN_TOOL, (f"{CALL_TIMEOUT_S:g}", *argv))
        reply: Reply
        try:
            done = await node.run(command, timeout=CALL_TIMEOUT_S + GRACE_S)
            reply = Outcome(done.exit_status, done.stdout, done.stderr)
        except CommandTimeout:
            reply = TIMEOUT
        try:
            argv = steps.send(reply)
        except StopIteration as end:
            report: GpuReport = end.value
            return report
