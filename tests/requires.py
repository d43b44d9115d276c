"""What a test needs of the machine it runs on. Missing: the test is skipped with a reason, or fails where the run insists on it.

EAGLETUI_TESTS_REQUIRE is a comma list of names that must be there ("root,sshd"): continuous integration sets it, so that a skip never
hides a test that ought to run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin", "/usr/lib/openssh")


def find_program(name: str) -> str | None:
    """The path of a program, also where daemons live, which is not always on PATH."""
    return shutil.which(name) or next((f"{p}/{name}" for p in _PLACES if Path(p, name).is_file()), None)


def have(name: str) -> bool:
    """Whether the machine has it: "root" is being root, everything else is a program."""
    return os.geteuid() == 0 if name == "root" else find_program(name) is not None


def require(*names: str) -> None:
    """Skip the test, or fail it where the run insists, unless the machine has all of `names`."""
    insisted = {n.strip() for n in os.environ.get("EAGLETUI_TESTS_REQUIRE", "").split(",")}
    for name in names:
        if have(name):
            continue
        reason = f"needs {name}" if name == "root" else f"needs the program {name}"
        if name in insisted:
            pytest.fail(f"{reason}, and EAGLETUI_TESTS_REQUIRE names it")
        pytest.skip(reason)
