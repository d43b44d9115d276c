"""Driving the sans-IO generators (discovery, the GPU survey) over a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from eagletui.errors import ChannelError, CommandTimeout
from eagletui.gpus.nvidia_smi import CALL_TIMEOUT_S
from eagletui.gpus.sequence import TIMEOUT, Outcome, Reply, Surveyed, full_survey
from eagletui.nodes.base import Node
from eagletui.servers.discovery import discover
from eagletui.servers.model import Inventory
from eagletui.servers.recorded import Records, needs_lock, read_records
from eagletui.shell.lock import ask_lock_look, parse_lock
from eagletui.shell.records import ask_records, parse_records
from eagletui.shell.script import Command
from eagletui.shell.scripts import RUN_TOOL

DISCOVERY_TIMEOUT_S = 20.0
"""A process table of a node under full load comes within a second or two."""
WATCHED = 6
"""Records that are read while one watches, besides those whose processes live: each costs the node a process."""
RECORDS_TIMEOUT_S = 5.0
"""Some dozens of small files; a home that lies on a network and hangs is not waited for."""
GRACE_S = 3.0
"""Beyond the node's own deadline for a tool: the round trip, and its `timeout -k 1`."""


async def find_servers(node: Node, read: Callable[[], Awaitable[Records]] | None = None) -> Inventory:
    """What is on the node now. `read`: the records of its launches, which are asked for beside the processes. Raises NodeError."""
    reading = None if read is None else asyncio.ensure_future(read())
    try:
        output = (await node.run(next(discover()), timeout=DISCOVERY_TIMEOUT_S)).stdout
        steps = discover() if reading is None else discover(records=await reading)
    finally:
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    next(steps)
    while True:
        try:
            command = steps.send(output)
        except StopIteration as end:
            inventory: Inventory = end.value
            return inventory
        output = (await node.run(command, timeout=DISCOVERY_TIMEOUT_S)).stdout


async def read_node_records(node: Node, had_server: Collection[str] = ()) -> Records | None:
    """The records of launches on the node, with the locks of what is under way; None where they could not be read. Raises LinkLostError."""
    try:
        done = await node.run(ask_records(WATCHED), timeout=RECORDS_TIMEOUT_S)
        listed = parse_records(done.stdout)
        if not listed.complete:
            return None
        ports = needs_lock(listed)
        locks = None
        if ports:
            locks = parse_lock((await node.run(ask_lock_look(ports), timeout=RECORDS_TIMEOUT_S)).stdout)
    except (CommandTimeout, ChannelError):
        return None  # a home on a file system that hangs keeps nobody from seeing the processes
    return read_records(listed, locks, had_server=had_server)


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
