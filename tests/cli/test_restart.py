"""`start`, `stop` and `restart` on this machine, with real processes: every exit status by a real run, and what is said of it."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from eagletui.cli.configured import configured
from eagletui.cli.main import main
from eagletui.cli.plan_text import MASK_NOTE
from eagletui.errors import EagletuiError
from eagletui.shell.masking import MASK
from tests.e2e.bare_terminal import BareTerminal, bare_terminal
from tests.engine import CANARY
from tests.requires import require
from tests.sshd import free_port
from tests.unruly import UNRULY, lives, wait_until

EAGLETUI = [sys.executable, "-m", "eagletui"]
ENDS_S = 60.0


def started_of(pid: int) -> int:
    """Clock ticks since the boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@dataclass
class Place:
    """A home and a folder in which servers run. `mark` is in the environment of everything that is started from here, by whomever."""

    home: Path
    capture: pytest.CaptureFixture[str]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    port: int = field(default_factory=free_port)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.home / "serving"

    @property
    def argv(self) -> list[str]:
        server = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(self.folder / "model")]
        return [*server, "--port", str(self.port), "--tp", "2", "--api-key", CANARY]

    @property
    def env(self) -> dict[str, str]:
        own = {"PYTHONPATH": str(UNRULY), "RESTART_MARK": self.mark, "HF_TOKEN": CANARY, "PYTHONDONTWRITEBYTECODE": "1"}
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **own}

    def behave(self, words: str) -> None:
        """How the next server behaves."""
        (self.folder / "unruly").write_text(words)

    def serve(self, *before: str) -> int:
        """Start a server by hand; its pid. `before`: what starts it, and keeps it; else nobody does."""
        log = self.folder / "hand.log"
        with log.open("wb") as out:
            started = subprocess.Popen(
                [*(before or (require("setsid"), "--fork")), *self.argv], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, start_new_session=True,
            )  # fmt: skip
        self.started.append(started)
        wait_until(lambda: "fired up" in log.read_text(errors="replace"), "the server never came up", 30)
        wanted = {b"sglang.launch_server", str(self.port).encode()}
        found = [
            pid for pid in self.processes() if wanted <= set(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
        ]
        return max(
            found, key=lambda pid: (started_of(pid), pid)
        )  # pids come round again: the largest is not the newest

    def run(self, *words: str) -> tuple[int, str, str]:
        """`eagletui WORDS` in this process: exit status, stdout, stderr. Nothing secret is in either."""
        configured.cache_clear()
        self.capture.readouterr()
        try:
            status = main.main([*words], standalone_mode=False)
        except EagletuiError as error:
            sys.stderr.write(f"eagletui: {error}\n")
            status = error.exit_status
        out, err = self.capture.readouterr()
        assert CANARY not in out + err
        return status, out, err

    def on_port(self, word: str, *words: str) -> tuple[int, str, str]:
        return self.run(word, "local", "--port", str(self.port), *words)

    def events(self, word: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
        """The same with --json: exit status and events."""
        status, out, err = self.on_port(word, "--yes", "--json", *words)
        told = [json.loads(line) for line in out.splitlines()]
        assert told, err
        assert told[-1]["event"] == "result"
        assert told[-1]["exit"] == status
        assert {one["schema"] for one in told} == {"eagletui.event/1"}
        return status, told

    def record(self) -> dict[str, Any]:
        """The newest on the node."""
        path = max(self.home.glob(".local/state/eagletui/launches/*/*/record.json"), key=lambda one: one.parent.name)
        text = path.read_text()
        assert CANARY not in text
        found: dict[str, Any] = json.loads(text)
        return found

    def locked(self) -> bool:
        return Path(f"/tmp/eagletui-lock-{self.port}").exists()

    def processes(self) -> list[int]:
        """Everything that lives and was started from here."""
        found = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if f"RESTART_MARK={self.mark}".encode() in environ.read_bytes().split(b"\0"):
                    found.append(int(environ.parent.name))
        return [pid for pid in found if lives(pid)]


@pytest.fixture
def place(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    require("procfs")
    require("setsid")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path, capfd)
    model = made.folder / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(os.urandom(5000))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield made
        monkeypatch.undo()
    for pid in made.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for one in made.started:
        one.wait(10)
    for entry in Path("/dev/shm").glob("sgl_shm_*"):
        if not Path(f"/proc/{entry.name.rpartition('_')[2]}").exists():
            entry.unlink(missing_ok=True)


def names(events: list[dict[str, Any]], status: str) -> list[str]:
    return [one["name"] for one in events if one["event"] == "step" and one["status"] == status]


def test_a_server_that_was_started_by_hand_is_restarted_and_launched_again_from_its_record(place: Place) -> None:
    old = place.serve()
    status, out, _ = place.on_port("restart", "--dry-run", "--json", "--set", "tp=1")
    plan = json.loads(out)
    assert (status, plan["schema"]) == (0, "eagletui.plan/1")
    assert [step["name"] for step in plan["steps"]] == ["preflight", "identify", "stop", "gpus-free", "leftovers", "launch", "verify"]  # fmt: skip
    assert not any(step["reads_only"] for step in plan["steps"])
    assert any(f"{old}:" in command and command.startswith("signal ") for command in plan["steps"][2]["commands"])
    status, out, _ = place.on_port("restart", "--dry-run")
    assert out.count("# script signal\n") == 1
    assert 'send "$name" "$pid" "$started"' in out
    assert f"# {MASK_NOTE}\n" in out
    assert MASK in MASK_NOTE
    assert lives(old)
    assert not (place.home / ".local/state/eagletui").exists()

    status, events = place.events("restart", "--wait", "--set", "tp=1")
    assert status == 0, events[-1]
    assert names(events, "done") == ["preflight", "identify", "stop", "gpus-free", "leftovers", "launch", "verify", "watch", "ready"]  # fmt: skip
    assert (events[-1]["step"], events[-1]["state"], events[-1]["diagnosis"]) == ("ready", "ready", None)
    assert events[-1]["ready_s"] is not None
    assert not lives(old)
    record = place.record()
    new = record["process"][0]
    assert events[-1]["server"]["pid"] == new
    assert (record["step"], record["outcome"], record["kind"]) == ("ready", "done", "restart")
    assert Path(record["log"]).parent == place.folder
    assert "server_args=" in Path(record["log"]).read_text()
    assert not place.locked()
    with closing(sqlite3.connect(place.home / ".local/share/eagletui/history.db")) as kept:
        assert kept.execute("SELECT origin, outcome, tp FROM launches").fetchall() == [("eagletui", "ready", 1)]

    status, out, err = place.on_port("restart", "--yes")
    assert status == 0, err
    again = place.record()
    assert again["previous"] == record["id"]
    assert again["command"] == record["command"]
    assert again["log"] != record["log"]
    assert f"--api-key\0{CANARY}\0".encode() in Path(f"/proc/{again['process'][0]}/cmdline").read_bytes()
    assert not lives(new)
    assert place.on_port("start", "--yes")[0] == 16  # it runs already

    mine, place.port = place.port, free_port()
    beside = place.serve()
    place.port = mine
    status, _, err = place.run("stop", "local", "--yes")  # which of two is meant is told by no record
    assert (status, "name one with --port" in err) == (16, True), err
    assert lives(beside)
    os.kill(beside, signal.SIGTERM)
    wait_until(lambda: not lives(beside), "it does not end")
    status, out, err = place.on_port("stop", "--yes")
    assert status == 0, err
    assert place.processes() == []
    status, _, err = place.on_port("stop", "--yes")
    assert (status, "no server runs on port" in err) == (14, True)
    _, out, _ = place.on_port(
        "start", "--back", "--dry-run"
    )  # the one that was waited for, and so is known to have become ready
    assert re.search(rf"^CHANGES record-copy .* {record['id']} ", out, re.MULTILINE), out[:2000]


def test_the_launch_command_dies_before_its_log_exists(place: Place) -> None:
    """The crash that eagletui was made for: the reason is told at once, instead of minutes of waiting for a server that does not exist."""
    place.serve()
    place.behave("dies-at-once")
    status, events = place.events("restart", "--wait")
    began = next(one for one in events if one["event"] == "step" and one["name"] == "launch")
    took = datetime.fromisoformat(events[-1]["time"]) - datetime.fromisoformat(began["time"])
    assert status == 18
    assert took.total_seconds() <= 6.0
    assert events[-1]["state"] == "crashed"
    assert events[-1]["reason"]["code"] == "never-started"
    assert "exit status 3" in events[-1]["reason"]["text"]
    assert "ModuleNotFoundError: No module named 'sgl_kernel'" in events[-1]["reason"]["text"]
    assert not place.locked()
    status, _, err = place.on_port("start", "--yes", "--wait")
    assert status in {13, 18}, err  # on a busy machine it lives for a second, and then it crashed
    assert "CRASHED" in err
    assert place.record()["outcome"] == "failed"


@pytest.mark.slow
def test_a_start_that_crashes_stalls_or_takes_too_long_and_what_would_not_help(place: Place) -> None:
    place.serve()
    assert place.on_port("stop", "--yes")[0] == 0
    assert place.on_port("start", "--yes")[0] == 14  # what was stopped was not ours: nothing tells how to start it
    place.serve()
    place.behave("dies-loading slow=8")
    status, events = place.events("restart", "--wait")
    assert (status, events[-1]["state"], events[-1]["diagnosis"]["code"]) == (13, "crashed", "cuda-oom")
    assert place.events("start", "--wait")[0] == 13
    status, _, err = place.on_port("start", "--yes", "--wait")
    assert status == 16
    assert "crashed 2 times in a row with cuda-oom" in err
    place.behave("never-ready")
    status, events = place.events("start", "--wait", "--again", "--timeout", "3")
    assert (status, events[-1]["state"], names(events, "skipped")) == (15, "starting", ["stop"])


def test_a_flag_that_the_engine_does_not_know_costs_no_server(place: Place) -> None:
    old = place.serve()
    status, _, err = place.on_port("restart", "--yes", "--set", "speculative-number=2")
    assert status == 16
    assert "nothing was touched" in err
    assert "speculative-number" in err
    assert lives(old)
    assert not place.locked()


def test_a_server_that_its_script_starts_again_is_not_launched_a_second_time(place: Place) -> None:
    place.serve("/bin/sh", "-c", 'while true; do "$@"; sleep 0.2; done', "run.sh")
    status, _, err = place.on_port("restart", "--yes")
    assert status == 17
    assert "restarted by its keeper" in err
    assert "its keeper's new one runs, and eagletui launched nothing" in err
    assert place.record()["process"] is None


def test_nobody_to_ask_a_node_that_is_only_looked_at_and_one_whose_name_is_typed(place: Place) -> None:
    old = place.serve()
    status, _, err = place.on_port("stop")
    assert (status, "no terminal to ask on" in err) == (2, True)
    config = place.home / ".config/eagletui/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[nodes.local]\nconfirm_name = true\n")
    status, _, err = place.on_port("stop", "--yes")
    assert (status, "--confirm NAME does" in err) == (2, True)
    assert place.on_port("stop", "--yes", "--confirm", "other")[0] == 16
    config.write_text("[nodes.local]\nread_only = true\n")
    status, _, err = place.on_port("stop", "--yes")
    assert (status, "read_only" in err) == (16, True)
    assert place.run("stop", "nobody@127.0.0.1:1", "--yes")[0] == 20
    assert lives(old)
    config.write_text("[nodes.local]\nconfirm_name = true\n")
    assert place.on_port("stop", "--yes", "--confirm", "local")[0] == 0
    assert not lives(old)


def says(terminal: BareTerminal, text: bytes) -> None:
    until = time.monotonic() + ENDS_S
    while text not in terminal.tail:
        assert terminal.process.poll() is None, terminal.tail[-3000:]
        assert time.monotonic() < until, terminal.tail[-3000:]
        time.sleep(0.05)


def test_no_on_the_terminal_and_ctrl_c_in_a_drain(place: Place) -> None:
    place.behave("drains=30")
    old = place.serve()
    words = ["--port", str(place.port)]
    with bare_terminal([*EAGLETUI, "restart", "local", *words], place.home) as terminal:
        says(terminal, b"Restart? [y/N]")
        terminal.keys(b"n\n")
        assert terminal.process.wait(ENDS_S) == 16
    assert lives(old)
    with bare_terminal([*EAGLETUI, "restart", "local", *words, "--yes"], place.home) as terminal:
        says(terminal, b"drains for")
        terminal.keys(b"\x03")
        says(terminal, b"cannot be undone")
        terminal.keys(b"\x03")
        assert terminal.process.wait(ENDS_S) == 130
        said = terminal.tail
    assert b"nothing was launched" in said
    assert not place.locked()
    assert place.record()["outcome"] == "running", "it was told to end: the next one can go on with it"
    began = time.monotonic()
    status, _, err = place.on_port("restart", "--yes", "--grace", "0.5")
    assert status == 0, err
    assert time.monotonic() - began < 25
    assert not lives(old)
