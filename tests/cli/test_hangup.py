"""A terminal that is gone without a signal: nobody's controlling one, or the signal is ignored."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eagletui.cli.hangup import EXIT_STATUS


@pytest.mark.parametrize("stuck", [False, True])
def test_it_leaves_by_itself_or_is_ended(tmp_path: Path, stuck: bool) -> None:
    ours, theirs = pty.openpty()
    code = (
        "import time, threading\n"
        "from eagletui.cli.hangup import leave_when_the_terminal_is_gone\n"
        "gone = threading.Event()\n"
        "leave_when_the_terminal_is_gone(gone.set)\n"
        "open('up', 'w').close()\n" + ("time.sleep(60)\n" if stuck else "gone.wait(60)\nraise SystemExit(7)\n")
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    until = time.monotonic() + 15
    while not (tmp_path / "up").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.3)
    assert process.poll() is None
    os.close(ours)
    assert process.wait(15) == (EXIT_STATUS if stuck else 7)
