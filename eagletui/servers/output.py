"""Where a server's output goes: its standard descriptors, and the file at the end of a pipe (`| tee FILE`). Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from eagletui.servers.model import LogSource, Process
from eagletui.shell.details import Descriptor, Details, ProcessDetails
from eagletui.shell.kept import RUNTIMES

_HINT = "name its log with --log PATH"
READERS = 8
"""Processes near a launcher that are looked at, about 15 ms each on a busy node."""
PIPELINE = 4
"""Programs in a row that its output may go through."""


def is_tee(argv: Sequence[str]) -> bool:
    """A `tee`, by its program's name."""
    return bool(argv) and posixpath.basename(argv[0]) == "tee"


def tee_file(argv: Sequence[str]) -> str | None:
    """The first file that a tee writes; None when it names none."""
    options = True
    for word in argv[1:]:
        if options and word == "--":
            options = False
        elif not (options and word.startswith("-") and word != "-"):
            return word
    return None


def readers_near(launcher: Process, family: Sequence[Process], processes: Sequence[Process]) -> list[int]:
    """Pids of processes that may read the launcher's output through a pipe: tees of its group, session or parent, and others of
    its job (`| ts | tee FILE`, `| grep -v x > FILE`). The nearest first, READERS at most."""
    members = {p.pid for p in family} | {launcher.pid}

    def rank(process: Process) -> int | None:
        if process.uid != launcher.uid or process.pid in members or process.gone:
            return None
        in_job = launcher.pgrp == process.pgrp or launcher.ppid == process.ppid
        if is_tee(process.argv):
            return 0 if in_job else (1 if launcher.session == process.session else None)
        return 2 if in_job and process.pid != launcher.ppid else None

    ranked = sorted((found, p.pid) for p in processes if (found := rank(p)) is not None)
    return [pid for _, pid in ranked[:READERS]]


def _file(descriptor: Descriptor, pid: int, via: str) -> LogSource:
    why = None if descriptor.readable else f"{descriptor.link} cannot be read by this login; {_HINT}"
    return LogSource(
        path=descriptor.link,
        via=via,
        pid=pid,
        fd=descriptor.number,
        device=descriptor.device,
        inode=descriptor.inode,
        size=descriptor.size,
        mtime=descriptor.mtime,
        deleted=descriptor.deleted,
        readable=descriptor.readable,
        why=why,
    )


def _by_name(process: ProcessDetails) -> LogSource | None:
    """The file of a tee whose descriptors cannot be seen."""
    name = tee_file(process.argv)
    if name is None or (not name.startswith("/") and process.cwd is None):
        return None
    return LogSource(posixpath.normpath(posixpath.join(process.cwd or "/", name)), via="tee", pid=process.pid)


def _through(pipe: Descriptor, details: Details, seen: frozenset[str] = frozenset()) -> LogSource | None:
    """The file at the end of a pipe: what a tee writes, else what the program that reads it prints into."""
    if pipe.link in seen or len(seen) >= PIPELINE:
        return None
    for process in details.processes:
        stdin = process.fd(0)
        if stdin is None or stdin.link != pipe.link:
            continue
        if is_tee(process.argv):
            files = [fd for fd in process.fds if fd.number > 2 and fd.type == "regular"]
            files.sort(key=lambda fd: not fd.readable)
            found = _file(files[0], process.pid, "tee") if files else _by_name(process)
            if found is not None:
                return found
        out = process.fd(1)
        if out is not None and out.type == "regular":
            return _file(out, process.pid, "pipe")
        if out is not None and out.type == "fifo" and (found := _through(out, details, seen | {pipe.link})) is not None:
            return found
    return None


def _why(descriptor: Descriptor, keeper: str | None) -> str:
    """`keeper`: the container or unit that the process is in, None when it is in none that is known."""
    link, kind = descriptor.link, descriptor.type
    in_file = f"start it with its output in a file, or {_HINT}"
    if link == "/dev/null":
        return f"its output goes to /dev/null, so there is no log; {in_file}"
    if kind == "character":
        return f"its output goes to a terminal ({link}), which cannot be read; {in_file}"
    if kind in ("fifo", "socket"):
        return _why_piped(link, kind, keeper)
    return f"its output goes to {link}, which is no regular file; {_HINT}"


def _why_piped(link: str, kind: str, keeper: str | None) -> str:
    what, _, name = (keeper or "").partition(" ")
    if what in RUNTIMES:
        return (
            f"its output goes to the log of container {name}, which its runtime keeps ({what} logs -f {name}); "
            f"start it with its output in a file on a volume, or {_HINT}"
        )
    if what in ("unit", "user-unit"):
        return (
            f"its output goes to the journal of {name} (journalctl {'--user-unit' if what == 'user-unit' else '-u'} {name} -f); "
            f"set StandardOutput=append:FILE in its unit, or {_HINT}"
        )
    if kind == "fifo":
        return (
            f"its output goes into a pipe ({link}) that ends in no file we can see; "
            f"if something writes a file from it, {_HINT}"
        )
    return f"its output goes to a socket ({link}), the journal or a container's log perhaps; if a file exists, {_HINT}"


def _same(one: LogSource, other: LogSource) -> bool:
    if one.inode is not None and other.inode is not None:
        return (one.device, one.inode) == (other.device, other.inode)
    return one.path == other.path


def log_source(launcher: Process, seen: ProcessDetails | None, details: Details) -> LogSource:
    """The log of a launcher: descriptors 2 and 1, each also through a pipe, and both where they are two files; else no path
    and a sentence that says why."""
    if seen is None:
        return LogSource(None, pid=launcher.pid, why=f"process {launcher.pid} could not be looked at; {_HINT}")
    if not seen.fds_readable:
        text = f"process {launcher.pid} belongs to another user, so where its output goes cannot be seen; {_HINT}"
        container = seen.keeper if (seen.keeper or "").partition(" ")[0] in RUNTIMES else None
        return LogSource(None, pid=launcher.pid, readable=False, why=text, keeper=container)
    streams = [fd for fd in (seen.fd(2), seen.fd(1)) if fd is not None]
    found: list[LogSource] = []
    for descriptor in streams:
        one: LogSource | None = None
        if descriptor.type == "regular":
            one = _file(descriptor, launcher.pid, f"fd{descriptor.number}")
        elif descriptor.type == "fifo":
            one = _through(descriptor, details)
        if one is not None and not any(_same(one, other) for other in found):
            found.append(one)
    if len(found) > 1:
        return replace(found[0], also=found[1])
    if found:
        return found[0]
    if not streams:
        return LogSource(
            None, pid=launcher.pid, why=f"its standard output and error are closed, so there is no log; {_HINT}"
        )
    keeper = seen.keeper if streams[0].type in ("fifo", "socket") else None
    return LogSource(None, pid=launcher.pid, why=_why(streams[0], keeper), keeper=keeper)
