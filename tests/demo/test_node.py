"""The simulated node over its real SSH connection: scripts, streams, HTTP, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import re
import socket
import time
from collections.abc import AsyncIterator

import asyncssh
import httpx
import pytest

from eagletui.demo.answers import GIVEN
from eagletui.demo.life import KILL
from eagletui.demo.node import DemoNode, open_demo
from eagletui.demo.server import DemoServer
from eagletui.demo.world import World
from eagletui.errors import ChannelError, ConnectError, NodeError
from eagletui.gpus.loop import LoopParser
from eagletui.gpus.model import GpuReport
from eagletui.gpus.nvidia_smi import Dialect, loop_argv
from eagletui.nodes.registry import open_node
from eagletui.shell.follow import HeadReader
from eagletui.shell.processes import parse_processes
from eagletui.shell.script import Command, Script, wire
from eagletui.shell.scripts import FOLLOW, LOOP_TOOL, POLL, PROCESSES, RUN_TOOL
from tests.demo.places import scripts

BASE = "http://127.0.0.1:30000"
COMPLETION = {"prompt": "a b c d", "max_tokens": 40, "ignore_eos": True}


@contextlib.asynccontextmanager
async def opened(speed: float = 1.0) -> AsyncIterator[DemoNode]:
    node = DemoNode(speed=speed)
    await node.connect()
    try:
        yield node
    finally:
        await node.aclose()


@contextlib.asynccontextmanager
async def client(node: DemoNode) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=node.http_transport(), base_url=BASE, timeout=10) as made:
        yield made


def log_of(node: DemoNode) -> str:
    assert node.world is not None
    log = node.world.engine.log
    return log.read(0, log.size).decode()


async def until_ready(http: httpx.AsyncClient, seconds: float = 5.0) -> list[str]:
    """What /health says until it is 200: each outcome once."""
    seen: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            outcome = str((await http.get("/health")).status_code)
        except httpx.ConnectError as error:
            outcome = str(error)
        if outcome not in seen:
            seen.append(outcome)
        if outcome == "200":
            return seen
        await asyncio.sleep(0.02)
    pytest.fail(f"not ready after {seconds} s: {seen}")


async def test_the_registry_opens_it() -> None:
    node = open_node("demo")
    assert node.name == "demo"
    unmeasured = node.latency_ms
    await node.connect()
    measured = await node.ping()
    assert 0 < measured < 2000
    assert (unmeasured, node.latency_ms) == (None, measured)
    await node.aclose()
    await node.aclose()


async def test_before_connect_it_says_so() -> None:
    node = open_demo()
    with pytest.raises(ConnectError, match="not connected"):
        await node.ping()
    with pytest.raises(ConnectError, match="not connected"):
        await node.run(Command(PROCESSES))
    await node.aclose()


def test_a_speed_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        open_demo(speed=0)


async def test_a_start_reaches_ready_by_refused_503_and_200() -> None:
    async with (
        opened(5.0) as node,
        client(node) as http,
    ):  # it stays refused for 1.3 s: a busy machine needs half of it to log in
        seen = await until_ready(http, 20.0)
        assert "refused" in seen[0]
        assert seen[1:] == ["503", "200"]
        text = log_of(node)
        assert "The server is fired up and ready to roll!" in text
        assert re.search(r'127\.0\.0\.1:\d+ - "GET /health HTTP/1\.1" 503 Service Unavailable', text)
        assert re.search(r'127\.0\.0\.1:\d+ - "GET /health HTTP/1\.1" 200 OK', text)


async def test_the_link_opens_anew_on_the_same_world() -> None:
    async with opened(20.0) as node:
        first = parse_processes((await node.run(Command(PROCESSES))).stdout)
        await node.aclose()
        with pytest.raises(NodeError):
            await node.run(Command(PROCESSES))
        await node.connect()
        await node.connect()
        second = parse_processes((await node.run(Command(PROCESSES))).stdout)
        assert first.boot_id == second.boot_id
        assert (second.uptime_s or 0) >= (first.uptime_s or 0)


# Scripts


async def test_an_unknown_script_is_127_and_a_sentence() -> None:
    async with opened() as node:
        done = await node.run(Command(Script("no-such", "true\n")))
    assert (done.exit_status, done.stdout) == (127, b"")
    assert b"no-such" in done.stderr


async def test_arguments_survive_the_way() -> None:
    async with opened() as node:
        done = await node.run(Command(RUN_TOOL, ("5", b"a b'\\\xff\n")))
    assert (done.exit_status, done.stderr) == (127, b"a b'\\\xff\n: not found\n")


@pytest.mark.parametrize("name", sorted(scripts()))
async def test_every_script_runs_at_least_without_arguments(name: str) -> None:
    async with opened() as node:
        if name in GIVEN:  # these wait for the end of stdin
            assert (await node.run(Command(scripts()[name]))).exit_status
            return
        await streams(node, name)


async def streams(node: DemoNode, name: str) -> None:
    """It says something, or ends."""
    async with node.stream(Command(scripts()[name])) as stream:
        if name == "poll":
            await stream.write(b"7 ping\n")
        said = await asyncio.wait_for(stream.read(), 5)
        assert said or stream.stderr or stream.exit_status


async def test_a_followed_log_is_the_file_byte_for_byte() -> None:
    async with opened(20.0) as node:
        assert node.world is not None
        reader, got = HeadReader(), b""
        async with node.stream(Command(FOLLOW, (node.world.log_path, "+1"))) as stream:
            end = time.monotonic() + 2.5
            while time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    got += reader.decode(await asyncio.wait_for(stream.read(), 0.3))
        assert reader.head is not None
        assert reader.head.start == 0
        assert len(got) > reader.head.size
        assert b"fired up" in got
        assert b"Decode batch" in got
        assert got.decode() == log_of(node)[: len(got.decode())]


async def test_a_missing_file_is_3() -> None:
    async with opened() as node:
        done = await node.run(Command(FOLLOW, ("/no/such", "+1")))
    assert (done.exit_status, done.stderr) == (3, b"no such file\n")


async def test_who_does_not_read_stops_the_writer() -> None:
    """A client that reads nothing gets no more than asyncssh's windows; the rest waits in the file."""
    async with opened() as node:
        assert node.world is not None
        node.world.engine.log.append(b"x" * (24 << 20))
        async with node.stream(Command(FOLLOW, (node.world.log_path, "+1"))) as stream:
            await asyncio.sleep(0.5)
            assert node._server is not None
            (connection,) = node._server._connections
            channels = list(connection._channels.values())
            assert sum(channel.get_write_buffer_size() for channel in channels) < (1 << 20)
            got = 0
            while got < (8 << 20):
                got += len(await asyncio.wait_for(stream.read(), 5))


async def test_poll_answers_and_ends_with_its_stdin() -> None:
    async with opened() as node, node.stream(Command(POLL)) as stream:
        said = b""
        for part in (b"1 pi", b"ng\n2 family 41822\n"):
            await stream.write(part)
        while not said.endswith(b"2 done\n"):
            said += await asyncio.wait_for(stream.read(), 5)
        assert re.match(rb"1 pid \d+\n1 done\n2 stat 41822 \(python3\) S 1 41822 41822 ", said)


async def test_the_loop_gives_a_round_a_second() -> None:
    async with opened() as node, node.stream(Command(LOOP_TOOL, ("900", *loop_argv(Dialect.NEW)))) as stream:
        parser = LoopParser(Dialect.NEW, known=range(8))
        reports: list[GpuReport] = []
        begin = time.monotonic()
        while len(reports) < 2:
            reports += parser.feed(await asyncio.wait_for(stream.read(), 5))
        assert 0.8 < time.monotonic() - begin < 3
    assert [gpu.index for gpu in reports[0].gpus] == list(range(8))
    assert all(gpu.state == "ok" for gpu in reports[0].gpus)


async def test_a_loop_that_ends_by_itself_says_so() -> None:
    async with opened() as node, node.stream(Command(LOOP_TOOL, ("900", "nvidia-smi", "--query-gpu=no"))) as stream:
        said = b""
        while chunk := await asyncio.wait_for(stream.read(), 5):
            said += chunk
        assert said.startswith(b"Invalid combination of input arguments")
        assert stream.exit_status == 2


# HTTP


async def test_other_ports_and_hosts_are_refused() -> None:
    async with opened(20.0) as node, client(node) as http:
        await until_ready(http)
        for url in ("http://127.0.0.1:30001/", "http://10.0.0.1:30000/"):
            with pytest.raises(httpx.ConnectError, match="refused") as caught:
                await http.get(url)
            cause: BaseException | None = caught.value
            while cause is not None and not isinstance(cause, ChannelError):
                cause = cause.__cause__
            assert isinstance(cause, ChannelError)
            assert cause.refused


async def test_every_endpoint_answers_in_its_shape() -> None:
    async with opened(20.0) as node, client(node) as http:
        await until_ready(http)
        models = (await http.get("/v1/models")).json()
        assert models["data"][0]["id"] == "/shared/kimi-k2.5-int4"
        for path in ("/server_info", "/get_server_info"):
            info = (await http.get(path)).json()
            assert (info["tp_size"], info["speculative_algorithm"], info["version"]) == (8, "EAGLE3", "0.5.16")
        for path in ("/model_info", "/get_model_info"):
            assert (await http.get(path)).json()["model_path"] == "/shared/kimi-k2.5-int4"
        assert (await http.get("/v1/loads?include=all")).json()["loads"][0]["dp_rank"] == 0
        assert (await http.get("/get_load")).json()[0]["num_waiting_reqs"] == 0
        metrics = await http.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert b"sglang:gen_throughput{" in metrics.content
        assert (await http.get("/health_generate")).status_code == 200
        assert (await http.get("/nosuch")).json() == {"detail": "Not Found"}
        assert (await http.post("/health")).status_code == 405
        assert (await http.head("/health")).status_code == 405
        assert (await http.get("/health")).status_code == 200  # after a HEAD the connection still works
        assert "Endpoint '/get_load' is deprecated" in log_of(node)


async def events(http: httpx.AsyncClient, path: str, body: dict[str, object]) -> list[dict[str, object] | str]:
    out: list[dict[str, object] | str] = []
    async with http.stream("POST", path, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line:
                said = line.removeprefix("data: ")
                out.append(said if said == "[DONE]" else json.loads(said))
    return out


async def test_a_streamed_completion_comes_at_the_engines_pace() -> None:
    async with opened(20.0) as node, client(node) as http:
        await until_ready(http)
        begin = time.monotonic()
        said = await events(
            http, "/v1/completions", {**COMPLETION, "max_tokens": 400, "stream_options": {"include_usage": True}}
        )
        seconds = (time.monotonic() - begin) * 20
        assert 400 / 82.2 < seconds < 400 / 82.2 * 8  # a busy machine is late
        *parts, usage, done = said
        assert done == "[DONE]"
        assert isinstance(usage, dict)
        assert usage["usage"] == {
            "prompt_tokens": 1,
            "total_tokens": 401,
            "completion_tokens": 400,
            "prompt_tokens_details": None,
            "reasoning_tokens": 0,
        }
        texts = [part["choices"][0]["text"] for part in parts if isinstance(part, dict)]  # type: ignore[index]
        assert len("".join(texts).split()) == 400
        assert 400 / len(texts) == pytest.approx(2.11, abs=0.3)
        last = parts[-1]
        assert isinstance(last, dict)
        assert last["choices"][0]["finish_reason"] == "length"  # type: ignore[index]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "hello there", "max_tokens": 12}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 12}),
        ("/generate", {"text": "hello", "sampling_params": {"max_new_tokens": 12}}),
        ("/generate", {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 12}}),
    ],
)
async def test_every_kind_of_request_gets_its_tokens(path: str, body: dict[str, object], stream: bool) -> None:
    async with opened(20.0) as node, client(node) as http:
        await until_ready(http)
        assert node.world is not None
        before = node.world.engine.load.totals.generated
        node.world.engine.load._events = [(1e12, 0, "decode", 0)]  # its own clients fall silent
        if stream:
            *_, last, done = await events(http, path, {**body, "stream_options": {"include_usage": True}})
            assert done == "[DONE]"
        else:
            last = (await http.post(path, json=body)).json()
        assert isinstance(last, dict)
        counted = last["meta_info"] if path == "/generate" else last["usage"]
        assert counted["completion_tokens"] == 12  # type: ignore[index]
        assert node.world.engine.load.totals.generated >= before + 12
        assert f'"POST {path} HTTP/1.1" 200 OK' in log_of(node)


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("/v1/completions", b"no json", "no JSON"),
        ("/v1/completions", b"[1]", "no JSON object"),
        ("/v1/completions", b"{}", "Field required"),
        ("/v1/completions", b'{"prompt":"x","max_tokens":-3}', "at least 0, got -3"),
        ("/v1/completions", b'{"prompt":"x","max_tokens":"y"}', "must be an integer"),
        ("/v1/chat/completions", b'{"nothing":1}', "messages"),
        ("/generate", b'{"text":"x","sampling_params":{"max_new_tokens":999999}}', "maximum context length"),
    ],
)
async def test_a_request_that_does_not_fit_is_400(path: str, content: bytes, says: str) -> None:
    async with opened(20.0) as node, client(node) as http:
        await until_ready(http)
        answer = await http.post(path, content=content)
        assert answer.status_code == 400
        assert says in answer.json()["message"]


async def test_running_streams_are_counted_and_a_client_that_hangs_up_is_gone() -> None:
    async with opened() as node:
        assert node.world is not None
        engine = node.world.engine
        engine.launched -= 20  # past the start
        engine._player.began -= 20
        async with client(node) as http:
            lines: list[AsyncIterator[str]] = []  # kept: an iterator that is dropped closes its answer
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(3):
                    body = {**COMPLETION, "max_tokens": 5000, "stream": True}
                    answer = await stack.enter_async_context(http.stream("POST", "/v1/completions", json=body))
                    lines.append(answer.aiter_lines())
                    await anext(lines[-1])
                assert len(engine.load._outside) == 3
                running = re.findall(r"sglang:num_running_reqs\{.*?\} (\S+)", (await http.get("/metrics")).text)
                assert float(running[0]) >= 3
            end = time.monotonic() + 5
            while engine.load._outside and time.monotonic() < end:
                await asyncio.sleep(0.02)
            assert engine.load._outside == []


async def test_nonsense_on_the_port_is_400_and_the_end() -> None:
    async with opened(20.0) as node:
        async with client(node) as http:
            await until_ready(http)
        assert node._node is not None
        link = await node._node.dial("127.0.0.1", 30000)
        await link.write(b"\x00\x01 nonsense\r\n\r\n")
        said = b""
        while chunk := await asyncio.wait_for(link.read(4096), 5):
            said += chunk
        assert said.startswith(b"HTTP/1.1 400 Bad Request")
        await link.aclose()


async def test_a_servers_death_closes_its_connections() -> None:
    async with opened(20.0) as node, client(node) as http:
        await until_ready(http)
        assert node.world is not None
        body = {**COMPLETION, "max_tokens": 100_000, "stream": True}
        async with http.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            node.world.signal(node._now(), node.world.engine.pid, KILL)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in lines:
                    pass
        with pytest.raises(httpx.ConnectError):
            await http.get("/health")


# What is left


async def test_closing_ends_every_task() -> None:
    before = asyncio.all_tasks()
    async with opened(20.0) as node:
        assert node.world is not None
        async with contextlib.AsyncExitStack() as stack:
            http = await stack.enter_async_context(client(node))
            await until_ready(http)
            stream = await stack.enter_async_context(node.stream(Command(FOLLOW, (node.world.log_path, "+1"))))
            await stack.enter_async_context(node.stream(Command(POLL)))
            await stack.enter_async_context(node.stream(Command(LOOP_TOOL, ("900", *loop_argv(Dialect.NEW)))))
            body = {**COMPLETION, "max_tokens": 100_000, "stream": True}
            answer = await stack.enter_async_context(http.stream("POST", "/v1/completions", json=body))
            lines = answer.aiter_lines()
            await anext(lines)
            await stream.read()
            server = node._server
            await node.aclose()  # while everything runs
        assert server is not None
        assert server._tasks == set()
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() - before == set()
    gc.collect()


async def test_an_abandoned_session_ends_with_its_client() -> None:
    async with opened(20.0) as node:
        async with node.stream(Command(POLL)) as stream:
            await stream.write(b"1 ping\n")
            await stream.read()
        end = time.monotonic() + 3
        assert node._server is not None
        while node._server._tasks and time.monotonic() < end:
            await asyncio.sleep(0.02)
        assert node._server._tasks == set()


@contextlib.asynccontextmanager
async def raw(user: str = "demo") -> AsyncIterator[asyncssh.SSHClientConnection]:
    """asyncssh's own client, for what ours never does."""
    server = DemoServer(World(opened=time.time()), time.time)
    ours, theirs = socket.socketpair()
    serving = asyncio.ensure_future(server.serve(theirs))
    try:
        async with asyncssh.connect(
            "demo", sock=ours, username=user, known_hosts=None, config=None, client_keys=None, agent_path=None
        ) as connection:
            yield connection
    finally:
        await asyncio.gather(serving, return_exceptions=True)
        await server.aclose()
        ours.close()
        theirs.close()


def line_for(size: int) -> str:
    """The command line for a script of so many bytes."""
    sent = wire(Command(POLL))
    return sent.line.replace(str(len(sent.stdin) - 2), str(size))


async def test_no_other_user_gets_in() -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        async with raw("root"):
            pass


@pytest.mark.parametrize("line", ["ls", "exec sh -c 'eval \"$(dd bs=1 count=x)\"' poll", "sh -c 'exec true' poll", ""])
async def test_any_other_command_line_is_refused(line: str) -> None:
    async with raw() as connection:
        done = await connection.run(line or None, input="", check=False)
    assert done.exit_status == 127
    assert "named scripts only" in str(done.stderr)


@pytest.mark.parametrize("stdin", [b"x", b"x" * 10, b"x" * 20 + b"2\nonly-one\n", b"x" * 20 + b"many\n"])
async def test_a_command_cut_short_is_125(stdin: bytes) -> None:
    async with raw() as connection:
        done = await connection.run(line_for(20), input=stdin, encoding=None, check=False)
    assert done.exit_status == 125


async def test_a_signal_ends_a_script() -> None:
    async with raw() as connection:
        line = line_for(1)
        async with connection.create_process(line, encoding=None) as process:
            process.stdin.write(b"x0\n")
            await process.stdout.readline()
            process.send_signal("TERM")
            await asyncio.wait_for(process.wait_closed(), 5)
        assert (await connection.run(line, input=b"x0\n", encoding=None)).exit_status == 0
