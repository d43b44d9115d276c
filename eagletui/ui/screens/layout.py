"""Where each pane goes. Pure arithmetic over the size of the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MIN_WIDTH, MIN_HEIGHT = 60, 16
WIDE_WIDTH, WIDE_HEIGHT = 120, 30
TALL_HEIGHT = 42
"""From here a narrow terminal has room for a stack instead of tabs alone."""
TOP_ROWS = 12
"""A checklist of ten phases, or eight GPUs with header, sum and border: so it does not change when a launch is ready."""
LOG_MIN, MIDDLE_MIN = 8, 8
Mode = Literal["wide", "stack", "tabs", "one", "small"]
Place = tuple[int, int, int, int]
"""x, y, width, height."""
TABBED: dict[Mode, tuple[str, ...]] = {
    "tabs": ("startup", "health", "gpus", "throughput"),
    "stack": ("startup", "health"),
}
"""Panes that share one place in a mode."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Places by pane id; a pane without a place is not shown."""

    mode: Mode
    places: dict[str, Place]


def plan(width: int, height: int, *, gpu_rows: int | None, tab: str, maximised: str | None) -> Plan:
    """Places inside the area between status line and footer (`height` is that of the area; two rows of the terminal are not in it)."""
    if width < MIN_WIDTH or height + 2 < MIN_HEIGHT:
        return Plan("small", {})
    if maximised is not None:
        return Plan("one", {maximised: (0, 0, width, height)})
    if width >= WIDE_WIDTH and height + 2 >= WIDE_HEIGHT:
        return Plan("wide", _wide(width, height, gpu_rows))
    if height + 2 >= TALL_HEIGHT:
        return Plan("stack", _stack(width, height, gpu_rows, tab if tab in TABBED["stack"] else "startup"))
    top = min(TOP_ROWS, height - max(6, height * 2 // 5))
    return Plan("tabs", {tab: (0, 0, width, top), "log": (0, top, width, height - top)})


def without_last_row(there: Plan, height: int) -> Plan:
    """The same places but for the last row of the area: what lies there is one row less high, and nothing else moves."""
    return Plan(
        there.mode,
        {name: (x, y, w, h - (y + h == height)) for name, (x, y, w, h) in there.places.items()},
    )


def _wide(width: int, height: int, gpu_rows: int | None) -> dict[str, Place]:
    top = max(TOP_ROWS, min(gpu_rows or 0, height - MIDDLE_MIN - LOG_MIN - 4))
    middle = max(MIDDLE_MIN, min(14, (height - top) * 2 // 5))
    left = width * 5 // 12
    narrow = max(40, width * 2 // 7)
    return {
        "startup": (0, 0, left, top),
        "gpus": (left, 0, width - left, top),
        "health": (0, top, narrow, middle),
        "throughput": (narrow, top, width - narrow, middle),
        "log": (0, top + middle, width, height - top - middle),
    }


def _stack(width: int, height: int, gpu_rows: int | None, tab: str) -> dict[str, Place]:
    first = TOP_ROWS - 1
    gpus = max(6, min(gpu_rows or TOP_ROWS, height - first - 10 - LOG_MIN))
    chart = max(8, min(11, (height - first - gpus) * 2 // 5))
    log = height - first - gpus - chart
    return {
        tab: (0, 0, width, first),
        "gpus": (0, first, width, gpus),
        "throughput": (0, first + gpus, width, chart),
        "log": (0, first + gpus + chart, width, log),
    }
