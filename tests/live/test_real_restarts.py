"""A real SGLang, restarted again and again as a user does it. Opt-in (EAGLETUI_LIVE=1): takes a quarter of an hour.

What is asserted: none is lost, and nothing is left over (processes, locks, temporary files, shared memory). What is printed with -s: how long each
step took, median and worst.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.live.engine import FLAGS, HOME, PYTHON, RealEngine, needs_the_real_engine
from tests.live.test_real_sglang import begin_request
from tests.sshd import free_port

VARIANTS: tuple[tuple[str, ...], ...] = (
    ("max-running-requests=8",),
    ("chunked-prefill-size=512",),
    ("schedule-policy=lpm",),
    ("enable-metrics=false",),
    ("enable-metrics",),
    ("random-seed=7",),
    ("max-running-requests=4", "stream-interval=4"),
    ("schedule-conservativeness=0.5",),
    ("log-level=debug",),
    ("disable-radix-cache",),
)
UNDER_LOAD = (2, 5, 8)


@pytest.fixture(autouse=True)
def _real() -> None:
    needs_the_real_engine()


class Restarts:
    """`eagletui` on this machine with a home of its own, and how long each step took."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self.home = home
        self.took: dict[str, list[float]] = defaultdict(list)
        self.env = {
            **os.environ,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
        }

    def run(self, command: str, *words: str) -> dict[str, object]:
        """One command to its end; its result. The steps' seconds are kept."""
        argv = [sys.executable, "-m", "eagletui", command, "local", "--port", str(self.port), "--yes", "--json", *words]
        done = subprocess.run(
            argv, env=self.env, cwd=self.home, capture_output=True, text=True, timeout=600, check=False
        )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        steps = {e["name"]: e for e in events if e["event"] == "step" and e["status"] in {"done", "failed"}}
        for name, event in steps.items():
            self.took[name].append(event["elapsed_s"])
        result: dict[str, object] = events[-1] if events else {}
        assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
        assert result.get("event") == "result", events[-3:]
        return result

    def table(self) -> str:
        """Median and worst of each step."""
        rows = [
            f"{name:<12} n {len(s):2}  median {statistics.median(s):6.2f} s  worst {max(s):6.2f} s"
            for name, s in self.took.items()
        ]
        return "\n" + "\n".join(rows) + "\n"

    def processes(self) -> list[str]:
        """Whoever still has this port in its command line, or is a process of the engine that was started from here."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                ours = (folder / "exe").resolve() == PYTHON.resolve()
                if state != "Z" and ours and (f"--port {self.port} " in words or words.startswith("sglang::")):
                    found.append(f"{folder.name} {words[:80]}")
        return found


def left_behind() -> set[str]:
    """Locks, temporary files of eagletui, and segments of shared memory."""
    return {str(p) for p in (*Path("/tmp").glob("*eagletui*"), *Path("/dev/shm").iterdir())}


@contextmanager
def by_hand(restarts: Restarts) -> Iterator[Path]:
    """As a person starts it: in an activated environment, from a folder of theirs, into a log of theirs."""
    log = restarts.home / "by-hand.log"
    words = shlex.join([*FLAGS, "--model-path", str(HOME / "tiny64"), "--port", str(restarts.port)])
    line = f"export SGLANG_USE_CPU_ENGINE=1 HF_HUB_OFFLINE=1; . {HOME}/sglang/bin/activate; nohup python -m sglang.launch_server {words} >{log} 2>&1 & disown"
    subprocess.run(["setsid", "bash", "-c", line], cwd=restarts.home, check=True, timeout=20)
    yield log


def answers(port: int) -> bool:
    with suppress(OSError):
        import urllib.request

        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            return bool(answer.status == 200)
    return False


def test_ten_restarts_in_a_row(tmp_path: Path) -> None:
    restarts = Restarts(tmp_path)
    before = left_behind()
    with by_hand(restarts) as log:
        until = time.monotonic() + 300
        while not answers(restarts.port):
            assert time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.5)
        result = restarts.run("restart", "--wait")
        sys.stdout.write(f"\nfrom nothing: ready after {result['ready_s']} s")
        for at, variant in enumerate(VARIANTS):
            engine = RealEngine(None, restarts.port, log)  # type: ignore[arg-type]
            load = [begin_request(engine, 15_000) for _ in range(4)] if at in UNDER_LOAD else []
            changes = [word for change in variant for word in ("--set", change)]
            grace = ["--grace", "10"] if load else []
            began = time.monotonic()
            result = restarts.run("restart", "--wait", *changes, *grace)
            sys.stdout.write(
                f"\n{at} {' '.join(variant):<40} {time.monotonic() - began:6.1f} s {'under load' if load else ''}"
            )
            for sock in load:
                sock.close()
            assert answers(restarts.port)
            assert sum("launch_server" in line for line in restarts.processes()) == 1, restarts.processes()
        restarts.run("stop")
    sys.stdout.write(restarts.table())
    assert restarts.processes() == []
    assert left_behind() - before == set()


def test_sigint_still_stops_a_server_that_was_launched_from_here(tmp_path: Path) -> None:
    restarts = Restarts(tmp_path)
    (tmp_path / "config" / "eagletui").mkdir(parents=True)
    command = [
        str(PYTHON),
        "-m",
        "sglang.launch_server",
        *FLAGS,
        "--model-path",
        str(HOME / "tiny64"),
        "--port",
        str(restarts.port),
    ]
    (tmp_path / "config" / "eagletui" / "config.toml").write_text(
        f"[profiles.tiny]\ncommand = {json.dumps(command)}\ncwd = {json.dumps(str(tmp_path))}\nlog = {json.dumps(str(tmp_path / 'tiny-{time}.log'))}\n"
        'env = { SGLANG_USE_CPU_ENGINE = "1", HF_HUB_OFFLINE = "1" }\n'
    )
    restarts.run("start", "--profile", "tiny", "--wait")
    launcher = int(next(line for line in restarts.processes() if "launch_server" in line).split()[0])
    ignored = int(
        next(x for x in Path(f"/proc/{launcher}/status").read_text().splitlines() if x.startswith("SigIgn")).split()[1],
        16,
    )
    assert not ignored & (1 << (signal.SIGINT - 1))
    assert not ignored & (1 << (signal.SIGQUIT - 1))
    os.kill(launcher, signal.SIGINT)
    until = time.monotonic() + 60
    while restarts.processes():
        assert time.monotonic() < until, restarts.processes()
        time.sleep(0.2)
