"""What the kernel, the control group and the exit status make of a log's diagnosis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eagletui.logs.causes import signal_of
from eagletui.logs.state import Diagnosis, Quote
from eagletui.servers.model import Reason
from eagletui.servers.witnesses import Witnessed, refine, stands, unexplained
from eagletui.shell.kernel import KernelLog, OomCount, parse_kernel_log

ECHO = Quote(90, "Received sigquit from a child process")


def said(code: str, phase: str = "weights") -> Diagnosis:
    return Diagnosis(code, "critical", phase, "TP1", "summary", "Advice.", (ECHO,))  # type: ignore[arg-type]


def kernel(*lines: str, status: int = 0) -> KernelLog:
    return parse_kernel_log("\n".join(["@uptime 5000.0", *lines, f"@ended dmesg {status}"]).encode())


OOM = "[4990.5] Out of memory: Killed process 501 (sglang::schedul) total-vm:1kB"
CGROUP_OOM = "[4990.5] Memory cgroup out of memory: Killed process 501 (python3) total-vm:1kB"
XID_79 = "[4990.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
XID_31 = "[4990.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=501, name=python3, MMU Fault"
FAULT = "[4990.5] python3[501]: segfault at 0 ip 0 sp 0 error 4 in libcuda.so"
BASE = Witnessed({500: "python3", 501: "sglang::schedul"}, launched_s=4000.0, died_s=4991.0)


@pytest.mark.parametrize(
    ("code", "line", "found", "quoted"),
    [
        ("worker-killed", OOM, "host-oom", True),
        ("worker-killed", CGROUP_OOM, "host-oom", True),
        ("died-silently", OOM, "host-oom", True),
        ("nccl-error", OOM, "host-oom", True),
        ("kernel-build-failed", OOM, "host-oom", True),
        ("died-silently", XID_79, "gpu-lost", True),
        ("cuda-error", XID_79, "gpu-lost", True),
        ("nccl-timeout", XID_79, "gpu-lost", True),
        ("cuda-error", XID_31, "cuda-error", True),
        ("worker-killed", FAULT, "segfault", True),
        ("died-silently", FAULT, "segfault", True),
        ("segfault", FAULT, "segfault", True),
        # what the log proves itself stays
        ("cuda-oom", OOM, "cuda-oom", False),
        ("bad-flag", XID_79, "bad-flag", False),
        ("port-in-use", FAULT, "port-in-use", False),
        # not of this launch
        ("worker-killed", OOM.replace("4990.5", "3990.5"), "worker-killed", False),
        ("worker-killed", OOM.replace("501", "77").replace("sglang::schedul", "stress"), "worker-killed", False),
        ("cuda-error", XID_79.replace("4990.5", "3990.5"), "cuda-error", False),
    ],
)
def test_the_kernel_tells_the_cause(code: str, line: str, found: str, quoted: bool) -> None:
    seen = refine(said(code), replace(BASE, kernel=kernel(line)))
    assert seen is not None
    assert seen.code == found
    assert ECHO in seen.evidence
    assert seen.rank == "TP1"
    others = [quote.text for quote in seen.evidence if quote.line == 0]
    assert [line.split("] ")[1] in text for text in others] == [True] * quoted


def test_a_kill_in_a_container_is_known_by_name_and_time() -> None:
    """The kernel's pids are the host's there."""
    line = OOM.replace("501", "98765")
    assert _code(refine(said("worker-killed"), replace(BASE, kernel=kernel(line)))) == "host-oom"
    long_before = line.replace("4990.5", "4500.0")
    assert _code(refine(said("worker-killed"), replace(BASE, kernel=kernel(long_before)))) == "worker-killed"
    ours_too = f"[4100.0] {FAULT.split('] ', 1)[1]}"  # where the kernel names a pid of ours they are the same
    assert _code(refine(said("worker-killed"), replace(BASE, kernel=kernel(line, ours_too)))) == "segfault"


def _code(diagnosis: Diagnosis | None) -> str | None:
    return None if diagnosis is None else diagnosis.code


def test_a_control_group_counts_kills() -> None:
    before, after = OomCount("2/a.slice", 3, 1 << 36), OomCount("2/a.slice", 4, 1 << 36)
    denied = kernel("dmesg: read kernel buffer failed: Operation not permitted", status=1)
    seen = refine(said("worker-killed"), replace(BASE, kernel=denied, before=before, after=after))
    assert seen is not None
    assert seen.code == "host-oom"
    assert "64.0 GiB" in seen.evidence[0].text
    for same in (replace(after, kills=3), replace(after, group="2/b.slice")):
        assert _code(refine(said("worker-killed"), replace(BASE, before=before, after=same))) == "worker-killed"


def test_what_could_not_be_read_is_said() -> None:
    denied = kernel("dmesg: read kernel buffer failed: Operation not permitted", status=1)
    for code in ("worker-killed", "died-silently"):
        seen = refine(said(code), replace(BASE, kernel=denied))
        assert seen is not None
        assert "Operation not permitted" in seen.advice
        assert "neither shown nor excluded" in seen.advice
        quiet = refine(said(code), replace(BASE, kernel=kernel(), before=OomCount("2/a", 0), after=OomCount("2/a", 0)))
        assert quiet is not None
        assert "no kill for memory" in quiet.advice
        assert "counts none" in quiet.advice
        assert refine(said(code), BASE) == said(code)  # not asked yet
    assert refine(said("bad-flag"), replace(BASE, kernel=denied)) == said("bad-flag")
    assert refine(None, replace(BASE, kernel=kernel(OOM))) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [(-9, "worker-killed"), (137, "worker-killed"), (139, "segfault"), (-6, "aborted"), (135, "shm-exhausted"), (127, "never-started"), (1, "died-silently")],
)  # fmt: skip
def test_an_exit_status_tells_where_nothing_else_does(status: int, code: str) -> None:
    silent = unexplained("sglang", "weights", started=True)
    seen = refine(silent, replace(BASE, exit_status=status))
    assert seen is not None
    assert seen.code == code
    assert seen.evidence[-1].text == f"exit status {status}"
    assert _code(refine(said("cuda-oom"), replace(BASE, exit_status=status))) == "cuda-oom"
    killed = replace(BASE, exit_status=status, kernel=kernel(OOM))
    assert _code(refine(silent, killed)) == "host-oom"


def test_signals_come_in_both_shapes() -> None:
    assert [signal_of(status) for status in (-9, 137, 1, 0, 127, 128, 255)] == [9, 9, None, None, None, None, None]


def test_diagnoses_without_a_log_have_sentences() -> None:
    for made in (
        unexplained("sglang", None, started=True),
        unexplained("vllm", None, started=False),
        stands("sglang", "weights", "TP1", Reason("no-progress", "no shard for 5:12")),
    ):
        assert made.summary
        assert made.summary[0].isupper()
        assert made.advice
    stopped = stands("sglang", "serving", None, Reason("suspended", "scheduler (pid 7) was stopped by a signal"))
    assert "CONT" in stopped.advice
