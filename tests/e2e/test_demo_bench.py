"""A benchmark of the demo from the screen, in a real terminal: b, its row, what came of it, and the list that it is in."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import terminal

DEMO = [sys.executable, "-m", "eagletui", "connect", "demo"]


@pytest.mark.parametrize(("width", "height"), [(120, 36), pytest.param(80, 24, marks=pytest.mark.slow)])
def test_b_measures_and_e_shows_it(tmp_path: Path, width: int, height: int) -> None:
    with terminal([*DEMO, "--speed", "16"], tmp_path, width=width, height=height) as term:
        term.until("READY", 60)
        term.until("b benchmark", 60)  # what measures is there, too
        term.keys("b")
        term.until(r"quick .*(esc ends it|tok/s)", 30)
        screen = term.until(r"quick .* ± \d+\.\d tok/s .*(faster|slower|same|not comparable)", 60)
        rate = re.search(r"(\d+\.\d) ± \d+\.\d tok/s", screen)
        assert rate is not None
        term.keys("e")
        screen = term.until("◆ baseline", 30)
        assert re.search(rf"▸ +kimi-k2\.5-int4 .*now .*{re.escape(rate[1])}", screen)
        term.keys("c")
        screen = term.until("B is [↑↓=≠]", 30)
        assert max(len(line) for line in screen.splitlines()) <= width
        term.keys("Escape")
        term.until("◆ baseline")
        term.keys("Escape")
        term.until("Throughput")
        term.keys("q")
        term.until("exit status 0")
