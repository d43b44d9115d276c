"""Where the launch writes: log, record, /dev/shm, temporary files. Pure."""

from __future__ import annotations

import posixpath

from eagletui.launching.plan import Check
from eagletui.launching.words import plain
from eagletui.shell.preflight import NodeFacts, PathFact

GIB = 1 << 30
LOG_WARN = GIB
"""Bytes: a log at debug level, or a traceback of every rank again and again, grows by hundreds of MB."""
LEAST = 16 << 20
"""Bytes below which a file system counts as full: the log of one start does not fit."""
SHM_WARN = GIB
"""Bytes: NCCL takes 4 to 33 MiB a rank pair, SGLang hands images and batches over in shared memory."""
SHM_CONTAINER = 64 << 20
"""Bytes: what docker gives a container that asks for nothing. NCCL between two ranks already fails there ("No space left on device")."""
RECORD_LEAST = 1 << 20
"""Bytes: a record is some kilobytes."""


def size(number: int) -> str:
    """ "1.5 GiB", "64 MiB"."""
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / (1 << 20):.0f} MiB"


def _blocked(fact: PathFact) -> bool:
    """It may exist behind a folder that this login cannot enter."""
    return not fact.there and fact.near_kind == "d" and not fact.near_enter


def _folder_fault(folder: PathFact, inside: str) -> tuple[str, str] | None:
    """Why no file can be made in the folder of the log, and what to do."""
    choose = "Choose another log in the profile."
    if _blocked(folder):
        return f"This login may not look into the folder of the log, {inside}.", choose
    if folder.kind == "-" and folder.near_kind == "d" and folder.near_write:
        return None  # the launch makes it
    if folder.kind == "-":
        return f"The folder of the log, {inside}, does not exist and cannot be made.", choose
    if folder.kind != "d":
        return f"{inside} is no folder, so there can be no log in it.", choose
    if not (folder.write and folder.enter):
        return f"This login may not write into the folder of the log, {inside}.", choose
    return None


def check_log(log: PathFact | None, folder: PathFact | None, path: str) -> Check:
    """`launch.log`: a new file can be made there."""
    name, where = "launch.log", plain(path)
    if log is None or folder is None:
        return Check(name, "unknown", f"The node did not say whether {where} can be written.")
    if log.kind != "-":
        text = f"{where} exists already; each launch gets a log of its own, and nothing is written over an old one."
        return Check(name, "fail", text, "Put {time} into the profile's log, or move the old file.")
    fault = _folder_fault(folder, plain(posixpath.dirname(path)) or "/")
    if fault is not None:
        return Check(name, "fail", *fault)
    made = "" if folder.kind == "d" else ", whose folder is made"
    return Check(name, "ok", f"The log goes to {where}{made}.")


def check_space(name: str, fact: PathFact | None, what: str, warn: int, least: int = LEAST) -> Check:
    """Room on a file system: `fail` where nothing more fits, `warn` below `warn` bytes."""
    if fact is None or fact.free is None:
        return Check(name, "unknown", f"The node did not say how much room there is for {what}.")
    clear = "Delete what is not needed any more (old logs, caches), or choose another place in the profile."
    if fact.inodes == 0:
        text = f"The file system of {what} has no inodes left: no file can be made."
        return Check(name, "fail", text, "Delete many small files (caches) there.")
    if fact.free < least:
        return Check(name, "fail", f"The file system of {what} is full: {size(fact.free)} left.", clear)
    if fact.free < warn:
        return Check(name, "warn", f"Only {size(fact.free)} left for {what}.", clear)
    return Check(name, "ok", f"{size(fact.free)} free for {what}.")


def check_record(fact: PathFact | None) -> Check:
    """`record.state`: eagletui's record of the launch can be kept on the node."""
    name = "record.state"
    if fact is None:
        return Check(name, "unknown", "The node did not say whether a record of the launch can be kept.")
    writable = (fact.kind == "d" and fact.write and fact.enter) or (
        fact.kind == "-" and fact.near_kind == "d" and fact.near_write and fact.near_enter
    )
    if not writable:
        text = "The record of the launch cannot be kept: this login may not write ~/.local/state/eagletui on the node."
        return Check(name, "fail", text, "Make it writable, or point XDG_STATE_HOME of the login to a folder that is.")
    room = check_space(name, fact, "the record of the launch", RECORD_LEAST, RECORD_LEAST)
    return room if room.result == "fail" else Check(name, "ok", "The record of the launch can be kept on the node.")


def check_tmp(fact: PathFact | None, path: str) -> Check:
    """`node.tmp`: engines keep sockets and compiled kernels there."""
    name, where = "node.tmp", plain(path)
    if fact is None:
        return Check(name, "unknown", f"The node did not say whether {where} can be written.")
    if not (fact.kind == "d" and fact.write and fact.enter):
        todo = "Make it, or set TMPDIR in the profile's environment to a folder that is."
        return Check(name, "fail", f"{where} (temporary files, sockets) is no folder that this login may write.", todo)
    return check_space(name, fact, f"temporary files ({where})", GIB)


def check_shm(fact: PathFact | None, ranks: int | None) -> Check:
    """`node.shm`: shared memory between ranks. `ranks`: GPUs of the launch, None unknown."""
    name = "node.shm"
    if fact is None or (fact.there and fact.free is None):
        return Check(name, "unknown", "The node did not say how much shared memory (/dev/shm) there is.")
    if fact.kind != "d" or not fact.write:
        text = "There is no /dev/shm that this login may write: ranks have no shared memory to talk through."
        return Check(
            name, "fail" if ranks is None or ranks > 1 else "warn", text, "Mount it: mount -t tmpfs tmpfs /dev/shm"
        )
    grow = "In a container: start it with --ipc=host or --shm-size=16g. Else remove what dead servers left in /dev/shm."
    if fact.size is not None and fact.size <= SHM_CONTAINER and ranks is not None and ranks > 1:
        text = f"Shared memory (/dev/shm) is {size(fact.size)}, what a container gets by default: NCCL between {ranks} ranks does not fit."
        return Check(name, "fail", text, grow)
    free = fact.free or 0
    if free < SHM_WARN:
        return Check(
            name, "warn", f"Only {size(free)} of shared memory (/dev/shm) free; NCCL and the engine need it.", grow
        )
    return Check(name, "ok", f"{size(free)} of shared memory (/dev/shm) free.")


def checks_of_storage(facts: NodeFacts, *, log: str | None, tmp: str, ranks: int | None) -> tuple[Check, ...]:
    """All of them. `log` None: the launcher keeps it itself."""
    folder = facts.path("folder")
    of_log: tuple[Check, ...] = ()
    if log is not None:
        of_log = (
            check_log(facts.path("log"), folder, log),
            check_space("launch.log-space", folder, "the log", LOG_WARN),
        )
    rest = (check_tmp(facts.path("tmp"), tmp), check_shm(facts.path("shm"), ranks), check_record(facts.path("state")))
    return (*of_log, *rest)
