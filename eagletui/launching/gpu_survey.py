"""One look at a node's GPUs through `Acting`: the calls that gpus.sequence names, one after another."""

from __future__ import annotations

from eagletui.errors import CommandTimeout
from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import CALL_TIMEOUT_S
from eagletui.gpus.sequence import TIMEOUT, Outcome, Reply, survey
from eagletui.launching.acting import Acting
from eagletui.shell.script import Command
from eagletui.shell.scripts import RUN_TOOL

GRACE_S = 3
"""Seconds for the link and for the kill of a call that hangs, beyond the call's own deadline on the node."""


async def survey_gpus(acting: Acting) -> GpuReport:
    """The GPUs now. A call that hangs is in the report. Raises NodeError, OvertakenError never: it reads only."""
    steps = survey()
    argv = next(steps)
    while True:
        reply: Reply
        try:
            done = await acting.run(
                Command(RUN_TOOL, (str(CALL_TIMEOUT_S), *argv)), timeout=CALL_TIMEOUT_S + GRACE_S, limit=1 << 20
            )
            reply = Outcome(done.exit_status, done.stdout, done.stderr)
        except CommandTimeout:
            reply = TIMEOUT
        try:
            argv = steps.send(reply)
        except StopIteration as end:
            report: GpuReport = end.value
            return report
