"""A real terminal: tmux with one command in it; what is on its screen, and keys."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.requires import require


class Terminal:
    """A tmux of its own."""

    def __init__(self, tmux: str, socket: str) -> None:
        self._tmux = tmux
        self._socket = socket

    def run(self, *argv: str) -> str:
        """A tmux command."""
        done = subprocess.run(
            [self._tmux, "-S", self._socket, *argv], capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """The text on the screen."""
        return self.run("capture-pane", "-p", "-t", "t")

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self.run("send-keys", "-t", "t", *keys)

    def resize(self, width: int, height: int) -> None:
        """Another size."""
        self.run("resize-window", "-t", "t", "-x", str(width), "-y", str(height))

    def until(self, pattern: str, seconds: float = 20) -> str:
        """Wait until the screen matches, and give it."""
        end = time.monotonic() + seconds
        while not re.search(pattern, screen := self.screen):
            if time.monotonic() > end:
                pytest.fail(f"{pattern!r} not on the screen within {seconds} s:\n{screen}")
            time.sleep(0.1)
        assert "Traceback" not in screen
        return screen


@contextmanager
def terminal(argv: list[str], home: Path, *, width: int = 160, height: int = 48) -> Iterator[Terminal]:
    """Run a command in a terminal; a shell stays when it ends and says `exit status N`."""
    tmux = require("tmux")
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "tmux-256color", "LANG": "C.UTF-8"}
    line = f"env -i {shlex.join(f'{k}={v}' for k, v in env.items())} {shlex.join(argv)}; echo exit status $?; sleep 60"
    with tempfile.TemporaryDirectory(prefix="etui-") as folder:
        term = Terminal(tmux, f"{folder}/s")
        term.run("-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(width), "-y", str(height), line)
        try:
            yield term
        finally:
            term.run("kill-server")
