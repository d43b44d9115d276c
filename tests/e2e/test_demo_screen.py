"""`connect demo` in a real terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal

DEMO = [sys.executable, "-m", "eagletui", "connect", "demo"]


@pytest.mark.parametrize(("width", "height"), [(160, 48), (120, 36), (80, 24)])
def test_it_becomes_ready_and_quits(tmp_path: Path, width: int, height: int) -> None:
    with terminal([*DEMO, "--speed", "4"], tmp_path, width=width, height=height) as term:
        screen = term.until("STARTING")
        assert "Startup" in screen
        term.until("READY", 60)
        screen = term.until(r"\d+\.\d tok/s", 30)
        assert max(len(line) for line in screen.splitlines()) <= width
        term.keys("q")
        term.until("exit status 0")


def test_help_and_panes_and_resizing(tmp_path: Path) -> None:
    with terminal([*DEMO, "--speed", "4"], tmp_path) as term:
        term.until("8 × H200")
        term.keys("?")
        screen = term.until("Restart the server")
        assert "not yet" in screen
        term.keys("Escape")
        term.until("Throughput")
        term.resize(80, 24)
        term.keys("3")
        term.until("GPUs")
        term.resize(50, 12)
        term.until("(?i)small")
        term.resize(160, 48)
        term.until("Throughput")
        term.keys("r")
        term.until("not yet")
        term.keys("q")
        term.until("exit status 0")
