"""Step 6: one standalone command starts the keeper (or asks the record's launcher to), and its pid is waited for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Final

from eagletui.errors import NeverStartedError
from eagletui.launching.acting import Acting
from eagletui.launching.launchers.base import STARTED, Launcher
from eagletui.launching.launchers.registry import launcher as launcher_of
from eagletui.launching.steps import TIMEOUT_S, StepName
from eagletui.launching.verify import LOOK_S, POLL_S, Launched, never_started, written
from eagletui.launching.words import plain
from eagletui.nodes.base import Completed
from eagletui.servers.record import Record

_WHY: Final[dict[str, str]] = {
    "missing": "its record on the node is gone or holds nothing to launch. Start it again: a new record is made",
    "begun": "its record was launched before, and a record is launched once. Look whether it runs, else start it again",
    "no-setsid": "the node has no setsid (util-linux or busybox). Install it there",
    "no-tmux": "the node has no tmux. Install it there, or use the launcher setsid",
    "tmux-failed": "tmux could not be started. Use the launcher setsid, or see what is wrong with it",
    "no-systemd": "the node has no systemd tools (systemctl, systemd-run). Use another launcher",
    "unit-missing": "systemd knows no such unit. See the handle in the profile",
    "unit-failed": "systemd did not start the unit. Start it as whoever may (root, as a rule), or let this login do so",
    "no-tool": "this login finds no such container tool on the node. Use another launcher",
    "container-missing": "there is no such container. See the handle in the profile; eagletui makes none",
    "container-failed": "the container could not be started",
    "log-exists": "its log is there already, and nothing is written to a file of somebody else. Start it again: another name is taken",
    "log-unwritable": "its log cannot be made. Choose another place in the profile (log)",
    "unwritable": "its record's folder on the node cannot be written. See whether the disk is full",
}
"""By the word of the launcher's script: why nothing was started, and what to do."""


async def launch(acting: Acting, record: Record, *, by: Launcher | None = None) -> Launched:
    """Start what the record's launch/ holds, with the record's launcher (`by`: another), and wait until its pid or its end is written.

    What comes back is at least written; `verify` says whether it stands. Raises NeverStartedError, OvertakenError, NodeError; UsageError for a launcher that is
    none. A dry run looks once.
    """
    chosen = by or launcher_of(record.launcher)
    began = time.monotonic()
    until = began + TIMEOUT_S[StepName.LAUNCH]
    done = await acting.run(chosen.start(acting.fence.arguments, record), timeout=TIMEOUT_S[StepName.LAUNCH])
    if acting.dry:
        state = chosen.read_look(await acting.run(chosen.look(record), timeout=LOOK_S))
        return Launched(record, state, began)
    word, handle = chosen.read_start(done)
    if word != STARTED:
        raise _refused(record, word, done)
    if handle is not None and handle != record.handle:
        record = replace(record, handle=handle)
    acting.tell("started, waiting for its pid", ())
    while True:
        state = chosen.read_look(await acting.run(chosen.look(record), timeout=LOOK_S))
        found = written(Launched(record, state, began))
        if state.process is not None or state.exit_status is not None:
            return found
        if time.monotonic() >= until:
            raise never_started(found)
        await asyncio.sleep(POLL_S)


def _refused(record: Record, word: str, done: Completed) -> NeverStartedError:
    said = plain(done.stderr.decode("utf-8", "replace"))
    why = _WHY.get(word) or f"the node answered {plain(word) or 'nothing'} (exit status {done.exit_status})"
    where = f" ({plain(record.log)})" if word.startswith("log") and record.log else ""
    return NeverStartedError(f"Nothing was launched{where}: {why}.{f' The node says: {said}' if said else ''}")
