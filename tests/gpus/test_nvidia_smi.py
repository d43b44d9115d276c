"""The parsers of nvidia-smi's answers: tables of cells and messages, recordings, and any bytes."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eagletui.gpus import nvidia_smi
from eagletui.gpus.model import Gpu, GpuError, GpuProcess, GpuReport, MigInstance
from eagletui.gpus.nvidia_smi import Dialect, parse_query
from eagletui.gpus.smi_xml import MigMemory, parse_mig_memory
from tests.gpus.stand_ins import DATA

UUID = ("GPU-f9293a9d-d1e2-4513-1e8e-f2192883ba42", "GPU-f5164e7d-dc6c-1e42-36fd-e5133717a96a")
BUS = ("00000000:0F:00.0", "00000000:A1:00.0", "00000000:C1:00.0")
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161"
BLOCKED = """Failed to initialize NVML: GPU access blocked by the operating system
Failed to properly shut down NVML: GPU access blocked by the operating system"""
LOST = "Unable to determine the device handle for GPU0000:A1:00.0: Unknown Error"


def line(index: str | int = 0, dialect: Dialect = Dialect.NEW, **cells: str) -> str:
    """A row as this dialect's query prints it. Dots of field names are written as two underscores."""
    own = {
        "index": str(index),
        "uuid": f"GPU-{index}",
        "pci.bus_id": BUS[int(index)] if str(index) in "012" else "00000000:EE:00.0",
        "name": "NVIDIA H200",
        "utilization.gpu": "97",
        "memory.used": "132100",
        "memory.total": "143771",
        "temperature.gpu": "58",
        "power.draw": "690.50",
        "power.limit": "700.00",
        "ecc.errors.uncorrected.volatile.total": "0",
        "clocks_event_reasons.active": "0x0000000000000000",
        "clocks_throttle_reasons.active": "0x0000000000000008",
        "mig.mode.current": "Disabled",
        "driver_version": "580.159.04",
    }
    own |= {key.replace("__", "."): value for key, value in cells.items()}
    return ", ".join(own[f] for f in dialect.fields)


def all_cells(word: str, index: int = 1) -> str:
    """A row of a device that answers the same to everything."""
    return ", ".join([str(index), f"GPU-{index}", BUS[index], "NVIDIA H200", *[word] * 9, "580.159.04"])


def read(*lines: str, exit_status: int | None = 0, stderr: str = "", dialect: Dialect = Dialect.NEW) -> GpuReport:
    stdout = "".join(f"{text}\n" for text in lines).encode()
    return parse_query(stdout, stderr.encode(), exit_status, dialect).report


def only(report: GpuReport) -> Gpu:
    assert report.error is None
    assert len(report.gpus) == 1
    return report.gpus[0]


def test_a_healthy_row() -> None:
    assert only(read(line())) == Gpu(
        0, "GPU-0", "NVIDIA H200", "ok", 97, 132100, 143771, 58, 690.5, 700.0, (), 0, driver="580.159.04"
    )


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Not Supported]", "[Not Found]", "[Insufficient Permissions]", "-"])
@pytest.mark.parametrize(
    ("field", "attribute"),
    [
        ("utilization__gpu", "util_pct"),
        ("memory__used", "mem_used_mib"),
        ("memory__total", "mem_total_mib"),
        ("temperature__gpu", "temp_c"),
        ("power__draw", "power_w"),
        ("power__limit", "power_limit_w"),
        ("ecc__errors__uncorrected__volatile__total", "ecc_uncorrected"),
        ("uuid", "uuid"),
        ("name", "name"),
        ("driver_version", "driver"),
    ],
)
def test_one_unreadable_cell_is_null_in_its_own_place(field: str, attribute: str, word: str) -> None:
    whole, holed = only(read(line())), only(read(line(0, Dialect.NEW, **{field: word})))
    assert getattr(holed, attribute) is None
    assert holed.state == "ok"
    names = [n for n in Gpu.__dataclass_fields__ if n != attribute]
    assert [getattr(holed, n) for n in names] == [getattr(whole, n) for n in names]


def test_zero_is_a_number() -> None:
    gpu = only(read(line(utilization__gpu="0", memory__used="0", power__draw="0.00", temperature__gpu="0")))
    assert (gpu.util_pct, gpu.mem_used_mib, gpu.power_w, gpu.temp_c) == (0, 0, 0.0, 0)


def test_units_are_read_where_nounits_is_ignored() -> None:
    shown = line(utilization__gpu="97 %", memory__used="132100 MiB", memory__total="143771MiB", temperature__gpu="58 C")
    shown = shown.replace("690.50", "690.50 W").replace("700.00", "700.00 W")
    assert only(read(shown)) == only(read(line()))


@pytest.mark.parametrize("cell", ["101", "-1", "4294967295", "nan", "1e3", "12 GiB", "١٢", "97.9.1", "9" * 400])
def test_a_number_that_cannot_be_is_unknown(cell: str) -> None:
    assert only(read(line(utilization__gpu=cell))).util_pct is None


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("[GPU is lost]", "lost"),
        ("[GPU requires reset]", "error"),
        ("[Unknown Error]", "error"),
        ("[N/A]", "ok"),
        ("[Insufficient Permissions]", "ok"),
    ],
)
def test_a_device_that_answers_nothing(word: str, state: str) -> None:
    report = read(line(0), all_cells(word), exit_status=15)
    assert [(g.index, g.state, g.mem_used_mib) for g in report.gpus] == [(0, "ok", 132100), (1, state, None)]
    assert report.error is None


def test_one_unknown_error_is_no_broken_gpu() -> None:
    gpu = only(read(line(power__draw="[Unknown Error]")))
    assert (gpu.state, gpu.power_w, gpu.util_pct) == ("ok", None, 97)


def test_one_cell_that_wants_a_reset_is_a_broken_gpu() -> None:
    assert only(read(line(memory__used="[GPU requires reset]"))).state == "error"


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        ("0x0000000000000000", ()),
        ("0x0000000000000003", ()),
        ("0x0000000000000004", ("sw-power-cap",)),
        ("0x0000000000000048", ("hw-slowdown", "hw-thermal-slowdown")),
        ("0x00000000000001F0", ("sync-boost", "sw-thermal-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown",
                                "display-clock-setting")),
        ("0x8000000000000020", ("sw-thermal-slowdown",)),
        ("[N/A]", ()),
        ("Active", ()),
    ],
)  # fmt: skip
def test_throttle_is_named_by_its_bits(mask: str, names: tuple[str, ...]) -> None:
    assert only(read(line(clocks_event_reasons__active=mask))).throttle == names


@pytest.mark.parametrize("name", ["NVIDIA H200, rev 2", "A, B, C, D", ",", "GPU, 97, 132100, 143771"])
def test_commas_in_a_name_move_no_cell(name: str) -> None:
    gpu, plain = only(read(line(name=name))), only(read(line()))
    assert gpu.name == name.strip()
    assert (gpu.util_pct, gpu.mem_used_mib, gpu.driver) == (plain.util_pct, plain.mem_used_mib, plain.driver)


def test_rows_are_sorted_keyed_by_index_and_the_later_one_counts() -> None:
    report = read(line(2), line(0, utilization__gpu="1"), line(1), line(0, utilization__gpu="2"))
    assert [(g.index, g.util_pct) for g in report.gpus] == [(0, 2), (1, 97), (2, 97)]


def test_headers_blanks_crlf_nul_and_a_missing_last_newline() -> None:
    header = ", ".join(Dialect.NEW.fields).replace("memory.used", "memory.used [MiB]")
    text = f"\ufeff{header}\r\n\r\n{line(0)}\r\n\r\n{line(1)}\0"
    assert read(line(0), line(1)) == parse_query(text.encode(), b"", 0, Dialect.NEW).report


@pytest.mark.parametrize("where", [0, 1, 2])
@pytest.mark.parametrize("on_stderr", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        LOST,
        LOST.replace("GPU0000", "GPU 0000"),
        LOST.replace("Unknown Error", "GPU is lost.  Reboot the system to recover this GPU"),
        "Unable to determine the device handle for gpu 0000:A1:00.0: Not Found",
    ],
)
def test_a_lost_gpu_is_a_row_beside_the_healthy_ones(text: str, where: int, on_stderr: bool) -> None:
    lines = [line(0), line(2)]
    if not on_stderr:
        lines.insert(where, text)
    report = read(*lines, exit_status=255, stderr=text if on_stderr else "")
    assert [(g.index, g.state, g.util_pct) for g in report.gpus] == [(0, "ok", 97), (1, "lost", None), (2, "ok", 97)]
    assert report.error == GpuError("lost", text)


def test_a_lost_last_gpu_takes_the_next_index() -> None:
    assert [(g.index, g.state) for g in read(line(0), line(1), LOST.replace("A1", "E1")).gpus] == [
        (0, "ok"),
        (1, "ok"),
        (2, "lost"),
    ]


def test_two_lost_gpus_and_each_message_twice() -> None:
    second = LOST.replace("A1", "B1")
    report = read(LOST, second, line(0), LOST, second)
    assert [(g.index, g.state) for g in report.gpus] == [(0, "ok"), (1, "lost"), (2, "lost")]
    assert report.error == GpuError("lost", f"{LOST}\n{second}")


def test_a_message_about_a_gpu_that_has_a_row() -> None:
    report = read(line(0), line(1), LOST)
    assert [(g.index, g.state, g.uuid, g.mem_used_mib) for g in report.gpus] == [
        (0, "ok", "GPU-0", 132100),
        (1, "lost", "GPU-1", None),
    ]


def test_a_row_without_a_readable_index_takes_the_free_place() -> None:
    lost = all_cells("[GPU is lost]").replace("1, ", "[GPU is lost], ", 1)
    assert [(g.index, g.state, g.uuid) for g in read(line(0), lost, line(2)).gpus] == [
        (0, "ok", "GPU-0"),
        (1, "lost", "GPU-1"),
        (2, "ok", "GPU-2"),
    ]


@pytest.mark.parametrize(
    ("reason", "state", "code"),
    [("Insufficient Permissions", "error", "no-permission"), ("GPU requires reset", "error", "nvml-error")],
)
def test_a_gpu_that_does_not_open_for_another_reason(reason: str, state: str, code: str) -> None:
    report = read(line(0), LOST.replace("Unknown Error", reason))
    assert [(g.index, g.state) for g in report.gpus] == [(0, "ok"), (1, state)]
    assert report.error is not None
    assert report.error.code == code


@pytest.mark.parametrize(
    ("text", "exit_status", "code"),
    [
        ("No devices were found", 6, "no-devices"),
        (MISMATCH, 18, "driver-mismatch"),
        ("Failed to initialize NVML: Unknown Error", 255, "nvml-error"),
        ("Failed to initialize NVML: Function Not Found", 13, "nvml-error"),
        (BLOCKED, 17, "nvml-error"),
        ("Failed to initialize NVML: Insufficient Permissions", 4, "no-permission"),
        ("Failed to initialize NVML: Driver Not Loaded", 9, "no-driver"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, "no-driver"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, "no-driver"),
        ("nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open", 127, "no-driver"),
        ("sh: 1: nvidia-smi: not found", 127, "no-tool"),
        ("sh: 1: nvidia-smi: Permission denied", 126, "no-permission"),
        ("nvidia-smi: cannot execute binary file: Exec format error", 126, "no-permission"),
        (LOST, 255, "lost"),
        ("Segmentation fault", 139, "nvml-error"),
        ("something quite new", 0, "unparsable"),
        ("something quite new", None, "unparsable"),
        ("Invalid combination of input arguments.", 1, "unparsable"),
        ("0, GPU-0, NVIDIA", 0, "unparsable"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_message_instead_of_rows(text: str, exit_status: int | None, code: str, stream: str) -> None:
    streams = (text.encode(), b"") if stream == "stdout" else (b"", text.encode())
    report = parse_query(*streams, exit_status, Dialect.NEW).report
    assert report == GpuReport((), GpuError(code, text.strip("\n")))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exit_status", "code"),
    [
        (0, "unparsable"),
        (4, "no-permission"),
        (6, "no-devices"),
        (9, "no-driver"),
        (15, "lost"),
        (18, "driver-mismatch"),
        (124, "timeout"),
        (126, "no-permission"),
        (127, "no-tool"),
        (137, "timeout"),
        (-9, "timeout"),
        (None, "timeout"),
    ],
)
def test_silence_is_told_by_the_exit_status(exit_status: int | None, code: str) -> None:
    error = parse_query(b"", b"\n", exit_status, Dialect.NEW).report.error
    assert error is not None
    assert error.code == code
    assert error.text


@pytest.mark.parametrize("text", ["WARNING: infoROM is corrupted at gpu 0000:0F:00.0", "bash: warning: setlocale"])
def test_a_warning_beside_good_rows_is_no_error(text: str) -> None:
    assert read(text, line(0), exit_status=14) == read(line(0))
    assert read(line(0), exit_status=14, stderr=text) == read(line(0))


def test_a_row_cut_short_is_told_beside_the_others() -> None:
    report = read(line(0), line(1)[:40])
    assert [g.index for g in report.gpus] == [0]
    assert report.error == GpuError("unparsable", line(1)[:40].strip())


def test_rows_that_came_before_the_deadline_stay() -> None:
    report = read(line(0), exit_status=124)
    assert [g.index for g in report.gpus] == [0]
    assert report.error is not None
    assert report.error.code == "timeout"


def test_unknown_fields_ask_for_the_older_names() -> None:
    text = (DATA / "h200" / "bogus_field.txt").read_bytes()
    assert parse_query(text, b"", 2, Dialect.NEW).retry is Dialect.OLD
    assert parse_query(b"", text, 2, Dialect.OLD).retry is Dialect.BARE
    last = parse_query(text, b"", 2, Dialect.BARE)
    assert last.retry is None
    assert last.report.error is not None
    assert (last.report.error.code, "bogus_field" in last.report.error.text) == ("unparsable", True)


@pytest.mark.parametrize(("dialect", "names"), [(Dialect.OLD, ("hw-slowdown",)), (Dialect.BARE, ())])
def test_rows_of_older_dialects(dialect: Dialect, names: tuple[str, ...]) -> None:
    gpu = only(read(line(0, dialect), dialect=dialect))
    assert (gpu.util_pct, gpu.throttle, gpu.driver) == (97, names, "580.159.04")


def test_calls() -> None:
    new = nvidia_smi.query_gpu_argv(Dialect.NEW)
    assert new[0] == "nvidia-smi"
    assert "clocks_event_reasons.active" in new[1]
    assert new[-1] == "--format=csv,noheader,nounits"
    assert "clocks_throttle_reasons.active" in nvidia_smi.query_gpu_argv(Dialect.OLD)[1]
    bare = nvidia_smi.query_gpu_argv(Dialect.BARE)[1]
    assert "clocks_" not in bare
    assert "mig." not in bare
    assert nvidia_smi.loop_argv(Dialect.NEW) == (*new, "-l", "1")
    assert nvidia_smi.query_gpu_argv(Dialect.NEW, (0, 2))[1:3] == ("-i", "0,2")
    assert nvidia_smi.compute_apps_argv() == nvidia_smi.COMPUTE_APPS_ARGV


def recorded(name: str, work: str) -> list[str]:
    """Rows of a recording in the columns that we ask for: the recording's cells, our order."""
    header = (DATA / "h200" / work / "query_gpu_header.csv").read_text().splitlines()[0]
    columns = [title.split(" ")[0] for title in header.split(", ")]
    found = []
    for row in (DATA / "h200" / work / name).read_text().splitlines():
        cells = row.split(", ")
        by_name = dict(zip(columns, cells[len(cells) - len(columns) :], strict=True))
        if by_name["index"] != "index":
            found.append(", ".join(by_name[f] for f in Dialect.NEW.fields))
    return found


@pytest.mark.parametrize("name", ["query_gpu.csv", "query_gpu_header.csv"])
def test_recorded_rows_with_and_without_units(name: str) -> None:
    load, idle = read(*recorded(name, "load")), read(*recorded(name, "idle"))
    assert load.error is None
    assert idle.error is None
    assert [(g.index, g.uuid, g.util_pct, g.mem_used_mib, g.throttle) for g in load.gpus] == [
        (0, UUID[0], 100, 21491, ("sw-power-cap",)),
        (1, UUID[1], 95, 41971, ("sw-power-cap",)),
    ]
    assert [(g.util_pct, g.mem_used_mib, g.temp_c, g.throttle) for g in idle.gpus] == [(0, 0, 34, ()), (0, 0, 33, ())]
    assert idle.gpus[0].power_w == pytest.approx(79.58)


def apps(name: str) -> bytes:
    """Recorded processes in our column order, the name last."""
    rows = [row.split(", ") for row in (DATA / "h200" / "load" / name).read_text().splitlines()]
    return "".join(f"{uuid}, {pid}, {mem}, {process}\n" for uuid, pid, process, mem in rows).encode()


@pytest.mark.parametrize("name", ["compute_apps.csv", "compute_apps_header.csv"])
def test_recorded_processes(name: str) -> None:
    assert nvidia_smi.parse_compute_apps(apps(name)) == (
        GpuProcess(717, "python3", 21482, UUID[0]),
        GpuProcess(717, "python3", 41962, UUID[1]),
    )


def test_process_rows() -> None:
    text = (
        b"GPU-0, 1, [N/A], python, with comma\r\nGPU-0, 2, 5 MiB, [Not Found]\nGPU-0, [N/A], 5, x\n\nGPU-0, 0, 5, x\n"
    )
    assert nvidia_smi.read_compute_apps(text + text) == nvidia_smi.AppsAnswer(
        (GpuProcess(1, "python, with comma", None, "GPU-0"), GpuProcess(2, None, 5, "GPU-0"))
    )


@pytest.mark.parametrize(
    ("stdout", "exit_status", "code"),
    [
        (b"", 0, None),
        (b"", 15, None),
        (b"WARNING: infoROM is corrupted at gpu 0000:0F:00.0\n", 14, None),
        (b"No devices were found\n", 6, None),
        (b"Failed to initialize NVML: Insufficient Permissions\n", 4, "no-permission"),
        (LOST.encode(), 255, "lost"),
        (b"", 124, "timeout"),
        (b"", None, "timeout"),
    ],
)
def test_no_process_rows(stdout: bytes, exit_status: int | None, code: str | None) -> None:
    answer = nvidia_smi.read_compute_apps(stdout, b"", exit_status)
    assert answer.processes == ()
    assert (answer.error.code if answer.error else None) == code


LISTED = """GPU 0: NVIDIA A100 (80GB) (UUID: GPU-a)
  MIG 1g.10gb       Device  0: (UUID: MIG-1)
  MIG 1c.3g.40gb+me Device  1: (UUID: MIG-GPU-a/2/0)
Unable to determine the device handle for GPU0000:A1:00.0: Unknown Error
GPU 2: NVIDIA A100-SXM4-80GB (UUID: GPU-c)
"""


def test_listing() -> None:
    listing = nvidia_smi.read_list(LISTED.encode())
    assert listing.gpus == ((0, "GPU-a"), (2, "GPU-c"))
    assert nvidia_smi.parse_list(LISTED.encode()) == {
        "GPU-a": (MigInstance(0, "1g.10gb", "MIG-1"), MigInstance(1, "1c.3g.40gb+me", "MIG-GPU-a/2/0"))
    }
    assert [m.text for m in listing.unopened] == [LOST]
    recorded_list = nvidia_smi.read_list((DATA / "h200" / "load" / "smi_L.txt").read_bytes())
    assert recorded_list == nvidia_smi.Listing(((0, UUID[0]), (1, UUID[1])))


def test_assemble_joins_by_uuid_and_leaves_strangers_out() -> None:
    mig = nvidia_smi.parse_list(LISTED.encode())
    processes = [
        GpuProcess(1, "x", 5, "MIG-1"),
        GpuProcess(2, "x", 6, "MIG-GPU-a/2/0"),
        GpuProcess(3, "x", 7, "GPU-c"),
        GpuProcess(4, "x", 8, "GPU-elsewhere"),
    ]
    query = GpuReport((Gpu(0, "GPU-a"), Gpu(1), Gpu(2, "GPU-c")), GpuError("lost", LOST))
    joined = nvidia_smi.assemble(query, processes, mig)
    assert joined.error == query.error
    assert [[(p.pid, p.gpu_uuid) for p in g.processes] for g in joined.gpus] == [
        [(1, "GPU-a"), (2, "GPU-a")],
        [],
        [(3, "GPU-c")],
    ]
    assert [len(g.mig) for g in joined.gpus] == [2, 0, 0]
    # Without the list, the old form of uuid still names its GPU.
    assert [p.pid for p in nvidia_smi.assemble(query, processes).gpus[0].processes] == [2]


def mig_xml(head: str = "", used: str = "13 MiB") -> bytes:
    device = f"<index>0</index><fb_memory_usage><total>9728 MiB</total><used>{used}</used></fb_memory_usage>"
    devices = f"<mig_devices><mig_device>{device}</mig_device></mig_devices>"
    return f"""<?xml version="1.0" ?>{head}
<nvidia_smi_log><gpu id="0">{devices}<fb_memory_usage><used>7 MiB</used></fb_memory_usage><uuid>GPU-a</uuid></gpu>
<gpu id="1"><mig_devices>None</mig_devices><uuid>GPU-b</uuid></gpu></nvidia_smi_log>""".encode()


def test_mig_memory() -> None:
    assert parse_mig_memory(mig_xml()) == {("GPU-a", 0): MigMemory(13, 9728)}
    assert parse_mig_memory(mig_xml(used="N/A")) == {("GPU-a", 0): MigMemory(None, 9728)}
    doctype = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">'
    assert parse_mig_memory(mig_xml(doctype)) == parse_mig_memory(mig_xml())
    with gzip.open(DATA / "h200" / "load" / "smi_q_x.xml.gz") as file:
        assert parse_mig_memory(file.read()) == {}


def test_entities_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY a "13 MiB"><!ENTITY b "&a;&a;&a;&a;">]>'
    assert parse_mig_memory(mig_xml(bomb, "&b;")) == {}


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(mig_xml())), junk=st.binary(max_size=20))
def test_mig_memory_is_total(cut: int, junk: bytes) -> None:
    assert parse_mig_memory(mig_xml()[:cut] + junk) in ({}, {("GPU-a", 0): MigMemory(13, 9728)})


PIECES = st.sampled_from(
    [line(0), line(1), line("x"), line(99999), all_cells("[GPU is lost]"), LOST, ",", "\n", "\r", "\0", "0, ", LISTED,
     'Field "x" is not a valid field to query.', "[N/A]", "," * 40, "No devices were found"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    stdout=st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=8).map(lambda p: "".join(p).encode())),
    stderr=st.binary(max_size=40),
    exit_status=st.one_of(st.none(), st.integers(-20, 300)),
    dialect=st.sampled_from(Dialect),
)
@example(stdout=b"", stderr=b"", exit_status=None, dialect=Dialect.NEW)
def test_parsers_are_total(stdout: bytes, stderr: bytes, exit_status: int | None, dialect: Dialect) -> None:
    report = parse_query(stdout, stderr, exit_status, dialect).report
    indexes = [g.index for g in report.gpus]
    assert indexes == sorted(set(indexes))
    assert min(indexes, default=0) >= 0
    assert report.gpus or report.error is not None
    assert report.error is None or report.error.text
    answer = nvidia_smi.read_compute_apps(stdout, stderr, exit_status)
    assert all(p.pid > 0 for p in answer.processes)
    nvidia_smi.assemble(report, answer.processes, nvidia_smi.parse_list(stdout, stderr))
