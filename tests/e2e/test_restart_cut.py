"""A restart that is cut at every step: eagletui is killed, or its link is; the node is whole, and the next eagletui finishes it.

What has to be true of the node whenever eagletui is gone: the old server lives untouched; or it is stopped (or stopping) with nothing launched and a
record to start from; or the new server runs and has a record. Never two servers, never none that nobody can start. The default cuts at some;

    EAGLETUI_RESTART_CUTS=all pytest -s tests/e2e/test_restart_cut.py

cuts in every way at each.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.blackhole import Proxy, proxied
from tests.e2e.cuts import end_all
from tests.node_processes import processes_of, told
from tests.requires import require
from tests.sshd import Sshd, children_of, free_port, start_sshd
from tests.unruly import package_for

STEPS = ("preflight", "identify", "stop", "gpus-free", "leftovers", "launch", "watch")
"""As the record on the node tells them. `verify` is not told apart: the launch writes what it verifies."""
KINDS = ("killed", "sshd killed", "black hole")
FEW = [("stop", "black hole"), ("gpus-free", "sshd killed"), ("launch", "killed")]
ALL = os.environ.get("EAGLETUI_RESTART_CUTS") == "all"
AT_ONCE = 3
"""Restarts under way at the same time, each with a server of its own."""
LIMIT_S = 90.0
TRIES = 4


@dataclass(slots=True)
class Scene:
    """A server of the login user on a port of its own, and the way of one client to its node. `name` is the node's for that client."""

    sshd: Sshd
    proxy: Proxy
    user: str
    port: int
    folder: Path
    client: Path
    config: Path
    seen: list[str] = field(default_factory=list)

    @property
    def records(self) -> Path:
        return Path(pwd.getpwnam(self.user).pw_dir, ".local/state/eagletui/launches")

    def record(self) -> dict[str, Any] | None:
        """The newest one of this port."""
        found = None
        for path in sorted(self.records.glob("*/*/record.json")):
            with suppress(OSError, ValueError):
                record = json.loads(path.read_text())
                if record.get("port") == self.port:
                    found = record
        return found

    def command(self, *words: str) -> subprocess.Popen[str]:
        """eagletui on the client's side."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        env |= {"HOME": str(self.client)}
        return subprocess.Popen(
            [sys.executable, "-m", "eagletui", *words, "node", "-F", str(self.config), "--port", str(self.port)],
            env=env, cwd=self.client, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def launchers(self) -> list[int]:
        """Servers of this port that live."""
        wanted = f"--port {self.port} "
        lines = [one for one in processes_of(self.user) if wanted in f"{one.line} " and one.line.startswith("python")]
        return [one.pid for one in lines]

    def answers(self) -> bool:
        with suppress(OSError):
            address = f"http://127.0.0.1:{self.port}/health"
            with urllib.request.urlopen(address, timeout=2) as answer:
                return bool(answer.status == 200)
        return False

    def until(self, what: str, happened: Callable[[], bool]) -> None:
        until = time.monotonic() + LIMIT_S
        while not happened():
            assert time.monotonic() < until, f"{what}: {self.record()}"
            time.sleep(0.01)


def _as(user: str, line: str, folder: Path) -> None:
    subprocess.run(["runuser", "-u", user, "--", "bash", "-c", line], cwd=folder, check=True, timeout=20)


@contextmanager
def scene(sshd: Sshd, folder: Path, at: str) -> Iterator[Scene]:
    """A server that is ready, drains for a second, and was started by hand."""
    user, port = sshd.user("bash"), free_port()
    home = Path(pwd.getpwnam(user).pw_dir, f"work {port}")
    client = folder / f"client-{at.replace(' ', '-')}"
    client.mkdir()
    _as(user, f"mkdir {shlex.quote(str(home))}", Path("/"))
    made = "echo drains=0.6 > unruly; mkdir model; echo {} > model/config.json; head -c 4096 /dev/zero > model/model.safetensors"
    _as(user, made, home)
    words = f"python3 -m sglang.launch_server --model-path model --tp 2 --port {port}"
    package = package_for(sshd.folder)
    line = f"PYTHONPATH={shlex.quote(str(package))} setsid -f {words} >server.log 2>&1 </dev/null"
    with proxied(sshd.port) as proxy:
        config = sshd.write_config(
            f"cut-{port}",
            f"Host node\n  HostName 127.0.0.1\n  Port {proxy.port}\n  User {user}\n  HostKeyAlias [127.0.0.1]:{sshd.port}",
        )
        now = Scene(sshd, proxy, user, port, home, client, config)
        _as(user, line, home)
        now.until("the first server is ready", now.answers)
        try:
            yield now
        finally:
            end_all([one.pid for one in processes_of(user) if one.session in {*now.launchers(), *_sessions(now)}])


def _sessions(now: Scene) -> set[int]:
    return {one.session for one in processes_of(now.user) if f"{now.port}" in one.line}


def cut(now: Scene, client: subprocess.Popen[str], kind: str) -> None:
    """End eagletui, or its link, and see that it is gone."""
    if kind == "killed":
        client.kill()
    elif kind == "sshd killed":
        mine = _connections(now)
        end_all([*(child for pid in mine for child in children_of(pid)), *mine])
    else:
        now.proxy.black_hole()
    client.communicate(timeout=60)
    if kind != "killed":
        assert client.returncode in {0, 20}, client.returncode
    now.proxy.drop()
    now.proxy.forward()


def _connections(now: Scene) -> list[int]:
    """Those of this client: what runs below them has come through its proxy."""
    ports = now.proxy.far_ports
    return [pid for pid in now.sshd.connections() if _peer_ports(pid) & ports]


def _peer_ports(pid: int) -> set[int]:
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            inodes.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[9] in inodes:
            found.add(int(words[2].split(":")[1], 16))
    return found


def whole(now: Scene, old: int) -> str:
    """Which of the three the node is in now; fails when it is none of them."""
    live, record = now.launchers(), now.record()
    assert len(live) <= 1, told(processes_of(now.user))
    if live == [old]:
        return "untouched or stopping"
    assert record is not None, "the server is gone and there is no record"
    folder = next(now.records.glob(f"*/{record['id']}"))
    assert (folder / "launch" / "argv").read_bytes().startswith(b"python3\0-m\0sglang.launch_server\0")
    if not live:
        return "stopped, startable"
    pid = int((folder / "process").read_text().split()[0])
    assert live == [pid], (live, record)
    return "new server"


def restart_cut_at(sshd: Sshd, folder: Path, step: str, kind: str) -> str:
    """One restart, cut when the record tells the step; then again, to its end. What was true in between."""
    with scene(sshd, folder, f"{step} {kind}") as now:
        (old,) = now.launchers()
        client = now.command("restart", "--yes", "--wait", "--json", "--set", "mem-fraction-static=0.5")
        order = [*STEPS, "ready"]

        def reached() -> bool:
            record = now.record()
            at = record["step"] if record is not None else None
            return client.poll() is not None or (at in order and order.index(at) >= order.index(step))

        now.until(f"the step {step}", reached)
        assert client.poll() is None, client.communicate()
        cut(now, client, kind)
        was = whole(now, old)
        time.sleep(1.5)  # what was told to end goes on ending, and what was launched goes on starting
        was = f"{was}, then {whole(now, old)}"
        for _ in range(TRIES):
            again = now.command("restart", "--yes", "--wait", "--json")
            out, error = again.communicate(timeout=LIMIT_S)
            if again.returncode != 16 or "longer than" not in error:
                break
            assert now.launchers() == [old], error  # a busy machine: a step took too long, and nothing was touched
        assert again.returncode == 0, (step, kind, was, out[-3000:], error[-3000:])
        assert now.answers()
        (new,) = now.launchers()
        assert new != old
        assert not Path(f"/tmp/eagletui-lock-{now.port}").exists()
        record = now.record()
        assert record is not None
        assert record["outcome"] == "done", record
        family = [one for one in processes_of(now.user) if f"{old}" == f"{one.session}"]
        assert family == [], told(family)
        return was


def test_whatever_cuts_a_restart_the_node_is_whole_and_the_next_one_finishes_it(
    open_folder: Path, sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path
) -> None:
    require("procfs")
    jobs = [(step, kind) for step in STEPS for kind in KINDS] if ALL else FEW
    with start_sshd(open_folder / "cut", sshd_users, ssh_key) as sshd, ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        began = time.monotonic()
        results = [(step, kind, pool.submit(restart_cut_at, sshd, tmp_path, step, kind)) for step, kind in jobs]
        stack.callback(pool.shutdown, cancel_futures=True)
        for step, kind, result in results:
            sys.stdout.write(f"\n{step:<10} {kind:<12} {result.result(LIMIT_S * len(jobs))}")
        sys.stdout.write(f"\n{len(jobs)} cuts in {time.monotonic() - began:.0f} s\n")
