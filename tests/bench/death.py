"""P10: a death, and readiness, until they are on the screen."""

from __future__ import annotations

import os
import random
import re
import signal
import time

from tests.bench.node import Engine, Node, free_port
from tests.bench.screen import screen
from tests.bench.table import Table

VICTIMS = ("sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer", "launcher")
# Only cells that differ from what stood there are painted: of CRASHED after STALLED that is CRASH.
STARTING, READY, CRASHED = (re.compile(word) for word in (rb"STARTING", rb"READY", rb"CRASH"))
WORD = re.compile(rb"STARTING|STOPPING|READY|DEGRADED|UNKNOWN|STALLED|CRASH|NO SERVER|OFFLINE")
PACE_S = 0.15
"""Between two shards of the stand-in: 4 s in all, so that most launches are on the screen before they are ready."""


def measure(node: Node, table: Table, *, deaths: int) -> None:
    """Each round launches a server on the same port, waits for READY, and kills one of its processes."""
    port = free_port()
    died: list[float] = []
    ready: list[float] = []
    unseen: list[str] = []
    engine = node.launch(port, PACE_S)
    try:
        with screen(node.connect("--port", str(port)), node.home) as shown:
            for number in range(deaths):
                begin = shown.size
                if number:
                    engine = node.launch(port, PACE_S)
                seen = shown.until(READY, begin=begin)
                if number and shown.found(
                    STARTING, begin
                ):  # else it was found after it was ready: that is not what is measured here
                    ready.append(seen - _ready_at(engine))
                time.sleep(random.uniform(1.5, 2.5))
                begin = shown.size
                victim = VICTIMS[number % len(VICTIMS)]
                pid = engine.launcher.pid if victim == "launcher" else engine.children[victim]
                killed = time.time()
                os.kill(pid, signal.SIGKILL)
                at = shown.first(CRASHED, begin, 8.0)
                if at is None:
                    words = dict.fromkeys(word.decode() for _, word in shown.found(WORD, begin))
                    unseen.append(f"{victim} (painted since: {' '.join(words) or 'no state'})")
                else:
                    died.append(at - killed)
                node.end(engine)
    finally:
        node.end(engine)
    died.sort()
    ready.sort()
    p50 = f"{died[len(died) // 2]:.2f} s" if died else "none"
    table.told(f"P10 {deaths} deaths (kill -9 of a rank, the detokenizer, the launcher): p50", p50)
    table.at_most("P10 death -> CRASHED on the screen, most", died[-1] if died and not unseen else None, "s", 1)
    if unseen:
        table.told("P10 deaths that were not seen in 8 s", ", ".join(unseen))
    table.told(f"P10 {len(ready)} launches: p50", f"{ready[len(ready) // 2]:.2f} s" if ready else "none")
    table.at_most("P10 /health answers 200 -> READY on the screen, most", ready[-1] if ready else None, "s", 1)
    table.not_yet("P10 a server that does not start", "its launch is not ours yet")


def _ready_at(engine: Engine) -> float:
    """The stand-in's last line is written in the moment when its /health begins to answer 200; the kernel dates it."""
    return engine.log.stat().st_mtime_ns / 1e9
