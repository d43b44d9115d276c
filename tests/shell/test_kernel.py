"""What the kernel says of a death: lines of several kernels and tools, and the scripts under every kind of shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.shell.kernel import KernelLog, ask_kernel_log, ask_oom_count, parse_kernel_log, parse_oom_count
from eagletui.shell.script import Command
from eagletui.shell.scripts import OOM_COUNT
from tests.shell.sh import run

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")


def read(*lines: str, ended: str = "@ended dmesg 0") -> KernelLog:
    return parse_kernel_log("\n".join(["@uptime 5000.25", *lines, ended, ""]).encode())


@pytest.mark.parametrize(
    ("line", "kind", "pid", "name", "number"),
    [
        ("[16315.676779] Out of memory: Killed process 9237 (python3) total-vm:24876212kB, UID:1026 pgtables:47168kB", "oom", 9237, "python3", None),
        ("[  12.5] Memory cgroup out of memory: Killed process 77 (sglang::schedul) total-vm:1kB, anon-rss:1kB", "oom", 77, "sglang::schedul", None),
        ("[12.5] Out of memory: Kill process 77 (ray::IDLE (x)) score 907 or sacrifice child", "oom", 77, "ray::IDLE (x)", None),
        ("[12.5] Killed process 77, UID 1000, (python) total-vm:1kB", "oom", 77, "python", None),
        ("<4>[12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.", "xid", 1234, None, 79),
        ("[12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "xid", None, None, 79),
        ("[12.5] NVRM: Xid (0000:3b:00): 48, An uncorrectable double bit error", "xid", None, None, 48),
        ("[ 12.50] python3[1234]: segfault at 0 ip 00007f sp 00007f error 4 in libtorch_cuda.so[7f+9000]", "fault", 1234, "python3", None),
        ("[12.5] traps: pt_main_thread[1234] general protection fault ip:7f sp:7f error:0", "fault", 1234, "pt_main_thread", None),
        ("[12.5] node7 kernel: Out of memory: Killed process 5 (vllm) total-vm:1kB", "oom", 5, "vllm", None),
    ],
)  # fmt: skip
def test_what_the_kernel_did(line: str, kind: str, pid: int | None, name: str | None, number: int | None) -> None:
    log = read(line)
    assert log.readable
    assert log.uptime_s == 5000.25
    (event,) = log.events
    assert (event.kind, event.pid, event.name, event.number) == (kind, pid, name, number)
    assert event.at_s is not None
    assert not event.text.startswith(("[", "<", "node7"))


@pytest.mark.parametrize(
    "line",
    [
        "[12.5] oom_reaper: reaped process 9237 (python3), now anon-rss:4kB",
        "[12.5] NVRM: loading NVIDIA UNIX Open Kernel Module",
        "Out of memory: Killed process 9237 (python3) total-vm:1kB",
        "[x] Killed process 1 (a) x",
        "[12.5] segfault at",
    ],
)
def test_what_is_no_event(line: str) -> None:
    assert read(line).events == ()


def test_what_may_not_be_read_says_so() -> None:
    denied = "dmesg: read kernel buffer failed: Operation not permitted"
    both = f"{denied}\n@ended dmesg 1\n\nNo journal files were opened due to insufficient permissions."
    log = read(both, ended="@ended journalctl 1")
    assert not log.readable
    assert log.error.startswith(denied)
    assert "insufficient permissions" in log.error
    hint = "Hint: You are currently not seeing messages from other users and the system."
    assert not read(f"{denied}\n@ended dmesg 1\n{hint}", ended="@ended journalctl 0").readable
    assert read("", ended="@ended dmesg 127\n@ended journalctl 127").error == "dmesg: not there; journalctl: not there"
    assert "did not answer" in read("", ended="@ended dmesg 124").error
    assert read(f"{denied}\n@ended dmesg 1", ended="@ended journalctl 0").readable


def test_the_kernels_text_is_no_escape_sequence() -> None:
    (event,) = read("[12.5] Out of memory: Killed process 5 (\x1b[31mx\x07) total").events
    assert event.name == "x"


@given(st.binary())
def test_any_bytes_are_read(raw: bytes) -> None:
    parse_kernel_log(raw)
    parse_oom_count(raw)


def test_counts_of_a_control_group() -> None:
    group = "2/user.slice/a b\n.scope"
    text = f"cgroup {group.encode().hex()}\noom_kill 3\nlimit 1073741824\n"
    found = parse_oom_count(text.encode())
    assert found is not None
    assert (found.group, found.kills, found.limit_bytes) == (group, 3, 1 << 30)
    for limit in ("max", "9223372036854771712"):
        no = parse_oom_count(text.replace("1073741824", limit).encode())
        assert no is not None
        assert no.limit_bytes is None
    for bad in ("", "oom_kill 1\n", f"cgroup {group.encode().hex()}\noom_kill x\n", "cgroup zz\noom_kill 1\n"):
        assert parse_oom_count(bad.encode()) is None


@linux
@pytest.mark.parametrize("shell", ["dash", "bash-as-sh", "busybox", "fish", "tcsh"])
def test_the_scripts_themselves(shell: str, tmp_path: Path) -> None:
    status, out, err = run(ask_kernel_log(), tmp_path, shell)
    log = parse_kernel_log(out)
    assert status == 0
    assert not err
    assert (log.uptime_s or 0) > 0
    assert log.readable == (not log.error)
    may = subprocess.run(["dmesg"], capture_output=True, check=False, timeout=10).returncode == 0
    assert log.readable or not may
    status, out, _ = run(ask_oom_count(os.getpid()), tmp_path, shell)
    found = parse_oom_count(out)
    assert status == 0
    assert (found is None) == (not out)
    if found is not None:  # a machine without the memory controller counts nothing
        again = parse_oom_count(run(ask_oom_count(found.group), tmp_path, shell)[1])
        assert again is not None
        assert again.group == found.group


@linux
@pytest.mark.parametrize(
    "value", ["$(touch executed)", "2/$(touch executed)", "1/a[$(touch executed)]", "2/x/../../..", "", "-n", "4194999"]
)
def test_hostile_groups_execute_nothing(value: str, tmp_path: Path) -> None:
    for shell in ("dash", "bash-as-sh"):
        status, out, _ = run(Command(OOM_COUNT, (value,)), tmp_path, shell)
        assert not (tmp_path / "executed").exists()
        assert status in {0, 2}
        assert status == 0 or not out
