"""Every kind of nvidia-smi as a real process: once, and in a loop."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import Dialect
from eagletui.gpus.sequence import Surveyed
from tests.gpus import stand_ins

LOST = "Unable to determine the device handle for GPU0000:A1:00.0: Unknown Error"


def gpu(index: int, bus: str, **cells: str) -> str:
    """A `gpu` paragraph of gpus.txt."""
    own = {
        "index": str(index),
        "uuid": f"GPU-{index:08d}",
        "pci.bus_id": f"00000000:{bus}:00.0",
        "name": "NVIDIA H200",
        "utilization.gpu": str(50 + index),
        "memory.used": str(1000 + index),
        "memory.total": "143771",
        "temperature.gpu": "40",
        "power.draw": "300.50",
        "power.limit": "700.00",
        "clocks_event_reasons.active": "0x0000000000000004",
        **{key.replace("__", "."): value for key, value in cells.items()},
    }
    return "gpu\n" + "".join(f"{key}\t{value}\n" for key, value in own.items())


def indexes(report: GpuReport) -> list[tuple[int, str]]:
    return [(g.index, g.state) for g in report.gpus]


@pytest.mark.parametrize("name", [name for name in stand_ins.CASES if "hangs" not in name and "slow" not in name])
def test_each_stored_case_is_read_right(name: str, tmp_path: Path) -> None:
    done, _ = stand_ins.drive(stand_ins.case(tmp_path / "bin", name))
    assert stand_ins.mismatches(stand_ins.expectation(name), stand_ins.as_json(done.report)) == []


def test_a_slow_tool_is_waited_for(tmp_path: Path) -> None:
    folder = stand_ins.case(tmp_path / "bin", "103a-slow-three-seconds")
    (folder / "delay").write_text("0.4\n")
    done, calls = stand_ins.drive(folder, seconds=5)
    assert stand_ins.mismatches(stand_ins.expectation("103a-slow-three-seconds"), stand_ins.as_json(done.report)) == []
    assert len(calls) == 2


@pytest.mark.parametrize("text", ["exec sleep 60\n", "trap '' TERM; exec sleep 60\n"], ids=["term", "kill"])
def test_a_tool_that_hangs_is_ended_and_not_called_again(text: str, tmp_path: Path) -> None:
    done, calls = stand_ins.drive(stand_ins.program(tmp_path / "bin", text), seconds=0.3)
    assert done.report.gpus == ()
    assert done.report.error is not None
    assert done.report.error.code == "timeout"
    assert len(calls) == 1


def test_a_process_table_that_hangs_keeps_the_rows(tmp_path: Path) -> None:
    folder = stand_ins.case(tmp_path / "bin", "02-healthy-one-gpu-idle")
    (folder / "real").write_bytes((folder / "nvidia-smi").read_bytes())
    stand_ins.program(folder, 'case "$*" in *compute-apps*) exec sleep 60;; esac\n. "$(dirname "$0")/real"\n')
    done, calls = stand_ins.drive(folder, seconds=0.5)
    assert indexes(done.report) == [(0, "ok")]
    assert done.report.gpus[0].processes == ()
    assert done.report.error is not None
    assert done.report.error.code == "timeout"
    assert "process table" in done.report.error.text
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "GPU0000:A1:00.0: Unknown Error"),
        (
            "opt\tlostblank\t1\nopt\tlostwords\tGPU is lost.  Reboot the system to recover this GPU\n",
            "GPU 0000:A1:00.0",
        ),
    ],
    ids=["no blank", "blank"],
)
def test_a_gpu_that_cannot_be_opened_hides_no_other(options: str, words: str, tmp_path: Path) -> None:
    text = options + gpu(0, "0F") + gpu(1, "A1", lost="handle") + gpu(2, "C1") + "app\t2\t77\tC\t900\tpython\n"
    done, calls = stand_ins.drive(stand_ins.build(tmp_path / "bin", text))
    assert indexes(done.report) == [(0, "ok"), (1, "lost"), (2, "ok")]
    assert done.report.gpus[1].mem_used_mib is None
    assert [p.pid for p in done.report.gpus[2].processes] == [77]
    assert done.report.error is not None
    assert done.report.error.code == "lost"
    assert words in done.report.error.text
    assert done.only == (0, 2)
    assert len(calls) == 4


def test_when_no_gpu_can_be_opened_the_message_is_all(tmp_path: Path) -> None:
    done, calls = stand_ins.drive(stand_ins.build(tmp_path / "bin", gpu(0, "A1", lost="handle")))
    assert done.report.gpus == ()
    assert done.report.error is not None
    assert (done.report.error.code, done.report.error.text) == ("lost", LOST)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("drop", "dialect", "queries"), [((), Dialect.OLD, 2), (("clocks_throttle", "mig."), Dialect.BARE, 3)]
)
def test_old_drivers_are_asked_by_old_names(
    drop: tuple[str, ...], dialect: Dialect, queries: int, tmp_path: Path
) -> None:
    folder = stand_ins.build(tmp_path / "bin", gpu(0, "0F"), old_names=True, drop=drop)
    done, calls = stand_ins.drive(folder)
    assert done.dialect is dialect
    assert done.report.error is None
    assert done.report.gpus[0].util_pct == 50
    assert done.report.gpus[0].throttle == (("sw-power-cap",) if dialect is Dialect.OLD else ())
    assert sum("--query-gpu" in " ".join(argv) for argv in calls) == queries


def _loops(tmp_path: Path) -> dict[str, Path]:
    """Stand-ins that print rows, stored and built here."""
    names = [name for name in stand_ins.CASES if (stand_ins.DATA / "cases" / name / "gpus.txt").exists()]
    found = {name: stand_ins.case(tmp_path / name, name) for name in names if "slow" not in name}
    two = gpu(1, "A1") + gpu(0, "0F")
    found["out of order"] = stand_ins.build(tmp_path / "order", two)
    found["old names"] = stand_ins.build(tmp_path / "old", two, old_names=True)
    lost = gpu(0, "0F") + gpu(1, "A1", lost="handle") + gpu(2, "C1")
    found["one cannot be opened"] = stand_ins.build(tmp_path / "lost", lost)
    return found


def test_the_loop_tells_what_the_survey_told(tmp_path: Path) -> None:
    surveys: dict[str, Surveyed] = {}
    with ExitStack() as stack:
        running = {}
        for name, folder in _loops(tmp_path).items():
            surveys[name], _ = stand_ins.drive(folder)
            argv, parser = surveys[name].loop()
            running[name] = stack.enter_context(stand_ins.loop_process(folder, argv)), parser
        # A tool that exits with an error status, as with a lost GPU, ends its loop after one round.
        rounds = {
            name: stand_ins.read_rounds(p, parser, 1 if "lost-in-cells" in name else 2, 15)
            for name, (p, parser) in running.items()
        }
    for name, found in rounds.items():
        told = surveys[name].report
        assert len(found) == (1 if "lost-in-cells" in name else 2), name
        for report in found:
            assert report.error == told.error, name
            assert [(g.index, g.state, g.mem_used_mib, g.throttle) for g in report.gpus] == [
                (g.index, g.state, g.mem_used_mib, g.throttle) for g in told.gpus
            ], name
