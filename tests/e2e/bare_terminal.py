"""A program on a pseudo-terminal of ours, so that the terminal can be closed under it as when a window or a laptop is."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.requires import require


class BareTerminal:
    """The program's process; what it prints is read and forgotten but for its end."""

    def __init__(self, argv: Sequence[str], home: Path) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        env |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        # It must be the terminal's own session leader: that is who is told when the terminal goes.
        self.process = subprocess.Popen(
            [require("setsid"), "--ctty", *argv], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=home
        )
        os.close(slave)
        self.tail = b""
        self._closing = threading.Event()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        with suppress(OSError):
            while not self._closing.is_set():
                # Not a blocking read: that would keep the terminal open while it is being closed.
                if select.select([self._master], [], [], 0.05)[0]:
                    self.tail = (self.tail + os.read(self._master, 65536))[-20_000:]
        os.close(self._master)

    def keys(self, text: bytes) -> None:
        """Type."""
        os.write(self._master, text)

    def close(self) -> None:
        """The terminal is gone."""
        self._closing.set()
        self._reading.join(5)


@contextmanager
def bare_terminal(argv: Sequence[str], home: Path) -> Iterator[BareTerminal]:
    """Run a program on a terminal; both are gone afterwards."""
    terminal = BareTerminal(argv, home)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait(10)
        terminal.close()
