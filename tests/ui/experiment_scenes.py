"""A benchmark under way, what came of it, and the Experiments screen: pictures, each by the keys that lead to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from eagletui.bench.outcome import BenchProgress, Result
from eagletui.errors import BenchError
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui.app import EagleApp
from eagletui.ui.ledger import Kept
from tests.ui import fake_ledger
from tests.ui.fake_bench import MEASURING, FakeBench, result
from tests.ui.fake_ledger import FakeLedger
from tests.ui.scenes import WALL, ready

DONE = result("now", 82.3, began=WALL - 40.0, half=0.7, verdict="slower", variant="2step")
PRODUCTION = "gpu-node is a production node (confirm_name): it answers this load beside its own."
NO_API = "gpu-node: neither /v1/completions nor /v1/chat/completions answers on port 30000"


@dataclass(frozen=True)
class Scene:
    """`ends`: what came of the benchmark, once the keys were pressed."""

    keys: tuple[str, ...]
    kept: Callable[[], Kept] = fake_ledger.campaign
    progress: BenchProgress = MEASURING
    ends: Result | BenchError | None = None
    snapshot: Callable[[], Snapshot] = ready
    guard: str | None = None

    def fit_out(self, app: EagleApp) -> None:
        """Give the app, which does not run yet, what the scene needs."""
        app.bench = FakeBench(self.progress)
        app.ledger = FakeLedger(self.kept())
        app.guarded = lambda: self.guard

    def end(self, app: EagleApp) -> None:
        """The benchmark, where it is to be over."""
        bench = app.bench
        if self.ends is not None and isinstance(bench, FakeBench) and bench.current is not None:
            bench.current.ends(self.ends)


COMPARE = ("e", "G", "space", "g", "down", "down", "space", "c")
EXPERIMENTS: dict[str, Scene] = {
    "bench-running": Scene(("b",)),
    "bench-warmup": Scene(("b",), progress=replace(MEASURING, stage="warmup", done=0)),
    "bench-ending": Scene(("b", "escape")),
    "bench-done": Scene(("b",), ends=DONE),
    "bench-failed": Scene(("b",), ends=BenchError(NO_API)),
    "bench-choice": Scene(("B", "down", "right")),
    "bench-asks": Scene(("b",), guard=PRODUCTION),
    "experiments": Scene(("e",)),
    "experiments-plot": Scene(("e", "down", "down", "p")),
    "experiments-filter": Scene(("e", "slash", *"slower")),
    "experiments-note": Scene(("e", "n", *"topk 4, empty node")),
    "experiments-many": Scene(("e", "G", "p"), kept=fake_ledger.many),
    "experiments-empty": Scene(("e",), kept=Kept),
    "experiments-hostile": Scene(("e", "p"), kept=fake_ledger.hostile),
    "launches": Scene(("l",)),
    "launch-details": Scene(("l", "enter")),
    "comparison": Scene(COMPARE),
    "comparison-differs": Scene(("e", "down", "c")),
    "run-details": Scene(("e", "down", "enter")),
    "run-errors": Scene(("e", "enter", "end")),
}
"""Every scene by name."""
