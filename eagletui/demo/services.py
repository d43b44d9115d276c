"""The scripts of systemd and of containers, and those of what is left in shared memory. Pure; `shell/{units,containers,leftovers}.py` say what each
must print. There is no container tool for this login, and one unit at most that it knows: the server's, which only root may start and stop.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Final

from eagletui.demo.answer import Answer, Ended, lines, refused, word
from eagletui.demo.files import MEMORY
from eagletui.demo.launched import prepared
from eagletui.demo.launches import begin
from eagletui.demo.locks import fence
from eagletui.demo.processes import UID, USER_MANAGER
from eagletui.demo.world import World

_NAME: Final = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_-]*")
_UNIT: Final = re.compile(r"[0-9A-Za-z:_@\\\\][0-9A-Za-z:_.@\\\\-]*")
_CONTAINER: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]*")
_COUNT: Final = re.compile(r"[1-9][0-9]{0,3}")
FORBIDDEN: Final = "Failed to {verb} {unit}: Interactive authentication required."
"""What systemctl says to who is not root."""


def units(world: World) -> tuple[str, ...]:
    """The services that systemd knows of, as far as anybody asks here."""
    cgroup = world.scenario.cgroup if world.scenario is not None else None
    return (cgroup.rpartition("/")[2],) if cgroup is not None and cgroup.endswith(".service") else ()


def launch_systemd(world: World, args: Sequence[bytes], now: float) -> Answer:
    """A record's keeper as a unit of the user's manager."""
    fence(world, args, now)
    name = word(args, 3)
    if not _NAME.fullmatch(name):
        raise Ended(refused("not a name", 2))
    starting = prepared(world, word(args, 2), now)
    unit, n = name, 1
    while any(kept.keeper.cgroup.endswith(f"/{unit}.service") for kept in world.kept):
        n += 1
        unit = f"{name}-{n}"
    slice_ = f"/user.slice/user-{UID}.slice/user@{UID}.service/app.slice"
    begin(world, starting, now, parent=USER_MANAGER, cgroup=f"{slice_}/{unit}.service")
    return lines([f"started {unit}"])


def _unit(world: World, name: str) -> None:
    if not _UNIT.fullmatch(name):
        raise Ended(refused("not a unit", 2))
    if not name.endswith(".service") or name == ".service":
        raise Ended(refused("not a service", 2))
    if name not in units(world):
        raise Ended(lines(["unit-missing"], 3))


def unit_start(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Only root may."""
    return _asked_of_systemd(world, args, now, "start")


def unit_stop(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Only root may."""
    return _asked_of_systemd(world, args, now, "stop")


def _asked_of_systemd(world: World, args: Sequence[bytes], now: float, verb: str) -> Answer:
    fence(world, args, now)
    unit = word(args, 2)
    _unit(world, unit)
    return lines(["unit-failed"], 3)._replace(stderr=f"{FORBIDDEN.format(verb=verb, unit=unit)}\n".encode())


def unit_state(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Its main process is the server's launcher."""
    if not _COUNT.fullmatch(word(args, 1)):
        return refused("not a number", 2)
    _unit(world, word(args, 0))
    told = [f"boot {world.boot_id}", "record y", "begun y"]
    first = world.engines[0]
    proc = next((one for one in first.processes(now) if one.pid == first.pid), None)
    if proc is not None and not proc.is_gone:
        told.append(f"process {proc.pid} {world.ticks(proc)} y {proc.state} {proc.ppid} {proc.pgrp} {proc.session}")
    told.append("log  - - 0 -")
    if first.life.exit is not None and proc is None:
        told.append(f"exit {first.life.exit[1]}")
    return lines([*told, "@tail"])


def _no_container(args: Sequence[bytes], at: int) -> Answer:
    if word(args, at) not in {"docker", "podman"}:
        return refused("not a container tool", 2)
    if not _CONTAINER.fullmatch(word(args, at + 1)):
        return refused("not a name", 2)
    return lines(["no-tool"], 3)


def container_start(world: World, args: Sequence[bytes], now: float) -> Answer:
    """There is no tool."""
    fence(world, args, now)
    return _no_container(args, 2)


def container_stop(world: World, args: Sequence[bytes], now: float) -> Answer:
    """There is no tool."""
    fence(world, args, now)
    if not re.fullmatch(r"0|[1-9][0-9]{0,4}", word(args, 4)):
        return refused("not a number of seconds", 2)
    return _no_container(args, 2)


def container_state(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """There is no tool."""
    return refused("not a number", 2) if not _COUNT.fullmatch(word(args, 2)) else _no_container(args, 0)


# Shared memory

_SEGMENT: Final = re.compile(r"(?:sgl_shm_|sglang_|nccl-|sem\.|psm_|torch_)[0-9A-Za-z._+:@=-]+")
_PLACE: Final = re.compile(r"[0-9a-f]+")


def _inode(name: str) -> int:
    return 1_000 + zlib.crc32(name.encode()) % 900_000


def shared_memory(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """What engines made in /dev/shm."""
    told = []
    for one in world.shared_memory(now):
        used = "y" if one.used else "n"
        told.append(
            f"entry {one.name} {MEMORY:x} {_inode(one.name)} {one.size} 600 {int(one.made)} {int(one.made)} {used}"
        )
    return lines([*told, "done"])


def remove_shared_memory(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Those that nobody has."""
    fence(world, args, now)
    told = []
    for n in range(2, len(args)):
        name, _, rest = word(args, n).partition(":")
        device, _, inode = rest.partition(":")
        found = next((one for one in world.shared_memory(now) if one.name == name), None)
        if not _PLACE.fullmatch(device + inode) or not _SEGMENT.fullmatch(name):
            told.append("refused -")
        elif found is None:
            told.append(f"gone {name}")
        elif (device, inode) != (f"{MEMORY:x}", str(_inode(name))):
            told.append(f"other {name}")
        elif found.used:
            told.append(f"used {name}")
        else:
            world.removed.add(name)
            told.append(f"removed {name}")
    return lines([*told, "done"])
