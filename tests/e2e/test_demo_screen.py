"""`connect demo` in a real terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal

DEMO = [sys.executable, "-m", "eagletui", "connect", "demo"]


@pytest.mark.parametrize(("width", "height"), [(160, 48), pytest.param(120, 36, marks=pytest.mark.slow), (80, 24)])
def test_it_becomes_ready_and_quits(tmp_path: Path, width: int, height: int) -> None:
    with terminal([*DEMO, "--speed", "4"], tmp_path, width=width, height=height) as term:
        term.until("STARTING|READY")
        term.until("Startup|ready in")  # the first paint may come before the log's first lines
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
        term.until(r"Stops +kimi-k2\.5-int4", 30)
        term.keys("Escape")
        term.until("Throughput")
        term.keys("q")
        term.until("exit status 0")


def test_a_restart_from_the_keyboard(tmp_path: Path) -> None:
    with terminal([*DEMO, "--speed", "20"], tmp_path) as term:
        term.until("READY", 60)
        term.keys("r")
        term.until("18 checks|becomes free with its stop", 60)
        term.keys("Enter")
        term.until("GPUs free", 30)
        term.until("launch +pid", 60)
        term.until(r"ready in.*\n(.*\n)*.*pid 53\d\d\d", 60)
        term.until("READY", 60)
        term.keys("q")
        term.until("exit status 0")


def test_a_launch_that_never_started(tmp_path: Path) -> None:
    with terminal([*DEMO, "--speed", "20", "--scenario", "never-started"], tmp_path) as term:
        term.until("READY", 60)
        term.keys("r")
        term.until("becomes free with its stop", 60)
        term.keys("Enter")
        term.until("CRASHED . never started", 60)
        term.keys("q")
