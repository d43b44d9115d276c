"""Step 4: by memory and who holds it, with stand-ins of nvidia-smi; whoever holds it is named, and nobody is signalled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eagletui.errors import StopFailedError
from eagletui.gpus.model import Gpu, GpuProcess, GpuReport
from eagletui.launching.acting import Acting
from eagletui.launching.gpus_free import Floor, floor_of, gpus_free, holders_of, not_free
from eagletui.launching.lock import new_fence
from eagletui.nodes.local import LocalNode
from eagletui.servers.model import Inventory, Process
from eagletui.shell.script import Command
from tests.gpus.stand_ins import build

TOTAL = 143_771


def gpu(index: int, used: int | None, *held: tuple[int, int | None]) -> Gpu:
    uuid = f"GPU-{index}"
    return Gpu(
        index,
        uuid,
        mem_used_mib=used,
        mem_total_mib=TOTAL,
        processes=tuple(GpuProcess(pid, "python", mib, uuid) for pid, mib in held),
    )


def report(*gpus: Gpu) -> GpuReport:
    return GpuReport(gpus)


def test_the_floor_is_what_the_record_says_or_what_is_in_use_without_the_members() -> None:
    before = report(
        gpu(0, 100_000, (7, 90_000), (8, 9_000)), gpu(1, 90_500, (9, 90_000)), gpu(2, 4_000, (8, 4_000)), gpu(3, 0)
    )
    assert floor_of(before, {7, 9}).of == {"GPU-0": 10_000, "GPU-1": 500}
    assert floor_of(before, {7, 9}, (("GPU-0", 12), ("GPU-3", 5))).of == {"GPU-0": 12, "GPU-1": 500, "GPU-3": 5}
    assert floor_of(report(gpu(0, 100_000, (7, None), (8, 9_000))), {7}).of == {"GPU-0": 9_000}
    assert floor_of(report(gpu(0, 100_000), gpu(1, 0)), {7}) == Floor((("GPU-0", 0),), blind=True)
    assert floor_of(report(gpu(0, 100, (8, 90))), {7}) == Floor()


@pytest.mark.parametrize(
    ("now", "needed", "for_launch", "free"),
    [
        (gpu(0, 1_100), None, True, True),
        (gpu(0, 1_000 + 1_437), None, True, True),
        (gpu(0, 1_000 + 1_438), None, True, False),
        (gpu(0, 90_000, (7, 89_000)), None, True, False),
        (gpu(0, 0, (7, None)), None, True, False),
        (gpu(0, 60_000, (8, 59_500)), None, True, False),
        (gpu(0, 60_000, (8, 59_500)), None, False, True),
        (gpu(0, 60_000, (8, 30_000)), None, False, False),
        (gpu(0, 60_000, (8, 59_500)), {"GPU-0": 80_000}, True, True),
        (gpu(0, 60_000, (8, 59_500)), {"GPU-0": 90_000}, True, False),
        (gpu(0, None), None, True, True),
        (gpu(1, 90_000, (9, 90_000)), None, True, True),
    ],
)
def test_what_free_is(now: Gpu, needed: dict[str, int] | None, for_launch: bool, free: bool) -> None:
    left = not_free(report(now), Floor((("GPU-0", 1_000),)), {7}, needed=needed, for_launch=for_launch)
    assert (not left) == free


def test_holders_are_named_as_whose_they_are() -> None:
    inventory = Inventory(
        processes=(
            Process(8, 1, 8, 8, "S", "python", 1, 1001, ("python", "train.py", "--token", "hf_abcdefghijklmnop")),
        ),
        users=((1001, "bob"),),
    )
    held = holders_of(report(gpu(0, 9, (7, 1), (8, 2), (9, None))), inventory, {7})
    assert [(one.pid, one.whose, one.user) for one in held] == [
        (7, "family", None),
        (8, "others", "bob"),
        (9, "unknown", None),
    ]
    assert "hf_abc" not in held[1].command


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Says what nvidia-smi tells from then on: memory in use, and who holds how much."""

    def say(used: int, *held: tuple[int, int]) -> None:
        apps = "".join(f"app\t0\t{pid}\tC\t{mib}\tpython3\n" for pid, mib in held)
        text = f"driver\t580\ngpu\nindex\t0\nuuid\tGPU-0\nname\tNVIDIA H200\nmemory.used\t{used}\nmemory.total\t{TOTAL}\n{apps}"
        if (tmp_path / "smi").exists():
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").replace(tmp_path / "smi" / "gpus.txt")
        else:
            build(tmp_path / "smi", text)

    monkeypatch.setenv("PATH", f"{tmp_path / 'smi'}{os.pathsep}{os.environ['PATH']}")
    return say


async def test_the_memory_of_the_dead_is_waited_for(smi: Callable[..., None]) -> None:
    ran: list[Command] = []
    smi(90_000, (4_199_999, 89_000))
    acting = Acting(LocalNode(), new_fence((1,)), ran=ran.append)
    waiting = asyncio.create_task(
        gpus_free(acting, Floor((("GPU-0", 0),)), {4_199_999}, inventory=Inventory(), timeout_s=60)
    )
    while not ran:
        await asyncio.sleep(0.05)
    assert not waiting.done()
    smi(90_000)
    await asyncio.sleep(0.2)
    smi(3)
    freed = await waiting
    assert freed.text.startswith("free after")
    assert freed.holders == ()
    assert all(command.script.reads_only for command in ran)


async def test_whoever_else_holds_it_is_named_and_not_signalled(smi: Callable[..., None]) -> None:
    ran: list[Command] = []
    smi(90_000, (os.getpid(), 89_000))
    acting = Acting(LocalNode(), new_fence((1,)), ran=ran.append)
    with pytest.raises(
        StopFailedError, match=rf"GPU 0: 90000 MiB in use, 0 before.*pid {os.getpid()} of .* holds 89000 MiB"
    ):
        await gpus_free(acting, Floor((("GPU-0", 0),)), {4_199_999}, inventory=Inventory(), timeout_s=0.1)
    assert all(command.script.reads_only for command in ran)
    freed = await gpus_free(acting, Floor((("GPU-0", 0),)), {4_199_999}, inventory=Inventory(), for_launch=False)
    assert [holder.pid for holder in freed.holders] == [os.getpid()]


async def test_without_a_process_table_memory_alone_tells_and_it_says_so(smi: Callable[..., None]) -> None:
    smi(20_000)
    acting = Acting(LocalNode(), new_fence((1,)))
    freed = await gpus_free(
        acting, Floor((("GPU-0", 0),), blind=True), {4_199_999}, inventory=Inventory(), timeout_s=60
    )
    assert "by memory alone" in freed.text


async def test_no_tool_is_told_and_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    acting = Acting(LocalNode(), new_fence((1,)))
    freed = await gpus_free(acting, Floor((("GPU-0", 0),)), {1}, inventory=Inventory())
    assert freed.text.startswith("not checked: ")
    assert (await gpus_free(acting, Floor(), {1}, inventory=Inventory())).text.startswith("no process of it held")
