"""What the simulated node's nvidia-smi prints: csv queries, the list of GPUs, and its error texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from eagletui.demo import gpus
from eagletui.demo.gpus import Reading

INVALID: Final = (
    "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"  # as nvidia-smi says it
)


class Printed(NamedTuple):
    """What a run printed, and its exit status."""

    stdout: str
    status: int = 0


class _Column(NamedTuple):
    """A field: its name in the header, its unit there (and behind each number), and its value."""

    header: str
    unit: str
    value: Callable[[Reading, float], str]


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds memory of a GPU."""

    gpu: Reading
    pid: int
    name: str
    mib: int


def _stamp(now: float) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y/%m/%d %H:%M:%S.%f}"[:-3]


def _number(header: str, unit: str, pick: Callable[[Reading], int | float]) -> _Column:
    def text(reading: Reading, _now: float) -> str:
        value = pick(reading)
        return f"{value:.2f}" if isinstance(value, float) else str(value)

    return _Column(header, unit, text)


def _fixed(header: str, text: str, unit: str = "") -> _Column:
    return _Column(header, unit, lambda _reading, _now: text)


def _reasons(reading: Reading) -> str:
    """GPU idle is bit 0; at work nothing holds it back."""
    return "0x0000000000000001" if reading.util == 0 else "0x0000000000000000"


_POWER: Final = {
    name: _number(name, "W", lambda r: r.power) for name in ("power.draw", "power.draw.average", "power.draw.instant")
}
_COLUMNS: Final[dict[str, _Column]] = {
    "timestamp": _Column("timestamp", "", lambda _reading, now: _stamp(now)),
    "index": _number("index", "", lambda r: r.index),
    "count": _fixed("count", "8"),
    "uuid": _Column("uuid", "", lambda r, _now: r.uuid),
    "pci.bus_id": _Column("pci.bus_id", "", lambda r, _now: r.bus_id),
    "name": _fixed("name", gpus.NAME),
    "driver_version": _fixed("driver_version", gpus.DRIVER),
    "serial": _Column("serial", "", lambda r, _now: str(1_650_000_030_000 + 113 * r.index)),
    "utilization.gpu": _number("utilization.gpu", "%", lambda r: r.util),
    "utilization.memory": _number("utilization.memory", "%", lambda r: r.mem_util),
    "memory.used": _number("memory.used", "MiB", lambda r: r.used_mib),
    "memory.total": _fixed("memory.total", str(gpus.TOTAL_MIB), "MiB"),
    "memory.reserved": _fixed("memory.reserved", str(gpus.RESERVED_MIB), "MiB"),
    "memory.free": _number("memory.free", "MiB", lambda r: gpus.TOTAL_MIB - gpus.RESERVED_MIB - r.used_mib),
    "temperature.gpu": _number("temperature.gpu", "", lambda r: r.temp),
    "temperature.memory": _number("temperature.memory", "", lambda r: r.mem_temp),
    **_POWER,
    "power.limit": _fixed("power.limit", f"{gpus.POWER_LIMIT_W:.2f}", "W"),
    "enforced.power.limit": _fixed("enforced.power.limit", f"{gpus.POWER_LIMIT_W:.2f}", "W"),
    "clocks.current.sm": _number("clocks.current.sm", "MHz", lambda r: r.sm_mhz),
    "clocks.current.graphics": _number("clocks.current.graphics", "MHz", lambda r: r.sm_mhz),
    "clocks.current.memory": _fixed("clocks.current.memory", "3201", "MHz"),
    "fan.speed": _fixed("fan.speed", "[N/A]", "%"),
    "pstate": _fixed("pstate", "P0"),
    "persistence_mode": _fixed("persistence_mode", "Enabled"),
    "compute_mode": _fixed("compute_mode", "Default"),
    "compute_cap": _fixed("compute_cap", "9.0"),
    "display_active": _fixed("display_active", "Disabled"),
    "ecc.mode.current": _fixed("ecc.mode.current", "Enabled"),
    "mig.mode.current": _fixed("mig.mode.current", "Disabled"),
    "mig.mode.pending": _fixed("mig.mode.pending", "Disabled"),
    "ecc.errors.corrected.volatile.total": _fixed("ecc.errors.corrected.volatile.total", "0"),
    "ecc.errors.uncorrected.volatile.total": _fixed("ecc.errors.uncorrected.volatile.total", "0"),
    "ecc.errors.uncorrected.aggregate.total": _fixed("ecc.errors.uncorrected.aggregate.total", "0"),
    "clocks_event_reasons.active": _Column("clocks_event_reasons.active", "", lambda r, _now: _reasons(r)),
    "pcie.link.gen.current": _fixed("pcie.link.gen.current", "5"),
    "pcie.link.width.current": _fixed("pcie.link.width.current", "16"),
}
_ALIASES: Final = {
    "gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "gpu_serial": "serial",
    "clocks.sm": "clocks.current.sm", "clocks.gr": "clocks.current.graphics", "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}  # fmt: skip
_APPS: Final[dict[str, tuple[str, str, Callable[[Holder, float], str]]]] = {
    "timestamp": ("timestamp", "", lambda _holder, now: _stamp(now)),
    "gpu_name": ("gpu_name", "", lambda _holder, _now: gpus.NAME),
    "gpu_bus_id": ("gpu_bus_id", "", lambda h, _now: h.gpu.bus_id),
    "gpu_uuid": ("gpu_uuid", "", lambda h, _now: h.gpu.uuid),
    "pid": ("pid", "", lambda h, _now: str(h.pid)),
    "process_name": ("process_name", "", lambda h, _now: h.name),
    "used_gpu_memory": ("used_gpu_memory", "MiB", lambda h, _now: str(h.mib)),
}
_APP_ALIASES: Final = {"name": "process_name", "used_memory": "used_gpu_memory"}


@dataclass(slots=True)
class _Asked:
    """The arguments, sorted."""

    gpu_fields: list[str] | None = None
    app_fields: list[str] | None = None
    format: str = ""
    ids: list[str] | None = None
    listing: bool = False
    every: float | None = None
    wrong: bool = False


_VALUED: Final = {"-i": "id", "--id": "id", "-l": "loop", "--loop": "loop", "-lms": "loop-ms", "--loop-ms": "loop-ms"}


def _read(argv: Sequence[str]) -> _Asked:
    asked = _Asked()
    words = list(argv)
    while words:
        word = words.pop(0)
        key, equals, value = word.partition("=")
        if word in _VALUED and words:
            key, value = _VALUED[word], words.pop(0)
        else:
            key = _VALUED.get(key, key)
        if key == "--query-gpu" and equals:
            asked.gpu_fields = [field.strip() for field in value.split(",") if field.strip()]
        elif key == "--query-compute-apps" and equals:
            asked.app_fields = [field.strip() for field in value.split(",") if field.strip()]
        elif key == "--format" and equals:
            asked.format = value
        elif key == "id":
            asked.ids = [one.strip() for one in value.split(",")]
        elif key in {"loop", "loop-ms"} and re.fullmatch(r"\d+", value):
            asked.every = int(value) / (1 if key == "loop" else 1000)
        elif word in {"-L", "--list-gpus"}:
            asked.listing = True
        else:
            asked.wrong = True
    return asked


def loop_seconds(argv: Sequence[str]) -> float | None:
    """How often `-l` or `-lms` repeats it; None: it runs once."""
    return _read(argv).every


def run(argv: Sequence[str], readings: Sequence[Reading], holders: Sequence[Holder], now: float) -> Printed:
    """One round of `nvidia-smi` with these arguments (without its own name). `now`: the node's local clock."""
    asked = _read(argv)
    chosen = list(readings)
    if asked.ids is not None:
        chosen = [r for r in readings if str(r.index) in asked.ids or r.uuid in asked.ids or r.bus_id in asked.ids]
        if len(chosen) < len(set(asked.ids)):
            return Printed("No devices were found\n", 6)
    if asked.listing and not asked.wrong:
        return Printed("".join(f"GPU {r.index}: {gpus.NAME} (UUID: {r.uuid})\n" for r in chosen))
    fields = asked.gpu_fields if asked.gpu_fields is not None else asked.app_fields
    if asked.wrong or not fields or not asked.format.startswith("csv"):
        return Printed(INVALID, 2)
    if asked.gpu_fields is not None:
        return _gpu_rows(fields, asked.format, chosen, now)
    return _app_rows(fields, asked.format, [h for h in holders if h.gpu in chosen], now)


def _refused(field: str) -> Printed:
    return Printed(f'Field "{field}" is not a valid field to query.\n\n', 2)


def _gpu_rows(fields: Sequence[str], how: str, chosen: Sequence[Reading], now: float) -> Printed:
    columns: list[_Column] = []
    for field in fields:
        column = _COLUMNS.get(_ALIASES.get(field, field))
        if column is None:
            return _refused(field)
        columns.append(column)
    return _csv([(c.header, c.unit) for c in columns], [[c.value(r, now) for c in columns] for r in chosen], how)


def _app_rows(fields: Sequence[str], how: str, holders: Sequence[Holder], now: float) -> Printed:
    columns = []
    for field in fields:
        column = _APPS.get(_APP_ALIASES.get(field, field))
        if column is None:
            return _refused(field)
        columns.append(column)
    rows = [[value(holder, now) for _, _, value in columns] for holder in holders]
    return _csv([(header, unit) for header, unit, _ in columns], rows, how)


def _csv(heads: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], how: str) -> Printed:
    plain, bare = "nounits" in how, "noheader" in how
    lines = []
    if not bare:
        lines.append(", ".join(f"{header} [{unit}]" if unit else header for header, unit in heads))
    for row in rows:
        cells = zip(heads, row, strict=True)
        lines.append(
            ", ".join(
                cell if plain or not unit or cell.startswith("[") else f"{cell} {unit}" for (_, unit), cell in cells
            )
        )
    return Printed("".join(line + "\n" for line in lines))
