"""Runs commands of the command line on the simulated node, many at a time: one process that imports everything and forks for each.

    python -m tests.demo.bad_days FOLDER          stdin: a JSON list of command lines

Each one's output goes to FOLDER/N; the exit statuses are printed as a JSON list. eagletui's own limits are shorter here than a person would want them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from eagletui.cli import main as command_line
from eagletui.cli import operator_of, sequence, sequence_output, wait  # noqa: F401 - imported once, before the forks
from eagletui.demo import node, server  # noqa: F401 - as above
from eagletui.launching import stop
from eagletui.launching.steps import TIMEOUT_S, StepName
from eagletui.monitor import monitor  # noqa: F401 - as above

SHORT_S = 2.0


def one(words: list[str], output: Path, folder: Path) -> None:
    """A child: the command, as a terminal would run it. Never returns."""
    TIMEOUT_S[StepName.GPUS] = SHORT_S
    vars(stop).update(KILL_AFTER_TERM_S=SHORT_S, STOP_AFTER_KILL_S=SHORT_S)
    os.environ["HOME"] = os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    with output.open("wb") as written, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
        sys.argv = ["eagletui", *words]
        command_line.run()


def main() -> None:
    """Fork, wait, tell."""
    folder = Path(sys.argv[1])
    children = []
    for n, words in enumerate(json.load(sys.stdin)):
        home = folder / f"home-{n}"
        home.mkdir()
        child = os.fork()
        if child == 0:
            one(words, folder / str(n), home)
        children.append(child)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]))


if __name__ == "__main__":
    main()
