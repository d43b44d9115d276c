"""One row of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`, and how rows and messages make one report.

The format has no quoting: a comma inside the name is told from a separator only by counting from both ends. A cell is
a number, a number with a unit (some versions ignore nounits), a word in brackets for "cannot say", or `-`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from eagletui.gpus.model import Gpu, GpuError, GpuErrorCode, GpuReport, GpuState
from eagletui.gpus.smi_messages import (
    Bus,
    Message,
    code_of_exit,
    joined,
    leading_code,
    read_bus,
    read_message,
    sentence,
    unknown_field,
    was_ended,
)


class Dialect(Enum):
    """Which field names a version of nvidia-smi knows. Values are for messages and state files."""

    NEW = "clocks_event_reasons"
    """Drivers from 535 on."""
    OLD = "clocks_throttle_reasons"
    """Drivers before: the same bits under the older name."""
    BARE = "bare"
    """Drivers that know neither MIG nor the bits (before 450): only what every version has."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields asked for, in their order. The driver stands last: a line cut short loses nothing else."""
        extra = () if self is Dialect.BARE else (f"{self.value}.active", "mig.mode.current")
        return (*_COMMON, *extra, "driver_version")

    @property
    def older(self) -> Dialect | None:
        """What to try when this one holds an unknown field."""
        return {Dialect.NEW: Dialect.OLD, Dialect.OLD: Dialect.BARE}.get(self)


_COMMON: Final = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "utilization.gpu",
    "memory.used",
    "memory.total",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "ecc.errors.uncorrected.volatile.total",
)
_NAME_AT: Final = _COMMON.index("name")
_MEASURED: Final = _COMMON[_NAME_AT + 1 :]
INDEX_CAP: Final = 1024
"""No node has so many GPUs; a larger "index" is some other number."""
REASONS: Final = (
    (0x4, "sw-power-cap"),
    (0x8, "hw-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "sw-thermal-slowdown"),
    (0x40, "hw-thermal-slowdown"),
    (0x80, "hw-power-brake-slowdown"),
    (0x100, "display-clock-setting"),
)
"""Bits of nvmlClocksEventReasons (nvml.h).

0x1 gpu-idle and 0x2 applications-clocks-setting are left out: they are no trouble.
"""

OUTPUT_CAP: Final = 1 << 20
"""Bytes that are read of an answer; 16 GPUs make about 4 KiB."""
LINE_CAP: Final = 16 << 10
"""Bytes of a line beyond which it is not one of ours."""

_NUMBER = re.compile(r"([+-]?\d{1,18}(?:\.\d{1,9})?) ?(?:%|MiB|MB|W|C)?", re.ASCII)
_MASK = re.compile(r"0[xX]([0-9a-fA-F]{1,16})")
_INDEX = re.compile(r"(\d{1,4})\s*(?:,|$)", re.ASCII)
_SILENT = frozenset({"", "-", "n/a", "not supported", "not available", "insufficient permissions", "not found"})
"""Cells that only say "no figure here".

Any other word ([Unknown Error], [ERR!]) says that the device does not answer.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A GPU as one line tells it. `gpu.index` is -1 where the index itself was unreadable."""

    gpu: Gpu
    bus: Bus | None


def read_number(cell: str) -> float | None:
    """The number of a cell, with or without its unit; None for anything else."""
    match = _NUMBER.fullmatch(cell)
    value = float(match[1]) if match else math.nan
    return value if math.isfinite(value) else None


def read_count(cell: str) -> int | None:
    """A number that cannot be negative, rounded down to a whole one."""
    value = read_number(cell)
    return int(value) if value is not None and value >= 0 else None


def read_throttle(cell: str) -> tuple[str, ...]:
    """The names of the bits of clocks_event_reasons.active that mean trouble; none for a cell that is no mask."""
    match = _MASK.fullmatch(cell)
    mask = int(match[1], 16) if match else 0
    return tuple(name for bit, name in REASONS if mask & bit)


def _word(cell: str) -> str:
    return cell.strip("[]").strip().lower()


def _text(cell: str) -> str | None:
    return None if cell.startswith("[") or _word(cell) in _SILENT else cell


def _state(cells: dict[str, str]) -> GpuState:
    words = [_word(cell) for cell in cells.values() if read_number(cell) is None]
    if any("gpu is lost" in w or "fallen off the bus" in w for w in words):
        return "lost"
    if any("requires reset" in w for w in words):
        return "error"
    measured = [cells[name] for name in _MEASURED]
    answers = any(read_number(cell) is not None for cell in measured)
    return "ok" if answers or all(_word(cell) in _SILENT for cell in measured) else "error"


def _cells(line: str, dialect: Dialect) -> dict[str, str] | None:
    """Cells by field name; commas beyond the expected ones belong to the name.

    None when there are too few cells for a row.
    """
    fields = dialect.fields
    parts = line.split(",")
    excess = len(parts) - len(fields)
    if excess < 0:
        return None
    end = _NAME_AT + 1 + excess
    name = ",".join(parts[_NAME_AT:end])
    return dict(zip(fields, (p.strip() for p in (*parts[:_NAME_AT], name, *parts[end:])), strict=True))


def _row(cells: dict[str, str]) -> Row | None:
    found = re.fullmatch(r"\d{1,4}", cells["index"], re.ASCII)
    index = int(cells["index"]) if found else -1
    # An index in brackets is a device that cannot say it; any other word is a line that only looks like a row.
    if index >= INDEX_CAP or (index < 0 and not cells["index"].startswith("[")):
        return None
    util = read_count(cells["utilization.gpu"])
    temperature = read_number(cells["temperature.gpu"])
    gpu = Gpu(
        index=index,
        uuid=_text(cells["uuid"]),
        name=_text(cells["name"]),
        state=_state(cells),
        util_pct=util if util is not None and util <= 100 else None,
        mem_used_mib=read_count(cells["memory.used"]),
        mem_total_mib=read_count(cells["memory.total"]),
        temp_c=None if temperature is None else int(temperature),
        power_w=read_number(cells["power.draw"]),
        power_limit_w=read_number(cells["power.limit"]),
        throttle=read_throttle(cells.get(f"{Dialect.NEW.value}.active", cells.get(f"{Dialect.OLD.value}.active", ""))),
        ecc_uncorrected=read_count(cells["ecc.errors.uncorrected.volatile.total"]),
        mig_enabled=_word(cells.get("mig.mode.current", "")) == "enabled",
        driver=_text(cells["driver_version"]),
    )
    return Row(gpu, read_bus(cells["pci.bus_id"]))


def clean_line(raw: bytes) -> str:
    """A line as text, without line ends, NULs and control characters."""
    text = raw.decode("utf-8", "replace")
    return "".join(c for c in text if c >= " " and c != "\x7f").strip(" \ufeff")


def read_line(line: str, dialect: Dialect) -> Row | Message | None:
    """One line of the answer: a row, a message, or None for blank lines and the header."""
    line = line.strip()
    if not line:
        return None
    cells = _cells(line, dialect)
    if cells is not None:
        if cells["index"].lower() == "index":
            return None
        row = _row(cells)
        return row if row is not None else Message(line[:200], "unparsable")
    start = _INDEX.match(line)
    if start and "," in line:
        if "gpu is lost" in line.lower() and int(start[1]) < INDEX_CAP:
            return Row(Gpu(int(start[1]), state="lost"), None)
        return Message(line[:200], "unparsable")
    return read_message(line)


def answer_lines(stdout: bytes, stderr: bytes) -> list[str]:
    """The lines of an answer, stdout first, within the caps.

    nvidia-smi prints most messages on stdout, sh and old versions on stderr.
    """
    raw = stdout[:OUTPUT_CAP].split(b"\n") + stderr[:OUTPUT_CAP].split(b"\n")
    return [clean_line(line) for line in raw if len(line) <= LINE_CAP]


def split_answer(items: Iterable[Row | Message | None]) -> tuple[list[Row], list[Message]]:
    """Rows and messages apart, in their order."""
    rows: list[Row] = []
    messages: list[Message] = []
    for item in items:
        if isinstance(item, Row):
            rows.append(item)
        elif item is not None:
            messages.append(item)
    return rows, messages


def refused_field(messages: Sequence[Message]) -> bool:
    """Whether the tool said that it does not know one of the fields."""
    return any(unknown_field(m.text) is not None for m in messages)


def _placed(rows: Sequence[Row], messages: Sequence[Message]) -> dict[int, Gpu]:
    """GPUs by index: later rows replace earlier ones;

    devices without an index take the indexes that nobody else has.
    """
    gpus = {row.gpu.index: row.gpu for row in rows if row.gpu.index >= 0}
    homeless = [row.gpu for row in rows if row.gpu.index < 0]
    at_bus = {row.bus: row.gpu.index for row in rows if row.bus is not None and row.gpu.index >= 0}
    for message in {(m.bus or m.text): m for m in messages if m.device is not None}.values():
        state: GpuState = message.device or "error"
        index = at_bus.get(message.bus) if message.bus else None
        if index is not None:
            # Figures of a device that cannot be opened are leftovers; who it is stays true.
            told = gpus[index]
            gpus[index] = Gpu(index, told.uuid, told.name, state, driver=told.driver)
        else:
            homeless.append(Gpu(-1, state=state))
    if gpus:  # with no row at all nothing says how the tool counts, and no row is invented
        # Indexes follow the bus order and have no holes, so the holes are where the silent devices sit.
        free = [i for i in range(len(gpus) + len(homeless)) if i not in gpus]
        for index, gpu in zip(free, homeless, strict=False):
            gpus[index] = replace(gpu, index=index)
    return gpus


def _error(gpus: dict[int, Gpu], messages: list[Message], exit_status: int | None) -> tuple[GpuErrorCode, str] | None:
    code = leading_code(messages)
    if gpus:
        if was_ended(exit_status):
            return "timeout", "nvidia-smi printed its rows, then had to be ended"
        return None if code is None else (code, joined([m for m in messages if m.code is not None]))
    code = code or code_of_exit(exit_status)
    return code, joined(messages) or sentence(code, exit_status)


def build_report(rows: Sequence[Row], messages: Sequence[Message], exit_status: int | None) -> GpuReport:
    """One report of the lines of one answer. Without any row there is always an error."""
    gpus = _placed(rows, messages)
    error = _error(gpus, list(messages), exit_status)
    return GpuReport(tuple(gpus[i] for i in sorted(gpus)), GpuError(*error) if error else None)
