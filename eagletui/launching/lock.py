"""Taking the lock of a server's ports on the node, keeping it while a sequence runs, and giving it back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import uuid
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from eagletui.errors import LaunchingError, NodeError, OvertakenError, RefusedError
from eagletui.launching.acting import Acting, Fence
from eagletui.launching.looking import Runs
from eagletui.launching.plan import Refusal
from eagletui.launching.words import age, plain
from eagletui.shell.lock import (
    LEASE_S,
    NOT_WRITTEN,
    TAKEN_ALREADY,
    Holder,
    LockAnswer,
    ask_lock_look,
    ask_lock_release,
    ask_lock_renew,
    ask_lock_take,
    parse_lock,
)

RENEW_EVERY_S: Final = LEASE_S / 4
"""Three renewals may be lost before the lease is over."""
LOCK_TIMEOUT_S: Final = 10.0


def new_fence(ports: Iterable[int]) -> Fence:
    """A fence with a new token; no port at all is port 0's lock."""
    return Fence(tuple(sorted(set(ports))) or (0,), secrets.token_hex(16))


def _own_start() -> str:
    """What tells this process from any other that ever had its pid on this machine."""
    try:
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _machine() -> str:
    """This machine (and boot, and pid namespace), in 12 digits."""
    parts = [socket.gethostname()]
    try:
        parts += [
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"),
            str(Path("/proc/self/ns/pid").readlink()),
        ]
    except OSError:
        parts.append(str(uuid.getnode()))
    return sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


def this_client() -> str:
    """This eagletui, as the lock names it: the host's name for people, then what tells whether it still runs."""
    return f"{socket.gethostname() or 'somewhere'} {os.getpid()}.{_own_start()}@{_machine()}"


def has_ended(client: str) -> bool:
    """Whether an eagletui that the lock names ran on this machine and is gone, so that nothing can come from it any more. False when that cannot be told."""
    process, at, machine = client.rpartition(" ")[2].partition("@")
    pid, _, started = process.partition(".")
    if not at or machine != _machine() or not (pid.isascii() and pid.isdigit()) or started == "0":
        return False
    try:
        stat = Path(f"/proc/{int(pid)}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    fields = stat.rpartition(")")[2].split()
    return len(fields) > 19 and (fields[19] != started or fields[0] in {"Z", "X"})


def _whose(holder: Holder) -> str:
    who = plain(holder.who or "") or "somebody"
    client = plain((holder.client or "").partition(" ")[0])
    at = f" on {client}" if client and client not in who else ""
    return f"{who}{at}"


def told(holder: Holder) -> str:
    """Who holds a port's lock, in a sentence that says what to do."""
    port = "of a server without a port" if holder.port == 0 else f"of port {holder.port}"
    place = f"/tmp/eagletui-lock-{holder.port}"  # noqa: S108 - the lock's place, which all users share
    user = plain(holder.user or "") or str(holder.uid)
    if holder.state == "planted":
        return f"{place} is no lock of eagletui but something else, of the user {user}: look at it, and have it removed if nobody needs it"
    since = "" if holder.age_s is None else f", taken {age(holder.age_s)} ago"
    step = "" if not holder.step else f" (step {plain(holder.step)})"
    idle = "" if holder.idle_s is None else f", last renewed {age(holder.idle_s)} ago"
    if holder.state == "foreign":
        return (
            f"the lock {port} is held by {_whose(holder)}, of the user {user}{step}{since}{idle}. Another user's lock is never removed:"
            f" ask {user}, who can end their eagletui or remove {place}"
        )
    if holder.state in {"stale", "boot"}:
        return f"the lock {port}, left by {_whose(holder)}{idle}, is being taken over by somebody else at this moment. Try again"
    free = (
        "" if holder.idle_s is None else f" It is free in {age(max(1, LEASE_S - holder.idle_s))} if it is not renewed"
    )
    return f"the lock {port} is held by {_whose(holder)}{step}{since}{idle}.{free}"


async def who_holds(node: Runs, ports: Iterable[int]) -> tuple[Refusal, ...]:
    """Why these ports cannot be locked now; a stale lock of ours is no reason. Reads only. Raises NodeError."""
    done = await node.run(ask_lock_look(ports), timeout=LOCK_TIMEOUT_S)
    holders = parse_lock(done.stdout).holders
    return tuple(
        Refusal("locked", told(holder))
        for holder in holders
        if holder.state in {"held", "foreign", "planted"} and not _is_ours_and_ended(holder)
    )


def _is_ours_and_ended(holder: Holder) -> bool:
    return holder.state == "held" and holder.client is not None and has_ended(holder.client)


def _whose_that_ended(answer: LockAnswer) -> str | None:
    """The client that holds all of these ports, where it ran here and is gone."""
    clients = {holder.client for holder in answer.holders}
    if len(clients) == 1 and all(_is_ours_and_ended(holder) for holder in answer.holders):
        return clients.pop()
    return None


class Lock:
    """`async with Lock(acting, who=…) as lock:` holds the ports of the acting's fence. While it is held it is renewed, whatever else is done.

    Entering raises RefusedError (code "locked": who holds it, and what to do) and NodeError. `notices`: sentences, when somebody's stale lock was taken
    over. Should another take it over, every further command through `acting` raises OvertakenError; `overtaken` tells it without a command.
    """

    def __init__(self, acting: Acting, *, who: str, client: str | None = None, step: str = "preflight") -> None:
        self.notices: tuple[str, ...] = ()
        self.overtaken = False
        self._acting = acting
        self._who, self._client, self._step = who, client or this_client(), step
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Take it."""
        answer = await self._take("")
        if answer is not None and (ended := _whose_that_ended(answer)) is not None:
            answer = await self._take(ended)
        if answer is None:
            return self
        if answer.holders or not answer.complete:
            text = (
                "; ".join(told(holder) for holder in answer.holders)
                or "the node did not say whether the lock was taken"
            )
            raise RefusedError(f"{text}. Nothing was touched", code="locked")
        self.notices = tuple(
            f"the lock of port {holder.port} was taken over from {_whose(holder)}"
            + (
                f", who had not renewed it for {age(holder.idle_s)}"
                if holder.idle_s is not None
                else ", of an earlier boot"
            )
            for holder in answer.overtook
        )
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it back. Never raises; what cannot be given back ends with its lease."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self.overtaken:
            return
        fence = self._acting.fence
        with contextlib.suppress(NodeError, LaunchingError):
            await self._acting.run(ask_lock_release(fence.ports, fence.token), timeout=LOCK_TIMEOUT_S)

    async def reached(self, step: str) -> None:
        """Say on the node which step it is held for now. Raises OvertakenError, NodeError."""
        fence = self._acting.fence
        await self._acting.run(ask_lock_renew(fence.ports, fence.token, step), timeout=LOCK_TIMEOUT_S)

    async def _take(self, ended: str) -> LockAnswer | None:
        """The answer; None in a dry run. Raises RefusedError where it cannot be written, NodeError."""
        fence = self._acting.fence
        command = ask_lock_take(fence.ports, fence.token, self._who, self._client, self._step, ended)
        done = await self._acting.run(command, timeout=LOCK_TIMEOUT_S)
        if self._acting.dry:
            return None
        if done.exit_status not in {0, TAKEN_ALREADY}:
            said = plain(done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2])
            why = said or (
                "it cannot be written" if done.exit_status == NOT_WRITTEN else f"exit status {done.exit_status}"
            )
            raise RefusedError(
                f"the lock of the server's port could not be taken: {why}. Nothing was touched", code="locked"
            )
        return parse_lock(done.stdout)

    async def _renew(self) -> None:
        """Beside the steps: a step may wait for long without a command that renews."""
        fence = self._acting.fence
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                await self._acting.run(ask_lock_renew(fence.ports, fence.token), timeout=LOCK_TIMEOUT_S)
            except OvertakenError:
                self.overtaken = True
                return
            except NodeError:
                continue  # the steps' own commands say that the link is lost
