"""The simulated node's eight H200: what each shows at each moment of a launch. Pure; noise is a hash of the time."""

from __future__ import annotations

import hashlib
import zlib
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from eagletui.demo import shape

NAME: Final = "NVIDIA H200"
DRIVER: Final = "580.159.04"
TOTAL_MIB: Final = 143_771
RESERVED_MIB: Final = 615
"""What the driver keeps: neither used nor free (recorded)."""
POWER_LIMIT_W: Final = 700.0
_SERVING_GIB: Final = (132.1, 131.9, 132.0, 132.1, 131.8, 131.9, 132.2, 132.0)
_SERVING_UTIL: Final = (91, 93, 90, 92, 91, 94, 92, 90)
_SERVING_TEMP: Final = (60, 61, 62, 63, 64, 84, 66, 67)
"""GPU 5 is hot: something for the eye to find."""
_SERVING_POWER: Final = (640, 647, 654, 661, 668, 675, 682, 689)
_LOADED_AT: Final = (69.8, 67.5, 67.6, 68.8, 69.4, 66.5, 66.8, 66.6)
"""When each rank has its weights (the log's "Load weight end" lines)."""
_WARMTH: Final = (
    (0.0, 0.0), (shape.DISTRIBUTED, 0.0), (shape.WEIGHTS, 0.1), (shape.DRAFT, 0.5),
    (shape.GRAPHS, 0.45), (shape.READY, 0.6), (shape.READY + 45, 1.0),
)  # fmt: skip
"""How far a GPU is from its idle to its serving temperature."""
_BUSY: Final = (
    (-1.0, 0, 0), (shape.DISTRIBUTED, 0, 12), (shape.DRAFT, 4, 26), (shape.GRAPHS, 30, 75), (shape.HTTP_OPEN, 8, 28),
)  # fmt: skip
"""Since when, least and most utilisation; weights and serving are told apart further."""
IDLE_TEMP: Final = 34


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU now. Memory in MiB, watts, °C, per cent, MHz. `process_mib`: of its scheduler, None when it has none."""

    index: int
    util: int
    mem_util: int
    used_mib: int
    temp: int
    mem_temp: int
    power: float
    sm_mhz: int
    process_mib: int | None

    @property
    def uuid(self) -> str:
        """Made up, the same each time."""
        digits = f"{zlib.crc32(b'gpu %d' % self.index):08x}" * 4
        return f"GPU-{digits[:8]}-{digits[3:7]}-{digits[5:9]}-{digits[1:5]}-{digits[2:14]}"

    @property
    def bus_id(self) -> str:
        """PCI address."""
        return f"00000000:{(0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)[self.index]:02X}:00.0"


def noise(index: int, what: str, at: float) -> float:
    """0 ≤ x < 1, the same for the same GPU, matter and second."""
    digest = hashlib.blake2b(f"{index} {what} {int(at)}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 2**32


def between(points: tuple[tuple[float, float], ...], at: float) -> float:
    """The value at `at` of a line through points."""
    times = [t for t, _ in points]
    after = bisect_right(times, at)
    if after == 0:
        return points[0][1]
    if after == len(points):
        return points[-1][1]
    (t0, v0), (t1, v1) = points[after - 1], points[after]
    return v0 + (v1 - v0) * (at - t0) / (t1 - t0)


def _memory_gib(index: int, e: float) -> float:
    """GiB that the scheduler of this GPU holds, at an engine's time."""
    context = TOTAL_MIB / 1024 - RESERVED_MIB / 1024 - shape.AVAIL_START
    loaded = context + shape.WEIGHTS_GIB
    pools = loaded + shape.DRAFT_GIB + shape.KV_GIB + shape.DRAFT_KV_GIB
    allocated = shape.KV_CACHE + 1.2 + 0.05 * index
    return between(
        (
            (shape.DISTRIBUTED + 0.6, 0.0),
            (shape.DISTRIBUTED + 0.7, 0.53),
            (shape.WEIGHTS, context),
            (shape.WEIGHTS + 0.8, context),
            (_LOADED_AT[index], loaded),
            (shape.DRAFT + 0.3, loaded),
            (shape.KV_CACHE - 0.3, loaded + shape.DRAFT_GIB),
            (allocated - 0.01, loaded + shape.DRAFT_GIB),
            (allocated, pools),
            (shape.GRAPHS, pools + 0.26),
            (shape.HTTP_OPEN, _SERVING_GIB[index] - 0.1),
            (shape.READY, _SERVING_GIB[index]),
        ),
        e,
    )


def _utilisation(index: int, e: float) -> int:
    chance = noise(index, "util", e)
    if shape.WEIGHTS <= e < shape.DRAFT:
        spins = e > _LOADED_AT[index] or noise(index, "wait", e / 4) < 0.55  # a rank that waits for others spins
        return round(95 + 4 * chance) if spins else round(2 + 14 * chance)
    if e >= shape.READY + 1:
        return max(0, min(100, _SERVING_UTIL[index] + round(4 * chance - 2)))
    low, high = _BUSY[bisect_right([since for since, _, _ in _BUSY], e) - 1][1:]
    return round(low + (high - low) * chance)


def reading(index: int, e: float | None, now: float, others_mib: int = 0, *, works: bool = True) -> Reading:
    """One GPU. `e` is the engine's time, None when there is no engine; `now` the node's clock, for the noise. `others_mib`: held by
    others. `works`: the engine does; else it only holds its memory."""
    util = _utilisation(index, e) if e is not None and works else 0
    if others_mib:
        util = max(util, 94 + round(5 * noise(index, "other", now)))
    held = None if e is None or e < shape.DISTRIBUTED + 0.7 else round(_memory_gib(index, e) * 1024)
    warmth = between(_WARMTH, e) if e is not None and works else 0.0
    temp = IDLE_TEMP + warmth * (_SERVING_TEMP[index] - IDLE_TEMP) + (noise(index, "temp", now / 3) - 0.5) * 1.6
    serving = works and e is not None and e >= shape.READY + 1
    target = float(_SERVING_POWER[index]) if serving else 118 + 3.2 * util
    power = 78.0 + index % 3 if util == 0 else target + 8 * (noise(index, "power", now) - 0.5)
    return Reading(
        index=index,
        util=util,
        mem_util=util // 4,
        used_mib=(held or 0) + others_mib,
        temp=min(_SERVING_TEMP[index], round(temp)) if serving else round(temp),
        mem_temp=round(temp) - 8 if util else 36,
        power=round(power, 2),
        sm_mhz=345 if util == 0 else 1980 - round(450 * (power / POWER_LIMIT_W) ** 2 / 15) * 15,
        process_mib=None if held is None else max(0, held - 10),
    )
