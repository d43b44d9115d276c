"""Step 7: does what was launched stand? It lives in a session of its own, and what it writes goes to its log; else it never started, in its own words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from eagletui.errors import NeverStartedError
from eagletui.launching.acting import Acting
from eagletui.launching.launchers.base import Launcher
from eagletui.launching.launchers.registry import launcher as launcher_of
from eagletui.launching.steps import STARTED_WITHIN_S
from eagletui.launching.words import plain
from eagletui.logs.causes import signal_of
from eagletui.servers.family import Identity
from eagletui.servers.record import Record
from eagletui.shell.keeper import KeeperState

POLL_S: Final = 0.2
"""Between two looks at a launch."""
LOOK_S: Final = 5.0
"""For one look: a node that is busy loading, or a slow link, takes a second."""
SETTLED_S: Final = 1.0
"""How long a launch has to live before it counts as started: a program that is missing, or cannot be run, is over in less."""
LOST_S: Final = 1.0
"""How long neither keeper nor process may be there without an exit status: the keeper writes it within milliseconds."""
SHOWN_LINES: Final = 12
"""Of what a launch printed that died at once."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch under way. `record` with what is known of it (boot, keeper, process, exit status, handle); `began`: time.monotonic() of step 6. `notes`:
    sentences on what is not as it should be, although it lives."""

    record: Record
    state: KeeperState
    began: float
    notes: tuple[str, ...] = ()

    @property
    def process(self) -> Identity | None:
        """The launched process."""
        return self.record.process


def written(launched: Launched) -> Launched:
    """With what the launch wrote of itself taken into the record."""
    state, record = launched.state, launched.record
    return replace(
        launched,
        record=replace(
            record,
            boot=state.boot or record.boot,
            keeper=(state.keeper.pid, state.keeper.started) if state.keeper is not None else record.keeper,
            process=(state.process.pid, state.process.started) if state.process is not None else record.process,
            exit_status=state.exit_status,
            log=state.log or record.log,
        ),
    )


def shortcomings(state: KeeperState) -> tuple[str, ...]:
    """What is not as it should be with a process that lives. Pure."""
    process, found = state.process, []
    if process is None:
        return ("it has not written its pid",)
    sessions = {process.pid, *((state.keeper.pid,) if state.keeper is not None else ())}
    if state.session is not None and state.session not in sessions:
        found.append(f"it is in the session of process {state.session}, and ends when that one does")
    if state.log_size is None:
        found.append("its log does not exist")
    elsewhere = {plain(output.link or "") for output in state.outputs if output.is_log is False}
    if elsewhere:
        found.append(f"its output goes to {' and '.join(sorted(elsewhere)) or 'somewhere else'}, and not to its log")
    return tuple(found)


async def verify(
    acting: Acting, launched: Launched, *, by: Launcher | None = None, clock: Callable[[], float] = time.monotonic
) -> Launched:
    """Until it stands (it lived for SETTLED_S), at most 6 s from the begin of step 6.

    A command that put itself in the background (it ended with status 0, and members of its session live) is taken for what goes on, and a process that
    lives but is not as it should be is left alone: `notes` say so. Raises NeverStartedError, NodeError.
    """
    chosen = by or launcher_of(launched.record.launcher)
    if acting.dry:
        await acting.run(chosen.look(launched.record), timeout=LOOK_S)
        return launched
    until = launched.began + STARTED_WITHIN_S
    alive_since = lost_since = None
    while True:
        now = clock()
        state = launched.state
        over = now >= until
        if state.lives:
            alive_since, lost_since = alive_since if alive_since is not None else now, None
            found = shortcomings(state)
            if over or (not found and now - alive_since >= SETTLED_S):
                return replace(launched, notes=tuple(f"The server runs, but {one}." for one in found))
        elif state.exit_status is not None:
            if state.exit_status == 0 and state.members:
                return _in_background(launched)
            raise never_started(launched)
        elif over:
            raise never_started(launched)
        elif state.keeper is None or not state.keeper.alive:
            lost_since = lost_since if lost_since is not None else now
            if now - lost_since >= LOST_S:
                raise never_started(launched)
        acting.tell(_told(launched), ())
        await asyncio.sleep(POLL_S)
        done = await acting.run(chosen.look(launched.record), timeout=LOOK_S)
        launched = written(replace(launched, state=chosen.read_look(done)))


def _told(launched: Launched) -> str:
    pid = launched.record.process
    return "waiting for its pid" if pid is None else f"pid {pid[0]} is looked at"


def _in_background(launched: Launched) -> Launched:
    first = launched.state.members[0]
    note = (
        f"The command put itself in the background: process {first[0]} goes on in its session, and its exit status will not be known."
        " Leave out what makes it do so."
    )
    return replace(launched, record=replace(launched.record, process=first), notes=(note,))


def printed_of(state: KeeperState) -> tuple[str, ...]:
    """The last lines of the log, masked and printable. Pure."""
    lines = [plain(line) for line in state.tail.decode("utf-8", "surrogateescape").replace("\r", "\n").split("\n")]
    return tuple(line for line in lines if line)[-SHOWN_LINES:]


def never_started(launched: Launched) -> NeverStartedError:
    """In the words of the launch itself: its exit status, what that means, and the last it printed. Pure."""
    state = launched.state
    printed = printed_of(state)
    said = f" It said: {printed[-1].rstrip('.')}." if printed else " It printed nothing."
    log = f" Its log is {plain(state.log)}." if state.log and state.log_size is not None else ""
    return NeverStartedError(f"{_why(state, launched.record)}{said}{log}", status=state.exit_status, printed=printed)


def _why(state: KeeperState, record: Record) -> str:
    status = state.exit_status
    if status is None and state.process is not None:
        return "The launch died without a word of how: its keeper was ended, too."
    if status is None and state.begun and record.log is None:  # its launcher keeps it, and its log
        by = f"{record.launcher} {plain(record.handle or '')}".rstrip()
        within = f"No process of the launch was there within {STARTED_WITHIN_S:.0f} s."
        return f"{within} It is being started ({by}) and may yet be: look again before it is launched anew."
    if status is None:
        if state.keeper is not None and state.keeper.alive:
            return (
                f"No process of the launch was there within {STARTED_WITHIN_S:.0f} s. Its keeper (pid {state.keeper.pid}) lives and may yet start it:"
                " look again before it is launched anew."
            )
        return "The launch never began: no process of it was written, and no exit status."
    meaning = {125: "its keeper could not run it", 126: "it cannot be executed", 127: "there is no such program"}.get(
        status
    )
    if (number := signal_of(status)) is not None:
        meaning = f"ended by signal {number}"
    if status == 0:
        return "The command ended at once and with success (exit status 0), and nothing of it goes on."
    return f"The launch died at once with exit status {status}{f' ({meaning})' if meaning else ''}."
