"""The launchers systemd, docker and podman: by stand-ins on PATH that keep what they were given, by the tools' own --help, and by a real systemd --user
where one can be started."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagletui.launching.acting import FENCED
from eagletui.launching.launchers.base import STARTED, Launcher
from eagletui.launching.launchers.registry import launcher
from eagletui.launching.recipe import Recipe
from eagletui.nodes.base import Completed
from eagletui.servers.record import Record
from eagletui.shell.containers import CONTAINER_START, CONTAINER_STATE, CONTAINER_STOP
from eagletui.shell.keeper import KeeperState
from eagletui.shell.records import LaunchFiles, ask_record_create
from eagletui.shell.script import Command, MarkStripper, wire
from eagletui.shell.scripts import RUN_TOOL
from eagletui.shell.units import LAUNCH_SYSTEMD, PROPERTIES, UNIT_START, UNIT_STATE, UNIT_STOP
from tests.locked import Locked, locked
from tests.requires import program, require

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
DATA = Path(__file__).parent.parent / "data" / "launchers"
SECRET = "hf_neverShownToAnybody0123"
RECIPE = Recipe(("sh",), (), "/", "/l", "profile", port=30000)

# Keeps its arguments and environment, each ended by NUL, and behaves as the files beside it say.
KEEPS = """#!/bin/sh
here=${0%/*}; name=${0##*/}
printf '%s\\0' "$@" >>"$here/$name.argv"; printf '\\n' >>"$here/$name.argv"
cat /proc/self/environ >>"$here/$name.environ"
"""
SYSTEMD_RUN = (
    KEEPS
    + """
if [ -e "$here/taken" ]; then
rm "$here/taken"; echo 'Failed to start transient service unit: Unit x.service already exists.' >&2; exit 1
fi
if [ -e "$here/broken" ]; then echo 'Failed to connect to bus: No medium found' >&2; exit 1; fi
while case $1 in --*) true;; *) false;; esac; do shift; done
setsid "$@" </dev/null >/dev/null 2>&1 &
"""
)  # fmt: skip
TOOL = (
    KEEPS
    + """
case $2 in
inspect) if [ -e "$here/missing" ]; then echo 'Error: No such container: sgl' >&2; exit 1; fi; cat "$here/state";;
start) if [ -e "$here/broken" ]; then echo 'cannot start: no such device' >&2; exit 125; fi;;
logs) echo 'its last line';;
esac
"""
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def calls(folder: Path, name: str) -> list[list[str]]:
    """The arguments of each call."""
    kept = folder / f"{name}.argv"
    return [line.split("\0")[:-1] for line in kept.read_text().split("\n") if line] if kept.exists() else []


def write(place: Locked, record_id: str, *argv: str) -> Path:
    log = place.folder / "logs" / f"{record_id}.log"
    env = (("PATH", os.environ["PATH"]), ("HF_TOKEN", SECRET), ("ODD", "a\nb\"c'd$HOME%h\\"))
    status, out, said = place.run(
        ask_record_create(place.fence, record_id, b"{}", LaunchFiles(argv, env, str(place.folder), str(log), ()))
    )
    assert status == 0, (out, said)
    return log


def start(place: Locked, chosen: Launcher, record: Record) -> tuple[str, str | None, bytes]:
    status, out, said = place.run(chosen.start(place.fence, record))
    word, handle = chosen.read_start(Completed(status, out, said))
    return word, handle, said


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_a_unit_of_our_own_runs_the_keeper(shell: str, tmp_path: Path, programs: Path) -> None:
    stand_in(programs, "systemd-run", SYSTEMD_RUN)
    (programs / "taken").touch()
    with locked(tmp_path, shell) as place:
        log = write(place, "one", "sh", "-c", 'printf "%s|" "$HF_TOKEN" "$ODD" "$INVOCATION_ID"; exit 3')
        record = Record("one", "start", "", "", launcher="systemd", handle=launcher("systemd").handle(RECIPE))
        assert start(place, launcher("systemd"), record)[:2] == (STARTED, "eagletui-30000-2")
        state = place.wait("one", lambda state: state.exit_status is not None)
        assert state.exit_status == 3
        assert log.read_text() == f"{SECRET}|a\nb\"c'd$HOME%h\\||"
        keeper = place.records / "one" / "launch" / "keeper"
        assert keeper.stat().st_mode & 0o777 == 0o600
    first, second = calls(programs, "systemd-run")
    assert "--unit=eagletui-30000" in first
    assert "--unit=eagletui-30000-2" in second
    for flag in (
        "--quiet",
        "--collect",
        "--no-ask-password",
        "--service-type=exec",
        f"--property=StandardOutput=append:{log}",
    ):
        assert flag in second
    assert {f"--property={name}={value}" for name, value in PROPERTIES} <= set(second)
    assert ("--user" in second) == (os.getuid() != 0 or not Path("/run/systemd/private").exists())
    assert second[-4:][1:] == ["sh", str(keeper), str(keeper.parent.parent)]
    kept = (programs / "systemd-run.argv").read_bytes() + (programs / "systemd-run.environ").read_bytes()
    assert SECRET.encode() not in kept
    assert b"XDG_RUNTIME_DIR=/" in kept


def test_a_unit_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path, programs: Path) -> None:
    stand_in(programs, "systemd-run", SYSTEMD_RUN)
    (programs / "broken").touch()
    with locked(tmp_path) as place:
        log = write(place, "one", "true")
        record = Record("one", "start", "", "", launcher="systemd", handle="eagletui-x")
        word, _, said = start(place, launcher("systemd"), record)
        assert (word, b"No medium found" in said) == ("unit-failed", True)
        assert not log.exists()
        assert not (place.records / "one" / "launch" / "keeper").exists()
        assert not (place.records / "one" / "begun").exists()
        (programs / "broken").unlink()
        assert start(place, launcher("systemd"), record)[0] == STARTED  # it may be tried again
        place.wait("one", lambda state: state.exit_status == 0)


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_a_container_by_its_name(shell: str, tmp_path: Path, programs: Path) -> None:
    stand_in(programs, "podman", TOOL)
    (programs / "state").write_text(f"running {os.getpid()} 0\n")
    chosen, record = launcher("podman"), Record("one", "start", "", "", launcher="podman", handle="sgl")
    with locked(tmp_path, shell) as place:
        state = chosen.read_look(Completed(*place.run(chosen.look(record))))
        assert state.process is not None
        assert (state.process.pid, state.lives, state.log_size, state.tail) == (
            os.getpid(),
            True,
            0,
            b"its last line\n",
        )
        stop = chosen.stop(place.fence, record, 7.2)
        assert stop is not None
        assert place.run(stop)[:2] == (0, b"stopping\n")
        wait_until(lambda: ["container", "stop", "-t", "8", "sgl"] in calls(programs, "podman"))
        (programs / "state").write_text("exited 0 137\n")
        assert chosen.read_look(Completed(*place.run(chosen.look(record)))).exit_status == 137
        assert start(place, chosen, record)[:2] == (STARTED, None)
        assert ["container", "start", "sgl"] in calls(programs, "podman")
        (programs / "broken").touch()
        assert start(place, chosen, record)[::2] == ("container-failed", b"cannot start: no such device\n")
        (programs / "missing").touch()
        assert start(place, chosen, record)[0] == "container-missing"


def wait_until(is_so: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.03)


HOSTILE = ("$(touch executed)", "-a", "a b", "", "a\nb")


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_names_that_are_none_are_refused_and_a_lost_fence_does_nothing(
    shell: str, tmp_path: Path, programs: Path
) -> None:
    for name in ("docker", "systemctl", "systemd-run", "journalctl"):
        stand_in(programs, name, TOOL if name == "docker" else KEEPS)
    (programs / "state").write_text("running 1 0\n")
    with locked(tmp_path, shell) as place:
        for word in HOSTILE:
            for command in (
                Command(CONTAINER_START, (*place.fence, "docker", word)),
                Command(CONTAINER_STOP, (*place.fence, "docker", word, "5")),
                Command(CONTAINER_STOP, (*place.fence, "docker", "sgl", word)),
                Command(CONTAINER_STATE, ("docker", word, "5")),
                Command(CONTAINER_START, (*place.fence, word, "sgl")),
                Command(UNIT_START, (*place.fence, word)),
                Command(UNIT_STOP, (*place.fence, f"{word}.service")),
                Command(UNIT_STATE, (word, "5")),
                Command(LAUNCH_SYSTEMD, (*place.fence, "one", word)),
            ):
                assert place.run(command)[0] == 2, command
        other = (place.fence[0], "anothertoken")
        for command in (
            Command(CONTAINER_START, (*other, "docker", "sgl")),
            Command(CONTAINER_STOP, (*other, "docker", "sgl", "5")),
            Command(UNIT_START, (*other, "a.service")),
            Command(UNIT_STOP, (*other, "a.service")),
            Command(LAUNCH_SYSTEMD, (*other, "one", "a")),
        ):
            status, out, _ = place.run(command)
            assert (status, out[:6]) == (FENCED, b"fenced")
    assert calls(programs, "docker") == calls(programs, "systemctl") == calls(programs, "systemd-run") == []
    assert not list(tmp_path.rglob("executed"))


OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*(?=[ =])")
SCRIPTS = (LAUNCH_SYSTEMD, UNIT_START, UNIT_STOP, UNIT_STATE, CONTAINER_START, CONTAINER_STOP, CONTAINER_STATE)


def options_used(tool: str) -> set[str]:
    """The options that our scripts give a tool, on its line and on those that continue it."""
    used: set[str] = set()
    word = {"docker": '"$tool"', "podman": '"$tool"'}.get(tool, tool)
    for script in SCRIPTS:
        for line in script.text.replace("\\\n", " ").split("\n"):
            for part in line.split(f"{word} ")[1:]:
                if not part.startswith((">", ")")):
                    used |= set(OPTION.findall(re.split(r" -- | 2>|/launch/keeper", part)[0]))
    return used - {"-i", "-v"}  # of `env`, and of `command`


@pytest.mark.parametrize("tool", ["systemd-run", "systemctl", "journalctl", "docker", "podman"])
def test_the_options_are_the_tools_own(tool: str) -> None:
    kept = (DATA / f"{tool}.txt").read_text()
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*", kept)) | {"--service-type"}
    used = options_used(tool)
    assert used, "the scripts use none: they are not read as they are written"
    assert used <= known
    if program(tool) is not None:
        verbs = ["start", "stop", "inspect", "logs"] if tool in {"docker", "podman"} else [None]
        for verb in verbs:
            argv = [tool, "--help"] if verb is None else [tool, "container", verb, "--help"]
            said = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True).stdout
            section = (
                kept
                if verb is None
                else re.split(rf"^{tool} container ", kept.partition(f"container {verb}\n")[2], flags=re.MULTILINE)[0]
            )
            now = set(re.findall(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*", said))
            needed = used & set(re.findall(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*", section))
            assert needed <= now, f"the {tool} that is installed here no longer has {needed - now}"


def test_the_units_properties_are_systemds_own(tmp_path: Path) -> None:
    analyze = require("systemd-analyze")
    unit = tmp_path / "eagletui-test.service"
    lines = [
        f"{name}={value}" for name, value in (*PROPERTIES, ("StandardOutput", "append:/tmp/a b.log"), ("Type", "exec"))
    ]
    unit.write_text("[Service]\nExecStart=/bin/true\n" + "\n".join(lines) + "\n")
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=20, check=False)
    assert not [line for line in done.stderr.splitlines() if "eagletui-test" in line]
    unit.write_text(unit.read_text().replace("OOMPolicy", "OOMPolicyy"))
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, timeout=20, check=False)
    assert "OOMPolicyy" in done.stderr  # it does tell


MANAGER = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system /run/own && chmod 700 /run/own || exit 3
systemd=/lib/systemd/systemd; [ -x "$systemd" ] || systemd=/usr/lib/systemd/systemd
XDG_RUNTIME_DIR=/run/own; export XDG_RUNTIME_DIR
"$systemd" --user --log-target=console --log-level=notice >"$HOME/manager.log" 2>&1 &
manager=$!
n=0
while [ "$(systemctl --user is-system-running 2>/dev/null)" != running ]; do
n=$((n + 1)); [ "$n" -lt 100 ] || { kill "$manager"; exit 3; }
sleep 0.1
done
echo ready
read -r line
kill "$manager"; wait "$manager"
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Callable[[Command], tuple[int, bytes, bytes]]]:
    """Runs a script where a `systemd --user` of its own runs: in a mount namespace, so that nothing else sees it."""
    for need in ("root", "unshare", "nsenter", "systemd-run"):
        require(need)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", MANAGER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            pytest.skip("no systemd --user can be started here")

        def inside(command: Command) -> tuple[int, bytes, bytes]:
            sent = wire(command)
            argv = ["nsenter", "-t", str(process.pid), "-m", "sh", "-c", sent.line]
            done = subprocess.run(
                argv, input=sent.stdin, capture_output=True, timeout=20, check=False, env=environment | {"XDG_RUNTIME_DIR": "/run/own"}
            )  # fmt: skip
            return done.returncode, MarkStripper().decode(done.stdout), MarkStripper().decode(done.stderr)

        yield inside
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


def test_a_real_systemd_keeps_a_unit_of_ours(
    tmp_path: Path, manager: Callable[[Command], tuple[int, bytes, bytes]]
) -> None:
    chosen = launcher("systemd")
    record = Record("one", "start", "", "", launcher="systemd", handle=chosen.handle(RECIPE))
    with locked(tmp_path) as place:
        write(place, "one", "sh", "-c", "sleep 600; exit 7")
        status, out, said = manager(chosen.start(place.fence, record))
        assert (status, chosen.read_start(Completed(status, out, said))) == (0, (STARTED, "eagletui-30000")), said
        state = place.wait("one", lambda state: state.lives)
        assert state.keeper is not None
        assert state.process is not None
        assert state.session == state.keeper.pid
        assert [(output.number, output.is_log) for output in state.outputs] == [(1, True), (2, True)]
        asked = ("SendSIGKILL", "OOMPolicy", "Restart", "MainPID", "ActiveState")
        show = ("systemctl", "--user", "show", *(f"--property={name}" for name in asked), "eagletui-30000.service")
        shown = manager(Command(RUN_TOOL, ("5", *show)))[1].decode()
        assert set(shown.split()) == {
            "SendSIGKILL=no", "OOMPolicy=continue", "Restart=no", f"MainPID={state.keeper.pid}", "ActiveState=active",
        }  # fmt: skip
        os.kill(state.process.pid, 15)
        state = place.wait("one", lambda state: state.exit_status is not None)
        assert state.exit_status == 143


def test_a_real_systemd_starts_and_stops_a_unit_that_exists(
    tmp_path: Path, manager: Callable[[Command], tuple[int, bytes, bytes]]
) -> None:
    units = tmp_path / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "mine.service").write_text("[Service]\nExecStart=/bin/sleep 600\n")
    (units / "fails.service").write_text("[Service]\nExecStart=/bin/sh -c 'exit 3'\n")
    chosen = launcher("systemd")

    def record(unit: str) -> Record:
        return Record("one", "start", "", "", launcher="systemd", handle=unit)

    def word(unit: str) -> str:
        return chosen.read_start(Completed(*manager(chosen.start(place.fence, record(unit)))))[0]

    def look(unit: str) -> KeeperState:
        return chosen.read_look(Completed(*manager(chosen.look(record(unit)))))

    with locked(tmp_path) as place:
        assert word("mine.service") == STARTED
        wait_until(lambda: look("mine.service").lives)
        stop = chosen.stop(place.fence, record("mine.service"), 30)
        assert stop is not None
        assert manager(stop)[:2] == (0, b"stopping\n")
        wait_until(lambda: not look("mine.service").lives)
        wait_until(lambda: not look("mine.service").begun)
        assert word("mine.service") == STARTED
        seen = look("mine.service")  # the job is queued at least: how the run before ended is no answer any more
        assert (seen.exit_status, seen.begun) == (None, True)
        wait_until(lambda: look("mine.service").lives)
        assert word("fails.service") == STARTED
        wait_until(lambda: look("fails.service").exit_status == 3)
        assert word("no-such.service") == "unit-missing"
