"""The records on the node, driven: read when one connects, made before anything is stopped, kept up to date, thinned out."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from eagletui.errors import CommandTimeout, NothingThereError, RefusedError
from eagletui.launching.acting import Acting
from eagletui.launching.launchers.registry import launcher
from eagletui.launching.looking import Runs
from eagletui.launching.recipe import Limits, Recipe
from eagletui.launching.words import plain
from eagletui.nodes.base import Completed
from eagletui.servers.record import Record, encode_record, masked_environment, parse_record
from eagletui.shell.masking import mask_argv, shown
from eagletui.shell.records import (
    KEPT,
    SHOWN,
    LaunchFiles,
    RecordAnswer,
    RecordFiles,
    ask_record_copy,
    ask_record_create,
    ask_record_prune,
    ask_record_update,
    ask_records,
    edits_of,
    parse_record_answer,
    parse_records,
)

_LIMITS: Final[dict[str, tuple[str, int]]] = {
    "Max cpu time": ("t", 1),
    "Max file size": ("f", 512),
    "Max data size": ("d", 1024),
    "Max stack size": ("s", 1024),
    "Max core file size": ("c", 512),
    "Max processes": ("u", 1),
    "Max open files": ("n", 1),
    "Max locked memory": ("l", 1024),
    "Max address space": ("v", 1024),
}
"""A name of /proc/PID/limits to ulimit's letter and its unit in bytes (or what it counts): those that every sh knows and a server can feel."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A record as it lies on the node now. `alive`: its process lives (in this boot); `keeper_alive` likewise. `relaunchable`: launch/ is there.
    `readable` False: its record.json is damaged, and `record` holds what its other files tell."""

    record: Record
    alive: bool = False
    keeper_alive: bool = False
    relaunchable: bool = False
    begun: bool = False
    readable: bool = True


@dataclass(frozen=True, slots=True)
class NodeRecords:
    """All records of this node, newest first. `boot`: the node's boot id; `machine`: its name in the folder; `folder` None with `why` where there is none."""

    boot: str | None = None
    machine: str | None = None
    folder: str | None = None
    why: str | None = None
    records: tuple[Kept, ...] = ()

    def of(self, record_id: str) -> Kept | None:
        """The record with this id."""
        return next((one for one in self.records if one.record.id == record_id), None)


def new_id(now: datetime | None = None) -> str:
    """An id that sorts by time and is nobody else's: "20261201T103000123Z-4f2a9c"."""
    at = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{at:%Y%m%dT%H%M%S}{at.microsecond // 1000:03}Z-{secrets.token_hex(3)}"


def with_recipe(record: Record, recipe: Recipe) -> Record:
    """The record of a launch of this recipe: what is shown of it, masked. Pure. Raises UsageError for a launcher that is none."""
    return replace(
        record,
        launcher=recipe.launcher,
        engine=recipe.engine or record.engine,
        port=recipe.port if recipe.port is not None else record.port,
        profile=recipe.profile,
        variant=recipe.variant,
        command=tuple(shown(word) for word in mask_argv(recipe.argv)),
        environment=masked_environment(recipe.env),
        cwd=recipe.cwd,
        log=recipe.log_file,
        handle=record.handle or launcher(recipe.launcher).handle(recipe),
    )


def kept_of(files: RecordFiles, boot: str | None) -> Kept:
    """A record with what its other files tell. A process of another boot is none. Pure."""
    parsed = parse_record(files.json)
    record = parsed or Record(files.id, "start", "", "", text="its record.json cannot be read")
    same = record.boot is None or boot is None or record.boot == boot
    keeper, process = files.keeper, files.process
    return Kept(
        replace(
            record,
            id=files.id,
            keeper=(keeper.pid, keeper.started) if keeper is not None else record.keeper,
            process=(process.pid, process.started) if process is not None else record.process,
            exit_status=files.exit_status if files.exit_status is not None else record.exit_status,
        ),
        alive=same and process is not None and process.alive and files.exit_status is None,
        keeper_alive=same and keeper is not None and keeper.alive,
        relaunchable=files.launch,
        begun=files.begun,
        readable=parsed is not None,
    )


async def read_records(node: Runs, count: int = SHOWN) -> NodeRecords:
    """The newest records of this machine, and every one whose processes live. Reads only. Raises NodeError."""
    done = await node.run(ask_records(count))
    found = parse_records(done.stdout)
    records = tuple(kept_of(files, found.boot) for files in found.records)
    return NodeRecords(found.boot, found.machine, found.folder, found.why, records)


def limit_lines(limits: Limits) -> tuple[str, ...]:
    """The lines of launch/limits (shell/records.py). Pure."""
    lines = [f"umask {limits.umask}"] if limits.umask else []
    for name, value in limits.soft:
        if (known := _LIMITS.get(name)) is not None:
            letter, unit = known
            lines.append(f"soft {letter} {'unlimited' if value is None else value // unit}")
    return (*lines, *([f"cpus {limits.cpus}"] if limits.cpus else ()))


async def create(acting: Acting, record: Record, recipe: Recipe | None) -> Record:
    """Write the record, and what it launches, before anything is stopped. Gives it as it was written (masked, with the recipe's). Old ones are taken away.

    `recipe` None: a stop, which launches nothing. A recipe whose source is a record is copied on the node from `record.previous`: its environment and
    its secrets never come here. Raises RefusedError where it cannot be written (nothing was touched), NothingThereError where the record to copy is
    gone, OvertakenError, NodeError.
    """
    if recipe is not None and (not recipe.argv or not recipe.cwd.startswith("/") or not recipe.log.startswith("/")):
        text = "A launch needs a command, and its folder and its log by their whole paths. Correct the profile."
        raise RefusedError(text, code="no-record")
    whole = record if recipe is None else with_recipe(record, recipe)
    raw = encode_record(whole)
    if recipe is not None and recipe.source == "record":
        done = await _copied(acting, whole, recipe, raw)
    else:
        try:
            command = ask_record_create(acting.fence.arguments, record.id, raw, _files(recipe))
        except ValueError as error:
            raise RefusedError(f"The command cannot be launched: {error}.", code="no-record") from error
        done = await acting.run(command)
    answer = parse_record_answer(done.exit_status, done.stdout)
    if not acting.dry and not answer.done:
        raise RefusedError(f"{_not_written(answer, done)} Nothing was stopped, and nothing launched.", code="no-record")
    with suppress(CommandTimeout):  # a slow disk: old ones are taken away the next time
        await prune(acting)
    return whole


def _files(recipe: Recipe | None) -> LaunchFiles | None:
    if recipe is None:
        return None
    return LaunchFiles(recipe.argv, recipe.env, recipe.cwd, recipe.log, limit_lines(recipe.limits))


async def _copied(acting: Acting, record: Record, recipe: Recipe, raw: bytes) -> Completed:
    old = record.previous
    if old is None:
        raise NothingThereError("There is no record to launch again from.")
    known = (await read_records(acting, KEPT)).of(old)
    if known is None or not known.relaunchable:
        raise NothingThereError(f"The record {plain(old)} is no longer on the node, or it launched nothing.")
    before = known.record
    try:
        argv = edits_of(before.command, recipe.argv) if before.command != recipe.argv else ()
        command = ask_record_copy(
            acting.fence.arguments,
            record.id,
            old,
            raw,
            log=recipe.log,
            argv=argv,
            cwd=None if recipe.cwd == before.cwd else recipe.cwd,
        )
    except ValueError as error:
        text = f"The command of record {plain(old)} cannot be changed so: {error}. Give the value itself, or use a profile."
        raise RefusedError(text, code="no-record") from error
    return await acting.run(command)


async def update(acting: Acting, record: Record) -> str | None:
    """Replace record.json. Gives None, or a sentence where it could not be written: what is under way goes on. A newer eagletui's record is left as it is.

    Raises OvertakenError, NodeError.
    """
    if record.newer:
        return None
    process = record.process if record.keeper is None else None  # no keeper of ours has written it
    done = await acting.run(ask_record_update(acting.fence.arguments, record.id, encode_record(record), process))
    answer = parse_record_answer(done.exit_status, done.stdout)
    return None if acting.dry or answer.done else _not_written(answer, done)


async def prune(acting: Acting, keep: int = KEPT) -> int | None:
    """Take away old records whose processes are gone; how many were. Raises OvertakenError, NodeError."""
    done = await acting.run(ask_record_prune(acting.fence.arguments, keep))
    return parse_record_answer(done.exit_status, done.stdout).count


_WORDS: Final[dict[str, str]] = {
    "exists": "there is one of that name already. Try again",
    "missing": "it is gone from the node",
    "cut": "the link lost a part of it. Try again",
    "word": "the command it is made from is another than was read. Try again",
}


def _not_written(answer: RecordAnswer, done: Completed) -> str:
    said = plain(done.stderr.decode("utf-8", "replace"))
    if answer.word == "unwritable":
        where = f" in {plain(answer.folder)}" if answer.folder else ""
        return f"The launch's record cannot be written{where}: {said or 'the node does not say why'}. Make room there, or set XDG_STATE_HOME."
    why = _WORDS.get(answer.word, said or f"the node answered with exit status {done.exit_status}")
    return f"The launch's record was not written: {why}."
