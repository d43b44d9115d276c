"""What breaks on a real node, and how the monitor bears it: each fault is told in a sentence, and what ends is gone on with."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from eagletui.errors import ChannelError
from eagletui.monitor import monitor as monitor_module
from eagletui.monitor import poller
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.snapshot import Snapshot
from eagletui.nodes import session
from eagletui.nodes.channels import SshPipes
from eagletui.nodes.ssh import SshNode
from eagletui.servers.model import State
from tests.blackhole import proxied
from tests.cli.command import run
from tests.engine import engine_of_user
from tests.gpus.stand_ins import DATA, build
from tests.node_processes import seconds_until_gone
from tests.requires import require
from tests.shell.sh import applets
from tests.sshd import Sshd, children_of, start_sshd
from tests.watching import running, texts, until


class CountingNode(SshNode):
    """Counts the sessions that its sshd refused."""

    refused = 0

    async def _open_pipes(self, line: str) -> SshPipes:
        try:
            return await super()._open_pipes(line)
        except ChannelError:
            self.refused += 1
            raise


def home_of(sshd: Sshd, shell: str = "bash") -> Path:
    return Path(pwd.getpwnam(sshd.user(shell)).pw_dir)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "TASK_RETRY_S", 1.0)


@pytest.fixture(autouse=True)
def needs() -> None:
    require("procfs")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3, for a user that may not see ours")


@asynccontextmanager
async def watching(
    sshd: Sshd, port: int | None, node: SshNode | None = None, *, log: Path | None = None
) -> AsyncIterator[NodeMonitor]:
    node = node or SshNode(sshd.target("bash"), config_file=sshd.config)
    monitor = NodeMonitor(node, port=port, log_path=None if log is None else str(log))
    async with running(monitor):
        yield monitor


def ready(snapshot: Snapshot) -> bool:
    return snapshot.verdict.state is State.READY and snapshot.family_alive == 4 and snapshot.health.status == 200


def note_of(snapshot: Snapshot, word: str) -> str:
    return next((note for note in snapshot.notes if word in note), "")


# Few sessions


@pytest.mark.parametrize("sessions", [1, pytest.param(2, marks=pytest.mark.slow), 3])
async def test_few_sessions(sessions: int, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """Everything is seen, less often where there is no session for it, and a note says so."""
    tools = build(open_folder / "tools", (DATA / "cases/02-healthy-one-gpu-idle/gpus.txt").read_text())
    options = (f"MaxSessions {sessions}", f"SetEnv PATH={tools}:/usr/bin:/bin")
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, _),
    ):
        node = CountingNode(sshd.target("bash"), config_file=sshd.config)
        async with watching(sshd, port, node) as monitor:
            await until(monitor, lambda s: ready(s) and s.log.following and s.throughput.source == "log", 60)
            # What there is no session for is learned one by one.
            words = ["the GPUs are asked every 5 s", *(["the log is read every 1 s"] if sessions < 3 else [])]
            words += ["processes are looked at every 2 s"] if sessions < 2 else []
            snapshot = await until(monitor, lambda s: all(note_of(s, word) for word in words), 60)
            note = note_of(snapshot, "the GPUs are asked every 5 s")
            assert "Raise MaxSessions in its sshd_config" in note
            # On a slow machine a session that is just ending may be taken for one that there is not.
            known = next(
                n for n in range(1, sessions + 1) if ("one session at" if n == 1 else f"{n} sessions at") in note
            )
            assert ("processes are looked at every 2 s" in note) == (known == 1)
            assert ("the log is read every 1 s" in note) == (known < 3)
            refused, lines = node.refused, snapshot.log.store.end
            asked = snapshot.gpus.at or 0.0
            await until(monitor, lambda s: s.log.store.end >= lines + 5 and (s.gpus.at or 0) > asked)
            os.kill(rank_of(port), signal.SIGKILL)
            snapshot = await until(monitor, lambda s: s.verdict.state is State.CRASHED, 15)
            assert snapshot.link.state == "up"
            assert len(snapshot.gpus.report.gpus) == 1
            await asyncio.sleep(2)
        print("REFUSED", refused, node.refused)
        assert 0 < refused < 40
        assert node.refused - refused <= 10, "refused sessions are tried again and again"


def rank_of(port: int) -> int:
    """The second rank of the stand-in that listens there."""
    launcher = next(
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if (words := read(path).split(b"\0"))[-3:-1] == [b"--tp", b"2"] and str(port).encode() in words
    )
    return next(pid for pid in children_of(launcher) if b"TP1" in read(Path(f"/proc/{pid}/cmdline")))


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("sessions", [1, 2])
def test_status_with_few_sessions(
    sessions: int, tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    with (
        start_sshd(open_folder, sshd_users, ssh_key, (f"MaxSessions {sessions}",)) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, log),
    ):
        done = run(tmp_path, "status", sshd.target("bash"), "-F", str(sshd.config), "--json", "--port", str(port))
    assert done.returncode in (0, 10), done.stderr
    server = json.loads(done.stdout)["servers"][0]
    assert (server["port"], server["log"]) == (port, str(log))
    assert server["health"]["status"] in (200, 503)


# Forwarding


@pytest.mark.parametrize("options", [("AllowTcpForwarding no",), ("PermitOpen none", "MaxSessions 1")])
async def test_forwarding_forbidden(
    options: tuple[str, ...], tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    """Health and metrics come by curl on the node, on the screen and in `status`."""
    require("curl")
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, log),
    ):
        async with watching(sshd, port) as monitor:
            snapshot = await until(monitor, ready, 60)
            assert snapshot.health.detail == "asked by curl on the node, since its sshd forbids forwarding"
            assert snapshot.health.latency_ms is not None
        log.chmod(0o600)  # as root's: the figures come by /metrics then
        os.chown(log, 0, 0)
        done = run(tmp_path, "status", sshd.target("bash"), "-F", str(sshd.config), "--json", "--port", str(port))
    assert done.returncode == 0, done.stderr
    server = json.loads(done.stdout)["servers"][0]
    assert (server["health"]["status"], server["health"]["error"]) == (200, None)
    assert server["throughput"]["gen_tok_s"] == 81.5


def test_a_forced_command_is_a_sentence(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    with start_sshd(open_folder, sshd_users, ssh_key, ("ForceCommand echo only backups here",)) as sshd:
        done = run(tmp_path, "status", sshd.target("bash"), "-F", str(sshd.config), "--json")
    assert done.returncode == 20
    assert "only backups here. Check" in json.loads(done.stdout)["link"]["error"]


# The link


async def test_too_many_logins_under_way(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """MaxStartups: sshd drops the connection before its banner. It is told, and tried again."""
    with start_sshd(open_folder, sshd_users, ssh_key, ("MaxStartups 1",)) as sshd:
        end = time.monotonic() + 10
        while sshd.connections():  # whoever asked whether it listens
            assert time.monotonic() < end
            await asyncio.sleep(0.05)
        async with watching(sshd, None) as monitor:
            await until(monitor, lambda s: s.discovered)
            sshd.send_since(set(), signal.SIGKILL)
            with socket.create_connection(("127.0.0.1", sshd.port), timeout=10) as busy:
                busy.recv(100)  # its banner: it has the only place from now on
                down = await until(monitor, lambda s: "MaxStartups" in (s.link.error or ""))
                assert "before the login" in (down.link.error or "")
            await until(monitor, lambda s: s.link.state == "up", 60)


async def test_sshd_restarted(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    with (
        start_sshd(open_folder, sshd_users, ssh_key) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, _),
    ):
        async with watching(sshd, port) as monitor:
            await until(monitor, ready, 60)
            sshd.restart()
            down = await until(monitor, lambda s: s.link.state != "up")
            assert down.verdict.state is State.OFFLINE
            assert down.log.store.end > 5  # what was read stays
            await until(monitor, lambda s: s.link.state == "up" and ready(s), 60)


async def test_the_listener_alone_is_restarted(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """As by `systemctl restart ssh`: what is connected stays."""
    with start_sshd(open_folder, sshd_users, ssh_key) as sshd:
        async with watching(sshd, None) as monitor:
            before = await until(monitor, lambda s: s.discovered)
            connections = sshd.connections()
            try:
                sshd.process.kill()
                sshd.process.wait(10)
                await until(monitor, lambda s: len(s.link.latencies) >= len(before.link.latencies) + 2)
                assert monitor.snapshot().link.state == "up"
            finally:
                for pid in connections:
                    os.kill(pid, signal.SIGKILL)


async def test_sshd_away_for_a_while(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    with start_sshd(open_folder, sshd_users, ssh_key) as sshd:
        async with watching(sshd, None) as monitor:
            await until(monitor, lambda s: s.discovered)
            connections = sshd.connections()
            sshd.process.kill()
            for pid in connections:
                os.kill(pid, signal.SIGKILL)
            down = await until(monitor, lambda s: "refused" in (s.link.error or ""))
            assert str(sshd.port) in (down.link.error or "")
            sshd.restart()
            await until(monitor, lambda s: s.link.state == "up", 60)


async def test_the_host_was_rebooted(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """Behind the same name stands a machine with another boot id and other processes. The port answers still: that is another server's business."""
    boot_id = open_folder / "boot_id"
    boot_id.write_text("00000000-1111-2222-3333-444444444444\n")
    other = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
    prefix = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", other, str(boot_id))
    with (
        start_sshd(open_folder / "old", sshd_users, ssh_key) as old,
        start_sshd(open_folder / "new", sshd_users, ssh_key, prefix=prefix) as new,
        engine_of_user(old.user("bash"), home_of(old)) as (port, _),
        proxied(old.port) as proxy,
    ):
        config = config_of(open_folder, ssh_key, (proxy.port, old), (proxy.port, new))
        node = SshNode(f"{old.user('bash')}@127.0.0.1:{proxy.port}", config_file=config)
        async with watching(old, port, node) as monitor:
            await until(monitor, ready, 60)
            proxy.upstream = new.port
            proxy.drop()
            here = os.getpid()
            await until(
                monitor, lambda s: s.link.state == "up" and here not in {p.pid for p in s.inventory.processes}, 60
            )
            seen = await until(monitor, lambda s: s.verdict.state in (State.CRASHED, State.ABSENT))
            assert not seen.family_alive
            assert seen.inventory.servers == ()
            await asyncio.sleep(1.5)
            assert monitor.snapshot().verdict.state in (State.CRASHED, State.ABSENT)


def config_of(folder: Path, key: Path, *known: tuple[int, Sshd], lines: tuple[str, ...] = ()) -> Path:
    """An ssh configuration that knows these servers' host keys at these ports."""
    names = folder / "known"
    names.write_text(
        "".join(
            f"[127.0.0.1]:{port} {' '.join(Path(f'{key}.pub').read_text().split()[:2])}\n"
            for port, sshd in known
            for key in sshd.host_keys.values()
        )
    )
    config = folder / "config"
    settings = (
        f"UserKnownHostsFile {names}",
        "GlobalKnownHostsFile /dev/null",
        f"IdentityFile {key}",
        "IdentityAgent none",
        "IdentitiesOnly yes",
    )
    config.write_text("\n".join((*lines, "Host *", *(f"  {line}" for line in settings))) + "\n")
    return config


async def test_a_jump_host_is_lost(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    with (
        start_sshd(open_folder / "jump", sshd_users, ssh_key) as jump,
        start_sshd(open_folder / "inner", sshd_users, ssh_key) as inner,
    ):
        user = inner.user("bash")
        lines = (
            "Host inner",
            f"  HostName 127.0.0.1\n  Port {inner.port}\n  User {user}",
            "  ProxyJump bastion",
            "Host bastion",
            f"  HostName 127.0.0.1\n  Port {jump.port}\n  User {user}",
        )
        config = config_of(open_folder, ssh_key, (jump.port, jump), (inner.port, inner), lines=lines)
        async with watching(inner, None, SshNode("inner", config_file=config)) as monitor:
            await until(monitor, lambda s: s.discovered and s.link.latency_ms)
            files, children = open_files(), children_of(os.getpid())
            began = time.monotonic()
            jump.send_since(set(), signal.SIGKILL)
            down = await until(monitor, lambda s: s.link.state != "up", 10)
            assert time.monotonic() - began < 5
            assert "bastion" in (down.link.error or "")
            await until(monitor, lambda s: s.link.state == "up" and s.link.at != down.link.at, 60)
            await until(monitor, lambda _: len(jump.connections()) == len(inner.connections()) == 1)
            await until(monitor, lambda _: open_files() <= files + 1)
            assert children_of(os.getpid()) == children


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_pollers_shell_is_frozen(sshd_server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "ANSWER_TIMEOUT_S", 2.0)
    uid = pwd.getpwnam(sshd_server.user("bash")).pw_uid

    def shells() -> list[int]:
        return [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if read(path).endswith(b"\0poll\0") and path.parent.stat().st_uid == uid
        ]

    async with watching(sshd_server, None) as monitor:
        await until(monitor, lambda s: s.discovered)
        frozen = shells()
        assert frozen
        try:
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            down = await until(monitor, lambda s: s.link.state != "up", 10)
            assert "the node's shell did not answer for 2 s" in (down.link.error or "")
            await until(monitor, lambda s: s.link.state == "up" and set(shells()) - set(frozen), 30)
        finally:
            for pid in frozen:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        await until(monitor, lambda _: not set(shells()) & set(frozen), 10)


# Disks


@contextmanager
def small_disk(folder: Path, size: str, user: str) -> Iterator[Path]:
    """A file system of its own in a folder that anybody may write."""
    folder.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=777,uid={user}", "tests", str(folder)],
        capture_output=True, timeout=20, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("needs to be allowed to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, timeout=20)


def fill(folder: Path) -> Path:
    """A file that takes all the room there is."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(OSError, match="No space"):
        (folder / "one more").write_text("x")
    (folder / "one more").unlink(missing_ok=True)
    return path


async def test_the_logs_disk_is_full(sshd_server: Sshd, open_folder: Path) -> None:
    """The log stops growing, which is seen, and is followed on when there is room again."""
    user = sshd_server.user("bash")
    with (
        small_disk(open_folder / "disk", "64k", user) as disk,
        engine_of_user(user, home_of(sshd_server), pace_s=60) as (port, _),
    ):
        log = disk / "own.log"
        log.write_text("the first line\n")
        async with watching(sshd_server, port, log=log) as monitor:
            await until(monitor, lambda s: "the first line" in texts(s) and s.log.following)
            filler = fill(disk)
            with log.open("ab", buffering=0) as file, suppress(OSError):
                while file.write(b"a line that may find no room\n"):
                    pass
            full = monitor.snapshot()
            assert full.log.error is None
            filler.unlink()
            with log.open("a") as file:
                file.write("\nroom again\n")
            snapshot = await until(monitor, lambda s: "room again" in texts(s))
            assert texts(snapshot).count("room again") == 1
            assert snapshot.link.state == "up"


@pytest.mark.parametrize("shell", ["bash", "dash", "fish", "tcsh"])
def test_a_full_home(shell: str, tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """Nothing of ours writes on the node."""
    require(shell)
    user = sshd_users[shell]
    keys = open_folder / "keys"
    keys.write_text(Path(f"{ssh_key}.pub").read_text())
    place = open_folder / "place"
    place.mkdir(mode=0o755)
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, (f"AuthorizedKeysFile {keys}",)) as sshd,
        engine_of_user(user, place) as (port, log),
        small_disk(home_of(sshd, shell), "16k", user) as home,
    ):
        fill(home)
        done = run(tmp_path, "status", sshd.target(shell), "-F", str(sshd.config), "--json", "--port", str(port))
    assert done.returncode in (0, 10), done.stderr
    server = json.loads(done.stdout)["servers"][0]
    assert (server["port"], server["log"]) == (port, str(log))


def test_a_full_tmp(tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path) -> None:
    """In a mount namespace of its sshd, so that nobody else's /tmp is."""
    require("unshare")
    fills = 'mount -t tmpfs -o size=16k,mode=1777 tests /tmp && ! cat /dev/zero >/tmp/filler 2>/dev/null && exec "$@"'
    with (
        TemporaryDirectory(dir="/var/tmp") as folder,
        start_sshd(
            Path(folder, "sshd"), sshd_users, ssh_key, prefix=("unshare", "--mount", "sh", "-c", fills, "sh")
        ) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, log),
    ):
        full = subprocess.run(
            ["nsenter", "-t", str(sshd.process.pid), "-m", "sh", "-c", "echo x >/tmp/more"],
            capture_output=True, timeout=20, check=False,
        )  # fmt: skip
        assert b"No space" in full.stderr or b"I/O error" in full.stderr
        done = run(tmp_path, "status", sshd.target("bash"), "-F", str(sshd.config), "--json", "--port", str(port))
    assert done.returncode in (0, 10), done.stderr
    assert json.loads(done.stdout)["servers"][0]["log"] == str(log)


async def test_a_full_disk_here(sshd_server: Sshd, open_folder: Path) -> None:
    """The host key cannot be stored: the connection goes on all the same."""
    with small_disk(open_folder / "disk", "16k", "root") as disk:
        fill(disk)
        config = sshd_server.write_config(
            "full", "Host *", f"  UserKnownHostsFile {disk}/known_hosts", "  StrictHostKeyChecking accept-new"
        )
        node = SshNode(sshd_server.target("bash"), config_file=config)
        async with watching(sshd_server, None, node) as monitor:
            await until(monitor, lambda s: s.discovered)


# Shells


async def test_an_rc_file_that_takes_five_seconds(sshd_server: Sshd) -> None:
    rc = home_of(sshd_server) / ".bashrc"
    kept = rc.read_text()
    rc.write_text("echo slow; sleep 5\n")
    try:
        with engine_of_user(sshd_server.user("bash"), home_of(sshd_server)) as (port, _):
            async with watching(sshd_server, port) as monitor:
                snapshot = await until(monitor, lambda s: s.family_alive == 4, 60)
                assert snapshot.link.state == "up"
    finally:
        rc.write_text(kept)


async def test_an_rc_file_that_never_ends(sshd_server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link is not taken for lost."""
    monkeypatch.setattr(session, "START_SECONDS", 3.0)
    monkeypatch.setattr(poller, "ANSWER_TIMEOUT_S", 1.0)
    rc = home_of(sshd_server) / ".bashrc"
    kept = rc.read_text()
    rc.write_text("echo waiting; sleep 3600\n")
    try:
        async with watching(sshd_server, None) as monitor:
            snapshot = await until(monitor, lambda s: note_of(s, "processes: the login shell"))
            assert "did not begin our script in 3 s; it said: waiting" in note_of(
                snapshot, "processes: the login shell"
            )
            assert snapshot.link.state == "up"
        await asyncio.to_thread(seconds_until_gone, sshd_server.user("bash"), limit=5)
    finally:
        rc.write_text(kept)


@pytest.mark.parametrize("program", ["/bin/false", "/usr/sbin/nologin"])
async def test_no_login_shell(program: str, tmp_path: Path, sshd_server: Sshd) -> None:
    require("dash")
    user = sshd_server.user("dash")
    kept = pwd.getpwnam(user).pw_shell
    subprocess.run(["usermod", "-s", program, user], check=True, timeout=20)
    try:
        done = run(tmp_path, "status", sshd_server.target("dash"), "-F", str(sshd_server.config), "--json")
        assert done.returncode == 20
        assert "Traceback" not in done.stderr
        told = json.loads(done.stdout)["link"]["error"]
        assert "login shell" in told
        assert "exit status 1" in told
        node = SshNode(sshd_server.target("dash"), config_file=sshd_server.config)
        async with watching(sshd_server, None, node) as monitor:
            snapshot = await until(monitor, lambda s: note_of(s, "processes: the login shell"))
            assert snapshot.link.state == "up"
            assert (snapshot.verdict.state, snapshot.verdict.reason.code) == (State.UNKNOWN, "unreadable")
            assert "login shell" in snapshot.verdict.reason.text
    finally:
        subprocess.run(["usermod", "-s", kept, user], check=True, timeout=20)


async def test_a_node_that_has_busybox_only(sshd_users: dict[str, str], ssh_key: Path, open_folder: Path) -> None:
    """Neither setsid nor GNU's timeout, tail and grep, nor curl, nor nvidia-smi."""
    busybox = require("busybox")
    programs = open_folder / "bin"
    programs.mkdir()
    for name in applets(busybox):
        if name != "setsid":
            (programs / name).symlink_to(busybox)
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, (f"SetEnv PATH={programs}",)) as sshd,
        engine_of_user(sshd.user("bash"), home_of(sshd)) as (port, _),
    ):
        async with watching(sshd, port) as monitor:
            snapshot = await until(monitor, lambda s: ready(s) and s.throughput.source == "log", 60)
            lines = snapshot.log.store.end
            await until(monitor, lambda s: s.log.store.end > lines)
            snapshot = await until(monitor, lambda s: s.gpus.report.error)
            assert snapshot.gpus.report.error is not None
            assert snapshot.gpus.report.error.code == "no-tool"
            os.kill(rank_of(port), signal.SIGKILL)
            await until(monitor, lambda s: s.verdict.state is State.CRASHED, 15)
