"""Steps 2, 3 and 5 with real processes: a server that misbehaves is followed to its last member, and everybody else lives on."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from eagletui.errors import OvertakenError, StopFailedError
from eagletui.launching import stop as stopping
from eagletui.launching.acting import Acting
from eagletui.launching.identify import Identified, identify
from eagletui.launching.leftovers import clean, ports_of
from eagletui.launching.lock import Lock, new_fence
from eagletui.launching.stop import Stopped, stop, watch_for_return
from eagletui.nodes.local import LocalNode
from eagletui.nodes.ssh import SshNode
from eagletui.servers.family import Identity
from eagletui.servers.record import Record
from eagletui.servers.targets import Target
from eagletui.shell.script import Command
from eagletui.shell.signals import ask_signal, parse_signal
from tests.requires import require
from tests.sshd import Sshd, children_of, free_port
from tests.unruly import Unruly, command_of, lives, started_of, unruly, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps in the same order, sooner."""
    monkeypatch.setattr(stopping, "KILL_AFTER_TERM_S", 0.6)
    monkeypatch.setattr(stopping, "STOP_AFTER_KILL_S", 1.5)
    monkeypatch.setattr(stopping, "POLL_S", 0.2)


class Here:
    """Acting on this machine with a port's lock. `ran`: commands; `told`: what was told."""

    def __init__(self, port: int, *, dry: bool = False) -> None:
        self.ran: list[Command] = []
        self.told: list[str] = []
        self.acting = Acting(
            LocalNode(), new_fence((port,)), tell=lambda text, _: self.told.append(text), ran=self.ran.append, dry=dry
        )

    @property
    def signals(self) -> list[tuple[str, ...]]:
        """NAME and the pids of each command that signalled."""
        sent = [[str(word) for word in one.args] for one in self.ran if one.script.name == "signal"]
        return [(words[2], *(pair.partition(":")[0] for pair in words[4:])) for words in sent]


@asynccontextmanager
async def here(port: int, *, dry: bool = False) -> AsyncIterator[Here]:
    place = Here(port, dry=dry)
    async with Lock(place.acting, who="me@here"):
        yield place
    if not dry:
        assert not Path(f"/tmp/eagletui-lock-{port}").exists()


async def stopped(place: Here, port: int, **how: object) -> tuple[Identified, Stopped]:
    found = await identify(place.acting.node, port=port)
    assert found.target is not None
    assert not found.refusals
    return found, await stop(place.acting, found.target, **how)  # type: ignore[arg-type]


def children(server: Unruly) -> list[int]:
    return sorted(children_of(server.pid))


async def test_a_server_that_ends_by_itself_is_told_once(tmp_path: Path) -> None:
    """And a dry run before names every signal that might be sent, and sends none."""
    with unruly(tmp_path, "drains=0.7") as server:
        server.wait_for()
        below = children(server)
        async with here(server.port, dry=True) as place:
            await stopped(place, server.port)
            told = [
                (name, sorted(map(int, pids))) for name, *pids in place.signals
            ]  # a child's pid may be the smaller one
            everybody = sorted([server.pid, *below])
            assert told == [("TERM", [server.pid]), ("TERM", below), ("KILL", everybody)]
            assert not Path(f"/tmp/eagletui-lock-{server.port}").exists()
        assert lives(server.pid)
        assert children(server) == below
        async with here(server.port) as place:
            found, done = await stopped(place, server.port, requests=lambda: 3)
            assert [process.pid for process in found.members] == [server.pid, *below]
            assert (found.server is not None and found.server.port, found.kept.kind) == (server.port, "script")
            assert place.signals == [("TERM", str(server.pid))]
            assert not any(lives(pid) for pid in (server.pid, *below))
            assert (done.ended, done.killed, {pid for pid, _ in done.members}) == (4, (), {server.pid, *below})
            assert done.drained_s is not None
            assert done.drained_s > 0.5
            assert any("3 requests running" in text for text in place.told)
            again = await identify(place.acting.node, port=server.port)
            assert (again.members, again.refusals, again.target) == ((), (), None)
            assert "no server runs" in again.notes[0]


@pytest.mark.parametrize(
    ("words", "grace_s", "hurried", "killed"),
    [
        ("drains=60", 0.5, False, 1),
        ("drains=60", 0.0, True, 1),
        ("leaves-orphans leaves-shm", 30.0, False, 0),
        ("leaves-orphans children-ignore-term forks-late leaves-shm", 30.0, False, 4),
    ],
)
async def test_whatever_a_server_does_nobody_of_it_is_left(
    words: str, grace_s: float, hurried: bool, killed: int, tmp_path: Path
) -> None:
    """Draining beyond its grace, hurried by `k`, leaving orphans that ignore SIGTERM, forking when it is told to end."""
    with unruly(tmp_path, words) as server:
        server.wait_for()
        everybody = {server.pid, *children(server)}
        seen: list[frozenset[Identity]] = []

        async def note(members: frozenset[Identity]) -> None:
            seen.append(members)

        hurry = asyncio.Event()
        async with here(server.port) as place:
            if hurried:
                asyncio.get_running_loop().call_later(1.0, hurry.set)
            found, done = await stopped(place, server.port, grace_s=grace_s, stop_now=hurry, seen=note)
            gone = {pid for pid, _ in done.members}
            assert everybody <= gone
            assert (len(gone) > len(everybody)) == ("forks-late" in words)
            assert ("forks-late" in words) == bool(seen)
            assert not any(lives(pid) for pid in gone)
            assert len(done.killed) == killed
            assert place.signals[0] == ("TERM", str(server.pid)), "to the launcher alone"
            assert found.target is not None
            cleaned = await clean(
                place.acting, found.target, done.members, ports=ports_of(found.target.command, server.port)
            )
            left = Path(f"/dev/shm/sgl_shm_{server.pid}")
            assert not left.exists()
            assert (str(left) in cleaned.removed) == ("leaves-shm" in words or killed > 0)


SCRIPT = """#!/bin/bash
sleep 301 &
{server} >server.log 2>&1 &
echo $! >server.pid
sleep 302 &
(while true; do sleep 303; done) &
echo $$ >script.pid
wait
"""


def ended(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def environment(folder: Path) -> Iterator[dict[str, str]]:
    yield {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parent.parent / "stand_in" / "unruly"), "UNRULY": "slow=0.1",
        "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder), "TERM": "xterm",
    }  # fmt: skip


def in_session(session: int) -> set[int]:
    """Everybody of a session who lives."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.add(int(path.parent.name))
    return found


async def test_a_scripts_other_jobs_live_on(tmp_path: Path) -> None:
    """One script starts a server, and beside it long jobs and an endless loop, all in its own group and session."""
    port = free_port()
    (tmp_path / "run.sh").write_text(SCRIPT.format(server=" ".join(command_of(port))))
    with environment(tmp_path) as env:
        script = subprocess.Popen(["bash", "run.sh"], cwd=tmp_path, env=env, start_new_session=True)
    try:
        log = tmp_path / "server.log"
        wait_until(lambda: log.exists() and "fired up" in log.read_text(), "the server never came up")
        launcher = int((tmp_path / "server.pid").read_text())
        family = {launcher, *children_of(launcher)}
        others = in_session(script.pid) - family
        assert len(others) >= 5
        async with here(port) as place:
            found, done = await stopped(place, port)
            assert found.kept.kind == "script"
            assert found.kept.name == "run.sh"
            assert {pid for pid, _ in done.members} == family
            assert await watch_for_return(place.acting, target_of(found), done.members, 0.3) is None
        assert in_session(script.pid) == others
    finally:
        ended(in_session(script.pid))
        script.wait(10)


def target_of(found: Identified) -> Target:
    assert found.target is not None
    return found.target


async def test_a_loop_that_starts_it_again_is_seen(tmp_path: Path) -> None:
    port = free_port()
    text = f"while true; do {' '.join(command_of(port))} >>server.log 2>&1; done"
    with environment(tmp_path) as env:
        loop = subprocess.Popen(["bash", "-c", text], cwd=tmp_path, env=env, start_new_session=True)
    try:
        log = tmp_path / "server.log"
        wait_until(lambda: log.exists() and "fired up" in log.read_text(), "the server never came up")
        async with here(port) as place:
            found = await identify(place.acting.node, port=port)
            assert (found.kept.kind, found.kept.pid) == ("script", loop.pid)
            target = target_of(found)
            done = await stop(place.acting, target)
            again = await watch_for_return(place.acting, target, done.members, 10.0)
            assert again is not None
            assert again.port == port
            assert (again.pid, again.launcher.started) != target.identity
            assert loop.poll() is None
    finally:
        ended({loop.pid})
        ended(in_session(loop.pid))
        loop.wait(10)


async def test_a_second_job_in_a_tmux_pane_lives_on(tmp_path: Path) -> None:
    """The server runs in the foreground of an interactive shell that has a job in the background; tmux and the shell stay."""
    tmux = require("tmux")
    port = free_port()
    where = tmp_path / "tmux"
    with environment(tmp_path) as env:

        def ask(*words: str) -> str:
            return subprocess.run(
                [tmux, "-f", "/dev/null", "-S", str(where), *words],
                check=True,
                env=env,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=20,
            ).stdout

        try:
            ask("new-session", "-d", "-x", "200", "-y", "50", "bash", "--norc")
            shell, server = (int(ask("display-message", "-p", what)) for what in ("#{pane_pid}", "#{pid}"))
            ask("send-keys", f"sleep 304 & {' '.join(command_of(port))} >server.log 2>&1", "Enter")
            log = tmp_path / "server.log"
            wait_until(lambda: log.exists() and "fired up" in log.read_text(), "the server never came up")
            job = next(pid for pid in children_of(shell) if b"304" in Path(f"/proc/{pid}/cmdline").read_bytes())
            async with here(port) as place:
                found, done = await stopped(place, port)
                assert (found.kept.kind, found.kept.name) == ("shell", "bash")
                assert not any(lives(pid) for pid, _ in done.members)
            assert lives(shell)
            assert lives(job)
            assert lives(server)
        finally:
            with suppress(subprocess.CalledProcessError):
                ask("kill-server")


async def test_namesakes_of_another_user_are_not_touched_and_their_server_is_refused(
    tmp_path: Path, sshd_users: dict[str, str]
) -> None:
    """As root, who could: the same command of another user, and one that the server itself started as that user."""
    require("root")
    user = next(iter(sshd_users.values()))
    home = Path(pwd.getpwnam(user).pw_dir) / "unruly"
    home.mkdir(exist_ok=True)
    shutil.chown(home, user, user)
    with unruly(home, user=user) as theirs, unruly(tmp_path) as ours:
        theirs.wait_for()
        ours.wait_for()
        before = children(theirs)
        async with here(theirs.port) as place:
            found = await identify(place.acting.node, port=theirs.port)
            assert [one.code for one in found.refusals] == ["another-user"]
            assert user in found.refusals[0].text
            assert found.target is not None
            done = await stop(place.acting, found.target)
            assert (done.ended, place.signals) == (0, []), "not even when it is told to"
        async with here(ours.port) as place:
            await stopped(place, ours.port)
        assert not lives(ours.pid)
        assert lives(theirs.pid)
        assert children(theirs) == before


async def test_over_a_real_sshd_nothing_that_carries_the_login_is_signalled(
    sshd_server: Sshd, sshd_users: dict[str, str]
) -> None:
    """An ordinary user stops a server of its own, and asks for its sshd, another user's process and root's as well: only what is its own ends."""
    user = sshd_users["bash"]
    home = Path(pwd.getpwnam(user).pw_dir) / "unruly-ssh"
    home.mkdir(exist_ok=True)
    shutil.chown(home, user, user)
    node = SshNode(sshd_server.target("bash"), config_file=sshd_server.config)
    await node.connect()
    try:
        with socket.socket() as roots:
            roots.bind(("127.0.0.1", 0))
            roots.listen()
            unseen = await identify(node, port=roots.getsockname()[1])
            assert [one.code for one in unseen.refusals] == ["unseen-listener"]
            assert "someone we cannot see listens" in unseen.refusals[0].text
        with unruly(home, user=user) as server, subprocess.Popen(["sleep", "307"], user=sshd_users["dash"]) as theirs:
            server.wait_for()
            place = Here(server.port)
            place.acting.node = node
            async with Lock(place.acting, who="me@here"):
                found = await identify(node, port=server.port)
                target = target_of(found)
                sshds = [pid for one in sshd_server.connections() for pid in (one, *children_of(one))]
                asked = [*sshds, theirs.pid, os.getpid(), sshd_server.process.pid, 1]
                done = await place.acting.run(
                    ask_signal(
                        place.acting.fence.arguments, "KILL", target.boot, [(pid, started_of(pid)) for pid in asked]
                    )
                )
                fates = dict(parse_signal(done.stdout).fates)
                assert set(fates) == set(asked)
                assert "sent" not in fates.values()
                assert fates[theirs.pid] == "foreign"
                await stop(place.acting, target)
            assert not lives(server.pid)
            assert theirs.poll() is None
            assert all(lives(pid) for pid in sshds)
            theirs.kill()
    finally:
        await node.aclose()


async def test_a_port_whose_owner_is_no_server_is_refused(tmp_path: Path) -> None:
    code = "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    with subprocess.Popen(["python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        node = LocalNode()
        found = await identify(node, port=port)
        assert [one.code for one in found.refusals] == ["not-a-server"]
        assert f"pid {process.pid}" in found.refusals[0].text
        named = await identify(node, pid=process.pid)
        assert [one.code for one in named.refusals] == ["not-a-server"]
        ourselves = await identify(node, pid=os.getpid())
        assert ourselves.refusals
        process.stdin.close()
    free = await identify(node, port=port)
    assert (free.refusals, free.members) == ((), ())


async def test_members_that_outlived_their_launcher_are_known_from_the_record(tmp_path: Path) -> None:
    """The launcher was killed and its pid is gone; whoever the record names still is the family, and nobody else is."""
    with (
        unruly(tmp_path) as server,
        subprocess.Popen(["sglang::scheduler_TP0", "305"], executable=shutil.which("sleep")) as namesake,
    ):
        try:
            server.wait_for()
            below = children(server)
            family = [(pid, started_of(pid)) for pid in (server.pid, *below)]
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            record = Record(
                "1", "start", "x", "me", port=server.port, boot=boot, process=family[0], family=tuple(family[1:])
            )
            os.kill(server.pid, signal.SIGKILL)
            server.process.wait(10)
            async with here(server.port) as place:
                found = await identify(place.acting.node, record=record)
                assert found.server is None
                assert [process.pid for process in found.members] == below
                await stop(place.acting, target_of(found))
                assert not any(lives(pid) for pid in below)
                assert namesake.poll() is None
                old = Record(
                    "1",
                    "start",
                    "x",
                    "me",
                    port=server.port,
                    boot="0-0",
                    process=(namesake.pid, started_of(namesake.pid)),
                )
                assert (await identify(place.acting.node, record=old)).members == ()
        finally:
            namesake.kill()


async def test_who_cannot_be_signalled_is_named_and_the_stop_is_not_called_done(tmp_path: Path) -> None:
    """Here a member is called sshd. (A process in state D is as deaf.)"""
    program = tmp_path / "sshd"
    program.symlink_to(require("sleep"))
    with unruly(tmp_path, before=("sh", "-c", '"$0" 306 & exec "$@"', str(program))) as server:
        server.wait_for()
        (deaf,) = (pid for pid in children(server) if b"306" in Path(f"/proc/{pid}/cmdline").read_bytes())
        async with here(server.port) as place:
            with pytest.raises(StopFailedError, match=rf"1 process .*{deaf} sshd: not signalled, it is an sshd"):
                await stopped(place, server.port)
        assert lives(deaf)
        assert not lives(server.pid)


async def test_a_frozen_eagletui_that_was_overtaken_signals_nothing(tmp_path: Path) -> None:
    """Two of them: the first is frozen between its looks, the second takes the stale lock over; when the first wakes, the server lives on."""
    with unruly(tmp_path) as server:
        server.wait_for()
        async with here(server.port) as first:
            found = await identify(first.acting.node, port=server.port)
            lease = Path(f"/tmp/eagletui-lock-{server.port}/lease")
            lease.write_text(f"{int(float(Path('/proc/uptime').read_text().split()[0])) - 61}\n")
            second = Here(server.port)
            async with Lock(second.acting, who="you@there") as lock:
                assert "taken over from me" in lock.notices[0]
                with pytest.raises(OvertakenError, match=f"you@there .*took over the lock of port {server.port}"):
                    await stop(first.acting, target_of(found))
                with pytest.raises(OvertakenError):
                    await stop(first.acting, target_of(found))
                time.sleep(0.2)
                assert lives(server.pid)
                assert len(children(server)) == 3
                await stop(second.acting, target_of(await identify(second.acting.node, port=server.port)))
        assert not lives(server.pid)
