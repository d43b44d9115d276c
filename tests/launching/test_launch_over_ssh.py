"""Launching as an ordinary user over a real sshd: what was launched needs neither the connection nor us."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eagletui.errors import LinkLostError, NeverStartedError, RefusedError
from eagletui.launching.adopt import read_context, recipe_of_process
from eagletui.launching.launch import launch
from eagletui.launching.launchers.registry import launcher
from eagletui.launching.recipe import Recipe
from eagletui.launching.records import read_records
from eagletui.launching.verify import verify
from eagletui.nodes.ssh import SshNode
from tests.launching.acting import Place, acting_on
from tests.sshd import Sshd

SHELLS = ("bash", "fish", "tcsh")


@asynccontextmanager
async def connected(server: Sshd, shell: str) -> AsyncIterator[SshNode]:
    node = SshNode(server.target(shell), config_file=server.config)
    await node.connect()
    try:
        yield node
    finally:
        await node.aclose()


def recipe(place: Place, home: Path, *argv: str) -> Recipe:
    log = str(home / "logs" / f"{place.port}.log")
    return Recipe(argv, (("PATH", "/usr/bin:/bin"), ("HOME", str(home))), str(home), log, "profile", port=place.port)


async def until_lost(node: SshNode) -> None:
    for _ in range(1000):
        await read_records(node)


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_server_outlives_the_connection_that_launched_it(sshd_server: Sshd, shell: str) -> None:
    user = pwd.getpwnam(sshd_server.user(shell))
    home = Path(user.pw_dir)
    async with connected(sshd_server, shell) as watching, acting_on(watching, home) as place:
        before = set(sshd_server.connections())
        async with connected(sshd_server, shell) as node:
            place.acting.node = node
            record = await place.written(recipe(place, home, "sh", "-c", "echo up; exec sleep 600"))
            done = await place.acting.run(launcher("setsid").start(place.acting.fence.arguments, record))
            sshd_server.send_since(before, signal.SIGKILL)  # the connection's both processes, at once
            assert done.exit_status == 0
            with pytest.raises(LinkLostError):
                await until_lost(node)
        place.acting.node = watching
        until = time.monotonic() + 20
        while not (kept := (await read_records(watching)).of(record.id)) or not kept.alive:
            assert time.monotonic() < until, kept
        assert kept.record.process is not None
        pid = kept.record.process[0]
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert status["Uid"].split() == [str(user.pw_uid)] * 4
        assert int(status["SigIgn"], 16) & ~1 == 0
        assert Path(record.log or "").read_text() == "up\n"
        assert Path(record.log or "").stat().st_uid == user.pw_uid
        assert str(Path(f"/proc/{pid}/fd/0").readlink()) == "/dev/null"
        os.kill(pid, signal.SIGINT)
        while (kept := (await read_records(watching)).of(record.id)) is None or kept.record.exit_status is None:
            assert time.monotonic() < until
        assert kept.record.exit_status == 128 + signal.SIGINT


async def test_somebody_elses_process_tells_no_environment(sshd_server: Sshd) -> None:
    """This test's own process is root's: its command can be read, and nothing else that a launch needs."""
    async with connected(sshd_server, "bash") as node:
        context = await read_context(node, os.getpid())
    assert context.complete
    assert context.uid == 0
    assert context.argv
    assert (context.environ, context.cwd) == (None, None)
    with pytest.raises(RefusedError, match="environment of process") as caught:
        recipe_of_process(context, log="/l")
    assert caught.value.code == "no-environment"


async def test_a_missing_interpreter_is_told_over_the_link(sshd_server: Sshd) -> None:
    home = Path(pwd.getpwnam(sshd_server.user("dash")).pw_dir)
    async with connected(sshd_server, "dash") as node, acting_on(node, home) as place:
        record = await place.written(recipe(place, home, "/opt/gone/python", "-m", "sglang.launch_server"))
        with pytest.raises(NeverStartedError, match="127") as caught:
            await verify(place.acting, await launch(place.acting, record))
        assert "/opt/gone/python" in caught.value.printed[-1]
        assert Path(record.log or "").read_text().strip().endswith("No such file or directory")
