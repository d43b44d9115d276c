"""nvidia-smi: the calls to make, and how to read each answer. `sequence` says in which order to make them.

Only machine formats are read (csv, `-L`, XML); the human table changes with every driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from eagletui.gpus.loop import LoopParser
from eagletui.gpus.model import Gpu, GpuError, GpuProcess, GpuReport, MigInstance
from eagletui.gpus.smi_messages import Message, joined, leading_code, read_message, was_ended
from eagletui.gpus.smi_rows import (
    Dialect,
    answer_lines,
    build_report,
    read_count,
    read_line,
    refused_field,
    split_answer,
)
from eagletui.gpus.smi_xml import MigMemory, parse_mig_memory

__all__ = [
    "CALL_TIMEOUT_S",
    "COMPUTE_APPS_ARGV",
    "LIST_ARGV",
    "XML_ARGV",
    "AppsAnswer",
    "Argv",
    "Dialect",
    "Listing",
    "LoopParser",
    "MigMemory",
    "QueryAnswer",
    "assemble",
    "compute_apps_argv",
    "loop_argv",
    "parse_compute_apps",
    "parse_list",
    "parse_mig_memory",
    "parse_query",
    "query_gpu_argv",
    "read_compute_apps",
    "read_list",
    "timeout_report",
    "with_memory",
]

Argv = tuple[str, ...]
CALL_TIMEOUT_S: Final = 8
"""Seconds that one call may take.

Without persistence mode the driver is loaded anew for each call, which takes about 3 s. And whoever asked may be gone:
with the second that a kill needs, nothing of ours is there after 10 s.
"""
_CSV: Final = "--format=csv,noheader,nounits"
_APPS_FIELDS: Final = "--query-compute-apps=gpu_uuid,pid,used_gpu_memory,process_name"
LIST_ARGV: Final[Argv] = ("nvidia-smi", "-L")
"""GPUs and MIG instances with their uuids. It answers for the healthy ones even when one is lost."""
XML_ARGV: Final[Argv] = ("nvidia-smi", "-q", "-x")
"""Everything; the only place that tells a MIG instance's memory. Five times as slow as the others."""


def _only(gpus: Iterable[int] | None) -> Argv:
    return () if gpus is None else ("-i", ",".join(str(i) for i in gpus))


def query_gpu_argv(dialect: Dialect, only: Iterable[int] | None = None) -> Argv:
    """The call that asks for one row a GPU.

    `only`: indexes of the GPUs to ask; one that is lost makes the whole call fail.
    """
    return ("nvidia-smi", *_only(only), f"--query-gpu={','.join(dialect.fields)}", _CSV)


def loop_argv(dialect: Dialect, only: Iterable[int] | None = None) -> Argv:
    """The same, once a second until it is ended; LoopParser reads it."""
    return (*query_gpu_argv(dialect, only), "-l", "1")


def compute_apps_argv(only: Iterable[int] | None = None) -> Argv:
    """The call that asks for one row a process and GPU. The name comes last since it may hold commas."""
    return ("nvidia-smi", *_only(only), _APPS_FIELDS, _CSV)


COMPUTE_APPS_ARGV: Final[Argv] = compute_apps_argv()


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """What one --query-gpu call gave.

    `retry`: ask again with these names, the report says only that a field is unknown.

    `unopened`: GPUs that the tool could not open, as it said it; without rows the healthy GPUs are still to be asked
    by `-i`.
    """

    report: GpuReport
    retry: Dialect | None = None
    unopened: tuple[Message, ...] = ()


def parse_query(
    stdout: bytes,
    stderr: bytes,
    exit_status: int | None,
    dialect: Dialect,
    unopened: Iterable[Message] = (),
) -> QueryAnswer:
    """The answer of query_gpu_argv(dialect).

    `exit_status` None: not known. `unopened`: what an earlier call said of lost GPUs.

    Rows that could be read are always kept; the error stands beside them. Never raises.
    """
    rows, messages = split_answer(read_line(line, dialect) for line in answer_lines(stdout, stderr))
    if not rows and was_ended(exit_status, silent=not messages):
        return QueryAnswer(timeout_report())
    messages = [*unopened, *messages]
    if not rows and refused_field(messages) and dialect.older is not None:
        return QueryAnswer(build_report(rows, messages, exit_status), dialect.older)
    closed = tuple(m for m in messages if m.device is not None)
    return QueryAnswer(build_report(rows, messages, exit_status), None, closed)


def timeout_report(seconds: float = CALL_TIMEOUT_S) -> GpuReport:
    """The report for a call that was ended after its seconds."""
    return GpuReport((), GpuError("timeout", f"nvidia-smi did not answer within {seconds:g} s and was ended"))


@dataclass(frozen=True, slots=True)
class AppsAnswer:
    """What one --query-compute-apps call gave; `error` only where the tool named a reason."""

    processes: tuple[GpuProcess, ...]
    error: GpuError | None = None


def _process(line: str) -> GpuProcess | None:
    cells = [cell.strip() for cell in line.split(",", 3)]
    if len(cells) < 4 or not re.fullmatch(r"[1-9]\d{0,9}", cells[1], re.ASCII) or not cells[0]:
        return None
    name = cells[3] if cells[3] and cells[3] != "-" and not cells[3].startswith("[") else None
    return GpuProcess(int(cells[1]), name, read_count(cells[2]), cells[0])


def read_compute_apps(stdout: bytes, stderr: bytes = b"", exit_status: int | None = 0) -> AppsAnswer:
    """The answer of compute_apps_argv().

    An empty table is normal, also inside a container whose processes are elsewhere.
    """
    lines = [line for line in answer_lines(stdout, stderr) if line]
    found = tuple(dict.fromkeys(p for line in lines if (p := _process(line)) is not None))
    if was_ended(exit_status, silent=not lines):
        return AppsAnswer(found, GpuError("timeout", "nvidia-smi did not tell the processes in time and was ended"))
    messages = [m for line in lines if _process(line) is None and (m := read_message(line)).code is not None]
    code = leading_code(messages)
    if found or code is None or code == "no-devices":
        return AppsAnswer(found)
    return AppsAnswer((), GpuError(code, joined(messages)))


def parse_compute_apps(stdout: bytes, stderr: bytes = b"", exit_status: int | None = 0) -> tuple[GpuProcess, ...]:
    """The processes of read_compute_apps alone."""
    return read_compute_apps(stdout, stderr, exit_status).processes


@dataclass(frozen=True, slots=True)
class Listing:
    """What `-L` gave: healthy GPUs as (index, uuid), MIG instances by the uuid of their GPU, GPUs that do not open."""

    gpus: tuple[tuple[int, str], ...] = ()
    mig: Mapping[str, tuple[MigInstance, ...]] = field(default_factory=dict)
    unopened: tuple[Message, ...] = ()


_GPU_LINE = re.compile(r"GPU (\d{1,4}): .*\(UUID: ([^()\s]+)\)", re.ASCII)
_MIG_LINE = re.compile(r"MIG (\S.*?)\s+Device\s+(\d{1,4}): \(UUID: (MIG-[^()\s]+)\)", re.ASCII)


def read_list(stdout: bytes, stderr: bytes = b"") -> Listing:
    """The answer of LIST_ARGV."""
    gpus: list[tuple[int, str]] = []
    mig: dict[str, list[MigInstance]] = {}
    unopened: list[Message] = []
    for line in answer_lines(stdout, stderr):
        if found := _GPU_LINE.fullmatch(line):
            gpus.append((int(found[1]), found[2]))
        elif found := _MIG_LINE.fullmatch(line):
            if gpus:
                mig.setdefault(gpus[-1][1], []).append(MigInstance(int(found[2]), found[1], found[3]))
        elif (message := read_message(line)).device is not None:
            unopened.append(message)
    return Listing(tuple(dict.fromkeys(gpus)), {uuid: tuple(found) for uuid, found in mig.items()}, tuple(unopened))


def parse_list(stdout: bytes, stderr: bytes = b"") -> dict[str, tuple[MigInstance, ...]]:
    """The MIG instances of read_list alone, by the uuid of their GPU."""
    return dict(read_list(stdout, stderr).mig)


def with_memory(
    mig: Mapping[str, tuple[MigInstance, ...]], memory: Mapping[tuple[str, int], MigMemory]
) -> dict[str, tuple[MigInstance, ...]]:
    """MIG instances with the memory that the XML told, by GPU uuid and device number."""

    def one(uuid: str, instance: MigInstance) -> MigInstance:
        found = memory.get((uuid, instance.device))
        return replace(instance, mem_used_mib=found.used_mib, mem_total_mib=found.total_mib) if found else instance

    return {uuid: tuple(one(uuid, instance) for instance in found) for uuid, found in mig.items()}


def _parent(uuid: str, owners: Mapping[str, str]) -> str:
    """The GPU of a MIG instance's uuid; before driver 470 the uuid itself held it: MIG-GPU-<uuid>/<gi>/<ci>."""
    if uuid in owners:
        return owners[uuid]
    return uuid[4:].split("/", 1)[0] if uuid.startswith("MIG-GPU-") else uuid


def assemble(
    query: GpuReport, apps: Iterable[GpuProcess] = (), mig: Mapping[str, tuple[MigInstance, ...]] | None = None
) -> GpuReport:
    """Joins processes and MIG instances to the rows by uuid. A process of a GPU that is in no row is left out."""
    instances = mig or {}
    owners = {instance.uuid: uuid for uuid, found in instances.items() for instance in found}
    by_gpu: dict[str, list[GpuProcess]] = {}
    for process in apps:
        uuid = _parent(process.gpu_uuid, owners)
        by_gpu.setdefault(uuid, []).append(replace(process, gpu_uuid=uuid))

    def joined_row(gpu: Gpu) -> Gpu:
        uuid = gpu.uuid or ""
        return replace(gpu, processes=tuple(by_gpu.get(uuid, ())), mig=tuple(instances.get(uuid, ())))

    return replace(query, gpus=tuple(joined_row(gpu) for gpu in query.gpus))
