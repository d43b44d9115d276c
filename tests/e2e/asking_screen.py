"""The screen of a node that changes all the time, and a question while it is open. Run as a module; the argument is a
file for what happened.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from eagletui.cli.prompter import TerminalPrompter
from eagletui.errors import LoginCancelledError
from eagletui.nodes.prompter import Field, Question
from eagletui.ui.app import EagleApp
from tests.ui import scenes

QUESTION = Question(
    "you@gpu-node:22",
    (Field("Token: ", secret=False, by_server=True), Field("Password of you")),
    told=("Told by us.",),
    said=("Said by the server. " * 20,),
)


async def main(report: Path) -> None:
    prompter = TerminalPrompter()
    source = scenes.FakeSource(scenes.ready())
    app = EagleApp(source, node_name="gpu-node")
    prompter.leave_first(app)
    changes = 0

    async def change() -> None:
        nonlocal changes
        while True:
            source.change(source.now)
            changes += 1
            await asyncio.sleep(0.02)

    async def ask() -> None:
        while not app.can_leave_terminal or not source.runs:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        before = changes
        try:
            answers = await prompter.ask(QUESTION)
            told: object = list(answers) if answers is not None else None
        except LoginCancelledError:
            told = "stopped"
        report.write_text(json.dumps({"answers": told, "changes": changes - before}))

    tasks = [asyncio.create_task(change()), asyncio.create_task(ask())]
    try:
        await app.run_async()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
