"""P9: a line written on the node, until it is on the screen."""

from __future__ import annotations

import random
import re
import time
from datetime import datetime

from tests.bench.node import Engine, Node
from tests.bench.screen import Screen, screen
from tests.bench.table import Table

# The screen repaints only the cells that differ from what stood there: of three, the one in the middle is always whole.
LINE = "[{stamp} TP0] line @{n:06d}@ @{n:06d}@ @{n:06d}@ of a server that has something to say about its work\n"
NUMBER = re.compile(rb"@(\d{6})@")
FOLLOWING = re.compile(rb"following")
READY = re.compile(rb"READY")
LOADS = (200, 1_000)
SETTLE_S = 3.0
LATEST_S = 3.0
"""A line that is not on the screen by then never came."""


def measure(node: Node, table: Table, engine: Engine, *, quiet_lines: int, load_s: float) -> None:
    """Both kinds of rows."""
    with screen(node.connect("--port", str(engine.port)), node.home) as shown:
        shown.until(READY)
        shown.until(FOLLOWING)
        time.sleep(SETTLE_S)
        late = _quiet(shown, engine, quiet_lines)
        _rows(table, f"P9 quiet, {quiet_lines} lines", late, 60)
        for rate in LOADS:
            late = _load(shown, engine, rate, load_s, 100_000 * (1 + LOADS.index(rate)))
            _rows(table, f"P9 at {rate:,} lines/s", late, 150)


def _rows(table: Table, name: str, late: list[float] | None, budget_ms: float) -> None:
    if late is None:
        table.at_most(f"{name}: p99", None, "ms", budget_ms)
        return
    late = sorted(late)
    p50, p99 = late[len(late) // 2], late[min(len(late) - 1, int(len(late) * 0.99))]
    table.told(f"{name}: p50, most", f"{p50 * 1000:.0f} ms, {late[-1] * 1000:.0f} ms")
    table.at_most(f"{name}: p99", p99 * 1000, "ms", budget_ms, digits=0)


def _write(engine: Engine, number: int) -> float:
    line = LINE.format(stamp=f"{datetime.now():%Y-%m-%d %H:%M:%S}", n=number).encode()  # noqa: DTZ005 - as logs do
    with engine.log.open("ab", buffering=0) as out:
        at = time.time()
        out.write(line)
    return at


def _quiet(shown: Screen, engine: Engine, lines: int) -> list[float] | None:
    written: dict[int, float] = {}
    begin = shown.size
    for number in range(1, lines + 1):
        time.sleep(random.uniform(0.15, 0.45))
        written[number] = _write(engine, number)
    return _late(shown, begin, written)


def _load(shown: Screen, engine: Engine, rate: int, seconds: float, first: int) -> list[float] | None:
    """Lines at an even pace. One that was scrolled past within a frame counts as shown with the first newer one."""
    written: dict[int, float] = {}
    begin = shown.size
    began = time.monotonic()
    for n in range(int(rate * seconds)):
        pause = began + n / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        written[first + n] = _write(engine, first + n)
    return _late(shown, begin, written)


def _late(shown: Screen, begin: int, written: dict[int, float]) -> list[float] | None:
    """Seconds from writing to showing, a line each; None when the last one never came."""
    last = max(written)
    if shown.first(re.compile(rb"@%06d@" % last), begin, LATEST_S) is None:
        return None
    waiting = sorted(written)
    late: list[float] = []
    for at, number in shown.found(NUMBER, begin):
        while waiting and waiting[0] <= int(number):
            late.append(at - written[waiting.pop(0)])
    return late
