"""Cold or warm, by what the family read."""

from __future__ import annotations

import pytest

from eagletui.history.reads import FLOOR, WeightsRead, is_cold, told_size
from eagletui.shell.poll import ReadBytes

GIB = 1 << 30


def read(*rows: tuple[int, float, float]) -> WeightsRead:
    """Two ranks that had read 3 GiB before (imports), and what they read since, in GiB: (rank, from the disk, asked)."""
    found = WeightsRead()
    found.see([ReadBytes(rank, 3 * GIB, 4 * GIB) for rank in (1, 2)])
    found.see([ReadBytes(rank, int((3 + disk) * GIB), int((4 + asked) * GIB)) for rank, disk, asked in rows])
    return found


def test_what_was_read_before_is_no_weights() -> None:
    found = read((1, 10.0, 0.0), (2, 5.0, 0.5))
    assert found.from_disk == 15 * GIB
    assert found.size(None) == 15 * GIB  # mapped files are not asked for
    assert found.size(100 * GIB) == 100 * GIB
    assert read((1, 1.0, 60.0)).size(None) == 60 * GIB


def test_nobody_who_can_be_looked_at() -> None:
    found = WeightsRead()
    found.see([])
    assert found.from_disk is None
    assert found.so_far(0.9, GIB) is None


def test_processes_that_come_and_go() -> None:
    found = read((1, 10.0, 0.0))
    found.see([ReadBytes(9, 7 * GIB, 0)])  # new to us: what it read before is not known
    found.see([ReadBytes(9, 8 * GIB, 0)])
    found.see([ReadBytes(1, 5, 5)])  # another process with its number
    assert found.from_disk == 11 * GIB


def test_ranks_that_were_found_late_have_read_unseen() -> None:
    found = WeightsRead()
    found.see([ReadBytes(1, 0, 0)])
    assert found.is_whole
    found.see([ReadBytes(rank, 90 * GIB, 0) for rank in range(1, 10)])
    assert found.so_far(0.5, 100 * GIB) is None


@pytest.mark.parametrize(
    ("disk", "size", "cold"),
    [
        (700 * GIB, 770 * GIB, True),
        (100 * GIB, 770 * GIB, False),
        (0, 770 * GIB, False),
        (GIB, GIB, True),
        (FLOOR // 2, FLOOR // 2, False),
    ],
)
def test_cold_is_when_most_came_from_the_disk(disk: int, size: int, cold: bool) -> None:
    assert is_cold(disk, size) is cold


def test_while_it_loads() -> None:
    cold, warm = read((1, 100.0, 0.0), (2, 90.0, 0.0)), read((1, 0.2, 0.1), (2, 0.2, 0.1))
    assert cold.so_far(0.05, 770 * GIB) is None  # too early
    assert cold.so_far(None, 770 * GIB) is None  # no bar tells how far
    assert cold.so_far(0.25, 770 * GIB) is True
    assert cold.so_far(0.9, 770 * GIB) is False  # a quarter from the disk: mostly warm
    assert warm.so_far(0.25, 770 * GIB) is False
    assert cold.so_far(0.25, None) is True  # no earlier launch tells the size
    assert read((1, 0.0, 50.0)).so_far(0.25, None) is False  # read, and from memory
    assert read().so_far(0.25, None) is False


@pytest.mark.parametrize(
    ("detail", "size"),
    [
        ("KimiK25ForConditionalGeneration, 96.20 GB", int(96.20 * GIB) * 8),
        ("14.99 GiB", int(14.99 * GIB) * 8),
        ("LlamaForCausalLM, -0.00 GB", 0),
        ("TP 8, nccl 2.28.9", None),
        ("", None),
    ],
)
def test_the_size_that_the_log_tells(detail: str, size: int | None) -> None:
    assert told_size(detail, 8) == size
