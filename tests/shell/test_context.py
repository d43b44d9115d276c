"""What a process was started with, and what a login gives, from real processes and login shells."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.shell.context import (
    ask_launch_context,
    ask_login_environment,
    environment_of,
    parse_launch_context,
    parse_login_environment,
)
from tests.requires import require
from tests.shell.sh import run

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
WAIT = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()"


@contextmanager
def waiting(
    folder: Path, *words: str, env: dict[str, str] | None = None, code: str = WAIT, log: Path | None = None
) -> Iterator[int]:
    """A process that waits until its stdin ends; its standard error goes to `log`."""
    with (log or folder / "log").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", code, *words], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=env, umask=0o027
        )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline()
        yield process.pid
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


@pytest.mark.parametrize("shell", ["dash", "bash-as-sh", "busybox"])
def test_what_a_process_was_started_with(shell: str, tmp_path: Path) -> None:
    place = tmp_path / "a b\n"
    place.mkdir()
    env = {"PATH": os.environ["PATH"], "A": "1\n2", "B": "\udcff", "EMPTY": ""}
    with waiting(place, "two\nlines", "\udcfe", "", "x", env=env) as pid:
        context = parse_launch_context(run(ask_launch_context(pid), tmp_path, shell)[1])
    assert context.complete
    assert context.pid == pid
    assert context.uid == os.getuid()
    assert context.argv == (sys.executable, "-S", "-c", WAIT, "two\nlines", "\udcfe", "", "x")
    assert dict(context.environ or ()) == env
    assert (context.cwd, context.umask, context.home) == (str(place), "0027", str(tmp_path))
    assert context.exe == os.path.realpath(sys.executable)
    assert dict(context.soft)["Max open files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert context.cpus is not None
    assert (2, str(place / "log"), "regular") in context.outputs
    assert [kind for _, _, kind in context.outputs] == ["fifo", "fifo", "regular"]


def test_one_that_is_gone_and_what_is_none(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    context = parse_launch_context(run(ask_launch_context(process.pid), tmp_path)[1])
    process.wait(10)
    assert context.gone or context.complete  # it may not have ended yet; a zombie is gone
    gone = parse_launch_context(run(ask_launch_context(process.pid), tmp_path)[1])
    assert gone.gone
    assert gone.argv == ()
    for word in ("", "0", "-1", "1; id", "12x"):
        command = ask_launch_context(1)
        assert run(type(command)(command.script, (word,)), tmp_path)[0] == 2


FILES = {
    "bash": (".bash_profile", "echo noise; export FROM_LOGIN=yes$((1+1))\n"),
    "dash": (".profile", "echo noise; export FROM_LOGIN=yes2\n"),
    "fish": (".config/fish/config.fish", "echo noise; set -gx FROM_LOGIN yes2\n"),
    "tcsh": (".cshrc", "echo noise; setenv FROM_LOGIN yes2\n"),
}


@pytest.mark.parametrize("shell", sorted(FILES))
def test_what_a_login_gives(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account's own shell reads its files. `getent` is a stand-in, for we cannot change the account that runs the tests."""
    program = require(shell)
    name, text = FILES[shell]
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    stand_in = tmp_path / "programs"
    stand_in.mkdir()
    (stand_in / "getent").write_text(f"#!/bin/sh\necho 'me:x:1000:1000:,,,:{tmp_path}:{program}'\n")
    (stand_in / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    login = parse_login_environment(run(ask_login_environment(), tmp_path)[1])
    assert login.complete
    assert (login.home, login.shell) == (str(tmp_path), program)
    environ = dict(login.environ or ())
    assert environ["FROM_LOGIN"] == "yes2"
    assert environ["LC_ALL"] == "C.UTF-8"  # not that of our scripts
    assert not [name for name in set(environ) - set(os.environ) if name.lower().startswith("eagletui")]
    assert dict(login.own)["HOME"] == str(tmp_path)
    assert "FROM_LOGIN" not in dict(login.own)


def test_a_login_shell_that_never_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "programs"
    stand_in.mkdir()
    (tmp_path / "shell").write_text("#!/bin/sh\necho welcome; exec sleep 60\n")
    (stand_in / "getent").write_text(f"#!/bin/sh\necho 'me:x:1000:1000:,,,:{tmp_path}:{tmp_path}/shell'\n")
    for program in (tmp_path / "shell", stand_in / "getent"):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in}{os.pathsep}{os.environ['PATH']}")
    command = ask_login_environment()
    login = parse_login_environment(run(type(command)(command.script, ("1",)), tmp_path)[1])
    assert login.complete
    assert login.environ is None


def test_variables() -> None:
    raw = b"A=1\0A=2\0no variable\0=x\0B==\0C=\xff\0\0"
    assert environment_of(raw) == (("A", "1"), ("B", "="), ("C", "\udcff"))


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer(raw: bytes) -> None:
    parse_launch_context(raw)
    parse_launch_context(b"pid 1 2\nargv zz\nlimit Max x\nfd 0 - -\n" + raw)
    parse_login_environment(b"said 0040656e7600\n" + raw)
