"""A program on a pseudo-terminal, and when each byte that it sent there arrived: what a person sees, without asking the program."""

from __future__ import annotations

import bisect
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.requires import require

ROOT = Path(__file__).parent.parent.parent
ROWS, COLUMNS = 48, 160


class Screen:
    """Times are of time.time(): the node's files are dated by the same clock, since it is this machine."""

    def __init__(self, argv: Sequence[str], home: Path) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        env["PYTHONPATH"] = str(ROOT)  # what is measured is what this file stands in
        self.process = subprocess.Popen(
            [require("setsid"), "--ctty", *argv], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=home
        )
        os.close(slave)
        self._bytes = bytearray()
        self._ends: list[int] = []
        self._times: list[float] = []
        self._closing = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with suppress(OSError):
            while not self._closing.is_set():
                if not select.select([self._master], [], [], 0.1)[0]:
                    continue
                chunk = os.read(self._master, 1 << 16)
                at = time.time()
                self._times.append(at)  # before the bytes, which another thread looks for
                self._ends.append(len(self._bytes) + len(chunk))
                self._bytes += chunk
        os.close(self._master)

    @property
    def size(self) -> int:
        """Bytes that came so far."""
        return len(self._bytes)

    def found(self, pattern: re.Pattern[bytes], begin: int = 0) -> list[tuple[float, bytes]]:
        """Every match in what came after `begin` bytes: when its last byte came, and its first group (or all of it)."""
        text = bytes(self._bytes[begin:])
        return [(self._time_of(begin + m.end()), m[m.re.groups and 1]) for m in pattern.finditer(text)]

    def _time_of(self, end: int) -> float:
        return self._times[bisect.bisect_left(self._ends, end)]

    def first(self, pattern: re.Pattern[bytes], begin: int, limit_s: float) -> float | None:
        """When the first match after `begin` bytes came; None when none did within `limit_s` seconds from now."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until and self.process.poll() is None:
            if len(self._ends) and (seen := self.found(pattern, begin)):
                return seen[0][0]
            time.sleep(0.02)
        return None

    def until(self, pattern: re.Pattern[bytes], limit_s: float = 30.0, begin: int = 0) -> float:
        """The same; it must come. Raises RuntimeError with the end of what was sent."""
        at = self.first(pattern, begin, limit_s)
        if at is None:
            raise RuntimeError(f"{pattern.pattern!r} never came on the screen: …{bytes(self._bytes[-3000:])!r}")
        return at

    def close(self) -> None:
        """The terminal is gone, and the program."""
        self.process.kill()
        self.process.wait(10)
        self._closing.set()
        self._reading.join(5)


@contextmanager
def screen(argv: Sequence[str], home: Path) -> Iterator[Screen]:
    """Run a program on a terminal; both are gone afterwards."""
    opened = Screen(argv, home)
    try:
        yield opened
    finally:
        opened.close()
