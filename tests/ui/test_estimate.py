"""No number without history: the screen over a whole start, with an empty data folder and with one that knows earlier starts."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

from eagletui.cli.keeping import history_of
from eagletui.demo.node import DemoNode
from eagletui.demo.world import World
from eagletui.history.store import History
from eagletui.monitor.monitor import NodeMonitor
from eagletui.servers.model import State
from eagletui.ui.app import EagleApp
from eagletui.ui.widgets.frame import Painted

SPEED = 8.0
"""A start of 110 s takes 14."""
SIZES = ((160, 48), (80, 24))
ESTIMATE = re.compile(r"~ ?\d")


async def drawn(history: History) -> list[str]:
    """The status line and the startup pane, ten times a second, of a start that is watched from its second stage on to ready; in a wide
    terminal, and every other second in a small one."""
    node = DemoNode(speed=SPEED)
    node.world = World(opened=time.time(), speed=SPEED, into_start=12.0)
    monitor = NodeMonitor(node, history=history)
    app = EagleApp(monitor, node_name="demo")
    seen: list[str] = []
    async with app.run_test(size=SIZES[0]) as pilot:
        end = time.monotonic() + 60
        while monitor.snapshot().verdict.state is not State.READY and time.monotonic() < end:
            await asyncio.sleep(0.1)
            if len(seen) % 10 == 9:
                await pilot.resize_terminal(*SIZES[len(seen) // 10 % 2 - 1])
            await pilot.pause()
            panes = (app._main.query_one("#status", Painted), app._main.pane("startup"))
            seen.append("\n".join(pane.text() for pane in panes))
        assert monitor.snapshot().verdict.state is State.READY
        seen.append(app._main.pane("startup").text())
    await monitor.aclose()
    return seen


async def test_with_an_empty_data_folder_there_is_no_estimate_anywhere(tmp_path: Path) -> None:
    seen = await drawn(History(tmp_path / "eagletui" / "history.db"))
    assert any("weights" in text for text in seen)
    assert not [text for text in seen if ESTIMATE.search(text)]


async def test_with_earlier_starts_there_is_one_and_it_counts_down() -> None:
    seen = await drawn(history_of("demo", SPEED))
    promised = [
        int(found[1]) * 60 + int(found[2]) for text in seen if (found := re.search(r"ready in ~(\d+):(\d\d)", text))
    ]
    assert len(promised) > 2
    assert promised[0] > promised[-1]
    assert promised[0] <= 144 / SPEED
    assert any("(6 starts)" in text or "(6 warm starts)" in text for text in seen)
