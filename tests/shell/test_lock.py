"""The lock of a port and the fence of every script that changes something, on a real /tmp, under three shells and two users."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.shell.lock import (
    LEASE_S,
    LOCK_LOOK,
    LOCK_RELEASE,
    LOCK_RENEW,
    LOCK_TAKE,
    NOT_WRITTEN,
    TAKEN_ALREADY,
    LockAnswer,
    ask_lock_look,
    ask_lock_release,
    ask_lock_renew,
    ask_lock_take,
    parse_fenced,
    parse_lock,
)
from eagletui.shell.script import Command, Script
from tests.requires import require
from tests.shell.sh import run

SHELLS = ("dash", "bash-as-sh", "busybox")
A, B = f"a{os.getpid():031d}", f"b{os.getpid():031d}"
"""Of this test process alone: others run at the same time on one machine."""
pytestmark = pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="nodes are Linux")


def place(port: int) -> Path:
    return Path(f"/tmp/eagletui-lock-{port}")


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Two ports of this test process alone (nobody listens: a lock is but a name)."""
    first = 2 + 2 * (os.getpid() % 30_000)
    found = (first, first + 1)
    yield found
    for port in found:
        if place(port).is_symlink() or place(port).is_file():
            place(port).unlink()
        shutil.rmtree(place(port), ignore_errors=True)


def take(
    folder: Path, ports: tuple[int, ...], token: str, shell: str = "sh", ended: str = ""
) -> tuple[int, LockAnswer]:
    status, said, _ = run(
        ask_lock_take(ports, token, "me\n$(touch executed)", "a b; touch executed", "stop", ended), folder, shell
    )
    return status, parse_lock(said)


def uptime() -> int:
    return int(float(Path("/proc/uptime").read_text().split()[0]))


def left_of_ours() -> set[str]:
    """Folders in which locks are made and taken away; none may stay."""
    return {path.name for path in Path("/tmp").glob("eagletui-[tl]*ing-*") if f"{os.getpid():07d}" in path.name}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_lock_is_taken_renewed_looked_at_and_released(shell: str, tmp_path: Path, ports: tuple[int, int]) -> None:
    before = left_of_ours()
    assert take(tmp_path, ports, A, shell) == (0, LockAnswer(taken=ports, complete=True))
    assert take(tmp_path, ports, A, shell)[0] == 0, "what we hold already is ours"
    for port in ports:
        assert place(port).stat().st_mode & 0o777 == 0o755
        assert (place(port) / "token").stat().st_mode & 0o777 == 0o600
        (place(port) / "lease").write_text(f"{uptime() - 50}\n")
    looked = parse_lock(run(ask_lock_look(ports), tmp_path, shell)[1])
    assert looked.complete
    assert [(one.port, one.state, one.uid, one.step) for one in looked.holders] == [
        (p, "held", os.getuid(), "stop") for p in ports
    ]
    assert looked.holders[0].who == "me\n$(touch executed)"
    assert looked.holders[0].client == "a b; touch executed"
    assert looked.holders[0].idle_s in range(49, 60)
    assert run(ask_lock_renew(ports, A, "leftovers"), tmp_path, shell)[:2] == (0, b"done\n")
    looked = parse_lock(run(ask_lock_look(ports), tmp_path, shell)[1])
    assert [(one.step, one.idle_s in range(5)) for one in looked.holders] == [("leftovers", True)] * 2
    assert run(ask_lock_release(ports, A), tmp_path, shell)[:2] == (0, b"done\n")
    assert parse_lock(run(ask_lock_look(ports), tmp_path, shell)[1]) == LockAnswer(free=ports, complete=True)
    assert not (tmp_path / "executed").exists()
    assert left_of_ours() == before


@pytest.mark.parametrize("shell", SHELLS)
def test_whoever_has_another_token_is_fenced(shell: str, tmp_path: Path, ports: tuple[int, int]) -> None:
    assert take(tmp_path, ports[:1], A, shell)[0] == 0
    for command in (ask_lock_renew(ports[:1], B, "x"), ask_lock_release(ports[:1], B)):
        status, said, _ = run(command, tmp_path, shell)
        fenced = parse_fenced(said)
        assert status == 9
        assert fenced is not None
        assert (fenced.who, fenced.step, fenced.port) == ("me\n$(touch executed)", "stop", ports[0])
        assert fenced.age_s in range(30)
    for wanted in (ports, ports[1:]):
        status, said, _ = run(ask_lock_renew(wanted, A), tmp_path, shell)
        assert (status, said) == (9, b"fenced - - - - %d\n" % ports[1])
    assert run(ask_lock_renew(ports[:1], A), tmp_path, shell)[0] == 0
    status, answer = take(tmp_path, ports, B, shell)
    assert status == TAKEN_ALREADY
    assert [one.port for one in answer.holders] == [ports[0]]
    assert not place(ports[1]).exists(), "all or none"


@pytest.mark.parametrize("shell", SHELLS)
def test_only_a_stale_lock_of_ours_is_taken_over(shell: str, tmp_path: Path, ports: tuple[int, int]) -> None:
    port = ports[0]
    lease, boot = place(port) / "lease", place(port) / "boot"
    assert take(tmp_path, (port,), A, shell)[0] == 0
    os.utime(place(port), (0, 0))
    os.utime(lease, (0, 0))  # a clock that was set frees nothing
    lease.write_text(f"{uptime() - LEASE_S + 5}\n")
    assert take(tmp_path, ports, B, shell)[0] == TAKEN_ALREADY
    lease.write_text(f"{uptime() + 500}\n")
    assert take(tmp_path, ports, B, shell)[0] == TAKEN_ALREADY
    lease.write_text(f"{uptime() - LEASE_S - 1}\n")
    status, answer = take(tmp_path, ports, B, shell)
    assert (status, answer.taken, [(one.port, one.state) for one in answer.overtook]) == (
        0,
        ports[1:],
        [(port, "stale")],
    )
    assert run(ask_lock_renew((port,), A), tmp_path, shell)[0] == 9, "who was overtaken is fenced"
    assert run(ask_lock_renew(ports, B), tmp_path, shell)[0] == 0
    boot.write_text("0-0\n")
    status, answer = take(tmp_path, (port,), A, shell)
    assert (status, [one.state for one in answer.overtook]) == (0, ["boot"])
    assert take(tmp_path, (port,), B, shell, ended="somebody else")[0] == TAKEN_ALREADY
    assert take(tmp_path, (port,), B, shell, ended="a b; touch executed")[0] == 0
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_whoever_takes_one_away_is_alone_in_it(shell: str, tmp_path: Path, ports: tuple[int, int]) -> None:
    """Another is at it: hands off. Unless that one is as long gone as the lock's holder."""
    port, over = ports[0], place(ports[0]) / "over"
    assert take(tmp_path, (port,), A, shell)[0] == 0
    (place(port) / "lease").write_text(f"{uptime() - LEASE_S - 1}\n")
    over.mkdir()
    for since in ("", f"{uptime()}\n", f"{uptime() - LEASE_S + 5}\n"):
        (over / "since").write_text(since)
        status, answer = take(tmp_path, (port,), B, shell)
        assert (status, [one.state for one in answer.holders]) == (TAKEN_ALREADY, ["stale"])
        assert (place(port) / "token").read_text() == A + "\n"
    (over / "since").write_text(f"{uptime() - LEASE_S - 1}\n")
    assert take(tmp_path, (port,), B, shell)[0] == 0
    assert not over.exists()
    (place(port) / "lease").write_text(f"{uptime() - 3 * LEASE_S}\n")
    over.mkdir()
    assert take(tmp_path, (port,), A, shell)[0] == 0, "one that was not even begun is as stale as the lock"


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_no_lock_is_left_alone(shell: str, tmp_path: Path, ports: tuple[int, int]) -> None:
    port = ports[0]
    target = tmp_path / "target"
    target.mkdir()
    place(port).symlink_to(target)
    assert [one.state for one in take(tmp_path, (port,), A, shell)[1].holders] == ["planted"]
    (target / "token").write_text(A + "\n")
    assert run(ask_lock_renew((port,), A), tmp_path, shell)[0] == 9
    assert sorted(path.name for path in target.iterdir()) == ["token"]
    place(port).unlink()
    place(port).write_text("mine")
    assert take(tmp_path, (port,), A, shell)[0] == TAKEN_ALREADY
    assert place(port).read_text() == "mine"
    place(port).unlink()
    (place(port) / "work").mkdir(parents=True)
    assert take(tmp_path, (port,), A, shell)[0] == TAKEN_ALREADY
    assert (place(port) / "work").is_dir()
    (place(port) / "work").rmdir()
    assert take(tmp_path, (port,), A, shell)[0] == 0, "an empty folder of ours holds nothing"


def test_another_users_lock_is_never_removed(tmp_path: Path, ports: tuple[int, int]) -> None:
    require("root")
    other = {"user": "nobody", "group": "nogroup", "extra_groups": [], "cwd": "/", "stdout": subprocess.PIPE}

    def as_other(command: Command) -> tuple[int, bytes]:
        argv = ["sh", "-c", command.script.text, "sh", *(str(word) for word in command.args)]
        done = subprocess.run(argv, check=False, timeout=20, **other)  # type: ignore[call-overload]
        return done.returncode, done.stdout

    mine, theirs = ports
    assert take(tmp_path, (mine,), A)[0] == 0
    assert as_other(ask_lock_take((theirs,), A, "n", "n", "stop"))[0] == 0
    for lease in ("5\n", f"{uptime()}\n"):
        for port in ports:
            (place(port) / "lease").write_text(lease)
        (place(theirs) / "boot").write_text("0-0\n")
        status, answer = take(tmp_path, (theirs,), B)
        assert (status, [one.state for one in answer.holders], answer.holders[0].user) == (
            TAKEN_ALREADY,
            ["foreign"],
            "nobody",
        )
        assert run(ask_lock_renew((theirs,), A), tmp_path)[0] == 9, "not even with its token"
        assert run(ask_lock_release((theirs,), A), tmp_path)[0] == 9
        status, said = as_other(ask_lock_take((mine,), B, "n", "n", "stop"))
        assert (status, [one.state for one in parse_lock(said).holders]) == (TAKEN_ALREADY, ["foreign"])
        assert parse_lock(said).holders[0].who == "me\n$(touch executed)", "others may read who holds it"
        assert as_other(ask_lock_renew((mine,), A))[0] == 9
    assert run(ask_lock_renew((mine,), A), tmp_path)[0] == 0
    assert as_other(ask_lock_release((theirs,), A))[0] == 0


def test_of_many_who_want_it_one_gets_it(tmp_path: Path, ports: tuple[int, int]) -> None:
    """First from nothing, then a stale one: each time exactly one, and everybody else is fenced."""
    before = left_of_ours()
    for stale in (False, True):
        tokens = [f"{n}{stale:d}{os.getpid():030d}" for n in range(6)]
        if stale:
            for port in ports:
                (place(port) / "lease").write_text("5\n")
        with ThreadPoolExecutor(len(tokens)) as pool:
            taken = list(pool.map(lambda token: take(tmp_path, ports, token)[0], tokens))
        assert set(taken) <= {0, TAKEN_ALREADY}
        holding = [run(ask_lock_renew(ports, token), tmp_path)[0] for token in tokens]
        assert holding.count(0) <= 1
        assert set(holding) <= {0, 9}
        assert [token for token, status in zip(tokens, holding, strict=True) if status == 0] == [
            token for token, status in zip(tokens, taken, strict=True) if status == 0
        ], "whoever was told that it is theirs has it"
        for token, status in zip(tokens, holding, strict=True):
            if status == 0 and stale:
                assert run(ask_lock_release(ports, token), tmp_path)[0] == 0
        if not any(status == 0 for status in holding):
            assert take(tmp_path, ports, A)[0] == 0, "where nobody got both, nobody keeps one"
            if stale:
                assert run(ask_lock_release(ports, A), tmp_path)[0] == 0
    assert left_of_ours() == before


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, ports: tuple[int, int]) -> None:
    """/tmp is full, or read-only: here `mkdir` says so."""
    text = LOCK_TAKE.text.replace('mkdir -m 700 "$stage"', "mkdir -m 700 /proc/none")
    assert text != LOCK_TAKE.text
    broken = Script(LOCK_TAKE.name, text, reads_only=False)
    code, said, sentence = run(Command(broken, (str(ports[0]), A, "w", "c", "s", "60", "")), tmp_path)
    assert (code, said) == (NOT_WRITTEN, b"")
    assert sentence
    assert not place(ports[0]).exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_arguments_that_are_none_change_nothing(shell: str, tmp_path: Path) -> None:
    nine = place(9).exists()
    for ports in ("", "a[$(touch executed)]", "../x", "1,,2", "-1", "01", "999999", "1;2", "*", "1 2"):
        for script in (LOCK_TAKE, LOCK_RENEW, LOCK_RELEASE):
            assert run(Command(script, (ports, A, "w", "c", "s", "60", "")), tmp_path, shell)[0] == 2
        assert run(Command(LOCK_LOOK, (ports, "60")), tmp_path, shell)[0] == 2
    for token in ("", "../x", "a b", "$(touch executed)", "a" * 70):
        assert run(Command(LOCK_TAKE, ("9", token, "w", "c", "s", "60", "")), tmp_path, shell)[0] == 2
    for lease in ("", "-1", "x", "a[$(touch executed)]", "9" * 9):
        assert run(Command(LOCK_TAKE, ("9", A, "w", "c", "s", lease, "")), tmp_path, shell)[0] == 2
    assert not (tmp_path / "executed").exists()
    assert place(9).exists() == nine
    assert not left_of_ours()


@given(
    st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [b"taken 1\n", b"holder 1 held 0 61 61 61 1 1 61\n", b"overtook 1 x\n", b"done\n", b"fenced - - - - 1\n"]
        )
    ).map(b"".join)
)
def test_answers_are_read_whatever_comes(output: bytes) -> None:
    parse_lock(output)
    parse_fenced(output)
