"""Where a server's output goes: its standard descriptors, and the file behind a `| tee`. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from eagletui.servers.model import LogSource, Process
from eagletui.shell.details import Descriptor, Details, ProcessDetails

_HINT = "name its log with --log PATH"


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


def tees_near(launcher: Process, processes: Sequence[Process]) -> list[int]:
    """Pids of tees that may read the launcher's pipe: of its group, its session or its parent."""

    def near(process: Process) -> bool:
        return launcher.pgrp == process.pgrp or launcher.session == process.session or launcher.ppid == process.ppid

    return [p.pid for p in processes if p.uid == launcher.uid and is_tee(p.argv) and near(p)]


def _through_tee(pipe: Descriptor, details: Details) -> LogSource | None:
    for process in details.processes:
        stdin = process.fd(0)
        if not is_tee(process.argv) or stdin is None or stdin.link != pipe.link:
            continue
        name = tee_file(process.argv)
        if name is None:
            continue
        if not name.startswith("/") and process.cwd is None:
            continue
        path = posixpath.normpath(posixpath.join(process.cwd or "/", name))
        return LogSource(path, via="tee", pid=process.pid)
    return None


def _why(descriptor: Descriptor) -> str:
    link = descriptor.link
    if link == "/dev/null":
        return f"its output goes to /dev/null, so there is no log; start it with its output in a file, or {_HINT}"
    if descriptor.type == "character":
        return (
            f"its output goes to a terminal ({link}), which cannot be read; "
            f"start it with its output in a file, or {_HINT}"
        )
    if descriptor.type == "fifo":
        return (
            f"its output goes into a pipe ({link}) that ends in no file we can see; "
            f"if something writes a file from it, {_HINT}"
        )
    if descriptor.type == "socket":
        return (
            f"its output goes to a socket ({link}), the journal or a container's log perhaps; if a file exists, {_HINT}"
        )
    return f"its output goes to {link}, which is no regular file; {_HINT}"


def log_source(launcher: Process, seen: ProcessDetails | None, details: Details) -> LogSource:
    """The log of a launcher: descriptor 2, then 1, each also through a tee; else no path and a sentence that says
    why."""
    if seen is None:
        return LogSource(None, pid=launcher.pid, why=f"process {launcher.pid} could not be looked at; {_HINT}")
    if not seen.fds_readable:
        text = f"process {launcher.pid} belongs to another user, so where its output goes cannot be seen; {_HINT}"
        return LogSource(None, pid=launcher.pid, readable=False, why=text)
    streams = [fd for fd in (seen.fd(2), seen.fd(1)) if fd is not None]
    for descriptor in streams:
        if descriptor.type == "regular":
            return LogSource(
                path=descriptor.link,
                via=f"fd{descriptor.number}",
                pid=launcher.pid,
                fd=descriptor.number,
                device=descriptor.device,
                inode=descriptor.inode,
                size=descriptor.size,
                mtime=descriptor.mtime,
                deleted=descriptor.deleted,
                readable=descriptor.readable,
                why=None if descriptor.readable else f"{descriptor.link} cannot be read by this login; {_HINT}",
            )
        if descriptor.type == "fifo" and (found := _through_tee(descriptor, details)) is not None:
            return found
    if not streams:
        return LogSource(
            None, pid=launcher.pid, why=f"its standard output and error are closed, so there is no log; {_HINT}"
        )
    return LogSource(None, pid=launcher.pid, why=_why(streams[0]))
