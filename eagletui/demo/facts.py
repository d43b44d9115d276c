"""The scripts of preflight: what the node is to a launch, and what the engine's parser says of its flags. Pure; `shell/preflight.py` and
`shell/flag_check.py` say what each must print.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from typing import Final

from eagletui.demo.answer import Answer, as_text, hexed, lines, raw, refused, word
from eagletui.demo.files import Files, find_program, interpreter_of
from eagletui.demo.processes import HOME, SESSION, UID, USER
from eagletui.demo.services import units
from eagletui.demo.settings import complaint_of
from eagletui.demo.world import World, recorded

VERSION: Final = "0.5.16"
BLOCK: Final = 4096
LOGIND: Final = ("#KillUserProcesses=no", "#KillOnlyUsers=", "#KillExcludeUsers=root")


def letters(files: Files, path: str) -> str:
    """As the script tells what a path is to this login."""
    found = files.get(path)
    if found is None:
        return "----"
    kind = {"directory": "d", "file": "f"}.get(found.kind, "o")
    runs = found.mode & (0o100 if found.uid == UID else 0o001)
    return (
        kind
        + ("r" if files.may_read(path, UID) else "-")
        + ("w" if files.may_write(path, UID) else "-")
        + ("x" if runs else "-")
    )


def _look(files: Files, key: str, path: str) -> list[str]:
    near = path
    while near and files.get(near) is None:
        near = near.rpartition("/")[0]
    free, total, inodes, all_inodes = files.room(near or "/")
    told = [f"path {key} {letters(files, path)} {len(raw(near))} {free} {BLOCK} {total} {inodes} {all_inodes}"]
    return told if near == path else [*told, f"near {key} {letters(files, near or '/')}"]


def _program(files: Files, name: str, path: str, cwd: str) -> list[str]:
    where, how = find_program(files, name, path, cwd)
    told = [f"program {how} {hexed(where)}"]
    if how == "found" and (interpreter := interpreter_of(files, where)):
        where, how = find_program(files, interpreter, path, cwd)
        told.append(f"interpreter {how} {hexed(where)}")
    return told


def _model(files: Files, n: int, model: str, name: str, hub: str) -> list[str]:
    told = _look(files, f"model-{n}", model)
    if files.is_directory(model):
        told.append(f"path config-{n} {letters(files, f'{model}/config.json')} - - - - - -")
        weights = [one for one in files.names(model) if re.search(r"\.(safetensors|bin|gguf|pt|pth)$", one)]
        parts = [found for one in weights if (found := re.fullmatch(r"model-.*-of-(\d+)\.safetensors", one))]
        last = files.get(f"{model}/{weights[-1]}") if weights else None
        size = str(last.size) if last is not None else "-"
        told.append(f"weights {n} {len(weights)} 0 0 {len(parts)} {parts[-1][1] if parts else 0} {size}")
    elif name:
        told += [f"path hub-{n} {letters(files, f'{hub}/{name}')} - - - - - -", f"snapshots {n} 0"]
    return told


def preflight(world: World, args: Sequence[bytes], now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """What this node is to a launch."""
    if len(args) < 9:
        return refused("nine words at least", 2)
    path, cwd, program, log, tmp, hub, tools, launcher, handle = (word(args, n) for n in range(9))
    models = [(word(args, n), word(args, n + 1)) for n in range(9, len(args) - 1, 2)]
    files = world.files
    told = [f"login {UID} {hexed(USER)} {hexed(HOME)} {hexed(f'0::{SESSION}' + chr(10))}"]
    told += _program(files, program, path, cwd) if program else []
    told += _look(files, "cwd", cwd) if cwd else []
    if log:
        told += [f"path log {letters(files, log)} - - - - - -", *_look(files, "folder", log.rpartition("/")[0] + "/")]
    told += _look(files, "state", f"{HOME}/.local/state/eagletui/launches")
    told += _look(files, "tmp", tmp) if tmp else []
    told += _look(files, "shm", "/dev/shm")  # noqa: S108 - a simulated path
    hub = hub or f"{HOME}/.cache/huggingface/hub"
    told += _look(files, "hub", hub) if models else []
    for n, (model, name) in enumerate(models):
        told += _model(files, n, model, name, hub)
    named = [tool for tool in tools.split() if re.fullmatch(r"[0-9A-Za-z_.][0-9A-Za-z_.-]*", tool)]
    told += [f"tool {tool}" for tool in named if find_program(files, tool, "/usr/bin:/bin", "/")[1] == "found"]
    told += [f"logind /etc/systemd/logind.conf:{line}" for line in LOGIND]
    told += ["logind-runs", "linger", "bus"]
    if handle and launcher == "systemd":
        loaded = "loaded" if handle in units(world) else "not-found"
        told.append(f"handle 0 {hexed(f'LoadState={loaded}')}")
    elif handle and launcher in {"docker", "podman"}:
        told.append(f"handle 127 {hexed(f'{launcher}: not found')}")
    return lines([*told, "done"])


def check_flags(world: World, args: Sequence[bytes], data: bytes, now: float) -> Answer:  # noqa: ARG001 - one shape for all
    """What the engine's parser says of the arguments that came on stdin."""
    seconds, path, cwd, program = (word(args, n) for n in range(4))
    if not re.fullmatch(r"[1-9][0-9]{0,2}", seconds):
        return refused("not a number of seconds", 2)
    where, how = find_program(world.files, program, path, cwd)
    if how == "found" and (interpreter := interpreter_of(world.files, where)):
        where, how = find_program(world.files, interpreter, path, cwd)
    if how != "found":
        return lines([f"interpreter absent {hexed(where)}"])
    if not re.match(r"python|pypy", posixpath.basename(where)):
        return lines([f"interpreter other {hexed(where)}"])
    told = [f"interpreter found {hexed(where)}"]
    words = [as_text(one) for one in data.split(b"\0")]
    engine = words[0]
    rest = words[2 + int(words[1]) : -1] if len(words) > 1 and re.fullmatch(r"[0-9]{1,6}", words[1]) else []
    if engine != "sglang" or not where.startswith("/opt/venv/"):
        nothing: dict[str, object] = {
            "version": None,
            "options": [],
            "files": 0,
            "text": f"no {engine} is installed for {where}",
        }
        return lines([*told, json.dumps({"scan": nothing})])
    options = list(world.flags())
    error, extras = complaint_of(rest, recorded())
    told.append(json.dumps({"scan": {"version": VERSION, "options": options, "files": 3, "text": None}}))
    told.append(json.dumps({"parser": {"error": error, "extras": extras, "options": options, "text": None}}))
    return lines(told)
