"""A real SGLang on this machine's CPU, and what a monitor says of it, with times.

`$REAL_ENGINE_HOME` (default ~/.cache/real-engine) holds a virtual environment `sglang` and models of random weights (`tiny64`, `mid64`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.snapshot import Snapshot
from eagletui.nodes.local import LocalNode
from tests.sshd import free_port

START_S = 300.0
"""25 s to ready on two idle cores, minutes on busy ones."""
OPT_IN = "EAGLETUI_LIVE"
HOME = Path(os.environ.get("REAL_ENGINE_HOME", "~/.cache/real-engine")).expanduser()
PYTHON = HOME / "sglang" / "bin" / "python"
FLAGS = (
    "--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch", "--disable-cuda-graph",
    "--disable-overlap-schedule", "--enable-metrics", "--max-total-tokens", "20000",
    "--model-loader-extra-config", '{"enable_multithread_load": false}',
)  # fmt: skip


def needs_the_real_engine() -> None:
    """Skips where nobody asked for it, or it is not there: it takes minutes and gigabytes."""
    if not os.environ.get(OPT_IN):
        pytest.skip(f"real engines are tried only with {OPT_IN}=1")
    if not PYTHON.exists():
        pytest.skip(f"no real SGLang under {HOME} (REAL_ENGINE_HOME)")


@dataclass(slots=True)
class RealEngine:
    """A launch, its port and log."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def pid_of(self, title: str) -> int | None:
        """The member whose title begins so."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, IndexError):
                session = int(stat.read_text().rpartition(")")[2].split()[3])
                name = (stat.parent / "cmdline").read_bytes().split(b"\0")[0].decode()
                if session == self.process.pid and name.startswith(title):
                    return int(stat.parent.name)
        return None

    @property
    def text(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")


@contextmanager
def launched(folder: Path, model: str, *flags: str, port: int | None = None) -> Iterator[RealEngine]:
    """As a user launches it; its session is ended afterwards."""
    port, log = port or free_port(), folder / "server.log"
    path = str(HOME / model) if model else "/no/such/model"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "sglang.launch_server", *FLAGS, "--model-path", path, "--port", str(port), *flags],
            env={**os.environ, "SGLANG_USE_CPU_ENGINE": "1", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield RealEngine(process, port, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@dataclass(slots=True)
class Seen:
    """When the monitor first said what, by the monotonic clock: states with their reasons, and diagnoses."""

    monitor: NodeMonitor
    verdicts: list[tuple[float, str, str, str]] = field(default_factory=list)
    diagnoses: list[tuple[float, str]] = field(default_factory=list)

    def look(self) -> Snapshot:
        """Take note of what changed."""
        snapshot = self.monitor.snapshot()
        now, verdict = time.monotonic(), snapshot.verdict
        told = (str(verdict.state), verdict.reason.code)
        if not self.verdicts or self.verdicts[-1][1:3] != told:
            self.verdicts.append((now, *told, verdict.reason.text))
        code = snapshot.diagnosis.code if snapshot.diagnosis is not None else ""
        if code != (self.diagnoses[-1][1] if self.diagnoses else ""):
            self.diagnoses.append((now, code))
        return snapshot

    async def until(self, what: Callable[[Snapshot], object], seconds: float) -> float:
        """When it first was so."""
        end = time.monotonic() + seconds
        while not what(self.look()):
            assert time.monotonic() < end, f"not within {seconds} s: {self.verdicts[-5:]} {self.diagnoses}"
            await asyncio.sleep(0.02)
        return time.monotonic()

    @property
    def codes(self) -> list[str]:
        """Every state and reason that was said, in order."""
        return [f"{state}:{code}" for _, state, code, _ in self.verdicts]


@asynccontextmanager
async def seeing(port: int) -> AsyncIterator[Seen]:
    """A monitor of this machine that watches the server of this port."""
    monitor = NodeMonitor(LocalNode(), port=port)
    task = asyncio.create_task(monitor.run())
    try:
        yield Seen(monitor)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await monitor.aclose()


async def written(engine: RealEngine, text: str, seen: Seen, seconds: float = START_S) -> float:
    """When the log first held this text."""
    end = time.monotonic() + seconds
    while text not in engine.text:
        assert time.monotonic() < end, f"{text!r} never came: {engine.text[-500:]}"
        seen.look()
        await asyncio.sleep(0.02)
    return time.monotonic()
