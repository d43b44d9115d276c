"""P13: what eagletui keeps on the node, starts there and costs there, with a silent log and eight GPUs.

CPU is counted per process from /proc: what the living ones used in the window, and what was used by those that came and went (the kernel adds it to
whoever waited for them: sshd's process for that user, or one of ours). sshd's own work, encryption above all, stands apart: any ssh session costs it.
So does nvidia-smi itself, which here is a stand-in.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

from tests.bench.node import Engine, Node
from tests.bench.screen import screen
from tests.bench.starts import Starts
from tests.bench.table import Table
from tests.node_processes import NodeProcess, processes_of
from tests.sshd import children_of

YOUNG_S = 65.0
"""Until then a launch is looked at more often, since its children still appear."""
SETTLE_S, SETTLE_YOUNG_S = 20.0, 5.0
"""By then all of /proc was looked at once more, and our own streams were no news in it."""
CALL_EVERY_S = 5.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def measure(node: Node, table: Table, engine: Engine, engine_began: float, *, window_s: float, young: bool) -> None:
    """All rows. `engine_began`: monotonic. `young`: do not wait until the launch is looked at as seldom as one that has run for a while."""
    with screen(node.connect("--port", str(engine.port)), node.home) as shown:
        shown.until(re.compile(rb"READY"))
        shown.until(re.compile(rb"following"))
        time.sleep(SETTLE_YOUNG_S if young else max(SETTLE_S, engine_began + YOUNG_S - time.monotonic()))
        ours = _kept(node, engine)
        starts = _starts(node)
        before, calls, began = _cpu(node, engine), node.calls(), time.monotonic()
        time.sleep(window_s)
        after, asked, took = _cpu(node, engine), node.calls() - calls, time.monotonic() - began
        kinds = None if starts is None else starts.close()
        kept = max(len(ours), len(_kept(node, engine)))
    table.at_most(
        "P13 processes kept on the node", kept, f"({', '.join(_name(one.line) for one in ours)})", 5, digits=0
    )
    table.at_most(
        "P13 nvidia-smi calls a minute, beside the loop", 60 * asked / took, "a minute", 60 / CALL_EVERY_S, digits=1
    )
    if kinds is None:
        table.not_yet("P13 processes started", "this kernel does not tell")
    else:
        told = ", ".join(f"{count} {name}" for name, count in kinds.most_common())
        table.told(f"P13 processes started in {took:.0f} s, for {asked} calls", f"{kinds.total()}: {told}")
    cost = {kind: 100 * (after[kind] - before[kind]) / took for kind in after}
    table.at_most("P13 CPU of ours", cost["ours"], "% of a core", 0.5)
    table.told("P13 CPU of sshd for this connection", f"{cost['sshd']:.2f} % of a core")
    table.told("P13 CPU of the loop's nvidia-smi (a stand-in)", f"{cost['nvidia-smi']:.2f} % of a core")


def _kept(node: Node, engine: Engine) -> list[NodeProcess]:
    """Those of a moment between two calls: the fewest of several looks."""
    looks = []
    for _ in range(10):
        looks.append(processes_of(node.user, without=(engine.launcher.session,)))
        time.sleep(0.1)
    return min(looks, key=len)


def _name(line: str) -> str:
    words = line.split()
    if "nvidia-smi" in line or "gpus.py" in line:
        return "timeout of nvidia-smi" if words[0].endswith("timeout") else "nvidia-smi"
    if words[-1] == "poll":
        return "timeout of the poller" if words[0].endswith("timeout") else "poller"
    return words[0].rpartition("/")[2]


def _stat(pid: int) -> tuple[float, float]:
    """Seconds of CPU of a process, and of its children that ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    with suppress(OSError):
        own = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
        return own, (int(fields[13]) + int(fields[14])) * TICK_S
    return (int(fields[11]) + int(fields[12])) * TICK_S, (int(fields[13]) + int(fields[14])) * TICK_S


def _cpu(node: Node, engine: Engine) -> dict[str, float]:
    """Seconds so far, by kind."""
    total = {"ours": 0.0, "sshd": 0.0, "nvidia-smi": 0.0}
    listener = node.namespace or node.sshd.process.pid
    for monitor in children_of(listener):
        if monitor == engine.launcher.pid:
            continue
        with suppress(OSError):
            if not Path(f"/proc/{monitor}/comm").read_text().startswith("sshd"):
                continue
            total["sshd"] += _stat(monitor)[0]
            for session in children_of(monitor):
                own, gone = _stat(session)
                total["sshd"] += own
                total["ours"] += gone
    for one in processes_of(node.user, without=(engine.launcher.session,)):
        with suppress(OSError):
            own, gone = _stat(one.pid)
            total["nvidia-smi" if _name(one.line) == "nvidia-smi" else "ours"] += own
            total["ours"] += gone
    return total


def _starts(node: Node) -> Starts | None:
    """Counts what begins on the node, None where the kernel does not tell."""
    listener = node.namespace or node.sshd.process.pid
    roots, new = {listener}, [listener]
    while new:
        new = [child for pid in new for child in children_of(pid)]
        roots.update(new)
    try:
        return Starts(roots)
    except OSError:
        return None
