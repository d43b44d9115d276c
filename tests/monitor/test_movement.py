"""What moves while a log is quiet."""

from __future__ import annotations

import pytest

from eagletui.gpus.model import Gpu, GpuProcess, GpuReport
from eagletui.monitor.movement import GREW_MIB, READ_BYTES, SUSPENDED_S, Movement
from eagletui.shell.poll import ReadBytes
from eagletui.shell.processes import StatRow

WHO = (100, 5000)
OTHER = (101, 5001)


def row(who: tuple[int, int] = WHO, state: str = "S", ticks: int = 0) -> StatRow:
    return StatRow(who[0], "python", state, 1, 1, 1, ticks, 1, who[1])


def test_cpu_time_of_the_family() -> None:
    movement = Movement()
    assert movement.moves(0.0).busy is None
    for step in range(12):
        movement.polled([row(ticks=step * 25), row(OTHER, ticks=step * 50)], {WHO}, step * 0.5)
    assert movement.moves(5.5).busy  # half a core
    for step in range(12, 40):
        movement.polled([row(ticks=300), row(OTHER, ticks=step * 50)], {WHO}, step * 0.5)
    assert movement.moves(19.5).busy is False  # who is not of the family does not count
    movement.polled([], {WHO}, 20.0)
    movement.polled([row(ticks=90_000)], {WHO}, 20.5)  # seen anew: what it used before is not of now
    assert movement.moves(20.5).busy is False


def test_who_is_stopped_and_who_waits() -> None:
    movement = Movement()
    movement.polled([row(state="T"), row(OTHER, "D")], {WHO, OTHER}, 10.0)
    assert movement.suspended(10.0) == frozenset()  # a tool that looks into it stops it for a moment
    movement.polled([row(state="T"), row(OTHER, "D")], {WHO, OTHER}, 10.5)
    assert movement.suspended(10.0 + SUSPENDED_S) == {WHO}
    assert movement.waiting(14.0) == {OTHER: 4.0}
    movement.polled([row(state="R"), row(OTHER, "S")], {WHO, OTHER}, 11.0)
    assert movement.suspended(20.0) == frozenset()
    assert movement.waiting(20.0) == {}
    movement.polled([row(state="T")], {WHO, OTHER}, 12.0)
    movement.polled([], {WHO, OTHER}, 13.0)
    assert movement.suspended(20.0) == frozenset()


def test_bytes_read_from_a_disk_or_from_memory() -> None:
    movement = Movement()
    movement.read([ReadBytes(100, 10 << 30, 0)], 0.0)
    assert movement.moves(0.0).read_s is None  # it read them some time before
    movement.read([ReadBytes(100, (10 << 30) + READ_BYTES, 0)], 5.0)
    assert movement.moves(7.0).read_s == 2.0
    movement.read([ReadBytes(100, (10 << 30) + READ_BYTES + 4096, 0), ReadBytes(101, 5 << 30, 0)], 10.0)
    assert movement.moves(12.0).read_s == 7.0
    movement.read([ReadBytes(100, (10 << 30) + READ_BYTES + 4096, 0), ReadBytes(101, 0, (5 << 30) + READ_BYTES)], 15.0)
    assert movement.moves(15.0).read_s == 0.0


@pytest.mark.parametrize("listed", [True, False])
def test_gpu_memory_that_grows(listed: bool) -> None:
    def report(ours: int, others: int) -> GpuReport:
        ours_there = (GpuProcess(100, "python", 1, "a"),) if listed else ()
        theirs = (GpuProcess(7, "x", 1, "b"),) if listed else ()
        return GpuReport(
            (Gpu(0, mem_used_mib=ours, processes=ours_there), Gpu(1, mem_used_mib=others, processes=theirs))
        )

    movement = Movement()
    movement.gpus(report(1000, 1000), {100}, 0.0)
    movement.gpus(report(1000 + GREW_MIB - 1, 1000), {100}, 1.0)
    assert movement.moves(1.0).gpu_memory_s is None
    movement.gpus(report(1000 + GREW_MIB, 1000), {100}, 2.0)
    assert movement.moves(4.0).gpu_memory_s == 2.0
    movement.gpus(report(1000 + GREW_MIB, 9000), {100}, 5.0)
    assert movement.moves(5.0).gpu_memory_s == (3.0 if listed else 0.0)
    movement.gpus(GpuReport(), {100}, 6.0)
