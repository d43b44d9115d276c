"""`explain --json` without a process: the answer to a log's bytes, and the exit status."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eagletui.cli.explain_input import open_log
from eagletui.cli.explain_model import build
from eagletui.logs.explain import explain

_FAILED = {"crashed": 13, "stalled": 12}


def answer(log: bytes, args: Sequence[str], folder: Path) -> tuple[dict[str, Any], int]:
    """The object that explain prints for this log under these arguments, and how it exits. `folder`: for the file."""
    options = argparse.ArgumentParser()
    options.add_argument("--idle", type=float)
    options.add_argument("--exit-code", type=int)
    options.add_argument("--engine")
    asked = options.parse_args(list(args))
    file = folder / "server.log"
    file.write_bytes(log)
    with open_log(str(file)) as opened:
        told = explain(
            opened.blocks(), engine=asked.engine, idle_s=asked.idle, exit_code=asked.exit_code,
            newest_first=opened.newest_first,
        )  # fmt: skip
    return json.loads(build(told).model_dump_json(by_alias=True)), _FAILED.get(told.worst, 0)
