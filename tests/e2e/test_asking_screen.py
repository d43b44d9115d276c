"""A question while the screen is open: the screen goes, nothing paints over the question, and the screen comes back."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, terminal

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def asking(home: Path) -> Iterator[tuple[Terminal, Path]]:
    report = home / "report"
    argv = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.e2e.asking_screen", str(report)]
    with terminal(argv, home, width=100) as term:
        yield term, report


def test_the_screen_is_left_and_comes_back(tmp_path: Path) -> None:
    with asking(tmp_path) as (term, report):
        asked = term.until("Answer 1:")
        assert "READY" not in asked
        assert "login you@gpu-node:22" in asked
        lines = [line for line in asked.splitlines() if "Said by the server" in line]
        assert len(lines) > 1
        assert all(line.startswith("│ ") for line in lines)
        assert "│ 1. Token:" in asked
        time.sleep(1)  # fifty changes of the node, and a tick of its ages
        assert term.screen == asked
        term.keys("-l", "12x")
        term.keys("BSpace")
        term.keys("-l", "3")
        assert "Answer 1: 123" in term.until("Answer 1: 123")
        term.keys("Enter")
        term.until("Password of you:")
        term.keys("-l", "s3cret")
        time.sleep(0.3)
        assert "s3cret" not in term.screen
        term.keys("Enter")
        back = term.until("READY")
        assert "Password of you" not in back
        told = json.loads(report.read_text())
        assert told["answers"] == ["123", "s3cret"]
        assert told["changes"] > 20
        term.keys("?")
        term.until("This list of keys")  # it takes keys again
        term.keys("Escape")
        term.until(r"\A(?![\s\S]*This list of keys)")
        term.keys("q")
        left = term.until("exit status 0")
        assert "s3cret" not in left


@pytest.mark.parametrize(("key", "answers"), [("C-c", "stopped"), ("C-d", None)])
def test_a_question_that_is_not_answered_gives_the_screen_back(tmp_path: Path, key: str, answers: str | None) -> None:
    with asking(tmp_path) as (term, report):
        term.until("Answer 1:")
        term.keys(key)
        term.until("READY")
        assert json.loads(report.read_text())["answers"] == answers
        term.keys("q")
        term.until("exit status 0")
