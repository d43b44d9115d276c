"""The process table as the script `processes` prints it (its shape stands in scripts.py; stat fields:
proc_pid_stat(5)). Total: nothing raises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from eagletui.shell.script import Command
from eagletui.shell.scripts import PROCESSES

TICKS_PER_S = 100
"""CLK_TCK of every Linux that runs GPUs: fields 14, 15 and 22 of /proc/PID/stat count in it."""
_STAT = re.compile(rb"\A(\d{1,10}) \((.*)\) ([A-Za-z])((?: -?\d{1,20}){19,})\s*\Z", re.DOTALL)
_COMM_LIMIT = 80
"""Bytes: a kernel thread's name has up to 63, a user's 15.

A longer join means that a row was torn, not that a name went on.
"""
_UID = re.compile(rb"\A/proc/(\d{1,10})/status:Uid:\s+(\d{1,10})\b")
_ARGV_PATH = re.compile(rb"\A/proc/(\d{1,10})/cmdline\Z")


@dataclass(frozen=True, slots=True)
class StatRow:
    """One /proc/PID/stat.

    `started` is field 22 (ticks since boot), `cpu_ticks` user and system time together. `comm` is cut by the kernel.
    """

    pid: int
    comm: str
    state: str
    ppid: int
    pgrp: int
    session: int
    cpu_ticks: int
    threads: int
    started: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """A process of the table.

    `uid` is the real uid, None when its status could not be read; `argv` lacks empty arguments.
    """

    stat: StatRow
    uid: int | None = None
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """Facts of the node, then its processes by pid.

    Unknown facts are None; ticks_per_s is CLK_TCK (100 unless the node says otherwise).
    """

    boot_id: str | None = None
    ticks_per_s: int = 100
    uptime_s: float | None = None
    epoch_s: int | None = None
    own_uid: int | None = None
    own_pid: int | None = None
    rows: tuple[TableRow, ...] = ()


def ask_processes() -> Command:
    """The command whose stdout parse_processes reads."""
    return Command(PROCESSES)


def as_text(raw: bytes) -> str:
    """Bytes of the node as text that can go back to the node unchanged (undecodable bytes become lone surrogates)."""
    return raw.decode("utf-8", "surrogateescape")


def parse_stat(raw: bytes) -> StatRow | None:
    """One whole /proc/PID/stat; None when it lacks fields.

    Fields are counted after the last ')': comm may hold ')', spaces and newlines.
    """
    found = _STAT.match(raw)
    if found is None:
        return None
    rest = [int(word) for word in found[4].split()]  # rest[0] is field 4
    return StatRow(
        pid=int(found[1]),
        comm=as_text(found[2]),
        state=found[3].decode(),
        ppid=rest[0],
        pgrp=rest[1],
        session=rest[2],
        cpu_ticks=rest[10] + rest[11],
        threads=rest[16],
        started=rest[18],
    )


def _stat_rows(block: bytes) -> Iterator[StatRow]:
    """Rows of concatenated stat files.

    A newline in a comm tears a row: pieces are joined until all fields are there.
    """
    pending = b""
    for line in block.split(b"\n"):
        candidate = pending + b"\n" + line if pending else line
        row = parse_stat(candidate)
        if row is None and pending and len(candidate) > _COMM_LIMIT:
            candidate, row = line, parse_stat(line)  # what was pending never becomes a row
        if row is not None:
            yield row
            pending = b""
        else:
            pending = candidate if b" (" in candidate else b""


def _sys_facts(block: bytes) -> dict[str, str]:
    names = ("mark", "boot_id", "ticks", "uptime", "epoch", "uid", "pid")
    return dict(zip(names, as_text(block).split("\n"), strict=False))


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,9})?", text) else None


def _uids(block: bytes) -> dict[int, int]:
    found = (_UID.match(line) for line in block.split(b"\n"))
    return {int(m[1]): int(m[2]) for m in found if m is not None}


def _arguments(block: bytes) -> dict[int, tuple[str, ...]]:
    """`/proc/PID/cmdline NUL element NUL` over and over. Elements hold no NUL, so the pairs cannot get out of step."""
    parts = block.split(b"\0")
    gathered: dict[int, list[str]] = {}
    for path, element in zip(parts[::2], parts[1::2], strict=False):
        found = _ARGV_PATH.match(path)
        if found is not None:
            gathered.setdefault(int(found[1]), []).append(as_text(element))
    return {pid: tuple(elements) for pid, elements in gathered.items()}


def parse_processes(output: bytes) -> ProcessTable:
    """The table that the script `processes` printed. A part that is missing or torn leaves its facts unknown."""
    head, _, rest = output.partition(b"\0@stat\n")
    stat, _, rest = rest.partition(b"\0@uid\n")
    uid, _, argv = rest.partition(b"\0@argv\n")
    facts = _sys_facts(head[head.find(b"@sys\n") :]) if b"@sys\n" in head else {}
    uids, arguments = _uids(uid), _arguments(argv)
    rows = {row.pid: row for row in _stat_rows(stat)}
    return ProcessTable(
        boot_id=facts.get("boot_id") if facts.get("boot_id") not in {"-", ""} else None,
        ticks_per_s=_integer(facts.get("ticks")) or 100,
        uptime_s=_seconds(facts.get("uptime")),
        epoch_s=_integer(facts.get("epoch")),
        own_uid=_integer(facts.get("uid")),
        own_pid=_integer(facts.get("pid")),
        rows=tuple(TableRow(rows[pid], uids.get(pid), arguments.get(pid, ())) for pid in sorted(rows)),
    )
