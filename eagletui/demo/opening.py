"""How the simulated node is found when it is opened: the launch that runs, who started it, and what else the scenario has there. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from eagletui.demo import shape
from eagletui.demo.launches import CHILD_PID, KEEPER_TEXT, PROCESS_S, Kept, records_of
from eagletui.demo.neighbours import SHIM_PID, lock_of_lena, shim
from eagletui.demo.processes import ENVIRONMENT, HOME, SESSION, UID, USER, Proc
from eagletui.shell.masking import MASK

if TYPE_CHECKING:
    from eagletui.demo.engine import Engine
    from eagletui.demo.scenarios import Scenario
    from eagletui.demo.world import World


def changed(command: tuple[str, ...], flags: tuple[str, ...]) -> tuple[str, ...]:
    """A command with these flags and values, in the places of those that are there."""
    words = list(command)
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        if flag in words:
            words[words.index(flag) + 1] = value
        else:
            words += [flag, value]
    return tuple(words)


def furnish(world: World, scenario: Scenario | None, launched: float) -> None:
    """The first launch began at `launched`."""
    stamp = f"{datetime.fromtimestamp(launched + world.utc_offset, UTC):%m%d-%H%M%S}"
    log = f"/data/eagle3/k25_2step_{stamp}.log"
    if scenario is None:
        world.launch(shape.COMMAND, launched, log=log, pid=shape.LAUNCHER_PID)
        return
    parent = 1
    if scenario.elsewhere:
        world.shells[SHIM_PID] = shim(launched - 0.2)
        parent = SHIM_PID
    if scenario.locked:
        lock_of_lena(world.files, shape.PORT, world.boot, world.boot_id, world.opened)
    command = changed(shape.COMMAND, scenario.flags)
    if scenario.recorded:
        keeper = _keeper(world, launched)
        engine = world.launch(command, launched, log=log, pid=shape.LAUNCHER_PID, parent=keeper.pid, group=keeper.pid)
        _record(world, engine, keeper)
        return
    world.launch(command, launched, log=log, pid=shape.LAUNCHER_PID, parent=parent, cgroup=scenario.cgroup or SESSION)


def _folder(launched: float) -> str:
    at = datetime.fromtimestamp(launched, UTC)
    return f"{records_of()}/{at:%Y%m%dT%H%M%S}{at.microsecond // 1000:03}Z-d3a0c1"


def _keeper(world: World, launched: float) -> Proc:
    pid = shape.LAUNCHER_PID - CHILD_PID
    argv = ("sh", "-c", KEEPER_TEXT, "eagletui-keeper", _folder(launched))
    made = Proc(pid, 1, pid, pid, "sh", launched - PROCESS_S / world.speed, UID, argv, rss_mib=2, cwd=HOME)
    world.shells[pid] = made
    return made


def _record(world: World, engine: Engine, keeper: Proc) -> None:
    """It was launched by an eagletui, which wrote this."""
    folder, at = _folder(engine.launched), engine.launched
    world.files.make_directory(f"{folder}/launch", UID, at, 0o700, parents=True)
    process = engine.processes(at)[0]
    identities = {one.pid: [one.pid, world.ticks(one)] for one in (keeper, process)}
    secret = {name: MASK if name == "HF_TOKEN" else value for name, value in ENVIRONMENT.items()}
    family = [[one.pid, world.ticks(one)] for one in engine.processes(world.opened)]
    record = {
        "schema": "eagletui.launch/1", "id": folder.rpartition("/")[2], "kind": "start", "created": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "who": f"{USER}@laptop", "launcher": "setsid", "engine": "sglang", "port": engine.settings.port, "command": list(engine.settings.argv),
        "environment": [list(pair) for pair in secret.items()], "cwd": engine.cwd, "log": engine.log_path, "boot": world.boot_id,
        "keeper": identities[keeper.pid], "process": identities[process.pid], "family": family, "step": "verify",
        "outcome": "done", "text": "launched, not waited for",
    }  # fmt: skip
    parts = {
        "record.json": json.dumps(record, indent=1).encode() + b"\n",
        "begun": b"",
        "launch/argv": b"".join(word.encode() + b"\0" for word in engine.settings.argv),
        "launch/env": b"".join(f"{name}={value}".encode() + b"\0" for name, value in ENVIRONMENT.items()),
        "launch/cwd": engine.cwd.encode(),
        "launch/log": engine.log_path.encode(),
        "launch/limits": b"umask 0022\n",
        "keeper": f"{keeper.pid} {world.ticks(keeper)}\n".encode(),
        "process": f"{process.pid} {world.ticks(process)}\n".encode(),
    }
    for name, data in parts.items():
        world.files.write(f"{folder}/{name}", data, UID, at, 0o600)
    world.kept.append(Kept(folder, keeper, engine))
