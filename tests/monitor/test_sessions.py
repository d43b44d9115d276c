"""What stands for a stream where there is no session for it: the same bytes, by commands that end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from eagletui.errors import ChannelError
from eagletui.monitor import sessions
from eagletui.monitor.poller import Poller
from eagletui.monitor.sessions import Sessions
from eagletui.nodes.base import Completed, Stream
from eagletui.nodes.local import LocalNode
from eagletui.shell.follow import HeadReader, follow_from, follow_last
from eagletui.shell.keeper import ask_keeper_state
from eagletui.shell.poll import start_poll
from eagletui.shell.processes import ask_processes
from eagletui.shell.records import ask_records
from eagletui.shell.script import Command, Script
from eagletui.shell.scripts import KEPT_LOG, LOOP_TOOL, RUN_TOOL
from tests.requires import require


class FewNode(LocalNode):
    """Takes so many sessions at a time, as an sshd with MaxSessions."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.open = 0
        self.refused = 0

    def _enter(self) -> None:
        if self.open >= self.most:
            self.refused += 1
            raise ChannelError("refused one more session", full=True)
        self.open += 1

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:
        self._enter()
        try:
            return await super().run(command, timeout=timeout, limit=limit)
        finally:
            self.open -= 1

    def stream(self, command: Command) -> contextlib.AbstractAsyncContextManager[Stream]:
        @contextlib.asynccontextmanager
        async def entered() -> AsyncIterator[Stream]:
            self._enter()
            try:
                async with LocalNode.stream(self, command) as stream:
                    yield stream
            finally:
                self.open -= 1

        return entered()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    require("procfs")
    for kind in (sessions._Polled, sessions._Ranges, sessions._Calls):
        monkeypatch.setattr(kind, "every_s", 0.05)
    monkeypatch.setattr(sessions, "LINGER_S", 0.05)
    monkeypatch.setattr(sessions, "LINGER_ALONE_S", 0.1)
    monkeypatch.setattr(sessions, "RETRY_S", 0.02)


def sleep(seconds: float) -> Command:
    return Command(RUN_TOOL, ("9", "sh", "-c", f"sleep {seconds}; echo done"))


LOOP = Command(LOOP_TOOL, ("900", "sh", "-c", 'echo "$1"; [ $# -eq 1 ] || exec sleep 60', "sh", "row", "-l", "1"))


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_commands_wait_for_each_other(most: int) -> None:
    node = FewNode(most)
    few = Sessions(node)
    async with asyncio.timeout(20):
        done = await asyncio.gather(*(few.run(sleep(0.05)) for _ in range(8)))
    assert [one.stdout for one in done] == [b"done\n"] * 8
    assert few.limit == most
    assert node.refused < 12
    assert few.note is None  # nothing is asked less often


async def test_what_restarts_a_server_comes_before_what_only_looks() -> None:
    node = FewNode(1)
    few = Sessions(node)
    few.limit = 1
    order: list[str] = []

    async def run(command: Command) -> None:
        await few.run(command)
        order.append(command.script.name)

    slow = asyncio.create_task(few.run(Command(RUN_TOOL, ("5", "sleep", "0.3"))))
    await asyncio.sleep(0.05)
    acts = Command(Script("acts", "exit 0\n", reads_only=False))
    await asyncio.gather(slow, run(ask_processes()), run(ask_records()), run(ask_keeper_state("none")), run(acts))
    assert sorted(order[:2]) == ["acts", "keeper-state"]
    assert node.refused == 0


async def test_no_session_at_all_is_the_nodes_own_sentence() -> None:
    with pytest.raises(ChannelError, match="refused one more session"):
        await Sessions(FewNode(0)).run(sleep(0))


@pytest.mark.parametrize(
    ("most", "told"),
    [(1, ("processes", "log", "GPUs")), (2, ("log", "GPUs")), (3, ("GPUs",)), (4, ())],
)
async def test_the_streams_of_most_worth_get_the_sessions(most: int, told: tuple[str, ...], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x\n")
    few = Sessions(FewNode(most))
    few.limit = most
    async with AsyncExitStack() as stack, asyncio.timeout(20):
        for command in (start_poll(), follow_from(str(log), 0), LOOP):
            await stack.enter_async_context(few.stream(command))
        assert (await few.run(sleep(0))).stdout == b"done\n"
        note = few.note or ""
        assert (few.note is None) == (most == 4)
        assert [word for word in ("processes", "log", "GPUs") if word in note] == list(told)
        assert "Raise MaxSessions in its sshd_config" in note or most == 4


async def test_a_lesser_stream_gives_way() -> None:
    few = Sessions(FewNode(2))
    few.limit = 2

    async def loop_for_ever() -> None:
        async with few.stream(LOOP) as loop:
            while await loop.read():
                pass
            await asyncio.sleep(60)

    async with asyncio.timeout(20):
        looping = asyncio.create_task(loop_for_ever())
        while not few._held:
            await asyncio.sleep(0.01)
        async with few.stream(start_poll()) as stream:
            with pytest.raises(ChannelError, match="MaxSessions"):
                await looping
            await stream.write(b"1 ping\n")
            assert await stream.read()
            assert (await few.run(sleep(0))).stdout == b"done\n"
            async with few.stream(LOOP) as loop:
                assert await loop.read() == b"row\n"


async def test_what_cannot_be_done_by_commands_is_told() -> None:
    few = Sessions(FewNode(1))
    few.limit = 1
    with pytest.raises(ChannelError, match=r"allows 1 at a time\. Raise MaxSessions"):
        async with few.stream(Command(KEPT_LOG, ("docker", "x", "", "900"))):
            pass
    assert few.note is None


async def test_polling_by_commands() -> None:
    few = Sessions(FewNode(1))
    few.limit = 1
    async with asyncio.timeout(20), few.stream(start_poll()) as stream:
        poller = Poller(stream)
        reading = asyncio.create_task(poller.read_answers())
        me = os.getpid()
        assert await poller.shell()
        everyone = await poller.all()
        assert me in (everyone.pids or ())
        assert [row.pid for row in (await poller.family([me, 2**22 + 1])).rows] == [me]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


@pytest.fixture
async def following(tmp_path: Path) -> AsyncIterator[tuple[Path, Stream, HeadReader]]:
    log = tmp_path / "-log $(touch executed)"
    log.write_bytes(b"0123456789\n")
    few = Sessions(FewNode(1))
    few.limit = 1
    async with few.stream(follow_last(str(log), 4)) as stream:
        head = HeadReader()
        assert head.decode(await stream.read()) == b"789\n"
        assert head.head is not None
        assert (head.head.start, head.head.size, head.head.inode) == (7, 11, log.stat().st_ino)
        yield log, stream, head


async def test_following_by_commands(following: tuple[Path, Stream, HeadReader]) -> None:
    log, stream, _ = following
    with log.open("ab") as file:
        file.write(b"\x00\xffmore\n")
    async with asyncio.timeout(10):
        assert await stream.read(3) == b"\x00\xffm"
        assert await stream.read() == b"ore\n"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.read(), 0.3)
        with log.open("ab") as file:
            file.write(b"x" * 3_000_000)
        got = b""
        while len(got) < 3_000_000:
            got += await stream.read()
        assert got == b"x" * 3_000_000


@pytest.mark.parametrize("how", ["replaced", "cut", "gone"])
async def test_following_ends_with_the_file(following: tuple[Path, Stream, HeadReader], how: str) -> None:
    log, stream, _ = following
    if how == "replaced":
        other = log.with_name("other")
        other.write_bytes(b"another file that is longer\n")
        other.rename(log)
    elif how == "cut":
        os.truncate(log, 2)
    else:
        log.unlink()
    async with asyncio.timeout(10):
        assert await stream.read() == b""
    assert stream.exit_status == (3 if how == "gone" else 0)


async def test_a_tool_again_and_again() -> None:
    few = Sessions(FewNode(1))
    few.limit = 1
    async with asyncio.timeout(20):
        async with few.stream(LOOP) as stream:
            assert [await stream.read() for _ in range(3)] == [b"row\n"] * 3
        async with few.stream(Command(LOOP_TOOL, ("900", "no-such-tool"))) as stream:
            assert await stream.read() == b""
            assert stream.exit_status == 127
            assert b"not found" in stream.stderr
    assert few.note is None
