"""Who listens on a port, and what a process that does not end waits for: the scripts `listeners` and `waits` over real sockets and processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.shell.listeners import LISTENERS, PortHolder, ask_listeners, parse_listeners
from eagletui.shell.script import Command
from eagletui.shell.waits import ask_waits, parse_waits
from tests.shell.sh import run
from tests.sshd import free_port
from tests.unruly import wait_until

SHELLS = ("dash", "bash-as-sh", "busybox")
pytestmark = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="nodes are Linux")


@pytest.mark.parametrize("shell", SHELLS)
def test_who_listens_is_told_and_who_is_only_connected_is_not(shell: str, tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket(socket.AF_INET6) as six, socket.socket() as client:
        one.bind(("127.0.0.1", 0))
        six.bind(("::1", 0))
        for listener in (one, six):
            listener.listen()
        client.connect(one.getsockname())
        ports = [one.getsockname()[1], six.getsockname()[1], client.getsockname()[1], free_port()]
        inodes = [os.fstat(listener.fileno()).st_ino for listener in (one, six)]
        status, said, _ = run(ask_listeners((*ports, 0)), tmp_path, shell)
        found = parse_listeners(said)
        assert (status, found.complete) == (0, True)
        assert set(found.holders) == {
            PortHolder(port, os.getuid(), inode, os.getpid()) for port, inode in zip(ports[:2], inodes, strict=True)
        }
    assert run(Command(LISTENERS, ("a[$(touch executed)]",)), tmp_path, shell)[0] == 2
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_process_waits_for_is_told(shell: str, tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            wait_until(lambda: " T " in Path(f"/proc/{process.pid}/stat").read_text(), "it never stopped")
            status, said, _ = run(ask_waits((process.pid, 2**22 + 1)), tmp_path, shell)
        finally:
            process.kill()
    assert status == 0
    assert [(one.pid, one.state) for one in parse_waits(said)] == [(process.pid, "T")]


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [b"listen 1 tcp 0 0 5 -\n", b"listen 1 tcp 0 0 5 7\n", b"wait 1 D 61 -\n", b"wait x D 6 -\n", b"done\n"]
        )
    ).map(b"".join)
)
def test_answers_are_read_whatever_comes(output: bytes) -> None:
    parse_listeners(output)
    parse_waits(output)
