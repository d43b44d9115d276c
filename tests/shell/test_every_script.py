"""Every named script of the house, whatever module it stands in: one text alone sends signals, and hostile arguments execute and signal nothing."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import eagletui
import eagletui.shell
from eagletui.shell.fragments import SEND
from eagletui.shell.lock import ask_lock_release, ask_lock_take
from eagletui.shell.script import Command, Script, wire
from tests.shell.sh import login, run

HOSTILE = (
    "$(touch executed)", "; touch executed", "`touch executed`", "x\ntouch executed\n", "a[$(touch executed)]", "-9", "-1", "0", "1", "9" * 25,
    "../../executed", "--help", "", "*",
)  # fmt: skip
TOKEN = f"e{os.getpid():031d}"
WAITS_S = 20.0
"""Seconds; streams end with their stdin, which ends at once here."""
PROGRAMS = (
    "docker",
    "podman",
    "nerdctl",
    "systemctl",
    "systemd-run",
    "loginctl",
    "tmux",
    "journalctl",
    "dmesg",
    "nvidia-smi",
)
"""Stand-ins of these fail at once: no test says anything to this machine's own services."""


def scripts() -> dict[str, Script]:
    """Each constant of each module of the shell's room."""
    found: dict[str, Script] = {}
    for module in pkgutil.iter_modules(eagletui.shell.__path__):
        for value in vars(importlib.import_module(f"eagletui.shell.{module.name}")).values():
            if isinstance(value, Script):
                assert found.setdefault(value.name, value) is value, f"two scripts are called {value.name}"
    return found


EVERY = scripts()
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")


def code_of(text: str) -> str:
    """Without its comments."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))


def test_they_are_all_found() -> None:
    assert {"processes", "signal", "lock-take", "launch", "record-create", "remove-shared-memory", "preflight"} <= set(
        EVERY
    )
    for source in Path(eagletui.shell.__path__[0]).parent.rglob("*.py"):
        if source.parent.name not in {"shell", "demo"}:
            assert not re.search(r"\bScript\(\s*[\"']", source.read_text(encoding="utf-8")), (
                f"{source} has a script of its own"
            )


@pytest.mark.parametrize("name", sorted(EVERY))
def test_one_text_alone_sends_signals(name: str) -> None:
    script = EVERY[name]
    rest = code_of(script.text.replace(SEND, "")).replace("unset -f kill ", "")
    assert not re.findall(r"(?<![\w-])(?:kill|pkill|killall|killall5|skill|snice|fuser)(?![\w-])", rest)
    assert not re.findall(r"(?:^|[;&|{(])\s*(?:eval|source|\.)\s", rest, re.MULTILINE), "a text that is assembled"
    assert SEND.count("kill -s ") == 1
    assert (SEND in script.text) == (name in {"signal", "kept-log"}), "who else would signal?"


def test_the_loop_compares_in_the_iteration_in_which_it_signals() -> None:
    """Between the comparison of the start time and the signal stand builtins alone, and nothing that starts a program."""
    send = SEND[SEND.index("send() {") :]
    assert re.search(r"stat_started\" != \"\$3\"", send)
    assert send.index("stat_started") < send.index("kill -s")
    first_words = set(re.findall(r"(?:^|[;&|!]\s+|\bif |\bthen |\belse )([A-Za-z_\[]+)", send, re.MULTILINE))
    assert first_words <= {
        "send",
        "case",
        "esac",
        "if",
        "then",
        "else",
        "fi",
        "said",
        "return",
        "above_us",
        "uid_of",
        "stat_of",
        "kill",
        "[",
    }
    assert not re.search(r"\$\((?!\()|`", SEND), "nothing is started in it"
    loop = EVERY["signal"].text.partition('for pair in "$@"; do')[2]
    assert re.search(r"\nfence\nsend \"\$name\" \"\$pid\" \"\$started\"\n", loop)


@pytest.mark.parametrize("name", sorted(name for name, script in EVERY.items() if not script.reads_only))
def test_who_changes_something_stands_behind_the_fence(name: str, tmp_path: Path) -> None:
    """Another's token, or none: status 9, `fenced`, and nothing was done."""
    if name == "lock-take":
        return
    before = sorted(path.name for path in tmp_path.iterdir())
    status, said, _ = run(Command(EVERY[name], ("64999", "f" * 32, *("x" for _ in range(9)))), tmp_path)
    assert (status, said.split(b" ")[0]) == (9, b"fenced")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_no_program_that_signals_by_name_is_anywhere_in_the_package() -> None:
    wrong = [
        f"{path}: {found[0]}"
        for path in Path(eagletui.__path__[0]).rglob("*.py")
        for found in re.finditer(r"\b(?:pkill|killall|fuser)\b", path.read_text(encoding="utf-8"))
    ]
    assert not wrong


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins before everything else on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[str]:
    """A port whose lock is ours, so that the fence lets every script pass."""
    port = 1 + os.getpid() % 64_000
    assert run(ask_lock_take((port,), TOKEN, "t", "t", "t"), tmp_path)[0] == 0
    yield str(port)
    run(ask_lock_release((port,), TOKEN), tmp_path)
    shutil.rmtree(f"/tmp/eagletui-lock-{port}", ignore_errors=True)


def rows(script: Script, port: str) -> list[tuple[str, ...]]:
    """Arguments: each hostile value comes to stand in each of the first places."""
    head = () if script.reads_only or script.name == "lock-take" else (port, TOKEN)
    turned = [HOSTILE[at:] + HOSTILE[:at] for at in range(0, len(HOSTILE), 3)]
    return [(*head, *values[:9]) for values in turned]


@pytest.mark.usefixtures("programs")
def test_hostile_arguments_execute_and_signal_nothing(tmp_path: Path, lock: str) -> None:
    """Whatever it does with them (most say that they are none), nothing in them is run, and a process beside it lives on. By bash and dash in turn."""
    folder = tmp_path / "login"
    folder.mkdir()
    shells = [login(shell, folder) for shell in ("bash-as-sh", "dash")]
    bystander = subprocess.Popen(["sleep", "120"], start_new_session=True)
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    try:
        for name, script in EVERY.items():
            if name == "lock-release":
                continue  # the others need the lock
            for turn, arguments in enumerate(rows(script, lock)):
                argv, environment = shells[turn % 2]
                sent = wire(Command(script, arguments))
                one = subprocess.Popen(
                    [*argv, sent.line], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    env=environment, cwd=folder, start_new_session=True,
                )  # fmt: skip
                assert one.stdin is not None
                one.stdin.write(sent.stdin)
                one.stdin.close()
                running.append((name, one))
                while len(running) > 6:
                    first, process = running.pop(0)
                    assert process.wait(WAITS_S) is not None, first
                assert not (folder / "executed").exists(), (name, arguments)
        for _, process in running:
            process.wait(WAITS_S)
        assert not list(tmp_path.rglob("executed"))
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait(10)
        for _, process in running:
            process.kill()
            process.wait(10)
