"""A server in a container or a unit that a profile declares: stopped and started by its tool (a stand-in on PATH that keeps its arguments), followed by
us, and signalled only where its unit left something of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from eagletui.config.load import Loaded
from eagletui.config.models import Config
from eagletui.errors import StopRefusedError
from eagletui.launching import stop as stopping
from eagletui.launching.acting import Acting
from eagletui.launching.identify import identify
from eagletui.launching.keepers import keeper_among, keeper_of
from eagletui.launching.lock import Lock, new_fence
from eagletui.launching.operating import NodeOperator
from eagletui.launching.plan import Declared, Kept, Wish
from eagletui.launching.records import read_records
from eagletui.monitor.survey import survey
from eagletui.nodes.local import LocalNode
from eagletui.shell.ownership import ask_ownership, parse_ownership
from eagletui.shell.script import Command
from tests.requires import require
from tests.sshd import free_port
from tests.unruly import UNRULY, command_of, lives, unruly, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")

KEEPS = """#!/bin/sh
here=${0%/*}
printf '%s\\0' "$@" >>"$0.argv"; printf '\\n' >>"$0.argv"
read -r pid <"$here/pid"
lives() { case $(cut -d ' ' -f 3 "/proc/$pid/stat" 2>/dev/null) in ''|Z) return 1;; esac; }
"""
DOCKER = (
    KEEPS
    + """
case $2 in
inspect) if lives; then echo "running $pid 0"; else echo 'exited 0 143'; fi;;
stop) kill -TERM "$pid"; if [ "$4" = 0 ]; then all=$(cat "/proc/$pid"/task/*/children); kill -KILL "$pid" $all; fi; while lives; do sleep 0.1; done;;
start) setsid sh "$here/server" </dev/null >>"$here/log" 2>&1 & echo $! >"$here/pid";;
esac
"""
)
SYSTEMCTL = (
    KEEPS
    + """
case $* in
*LoadState*) case $1 in --user) echo LoadState=loaded;; esac;;
*MainPID*) if lives; then printf 'MainPID=%s\\nActiveState=active\\n' "$pid"
else printf 'MainPID=0\\nActiveState=inactive\\nExecMainCode=0\\nExecMainStatus=0\\n'; fi;;
*stop*) if [ -e "$here/forbidden" ]; then echo 'Failed to stop: Access denied' >&2; exit 1; fi; kill -TERM "$pid";;
esac
"""
)


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def asked(folder: Path, tool: str, *words: str) -> list[list[str]]:
    """The calls of a tool that have all of these words."""
    kept = folder / f"{tool}.argv"
    calls = [line.split("\0")[:-1] for line in kept.read_text().split("\n") if line] if kept.exists() else []
    return [call for call in calls if set(words) <= set(call)]


@dataclass(slots=True)
class Container:
    """A server that is another user's, in a mount namespace of its own, which `docker` knows as sgl."""

    folder: Path
    port: int

    @property
    def pid(self) -> int:
        """Its first process now."""
        return int((self.folder / "pid").read_text())

    def loaded(self, handle: str = "sgl", grace_s: float = 7) -> Loaded:
        """A configuration whose profile declares it."""
        profile = {
            "command": list(command_of(self.port)), "launcher": "docker", "handle": handle, "grace_s": grace_s, "base_env": "clean",
        }  # fmt: skip
        return Loaded(Config.model_validate({"profiles": {"mine": profile}}))


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Container]:
    for need in ("root", "unshare", "setpriv", "setsid"):
        require(need)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    shutil.copytree(UNRULY, folder / "package", ignore=shutil.ignore_patterns("__pycache__"))
    port = free_port()
    stand_in(folder, "docker", DOCKER)
    (folder / "pid").write_text("0\n")
    (folder / "server").write_text(
        f"cd {folder}; exec unshare -m setpriv --reuid=65534 --regid=65534 --clear-groups"
        f" env -i PATH=/usr/bin:/bin PYTHONPATH={folder}/package PYTHONDONTWRITEBYTECODE=1 UNRULY=slow=0.1"
        f" {' '.join(command_of(port))}\n"
    )
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    subprocess.run([folder / "docker", "container", "start", "sgl"], check=True, timeout=20)
    found = Container(folder, port)
    try:
        wait_until(lambda: "fired up" in (folder / "log").read_text(), "the server never came up")
        yield found
    finally:
        with suppress(ProcessLookupError):
            os.killpg(found.pid, signal.SIGKILL)
        shutil.rmtree(folder)


async def test_a_declared_container_is_restarted_by_its_tool(container: Container) -> None:
    """Its processes are of another user, as they are as a rule: none of them is ever signalled from here."""
    operator = NodeOperator(LocalNode(), name="local", loaded=container.loaded())
    old = container.pid
    plan = await operator.check(await operator.prepare(Wish("restart", port=container.port)))
    assert (plan.refusals, plan.changes, plan.grace_s) == ((), (), 7)
    assert plan.server is not None
    assert (plan.server.pid, plan.server.ours) == (old, False)
    assert (plan.stopped_by, plan.recipe and plan.recipe.kept_log) == ("the docker container sgl", "docker sgl")
    assert any("the docker container sgl keeps it" in note for note in plan.notes)
    assert [one for one in plan.checks or () if one.result == "fail"] == []
    signals = [one for one in await operator.dry_run(plan) if one.name in {"signal", "container-stop", "launch"}]
    assert [(one.name, one.args[2:]) for one in signals] == [("container-stop", ("docker", "sgl", "7"))]
    (container.folder / "unruly").write_text("drains=60")  # the new one will
    run = operator.begin(plan)
    async with asyncio.timeout(60):
        progress = await run.wait()
    assert progress.ending == "done", (progress.text, progress.now_true)
    assert progress.launched is not None
    assert progress.log is None
    assert (progress.launched[0], lives(old), lives(container.pid)) == (container.pid, False, True)
    assert container.pid != old
    assert asked(container.folder, "docker", "stop") == [["container", "stop", "-t", "7", "sgl"]]
    assert ["container", "start", "sgl"] in asked(container.folder, "docker", "start")[1:]

    (kept,) = (await read_records(LocalNode())).records
    assert (kept.record.launcher, kept.record.handle, kept.record.log, kept.alive) == ("docker", "sgl", None, True)

    told = await survey(LocalNode(), port=container.port)
    assert [(one.pid, one.state) for one in told.servers] == [(container.pid, "ready")]
    assert told.servers[0].launch is not None

    # By its record alone: no configuration, as another eagletui may have none.
    operator = NodeOperator(LocalNode(), name="local")
    plan = await operator.prepare(Wish("stop", port=container.port))
    assert plan.refusals == ()
    new = container.pid
    run = operator.begin(plan)
    async with asyncio.timeout(60):
        while run.progress.step is None or "stops the docker container sgl since" not in run.progress.step.text:
            assert run.progress.ending == "running", run.progress.text
            await asyncio.sleep(0.05)
        assert run.stop_now()  # `k`: by its tool as well
        progress = await run.wait()
    assert (progress.ending, lives(new)) == ("done", False), progress.text
    assert [call[3] for call in asked(container.folder, "docker", "stop")] == ["7", "30", "0"]
    (stopped,) = [one.record for one in (await read_records(LocalNode())).records if one.record.kind == "stop"]
    assert (stopped.launcher, stopped.handle) == ("docker", "sgl")
    told = await survey(LocalNode(), port=container.port)
    assert told.servers == [], "stopped, and no crash"


async def test_what_is_not_declared_or_is_another_container_is_left_alone(container: Container) -> None:
    async def refusals(loaded: Loaded | None, **wish: str) -> list[tuple[str, str]]:
        plan = await NodeOperator(LocalNode(), name="local", loaded=loaded).prepare(
            Wish("restart", port=container.port, **wish)  # type: ignore[arg-type]
        )
        return [(one.code, one.text) for one in plan.refusals]

    ((code, text),) = await refusals(None)
    assert (code, "is not launched outside of it" in text) == ("container", True)
    ((code, text),) = await refusals(container.loaded(), launcher="setsid")
    assert (code, "launched by setsid" in text) == ("container", True)
    first = container.pid
    try:
        (container.folder / "pid").write_text(f"{os.getpid()}\n")
        ((code, text),) = await refusals(container.loaded())
        assert (code, f"its process is another one (pid {os.getpid()})" in text) == ("container", True)
    finally:
        (container.folder / "pid").write_text(f"{first}\n")
    assert lives(first)
    assert asked(container.folder, "docker", "stop") == []


async def test_a_unit_is_stopped_by_systemd_and_what_it_leaves_by_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    stand_in(folder, "systemctl", SYSTEMCTL)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    declared = Declared("systemd", "sgl.service", "mine")
    with unruly(tmp_path, "leaves-orphans") as server:
        server.wait_for()
        node, ran = LocalNode(), list[Command]()
        acting = Acting(node, new_fence((server.port,)), ran=ran.append)
        facts = parse_ownership((await node.run(ask_ownership((server.pid,)))).stdout)
        around = facts.of(server.pid)
        assert around is not None
        kept = Kept("unit", "user unit sgl.service")
        (folder / "pid").write_text(f"{os.getpid()}\n")
        # an ancestor of the server is its unit's process, a stranger is not, whatever the unit is called
        assert (await keeper_among(node, [declared], kept, around.above))[0] is not None
        assert await keeper_among(node, [declared], Kept("unit", "other.service"), around.above) == (None, "")
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
            (folder / "pid").write_text(f"{stranger.pid}\n")
            keeper, said = await keeper_among(node, [declared], kept, around.above)
            assert (keeper, f"another one (pid {stranger.pid})" in said) == (None, True)
            stranger.communicate(b"\n")
        (folder / "pid").write_text(f"{server.pid}\n")
        keeper, _ = await keeper_among(node, [declared], kept, around.above)
        assert keeper is not None
        found = await identify(node, port=server.port)
        assert found.target is not None
        monkeypatch.setattr(stopping, "POLL_S", 0.2)
        async with Lock(acting, who="me@here"):
            (folder / "forbidden").touch()
            with pytest.raises(
                StopRefusedError, match=r"did not stop the unit sgl\.service: Failed to stop: Access denied\. "
            ):
                await stopping.stop(acting, found.target, keeper=keeper_of(declared))
            assert lives(server.pid)
            (folder / "forbidden").unlink()
            ran.clear()
            done = await stopping.stop(acting, found.target, keeper=keeper)
        assert not any(lives(process.pid) for process in found.members)
        told = [str(word).partition(":")[0] for one in ran if one.script.name == "signal" for word in one.args[4:]]
        assert told
        assert str(server.pid) not in told, "systemd told it, and nobody else"
        assert (done.ended, done.killed) == (len(found.members), ())
        assert "stop" in asked(folder, "systemctl", "stop", "sgl.service")[-1]
