"""What is refused as of no help, and what is asked and said beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagletui.gpus.model import Gpu, GpuError, GpuReport
from eagletui.history.launches import Outcome, PastLaunch, kept_command, kind_of
from eagletui.launching.guards import (
    Past,
    cannot_help,
    ends_with_it,
    gpus_forbid,
    kept_by_script,
    may_yet_start,
    name_typed,
    others,
    pasts_of,
    read_only,
)
from eagletui.launching.plan import Holder, Kept
from eagletui.launching.records import Kept as Lying
from eagletui.launching.words import age
from eagletui.servers.model import Inventory, LogSource, Member, Process, Server
from eagletui.servers.record import Record

COMMAND = ("python", "-m", "sglang.launch_server", "--model-path", "/m", "--mem-fraction-static", "0.9")
OOM, OTHER, READY = Past("cuda-oom", ready=False), Past("nccl-error", ready=False), Past(None, ready=True)


@pytest.mark.parametrize(
    ("pasts", "refused"),
    [
        ((), False),
        ((OOM,), False),
        ((OOM, OOM), True),
        ((OOM, OOM, READY), True),
        ((OOM, READY, OOM), False),
        ((READY, OOM, OOM), False),
        ((OOM, OTHER, OOM), False),
        ((Past(None, ready=False), Past(None, ready=False)), False),
        ((Past("bad-flag", ready=False),), True),
        ((Past("driver-mismatch", ready=False), READY), True),
        ((READY, Past("bad-flag", ready=False)), False),
    ],
)
def test_the_same_crash_twice_in_a_row_and_a_certain_one_at_once(pasts: tuple[Past, ...], refused: bool) -> None:
    refusal = cannot_help(pasts)
    assert (refusal is not None) == refused
    if refusal is not None:
        assert (refusal.code, refusal.again) == ("cannot-help", True)
        assert "--again" in refusal.text


def past(command: tuple[str, ...], outcome: Outcome = "crashed", code: str | None = "cuda-oom") -> PastLaunch:
    kind = kind_of("sglang", command, None, None)
    return PastLaunch("k", "sglang", kind.fingerprint, kept_command(command), outcome, code)


def test_another_value_of_a_flag_is_another_command() -> None:
    mended = (*COMMAND[:-1], "0.8")
    launches = [past(COMMAND), past(COMMAND, "stopped"), past(COMMAND)]
    assert cannot_help(pasts_of(COMMAND, "sglang", launches, ())) is not None
    assert pasts_of(mended, "sglang", launches, ()) == ()


def test_records_on_the_node_tell_where_the_history_knows_nothing() -> None:
    records = [
        Record(str(number), "restart", "", "me@here", command=kept_command(COMMAND), diagnosis=code, ready_s=ready)
        for number, code, ready in ((1, "cuda-oom", None), (3, "cuda-oom", None), (2, "cuda-oom", None), (0, None, 4.0))
    ]
    assert pasts_of(COMMAND, "sglang", (), records) == (OOM, OOM, OOM, READY)
    assert pasts_of(COMMAND, "sglang", (past(COMMAND, "ready", None),), records) == (READY,)


def test_a_broken_driver_and_a_lost_gpu_of_the_launch() -> None:
    report = GpuReport((Gpu(0), Gpu(3, state="lost")))
    assert gpus_forbid(report, {0}) is None
    found = gpus_forbid(report, {0, 3})
    assert found is not None
    assert "GPU 3 is lost" in found.text
    assert gpus_forbid(report, None) is not None
    mismatch = gpus_forbid(GpuReport(error=GpuError("driver-mismatch", "Driver/library version mismatch")), None)
    assert mismatch is not None
    assert "version mismatch" in mismatch.text
    assert gpus_forbid(GpuReport(error=GpuError("no-tool", "not found")), None) is None


def test_read_only_production_and_a_script_that_keeps_it() -> None:
    assert read_only("gpu", is_read_only=False) is None
    found = read_only("gpu", is_read_only=True)
    assert found is not None
    assert (found.code, found.again) == ("read-only", False)
    assert name_typed("gpu", "stop", confirms=False) is None
    question = name_typed("gpu", "stop", confirms=True)
    assert question is not None
    assert question.typed == "gpu"
    assert kept_by_script(Kept("shell")) is None
    asked = kept_by_script(Kept("script", "run.sh\x1b[2J", 77, 7300.0))
    assert asked is not None
    assert "run.sh" in asked.text
    assert "(pid 77, for 2 h)" in asked.text
    assert "\x1b" not in asked.text


def server(pid: int, port: int, *, ours: bool = True, user: str = "me") -> Server:
    process = Process(pid, 1, pid, pid, "S", "python", 5, 1000)
    return Server(f"sglang:{port}", "sglang", process, (), user, port, "/m/x", COMMAND, "/", LogSource("/l"), ours=ours)


def test_what_others_have_is_said_before_anything_is_stopped() -> None:
    mine, theirs = server(10, 30000), server(20, 30001, ours=False, user="bob")
    holders = (
        Holder(0, 10, "me", 9000, "sglang::scheduler", "family"),
        Holder(1, 21, "bob", 2048, "train", "others"),
        Holder(2, 22, "bob", 1024, "train", "others"),
        Holder(3, 99, None, 1024, "-", "unknown"),
    )
    said = others(Inventory((mine, theirs)), mine, holders)
    assert len(said) == 3
    assert "of bob" in said[0]
    assert "pid 20" in said[0]
    assert "bob holds 3.0 GiB on GPU 1, 2" in said[1]
    assert "cannot be seen" in said[2]


def test_what_ends_with_a_server_and_is_no_part_of_it_is_named() -> None:
    """`python train.py & exec python -m sglang.launch_server …`: the job is the server's child, like its own workers."""
    mine = server(10, 30000)

    def child(pid: int, *argv: str) -> Member:
        return Member(Process(pid, 10, 10, 10, "S", argv[0], 6, 1000, argv), "other")

    own = (
        Member(mine.launcher, "launcher"),
        child(11, "python", "-c", "from multiprocessing.resource_tracker import main; main(7)"),
        child(12, "python", "/x/torch/_inductor/compile_worker/__main__.py"),
        child(13, "/usr/local/cuda/bin/nvcc", "x.cu"),
        child(14, *COMMAND),
    )
    assert ends_with_it(replace(mine, family=own)) == ()
    assert ends_with_it(None) == ()
    (said,) = ends_with_it(
        replace(mine, family=(*own, child(15, "python", "train.py", "--api-key", "sk-hunter2222222222")))
    )
    assert "python train.py" in said
    assert "(pid 15)" in said
    assert "hunter" not in said


def test_a_launch_whose_keeper_may_yet_start_it_is_not_launched_a_second_time() -> None:
    record = Record("a", "start", "", "", port=30000, keeper=(77, 5))
    pending = Lying(record, keeper_alive=True, begun=True)
    refusal = may_yet_start((pending,), (30000,))
    assert refusal is not None
    assert (refusal.code, "pid 77" in refusal.text) == ("launch-pending", True)
    assert may_yet_start((pending,), (30001,)) is None
    assert may_yet_start((replace(pending, keeper_alive=False),), (30000,)) is None
    assert may_yet_start((replace(pending, record=replace(record, process=(78, 6))),), (30000,)) is None


@pytest.mark.parametrize(("seconds", "said"), [(0.4, "0 s"), (119.0, "119 s"), (120.0, "2 min"), (7200.0, "2 h"), (200000.0, "2 d")])  # fmt: skip
def test_ages(seconds: float, said: str) -> None:
    assert age(seconds) == said
