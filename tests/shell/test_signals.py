"""The one script that signals, with real processes: who is signalled, who is not, and that nothing else happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.shell.lock import ask_lock_release, ask_lock_take
from eagletui.shell.script import Command
from eagletui.shell.signals import SIGNAL, Sent, SignalName, ask_signal, parse_signal
from tests.requires import require
from tests.shell.sh import run
from tests.unruly import lives, started_of, wait_until

SHELLS = ("dash", "bash-as-sh", "busybox")
TOKEN = "0123456789abcdef" * 2
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip() if Path("/proc/sys").exists() else ""
pytestmark = pytest.mark.skipif(not BOOT, reason="nodes are Linux")


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A port whose lock is held with TOKEN. (No socket is bound: the number is this test process's own.)"""
    number = 1024 + os.getpid() % 60_000
    assert run(ask_lock_take((number,), TOKEN, "test", "test", "stop"), tmp_path)[0] == 0
    yield number
    assert run(ask_lock_release((number,), TOKEN), tmp_path)[0] == 0


def send(
    folder: Path, shell: str, port: int, pairs: list[tuple[int, int]], name: SignalName = "TERM", boot: str = BOOT
) -> Sent:
    status, said, _ = run(ask_signal((str(port), TOKEN), name, boot, pairs), folder, shell)
    assert status == 0
    return parse_signal(said)


COMM = "import pathlib, sys; pathlib.Path('/proc/self/comm').write_bytes(sys.argv[1].encode()); print('up', flush=True); sys.stdin.read()"
ZOMBIE_LEADER = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


@contextmanager
def started(*argv: str, says: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if says:
            assert process.stdout.readline() == b"up\n"
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_exactly_who_is_meant_is_signalled(shell: str, tmp_path: Path, port: int) -> None:
    odd = "a) S 1 (x\n9 9"
    with (
        started("sleep", "60") as meant,
        started("sleep", "60") as reused,
        started(sys.executable, "-c", COMM, odd, says=True) as named,
        started(sys.executable, "-c", COMM, "sshd", says=True) as sshd,
        started("true") as dead,
        started(sys.executable, "-c", ZOMBIE_LEADER, says=True) as leader,
    ):
        wait_until(lambda: not lives(dead.pid), "it never ended")
        wait_until(lambda: not lives(leader.pid), "its first thread never ended")
        assert Path(f"/proc/{named.pid}/comm").read_text() == odd + "\n"
        pairs = [
            (meant.pid, started_of(meant.pid)),
            (reused.pid, started_of(reused.pid) - 1),
            (named.pid, started_of(named.pid)),
            (sshd.pid, started_of(sshd.pid)),
            (dead.pid, started_of(dead.pid)),
            (leader.pid, started_of(leader.pid)),
            (2**22 + 1, 5),
            (os.getpid(), started_of(os.getpid())),
            (1, started_of(1)),
        ]
        sent = send(tmp_path, shell, port, pairs)
        assert sent.complete
        assert [fate for _, fate in sent.fates] == [
            "sent", "other", "sent", "refused", "gone", "sent", "gone", "ancestor", "refused",
        ]  # fmt: skip
        assert [pid for pid, _ in sent.fates] == [pid for pid, _ in pairs]
        assert meant.wait(10) == -15
        assert named.wait(10) == -15
        assert leader.wait(10) == -15
        assert reused.poll() is None
        assert sshd.poll() is None
        assert send(tmp_path, shell, port, [(reused.pid, started_of(reused.pid))], boot="0-0").of(reused.pid) == "other"
        assert reused.poll() is None
        assert send(tmp_path, shell, port, [(reused.pid, started_of(reused.pid))], "KILL").of(reused.pid) == "sent"
        assert reused.wait(10) == -9


def test_no_other_uid_is_signalled_by_root_and_none_of_roots_by_others(tmp_path: Path, port: int) -> None:
    require("root")
    with (
        subprocess.Popen(["sleep", "60"], user="nobody", group="nogroup", extra_groups=[]) as theirs,
        subprocess.Popen(["sleep", "60"]) as ours,
    ):
        try:
            wait_until(lambda: Path(f"/proc/{theirs.pid}").stat().st_uid != 0, "it never became another's")
            pairs = [(theirs.pid, started_of(theirs.pid)), (ours.pid, started_of(ours.pid))]
            for shell in SHELLS:
                assert send(tmp_path, shell, port, pairs[:1]).fates == ((theirs.pid, "foreign"),)
            number = port + 1 if port < 65_000 else port - 1
            as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            take, signal, release = (
                ["sh", "-c", command.script.text, "sh", *(str(a) for a in command.args)]
                for command in (
                    ask_lock_take((number,), TOKEN, "n", "n", "stop"),
                    ask_signal((str(number), TOKEN), "KILL", BOOT, [*pairs[1:], *pairs[:1]]),
                    ask_lock_release((number,), TOKEN),
                )
            )
            assert subprocess.run(take, check=False, cwd="/", **as_nobody).returncode == 0  # type: ignore[call-overload]
            done = subprocess.run(signal, check=False, cwd="/", stdout=subprocess.PIPE, **as_nobody)  # type: ignore[call-overload]
            assert parse_signal(done.stdout).fates == ((ours.pid, "foreign"), (theirs.pid, "sent"))
            assert subprocess.run(release, check=False, cwd="/", **as_nobody).returncode == 0  # type: ignore[call-overload]
            assert theirs.wait(10) == -9
            assert ours.poll() is None
        finally:
            theirs.kill()
            ours.kill()


@pytest.mark.parametrize("shell", SHELLS)
def test_with_another_token_nobody_is_signalled(shell: str, tmp_path: Path, port: int) -> None:
    with started("sleep", "60") as process:
        pair = (process.pid, started_of(process.pid))
        for ports, token in ((str(port), "f" * 32), (f"{port},9", TOKEN), ("9", TOKEN)):
            status, said, _ = run(ask_signal((ports, token), "KILL", BOOT, [pair]), tmp_path, shell)
            assert (status, said.split(b" ")[0]) == (9, b"fenced")
        assert process.poll() is None


def test_the_token_is_compared_before_each_signal(tmp_path: Path, port: int) -> None:
    """The lock changes hands while the script runs: whoever comes after that is not signalled."""
    lock = Path(f"/tmp/eagletui-lock-{port}/token")
    text = SIGNAL.text.replace('send "$name"', f'printf "%s" stolen >{lock}; send "$name"')
    assert text != SIGNAL.text
    with started("sleep", "60") as first, started("sleep", "60") as second:
        pairs = [f"{p.pid}:{started_of(p.pid)}" for p in (first, second)]
        script = type(SIGNAL)("signal", text, reads_only=False)
        status, said, _ = run(Command(script, (str(port), TOKEN, "TERM", BOOT, *pairs)), tmp_path)
        lock.write_text(TOKEN + "\n")
        assert (status, said.splitlines()[0].split()[0], said.splitlines()[1].split()[0]) == (9, b"sent", b"fenced")
        assert first.wait(10) == -15
        time.sleep(0.1)
        assert second.poll() is None


NO_PAIRS = (
    "-{pid}:{started}", "{pid}", "{pid}:", ":{started}", "0{pid}:{started}", "{pid}:{started} ", " {pid}:{started}", "{pid}\n:{started}", "0:{started}",
    "-1:{started}", "{pid}:$(touch executed)", "a[$(touch executed)]:1", "99999999999999999999:{started}", "{pid}:99999999999999999999999999",
    "{pid}:{started}:{started}", "", "$(touch executed)", "; touch executed", "+{pid}:{started}", "{pid}:+{started}", "*:*",
)  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_no_pair_signals_nobody(shell: str, tmp_path: Path, port: int) -> None:
    with started("sleep", "60") as process:
        facts = {"pid": process.pid, "started": started_of(process.pid)}
        words = [text.format(**facts) for text in NO_PAIRS]
        status, said, _ = run(Command(SIGNAL, (str(port), TOKEN, "TERM", BOOT, *words)), tmp_path, shell)
        assert status == 0
        assert {line.split()[0] for line in said.splitlines()} <= {b"refused", b"other", b"done"}
        for name in ("9", "-9", "STOP", "TERM KILL", "0", "$(touch executed)", ""):
            pair = f"{facts['pid']}:{facts['started']}"
            assert run(Command(SIGNAL, (str(port), TOKEN, name, BOOT, pair)), tmp_path, shell)[:2] == (2, b"")
        assert process.poll() is None
    assert not (tmp_path / "executed").exists()


def test_a_function_of_that_name_is_not_what_signals(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bash takes functions from its environment; a node's rc file may have exported one."""
    monkeypatch.setenv("BASH_FUNC_kill%%", "() { echo sent by a function; }")
    with started("sleep", "60") as process:
        assert send(tmp_path, "bash-as-sh", port, [(process.pid, started_of(process.pid))]).of(process.pid) == "sent"
        assert process.wait(10) == -15


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from([b"sent 12\n", b"gone 1\n", b"done\n", b"sent -1\n", b"x"])).map(b"".join)
)
def test_its_answer_is_read_whatever_comes(output: bytes) -> None:
    sent = parse_signal(output)
    assert all(pid >= 0 for pid, _ in sent.fates)
