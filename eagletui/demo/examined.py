"""The scripts that look closely at processes and ports: who keeps them, what they were started with, what they wait for, who listens. Pure;
`shell/{ownership,context,waits,listeners}.py` say what each must print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from eagletui.demo.answer import Answer, hexed, lines, refused, word
from eagletui.demo.processes import ENVIRONMENT, HOME, LOGIN_ENVIRONMENT, SSH_ENVIRONMENT, Proc
from eagletui.demo.shape import HOST
from eagletui.demo.world import World

_PID: Final = re.compile(r"[1-9][0-9]{0,9}")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
HOST_NAMESPACES: Final = ("pid:[4026531836]", "mnt:[4026531841]")
CONTAINER_NAMESPACES: Final = ("pid:[4026533217]", "mnt:[4026533214]")
ABOVE_LIMIT: Final = 48
ADDRESSES: Final = ("127.0.0.1", "10.0.7.20")
ADDRESS6: Final = "00000000000000000000000000000001"
CPUS: Final = "0-191"
PYTHON: Final = "/usr/bin/python3.12"
LIMITS: Final = (
    ("Limit", "Soft Limit", "Hard Limit", "Units"), ("Max cpu time", "unlimited", "unlimited", "seconds"),
    ("Max file size", "unlimited", "unlimited", "bytes"), ("Max data size", "unlimited", "unlimited", "bytes"),
    ("Max stack size", "8388608", "unlimited", "bytes"), ("Max core file size", "0", "unlimited", "bytes"),
    ("Max resident set", "unlimited", "unlimited", "bytes"), ("Max processes", "8254321", "8254321", "processes"),
    ("Max open files", "1048576", "1048576", "files"), ("Max locked memory", "unlimited", "unlimited", "bytes"),
    ("Max address space", "unlimited", "unlimited", "bytes"), ("Max file locks", "unlimited", "unlimited", "locks"),
    ("Max pending signals", "8254321", "8254321", "signals"), ("Max msgqueue size", "819200", "819200", "bytes"),
    ("Max nice priority", "0", "0", ""), ("Max realtime priority", "0", "0", ""), ("Max realtime timeout", "unlimited", "unlimited", "us"),
)  # fmt: skip
"""As /proc/PID/limits has them."""
STUCK_IN: Final = "do_exit"
"""Where a process waits whose threads are not done."""
SLEEPS_IN: Final = "ep_poll"


def _namespaces(world: World, proc: Proc) -> tuple[str, str]:
    if not world.is_ours(proc):
        return ("-", "-")
    elsewhere = world.scenario is not None and world.scenario.elsewhere and world.serves(proc)
    return CONTAINER_NAMESPACES if elsewhere else HOST_NAMESPACES


def _surroundings(world: World, table: Mapping[int, Proc], proc: Proc) -> list[str]:
    told = [
        f"of {proc.pid}",
        f"cgroup {hexed(f'0::{proc.cgroup}' + chr(10))}",
        f"ns {' '.join(_namespaces(world, proc))}",
        "job -",
    ]
    at: Proc | None = proc
    for _ in range(ABOVE_LIMIT):
        if at is None:
            break
        words = (hexed(at.comm) or "-", at.cmdline[:4096].hex() or "-")
        told.append(f"above {at.pid} {at.ppid} {at.uid} {at.state} {world.ticks(at)} {at.tty} {' '.join(words)}")
        at = table.get(at.ppid)
    return told


def ownership(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Our shell first."""
    own = world.own_pid()
    table = {proc.pid: proc for proc in world.processes(now, own, "ownership")}
    told = _surroundings(world, table, table[own])
    for n in range(len(args)):
        if _PID.fullmatch(word(args, n)) and (proc := table.get(int(word(args, n)))) is not None:
            told += _surroundings(world, table, proc)
    told.append(f"host {hexed(HOST + chr(10))}")
    return lines([*told, *(f"address {one}" for one in ADDRESSES), f"address6 {ADDRESS6}", "done"])


def _environ(env: Mapping[str, str]) -> str:
    return hexed("".join(f"{name}={value}\0" for name, value in env.items()))


def launch_context(world: World, args: Sequence[bytes], now: float) -> Answer:
    """What a process was started with."""
    told = [f"boot {world.boot_id}", f"home {hexed(HOME)}"]
    if not _PID.fullmatch(word(args, 0)):
        return lines(told, 2)._replace(stderr=b"not a process\n")
    proc = next((one for one in world.processes(now) if one.pid == int(word(args, 0))), None)
    if proc is None or proc.state in "ZX":
        return lines([*told, "gone"])
    told += [f"pid {proc.pid} {world.ticks(proc)} {proc.uid}", f"argv {proc.cmdline.hex()}"]
    ours = world.is_ours(proc)
    engine = world.engine_of(proc.pid, now)
    told.append(f"environ {_environ(engine.env if engine is not None else ENVIRONMENT)}" if ours else "noenviron")
    told += [
        f"cwd {hexed(proc.cwd) if ours else '-'}",
        f"exe {hexed(PYTHON if engine is not None else '/usr/bin/bash') if ours else '-'}",
    ]
    told += ["umask 0022", f"cpus {CPUS}"]
    told += [f"limit {name:<25} {soft:<20} {hard:<20} {unit:<10}" for name, soft, hard, unit in LIMITS]
    fds = {fd.number: fd for fd in world.descriptors(proc)} if ours else {}
    told += [f"fd {n} {hexed(fds[n].link)} {fds[n].kind}" if n in fds else f"fd {n} - other" for n in range(3)]
    return lines([*told, "done"])


def login_environment(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """What the login gets: its shell's files activate the venv."""
    said = f"\0@env\0{''.join(f'{name}={value}' + chr(0) for name, value in LOGIN_ENVIRONMENT.items())}\0@end\0"
    told = [
        f"boot {world.boot_id}",
        f"home {hexed(HOME)}",
        f"shell {hexed('/bin/bash')}",
        f"own {_environ(SSH_ENVIRONMENT)}",
    ]
    return lines([*told, f"said {hexed(said)}", "done"])


def listeners(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Who listens on these ports."""
    wanted = [word(args, n) for n in range(len(args))]
    if not all(_PORT.fullmatch(port) for port in wanted):
        return refused("not a port", 2)
    holders = {
        inode: proc.pid for proc in world.processes(now) if world.is_ours(proc) for inode in world.sockets(proc, now)
    }
    told = []
    for protocol, local, uid, inode in world.listeners(now):
        address, _, port = local.rpartition(":")
        if str(int(port, 16)) in wanted:
            told.append(f"listen {int(port, 16)} {protocol} {address} {uid} {inode} {holders.get(inode, '-')}")
    return lines([*told, "done"])


def waits(world: World, args: Sequence[bytes], now: float) -> Answer:
    """What processes wait for."""
    table = {proc.pid: proc for proc in world.processes(now)}
    told = []
    for n in range(len(args)):
        proc = table.get(int(word(args, n))) if _PID.fullmatch(word(args, n)) else None
        if proc is not None:
            where = (
                "0" if proc.state == "R" or not world.is_ours(proc) else STUCK_IN if proc.state == "Z" else SLEEPS_IN
            )
            told.append(f"wait {proc.pid} {proc.state} {hexed(where)} -")
    return lines([*told, "done"])
