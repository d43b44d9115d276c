"""Running the command line as a user does: a process of its own, a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path


def run(
    home: Path, *argv: str, path: Path | None = None, timeout: float = 60, stdout: str | None = None
) -> subprocess.CompletedProcess[str]:
    """`eagletui ARGV` with an empty home; `path` goes first on PATH; `stdout` names a file to write to."""
    env = {**os.environ, "HOME": str(home), "NO_COLOR": "1"}
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK"):
        env.pop(name, None)
    if path is not None:
        env["PATH"] = f"{path}{os.pathsep}{env['PATH']}"
    with Path(stdout).open("wb") if stdout is not None else nullcontext(subprocess.PIPE) as out:
        return subprocess.run(
            [sys.executable, "-m", "eagletui", *argv],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=home,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
