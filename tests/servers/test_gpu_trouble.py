"""GPUs of a server that are in trouble, and those that are none of its business."""

from __future__ import annotations

from dataclasses import replace

from eagletui.gpus.model import Gpu, GpuProcess, GpuReport
from eagletui.servers.gpu_trouble import busy_pct, trouble

PIDS = frozenset({100, 101})


def gpu(index: int, pid: int | None = None, state: str = "ok", ecc: int | None = 0, util: int | None = 50) -> Gpu:
    held = () if pid is None else (GpuProcess(pid, "python", 1, f"GPU-{index}"),)
    return Gpu(index, state=state, util_pct=util, ecc_uncorrected=ecc, processes=held)  # type: ignore[arg-type]


def test_a_lost_gpu_is_its_own_when_it_has_fewer_than_ranks() -> None:
    report = GpuReport((gpu(0, 100), gpu(1, state="lost")))
    assert trouble(report, PIDS, 2) == "GPU 1 is lost (fallen off the bus)"
    assert trouble(report, PIDS, 1) is None
    assert trouble(GpuReport((gpu(0, 100), gpu(1, 101), gpu(2, state="lost"))), PIDS, 2) is None
    listed = GpuReport((gpu(0, 100), gpu(1, 101, state="lost")))
    assert trouble(listed, PIDS, 2) == "GPU 1 is lost (fallen off the bus)"


def test_errors_of_its_own_gpus() -> None:
    assert trouble(GpuReport((gpu(0, 100, ecc=2), gpu(1, 101, ecc=1))), PIDS, 2) == (
        "GPUs 0, 1 are counting 3 uncorrected memory errors (ECC)"
    )
    assert trouble(GpuReport((gpu(0, 100), gpu(1, 7, ecc=5))), PIDS, 1) is None
    assert trouble(GpuReport((gpu(0, 100, state="error"),)), PIDS, 1) == "GPU 0 is not told properly by the driver"
    assert trouble(GpuReport((gpu(0, 100, ecc=None),)), PIDS, 1) is None


def test_where_no_process_is_listed_nothing_is_said() -> None:
    bare = GpuReport((gpu(0, state="lost"), gpu(1, ecc=9)))
    assert trouble(bare, PIDS, 8) is None
    assert busy_pct(bare, PIDS) is None
    assert trouble(GpuReport(), PIDS, 8) is None


def test_how_busy_its_own_are() -> None:
    report = GpuReport((gpu(0, 100, util=100), gpu(1, 101, util=51), gpu(2, 7, util=0)))
    assert busy_pct(report, PIDS) == 76
    assert busy_pct(replace(report, gpus=(gpu(0, 100, util=None),)), PIDS) is None
