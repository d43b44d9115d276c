"""Which GPUs are in trouble, and in how few words it can be said. Pure."""

from __future__ import annotations

from eagletui.gpus.model import Gpu
from eagletui.monitor.snapshot import Snapshot

WARM_C = 83
HOT_C = 90
"""Data-centre GPUs slow down at about 87 °C and stop a little above 90."""
MARK = "▲"


def trouble_of(gpu: Gpu) -> tuple[str, str]:
    """(word, role) of a GPU's worst trouble, ("", "") when there is none. Somebody else's memory is no trouble of the GPU."""
    if gpu.state != "ok":
        return gpu.state, "error"
    if gpu.ecc_uncorrected:
        return f"ECC {gpu.ecc_uncorrected}", "error"
    throttle = throttled_by(gpu)
    if throttle is not None:
        return throttle
    if gpu.temp_c is not None and gpu.temp_c >= WARM_C:
        return "heat", heat_role(gpu.temp_c)
    return "", ""


def heat_role(temp: int | None) -> str:
    """The role of a temperature in °C."""
    if temp is None:
        return "dim"
    return "error" if temp >= HOT_C else "warning" if temp >= WARM_C else "text"


def throttled_by(gpu: Gpu) -> tuple[str, str] | None:
    """(word, role) for a throttle reason that means trouble. A power cap under load is how GPUs work, and no trouble."""
    for reason in gpu.throttle:
        if "thermal" in reason:
            return "heat", "error" if reason.startswith("hw") else "warning"
        if "power-brake" in reason:
            return "power brake", "error"
        if reason.startswith("hw"):
            return "hw slowdown", "error"
    return None


def alarm(snapshot: Snapshot) -> str:
    """`▲ GPU 5 heat` for one GPU in trouble, `▲ 3 GPUs` for several, else nothing. What was last seen before a link went is no alarm."""
    if snapshot.link.state != "up" or (snapshot.gpus.at is not None and snapshot.gpus.at < snapshot.fresh_since):
        return ""
    found = [(gpu.index, trouble_of(gpu)[0]) for gpu in snapshot.gpus.report.gpus if trouble_of(gpu)[0]]
    if len(found) == 1:
        return f"{MARK} GPU {found[0][0]} {found[0][1]}"
    return f"{MARK} {len(found)} GPUs" if found else ""
