"""What the kernel says of a death: the script `kernel-log`, and how often it killed in a control group (`oom-count`).

Total. Sources: mm/oom_kill.c ("Out of memory: Killed process"), arch/x86/mm/fault.c ("segfault at"), arch/x86/kernel/traps.c
("traps: "), NVIDIA's "XID Errors" ("NVRM: Xid (PCI:…): 79, pid=…"), cgroup-v2.rst (memory.events).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from eagletui.shell.script import Command
from eagletui.shell.scripts import KERNEL_LOG, OOM_COUNT

EventKind = Literal["oom", "xid", "fault"]
_ENDED = re.compile(r"@ended (dmesg|journalctl) (\d{1,3})\Z")
_UPTIME = re.compile(r"@uptime (\d{1,12}(?:\.\d{1,9})?)\Z")
_LINE = re.compile(r"(?:<\d{1,3}>)?\[ *(\d{1,10}\.\d{1,9})\] ?(?:\S{1,255} kernel: )?(.*)\Z")
_KILLED = re.compile(r"[Kk]ill(?:ed)? process (\d{1,10})(?:, UID \d{1,10})?,? \((.{1,64}?)\)[ ,]")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{1,32})\): (\d{1,4})(?:, pid=(\d{1,10}))?")
_FAULT = re.compile(r"(?:traps: )?(\S[^\[\]]{0,64})\[(\d{1,10})\]:? (?:segfault at|general protection|trap )")
_CONTROL = re.compile("\x1b\\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")
_HIDDEN = ("Hint: You are currently not seeing messages", "No journal files were")
"""What journalctl says to a login that may not read the kernel's messages, whatever its exit status."""


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """Something that the kernel did or saw. `at_s`: seconds of the node's uptime. `number`: of an Xid. `name`: the
    process's, cut to 15 bytes; `device`: the GPU's PCI address; each None where it is not told. `text`: the clean line."""

    kind: EventKind
    text: str
    at_s: float | None = None
    pid: int | None = None
    name: str | None = None
    number: int | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What could be read. `readable` False: nothing, and `error` says what each tool said. `uptime_s`: when it was read."""

    readable: bool = False
    error: str = ""
    uptime_s: float | None = None
    events: tuple[KernelEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class OomCount:
    """A control group's count of processes that were killed for memory. `group` as the script takes it back; `limit_bytes`
    None: no limit, or not told."""

    group: str
    kills: int
    limit_bytes: int | None = None


def ask_kernel_log() -> Command:
    """The command whose stdout parse_kernel_log reads."""
    return Command(KERNEL_LOG)


def ask_oom_count(whose: int | str) -> Command:
    """The command whose stdout parse_oom_count reads: for a process, or for a `group` of an earlier answer."""
    return Command(OOM_COUNT, (str(whose),))


def parse_kernel_log(output: bytes) -> KernelLog:
    """What the script `kernel-log` printed."""
    uptime: float | None = None
    events: list[KernelEvent] = []
    complaints: list[str] = []
    readable = False
    said: list[str] = []
    for raw in output.decode("utf-8", "replace").split("\n"):
        line = _CONTROL.sub("", raw).strip()
        if (found := _UPTIME.match(line)) is not None:
            uptime = float(found[1])
        elif (found := _ENDED.match(line)) is not None:
            if found[2] == "0" and not any(text.startswith(_HIDDEN) for text in said):
                readable = True
            else:
                complaints.append(_complaint(found[1], int(found[2]), said))
            said = []
        elif (found := _LINE.match(line)) is not None:
            event = _event(found[2], float(found[1]))
            if event is not None:
                events.append(event)
        elif line:
            said.append(line)
    if readable:
        return KernelLog(True, "", uptime, tuple(events))
    return KernelLog(False, "; ".join(complaints) or "no answer", uptime)


def _complaint(tool: str, status: int, said: list[str]) -> str:
    if status == 127 and not said:
        return f"{tool}: not there"
    if status == 124:
        return f"{tool}: it did not answer"
    text = said[0] if said else f"exit status {status}"
    return text if text.startswith(f"{tool}: ") else f"{tool}: {text}"


def _event(text: str, at_s: float) -> KernelEvent | None:
    if (found := _KILLED.search(text)) is not None:
        return KernelEvent("oom", text, at_s, int(found[1]), found[2])
    if (found := _XID.search(text)) is not None:
        pid = None if found[3] is None else int(found[3])
        return KernelEvent("xid", text, at_s, pid, number=int(found[2]), device=found[1])
    if (found := _FAULT.match(text)) is not None:
        return KernelEvent("fault", text, at_s, int(found[2]), found[1])
    return None


def parse_oom_count(output: bytes) -> OomCount | None:
    """What the script `oom-count` printed; None where nothing counts."""
    words = dict(line.split(" ", 1) for line in output.decode("ascii", "replace").split("\n") if " " in line)
    try:
        group = bytes.fromhex(words.get("cgroup", "")).decode("utf-8", "surrogateescape")
    except ValueError:
        return None
    kills, limit = words.get("oom_kill", ""), words.get("limit", "")
    if not group or not kills.isdigit() or len(kills) > 18:
        return None
    told = limit.isdigit() and len(limit) < 19  # v1 tells "no limit" as the largest page-aligned number, of 19 digits
    return OomCount(group, int(kills), int(limit) if told else None)
