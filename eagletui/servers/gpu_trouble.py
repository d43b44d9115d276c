"""What is wrong with the GPUs that a server uses, and how busy they are. Pure.

A GPU is its own when the driver lists a process of its family there. A lost one lists nobody: it is its own when the server has
fewer GPUs than ranks. Where the driver lists no process at all (containers) nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection

from eagletui.gpus.model import Gpu, GpuReport


def own_gpus(report: GpuReport, pids: Collection[int]) -> tuple[Gpu, ...]:
    """Those where a process of the family is listed."""
    return tuple(gpu for gpu in report.gpus if any(process.pid in pids for process in gpu.processes))


def trouble(report: GpuReport, pids: Collection[int], ranks: int | None) -> str | None:
    """A sentence's end ("GPU 3 is lost"), None when nothing is known to be wrong."""
    own = own_gpus(report, pids)
    if not own:
        return None
    lost = [gpu for gpu in report.gpus if gpu.state == "lost"]
    if lost and len(own) < (ranks or 1) + sum(gpu in own for gpu in lost):
        return f"{_names(lost)} lost (fallen off the bus)"
    broken = [gpu for gpu in own if gpu.state == "error"]
    if broken:
        return f"{_names(broken)} not told properly by the driver"
    bad = [gpu for gpu in own if gpu.ecc_uncorrected]
    if bad:
        count = sum(gpu.ecc_uncorrected or 0 for gpu in bad)
        return f"{_names(bad)} counting {count} uncorrected memory errors (ECC)"
    return None


def busy_pct(report: GpuReport, pids: Collection[int]) -> int | None:
    """The mean utilisation of its GPUs; None when it is not known which those are."""
    told = [gpu.util_pct for gpu in own_gpus(report, pids) if gpu.util_pct is not None]
    return round(sum(told) / len(told)) if told else None


def _names(gpus: Collection[Gpu]) -> str:
    numbers = [str(gpu.index) for gpu in gpus]
    if len(numbers) == 1:
        return f"GPU {numbers[0]} is"
    return f"GPUs {', '.join(numbers)} are"
