"""Budgets of starting up (P1, P2, P3): each figure against its own baseline in the same run. Prints a table and exits 1 on a missed row.

P1  `eagletui --version` <= 4 x, `--help` <= 8 x `python -c pass`
P2  `connect demo`: first paint <= 2 x an empty Textual app's first paint; all panes with data <= 2 s. Under tmux: real terminals only.
P3  `status local --json` with 8 GPUs and no server <= 0.6 s beyond one nvidia-smi call
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 7
EMPTY_APP = """
import sys, time
from textual.app import App
from textual.widgets import Static
class Empty(App[None]):
    def compose(self):
        yield Static("empty app painted")
Empty().run()
"""
STAND_IN = """#!/bin/sh
sleep 0.05
case "$*" in
*query-gpu*) for i in 0 1 2 3 4 5 6 7; do echo "$i, GPU-0000000$i-0000-0000-0000-000000000000{rest}"; done;;
*) :;;
esac
"""


def median_s(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def command(*argv: str, env: dict[str, str] | None = None) -> Callable[[], object]:
    return lambda: subprocess.run(argv, check=False, capture_output=True, env=env, timeout=60)


class Terminal:
    """One command in a tmux of its own; `until` waits for a text on its screen."""

    def __init__(self, line: str) -> None:
        self.socket = tempfile.mktemp(prefix="eagletui-bench-")
        self.began = time.perf_counter()
        self._tmux("new-session", "-d", "-s", "b", "-x", "160", "-y", "48", line)

    def _tmux(self, *argv: str) -> str:
        return subprocess.run(
            ["tmux", "-S", self.socket, *argv], check=False, capture_output=True, text=True, timeout=20
        ).stdout

    def until(self, *texts: str, limit_s: float = 20.0) -> float | None:
        while time.perf_counter() - self.began < limit_s:
            screen = self._tmux("capture-pane", "-p", "-t", "b")
            if all(text in screen for text in texts):
                return time.perf_counter() - self.began
            time.sleep(0.005)
        return None

    def close(self) -> None:
        self._tmux("kill-server")


def first_paint(line: str, *texts: str, rounds: int = 5) -> float | None:
    times = []
    for _ in range(rounds):
        terminal = Terminal(line)
        try:
            painted = terminal.until(*texts)
        finally:
            terminal.close()
        if painted is None:
            return None
        times.append(painted)
    return statistics.median(times)


def gpu_stand_in(folder: Path) -> dict[str, str]:
    from eagletui.gpus.smi_rows import Dialect

    blanks = ", [N/A]" * (len(Dialect.NEW.fields) - 2)
    program = folder / "nvidia-smi"
    program.write_text(STAND_IN.replace("{rest}", blanks), encoding="utf-8")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def main() -> int:
    python = sys.executable
    eagletui = str(Path(python).with_name("eagletui"))
    rows: list[tuple[str, str, str, bool]] = []

    def row(name: str, figure: float | None, unit: str, budget: float) -> None:
        shown = "no answer" if figure is None else f"{figure:.2f} {unit}"
        rows.append((name, shown, f"<= {budget:g} {unit}", figure is not None and figure <= budget))

    bare = median_s(command(python, "-c", "pass"))
    row("P1 --version", median_s(command(eagletui, "--version")) / bare, "x python -c pass", 4)
    row("P1 --help", median_s(command(eagletui, "--help")) / bare, "x python -c pass", 8)

    if shutil.which("tmux"):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "empty.py"
            script.write_text(EMPTY_APP, encoding="utf-8")
            empty = first_paint(f"{python} {script}", "empty app painted")
        painted = first_paint(f"{eagletui} connect demo", "Startup", "Throughput")
        full = first_paint(f"{eagletui} connect demo", "8 × ", "TP0", "alive", rounds=3)
        row(
            "P2 first paint", None if painted is None or empty is None else painted / empty, "x an empty Textual app", 2
        )
        row("P2 all panes with data", full, "s", 2)
    else:
        rows.append(("P2", "not measured: tmux is missing", "", True))

    with tempfile.TemporaryDirectory() as folder:
        env = gpu_stand_in(Path(folder))
        call = median_s(command("nvidia-smi", "--query-gpu=index", env=env))
        row(
            "P3 status local --json",
            median_s(command(eagletui, "status", "local", "--json", "--port", "1", env=env)) - call,
            "s beyond one nvidia-smi",
            0.6,
        )

    width = max(len(name) for name, *_ in rows)
    for name, figure, budget, met in rows:
        sys.stdout.write(f"{name:<{width}}  {figure:<32} {budget:<36} {'ok' if met else 'MISSED'}\n")
    return 0 if all(met for *_, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
