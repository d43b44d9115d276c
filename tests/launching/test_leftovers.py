"""Step 5: only what a dead server left in /dev/shm is removed, and a port on which somebody listens is told of."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.errors import StopFailedError
from eagletui.launching.acting import Acting
from eagletui.launching.leftovers import clean, left_by, ports_of
from eagletui.launching.lock import Lock, new_fence
from eagletui.nodes.local import LocalNode
from eagletui.servers.model import Process
from eagletui.servers.targets import Target
from eagletui.shell.leftovers import (
    Entry,
    ask_remove_shared_memory,
    ask_shared_memory,
    parse_removed,
    parse_shared_memory,
)
from eagletui.shell.lock import ask_lock_release, ask_lock_take
from tests.requires import require
from tests.shell.sh import run
from tests.sshd import free_port

SHELLS = ("dash", "bash-as-sh", "busybox")
US = 1000
pytestmark = pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="nodes are Linux")


def process(pid: int, comm: str, started: int, *, uid: int = US, ppid: int = 1) -> Process:
    return Process(pid, ppid, pid, pid, "S", comm, started, uid)


def entry(name: str, made: int, *, used: bool = False) -> Entry:
    return Entry(name, "1a", 5, 4096, 0o600, made, used)


OWN = process(50, "sh", 90_000)
MEMBERS = ((700, 10_000), (701, 10_100))
"""They started at 10 000 ticks: second 1100 of a node that booted at 1000."""


@pytest.mark.parametrize(
    ("one", "others", "fate"),
    [
        (entry("sgl_shm_700", 1200), (), "removable"),
        (entry("sgl_shm_700", 1200), (process(9, "python", 1),), "removable"),
        (entry("torch_701_77_1", 1200), (process(9, "python", 1),), "removable"),
        (entry("sgl_shm_7001", 1200), (process(9, "python", 1),), "unsure"),
        (entry("sgl_shm_700", 1200, used=True), (), None),
        (entry("sgl_shm_700", 1050), (), None),
        (entry("sgl_shm_702", 1200), (process(702, "python", 15_000),), "unsure"),
        (entry("sgl_shm_700", 1200), (process(700, "python", 50_000),), "removable"),
        (entry("nccl-aB3dE9", 1200), (), "removable"),
        (entry("nccl-aB3dE9", 1200), (process(9, "bash", 1), process(8, "tmux: server", 1)), "removable"),
        (entry("nccl-aB3dE9", 1200), (process(9, "python", 1),), "unsure"),
        (entry("nccl-aB3dE9", 1200), (process(9, "python", 50_000),), "removable"),
        (entry("nccl-aB3dE9", 1200), (process(9, "python", 1, uid=1001),), "removable"),
        (entry("psm_0a1b2c3d", 1200), (process(9, "node", 1),), "unsure"),
    ],
)
def test_what_is_a_dead_servers(one: Entry, others: tuple[Process, ...], fate: str | None) -> None:
    left = left_by((one,), MEMBERS, (OWN, *others), OWN.pid, 1100.0, 1000.0, 100)
    assert ("removable" if left.removable else "unsure" if left.unsure else None) == fate
    assert len(left.shown) == (fate is not None)


@pytest.fixture
def made() -> Iterator[dict[str, Path]]:
    """Entries of this test process alone, by a word of their names."""
    number = 4_200_000 + os.getpid() % 90_000
    names = {
        "dead": f"sgl_shm_{number}",
        "mapped": f"torch_{number}_1",
        "open": f"sem.{number}",
        "other": f"mine_{number}",
    }
    paths = {word: Path("/dev/shm", name) for word, name in names.items()}
    for path in paths.values():
        path.write_bytes(b"x" * 8192)
    yield paths
    for path in paths.values():
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_only_what_nobody_has_is_removed(shell: str, tmp_path: Path, made: dict[str, Path]) -> None:
    fence = new_fence((free_port(),))
    names = {path.name: word for word, path in made.items()}
    with made["mapped"].open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    with made["open"].open("rb"), mapped:
        found = {
            names[one.name]: one
            for one in parse_shared_memory(run(ask_shared_memory(), tmp_path, shell)[1]).entries
            if one.name in names
        }
        assert {word: one.used for word, one in found.items()} == {"dead": False, "mapped": True, "open": True}
        assert found["dead"].size == 8192
        wrong = Entry(found["dead"].name, found["dead"].device, found["dead"].inode + 1, 0, 0, 0, used=False)
        odd = Entry(f"../tmp/{made['other'].name}", "1", 1, 0, 0, 0, used=False)
        everything = [wrong, odd, *found.values()]
        assert run(ask_remove_shared_memory(fence.arguments, everything), tmp_path, shell)[0] == 9, "without the lock"
        assert all(path.exists() for path in made.values())
        assert run(ask_lock_take(fence.ports, fence.token, "t", "t", "t"), tmp_path)[0] == 0
        status, said, _ = run(ask_remove_shared_memory(fence.arguments, everything), tmp_path, shell)
        assert run(ask_lock_release(fence.ports, fence.token), tmp_path)[0] == 0
        fates, complete = parse_removed(said)
        assert (status, complete) == (0, True)
        assert said.splitlines()[1] == b"refused -"
        assert [(names[name], word) for name, word in fates] == [
            ("dead", "other"),
            *((w, {"dead": "removed"}.get(w, "used")) for w in found),
        ]
    assert {word: path.exists() for word, path in made.items()} == {
        "dead": False,
        "mapped": True,
        "open": True,
        "other": True,
    }


def test_another_users_entries_are_not_ours(tmp_path: Path, made: dict[str, Path]) -> None:
    require("root")
    os.chown(made["dead"], 65534, 65534)
    found = parse_shared_memory(run(ask_shared_memory(), tmp_path)[1])
    assert found.complete
    assert made["dead"].name not in {one.name for one in found.entries}


def test_the_ports_of_a_server() -> None:
    command = (
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/m",
        "--nccl-port",
        "4001",
        "--dist-init-addr",
        "127.0.0.1:4002",
    )
    assert ports_of(command, 30000) == (4001, 4002, 30000)
    assert ports_of(("sleep", "1"), None) == ()


async def test_a_port_on_which_somebody_listens_is_told_with_who() -> None:
    port = free_port()
    acting = Acting(LocalNode(), new_fence((port,)))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    target = Target(Process(4_199_999, 0, 0, 0, "X", "", 5, os.getuid()), boot)
    async with Lock(acting, who="me@here"):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            listener.listen()
            with pytest.raises(StopFailedError, match=rf"pid {os.getpid()} listens on port {port}"):
                await clean(acting, target, (target.identity,), remove=False, ports=(port,), timeout_s=0.1)
        cleaned = await clean(acting, target, (target.identity,), remove=False, ports=(port,), timeout_s=10)
        assert f"nobody listens on {port}" in cleaned.text


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [b"entry sgl_shm_1 1a 5 1 600 5 0 n\n", b"entry x 1a 5 1 600 5 0 n\n", b"removed sem.x\n", b"done\n"]
        )
    ).map(b"".join)
)
def test_answers_are_read_whatever_comes(output: bytes) -> None:
    for one in parse_shared_memory(output).entries:
        assert one.path.startswith("/dev/shm/")
    parse_removed(output)
