"""What eagletui keeps and starts on a node, and that all of it ends: with the client, with its terminal, with its machine."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.blackhole import proxied
from tests.cli.command import run
from tests.e2e.bare_terminal import BareTerminal, bare_terminal
from tests.e2e.following import Orders, following_client
from tests.engine import STAND_IN, Engine, user_engine
from tests.node_processes import NodeProcess, end_processes_of, files_of, processes_of, seconds_until_gone, told
from tests.requires import require
from tests.sshd import Sshd, children_of, extra_user, free_port, keys_in, start_sshd

KEPT = 5
"""Processes on the node while a screen is open."""
ENDS_S = 10.0
STARTED_A_CALL = 16
"""sshd's child, the rc file's programs, dd, a subshell an argument, timeout and nvidia-smi."""
STARTED_A_LOOK = 180
"""Both scripts of a discovery: one in 15 s while a server is young, none after its first minute."""


@dataclass(slots=True)
class Node:
    """A node with a server, and an nvidia-smi that keeps a record."""

    sshd: Sshd
    user: str
    engine: Engine
    tools: Path

    @property
    def ours(self) -> list[NodeProcess]:
        """What eagletui runs there; nvidia-smi itself is one process."""
        return processes_of(self.user, without=(self.engine.session,))

    def settled(self) -> list[NodeProcess]:
        """What is kept there once nothing but streams is under way."""
        until = time.monotonic() + 10
        while len(ours := self.until(*STREAMS)) > KEPT:
            assert time.monotonic() < until, f"more than {KEPT} are kept: {told(ours)}"
            time.sleep(0.05)
        return ours

    def calls(self) -> list[str]:
        """The record of nvidia-smi: `begin KIND` and so on."""
        file = self.tools / "calls"
        return [line.rpartition(" ")[0] for line in file.read_text().splitlines()] if file.exists() else []

    def until(self, *names: str, seconds: float = 20.0) -> list[NodeProcess]:
        """Wait until each of these is in the command line of one of our processes."""
        until = time.monotonic() + seconds
        while not all(any(name in one.line for one in self.ours) for name in names):
            assert time.monotonic() < until, f"no {names} in {told(self.ours)}"
            time.sleep(0.05)
        return self.ours


def tools_in(folder: Path, **files: str) -> Path:
    """A folder of PATH with the recording nvidia-smi, and files beside it."""
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "nvidia-smi").write_text("#!/usr/bin/python3 -I\n" + (STAND_IN / "nvidia_smi.py").read_text())
    (folder / "nvidia-smi").chmod(0o755)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@contextmanager
def node(folder: Path, users: dict[str, str], key: Path, *, lines_per_s: float = 0, **files: str) -> Iterator[Node]:
    require("procfs")
    require("setsid")
    tools = tools_in(folder / "tools", **files)
    user = users["bash"]
    with (
        start_sshd(folder / "sshd", users, key, (f"SetEnv PATH={tools}:/usr/bin:/bin",)) as sshd,
        user_engine(user, Path(pwd.getpwnam(user).pw_dir), lines_per_s=lines_per_s, pace_s=0.01) as engine,
    ):
        engine.wait_for("fired up")
        seconds_until_gone(user, limit=20, without=(engine.pid,))  # of an earlier test
        try:
            yield Node(sshd, user, engine, tools)
        finally:
            end_processes_of(user, without=(engine.pid,))


def connect(node: Node, *more: str) -> list[str]:
    where = ("-F", str(node.sshd.config), "--port", str(node.engine.port))
    return [sys.executable, "-m", "eagletui", "connect", node.sshd.target("bash"), *where, *more]


STREAMS = ("poll", "tail ", "nvidia-smi")
"""One poller, one stream for the log, one for the GPUs."""


def _quits(screen: BareTerminal) -> None:
    screen.keys(b"q")


def _terminated(screen: BareTerminal) -> None:
    screen.process.send_signal(signal.SIGTERM)


def _terminal_closed(screen: BareTerminal) -> None:
    screen.close()


def _killed(screen: BareTerminal) -> None:
    screen.process.kill()


@pytest.mark.parametrize("lines_per_s", [pytest.param(0, marks=pytest.mark.slow), 2000])
def test_everything_on_the_node_ends_with_the_client(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, lines_per_s: float
) -> None:
    """However it ends, and whether the log is silent or floods: in numbers."""
    with node(open_folder, sshd_users, ssh_key, lines_per_s=lines_per_s) as there:
        files = files_of(there.user)
        figures = []
        for end in (_quits, _terminated, _terminal_closed, _killed)[2 if lines_per_s else 0 :]:
            with bare_terminal(connect(there), tmp_path) as screen:
                there.until(*STREAMS)
                during = there.settled()
                end(screen)
                took = seconds_until_gone(there.user, limit=ENDS_S, without=(there.engine.session,))
                figures.append(f"{end.__name__[1:]}: {len(during)} during, 0 after {took:.1f} s")
                screen.process.wait(10)
        print("; ".join(figures))
        left = {path for path in files_of(there.user) if path not in files and not path.startswith(str(open_folder))}
        assert not left, f"eagletui left files on the node: {left}"


def test_a_wait_leaves_nothing(tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """When its server is ready, and when it is ended or killed while it looks for one."""
    with node(open_folder, sshd_users, ssh_key) as there:
        ready = [word if word != "connect" else "wait" for word in connect(there)]
        nobody = [*ready[: ready.index("--port")], "--port", str(free_port())]
        env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {
            "HOME": str(tmp_path)
        }
        assert subprocess.run(ready, env=env, capture_output=True, timeout=60, check=False).returncode == 0
        seconds_until_gone(there.user, limit=ENDS_S, without=(there.engine.session,))
        for number in (signal.SIGTERM, signal.SIGKILL):
            client = subprocess.Popen(nobody, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                there.until("poll")
                client.send_signal(number)
                assert client.wait(10) == (143 if number == signal.SIGTERM else -9)
                seconds_until_gone(there.user, limit=ENDS_S, without=(there.engine.session,))
            finally:
                client.kill()
                client.wait(10)


def test_a_command_under_way_ends_too(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    """nvidia-smi hangs and ignores SIGTERM, and the client is killed in that moment."""
    with (
        node(open_folder, sshd_users, ssh_key, hang="apps") as there,
        bare_terminal(connect(there), tmp_path) as screen,
    ):
        there.until("query-compute-apps")
        screen.process.kill()
        took = seconds_until_gone(there.user, limit=ENDS_S, without=(there.engine.session,))
        print(f"gone after {took:.1f} s")


def test_nvidia_smi_is_asked_once_at_a_time(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    """Also while the family changes, which asks for the process table again. And P13's numbers of what is started."""
    with (
        node(open_folder, sshd_users, ssh_key) as there,
        bare_terminal(connect(there), tmp_path),
    ):
        there.until(*STREAMS)
        began, before = time.monotonic(), Counter(there.calls())
        os.kill(there.engine.children()["sglang::detokenizer"], signal.SIGKILL)
        time.sleep(12)
        calls = Counter(there.calls())
        took = time.monotonic() - began
        assert not [call for call in calls if call.startswith("overlap")], calls
        assert calls["begin query"] == calls["begin loop"] == 1, calls
        # Every 5 s; while its processes change every 2 s at most.
        assert 2 <= calls["begin apps"] - before["begin apps"] <= 1 + took / 2, calls
        print(f"in {took:.0f} s: {dict(calls)}")


@pytest.mark.parametrize(
    ("kind", "later", "shown"),
    [
        ("query", False, "0 timeout"),
        ("loop", False, "1 timeout"),
        ("apps", False, "1 timeout"),
        ("apps", True, "1 timeout"),
    ],
)
def test_a_hung_nvidia_smi_is_told_and_not_asked_again(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, kind: str, later: bool, shown: str
) -> None:
    """Over reconnects too: the one that hangs is still there."""
    with (
        node(open_folder, sshd_users, ssh_key, hang="" if later else kind) as there,
        proxied(there.sshd.port) as proxy,
    ):
        orders = Orders(
            there.sshd.target("bash").replace(str(there.sshd.port), str(proxy.port)),
            str(there.sshd.write_config("proxied", "Host *", f"  HostKeyAlias [127.0.0.1]:{there.sshd.port}")),
            str(tmp_path / "shown"),
            there.engine.port,
            constants={
                "eagletui.monitor.gpu_watch:CALL_TIMEOUT_S": 1,
                "eagletui.monitor.gpu_watch:SILENT_S": 1.5,
                "eagletui.monitor.gpu_watch:APPS_EVERY_S": 0.5,
                "eagletui.monitor.drive:CALL_TIMEOUT_S": 1,
                "eagletui.monitor.link:BACKOFF_S": [0.1],
            },
        )
        with following_client(orders) as client:
            if later:
                client.wait_for_text("G 1 None")
                (there.tools / "hang").write_text(kind)
            client.wait_for_text(f"G {shown}")
            hung = Counter(there.calls())[f"begin {kind}"]
            for _ in range(3):
                links = len([link for link in client.entries("L") if " up " in link])
                proxy.drop()
                until = time.monotonic() + 20
                while len([link for link in client.entries("L") if " up " in link]) == links:
                    assert time.monotonic() < until, client.text()
                    time.sleep(0.05)
                time.sleep(1.0)
            calls = Counter(there.calls())
            assert calls[f"begin {kind}"] == hung, f"it was asked again: {calls}"
            assert client.entries("G")[-1] == shown, client.entries("G")


def test_a_client_that_vanished_without_a_word_leaves_nothing_beyond_the_lease(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    """Its connection is never closed: only the lease can end what it left."""
    lease = 4
    with (
        node(open_folder, sshd_users, ssh_key) as there,
        proxied(there.sshd.port) as proxy,
    ):
        orders = Orders(
            there.sshd.target("bash").replace(str(there.sshd.port), str(proxy.port)),
            str(there.sshd.write_config("proxied", "Host *", f"  HostKeyAlias [127.0.0.1]:{there.sshd.port}")),
            str(tmp_path / "shown"),
            there.engine.port,
            constants={
                "eagletui.shell.scripts:LEASE_S": lease,
                "eagletui.monitor.monitor:RENEW_S": lease - 1,
                "eagletui.monitor.gpu_watch:RETRY_S": 1,
            },
        )
        with following_client(orders) as client:
            there.until(*STREAMS)
            time.sleep(lease + 1.0)
            during = there.settled()  # it renewed its lease
            proxy.black_hole()
            client.process.kill()
            client.process.wait(10)
            took = seconds_until_gone(there.user, limit=lease + 5, without=(there.engine.session,))
            print(f"{len(during)} during, 0 after {took:.1f} s with a lease of {lease} s")
            assert took > 0.5, "they ended by something else than the lease"


def named_like_a_server(model: dict[str, Any]) -> set[int]:
    """Every pid that a status object takes for an engine's."""
    members = {member["pid"] for server in model["servers"] for member in server["family"]}
    launchers = {server["pid"] for server in model["servers"]}
    return members | launchers | {orphan["pid"] for orphan in model["orphans"]}


@pytest.mark.parametrize("where", ["ssh", pytest.param("local", marks=pytest.mark.slow)])
def test_nothing_of_ours_is_taken_for_a_server(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, where: str
) -> None:
    """Looked at from a second eagletui, while a first one follows a log whose name, in a home whose name, is a launch command."""
    require("procfs")
    home = open_folder / "python3 -m sglang.launch_server --port 30000"
    home.mkdir()
    log = home / "vllm serve sglang::scheduler_TP0"
    log.write_text("some line\n")
    tools = tools_in(open_folder / "tools")
    with extra_user("named", "-M", "-d", str(home)) as user:
        shutil.chown(home, user)
        options = (keys_in(open_folder / "keys", ssh_key, user), f"SetEnv PATH={tools}:/usr/bin:/bin")
        with start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as sshd:
            target = ["local"] if where == "local" else [f"{user}@127.0.0.1:{sshd.port}", "-F", str(sshd.config)]
            typed = [sys.executable, "-m", "eagletui", "connect", *target, "--port", "30000", "--log", str(log)]
            # A wrapper has the whole command in one word, as `ssh -t node 'eagletui …'` and tmux have.
            with bare_terminal(["sh", "-c", f"{shlex.join(typed)}; true"], tmp_path) as screen:
                until = time.monotonic() + 20
                while len(ours := family_of(screen.process.pid) | {one.pid for one in processes_of(user)}) < 4:
                    assert time.monotonic() < until, ours
                    time.sleep(0.05)
                for _ in range(4):
                    done = run(tmp_path, "status", *target, "--json")
                    ours |= family_of(screen.process.pid) | {one.pid for one in processes_of(user)}
                    model = json.loads(done.stdout)
                    assert model["link"]["state"] == "up"
                    assert not named_like_a_server(model) & ours, model["servers"]
                    assert not [server for server in model["servers"] if server["user"] == user], model["servers"]


def family_of(pid: int) -> set[int]:
    """A process and all below it."""
    return {pid} | {below for child in children_of(pid) for below in family_of(child)}


def started_in(namespace: int) -> int:
    """How many processes and threads a pid namespace has started so far; the look itself is one more."""
    said = subprocess.run(
        ["nsenter", "-t", str(namespace), "-p", "-m", "cat", "/proc/loadavg"],
        capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    return int(said.stdout.split()[4])


def test_a_quiet_tick_starts_nothing_on_the_node(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    """The kernel's own count, in a pid namespace that holds nothing but sshd and a server: exact, whoever else works here."""
    require("procfs")
    unshare = (require("unshare"), "--pid", "--fork", "--mount-proc", "--kill-child")
    require("nsenter")
    if subprocess.run([*unshare, "true"], capture_output=True, check=False, timeout=10).returncode:
        pytest.skip("a pid namespace of its own is not permitted here")
    tools, port, user = tools_in(open_folder / "tools"), free_port(), sshd_users["bash"]
    home = Path(pwd.getpwnam(user).pw_dir)
    shutil.copytree(STAND_IN, home / "engine", dirs_exist_ok=True)
    options = (f"SetEnv PATH={tools}:/usr/bin:/bin",)
    with start_sshd(open_folder / "sshd", sshd_users, ssh_key, options, prefix=unshare) as sshd:
        server = (
            "cd; LINES_PER_S=0 PACE_S=0.01 PYTHONPATH=engine exec setsid --fork python3 -m sglang.launch_server "
            f"--model-path /models/tiny --port {port} </dev/null >server.log 2>&1"
        )
        ssh = ("ssh", "-F", str(sshd.config), "-p", str(sshd.port), f"{user}@127.0.0.1")
        subprocess.run([*ssh, server], check=True, capture_output=True, timeout=20)
        [launcher] = [one for one in processes_of(user) if "sglang.launch_server" in one.line]
        there = Node(sshd, user, Engine(sshd.process, port, home / "server.log", launcher.session), tools)
        there.engine.wait_for("fired up")
        [namespace] = sshd.connections()
        with bare_terminal(connect(there), tmp_path):
            there.until(*STREAMS)
            time.sleep(3)
            quiet: list[int] = []
            while quiet.count(0) < 2:
                wait_for_next(there, "end apps")
                time.sleep(0.7)
                before, calls = started_in(namespace), len(there.calls())
                time.sleep(3.5)
                started = started_in(namespace) - before - 1
                if not there.calls()[calls:]:
                    quiet.append(started)
                # A young server is looked at anew every 15 s.
                assert len(quiet) < 5, f"processes started in 3.5 s each of a quiet screen: {quiet}"
            before, began = started_in(namespace), time.monotonic()
            apps = there.calls().count("begin apps")
            time.sleep(10.5)
            started, took = started_in(namespace) - before - 1, time.monotonic() - began
            asked = there.calls().count("begin apps") - apps
            print(
                f"{quiet} started in 3.5 s each; in {took:.1f} s {started}, for {asked} calls: {60 * started / took:.0f} a minute"
            )
            assert 2 <= asked <= 3
            assert started <= asked * STARTED_A_CALL + STARTED_A_LOOK


def wait_for_next(there: Node, what: str) -> None:
    """Until the record of nvidia-smi has one more of these."""
    until, before = time.monotonic() + 15, there.calls().count(what)
    while there.calls().count(what) == before:
        assert time.monotonic() < until, there.calls()
        time.sleep(0.02)
