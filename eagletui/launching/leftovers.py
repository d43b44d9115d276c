"""Step 5: what a dead server left: entries of /dev/shm that nobody has any more, and ports on which somebody still listens."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from eagletui.engines.command_words import NotALaunchError, take_apart
from eagletui.engines.derived_ports import derived_ports
from eagletui.errors import LaunchingError, RestartedByKeeperError, StopFailedError
from eagletui.launching.acting import Acting
from eagletui.launching.family_now import Scan, scan
from eagletui.launching.plan import Leftover
from eagletui.launching.steps import TIMEOUT_S, StepName
from eagletui.launching.stop import came_back
from eagletui.launching.words import plain
from eagletui.servers.family import Identity
from eagletui.servers.model import Process
from eagletui.servers.targets import Target, carries_us
from eagletui.shell.leftovers import (
    REMOVED_AT_ONCE,
    Entry,
    ask_remove_shared_memory,
    ask_shared_memory,
    parse_removed,
    parse_shared_memory,
)
from eagletui.shell.listeners import Listening, PortHolder, ask_listeners, parse_listeners
from eagletui.shell.plural import plural

LOOK_EVERY_S: Final = 0.5
CLOCK_SLACK_S: Final = 2.0
"""Between the clock that files are dated by and that of start times."""
SHOWN: Final = 12
_QUIET = re.compile(
    r"\A(?:bash|zsh|fish|sh|dash|ash|ksh|tcsh|csh|sshd.*|dropbear|tmux.*|screen|SCREEN|mosh-server|systemd|\(sd-pam\)|dbus-daemon|login|sudo|su|less|more"
    r"|vim?|nvim|nano|htop|btop|top|nvtop|watch|tail|cat|sleep|ssh-agent|gpg-agent)\Z",
    re.DOTALL,
)
"""Programs (by comm) that make no such shared memory."""


@dataclass(frozen=True, slots=True)
class Left:
    """What was found. `removable`: nobody has it, and it was the server's; `unsure`: made while the server ran, but perhaps by somebody else of this user."""

    removable: tuple[Entry, ...] = ()
    unsure: tuple[Entry, ...] = ()
    why: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> tuple[Leftover, ...]:
        """Both, as a plan shows them."""
        reasons = dict(self.why)
        return tuple(Leftover(one.path, one.size, reasons[one.name]) for one in (*self.removable, *self.unsure))


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of it. `removed` and `kept`: paths. `text` for the step."""

    text: str
    lines: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[Leftover, ...] = ()


def _pids_in(name: str) -> set[int]:
    """Whole numbers between the separators of a name."""
    return {int(part) for part in re.split(r"[._:@=+-]", name) if re.fullmatch(r"[1-9][0-9]{1,9}", part)}


def left_by(
    entries: Iterable[Entry],
    members: Collection[Identity],
    processes: Sequence[Process],
    own_pid: int,
    born: float,
    zero: float,
    ticks_per_s: int,
) -> Left:
    """Which entries a dead server left.

    `members`: everybody of it; `born` when its first member started and `zero` when the node booted, epoch seconds by the node's clock. An entry that a
    process has, or that is older than the server, is none. It is the server's if its name holds a dead member's pid, or if nobody of this user who lives
    could have made it: all that ran then are shells and the like.
    """
    alive = {process.pid for process in processes if not process.gone}
    dead = {pid for pid, _ in members if pid not in alive}
    own = next((process for process in processes if process.pid == own_pid), None)
    carrying = carries_us(own_pid, processes)
    others = [
        process
        for process in processes
        if own is not None
        and process.uid == own.uid
        and not process.gone
        and process.pid not in carrying
        and not _QUIET.match(process.comm)
    ]
    removable, unsure, why = [], [], []
    for entry in entries:
        if entry.used or entry.made < born - CLOCK_SLACK_S:
            continue
        named = sorted(_pids_in(entry.name) & dead)
        then = [process for process in others if zero + process.started / ticks_per_s <= entry.made + CLOCK_SLACK_S]
        if named:
            removable.append(entry)
            why.append((entry.name, f"it carries the pid of a dead member ({named[0]})"))
        elif own is not None and not then:
            removable.append(entry)
            why.append((entry.name, "made while the server ran, when nobody else of this user did"))
        else:
            unsure.append(entry)
            who = then[0] if then else None
            other = "" if who is None else f", or by {plain(who.comm)} (pid {who.pid})"
            why.append((entry.name, f"made while the server ran, by it{other}: kept"))
    return Left(tuple(removable), tuple(unsure), tuple(why))


async def find_leftovers(acting: Acting, target: Target, members: Collection[Identity]) -> Left:
    """What the server left in /dev/shm. Reads only. Raises NodeError, and LaunchingError where processes cannot be read."""
    done = await acting.run(ask_shared_memory())
    memory = parse_shared_memory(done.stdout)
    if not memory.complete:
        raise LaunchingError("the node did not say what is in /dev/shm, so nothing was removed there")
    if not memory.entries:
        return Left()
    now: Scan = await scan(acting, target)
    table = now.table
    if table.own_pid is None or table.epoch_s is None or table.uptime_s is None or now.rebooted:
        return Left()
    zero = table.epoch_s - table.uptime_s
    first = min(started for _, started in (*members, target.identity))
    return left_by(
        memory.entries, members, now.processes, table.own_pid, zero + first / table.ticks_per_s, zero, table.ticks_per_s
    )


def ports_of(command: Sequence[str], port: int | None) -> tuple[int, ...]:
    """A server's port, and those that its engine derives from it and from its flags."""
    found = {port} if port else set()
    try:
        parts = take_apart(command)
    except NotALaunchError:
        return tuple(sorted(found))
    if parts.engine is not None:
        flags = {item.key: item.values for item in parts.items}
        found |= {derived.port for derived in derived_ports(parts.engine, port, flags)}
    return tuple(sorted(found))


async def listening_on(acting: Acting, ports: Collection[int]) -> tuple[PortHolder, ...]:
    """Who listens on these ports now. Raises NodeError, and LaunchingError where that cannot be read."""
    if not ports:
        return ()
    answer: Listening = parse_listeners((await acting.run(ask_listeners(ports))).stdout)
    if not answer.complete:
        raise LaunchingError(
            "the node did not say who listens on the server's ports, so it is not known whether they are free"
        )
    return answer.holders


async def clean(
    acting: Acting,
    target: Target,
    members: Collection[Identity],
    *,
    remove: bool = True,
    ports: Collection[int] = (),
    timeout_s: float | None = None,
) -> Cleaned:
    """Remove what the server left (`remove`), and wait until nobody listens on `ports`.

    Raises StopFailedError (somebody started the server again, whoever kept it; or a port is still held, by whom), OvertakenError, NodeError, and
    LaunchingError where the node does not tell.
    """
    limit = TIMEOUT_S[StepName.LEFTOVERS] if timeout_s is None else timeout_s
    until = time.monotonic() + limit
    found = await find_leftovers(acting, target, members)
    removed: list[str] = []
    fates: dict[str, str] = {}
    if remove:
        for at in range(0, len(found.removable), REMOVED_AT_ONCE):
            batch = found.removable[at : at + REMOVED_AT_ONCE]
            done = await acting.run(ask_remove_shared_memory(acting.fence.arguments, batch), timeout=limit)
            fates |= dict(parse_removed(done.stdout)[0])
    removed = [one.path for one in found.removable if fates.get(one.name) in {"removed", "gone"}]
    kept = tuple(one for one in found.shown if one.path not in removed)
    lines = (
        *(f"removed {path}" for path in removed),
        *(f"kept {one.path} ({one.size} bytes): {one.why}" for one in kept),
    )[:SHOWN]
    again = None if acting.dry else await came_back(acting, target, members)
    if again is not None:
        raise RestartedByKeeperError(
            f"the server was stopped, and somebody started it again: pid {again.pid} runs now{'' if again.port is None else f' for port {again.port}'}."
            " Nothing was launched; end what starts it first"
        )
    while not acting.dry and (holders := await listening_on(acting, ports)):
        said = "; ".join(_listener(holder) for holder in holders[:4])
        if time.monotonic() >= until:
            raise StopFailedError(
                f"the server is stopped, but {said} after {limit:.0f} s. End it yourself, or choose another port"
            )
        acting.tell(said, lines)
        await asyncio.sleep(LOOK_EVERY_S)
    return Cleaned(_text(len(removed), kept, ports), lines, tuple(removed), kept)


def _listener(holder: PortHolder) -> str:
    who = f"pid {holder.pid}" if holder.pid is not None else f"someone we cannot see (uid {holder.uid})"
    return f"{who} listens on port {holder.port}"


def _text(removed: int, kept: Sequence[Leftover], ports: Collection[int]) -> str:
    parts = []
    if removed:
        parts.append(f"removed {plural(removed, 'entry', 'entries')} of /dev/shm")
    if kept:
        first = kept[0]
        why = f": {first.why.removesuffix(': kept')}" if len(kept) == 1 else ""
        more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
        parts.append(f"kept {first.path}{more}{why}")
    if ports:
        parts.append(
            f"nobody listens on {', '.join(str(port) for port in sorted(ports)[:6])}{' …' if len(ports) > 6 else ''}"
        )
    return ", ".join(parts) or "nothing left"
