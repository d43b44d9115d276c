"""A client in a process of its own, so that it can be stopped and killed as a laptop is: a NodeMonitor that follows a
server's log and writes what its screen would show to a file.

`python -m tests.e2e.following JSON` with the fields of `Orders`. Lines of the file: `= TEXT` one line of the store as
soon as it is finished, `M TEXT` a marker, `L SECONDS STATE ERROR` a change of the link, `N TEXT` a note, `V TEXT` a verdict,
`G NUMBER CODE` the GPUs and their error, `S` a new store, `R N` lines that the ring dropped before they were looked at.
SIGUSR1 puts the product's own keepalive into force instead of that of `constants`, SIGUSR2 the latter again: for the next
connection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from eagletui.logs.store import LineKind, LineStore

if TYPE_CHECKING:
    from eagletui.monitor.monitor import NodeMonitor

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Orders:
    """Whom to follow, and how. `constants`: values for `module:NAME`, which must exist; put into force in this order, and
    modules are imported with the first of theirs (others may have taken a constant by name)."""

    target: str
    config: str
    out: str
    port: int | None = None
    log_path: str | None = None
    constants: Mapping[str, float | list[float]] = field(default_factory=dict)


class Recorder:
    """Writes every change of the snapshot to the file."""

    def __init__(self, monitor: NodeMonitor, out: Path) -> None:
        self._monitor = monitor
        self._out = out.open("a", encoding="utf-8")
        self._events = events_of(out).open("a", encoding="utf-8")
        self._store: LineStore | None = None
        self._next = 0
        self._link: tuple[str, str | None] | None = None
        self._notes: set[str] = set()
        self._verdict = ""
        self._gpus = ""

    def look(self) -> None:
        """What is new since the last look. The last line of the store may be unfinished: it is left for the next."""
        snapshot = self._monitor.snapshot()
        store = snapshot.log.store
        if store is not self._store:
            self._store, self._next = store, 0
            self._say("S")
        if store.first > self._next:
            self._say(f"R {store.first - self._next}")
            self._next = store.first
        for number in range(self._next, store.end - 1):
            line = store.line(number)
            assert line is not None
            self._say(f"{'M' if line.kind is LineKind.MARKER else '='} {line.text}")
        self._next = max(self._next, store.end - 1)
        link = (snapshot.link.state, snapshot.link.error)
        if link != self._link:
            self._link = link
            self._say(f"L {time.monotonic():.2f} {link[0]} {link[1]}")
        for note in {*snapshot.notes, *([snapshot.log.error] if snapshot.log.error else [])} - self._notes:
            self._notes.add(note)
            self._say(f"N {note}")
        gpus = snapshot.gpus.report
        if (told := f"{len(gpus.gpus)} {gpus.error.code if gpus.error else None}") != self._gpus:
            self._gpus = told
            self._say(f"G {told}")
        verdict = f"{snapshot.verdict.state} {snapshot.verdict.reason.code}"
        if verdict != self._verdict:
            self._verdict = verdict
            self._say(f"V {verdict}")
        self._out.flush()
        self._events.flush()

    def _say(self, text: str) -> None:
        line = text.replace("\n", "\\n") + "\n"
        self._out.write(line)
        if not line.startswith("="):
            self._events.write(line)


def events_of(out: Path) -> Path:
    """A second file, of a client's few lines that are not of the log: it is read often."""
    return out.with_suffix(".events")


async def follow(orders: Orders) -> None:
    """Until SIGTERM."""
    own = {name: _put(name, value) for name, value in orders.constants.items()}
    keepalive = [name for name in own if "KEEPALIVE" in name]
    from eagletui.monitor.monitor import NodeMonitor
    from eagletui.nodes.registry import open_node

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _put_all, {name: own[name] for name in keepalive})
    loop.add_signal_handler(signal.SIGUSR2, _put_all, {name: orders.constants[name] for name in keepalive})
    monitor = NodeMonitor(
        open_node(orders.target, config_file=Path(orders.config)), port=orders.port, log_path=orders.log_path
    )
    monitor.on_change = Recorder(monitor, Path(orders.out)).look
    running = asyncio.create_task(monitor.run())
    loop.add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait((running,))
    await monitor.aclose()


def _put(name: str, value: object) -> object:
    """Give a constant a value, and return the one that it had."""
    module, _, attribute = name.partition(":")
    where = import_module(module)
    own: object = getattr(where, attribute)
    setattr(where, attribute, value)
    return own


def _put_all(constants: Mapping[str, object]) -> None:
    for name, value in constants.items():
        _put(name, value)


@dataclass(slots=True)
class Client:
    """A running client: its process, and what it wrote so far."""

    process: subprocess.Popen[bytes]
    out: Path
    errors: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def text(self) -> str:
        """All that it wrote."""
        # It may be read in the midst of a character that is being written.
        return self.out.read_text(encoding="utf-8", errors="ignore") if self.out.exists() else ""

    def entries(self, kind: str) -> list[str]:
        """The rest of all lines of one kind (not of `=`)."""
        return [line[2:] for line in self.events() if line.startswith(kind)]

    def events(self) -> list[str]:
        """All lines that are not of the log."""
        file = events_of(self.out)
        return file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []

    def newest_number(self) -> int:
        """The number of the newest numbered line, -1 before the first."""
        if not self.out.exists():
            return -1
        with self.out.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65_536))
            numbers = [int(line.split()[2]) for line in file.read().split(b"\n")[1:-1] if line.startswith(b"= line 0")]
        return numbers[-1] if numbers else -1

    def wait_for(self, number: int, seconds: float, why: str) -> None:
        """Until it has a numbered line as new as this one."""
        until = time.monotonic() + seconds
        while (newest := self.newest_number()) < number:
            self.check()
            assert time.monotonic() < until, f"{number} not within {seconds} s after {why}: at {newest}; {self.said()}"
            time.sleep(0.03)

    def said(self) -> list[str]:
        """What it wrote last, but for the lines of the log."""
        return self.events()[-12:]

    def wait_for_text(self, text: str, seconds: float = 20.0) -> None:
        """Until it wrote this."""
        until = time.monotonic() + seconds
        while text not in self.text():
            self.check()
            assert time.monotonic() < until, f"{text!r} not within {seconds} s: …{self.text()[-1500:]}"
            time.sleep(0.05)

    def check(self) -> None:
        """It lives."""
        assert self.process.poll() is None, f"{self.errors.read_text(errors='replace')[-3000:]} {self.said()}"


@contextmanager
def following_client(orders: Orders) -> Iterator[Client]:
    """Run one; it is ended with SIGTERM, and must have said nothing on stderr."""
    out = Path(orders.out)
    errors = out.with_suffix(".stderr")
    with errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.following", json.dumps(dataclasses.asdict(orders))],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
        )  # fmt: skip
    try:
        yield Client(process, out, errors)
        if process.poll() is None:
            process.terminate()
            process.wait(20)
        written = errors.read_text(errors="replace")
        assert not written, written[-3000:]
    finally:
        process.kill()
        process.wait(10)


if __name__ == "__main__":
    asyncio.run(follow(Orders(**json.loads(sys.argv[1]))))
