"""Runs as the ordinary user: for each row on stdin (JSON), what SshNode gives, as JSON. A program of its own, since a
test cannot give up root for a while.

argv: uid, gid, home. stdin: [[name of the row, node, path of the configuration or null], ...].
"""

from __future__ import annotations

import asyncio
import encodings.idna  # noqa: F401
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from eagletui.errors import EagletuiError
from eagletui.nodes.ssh import SshNode
from eagletui.shell.script import Command, Script

AT_A_TIME = 6
ROW_SECONDS = 20
WHO = Script("who", 'printf "who=%s %s\\n" "$(id -un)" "$SSH_CONNECTION"\n')


async def result(node_name: str, config: str | None) -> tuple[str, str]:
    """(name of the error's class or "", what was said)."""
    try:
        node = SshNode(node_name, config_file=Path(config) if config else None)
        try:
            await node.connect()
            return "", (await node.run(Command(WHO))).stdout.decode()
        finally:
            await node.aclose()
    except EagletuiError as exc:
        return type(exc).__name__, str(exc)
    except Exception as exc:  # noqa: BLE001 - any other error is a finding of its row
        return type(exc).__name__, repr(exc)


async def main(rows: list[list[str | None]]) -> dict[str, tuple[str, str]]:
    """All rows, a few at a time."""
    slots = asyncio.Semaphore(AT_A_TIME)

    async def one(node: str, config: str | None) -> tuple[str, str]:
        async with slots:
            try:
                async with asyncio.timeout(ROW_SECONDS):
                    return await result(node, config)
            except TimeoutError:
                return "TimeoutError", f"no end in {ROW_SECONDS} s"

    results = await asyncio.gather(*(one(str(node), config) for _, node, config in rows))
    return {str(row[0]): found for row, found in zip(rows, results, strict=True)}


if __name__ == "__main__":
    uid, gid, home = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # What is imported on first use must be there before: the user may not read where Python lies.
    asyncio.run(result("localhost:1", os.devnull))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.environ["HOME"] = home
    os.chdir("/")
    json.dump(asyncio.run(main(json.load(sys.stdin))), sys.stdout)
