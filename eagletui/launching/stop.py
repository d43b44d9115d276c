"""Step 3: a server is told to end, and followed to its last member.

TERM goes to the launcher alone: SGLang answers what it has accepted, vLLM's launcher ends its own. When it is gone (or the grace time is over, or the
person has had enough) TERM goes to whoever is left, and 5 s later KILL to exactly those who still are. The family is read anew at every poll and after every
signal, since members are forked between a listing and a signal, and are re-parented when their parent dies.

A server in a unit or a container that a profile declares (launching.keepers) is ended by systemd or the container's tool instead, and followed all the same;
what its unit leaves behind is told one by one. Nobody of another uid is ever signalled: of a container that is so, the tool alone ends everybody.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from eagletui.errors import LaunchingError, StopFailedError, StopRefusedError
from eagletui.launching.acting import Acting, whole
from eagletui.launching.family_now import Scan, scan
from eagletui.launching.identify import look
from eagletui.launching.keepers import LOOK_S, SAID, Keeper
from eagletui.launching.launchers.base import STOPPING
from eagletui.launching.steps import EMPTY_SCAN_EVERY_S, EMPTY_SCANS, GRACE_S, KILL_AFTER_TERM_S, STOP_AFTER_KILL_S
from eagletui.launching.words import age, plain
from eagletui.nodes.base import Completed
from eagletui.servers.family import Identity, family_of
from eagletui.servers.model import Process, Server
from eagletui.servers.targets import Members, Target, is_sshd
from eagletui.shell.script import Command
from eagletui.shell.signals import ANOTHER_NAMESPACE, Fate, SignalName, ask_signal, parse_signal
from eagletui.shell.waits import ask_waits, parse_waits

POLL_S: Final = 0.5
SLOW_POLL_S: Final = 1.0
"""While a server drains for long: each poll reads the whole process table."""
SLOW_AFTER_S: Final = 10.0
WATCH_FOR_RETURN_S: Final = 5.0
"""A script that starts its server again does so at once, or after a `sleep` of a few seconds."""
KEEPER_LIMIT_S: Final = 90.0
"""A unit's own limit for a stop is this as a rule (DefaultTimeoutStopSec), whatever the grace time; a container's tool takes seconds beyond its own."""
SHOWN: Final = 40
"""Members that are listed."""


@dataclass(frozen=True, slots=True)
class Told:
    """A signal that was asked for, and what became of it."""

    pid: int
    name: SignalName
    fate: Fate


@dataclass(frozen=True, slots=True)
class Stopped:
    """A server that is gone. `members`: everybody who ever was of it, as far as it is known; `ended` of them lived when the stop began, or later.
    `drained_s`: from the first TERM until the launcher was gone, None when it was gone before or had to be hurried. `killed`: who had to be killed.
    `seconds`: all of it."""

    members: tuple[Identity, ...]
    ended: int = 0
    told: tuple[Told, ...] = ()
    killed: tuple[int, ...] = ()
    drained_s: float | None = None
    seconds: float = 0.0
    rebooted: bool = False

    @property
    def text(self) -> str:
        """One line for the step."""
        if self.rebooted:
            return "the node was restarted meanwhile: nobody of it is left"
        if not self.ended:
            return "nobody of it lived any more"
        text = f"{self.ended} process{'es' if self.ended != 1 else ''} gone in {self.seconds:.1f} s"
        return text + (f", {len(self.killed)} of them killed" if self.killed else "")


@dataclass(slots=True)
class _Stop:
    """A stop under way. `names` are kept of everybody, to tell who is gone."""

    acting: Acting
    target: Target
    grace_s: float
    stop_now: asyncio.Event
    requests: Callable[[], int | None]
    seen: Callable[[frozenset[Identity]], Awaitable[None]] | None
    began: float
    known: set[Identity] = field(default_factory=set)
    names: dict[Identity, str] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    signalled: dict[SignalName, set[Identity]] = field(default_factory=lambda: {"TERM": set(), "KILL": set()})
    drained_s: float | None = None
    killed_at: float | None = None
    rebooted: bool = False
    keeper: Keeper | None = None
    announce: Callable[[bool], Awaitable[None]] | None = None
    announced: bool = False

    async def look(self) -> Scan:
        """The family now; everybody in it is known from then on."""
        now = await scan(self.acting, self.target, frozenset(self.known))
        if self.keeper is not None and self.keeper.holds_others and not now.rebooted and not now.members.alive:
            now = replace(now, members=self._of_others(now))
        self.rebooted = now.rebooted
        new = now.identities - self.known
        for process in now.members.alive:
            self.names[process.pid, process.started] = name_of(process)
        if new:
            self.known |= new
            if self.seen is not None:
                await self.seen(frozenset(self.known))
        return now

    async def signal(self, name: SignalName, processes: Sequence[Process]) -> Scan:
        """Signal those of these that were not told so before, and look who lives then. Raises StopFailedError, OvertakenError, NodeError."""
        pairs = [(process.pid, process.started) for process in processes]
        pairs = [pair for pair in pairs if pair not in self.signalled[name]]
        if pairs:
            self.signalled[name].update(pairs)
            command = ask_signal(self.acting.fence.arguments, name, self.target.boot, pairs)
            done = await whole(self._announced(command))
            if not self.acting.dry:
                sent = parse_signal(done.stdout)
                self.told += [Told(pid, name, fate) for pid, fate in sent.fates]
                if not sent.complete:
                    await self._nobody_was_told()
                    raise StopFailedError(self._not_sent(done.exit_status, done.stderr))
        return await self.look()

    async def _announced(self, command: Command) -> Completed:
        """What ends the server, and said before the first time: a client that is gone in between has said so, and nobody was told."""
        if not self.announced and self.announce is not None and not self.acting.dry:
            await self.announce(True)
        self.announced = True
        return await self.acting.run(command)

    async def _nobody_was_told(self) -> None:
        """It was said that it ends, and it is known that nobody was told so."""
        if self.announce is not None and not any(told.fate == "sent" for told in self.told):
            self.announced = False
            await self.announce(False)

    def _not_sent(self, exit_status: int | None, said: bytes) -> str:
        if exit_status == ANOTHER_NAMESPACE:
            return "this login's /proc shows processes of another namespace than its own, so nobody was signalled. Log in inside that container"
        why = plain(said.decode("utf-8", "replace").strip().rpartition("\n")[2]) or f"exit status {exit_status}"
        return f"the signals could not all be sent ({why}). Look who is left, and stop it again"

    def tell(self, text: str, now: Scan) -> None:
        """Where it is: how many are gone, how many requests run, and who is left."""
        gone = len(self.known) - len(now.members.alive)
        running = self.requests()
        parts = [text, f"{gone} of {len(self.known)} gone"]
        if running is not None and any(self._is_launcher(process) for process in now.members.alive):
            parts.append(f"{running} request{'' if running == 1 else 's'} running")
        self.acting.tell(", ".join(parts), tuple(line_of(process) for process in now.members.alive[:SHOWN]))

    def _is_launcher(self, process: Process) -> bool:
        return (process.pid, process.started) == self.target.identity

    async def pause(self, seconds: float) -> None:
        """Wait, or until the person has had enough."""
        if self.stop_now.is_set():
            await asyncio.sleep(min(seconds, POLL_S))
            return
        try:
            async with asyncio.timeout(seconds):
                await self.stop_now.wait()
        except TimeoutError:
            return

    def _of_others(self, now: Scan) -> Members:
        """A container's processes of another uid: followed, and never signalled."""
        target = self.target
        family = family_of(target.launcher, now.processes, known=frozenset(self.known), keepers=target.keepers)
        return Members(tuple(process for process in family if not process.gone and process.pid > 1))

    async def by_keeper(self, keeper: Keeper, now: Scan) -> Scan:
        """Its keeper is asked to end it, and followed until it says that it is over. Raises StopRefusedError where it does not, StopFailedError."""
        limit = None if self.grace_s == 0 else max(self.grace_s, KEEPER_LIMIT_S) + STOP_AFTER_KILL_S
        first = await self._ask(keeper, self.grace_s or None)
        began, hurried = time.monotonic(), False
        while not self.acting.dry:
            state = keeper.launcher.read_look(
                await self.acting.run(keeper.launcher.look(keeper.record), timeout=LOOK_S)
            )
            now = await self.look()
            over = state.complete and not state.begun  # systemd forgets how a unit ended that was stopped
            if not state.lives and (over or not now.members.alive):
                break
            passed = time.monotonic() - began
            if self.stop_now.is_set() and not hurried:
                hurried = True
                if keeper.launcher.stop(self.acting.fence.arguments, keeper.record, 0) == first:
                    return now  # it knows no hurry: what is left is told one by one
                await self._ask(keeper, 0)
            if limit is not None and passed >= limit:
                await self.fail(
                    now, f"within {limit:.0f} s after {keeper.launcher.name} was asked to stop {keeper.named}"
                )
            self.tell(f"{keeper.launcher.name} stops {keeper.named} since {age(passed)}", now)
            await self.pause(POLL_S if passed < SLOW_AFTER_S else SLOW_POLL_S)
        self.drained_s = None if hurried else time.monotonic() - began
        return now

    async def _ask(self, keeper: Keeper, grace_s: float | None) -> Command | None:
        command = keeper.launcher.stop(self.acting.fence.arguments, keeper.record, grace_s)
        if command is None:
            return None
        done = await whole(self._announced(command))
        if not self.acting.dry and (word := keeper.launcher.read_stop(done)) != STOPPING:
            await self._nobody_was_told()
            said = plain(done.stderr.decode("utf-8", "replace"))[:SAID] or word or f"exit status {done.exit_status}"
            raise StopRefusedError(
                f"{keeper.launcher.name} did not stop {keeper.named}: {said.rstrip('.')}. Stop it as whoever may (root, as a rule), or let this login do so"
            )
        return command

    async def drain(self, now: Scan) -> Scan:
        """TERM to the launcher alone, then wait for it."""
        launcher = [process for process in now.members.signalled if self._is_launcher(process)]
        if not launcher:
            return now
        first = time.monotonic()
        now = await self.signal("TERM", launcher)
        while any(self._is_launcher(process) for process in now.members.alive):
            passed = time.monotonic() - first
            if self.acting.dry or self.stop_now.is_set() or (self.grace_s > 0 and passed >= self.grace_s):
                return now
            limit = f", {age(self.grace_s)} at most" if self.grace_s > 0 else ""
            self.tell(f"drains for {age(passed)} now{limit}", now)
            left = self.grace_s - passed if self.grace_s > 0 else SLOW_POLL_S
            await self.pause(max(0.05, min(left, POLL_S if passed < SLOW_AFTER_S else SLOW_POLL_S)))
            now = await self.look()
        self.drained_s = time.monotonic() - first
        return now

    async def end(self, now: Scan) -> Scan:
        """TERM to those who are left, then KILL to those who still are."""
        until = time.monotonic() + KILL_AFTER_TERM_S
        while now.members.alive and time.monotonic() < until:
            now = await self.signal("TERM", now.members.signalled)
            if not now.members.alive or self.acting.dry:
                break
            self.tell("told what is left to end", now)
            await asyncio.sleep(max(0.05, min(POLL_S, until - time.monotonic())))
            now = await self.look()
        until = time.monotonic() + STOP_AFTER_KILL_S
        while now.members.alive:
            self.killed_at = self.killed_at or time.monotonic()
            now = await self.signal("KILL", now.members.signalled)
            if not now.members.alive or self.acting.dry:
                break
            if time.monotonic() >= until:
                await self.fail(now)
            self.tell("killed what is left", now)
            await asyncio.sleep(POLL_S)
            now = await self.look()
        return now

    async def fail(self, now: Scan, when: str | None = None) -> None:
        """Say who is left, and what holds them. `when`: it should have ended. Raises StopFailedError."""
        alive = now.members.alive
        done = await self.acting.run(ask_waits(process.pid for process in alive))
        waiting = {one.pid: one for one in parse_waits(done.stdout)}
        lines = []
        for process in alive[:SHOWN]:
            one = waiting.get(process.pid)
            where = "" if one is None or not one.where else f" in {' < '.join(plain(name) for name in one.where[:3])}"
            fate = next((told.fate for told in reversed(self.told) if told.pid == process.pid), None)
            if process in now.members.spared:
                others = process.uid != now.table.own_uid
                fate = "foreign" if others else "refused" if is_sshd(process) else "ancestor"
            lines.append(
                f"{line_of(process)}: {_why_left(one.state if one is not None else process.state, fate)}{where}"
            )
        self.acting.tell(f"{len(alive)} of {len(self.known)} do not end", tuple(lines))
        if when is None:
            killed = any(told.name == "KILL" for told in self.told)
            when = f"within {STOP_AFTER_KILL_S:.0f} s after {'SIGKILL' if killed else 'that'}"
        raise StopFailedError(
            f"{len(alive)} process{'es' if len(alive) != 1 else ''} of the server did not end {when}: "
            + "; ".join(lines[:4])
            + (f"; and {len(lines) - 4} more" if len(lines) > 4 else "")
        )


def name_of(process: Process) -> str:
    """What a process is called: its first argument (a renamed one's title), else the kernel's name for it."""
    return plain(process.argv[0].rpartition("/")[2] if process.argv else process.comm)[:60]


def line_of(process: Process) -> str:
    """A member on one line."""
    return f"{process.pid} {name_of(process)}"


_WHY_LEFT: Final[dict[Fate, str]] = {
    "foreign": "it runs as another user",
    "ancestor": "this login runs in it",
    "refused": "it is an sshd",
    "failed": "the kernel let no signal through",
}


def _why_left(state: str, fate: Fate | None) -> str:
    if fate is not None and fate in _WHY_LEFT:
        return f"not signalled, {_WHY_LEFT[fate]}"
    if state == "D":
        return "state D, waits in the kernel and cannot be ended before that returns"
    if state in {"T", "t"}:
        return f"state {state}, stopped by a debugger or a signal"
    if state == "Z":
        return "a zombie some of whose threads live on"
    return f"state {state}"


async def stop(
    acting: Acting,
    target: Target,
    *,
    grace_s: float = GRACE_S,
    stop_now: asyncio.Event | None = None,
    requests: Callable[[], int | None] = lambda: None,
    seen: Callable[[frozenset[Identity]], Awaitable[None]] | None = None,
    keeper: Keeper | None = None,
    announce: Callable[[bool], Awaitable[None]] | None = None,
) -> Stopped:
    """Stop a server; nobody of it lives when this returns (two looks, 0.5 s apart, found nobody).

    `grace_s`: how long it may drain, from the first TERM; 0 is no limit. `stop_now` ends the draining (`k`). `requests` tells how many run now, for the
    screen. `seen` is awaited with all members so far whenever one was not known: what is to go to the record. `keeper`: the declared unit or container
    that keeps it. `announce` is awaited right before the first signal with True, and with False where it turns out that nobody was told to end.
    Raises StopFailedError (who is left and why), OvertakenError, NodeError, and LaunchingError where the process table cannot be read.
    """
    going = _Stop(
        acting, target, grace_s, stop_now or asyncio.Event(), requests, seen, time.monotonic(), set(target.known),
        keeper=keeper, announce=announce,
    )  # fmt: skip
    now = await going.look()
    if keeper is not None and keeper.stops and now.members.alive:
        now = await going.by_keeper(keeper, now)
    if acting.dry:
        await _dry(going, now)
        return Stopped(tuple(sorted(now.identities)))
    empty = 0
    while True:
        if now.members.alive:
            empty = 0
            now = await going.end(await going.drain(now))
        if not now.members.alive:
            empty += 1
            if empty >= EMPTY_SCANS:
                break
            await asyncio.sleep(EMPTY_SCAN_EVERY_S)
            now = await going.look()
    killed = {told.pid for told in going.told if told.name == "KILL" and told.fate == "sent"}
    return Stopped(
        tuple(sorted(going.known)),
        len(going.names),
        tuple(going.told),
        tuple(sorted(killed)),
        going.drained_s,
        time.monotonic() - going.began,
        going.rebooted,
    )


async def _dry(going: _Stop, now: Scan) -> None:
    """Every signal that might be sent, once."""
    launcher = [process for process in now.members.signalled if (process.pid, process.started) == going.target.identity]
    await going.signal("TERM", launcher)
    await going.signal("TERM", now.members.signalled)
    await going.signal("KILL", now.members.signalled)


def _same_launch(server: Server, target: Target, before: Collection[Identity]) -> bool:
    if (server.pid, server.launcher.started) in before or server.launcher.uid != target.launcher.uid:
        return False
    same_port = target.port is not None and server.port == target.port
    return same_port or (bool(target.command) and server.command == target.command)


async def came_back(acting: Acting, target: Target, members: Collection[Identity] = ()) -> Server | None:
    """A new server on the stopped one's port or with its command, if there is one now. `members`: everybody of the stopped one. Raises NodeError."""
    inventory, table = await look(acting, (), ())
    if table.boot_id is None or not inventory.processes:
        raise LaunchingError(
            "the node does not show its processes, so it is not known whether the server was started again"
        )
    before = {*members, *target.known, target.identity}
    return next((server for server in inventory.servers if _same_launch(server, target, before)), None)


async def watch_for_return(
    acting: Acting, target: Target, members: Collection[Identity] = (), seconds: float = WATCH_FOR_RETURN_S
) -> Server | None:
    """Watch whether somebody who kept the server starts it again: the new server, or None after `seconds` without one. Raises NodeError."""
    until = time.monotonic() + seconds
    while True:
        server = await came_back(acting, target, members)
        if server is not None or acting.dry or time.monotonic() >= until:
            return server
        acting.tell(f"watching for {age(max(0.0, until - time.monotonic()))} whether it is started again", ())
        await asyncio.sleep(min(POLL_S, max(0.05, until - time.monotonic())))
