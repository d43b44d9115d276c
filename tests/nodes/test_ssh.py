"""Commands, streams and the link over a real sshd, under login shells with noisy rc files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eagletui.errors import ChannelError, CommandTimeout, LinkLostError, ShellError
from eagletui.nodes.base import Completed, Stream
from eagletui.nodes.registry import open_node
from eagletui.nodes.ssh import SESSIONS, SshNode
from eagletui.shell.follow import follow_from
from eagletui.shell.script import Command, Script
from eagletui.shell.scripts import FOLLOW, LOOP_TOOL, POLL, PROCESSES, RUN_TOOL, SCRIPTS
from tests.requires import require
from tests.sshd import SHELLS, Sshd, processes_with, start_sshd

CAT = Script("cat", "cat\n")
ECHO = Script("echo", "for a; do printf '%s|' \"$a\"; done\n")


@contextlib.asynccontextmanager
async def connected(server: Sshd, shell: str = "bash") -> AsyncIterator[SshNode]:
    node = SshNode(server.target(shell), config_file=server.config)
    await node.connect()
    try:
        yield node
    finally:
        await node.aclose()


@pytest.fixture
async def node(sshd_server: Sshd) -> AsyncIterator[SshNode]:
    async with connected(sshd_server) as node:
        yield node


async def gone(argument: str, seconds: float = 3.0) -> bool:
    until = time.monotonic() + seconds
    while processes_with(argument):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.05)
    return True


async def first(node: SshNode, command: Command, send: bytes = b"") -> Completed:
    """What a stream says within a moment, as if it had ended then."""
    said = b""
    async with node.stream(command) as stream:
        if send:
            await stream.write(send)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while b"\n" not in said and (chunk := await stream.read()):
                    said += chunk
        return Completed(stream.exit_status, said, stream.stderr)


@pytest.mark.parametrize("shell", SHELLS)
async def test_every_script_under_every_login_shell(sshd_server: Sshd, shell: str, open_folder: Path) -> None:
    require(shell)
    log = open_folder / "log"
    log.write_bytes(b"one\nserver_args=x\n\xff\x00three\n")
    path, me = str(log), str(os.getpid())
    async with connected(sshd_server, shell) as node:
        done = {
            "processes": await node.run(Command(PROCESSES)),
            "details": await node.run(Command(SCRIPTS["details"], (me,))),
            "poll": await first(node, Command(POLL), b"5 family " + me.encode() + b"\n"),
            "follow": await first(node, Command(FOLLOW, (path, "+5"))),
            "read-range": await node.run(Command(SCRIPTS["read-range"], (path, "4", "11"))),
            "launch-offset": await node.run(Command(SCRIPTS["launch-offset"], (path, "0", "1000"))),
            "measure": await node.run(Command(SCRIPTS["measure"], (path,))),
            "run-tool": await node.run(Command(RUN_TOOL, ("5", "sh", "-c", "echo out; exit 7"))),
            "kept-log": await node.run(Command(SCRIPTS["kept-log"], ("nobody", "x", "", "5"))),
            "http-get": await node.run(Command(SCRIPTS["http-get"], ("127.0.0.1", "1", "/", "5"))),
            "loop-tool": await first(
                node, Command(LOOP_TOOL, ("900", "sh", "-c", "while echo up; do sleep 0.1; done"))
            ),
            "kernel-log": await node.run(Command(SCRIPTS["kernel-log"])),
            "oom-count": await node.run(Command(SCRIPTS["oom-count"], (me,))),
        }
    assert done.keys() == SCRIPTS.keys()
    assert done["processes"].stdout.startswith(b"@sys\n")
    assert b"/proc/" + me.encode() + b"/cmdline\0" in done["processes"].stdout
    assert b"\npid " + me.encode() + b"\nargv " in b"\n" + done["details"].stdout
    assert done["details"].stdout.endswith(b"done\n")
    assert done["poll"].stdout.startswith(b"5 stat " + me.encode() + b" (")
    assert done["follow"].stdout.startswith(b"file ")
    assert re.fullmatch(rb"file \d+ \d+ 26 \d+ 4 [1-9]\d*\n", done["follow"].stdout.splitlines(keepends=True)[0])
    assert re.fullmatch(rb"file \d+ \d+ 26 \d+ 0 0\n", done["measure"].stdout)
    assert done["read-range"].stdout.partition(b"\n")[2] == b"server_args"
    assert done["launch-offset"].stdout == b"4\n"
    assert (done["run-tool"].stdout, done["run-tool"].exit_status) == (b"out\n", 7)
    assert (done["kept-log"].stderr, done["kept-log"].exit_status) == (b"nobody keeps such a log\n", 2)
    assert done["http-get"].stderr.startswith((b"curl 7 ", b"wget 4 "))
    assert done["loop-tool"].stdout.startswith(b"up\n")
    assert done["kernel-log"].stdout.startswith(b"@uptime ")
    assert b"\n@ended " in done["kernel-log"].stdout
    assert done["oom-count"].exit_status == 0
    assert re.fullmatch(rb"(?:cgroup [0-9a-f]+\noom_kill \d+\nlimit \S+\n)?", done["oom-count"].stdout)


@pytest.mark.parametrize("shell", SHELLS)
async def test_bytes_and_arguments_pass_unchanged(sshd_server: Sshd, shell: str) -> None:
    require(shell)
    every = bytes(range(256)) * 40
    odd = ("", " ", "a b", "'", '"', "$HOME", "`id`", "\\", "\n", "!x", "*", "é", b"\xff", "-n", "%s", "\t;", "~")
    async with connected(sshd_server, shell) as node:
        assert (await node.run(Command(CAT, data=every))).stdout == every
        done = await node.run(Command(ECHO, odd))
    assert done.stdout == b"".join((a if isinstance(a, bytes) else a.encode()) + b"|" for a in odd)


async def test_five_megabytes_go_both_ways(node: SshNode) -> None:
    data = os.urandom(5_000_000)
    assert (await node.run(Command(CAT, data=data))).stdout == data
    assert (await node.run(Command(CAT, data=data), limit=4321)).stdout == data[:4321]


async def test_a_command_that_reads_nothing_ends_all_the_same(node: SshNode) -> None:
    done = await node.run(Command(Script("quick", "echo done; exit 4\n"), data=b"x" * 5_000_000))
    assert (done.stdout, done.exit_status) == (b"done\n", 4)


async def test_much_stderr_does_not_stop_stdout(node: SshNode) -> None:
    loud = Script("loud", "head -c 6000000 /dev/zero >&2; echo end\n")
    done = await node.run(Command(loud))
    assert done.stdout == b"end\n"
    assert len(done.stderr) == 65536
    async with node.stream(Command(loud)) as stream:
        assert await stream.read() == b"end\n"
        assert await stream.read() == b""
        assert len(stream.stderr) == 16384


async def test_a_signal_is_no_exit_status(node: SshNode) -> None:
    assert (await node.run(Command(Script("die", "kill -9 $$\n")))).exit_status is None


async def test_a_timeout_lets_the_command_go(node: SshNode, tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    beats = Script("beats", "sh -c 'while sleep 0.1; do echo; done' \"$1\"\n")
    begin = time.monotonic()
    with pytest.raises(CommandTimeout, match=r"beats on .* did not end in 0\.5 s"):
        await node.run(Command(beats, (mark,)), timeout=0.5)
    assert time.monotonic() - begin < 3
    assert await gone(mark)
    assert (await node.run(Command(ECHO, ("x",)))).stdout == b"x|"


async def test_following_a_file_and_ending(node: SshNode, open_folder: Path) -> None:
    log = open_folder / "server.log"
    log.write_text("old\n")
    async with node.stream(Command(FOLLOW, (str(log), "+1"))) as stream:
        got = b""
        while b"old\n" not in got:
            got += await stream.read()
        with log.open("a") as file:
            file.write("new\n")
        begin = time.monotonic()
        while b"new\n" not in got:
            got += await stream.read()
        assert time.monotonic() - begin < 2
        assert stream.exit_status is None
    followers = Script("followers", "ps -o args= -u \"$(id -u)\" | grep -c '^tail' || :\n")
    until = time.monotonic() + 3
    while (count := (await node.run(Command(followers))).stdout) != b"0\n" and time.monotonic() < until:
        await asyncio.sleep(0.1)
    assert count == b"0\n"


@pytest.mark.parametrize("way", ["stream", "node", "abort"])
async def test_every_remote_process_ends(sshd_server: Sshd, tmp_path: Path, way: str) -> None:
    mark = f"etui-{tmp_path.name}"
    async with connected(sshd_server) as node:
        loop = Command(LOOP_TOOL, ("900", "sh", "-c", "while sleep 0.2; do echo x; done", mark))
        poll = Command(POLL, ("900",))
        async with node.stream(loop) as stream, node.stream(poll) as poller:
            await poller.write(b"1 ping\n")
            assert (await poller.read()).startswith(b"1 pid ")
            assert await stream.read() == b"x\n"
            assert processes_with(mark)
            if way == "node":
                await node.aclose()
                assert await gone(mark)
            elif way == "abort":
                node._conns[-1].abort()
                assert await gone(mark)
        assert await gone(mark)


async def test_not_reading_stops_the_writer(node: SshNode, open_folder: Path) -> None:
    count = open_folder / "count"
    flood = Script("flood", 'while :; do head -c 65536 /dev/zero; echo >>"$1"; done\n')
    async with node.stream(Command(flood, (str(count),))) as stream:
        assert await stream.read()
        await asyncio.sleep(2)
        before = count.stat().st_size
        await asyncio.sleep(1)
        # Three windows of 2 MiB at most, and what the kernels hold.
        assert count.stat().st_size == before < 12 * 1024 * 1024 / 65536
        for _ in range(300):
            await stream.read()
        await asyncio.sleep(0.3)
        assert count.stat().st_size > before


async def test_reading_slowly_slows_the_writer(node: SshNode, open_folder: Path) -> None:
    """What is read in small pieces is not fetched by windows: asyncssh queued 2 MiB for each packet that was taken."""
    path = open_folder / "long.log"
    path.write_bytes(b"x" * (96 << 20))
    read = 0
    async with node.stream(follow_from(str(path), 0)) as stream:
        while read < 6 << 20:
            read += len(await stream.read(16384))
            await asyncio.sleep(0.002)
        await asyncio.sleep(1.0)  # whatever was granted comes
        sent = max(_positions(path))
    assert read < sent < read + (14 << 20)  # three windows of 2 MiB, and what the kernels hold


def _positions(path: Path) -> list[int]:
    """Where processes stand that have the file as their stdin."""
    found = []
    for stdin in Path("/proc").glob("[0-9]*/fd/0"):
        with contextlib.suppress(OSError):
            if stdin.readlink() == path:
                found.append(int((stdin.parents[1] / "fdinfo/0").read_text().split()[1]))
    return found


async def test_writing_waits_for_the_reader(node: SshNode, tmp_path: Path) -> None:
    mark = f"etui-{tmp_path.name}"
    deaf = Script("deaf", "echo up; while sleep 0.2; do echo; done\n")
    async with node.stream(Command(LOOP_TOOL, ("900", "sh", "-c", deaf.text, mark))) as stream:
        assert await stream.read() == b"up\n"
    async with node.stream(Command(deaf)) as stream:
        assert await stream.read() == b"up\n"

        async def write_much() -> None:
            for _ in range(2000):
                await stream.write(b"x" * 65536)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write_much(), 1)
        begin = time.monotonic()
    assert time.monotonic() - begin < 1
    assert await gone(mark)


async def answered(stream: Stream) -> None:
    """A poller answers a request to its end."""
    await stream.write(b"1 ping\n")
    said = b""
    while not said.endswith(b"1 done\n"):
        said += await stream.read()
    assert said.startswith(b"1 pid ")


async def test_ping_measures_the_link(node: SshNode) -> None:
    assert node.latency_ms is None
    took = await node.ping()
    assert 0 < took < 1000
    assert node.latency_ms == took


async def test_a_cut_link_is_told(sshd_server: Sshd) -> None:
    before = set(sshd_server.connections())
    async with connected(sshd_server) as node, node.stream(Command(POLL)) as stream:
        await answered(stream)
        running = asyncio.create_task(node.run(Command(Script("wait", "sleep 30\n"))))
        await asyncio.sleep(0.3)
        assert sshd_server.send_since(before, signal.SIGKILL)
        begin = time.monotonic()
        with pytest.raises(LinkLostError, match=r"the link to .* is lost"):
            await stream.read()
        with pytest.raises(LinkLostError):
            await running
        assert time.monotonic() - begin < 3
        for again in (stream.write(b"2 ping\n"), node.run(Command(ECHO)), node.ping()):
            with pytest.raises(LinkLostError):
                await again
        await node.connect()
        assert (await node.run(Command(ECHO, ("back",)))).stdout == b"back|"


async def test_a_frozen_link_is_noticed(sshd_server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagletui.nodes.ssh.KEEPALIVE_SECONDS", 0.2)
    before = set(sshd_server.connections())
    async with connected(sshd_server) as node, node.stream(Command(POLL)) as stream:
        await answered(stream)
        assert sshd_server.send_since(before, signal.SIGSTOP)
        try:
            async with asyncio.timeout(5):
                with pytest.raises(LinkLostError, match="not responding"):
                    await stream.read()
        finally:
            sshd_server.send_since(before, signal.SIGCONT)


async def test_not_connected_is_a_sentence(sshd_server: Sshd) -> None:
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    with pytest.raises(LinkLostError):
        await node.run(Command(ECHO))
    await node.aclose()


async def test_sessions_wait_for_each_other(node: SshNode, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [node.run(Command(Script("nap", "sleep 0.2; echo ok\n"))) for _ in range(3 * SESSIONS)]
    assert {d.stdout for d in await asyncio.gather(*many)} == {b"ok\n"}
    monkeypatch.setattr("eagletui.nodes.ssh.SESSION_WAIT_SECONDS", 0.3)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(SESSIONS):
            await stack.enter_async_context(node.stream(Command(POLL)))
        with pytest.raises(ChannelError, match="commands run on"):
            await node.run(Command(ECHO))
    assert (await node.run(Command(ECHO, ("free",)))).stdout == b"free|"


async def test_max_sessions_is_told(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path) -> None:
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, ("MaxSessions 1",)) as server:
        async with connected(server) as node, node.stream(Command(POLL)) as stream:
            await stream.write(b"1 ping\n")
            assert (await stream.read()).startswith(b"1 pid ")
            with pytest.raises(ChannelError, match="MaxSessions") as caught:
                await node.run(Command(ECHO))
            assert not caught.value.forbidden


@pytest.mark.parametrize("rc", ["echo going away; exit 5", "cat >/dev/null; echo ate it; exit 5", "exec /bin/false"])
async def test_a_login_shell_that_never_runs_us(sshd_server: Sshd, rc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagletui.nodes.session.START_SECONDS", 1.0)
    home = Path(f"~{sshd_server.user('bash')}").expanduser()
    kept = (home / ".bashrc").read_text()
    (home / ".bashrc").write_text(rc + "\n")
    try:
        async with connected(sshd_server) as node:
            with pytest.raises(ShellError, match="login shell") as caught:
                await node.run(Command(ECHO, ("x",)))
            async with node.stream(Command(POLL)) as stream:
                with pytest.raises(ShellError):
                    await stream.read()
    finally:
        (home / ".bashrc").write_text(kept)
    if "exit 5" in rc:
        assert "exit status 5" in str(caught.value)
        assert "going away" in str(caught.value) or "ate it" in str(caught.value)


async def test_an_rc_file_that_hangs(sshd_server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagletui.nodes.session.START_SECONDS", 0.5)
    home = Path(f"~{sshd_server.user('bash')}").expanduser()
    kept = (home / ".bashrc").read_text()
    (home / ".bashrc").write_text("echo hang; sleep 5\n")
    try:
        async with connected(sshd_server) as node, node.stream(Command(POLL)) as stream:
            with pytest.raises(ShellError, match=r"did not begin.*hang"):
                await stream.read()
    finally:
        (home / ".bashrc").write_text(kept)


async def test_ipv6(sshd_server: Sshd) -> None:
    node = SshNode(sshd_server.target(host="::1"), config_file=sshd_server.config)
    await node.connect()
    assert (await node.run(Command(ECHO, ("six",)))).stdout == b"six|"
    await node.aclose()


@pytest.mark.parametrize("jumps", [("bash",), ("bash", "dash")])
async def test_jump_hosts(sshd_server: Sshd, jumps: tuple[str, ...]) -> None:
    hops = ",".join(f"{sshd_server.user(s)}@127.0.0.1:{sshd_server.port}" for s in jumps)
    config = sshd_server.write_config(
        "jump_config", "Host inner", f"  HostName ::1\n  Port {sshd_server.port}", f"  ProxyJump {hops}"
    )
    before = set(sshd_server.connections())
    node = SshNode(f"{sshd_server.user('fish')}@inner", config_file=config)
    await node.connect()
    assert (await node.run(Command(RUN_TOOL, ("5", "id", "-un")))).stdout.decode().strip() == sshd_server.user("fish")
    assert len(set(sshd_server.connections()) - before) == len(jumps) + 1
    await node.aclose()
    until = time.monotonic() + 3
    while set(sshd_server.connections()) - before and time.monotonic() < until:
        await asyncio.sleep(0.05)
    assert not set(sshd_server.connections()) - before


async def test_a_first_jump_host_may_have_its_own(sshd_server: Sshd) -> None:
    user, port = sshd_server.user("bash"), sshd_server.port
    config = sshd_server.write_config(
        "nested_config",
        f"Host outer inner middle\n  HostName 127.0.0.1\n  Port {port}\n  User {user}",
        "Host inner\n  ProxyJump middle",
        "Host middle\n  ProxyJump outer",
    )
    before = set(sshd_server.connections())
    node = SshNode("inner", config_file=config)
    await node.connect()
    assert len(set(sshd_server.connections()) - before) == 3
    await node.aclose()


async def test_a_proxy_command(sshd_server: Sshd) -> None:
    require("ssh")
    me = f"{sshd_server.user('bash')}@127.0.0.1"
    config = sshd_server.write_config(
        "proxy_config",
        f"Host inner\n  HostName 127.0.0.1\n  Port {sshd_server.port}",
        f"  ProxyCommand ssh -F {sshd_server.config} -p {sshd_server.port} -W %h:%p {me}",
    )
    node = SshNode(f"{sshd_server.user('dash')}@inner", config_file=config)
    await node.connect()
    assert (await node.run(Command(ECHO, ("through",)))).stdout == b"through|"
    await node.aclose()
    assert await gone(f"127.0.0.1:{sshd_server.port}\0{me}")


async def test_without_an_ssh_program(sshd_server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagletui.nodes.ssh.have_ssh", lambda: False)
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    await node.connect()
    assert (await node.run(Command(ECHO, ("alone",)))).stdout == b"alone|"
    await node.aclose()


async def test_two_connects_make_one_link(sshd_server: Sshd) -> None:
    before = set(sshd_server.connections())
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    await asyncio.gather(node.connect(), node.connect())
    await node.connect()
    assert len(set(sshd_server.connections()) - before) == 1
    await node.aclose()
    await node.aclose()


async def test_nothing_of_the_users_environment_is_sent(node: SshNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ETUI", "sent")
    done = await node.run(Command(Script("env", "env; tty || :\n")))
    assert b"LC_ETUI" not in done.stdout
    assert b"not a tty" in done.stdout
    assert b"SSH_AUTH_SOCK" not in done.stdout


async def test_open_node_makes_an_ssh_node(sshd_server: Sshd) -> None:
    node = open_node(sshd_server.target(), config_file=sshd_server.config)
    assert isinstance(node, SshNode)
    await node.connect()
    await node.aclose()


async def test_random_rc_noise_never_reaches_the_reader(sshd_server: Sshd) -> None:
    home = Path(f"~{sshd_server.user('bash')}").expanduser()
    kept = (home / ".bashrc").read_text()
    (home / ".bashrc").write_text("head -c 300000 /dev/urandom\nprintf '@eagletui begins'\n")
    try:
        async with connected(sshd_server) as node:
            assert (await node.run(Command(ECHO, ("clean",)))).stdout == b"clean|"
    finally:
        (home / ".bashrc").write_text(kept)


def test_the_library_says_nothing_on_the_terminal() -> None:
    code = (
        "import logging, eagletui.nodes.ssh\n"
        "logging.getLogger('asyncssh').error('x')\nlogging.getLogger('asyncssh.sub').error('y')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout + done.stderr == ""
