"""What a test needs from the machine. A missing program skips the test, unless the environment says that it must be
there.

EAGLETUI_TESTS_REQUIRE is a comma-separated list (`root,sshd,tmux,fish,tcsh,busybox`): a test that would be skipped
for one of these fails instead, so that a machine set up to run everything cannot quietly run less.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

VARIABLE = "EAGLETUI_TESTS_REQUIRE"
_ELSEWHERE = ("/usr/sbin", "/usr/local/sbin", "/sbin")


def program(name: str) -> str | None:
    """The path of a program, looked for on PATH and where daemons are kept; None when it is not installed."""
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(_ELSEWHERE))


def _there(name: str) -> str | None:
    if name == "root":
        return "root" if os.geteuid() == 0 else None
    if name == "procfs":
        return "/proc" if Path("/proc/self/stat").exists() else None
    return program(name)


def require(name: str) -> str:
    """The path of a program (or "root", "/proc" for `root`, `procfs`), else the test is skipped, or fails where it
    must be there.
    """
    found = _there(name)
    if found is not None:
        return found
    wanted = {word.strip() for word in os.environ.get(VARIABLE, "").split(",")}
    if name in wanted:
        pytest.fail(f"{VARIABLE} names {name!r}, and it is not here")
    pytest.skip(f"needs {name}")
