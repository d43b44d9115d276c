"""Restart from nothing: a server that somebody started by hand in an activated venv is started again, by nothing but what /proc tells of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.errors import NeverStartedError, NothingThereError, RefusedError
from eagletui.launching.adopt import (
    DENIED,
    base_environment,
    kept_environment,
    output_file,
    read_context,
    read_login,
    recipe_of_process,
    tells_its_command,
)
from eagletui.launching.launch import launch
from eagletui.launching.recipe import Limits
from eagletui.launching.records import limit_lines
from eagletui.launching.verify import verify
from eagletui.shell.context import LaunchContext, LoginEnvironment
from tests.launching.acting import acting_here

TELL = """
import json, os, sys, time
print(json.dumps([sys.argv, sys.prefix, dict(os.environ), os.getcwd()]), flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
async def test_a_server_started_by_hand_in_a_venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path(os.path.realpath(sys.executable))
    venv, work = tmp_path / "venv", tmp_path / "work"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(real)
    (venv / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
    (venv / "bin" / "activate").write_text(
        f"VIRTUAL_ENV={venv}; export VIRTUAL_ENV; PATH=$VIRTUAL_ENV/bin:$PATH; export PATH\n"
    )
    work.mkdir()
    (work / "serve.py").write_text(TELL)
    by_hand = (
        f". {venv}/bin/activate; cd {work}; HF_TOKEN=hf_abc exec python serve.py 'a b\n' 600 >{work}/first.log 2>&1"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SSH_AUTH_SOCK": "/gone", "TERM": "xterm", "SHLVL": "3"}
    started = subprocess.Popen(["sh", "-c", by_hand], env=env, stdin=subprocess.DEVNULL)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    try:
        until = time.monotonic() + 20
        while not (work / "first.log").exists() or not (work / "first.log").read_text().endswith("\n"):
            assert time.monotonic() < until
        async with acting_here(tmp_path) as place:
            context = await read_context(place.node, started.pid)
            assert output_file(context) == str(work / "first.log")
            recipe = recipe_of_process(context, log=str(work / "second.log"), port=place.port)
            assert recipe.argv == ("python", "serve.py", "a b\n", "600")
            assert not {"SSH_AUTH_SOCK", "TERM", "SHLVL"} & dict(recipe.env).keys()
            launched = await verify(place.acting, await launch(place.acting, await place.written(recipe)))
            assert launched.notes == ()
            first, second = (json.loads((work / f"{name}.log").read_text()) for name in ("first", "second"))
            assert second[0] == first[0]
            assert second[1] == first[1] == str(venv)
            assert second[2] == dict(recipe.env) | {
                key: value for key, value in second[2].items() if key == "LC_CTYPE"
            }  # Python's own
            assert second[3] == str(work)
            started.kill()
            started.wait(10)
            with pytest.raises(NothingThereError):
                await read_context(place.node, started.pid)
            (venv / "bin" / "python").unlink()  # and one whose venv was removed meanwhile says so
            recipe = replace(recipe, log=str(work / "third.log"), env=(("PATH", str(venv / "bin")),))
            with pytest.raises(NeverStartedError, match="python"):
                await verify(place.acting, await launch(place.acting, await place.written(recipe)))
    finally:
        started.kill()
        started.wait(10)


KNOWN = LaunchContext(
    pid=7, started=8, argv=("python", "-m", "sglang.launch_server"), environ=(("PATH", "/bin"),), cwd="/work", exe="/usr/bin/python3.11", umask="0022",
    cpus="0-3", soft=(("Max open files", 1024), ("Max locked memory", None), ("Max stack size", 8388608), ("Max msgqueue size", 1)),
    outputs=((1, "/dev/null", "character"), (2, "/logs/a.log (deleted)", "regular")), complete=True,
)  # fmt: skip


def test_what_a_process_tells_becomes_a_recipe() -> None:
    recipe = recipe_of_process(KNOWN, log="/logs/b.log", port=30000)
    assert (recipe.source, recipe.engine, recipe.port, recipe.launcher) == ("process", "sglang", 30000, "setsid")
    assert limit_lines(recipe.limits) == ("umask 0022", "soft n 1024", "soft l unlimited", "soft s 8192", "cpus 0-3")
    assert limit_lines(Limits()) == ()
    assert output_file(KNOWN) == "/logs/a.log"
    assert output_file(replace(KNOWN, outputs=())) is None


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"environ": None}, "no-environment", "environment of process 7 cannot be read"),
        ({"cwd": None}, "no-environment", "working directory of process 7 cannot be read"),
        ({"cwd": "/work (deleted)"}, "no-environment", "/work was deleted"),
        ({"argv": ("sglang::launch \x1b[31m",)}, "no-command", "renamed itself to sglang::launch"),
        ({"argv": ()}, "no-command", "nothing"),
        ({"argv": ("my server",)}, "no-command", "my server"),
    ],
)
def test_what_does_not_tell_how_it_was_started_is_refused(change: dict[str, object], code: str, words: str) -> None:
    with pytest.raises(RefusedError, match="eagletui config init") as caught:
        recipe_of_process(replace(KNOWN, **change), log="/l")  # type: ignore[arg-type]
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_what_is_still_a_command() -> None:
    for argv, exe in (
        (("bash", "run.sh"), "/bin/bash"),
        (("./serve",), "/work/serve"),
        (("serve",), "/usr/bin/serve (deleted)"),
    ):
        assert tells_its_command(replace(KNOWN, argv=argv, exe=exe)), argv
    with pytest.raises(NothingThereError):
        recipe_of_process(replace(KNOWN, complete=False), log="/l")


def test_what_belongs_to_the_session_is_left_out() -> None:
    names = (
        "SSH_CONNECTION", "XDG_SESSION_ID", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "TMUX", "TMUX_PANE", "STY", "TERM", "TERM_PROGRAM", "DISPLAY",
        "LS_COLORS", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_FDS", "SHLVL", "_", "OLDPWD",
    )  # fmt: skip
    assert kept_environment([(name, "x") for name in names]) == ()
    keeps = (
        "XDG_STATE_HOME",
        "PATH",
        "PWD",
        "CONDA_PREFIX",
        "VIRTUAL_ENV",
        "LD_LIBRARY_PATH",
        "HF_TOKEN",
        "MY_SSH_KEY",
        "_LMFILES_",
        "DISPLAYS",
    )
    assert [name for name, _ in kept_environment([(name, "x") for name in keeps])] == list(keeps)
    assert len(set(DENIED)) == len(DENIED)


def test_what_a_profile_adds_to() -> None:
    login = LoginEnvironment(
        shell="/bin/bash",
        own=(("HOME", "/h"), ("PATH", "/bin")),
        environ=(("PATH", "/opt:/bin"), ("CONDA", "1"), ("SSH_TTY", "x")),
    )
    assert base_environment(login, "login") == (("PATH", "/opt:/bin"), ("CONDA", "1"))
    assert dict(base_environment(login, "clean")) == {"HOME": "/h", "PATH": "/opt:/bin"}
    hangs = replace(login, environ=None)
    assert dict(base_environment(hangs, "clean")) == {"HOME": "/h", "PATH": "/bin"}
    with pytest.raises(RefusedError, match="/bin/bash did not get through"):
        base_environment(hangs, "login")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
async def test_the_login_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with acting_here(tmp_path) as place:
        login = await read_login(place.node)
    assert login.home == str(tmp_path)
    assert dict(base_environment(login, "clean"))["PATH"]
