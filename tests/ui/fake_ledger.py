"""A history made by hand: the campaign that eagletui was made for, and awkward cases; and a ledger that remembers what was written."""

# ruff: noqa: E501 - made values are as wide as they are

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eagletui.bench.compare import against
from eagletui.bench.outcome import Conclusion, Failure
from eagletui.bench.side_by_side import metrics
from eagletui.errors import HistoryError
from eagletui.launching.plan import FlagChange
from eagletui.shell.masking import mask_argv
from eagletui.ui.ledger import Compared, Kept, LaunchEntry, RunEntry
from tests.ui.fake_bench import ARGS, OPEN, STANDARD, result
from tests.ui.restart_scenes import COMMAND
from tests.ui.scenes import HOSTILE, WALL

HOUR = 3600.0
KEPT = mask_argv(COMMAND)
STEPS = tuple(FlagChange("speculative-num-steps", "none", str(n)) for n in (1, 2, 3))
NOT_COMPARABLE = "The runs sent different loads: 1 024 → 512 tokens, 4 at a time, against 256 → 128 tokens, 1 at a time"
BASE = RunEntry(
    result("base", 90.0, began=WALL - 26 * HOUR, half=0.3, variant="no-spec", launch="l1", accept=None),
    baseline=True,
    note="overnight, empty node",
)


def run(name: str, mean: float, hours: float, steps: int, **more: Any) -> RunEntry:
    verdict: Conclusion = "same" if abs(mean - 90) < 0.5 else "faster" if mean > 90 else "slower"
    made = result(
        name,
        mean,
        began=WALL - hours * HOUR,
        verdict=verdict,
        args={**ARGS, "speculative-num-steps": str(steps)},
        variant=f"{steps}step",
        launch="l2",
        **more,
    )
    return RunEntry(
        made,
        made.against,
        changes=(
            FlagChange("speculative-algorithm", None, "EAGLE3"),
            FlagChange("speculative-num-steps", None, str(steps)),
        ),
    )


def other_load() -> RunEntry:
    made = result("std", 71.4, began=WALL - 1.6 * HOUR, verdict="not-comparable", load=STANDARD, why=NOT_COMPARABLE, variant="2step", notes=("GPU 5 was slowed down by heat for 40 s", "alice's process 9001 held 31.4 GiB of GPU 2 meanwhile"))  # fmt: skip
    return RunEntry(made, made.against)


def failing() -> RunEntry:
    errors = (Failure(503, "The server is overloaded", 21), Failure(None, "the stream broke after 17 tokens", 3))
    made = result(
        "bad",
        61.0,
        began=WALL - 0.4 * HOUR,
        verdict="not-comparable",
        load=OPEN,
        failures=errors,
        half=None,
        variant="open",
        why="24 of 600 requests failed",
    )
    return RunEntry(made, made.against)


def campaign() -> Kept:
    """53.2, 74.9, 82.3, 81.7 against 90, by hand no more."""
    runs = (
        failing(), other_load(), run("d", 81.7, 2.0, 3, half=1.9), run("c", 82.3, 3.1, 2, half=0.7), run("b", 74.9, 5.5, 1, half=0.5), replace(run("a", 53.2, 7.0, 3, half=0.4), note="topk 8, as in the paper"),
        run("s", 90.2, 25.0, 2, half=0.6), run("f", 94.6, 25.5, 2, half=0.5), BASE,
    )  # fmt: skip
    launches = (
        LaunchEntry("l2", WALL - 2.3 * HOUR, "ready", KEPT, "sglang", "/shared/models/Kimi-K2.5-INT4", "gpu-node", "k25", "3step", ready_s=192.0, cold=False, runs=2, best=runs[3], changes=STEPS[2:]),
        LaunchEntry("l3", WALL - 3.0 * HOUR, "crashed", KEPT, "sglang", "/shared/models/Kimi-K2.5-INT4", "gpu-node", "k25", "4step", diagnosis="cuda-oom", cold=True),
        LaunchEntry("l4", WALL - 6.0 * HOUR, "stopped", KEPT, "sglang", "/shared/models/Kimi-K2.5-INT4", "gpu-node", "k25", "1step", cold=None),
        LaunchEntry("l1", WALL - 26.2 * HOUR, "ready", KEPT, "sglang", "/shared/models/Kimi-K2.5-INT4", "gpu-node", "k25", "no-spec", ready_s=201.0, cold=True, runs=1, best=BASE),
    )  # fmt: skip
    return Kept(runs, launches)


def many() -> Kept:
    """More than any screen has rows."""
    return Kept((*(run(f"r{n}", 80 + n % 17, 1 + n, n % 4 + 1) for n in range(120)), BASE), ())


def hostile() -> Kept:
    """Names that nobody should give, and one that is too long."""
    one = run("h", 12_345.6, 0.0, 3)
    facts = replace(one.result.facts, variant=HOSTILE, model=HOSTILE, node=HOSTILE)
    long = replace(one.result.facts, variant="a-variant-with-a-name-that-is-much-longer-than-any-column-may-be-" * 2)
    bad = replace(
        one,
        result=replace(one.result, facts=facts, notes=(HOSTILE,), failures=(Failure(500, HOSTILE, 3),)),
        note=HOSTILE,
        changes=(FlagChange(HOSTILE, HOSTILE, HOSTILE),),
    )
    return Kept((bad, replace(one, result=replace(one.result, run="l", facts=long))), ())


class FakeLedger:
    """A `ui.ledger.Ledger`."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.kept = campaign() if kept is None else kept
        self.looks = 0
        self.notes: list[tuple[str, str]] = []
        self.baselines: list[tuple[str, bool]] = []
        self.failing: str | None = None

    def look(self) -> Kept:
        self.looks += 1
        if self.failing is not None:
            raise HistoryError(self.failing)
        return self.kept

    def compare(self, a: RunEntry, b: RunEntry) -> Compared:
        changes = (
            FlagChange("speculative-num-steps", "2", "3"),
            FlagChange("enable-metrics", None, "on"),
            FlagChange("disable-radix-cache", "on", None),
        )
        return Compared(a, b, against(b.result, a.result), changes, metrics(a.result, b.result))

    def set_baseline(self, run: str, *, off: bool = False) -> None:
        self.baselines.append((run, off))
        self.kept = replace(
            self.kept, runs=tuple(replace(one, baseline=one.id == run and not off) for one in self.kept.runs)
        )

    def note(self, run: str, text: str) -> None:
        self.notes.append((run, text))
        self.kept = replace(
            self.kept, runs=tuple(replace(one, note=text) if one.id == run else one for one in self.kept.runs)
        )
