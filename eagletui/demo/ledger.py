"""The scripts of the records, answered by the simulated node. Pure; `shell/records.py` says what each must print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from eagletui.demo import shape
from eagletui.demo.answer import Answer, Ended, as_text, hexed, lines, refused, word
from eagletui.demo.files import FileError
from eagletui.demo.launches import records_of
from eagletui.demo.locks import fence
from eagletui.demo.processes import UID, Proc
from eagletui.demo.world import World

ROOT: Final = records_of()
_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,7}")
_COUNT: Final = re.compile(r"0|[1-9][0-9]{0,4}")
JSON_LIMIT: Final = 262_144


def alive(world: World, pid: int, started: int, now: float) -> Proc | None:
    """That very process, when it is there and not only its exit status."""
    for proc in world.processes(now):
        if proc.pid == pid and world.ticks(proc) == started and not (proc.state in "ZX" and proc.threads <= 1):
            return proc
    return None


def read(world: World, path: str) -> bytes | None:
    """A whole file; None where there is none."""
    entry = world.files.get(path)
    return entry.data if entry is not None and entry.kind == "file" else None


def identity(world: World, path: str) -> tuple[int, int] | None:
    """The process that a file of a record names."""
    found = re.match(rb"([1-9][0-9]{0,9}) ([0-9]{1,19})(?:\s|\Z)", read(world, path) or b"")
    return (int(found[1]), int(found[2])) if found and int(found[1]) > 1 else None


def exit_status(world: World, folder: str) -> str | None:
    """As the keeper wrote it."""
    found = re.match(rb"([0-9]{1,3})(?:\s|\Z)", read(world, f"{folder}/exit") or b"")
    return found[1].decode() if found else None


def _lives(world: World, folder: str, now: float) -> bool:
    written = (identity(world, f"{folder}/{name}") for name in ("keeper", "process"))
    return any(one is not None and alive(world, *one, now) is not None for one in written)


def flag(there: object) -> str:
    return "y" if there else "n"


def _folders(world: World) -> list[str]:
    return [name for name in world.files.names(ROOT) if name[:1].isalnum()]


def records(world: World, args: Sequence[bytes], now: float) -> Answer:
    """The newest, and those that live."""
    if not _COUNT.fullmatch(word(args, 0)):
        return refused("not a number", 2)
    count = int(word(args, 0))
    out = f"@node\n{world.boot_id}\n{shape.MACHINE_ID}\n{hexed(ROOT)}\n".encode()
    names = _folders(world)
    for n, name in enumerate(names):
        folder = f"{ROOT}/{name}"
        json = read(world, f"{folder}/record.json")
        if json is None or not _ID.fullmatch(name) or (len(names) - n > count and not _lives(world, folder, now)):
            continue
        launch, begun = (world.files.get(f"{folder}/{one}") for one in ("launch/argv", "begun"))
        told = [f"@record {name} {flag(launch)} {flag(begun)}"]
        for key in ("keeper", "process"):
            if (one := identity(world, f"{folder}/{key}")) is not None:
                told += [f"{key} {one[0]} {one[1]} {flag(alive(world, *one, now))}"]
        if (status := exit_status(world, folder)) is not None:
            told.append(f"exit {status}")
        out += b"\0" + "".join(f"{line}\n" for line in told).encode() + b"\0@json\n" + json[:JSON_LIMIT]
    return Answer(out + b"\0@done\n")


# Writing


def _parts(lengths: Sequence[str], data: bytes) -> list[bytes]:
    """The parts of what came on stdin. Raises Ended."""
    if not all(_LENGTH.fullmatch(one) for one in lengths):
        raise Ended(refused("not a length", 2))
    sizes = [int(one) for one in lengths]
    if len(data) != sum(sizes):
        raise Ended(lines(["cut"], 3))
    ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
    return [data[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def id_of(text: str) -> str:
    """A record's name. Raises Ended."""
    if not _ID.fullmatch(text):
        raise Ended(refused("not an id", 2))
    return text


def _new(world: World, record: str) -> None:
    if world.files.get(f"{ROOT}/{record}") is not None:
        raise Ended(lines(["exists"], 3))


def _put(world: World, record: str, files: dict[str, bytes], now: float) -> Answer:
    folder = f"{ROOT}/{record}"
    try:
        world.files.make_directory(folder, UID, now, 0o700, parents=True)
        if len(files) > 1:
            world.files.make_directory(f"{folder}/launch", UID, now, 0o700)
        for name, data in files.items():
            world.files.write(f"{folder}/{name}", data, UID, now, 0o600)
    except FileError as error:
        return Answer(f"unwritable {hexed(ROOT)}\n".encode(), f"mkdir: {error}\n".encode(), 4)
    return lines([f"done {hexed(folder)}"])


def record_create(world: World, args: Sequence[bytes], data: bytes, now: float) -> Answer:
    """A new record."""
    fence(world, args, now)
    record, lengths = id_of(word(args, 2)), [as_text(one) for one in args[3:]]
    if len(lengths) != 6:
        return refused("not six lengths", 2)
    _new(world, record)
    parts = _parts(lengths, data)
    names = ("record.json", *(f"launch/{name}" for name in ("argv", "env", "cwd", "log", "limits")))
    found = dict(zip(names, parts, strict=True))
    kept = {name: part for name, part in found.items() if part or name == "launch/env"}
    return _put(world, record, kept if parts[1] else {"record.json": parts[0]}, now)


_PROCESS: Final = re.compile(r"(?:[2-9]|[1-9][0-9]{1,6}) (?:0|[1-9][0-9]{0,18})")


def record_update(world: World, args: Sequence[bytes], data: bytes, now: float) -> Answer:
    """record.json in the place of what it was."""
    fence(world, args, now)
    record = id_of(word(args, 2))
    if len(args) not in {4, 6}:
        return refused("not a length", 2)
    process = " ".join(word(args, n) for n in range(4, len(args)))
    if process and not _PROCESS.fullmatch(process):
        return refused("not a process", 2)
    if not world.files.is_directory(f"{ROOT}/{record}"):
        return lines(["missing"], 3)
    parts = _parts([word(args, 3)], data)
    world.files.write(f"{ROOT}/{record}/record.json", parts[0], UID, now, 0o600)
    if process and world.files.get(f"{ROOT}/{record}/process") is None:
        world.files.write(f"{ROOT}/{record}/process", f"{process}\n".encode(), UID, now, 0o600)
    return lines([f"done {hexed(f'{ROOT}/{record}')}"])


def _edited(edits: bytes, old: list[bytes]) -> list[bytes]:
    out: list[bytes] = []
    for edit in edits.split(b"\0")[:-1]:
        number = as_text(edit[1:])
        if edit.startswith(b"+"):
            out.append(edit[1:])
        elif not edit.startswith(b"@"):
            raise Ended(lines(["word"], 3))
        elif not re.fullmatch(r"[0-9]{1,5}", number) or int(number) >= len(old):
            raise Ended(lines([f"word {number}"], 3))
        else:
            out.append(old[int(number)])
    return out


def record_copy(world: World, args: Sequence[bytes], data: bytes, now: float) -> Answer:
    """A new record that launches what an old one did."""
    fence(world, args, now)
    record, old = id_of(word(args, 2)), id_of(word(args, 3))
    if len(args) != 8:
        return refused("not four lengths", 2)
    _new(world, record)
    argv = read(world, f"{ROOT}/{old}/launch/argv")
    if argv is None:
        return lines(["missing"], 3)
    parts = _parts([as_text(one) for one in args[4:]], data)
    json, edits, cwd, log = parts
    kept = {f"launch/{name}": read(world, f"{ROOT}/{old}/launch/{name}") for name in ("argv", "env", "cwd", "limits")}
    if edits:
        words = _edited(edits, argv.split(b"\0")[:-1])
        kept["launch/argv"] = b"".join(one + b"\0" for one in words)
    kept |= {name: part for name, part in (("launch/cwd", cwd), ("launch/log", log)) if part}
    return _put(
        world, record, {"record.json": json, **{name: part for name, part in kept.items() if part is not None}}, now
    )


def record_prune(world: World, args: Sequence[bytes], now: float) -> Answer:
    """Without the old ones."""
    fence(world, args, now)
    if not re.fullmatch(r"[1-9][0-9]{0,4}", word(args, 2)):
        return refused("not a number", 2)
    gone = 0
    names = _folders(world)
    for name in names[: max(0, len(names) - int(word(args, 2)))]:
        folder = f"{ROOT}/{name}"
        if not _ID.fullmatch(name) or world.files.get(f"{folder}/record.json") is None or _lives(world, folder, now):
            continue
        for path, _ in reversed(list(world.files.walk(folder))):
            world.files.remove(path, UID)
        gone += 1
    return lines([f"done {gone}"])
