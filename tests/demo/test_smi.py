"""The simulated nvidia-smi: the recorded shapes, and what our own parser makes of it through a launch."""

from __future__ import annotations

import itertools

import pytest

from eagletui.demo import gpus, shape
from eagletui.demo.answers import tool
from eagletui.demo.smi import loop_seconds
from eagletui.demo.world import World
from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import Dialect, query_gpu_argv
from eagletui.gpus.sequence import Outcome, survey

OPENED = 1_800_000_000.0
FIELDS = (
    "index,uuid,pci.bus_id,name,utilization.gpu,utilization.memory,memory.used,memory.total,memory.free,"
    "temperature.gpu,temperature.memory,power.draw,power.limit,clocks.sm,clocks.mem,fan.speed,pstate,"
    "ecc.errors.uncorrected.volatile.total,mig.mode.current,clocks_throttle_reasons.active,compute_mode,driver_version"
)
HEADER = (  # recorded, driver 580.159.04
    "index, uuid, pci.bus_id, name, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB],"
    " memory.free [MiB], temperature.gpu, temperature.memory, power.draw [W], power.limit [W],"
    " clocks.current.sm [MHz], clocks.current.memory [MHz], fan.speed [%], pstate,"
    " ecc.errors.uncorrected.volatile.total, mig.mode.current, clocks_event_reasons.active, compute_mode,"
    " driver_version"
)


def ask(*argv: str, e: float = shape.READY + 100) -> tuple[str, int]:
    """Output and exit status of `nvidia-smi ARGV` when the engine is `e` seconds old."""
    world = World(opened=OPENED, into_start=e)
    answer = tool(world, [a.encode() for a in ("nvidia-smi", *argv)], OPENED)
    assert answer.stderr == b""
    return answer.stdout.decode(), answer.status


def report(e: float) -> GpuReport:
    """A whole survey by our own code."""
    steps = survey()
    argv = next(steps)
    while True:
        out, status = ask(*argv[1:], e=e)
        try:
            argv = steps.send(Outcome(status, out.encode()))
        except StopIteration as done:
            found: GpuReport = done.value
            return found


def test_the_survey_gives_eight_rows_that_are_ok() -> None:
    found = report(shape.READY + 100)
    assert found.error is None
    assert [gpu.index for gpu in found.gpus] == list(range(8))
    assert all(gpu.state == "ok" and gpu.name == "NVIDIA H200" for gpu in found.gpus)
    assert all(gpu.mem_total_mib == 143_771 and gpu.driver == "580.159.04" for gpu in found.gpus)
    assert all(gpu.throttle == () and gpu.ecc_uncorrected == 0 and not gpu.mig_enabled for gpu in found.gpus)
    assert len({gpu.uuid for gpu in found.gpus}) == 8
    for gpu in found.gpus:
        (process,) = gpu.processes
        assert process.name == f"sglang::scheduler_TP{gpu.index}"
        assert process.mem_mib == (gpu.mem_used_mib or 0) - 10


def test_serving_looks_like_the_picture() -> None:
    for seconds in range(60, 90):
        found = report(shape.READY + seconds).gpus
        assert all(86 <= (gpu.util_pct or 0) <= 97 for gpu in found)
        assert all(131.7 < (gpu.mem_used_mib or 0) / 1024 < 132.3 for gpu in found)
        assert all(630 < (gpu.power_w or 0) < 700 for gpu in found)
        assert {gpu.index for gpu in found if (gpu.temp_c or 0) >= 80} == {5}
        assert found[5].temp_c in {83, 84}


@pytest.mark.parametrize("index", range(8))
def test_memory_only_grows_through_a_start(index: int) -> None:
    used = [gpus.reading(index, e / 4, 0.0).used_mib for e in range(600)]
    assert used[0] == 0
    assert used == sorted(used)
    steps = [later - earlier for earlier, later in itertools.pairwise(used)]
    assert sum(step > 0 for step in steps[int(shape.WEIGHTS * 4) : int(shape.DRAFT * 4)]) > 100  # weights come slowly
    assert used[int(shape.KV_CACHE * 4)] / 1024 == pytest.approx(98.7, abs=0.5)
    assert used[-1] / 1024 == pytest.approx(132.0, abs=0.3)


def test_before_the_ranks_meet_the_gpus_are_idle_and_nobodys() -> None:
    found = report(5.0)
    assert all(gpu.mem_used_mib == 0 and gpu.util_pct == 0 and gpu.processes == () for gpu in found.gpus)


def test_loading_ranks_are_seen_working_and_waiting() -> None:
    seen = [gpus.reading(n, shape.WEIGHTS + t, 0.0).util for n in range(8) for t in range(35)]
    assert min(seen) < 10
    assert max(seen) > 95


def test_the_csv_has_the_recorded_header_and_units() -> None:
    out, status = ask(f"--query-gpu={FIELDS}", "--format=csv")
    header, *rows = out.splitlines()
    assert (header, status, len(rows)) == (HEADER, 0, 8)
    cells = rows[0].split(", ")
    assert [cells[n].split(" ")[-1] for n in (4, 5, 6, 7, 8, 11, 12, 13, 14)] == [
        "%",
        "%",
        *["MiB"] * 3,
        "W",
        "W",
        "MHz",
        "MHz",
    ]
    assert cells[15] == "[N/A]"
    used, total, free = (int(cells[n].split()[0]) for n in (6, 7, 8))
    assert total - used - free == 615


def test_the_csv_without_header_and_units_is_bare() -> None:
    out, _ = ask("-i", "3", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits")
    (row,) = out.splitlines()
    cells = row.split(", ")
    assert len(cells) == 22
    assert cells[0] == "3"
    assert all(cells[n].replace(".", "").isdigit() for n in (4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14))


def test_compute_apps_have_the_recorded_shape() -> None:
    out, status = ask("--query-compute-apps=gpu_uuid,pid,name,used_memory", "--format=csv")
    assert status == 0
    header, *rows = out.splitlines()
    assert header == "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
    assert len(rows) == 8
    assert rows[2].endswith(" MiB")
    assert ", sglang::scheduler_TP2, " in rows[2]


def test_the_list() -> None:
    out, status = ask("-L")
    assert status == 0
    assert out.splitlines()[7].startswith("GPU 7: NVIDIA H200 (UUID: GPU-")


def test_what_it_refuses_is_in_nvidia_smis_own_words() -> None:
    assert ask("--query-gpu=index,bogus_field", "--format=csv") == (
        'Field "bogus_field" is not a valid field to query.\n\n',
        2,
    )
    assert ask("--query-compute-apps=pid,bogus", "--format=csv")[1] == 2
    assert ask("-i", "9", "--query-gpu=index", "--format=csv") == ("No devices were found\n", 6)
    assert ask("--no-such-option")[1] == 2
    assert ask("--query-gpu=index")[1] == 2


@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_dialect_is_known(dialect: Dialect) -> None:
    out, status = ask(*query_gpu_argv(dialect)[1:])
    assert status == 0
    assert len(out.splitlines()) == 8


@pytest.mark.parametrize(
    ("argv", "seconds"),
    [(["-l", "1"], 1.0), (["--loop=2"], 2.0), (["-lms", "200"], 0.2), (["-L"], None), (["-l"], None), ([], None)],
)
def test_how_often_it_repeats(argv: list[str], seconds: float | None) -> None:
    assert loop_seconds(argv) == seconds
