"""Budgets of the link, against a real sshd on this machine: P4 (a first measurement), P9, P10, P13. Needs root, since it makes a user of its own.

P4   following a flood: >= 0.15 x asyncssh on batch lines, >= 0.35 x on lines that mean nothing
P9   a line written on the node -> its pixel, p99: <= 60 ms when quiet, <= 150 ms under load
P10  a death -> on the screen <= 1 s; /health answers 200 -> READY on the screen <= 1 s
P13  on the node: <= 5 processes kept, one process table of nvidia-smi every 5 s, <= 0.5 % of a core

`--brief` measures less of each; names of budgets (`P9 P13`) choose some. Prints a table and exits 1 on a missed row. A busy machine spoils every figure:
its load is told.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.bench import death, flood, footprint, lines
from tests.bench.node import bench_node, free_port
from tests.bench.table import Table

BUDGETS = ("P4", "P9", "P10", "P13")


def main(argv: list[str]) -> int:
    """Measure what is asked for."""
    brief = "--brief" in argv
    wanted = [name for name in argv if name in BUDGETS] or list(BUDGETS)
    if os.geteuid() != 0:
        sys.stdout.write(
            "The budgets of the link are not measured: they need root, for a user and an sshd of their own.\n"
        )
        return 0
    table = Table()
    busy = f"{os.getloadavg()[0]:.1f}"
    with bench_node() as node:
        if "P10" in wanted:
            death.measure(node, table, deaths=3 if brief else 12)
        engine, began = node.launch(free_port(), 0.02), time.monotonic()
        if "P9" in wanted:
            lines.measure(node, table, engine, quiet_lines=30 if brief else 200, load_s=2 if brief else 10)
        if "P4" in wanted:
            flood.measure(node, table, 4 if brief else 64, node.home / "flood.log")
        if "P13" in wanted:
            footprint.measure(node, table, engine, began, window_s=10 if brief else 60, young=brief)
        node.end(engine)
    status = table.show()
    sys.stdout.write(
        f"load of the machine: {busy} before, {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} cores\n"
    )
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
