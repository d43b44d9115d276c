"""Preflight over the node `local`, with real scripts, real sockets and stand-ins for nvidia-smi and the engine."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from eagletui.errors import CommandTimeout, LinkLostError
from eagletui.launching.acting import Acting, Fence
from eagletui.launching.plan import Check, FlagChange, Plan, Result, Wish
from eagletui.launching.preflight import preflight
from eagletui.launching.recipe import Recipe
from eagletui.nodes.base import Completed
from eagletui.nodes.local import LocalNode
from eagletui.servers.model import LogSource, Process, Server
from eagletui.servers.record import Record
from eagletui.shell.script import Command
from tests.gpus.stand_ins import build

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
PACKAGES = Path(__file__).parent.parent / "stand_in" / "unruly"
FENCE = Fence((1,), "token")
GPU = "gpu\nindex\t{0}\nuuid\tGPU-{0}\nname\tH200\nmemory.used\t{1}\nmemory.total\t143771\n"


@pytest.fixture
async def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalNode]:
    """Two GPUs; on the second somebody holds 60 GB. What the login keeps goes below the test's folder."""
    gpus = build(
        tmp_path / "smi", GPU.format(0, 4) + GPU.format(1, 61_000) + "app\t1\t77\tC\t60500\t/usr/bin/python3\n"
    )
    monkeypatch.setenv("PATH", f"{gpus}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    (tmp_path / "m" / "model.safetensors").write_bytes(b"x" * 4096)
    local = LocalNode()
    await local.connect()
    yield local
    await local.aclose()


def recipe(folder: Path, *flags: str, port: int = 1, **named: str) -> Recipe:
    argv = (
        sys.executable,
        "-m",
        "sglang.launch_server",
        "--model-path",
        str(folder / "m"),
        "--port",
        str(port),
        *flags,
    )
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGES),
        "HF_TOKEN": "hf_neverShownToAnybody0123",
        "TMPDIR": str(folder),
    }
    words = {"cwd": str(folder), "log": str(folder / "logs" / "new.log")} | named
    return Recipe(argv, tuple(env.items()), source="profile", engine="sglang", port=port, **words)  # type: ignore[arg-type]


def plan(found: Recipe | None, **named: object) -> Plan:
    return dataclasses.replace(Plan(Wish("restart"), "local", None, recipe=found), **named)  # type: ignore[arg-type]


async def results(node: LocalNode, wanted: Plan) -> Mapping[str, Check]:
    ran: list[Command] = []
    checks = await preflight(Acting(node, FENCE, ran=ran.append), wanted)
    assert all(command.script.reads_only for command in ran)
    assert len({check.id for check in checks}) == len(checks)
    shown = " ".join(f"{check.text} {check.todo}" for check in checks)
    assert "hf_never" not in shown
    assert all(check.text.endswith((".", ":")) or check.result == "fail" for check in checks)
    return {check.id: check for check in checks}


def not_ok(checks: Mapping[str, Check]) -> dict[str, Result]:
    return {name: check.result for name, check in checks.items() if check.result != "ok"}


async def test_a_launch_that_nothing_stands_against(node: LocalNode, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    checks = await results(node, plan(recipe(tmp_path, "--mem-fraction-static", "0.8", port=port)))
    assert not_ok(checks) == {}
    assert set(checks) == {
        "node.answers", "launcher.setsid", "node.logout", "launch.executable", "launch.cwd", "launch.model", "launch.log", "launch.log-space",
        "node.tmp", "node.shm", "record.state", "launch.flags", "gpu.driver", "gpu.count", "gpu.memory", "port.main",
    }  # fmt: skip
    assert not (tmp_path / "logs").exists()
    assert not (tmp_path / "state").exists()


async def test_everything_that_is_wrong_is_told_at_once(node: LocalNode, tmp_path: Path) -> None:
    (tmp_path / "m" / "model.safetensors").write_bytes(b"")
    (tmp_path / "old.log").touch()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broken = recipe(
            tmp_path, "--tp", "2", "--mem-fraction-statik", "0.8", port=port, cwd="/no/such", log=f"{tmp_path}/old.log"
        )
        checks = await results(node, plan(broken))
        assert not_ok(checks) == {
            "launch.cwd": "fail", "launch.model": "fail", "launch.log": "fail", "launch.flags": "fail", "gpu.memory": "fail", "port.main": "fail",
        }  # fmt: skip
        assert "--mem-fraction-static" in (checks["launch.flags"].todo or "")
        assert "GPU 1: 59.1 GiB, python3 (pid 77)" in checks["gpu.memory"].text
        # The same port, held by the family that will be stopped, and the same memory: both come back with its stop.
        ours = await results(node, plan(broken, family=((os.getpid(), 1), (77, 1))))
        assert (ours["port.main"].result, ours["gpu.memory"].result) == ("ok", "ok")
        assert "becomes free" in ours["port.main"].text


async def test_flags_that_are_known_to_work_are_not_tried(node: LocalNode, tmp_path: Path) -> None:
    bad = recipe(tmp_path, "--no-such-flag")
    process = Process(os.getpid(), 1, 1, 1, "S", "python", 1)
    server = Server("s", "sglang", process, (), None, 1, None, bad.argv, "/", LogSource(None))
    running = await results(node, plan(bad, server=server))
    assert "runs now" in running["launch.flags"].text
    last = Record("r", "start", "", "", command=bad.shown_command, ready_s=80.0)
    assert (await results(node, plan(bad, previous=last)))["launch.flags"].result == "ok"
    assert (await results(node, plan(bad, previous=dataclasses.replace(last, ready_s=None))))[
        "launch.flags"
    ].result == "fail"


async def test_a_stop_looks_at_the_record_alone(node: LocalNode) -> None:
    checks = await results(node, plan(None))
    assert {name: check.result for name, check in checks.items()} == {"node.answers": "ok", "record.state": "ok"}


async def test_a_container_takes_no_changed_flags(
    node: LocalNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "smi" / "podman"
    tool.write_text(
        '#!/bin/sh\n[ "$5" = -- ] && [ "$6" = sgl ] && echo running || { echo \'no such container\'; exit 1; }\n'
    )
    tool.chmod(0o755)
    found = dataclasses.replace(recipe(tmp_path, "--tp", "1"), launcher="podman", handle="sgl")
    checks = await results(node, plan(found))
    assert not {"launch.executable", "launch.log", "launch.flags", "launch.model"} & set(checks)
    assert checks["launcher.container"].result == "ok"
    changed = await results(node, plan(found, changes=(FlagChange("tp", "1", "2"),)))
    assert (
        changed["launch.flags"].result,
        "sgl runs the command that it was made with" in changed["launch.flags"].text,
    ) == ("fail", True)
    missing = await results(node, plan(dataclasses.replace(found, handle="other")))
    assert missing["launcher.container"].result == "fail"


class Slow:
    """A node whose file system hangs, or whose link breaks."""

    def __init__(self, node: LocalNode, error: Exception) -> None:
        self._node, self._error = node, error

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:
        if command.script.name in {"preflight", "check-flags", "details"}:
            raise self._error
        return await self._node.run(command, timeout=timeout, limit=limit)


async def test_a_node_that_does_not_answer(node: LocalNode, tmp_path: Path) -> None:
    slow = Slow(node, CommandTimeout("late"))
    checks = await preflight(Acting(slow, FENCE), plan(recipe(tmp_path)))  # type: ignore[arg-type]
    told = {check.id: check.result for check in checks}
    assert told.pop("node.answers") == "fail"
    assert {told[name] for name in ("launch.executable", "launch.log", "launch.flags", "port.main", "node.shm")} == {
        "unknown"
    }
    assert "fail" not in told.values()
    with pytest.raises(LinkLostError):
        await preflight(Acting(Slow(node, LinkLostError("gone")), FENCE), plan(recipe(tmp_path)))  # type: ignore[arg-type]
