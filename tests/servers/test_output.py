"""Where output goes, by descriptors on paper: files, pipes through other programs, and what cannot be followed."""

from __future__ import annotations

import pytest

from eagletui.servers.model import LogSource, Process
from eagletui.servers.output import log_source, readers_near
from eagletui.shell.details import Descriptor, Details, ProcessDetails, keeper_of

LAUNCHER = Process(pid=100, ppid=50, pgrp=100, session=50, state="S", comm="python3", started=1, uid=1000)


def fd(number: int, link: str, kind: str = "regular", inode: int | None = None, *, readable: bool = True) -> Descriptor:
    at = inode if inode is not None else sum(link.encode())
    return Descriptor(number, link, kind, readable, device="1", inode=at, size=10, mtime=1.0)


def of(pid: int, argv: str, *fds: Descriptor, cwd: str = "/data") -> ProcessDetails:
    return ProcessDetails(pid, tuple(argv.split()), cwd, fds)


def found(*processes: ProcessDetails, keeper: str | None = None) -> LogSource:
    first, *rest = processes
    first = ProcessDetails(first.pid, first.argv, first.cwd, first.fds, keeper=keeper)
    return log_source(LAUNCHER, first, Details((first, *rest), complete=True))


def test_output_and_errors_in_two_files_are_both_the_log() -> None:
    source = found(of(100, "python3", fd(1, "/x/out.log"), fd(2, "/x/err.log")))
    assert (source.path, source.via, source.pid, source.fd) == ("/x/err.log", "fd2", 100, 2)
    assert source.also is not None
    assert (source.also.path, source.also.via, source.also.fd, source.also.also) == ("/x/out.log", "fd1", 1, None)


@pytest.mark.parametrize("other", [fd(1, "/dev/pts/3", "character"), fd(1, "/x/err.log"), fd(1, "pipe:[9]", "fifo")])
def test_one_file_is_one_log(other: Descriptor) -> None:
    source = found(of(100, "python3", other, fd(2, "/x/err.log")))
    assert (source.path, source.also) == ("/x/err.log", None)


def test_the_same_file_under_two_names_is_one_log() -> None:
    source = found(of(100, "python3", fd(1, "/x/a", inode=5), fd(2, "/x/hard-link", inode=5)))
    assert source.also is None


def test_a_tee_is_followed_by_its_own_descriptor() -> None:
    """Whatever its words say: its folder may be gone, its file renamed, and it may write several."""
    tee = of(
        99,
        "tee -a a.log b.log",
        fd(0, "pipe:[7]", "fifo"),
        fd(1, "/dev/null", "character"),
        fd(3, "/y/a.log"),
        fd(4, "/y/b.log"),
    )
    source = found(of(100, "python3", fd(1, "pipe:[7]", "fifo"), fd(2, "pipe:[7]", "fifo")), tee)
    assert (source.path, source.via, source.pid, source.fd, source.also) == ("/y/a.log", "tee", 99, 3, None)


def test_of_a_tees_files_one_that_can_be_read_is_taken() -> None:
    tee = of(99, "tee /r/a.log b.log", fd(0, "pipe:[7]", "fifo"), fd(3, "/r/a.log", readable=False), fd(4, "/y/b.log"))
    assert found(of(100, "python3", fd(2, "pipe:[7]", "fifo")), tee).path == "/y/b.log"


def test_a_tee_that_cannot_be_seen_is_followed_by_its_words_from_its_own_folder() -> None:
    tee = of(99, "tee -a logs/a.log b.log", fd(0, "pipe:[7]", "fifo"), cwd="/srv/x")
    source = found(of(100, "python3", fd(2, "pipe:[7]", "fifo"), cwd="/elsewhere"), tee)
    assert (source.path, source.via, source.fd) == ("/srv/x/logs/a.log", "tee", None)


def test_errors_through_one_tee_and_output_through_another() -> None:
    errors = of(98, "tee e.log", fd(0, "pipe:[7]", "fifo"), fd(3, "/y/e.log"))
    output = of(99, "tee o.log", fd(0, "pipe:[8]", "fifo"), fd(3, "/y/o.log"))
    source = found(of(100, "python3", fd(1, "pipe:[8]", "fifo"), fd(2, "pipe:[7]", "fifo")), output, errors)
    assert source.path == "/y/e.log"
    assert source.also is not None
    assert source.also.path == "/y/o.log"


@pytest.mark.parametrize(
    "programs",
    [
        [of(98, "grep -v x", fd(0, "pipe:[7]", "fifo"), fd(1, "/y/log"))],
        [of(97, "ts", fd(0, "pipe:[7]", "fifo"), fd(1, "pipe:[8]", "fifo")), of(98, "tee log", fd(0, "pipe:[8]", "fifo"), fd(3, "/y/log"))],
        [of(97, "tee", fd(0, "pipe:[7]", "fifo"), fd(1, "pipe:[8]", "fifo")), of(98, "cat", fd(0, "pipe:[8]", "fifo"), fd(1, "/y/log"))],
    ],
)  # fmt: skip
def test_the_file_at_the_end_of_a_pipeline(programs: list[ProcessDetails]) -> None:
    assert found(of(100, "python3", fd(2, "pipe:[7]", "fifo")), *programs).path == "/y/log"


def test_a_pipe_in_a_circle_ends() -> None:
    ring = of(98, "cat", fd(0, "pipe:[7]", "fifo"), fd(1, "pipe:[7]", "fifo"))
    assert found(of(100, "python3", fd(2, "pipe:[7]", "fifo")), ring).path is None


ID = "4f3c" * 16


@pytest.mark.parametrize(
    ("cgroups", "keeper"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", "docker 4f3c4f3c4f3c"),
        (f"12:memory:/docker/{ID}\n11:cpu:/docker/{ID}\n", "docker 4f3c4f3c4f3c"),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", "nerdctl 4f3c4f3c4f3c"),
        (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope", "podman 4f3c4f3c4f3c"),
        ("0::/system.slice/sglang@k25.service\n", "unit sglang@k25.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service", "user-unit vllm.service"),
        ("0::/user.slice/user-1000.slice/session-4.scope", None),
        ("0::/system.slice/ssh.service", None),
        ("", None),
        (f"0::/{ID}{ID}", None),
    ],
)
def test_whose_output_it_is_by_its_control_group(cgroups: str, keeper: str | None) -> None:
    assert keeper_of(cgroups) == keeper


def test_a_container_and_a_unit_say_how_to_read_their_output() -> None:
    piped = of(100, "python3", fd(1, "pipe:[7]", "fifo"), fd(2, "pipe:[7]", "fifo"))
    said = found(piped, keeper="docker 4f3c4f3c4f3c").why
    assert said is not None
    assert "docker logs -f 4f3c4f3c4f3c" in said
    said = found(of(100, "python3", fd(2, "socket:[7]", "socket")), keeper="unit vllm.service").why
    assert said is not None
    assert "journalctl -u vllm.service -f" in said


def test_who_may_read_the_pipe() -> None:
    def near(pid: int, argv: str, **others: int) -> Process:
        facts = {"ppid": 1, "pgrp": 7, "session": 7, "uid": 1000} | others
        return Process(pid=pid, state="S", comm=argv.partition(" ")[0], started=2, argv=tuple(argv.split()), **facts)

    processes = [
        near(50, "bash", session=50, pgrp=50),
        near(60, "ts", pgrp=100),
        near(61, "tee x", session=50),
        near(62, "tee y", pgrp=100),
        near(63, "tee z", pgrp=100, uid=1001),
        near(64, "vim", session=50),
        near(65, "python3", ppid=100, pgrp=100),
        near(66, "grep", ppid=50),
    ]
    assert readers_near(LAUNCHER, [processes[6]], processes) == [62, 61, 60, 66]
