"""Every scenario from the command line: with which exit status, and in which words, `restart`, `stop`, `start` and `wait` end on it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from eagletui.demo.scenarios import SCENARIOS

SPEED = "50"


class Day(NamedTuple):
    """A command on a scenario, the exit status that it ends with, and something that it says."""

    command: str
    scenario: str
    status: int
    says: str


DAYS = (
    Day("restart --wait --set speculative-num-steps=3", "", 0, "--speculative-num-steps: 2 → 3"),
    Day("restart --set no-such-flag=3", "", 16, "no-such-flag"),
    Day("restart --launcher tmux", "", 0, "The new server runs"),
    Day("restart --wait", "oom", 13, "CUDA out of memory"),
    Day("wait", "oom", 13, "--mem-fraction-static"),
    Day("restart --wait --set mem-fraction-static=0.8", "oom", 0, "The new server is ready"),
    Day("restart", "rank-dies", 0, "The new server runs"),
    Day("stop", "stalls", 0, "is gone"),
    Day("restart", "kept-by-systemd", 16, "systemctl restart sglang.service"),
    Day("stop", "in-a-container", 16, "docker restart 7c1f0a9e4b2d"),
    Day("restart", "rank-of-two", 16, "--nnodes 2"),
    Day("restart", "never-started", 18, "Read-only file system"),
    Day("wait", "port-taken", 13, "address already in use"),
    Day("restart", "port-taken", 16, "lena"),
    Day("restart", "stuck-gpu", 17, "lena"),
    Day("stop", "zombie", 17, "a zombie some of whose threads live on"),
    Day("stop", "slow-drain", 0, "is gone"),
    Day("restart", "two-users", 16, "lena-laptop"),
    Day("stop", "two-users", 16, "lena-laptop"),
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
def test_the_exit_status_of_every_scenario(tmp_path: Path) -> None:
    assert {day.scenario for day in DAYS} == {"", *SCENARIOS}
    lines = []
    for day in DAYS:
        command, *options = day.command.split()
        scenario = ["--scenario", day.scenario] if day.scenario else []
        yes = [] if command == "wait" else ["--yes"]
        lines.append([command, "demo", "--speed", SPEED, *scenario, *yes, *options])
    done = subprocess.run(
        [sys.executable, "-m", "tests.demo.bad_days", str(tmp_path)], input=json.dumps(lines).encode(), capture_output=True,
        timeout=170, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    wrong = {}
    for n, (day, status) in enumerate(zip(DAYS, json.loads(done.stdout), strict=True)):
        said = (tmp_path / str(n)).read_text()
        if status != day.status or day.says not in said or 'Traceback (most recent call last):\n  File "/work' in said:
            wrong[f"{day.command} {day.scenario}"] = (status, said[-1500:])
        assert list((tmp_path / f"home-{n}").iterdir()) == []
    assert wrong == {}
