"""HTTP where a real sshd forbids forwarding: by curl on the node, else a sentence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from eagletui.monitor import probes
from eagletui.monitor.probes import TOOL_LIMIT_S, Prober
from eagletui.nodes.base import Completed
from eagletui.nodes.ssh import SshNode
from eagletui.shell.poll import start_poll
from eagletui.shell.script import Command
from tests.requires import require
from tests.sshd import Sshd, free_port, start_sshd
from tests.talk import BODY, Server, serving

FORBIDDEN = "refused local port forward"
"""What sshd logs for each try."""


class Counting(SshNode):
    """Counts its commands."""

    ran = 0

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:
        self.ran += 1
        return await super().run(command, timeout=timeout, limit=limit)


@contextlib.asynccontextmanager
async def connected(server: Sshd) -> AsyncIterator[Counting]:
    node = Counting(server.target("bash"), config_file=server.config)
    await node.connect()
    try:
        yield node
    finally:
        await node.aclose()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(Server, "127.0.0.1") as port:
        yield port


@pytest.fixture(scope="module")
def forbidding(sshd_users: dict[str, str], ssh_key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    require("curl")
    folder = tmp_path_factory.mktemp("forbidding")
    with start_sshd(folder, sshd_users, ssh_key, ("AllowTcpForwarding no", "MaxSessions 4")) as server:
        yield server


async def test_asked_by_curl_and_forwarding_tried_once(forbidding: Sshd, port: int) -> None:
    tries = forbidding.log.read_text().count(FORBIDDEN)
    async with connected(forbidding) as node, Prober(node, "127.0.0.1", port) as prober:
        began = time.monotonic()
        answer = await prober.get("/ok", 5)
        took = (time.monotonic() - began) * 1000
        assert (answer.status, answer.body, answer.error) == (200, BODY, None)
        assert answer.detail == "asked by curl on the node, since its sshd forbids forwarding"
        assert answer.latency_ms is not None
        assert 0 < answer.latency_ms < took
        assert (await prober.get("/busy", 5)).status == 503
        closed = await prober.get("/close", 5)
        assert (closed.status, closed.error) == (None, "closed")
        began = time.monotonic()
        silent = await prober.get("/silent", 1)
        assert (silent.status, silent.error) == (None, "timeout")
        assert time.monotonic() - began < 5
        async with Prober(node, "127.0.0.1", port, as_before=True) as another:
            assert (await another.get("/ok", 5)).status == 200
        assert forbidding.log.read_text().count(FORBIDDEN) == tries + 1
        async with Prober(node, "127.0.0.1", port) as anew:
            assert (await anew.get("/ok", 5)).status == 200
        assert forbidding.log.read_text().count(FORBIDDEN) == tries + 2


async def test_nobody_listens(forbidding: Sshd) -> None:
    async with connected(forbidding) as node, Prober(node, "127.0.0.1", free_port()) as prober:
        assert (await prober.get("/ok", 5)).error == "refused"


async def test_one_at_a_time_for_a_path(forbidding: Sshd, port: int) -> None:
    async with connected(forbidding) as node, Prober(node, "127.0.0.1", port) as prober:
        Server.most = 0
        answers = await asyncio.gather(*(prober.get("/late", 5) for _ in range(3)))
    assert {answer.status for answer in answers} == {200}
    assert Server.most == 1


async def test_a_session_refused_is_told(forbidding: Sshd, port: int) -> None:
    async with connected(forbidding) as node, contextlib.AsyncExitStack() as streams:
        for _ in range(4):
            stream = await streams.enter_async_context(node.stream(start_poll()))
            await stream.write(b"1 ping\n")
            await stream.read()
        async with Prober(node, "127.0.0.1", port) as prober:
            answer = await prober.get("/ok", 5)
    assert answer.error == "forbidden"
    assert "MaxSessions" in (answer.detail or "")


@pytest.mark.parametrize("how", ["PermitOpen none", "DisableForwarding yes", "restrict"])
async def test_every_way_to_forbid(
    how: str, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, port: int
) -> None:
    require("curl")
    options: tuple[str, ...] = (how,)
    if how == "restrict":
        keys = open_folder / "keys"
        keys.write_text("restrict " + Path(f"{ssh_key}.pub").read_text())
        options = (f"AuthorizedKeysFile {keys}",)
    with start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as server:
        async with connected(server) as node, Prober(node, "127.0.0.1", port) as prober:
            answer = await prober.get("/ok", 5)
    assert (answer.status, answer.body) == (200, BODY)
    assert "forbids forwarding" in (answer.detail or "")


async def test_neither_is_a_sentence(
    sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = open_folder / "bin"
    programs.mkdir()
    for name in ("sh", "dd", "head", "printf", "stty"):
        (programs / name).symlink_to(require(name))
    options = ("AllowTcpForwarding no", f"SetEnv PATH={programs}")
    with start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as server:
        async with connected(server) as node, Prober(node, "127.0.0.1", port) as prober:
            answers = [await prober.get("/ok", 5) for _ in range(3)]
            assert node.ran == 1
            monkeypatch.setattr(probes, "NO_TOOL_RETRY_S", -1.0)
            prober._no_tool_until = 0.0
            await prober.get("/ok", 5)
            await prober.get("/ok", 5)
            assert node.ran == 3
    assert {answer.error for answer in answers} == {"forbidden"}
    said = answers[-1].detail or ""
    assert "forbids forwarding (AllowTcpForwarding" in said
    assert "neither curl nor wget" in said


def test_the_tool_ends_within_ten_seconds_of_us() -> None:
    assert TOOL_LIMIT_S + 1 < 10
