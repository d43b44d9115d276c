"""This machine as a node."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import httpx
import pytest

from eagletui.errors import CommandTimeout, LinkLostError, ShellError
from eagletui.nodes.http import channel_error
from eagletui.nodes.local import LocalNode
from eagletui.nodes.registry import open_node
from eagletui.shell.script import Command, Script
from eagletui.shell.scripts import FOLLOW, LOOP_TOOL, POLL, RUN_TOOL
from tests.sshd import free_port, processes_with

CAT = Script("cat", "cat\n")
SAY = Script("say", 'printf \'%s\' "$1"; printf \'%s\' "$2" >&2; exit "$3"\n')


async def gone(argument: str, seconds: float = 3.0) -> bool:
    until = time.monotonic() + seconds
    while processes_with(argument):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.05)
    return True


async def test_run() -> None:
    done = await LocalNode().run(Command(SAY, ("out", "err", "3")))
    assert (done.stdout, done.stderr, done.exit_status) == (b"out", b"err", 3)


async def test_data_and_limit() -> None:
    data = bytes(range(256)) * 20000
    assert (await LocalNode().run(Command(CAT, data=data))).stdout == data
    assert (await LocalNode().run(Command(CAT, data=data), limit=1000)).stdout == data[:1000]


async def test_a_command_that_reads_nothing_ends_all_the_same() -> None:
    done = await LocalNode().run(Command(SAY, ("x", "", "0"), data=b"y" * 5_000_000))
    assert (done.stdout, done.exit_status) == (b"x", 0)


async def test_a_signal_is_no_exit_status() -> None:
    assert (await LocalNode().run(Command(Script("die", "kill -9 $$\n")))).exit_status is None


async def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    hang = Script("hang", 'sh -c \'trap "" TERM HUP; while :; do sleep 0.2; done\' "$1"\n')
    with pytest.raises(CommandTimeout, match="hang on local"):
        await LocalNode().run(Command(hang, (mark,)), timeout=0.3)
    assert await gone(mark)


async def test_what_a_finished_command_leaves_behind_lives_on(tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    leave = Script("leave", "setsid sh -c 'sleep 2; :' \"$1\" </dev/null >/dev/null 2>&1 &\n")
    await LocalNode().run(Command(leave, (mark,)))
    assert processes_with(mark)
    assert await gone(mark, 4)


async def test_stream() -> None:
    async with LocalNode().stream(Command(POLL)) as stream:
        await stream.write(b"7 ping\n")
        assert re.fullmatch(rb"7 pid \d+\n(7 done\n)?", await stream.read())
        assert stream.exit_status is None


async def test_a_stream_ends_with_its_status() -> None:
    async with LocalNode().stream(Command(FOLLOW, ("/nonexistent", "+1"))) as stream:
        assert await stream.read() == b""
        await asyncio.sleep(0.1)
        assert stream.stderr == b"no such file\n"
        assert stream.exit_status == 3
        with pytest.raises(LinkLostError, match="has ended"):
            await stream.write(b"x" * 1_000_000)


async def test_closing_a_stream_ends_its_processes(tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    loop = Command(LOOP_TOOL, ("900", "sh", "-c", "while sleep 0.1; do echo x; done", mark))
    async with LocalNode().stream(loop) as stream:
        assert await stream.read() == b"x\n"
    assert await gone(mark)


async def test_closing_ends_a_tool_that_is_silent(tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    quiet = Command(LOOP_TOOL, ("900", "sh", "-c", "echo up; sleep 60; :", mark))
    node = LocalNode()
    async with node.stream(quiet) as stream:
        assert await stream.read() == b"up\n"
        await node.aclose()
        assert await gone(mark)


async def test_not_reading_stops_the_writer(tmp_path: Path) -> None:
    count = tmp_path / "count"
    flood = Script("flood", 'while :; do head -c 65536 /dev/zero; echo >>"$1"; done\n')
    async with LocalNode().stream(Command(flood, (str(count),))) as stream:
        assert await stream.read()
        await asyncio.sleep(0.7)
        before = count.stat().st_size
        await asyncio.sleep(0.5)
        assert count.stat().st_size == before < 40
        for _ in range(100):
            await stream.read()
        await asyncio.sleep(0.2)
        assert count.stat().st_size > before


async def test_no_sh_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShellError, match="cannot start sh"):
        await LocalNode().run(Command(CAT))


async def test_a_broken_sh_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sh").write_text("#!/bin/sh\necho go away\nexit 9\n")
    (tmp_path / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShellError, match=r"exit status 9.*go away"):
        await LocalNode().run(Command(CAT, data=b"x" * 1_000_000))


async def test_the_users_path_is_asked_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    (tmp_path / "nvidia-smi").write_text('#!/bin/sh\necho stand-in "$@"\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = await LocalNode().run(Command(RUN_TOOL, ("5", "nvidia-smi", "-L")))
    assert done.stdout == b"stand-in -L\n"


async def test_latency_is_not_measured() -> None:
    node = open_node("local")
    await node.connect()
    await node.ping()
    assert node.latency_ms is None
    await node.aclose()


async def test_http() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    node = LocalNode()
    async with server, httpx.AsyncClient(transport=node.http_transport()) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/health")).text == "ok"
        with pytest.raises(httpx.ConnectError) as caught:
            await client.get(f"http://127.0.0.1:{free_port()}/health")
        error = channel_error(caught.value)
        assert error is not None
        assert error.refused
        assert not error.forbidden
    await node.aclose()


async def test_closing_the_node_while_a_stream_waits() -> None:
    node = LocalNode()
    async with node.stream(Command(POLL)) as stream:
        await stream.write(b"1 ping\n")
        said = b""
        while not said.endswith(b"1 done\n"):
            said += await stream.read()
        waiting = asyncio.create_task(stream.read())
        await asyncio.sleep(0.05)
        await node.aclose()
        assert await asyncio.wait_for(waiting, 3) == b""


async def test_cancelling_a_run_ends_it(tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    run = asyncio.create_task(LocalNode().run(Command(Script("nap", "sh -c 'sleep 60; :' \"$1\"\n"), (mark,))))
    await asyncio.sleep(0.3)
    assert processes_with(mark)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await gone(mark)
