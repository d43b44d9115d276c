"""The scripts that launch and tell what became of it, answered by the simulated node. Pure; `shell/keeper.py` says what each must print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from eagletui.demo.answer import Answer, Ended, as_text, hexed, lines, raw, refused, word
from eagletui.demo.files import FileError
from eagletui.demo.launches import TMUX_SESSION, Pane, Starting, begin
from eagletui.demo.ledger import ROOT, alive, exit_status, flag, id_of, identity, read
from eagletui.demo.locks import fence
from eagletui.demo.processes import UID
from eagletui.demo.world import World

TAIL_BYTES: Final = 4096


def _not_launched(what: str, said: str = "") -> Ended:
    return Ended(Answer(f"{what}\n".encode(), raw(f"{said}\n") if said else b"", 3))


def launch(world: World, args: Sequence[bytes], now: float) -> Answer:
    """The keeper of a record begins."""
    fence(world, args, now)
    begin(world, prepared(world, word(args, 2), now), now)
    return lines(["started"])


def launch_tmux(world: World, args: Sequence[bytes], now: float) -> Answer:
    """The same, from a pane of the login's tmux, which shows the log."""
    fence(world, args, now)
    session = word(args, 3)
    if not re.fullmatch(r"[0-9A-Za-z_][0-9A-Za-z_-]*", session):
        raise Ended(refused("not a name", 2))
    starting = prepared(world, word(args, 2), now)
    name, n = session, 1
    while name == TMUX_SESSION or (name in world.panes and world.panes[name].is_busy(world)):
        n += 1
        name = f"{session}-{n}"
    begin(world, starting, now)
    world.panes[name] = Pane(world.own_pid(), world.kept[-1].keeper.pid, now)
    return lines([f"started {name}"])


def prepared(world: World, record: str, now: float) -> Starting:
    """The record is marked as begun and its log is made; or it is told why not. Raises Ended."""
    folder = f"{ROOT}/{id_of(record)}"
    argv, env, cwd, log, limits = (
        read(world, f"{folder}/launch/{name}") for name in ("argv", "env", "cwd", "log", "limits")
    )
    if argv is None:
        raise _not_launched("missing")
    if world.files.get(f"{folder}/begun") is not None:
        raise _not_launched("begun")
    path = as_text(log or b"")
    if not path.startswith("/"):
        raise _not_launched("missing")
    if world.files.get(path) is not None:
        raise _not_launched("log-exists")
    if world.scenario is not None and world.scenario.read_only is not None:
        world.files.read_only = world.scenario.read_only
    world.files.write(f"{folder}/begun", b"", UID, now, 0o600)
    umask = re.search(rb"(?m)^umask ([0-7]{1,4})$", limits or b"")
    try:
        world.files.make_directory(path.rpartition("/")[0], UID, now, parents=True)
        world.files.write(path, b"", UID, now, 0o666 & ~int(umask[1] if umask else b"022", 8), exclusive=True)
    except FileError as error:
        world.files.remove(f"{folder}/begun", UID)
        raise _not_launched("log-unwritable", f"launch: cannot create {path}: {error}") from None
    words = tuple(as_text(one) for one in argv.split(b"\0")[:-1])
    pairs = (as_text(one).partition("=")[::2] for one in (env or b"").split(b"\0")[:-1])
    return Starting(folder, words, dict(pairs), as_text(cwd or b"/"), path)


def keeper_state(world: World, args: Sequence[bytes], now: float) -> Answer:
    """What became of a launch."""
    folder, count = f"{ROOT}/{id_of(word(args, 0))}", word(args, 1)
    if not re.fullmatch(r"[1-9][0-9]{0,3}", count):
        return refused("not a number", 2)
    told = [f"boot {world.boot_id}"]
    if not world.files.is_directory(folder):
        return lines([*told, "record n"])
    told += ["record y", f"begun {flag(world.files.get(f'{folder}/begun'))}", *_processes(world, folder, now)]
    if (status := exit_status(world, folder)) is not None:
        told.append(f"exit {status}")
    tail = (read(world, _log(world, folder)) or b"")[-TAIL_BYTES:]
    kept = re.findall(rb"[^\n]*\n|[^\n]+", tail)[-int(count) :]
    return Answer("".join(f"{line}\n" for line in [*told, "@tail"]).encode() + b"".join(kept))


def _log(world: World, folder: str) -> str:
    return as_text(read(world, f"{folder}/launch/log") or b"")


def _processes(world: World, folder: str, now: float) -> list[str]:
    """The lines on keeper, process, its descriptors, the log and who is left."""
    told: list[str] = []
    log = _log(world, folder)
    keeper, process = (identity(world, f"{folder}/{name}") for name in ("keeper", "process"))
    if keeper is not None:
        told.append(f"keeper {keeper[0]} {keeper[1]} {flag(alive(world, *keeper, now))}")
    proc = alive(world, *process, now) if process is not None else None
    if process is not None and proc is not None:
        told.append(f"process {process[0]} {process[1]} y {proc.state} {proc.ppid} {proc.pgrp} {proc.session}")
        fds = world.descriptors(proc)[1:]
        told += [f"fd {fd.number} {flag(fd.link == world.files.clean(log))} {hexed(fd.link)}" for fd in fds]
    elif process is not None:
        told.append(f"process {process[0]} {process[1]} n - - - -")
    if log:
        entry = world.files.get(log)
        facts = (
            f"{world.files.device(log)} {entry.inode} {entry.size} {int(entry.mtime)}"
            if entry is not None
            else "- - - -"
        )
        told.append(f"log {hexed(log)} {facts}")
    if process is not None and proc is None:
        mine = keeper[0] if keeper is not None else None
        table = (one for one in world.processes(now) if one.state not in "ZX" and one.session in {process[0], mine})
        told += [f"member {one.pid} {world.ticks(one)}" for one in table if one.pid != mine]
    return told
