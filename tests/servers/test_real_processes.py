"""Discovery over real processes by the real scripts: a stand-in that listens, logs and has renamed children."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eagletui.servers.discovery import discover
from eagletui.servers.model import Inventory, Server
from tests.requires import require
from tests.shell.sh import run

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")

STAND_IN = """
import socket, subprocess, sys
titles = ["sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"]
children = [subprocess.Popen([title, "120"], executable=sys.argv[1]) for title in titles]
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], file=sys.stderr, flush=True)
sys.stdin.read()
for child in children:
    child.kill()
for child in children:
    child.wait()
"""


@contextmanager
def stand_in(folder: Path, *, tee: bool = False) -> Iterator[tuple[int, Path]]:
    """A running stand-in: its launcher's pid and its log. It ends when its stdin does."""
    script = folder / "sglang" / "launch_server.py"
    script.parent.mkdir()
    script.write_text(STAND_IN)
    log = folder / "log of $(touch executed)"
    argv = [
        sys.executable,
        str(script),
        require("sleep"),
        "--tp",
        "2",
        "--model-path",
        "/m; touch executed",
        "--served-model-name",
        "",
    ]
    reader: subprocess.Popen[bytes] | None = None
    if tee:
        reader = subprocess.Popen(["tee", "-a", log.name], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=folder)
        assert reader.stdin is not None
        target = reader.stdin
    else:
        target = log.open("ab")
    with target:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=target, stderr=target, start_new_session=not tee)
    assert process.stdin is not None
    try:
        yield process.pid, log
    finally:
        process.stdin.close()
        process.wait(timeout=10)
        if reader is not None:
            reader.wait(timeout=10)


def find(folder: Path, shell: str) -> Inventory:
    asking = discover()
    command = next(asking)
    while True:
        try:
            command = asking.send(run(command, folder, shell)[1])
        except StopIteration as ended:
            inventory: Inventory = ended.value
            return inventory


def found_when_up(folder: Path, shell: str, pid: int) -> Server:
    for _ in range(40):
        servers = [s for s in find(folder, shell).servers if s.pid == pid and s.listening and len(s.family) >= 4]
        if servers:
            return servers[0]
    pytest.fail("the stand-in was never found listening with its children")


@pytest.mark.parametrize("shell", ["bash", "busybox"])
def test_a_running_server_is_found(shell: str, tmp_path: Path) -> None:
    with stand_in(tmp_path) as (pid, log):
        server = found_when_up(tmp_path, shell, pid)
        assert server.port == int(log.read_text())
        assert server.log.path == str(log)
        assert (server.log.via, server.log.inode) == ("fd2", log.stat().st_ino)
        assert (server.engine, server.model, server.tp) == ("sglang", "/m; touch executed", 2)
        assert server.command[-2:] == ("--served-model-name", "")
        assert server.cwd == str(Path.cwd())
        assert [(m.role, m.rank) for m in server.family] == [
            ("launcher", None),
            ("scheduler", "TP0"),
            ("scheduler", "TP1"),
            ("detokenizer", None),
        ]
        assert server.ours
        assert server.age_s is not None
        assert server.age_s < 60
        log.unlink()
        deleted = found_when_up(tmp_path, shell, pid).log
        assert (deleted.path, deleted.deleted) == (str(log), True)
    assert pid not in {s.pid for s in find(tmp_path, shell).servers}
    assert not (tmp_path / "executed").exists()


def test_a_log_behind_a_tee_is_found(tmp_path: Path) -> None:
    with stand_in(tmp_path, tee=True) as (pid, log):
        server = found_when_up(tmp_path, "sh", pid)
        assert (server.log.path, server.log.via) == (str(log), "tee")
        assert server.user is not None
        assert os.getpid() not in {m.process.pid for m in server.family}
