"""Logs of every form, written by a real process and followed by the monitor: two files, tees, renamed, deleted, cut, late, replaced, none."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.monitor import monitor as monitor_module
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.log_tail import read_tail
from eagletui.monitor.log_watch import LogWatch
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.snapshot import Snapshot
from eagletui.nodes.local import LocalNode
from eagletui.servers.model import LogSource
from tests.requires import require
from tests.watching import running, texts, until

SERVER = """
import itertools, os, sys, time
for n in itertools.count():
    os.write(2, f"err {n}\\n".encode())
    os.write(1, f"out {n}\\n".encode())
    time.sleep(0.01)
"""


@asynccontextmanager
async def followed(folder: Path, shell_line: str, log: Path | None = None) -> AsyncIterator[NodeMonitor]:
    """A server that prints numbered lines, started by a line of shell in which $SERVER is its command; and who watches it."""
    require("procfs")
    script = folder / "sglang" / "launch_server.py"
    script.parent.mkdir()
    script.write_text(SERVER)
    command = f"{sys.executable} {script} --port 1"
    process = subprocess.Popen(
        ["bash", "-c", shell_line.replace("$SERVER", command)], cwd=folder, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    monitor = NodeMonitor(_Only(str(script)), log_path=None if log is None else str(log))
    try:
        async with running(monitor):
            yield monitor
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


class _Only(LocalNode):
    """This machine, for one server of it (tests run beside others)."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self.mark = mark


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "LOOK_AT_LOG_S", 0.2)


async def chosen(monitor: NodeMonitor) -> Snapshot:
    """Until the server of this test is the one on the screen."""
    mark = monitor._node._node.mark  # type: ignore[attr-defined]

    def ours(snapshot: Snapshot) -> bool:
        for server in snapshot.inventory.servers:
            if mark in server.command:
                if snapshot.server is None or snapshot.server.id != server.id:
                    monitor.select_server(server.id)
                return snapshot.server is not None and snapshot.server.id == server.id
        return False

    return await until(monitor, ours)


def numbers(snapshot: Snapshot, word: str) -> list[int]:
    return [int(found[1]) for text in texts(snapshot) if (found := re.fullmatch(rf"{word} (\d+)", text))]


def is_whole(found: list[int]) -> bool:
    """Every number once, in order."""
    return found == list(range(found[0], found[0] + len(found))) if found else False


def beyond(word: str, number: int) -> Callable[[Snapshot], bool]:
    return lambda snapshot: numbers(snapshot, word)[-1:] > [number]


async def test_output_and_errors_in_two_files_are_merged(tmp_path: Path) -> None:
    async with followed(tmp_path, "exec $SERVER >out.log 2>err.log") as monitor:
        await chosen(monitor)
        await until(monitor, beyond("out", 100))
        snapshot = await until(monitor, beyond("err", 100))
        assert is_whole(numbers(snapshot, "err"))
        assert is_whole(numbers(snapshot, "out"))
        behind = [
            abs(a - b) for a, b in zip(numbers(snapshot, "err")[-20:], numbers(snapshot, "out")[-20:], strict=True)
        ]
        assert max(behind) < 50  # by arrival: neither waits for the other


@pytest.mark.parametrize(
    "line",
    [
        "mkdir sub; cd sub; $SERVER 2>&1 | tee -a ../a.log b.log >/dev/null",
        "$SERVER 2>&1 | grep -v --line-buffered nothing > a.log",
        "$SERVER 2>&1 | cat | tee a.log >/dev/null",
    ],
)
async def test_a_log_behind_pipes(tmp_path: Path, line: str) -> None:
    async with followed(tmp_path, line) as monitor:
        await chosen(monitor)
        snapshot = await until(monitor, beyond("out", 100))
        assert snapshot.log.path == str(tmp_path / "a.log")
        assert is_whole(numbers(snapshot, "err"))


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("way", ["renamed", "deleted", "rotated"])
async def test_a_log_that_loses_its_name_is_followed_on(tmp_path: Path, way: str, piped: bool) -> None:
    log = tmp_path / "a.log"
    line = "$SERVER 2>&1 | tee a.log >/dev/null" if piped else "exec $SERVER >a.log 2>&1"
    async with followed(tmp_path, line) as monitor:
        await chosen(monitor)
        await until(monitor, beyond("out", 50))
        if way == "deleted":
            log.unlink()
        else:
            log.rename(tmp_path / "a.log.1")
        if way == "rotated":
            log.touch()
        at = numbers(monitor.snapshot(), "out")[-1]
        snapshot = await until(monitor, lambda s: any("followed on" in text for text in texts(s)))
        snapshot = await until(monitor, beyond("out", at + 100))
        assert is_whole(numbers(snapshot, "out"))
        (marker,) = [text for text in texts(snapshot) if "followed on" in text]
        now = "is another file now" if way == "rotated" else "has lost its name"
        assert marker == f"{log} {now}; the file that was open is followed on"


@pytest.mark.parametrize("redirect", [">>", ">"])
async def test_a_log_that_is_cut_under_its_writer(tmp_path: Path, redirect: str) -> None:
    """Twice, as logrotate's copytruncate and `: > log` do. A writer that does not append leaves a hole of NULs."""
    log = tmp_path / "a.log"
    async with followed(tmp_path, f"exec $SERVER {redirect}a.log 2>&1") as monitor:
        await chosen(monitor)
        for times in (1, 2):
            at = (numbers(monitor.snapshot(), "out") or [0])[-1]
            await until(monitor, beyond("out", at + 50))
            os.truncate(log, 0)
            if redirect == ">>":
                # Without a pause the next line may hide the cut from a reader that goes by the size.
                await until(monitor, lambda s, n=times: sum("was cut" in t for t in texts(s)) >= n)  # type: ignore[misc]
            at = numbers(monitor.snapshot(), "out")[-1]
            snapshot = await until(monitor, beyond("out", at + 50))
        for word in ("out", "err"):
            found = numbers(snapshot, word)
            assert found == sorted(set(found)), "a line came twice, or out of order"
            lost = found[-1] - found[0] + 1 - len(found)
            assert lost <= 40  # what was written within a look of each cut


async def test_a_log_that_appears_later_and_is_replaced(tmp_path: Path) -> None:
    log = tmp_path / "named.log"
    async with followed(tmp_path, "exec $SERVER >/dev/null 2>&1", log) as monitor:
        await chosen(monitor)
        snapshot = await until(monitor, lambda s: s.log.error is not None)
        assert snapshot.log.error == f"There is no log at {log}. It is looked for again; --log PATH names another."
        log.write_text("first\n")
        snapshot = await until(monitor, lambda s: "first" in texts(s))
        assert snapshot.log.error is None
        assert texts(snapshot) == [f"{log} is there now; following it", "first"]
        log.rename(tmp_path / "named.log.1")
        log.write_text("second\n")
        snapshot = await until(monitor, lambda s: "second" in texts(s))
        assert texts(snapshot)[2:] == [f"{log} was replaced; following the new file", "second"]
        with log.open("a") as more:
            more.write("third\n")
        await until(monitor, lambda s: "third" in texts(s))


async def test_output_that_nobody_keeps_says_so(tmp_path: Path) -> None:
    async with followed(tmp_path, "exec $SERVER >/dev/null 2>&1") as monitor:
        await chosen(monitor)
        snapshot = await until(monitor, lambda s: s.log.error is not None)
        assert snapshot.log.error is not None
        assert "/dev/null" in snapshot.log.error


async def test_output_on_a_terminal_says_so(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    name = os.ttyname(theirs)
    try:
        async with followed(tmp_path, f"exec $SERVER >{name} 2>&1") as monitor:
            asyncio.get_running_loop().add_reader(ours, lambda: os.read(ours, 65536))
            await chosen(monitor)
            snapshot = await until(monitor, lambda s: s.log.error is not None)
            assert snapshot.log.error is not None
            assert f"a terminal ({name})" in snapshot.log.error
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        os.close(theirs)


DOCKER = """#!{python}
# docker logs --follow --timestamps NAME [--since TIME | --tail N]: its lines are those of a file, a time each three.
import sys, time
since = sys.argv[sys.argv.index("--since") + 1] if "--since" in sys.argv else ""
with open("{log}") as log:
    while True:
        line = log.readline()
        if line.endswith("\\n"):
            if line.split(" ", 1)[0] >= since:
                print(line, end="", flush=True)
        elif line:
            log.seek(log.tell() - len(line))
        else:
            time.sleep(0.02)
"""


async def test_a_containers_log_goes_on_after_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, log = tmp_path / "programs", tmp_path / "kept"
    programs.mkdir()
    log.touch()
    (programs / "docker").write_text(DOCKER.format(python=sys.executable, log=log))
    (programs / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    async with followed(tmp_path, "exec $SERVER >/dev/null 2>&1") as monitor:
        server = (await chosen(monitor)).server
    assert server is not None
    kept = replace(server, log=LogSource(None, pid=server.pid, why="in a container", keeper="docker 4f3c"))
    nothing: Callable[..., None] = lambda *_: None  # noqa: E731 - three of them
    node, keeper = LocalNode(), Keeper()
    keeper.began(os.getpid())
    watch = LogWatch(
        node,
        kept,
        keeper=keeper,
        skew_s=0.0,
        on_batch=nothing,
        on_ready=nothing,
        on_caught_up=nothing,
        on_change=nothing,
    )
    written = 0
    for _ in range(6):
        task = asyncio.create_task(watch.run())
        for _ in range(40):
            with log.open("a") as file:
                file.write(f"2026-11-30T00:{written // 180:02}:{written // 3 % 60:02}Z out {written}\n")
            written += 1
            await asyncio.sleep(0.01)
        task.cancel()  # the link breaks
        await asyncio.gather(task, return_exceptions=True)
    task = asyncio.create_task(watch.run())
    end = asyncio.get_running_loop().time() + 10
    while watch.store.end < written and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await node.aclose()
    shown = [line.text for n in range(watch.store.first, watch.store.end) if (line := watch.store.line(n)) is not None]
    assert shown == [f"out {n}" for n in range(written)]
    assert watch.view().path == "container 4f3c"
    with log.open("a") as file:
        file.write("2026-11-30T00:09:00Z [2026-11-30 00:09:00] server_args=ServerArgs(model_path='/m', tp_size=1)\n")
    node = LocalNode()
    tail = await read_tail(node, kept.log, "sglang", 0.0)
    await node.aclose()
    assert tail is not None
    assert (tail.state.state, tail.state.args["model_path"], tail.error) == ("starting", "/m", None)
