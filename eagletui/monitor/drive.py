"""Driving the sans-IO generators (discovery, the GPU survey) over a node."""

from __future__ import annotations

from eagletui.errors import CommandTimeout
from eagletui.gpus.nvidia_smi import CALL_TIMEOUT_S
from eagletui.gpus.sequence import TIMEOUT, Outcome, Reply, Surveyed, full_survey
from eagletui.nodes.base import Node
from eagletui.servers.discovery import discover
from eagletui.servers.model import Inventory
from eagletui.shell.script import Command
from eagletui.shell.scripts import RUN_TOOL

DISCOVERY_TIMEOUT_S = 20.0
"""A process table of a node under full load comes within a second or two."""
GRACE_S = 3.0
"""Beyond the node's own deadline for a tool: the round trip, and its `timeout -k 1`."""


async def find_servers(node: Node) -> Inventory:
    """What is on the node now. Raises NodeError."""
    steps = discover()
    command = next(steps)
    while True:
        done = await node.run(command, timeout=DISCOVERY_TIMEOUT_S)
        try:
            command = steps.send(done.stdout)
        except StopIteration as end:
            inventory: Inventory = end.value
            return inventory


async def ask_tool(node: Node, argv: tuple[str, ...], deadline_s: float) -> Reply:
    """One call of a read-only tool, ended on the node after `deadline_s`. Raises NodeError except CommandTimeout, which is TIMEOUT."""
    command = Command(RUN_TOOL, (f"{deadline_s:g}", *argv))
    try:
        done = await node.run(command, timeout=deadline_s + GRACE_S)
    except CommandTimeout:
        return TIMEOUT
    return Outcome(done.exit_status, done.stdout, done.stderr)


async def survey_gpus(node: Node, *, processes: bool = True) -> Surveyed:
    """One whole answer about the GPUs; without `processes` their rows alone. Raises NodeError."""
    steps = full_survey(processes=processes)
    argv = next(steps)
    while True:
        reply = await ask_tool(node, argv, CALL_TIMEOUT_S)
        try:
            argv = steps.send(reply)
        except StopIteration as end:
            surveyed: Surveyed = end.value
            return surveyed
