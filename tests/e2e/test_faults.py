"""What breaks on a real node, and how the monitor bears it: each fault is told in a sentence, and what ends is gone on with."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eagletui.errors import ChannelError
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.snapshot import Snapshot
from eagletui.nodes.channels import SshPipes
from eagletui.nodes.ssh import SshNode
from eagletui.servers.model import State
from tests.cli.command import run
from tests.engine import engine_of_user
from tests.gpus.stand_ins import DATA, build
from tests.requires import require
from tests.sshd import Sshd, children_of, start_sshd


class CountingNode(SshNode):
    """Counts the sessions that its sshd refused."""

    refused = 0

    async def _open_pipes(self, line: str) -> SshPipes:
        try:
            return await super()._open_pipes(line)
        except ChannelError:
            self.refused += 1
            raise


def home_of(sshd: Sshd, shell: str = "bash") -> Path:
    return Path(pwd.getpwnam(sshd.user(shell)).pw_dir)


@pytest.fixture(autouse=True)
def needs() -> None:
    require("procfs")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3, for a user that may not see ours")


@asynccontextmanager
async def watching(sshd: Sshd, port: int | None, node: SshNode | None = None) -> AsyncIterator[NodeMonitor]:
    node = node or SshNode(sshd.target("bash"), config_file=sshd.config)
    monitor = NodeMonitor(node, port=port)
    task = asyncio.create_task(monitor.run())
    try:
        yield monitor
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await monitor.aclose()


async def until(monitor: NodeMonitor, what: Callable[[Snapshot], object], seconds: float = 30.0) -> Snapshot:
    """The first snapshot that is so. No note may speak of an error of our own meanwhile, and the event loop may not stand still."""
    end = time.monotonic() + seconds
    while not what(snapshot := monitor.snapshot()):
        assert not [note for note in snapshot.notes if "eagletui itself" in note]
        if time.monotonic() > end:
            pytest.fail(
                f"not within {seconds} s; last: {snapshot.link.state} {snapshot.link.error} {snapshot.verdict} {snapshot.health} "
                f"{snapshot.log.error} {snapshot.startup.state} {snapshot.family_alive} {snapshot.notes}"
            )
        began = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - began < 5
    return snapshot


def texts(snapshot: Snapshot) -> list[str]:
    store = snapshot.log.store
    return [line.text for n in range(store.first, store.end) if (line := store.line(n)) is not None]


def ready(snapshot: Snapshot) -> bool:
    return snapshot.verdict.state is State.READY and snapshot.family_alive == 4 and snapshot.health.status == 200


def note_of(snapshot: Snapshot, word: str) -> str:
    return next((note for note in snapshot.notes if word in note), "")


# Few sessions


@pytest.mark.parametrize("sessions", [1, 2, 3])
async def test_few_sessions(sessions: int, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """Everything is seen, less often where there is no session for it, and a note says so."""
    tools = build(open_folder / "tools", (DATA / "cases/02-healthy-one-gpu-idle/gpus.txt").read_text())
    options = (f"MaxSessions {sessions}", f"SetEnv PATH={tools}:/usr/bin:/bin")
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, _),
    ):
        node = CountingNode(sshd.target("bash"), config_file=sshd.config)
        async with watching(sshd, port, node) as monitor:
            await until(monitor, lambda s: ready(s) and s.log.following and s.throughput.source == "log", 60)
            snapshot = await until(monitor, lambda s: note_of(s, "the GPUs are asked every 5 s"), 60)
            note = note_of(snapshot, "the GPUs are asked every 5 s")
            assert "Raise MaxSessions in its sshd_config" in note
            assert ("one session at a time" in note) == (sessions == 1)
            assert ("processes are looked at every 2 s" in note) == (sessions == 1)
            assert ("the log is read every 1 s" in note) == (sessions < 3)
            refused, lines = node.refused, snapshot.log.store.end
            asked = snapshot.gpus.at or 0.0
            await until(monitor, lambda s: s.log.store.end >= lines + 5 and (s.gpus.at or 0) > asked)
            os.kill(rank_of(port), signal.SIGKILL)
            snapshot = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 15)
            assert snapshot.link.state == "up"
            assert len(snapshot.gpus.report.gpus) == 1
            await asyncio.sleep(2)
        print("REFUSED", refused, node.refused)
        assert 0 < refused < 40
        assert node.refused - refused <= 10, "refused sessions are tried again and again"


def rank_of(port: int) -> int:
    """The second rank of the stand-in that listens there."""
    launcher = next(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (words := read(path).split(b"\0"))[-3:-1] == [b"--tp", b"2"] and str(port).encode() in words
    )
    return next(pid for pid in children_of(launcher) if b"TP1" in read(Path(f"/proc/{pid}/cmdline")))


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("sessions", [1, 2])
def test_status_with_few_sessions(
    sessions: int, tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    with (
        start_sshd(open_folder, sshd_users, ssh_key, (f"MaxSessions {sessions}",)) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, log),
    ):
        done = run(tmp_path, "status", sshd.target("bash"), "-F", str(sshd.config), "--json", "--port", str(port))
    assert done.returncode in (0, 10), done.stderr
    server = json.loads(done.stdout)["servers"][0]
    assert (server["port"], server["log"]) == (port, str(log))
    assert server["health"]["status"] in (200, 503)
