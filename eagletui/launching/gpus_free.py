"""Step 4: the stopped server's GPU memory is back. Nobody is signalled here, whoever holds it.

The witness is memory, and who holds it by nvidia-smi's process table. Utilisation is none: it lags by a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from eagletui.errors import StopFailedError
from eagletui.gpus.model import Gpu, GpuReport
from eagletui.launching.acting import Acting
from eagletui.launching.looking import find_servers, see_gpus
from eagletui.launching.plan import Holder
from eagletui.launching.steps import TIMEOUT_S, StepName
from eagletui.launching.words import plain
from eagletui.servers.attribution import Owners
from eagletui.servers.model import Inventory

TOLERANCE_MIB: Final = 512
"""What a context of somebody else, or the driver itself, takes."""
TOLERANCE_SHARE: Final = 0.01
LOOK_EVERY_S: Final = 0.5
STEADY_LOOKS: Final = 4
"""Where no process is told of, memory that stays for so many looks is not that of processes that are dead."""
SHOWN: Final = 12
Whose = Literal["family", "ours", "others", "unknown"]


@dataclass(frozen=True, slots=True)
class Floor:
    """What a stop is measured by. `mib`: memory in use on each of its GPUs (by uuid) when nobody of the server was there. `blind`: the process table is
    empty although memory is in use (a container), so that its GPUs are not known: then `mib` names all that have memory in use."""

    mib: tuple[tuple[str, int], ...] = ()
    blind: bool = False

    @property
    def of(self) -> dict[str, int]:
        """By uuid."""
        return dict(self.mib)


@dataclass(frozen=True, slots=True)
class Freed:
    """The memory is back, or nobody of the server ever held any. `text` for the step."""

    text: str
    seconds: float = 0.0
    holders: tuple[Holder, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Who holds memory of these GPUs now."""
        return tuple(holder_line(holder) for holder in self.holders[:SHOWN])


def _uuid(gpu: Gpu) -> str:
    return gpu.uuid or f"index {gpu.index}"


def tolerance(gpu: Gpu) -> int:
    """MiB by which its memory may differ from the floor."""
    return max(TOLERANCE_MIB, int((gpu.mem_total_mib or 0) * TOLERANCE_SHARE))


def floor_of(before: GpuReport, members: Collection[int], recorded: Sequence[tuple[str, int]] = ()) -> Floor:
    """The floor of a server's GPUs. `before`: a look while it still ran; `members` its pids; `recorded`: what the record says of when its launch began,
    which is taken where it names the GPU. Elsewhere it is what is in use less the members' share."""
    known = dict(recorded)
    found: dict[str, int] = {}
    for gpu in before.gpus:
        mine = [process for process in gpu.processes if process.pid in members]
        if not mine and _uuid(gpu) not in known:
            continue
        share = sum(process.mem_mib or 0 for process in mine)
        rest = max(0, (gpu.mem_used_mib or 0) - share)
        if any(
            process.mem_mib is None for process in mine
        ):  # it is not told how much: then nearly nothing is expected to stay
            rest = sum(process.mem_mib or 0 for process in gpu.processes if process.pid not in members)
        found[_uuid(gpu)] = known.get(_uuid(gpu), rest)
    if not found and before.gpus and not any(gpu.processes for gpu in before.gpus):
        used = [gpu for gpu in before.gpus if (gpu.mem_used_mib or 0) > TOLERANCE_MIB]
        return Floor(tuple((_uuid(gpu), 0) for gpu in used), blind=bool(used))
    return Floor(tuple(sorted(found.items())))


def holders_of(
    report: GpuReport, inventory: Inventory, family: Collection[int], gpus: Collection[str] | None = None
) -> tuple[Holder, ...]:
    """Who holds memory of these GPUs (by uuid; None: of all)."""
    owners = Owners(inventory)
    processes = {process.pid: process for process in inventory.processes}
    own = {process.pid for server in inventory.servers if server.ours for process in (m.process for m in server.family)}
    uids = {user: uid for uid, user in inventory.users}
    mine = {server.launcher.uid for server in inventory.servers if server.ours}
    found = []
    for gpu in report.gpus:
        if gpus is not None and _uuid(gpu) not in gpus:
            continue
        for held in gpu.processes:
            process = processes.get(held.pid)
            user = owners.of(held).user
            argv = "" if process is None else " ".join(process.argv)
            command = plain(argv or (held.name or "") or ("" if process is None else process.comm))
            whose: Whose
            if held.pid in family:
                whose = "family"
            elif process is None:
                whose = "unknown"
            elif held.pid in own or (user is not None and uids.get(user) in mine):
                whose = "ours"
            else:
                whose = "others"
            found.append(Holder(gpu.index, held.pid, user, held.mem_mib, command[:120], whose))
    return tuple(found)


def holder_line(holder: Holder) -> str:
    """A holder on one line: pid, user, memory, command."""
    memory = "? MiB" if holder.mem_mib is None else f"{holder.mem_mib} MiB"
    user = plain(holder.user) if holder.user else "a user we cannot see"
    return f"GPU {holder.gpu}: pid {holder.pid} of {user} holds {memory}: {holder.command or '?'}"


@dataclass(frozen=True, slots=True)
class _Left:
    """A GPU that is not free yet, and why."""

    gpu: Gpu
    text: str


def not_free(
    report: GpuReport,
    floor: Floor,
    members: Collection[int],
    *,
    needed: Mapping[str, int] | None = None,
    for_launch: bool = True,
) -> tuple[_Left, ...]:
    """The GPUs that are not free yet. `needed`: MiB that must be free, by uuid, of a launch that says so: then the floor does not matter for that GPU.
    Without a launch to come, memory of processes that are no members is not waited for."""
    left = []
    wanted = dict(needed or {})
    for gpu in report.gpus:
        uuid = _uuid(gpu)
        if uuid not in floor.of and uuid not in wanted:
            continue
        used, total = gpu.mem_used_mib, gpu.mem_total_mib
        mine = [process for process in gpu.processes if process.pid in members]
        if mine:
            listed = ", ".join(str(process.pid) for process in mine[:4])
            left.append(_Left(gpu, f"GPU {gpu.index}: a dead member's memory is still held (pid {listed})"))
        elif used is None:
            continue
        elif uuid in wanted:
            if total is not None and total - used < wanted[uuid]:
                left.append(_Left(gpu, f"GPU {gpu.index}: {total - used} MiB free, {wanted[uuid]} needed"))
        else:
            base = floor.of[uuid] + tolerance(gpu)
            others = 0 if for_launch else sum(process.mem_mib or 0 for process in gpu.processes)
            if used > base and used - others > tolerance(gpu):
                left.append(_Left(gpu, f"GPU {gpu.index}: {used} MiB in use, {floor.of[uuid]} before it began"))
    return tuple(left)


async def gpus_free(
    acting: Acting,
    floor: Floor,
    members: Collection[int],
    *,
    inventory: Inventory,
    needed: Mapping[str, int] | None = None,
    for_launch: bool = True,
    timeout_s: float | None = None,
) -> Freed:
    """Wait until the GPUs of a stopped server are free. `members`: its pids, all dead. `inventory`: for the names of whoever holds memory.
    `timeout_s`: None is the step's own.

    Raises StopFailedError, each holder named, and NodeError.
    """
    if not floor.mib and not needed:
        return Freed("no process of it held GPU memory that nvidia-smi tells of")
    limit = TIMEOUT_S[StepName.GPUS] if timeout_s is None else timeout_s
    began = time.monotonic()
    steady: list[int] = []
    asked: set[int] = set()
    while True:
        report = await see_gpus(acting)
        passed = time.monotonic() - began
        wanted = {*floor.of, *(needed or {})}
        holders = holders_of(report, inventory, members, wanted)
        if not report.gpus:
            why = "nvidia-smi told of no GPU" if report.error is None else plain(report.error.text)
            if report.error is not None and report.error.code != "timeout":
                return Freed(f"not checked: {why}", passed)
            raise StopFailedError(
                f"whether the GPUs are free is not known: {why}. The server is stopped; look at nvidia-smi on the node"
            )
        left = not_free(report, floor, members, needed=needed, for_launch=for_launch)
        strangers = {holder.pid for holder in holders if holder.whose == "unknown"} - asked
        if left and strangers:  # they began after the inventory was made
            asked |= strangers
            inventory = await find_servers(acting)
            holders = holders_of(report, inventory, members, wanted)
        used = sum(gpu.mem_used_mib or 0 for gpu in report.gpus if _uuid(gpu) in wanted)
        steady = [*steady, used][-STEADY_LOOKS:]
        if not left or acting.dry:
            return Freed(f"free after {passed:.1f} s", passed, holders)
        if floor.blind and not needed and len(steady) == STEADY_LOOKS and max(steady) - min(steady) <= TOLERANCE_MIB:
            text = f"by memory alone, as nvidia-smi names no process here (a container): {used} MiB stay in use, and do not change"
            return Freed(text, passed, holders)
        lines = (*(one.text for one in left), *(holder_line(holder) for holder in holders[:SHOWN]))
        if passed >= limit:
            raise StopFailedError(_held(left, holders, limit))
        acting.tell(f"{len(left)} of {len(wanted)} GPUs not free yet", lines)
        await asyncio.sleep(min(LOOK_EVERY_S, max(0.05, limit - passed)))


def _held(left: Sequence[_Left], holders: Sequence[Holder], limit: float) -> str:
    gpus = {one.gpu.index for one in left}
    named = [holder_line(holder) for holder in holders if holder.gpu in gpus]
    who = "; ".join(named[:6]) if named else "nvidia-smi names nobody who holds it"
    others = any(holder.whose in {"others", "unknown"} for holder in holders if holder.gpu in gpus)
    todo = (
        " Others' processes are never signalled: ask them, or choose other GPUs"
        if others
        else " End it yourself if nobody needs it, or wait"
    )
    return f"the GPUs are not free after {limit:.0f} s ({'; '.join(one.text for one in left[:4])}). {who}.{todo}"
