"""What an engine is, as a value: its endpoints, its milestones as a table, its batch lines and its metric names. A registry of strings loads one when used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Literal, NamedTuple

from eagletui.engines.batch import BatchSample

Act = Literal[
    "launch", "args", "begin", "end", "within", "ready", "timings", "fatal", "echo", "traceback", "stopping", "stopped", "gone",
]  # fmt: skip
"""What a milestone tells.

launch: a new process speaks · args: the same, with its arguments · begin, end: of a phase, by the rank that prints it · within: only seen in that phase ·
ready: it serves · timings: the engine's own list of durations · fatal: a line that names a cause · echo: a line that only says that something died ·
traceback: one begins · stopping: a wanted stop began · stopped: it ended in order · gone: it kills its processes (an end, wanted or not).
"""


class Mark(NamedTuple):
    """The meaning of a milestone. `then` is the phase that begins unseen when every rank ended this one. `sure`: only this engine prints it."""

    act: Act
    phase: str = ""
    then: str = ""
    sure: bool = True


class Bars(NamedTuple):
    """Bars whose label matches belong to a phase and count `unit`."""

    label: re.Pattern[str]
    phase: str
    unit: str


@dataclass(frozen=True)
class Engine:
    """One engine. `milestones` are patterns matched at the begin of a record's text, first match wins; they may hold no capturing group.

    `metrics` maps a field of BatchSample to the metric names that hold it, `metrics_counters` names counters whose growth is a rate.
    `read_batch` gives the sample of a batch line's text, None for any other text. `batch_words`: how such a text begins.
    """

    name: str
    milestones: tuple[tuple[str, Mark], ...]
    bars: tuple[Bars, ...]
    batch_words: tuple[str, ...]
    read_batch: Callable[[str], BatchSample | None]
    read_args: Callable[[str], dict[str, object]]
    metrics: dict[str, tuple[str, ...]]
    metrics_counters: dict[str, str]
    health_path: str = "/health"
    deep_health_path: str | None = None
    metrics_path: str = "/metrics"
    info_paths: tuple[str, ...] = ()
    arguments: dict[str, tuple[str, ...]] | None = None
    ready_text: str = ""

    @cached_property
    def _table(self) -> re.Pattern[str]:
        return re.compile("|".join(f"({pattern})" for pattern, _ in self.milestones))

    def mark(self, text: str) -> Mark | None:
        """The milestone that a record's text is, None for any other text."""
        found = self._table.match(text)
        return self.milestones[found.lastindex - 1][1] if found is not None and found.lastindex is not None else None

    def bar_phase(self, label: str) -> Bars | None:
        """What a bar with this label counts."""
        for bars in self.bars:
            if bars.label.match(label):
                return bars
        return None


ENGINES: dict[str, str] = {"sglang": "eagletui.engines.sglang:SGLANG", "vllm": "eagletui.engines.vllm:VLLM"}
"""Engines by name; a value is imported when it is used."""


def load_engine(name: str) -> Engine:
    """The engine with this name. Raises KeyError for a name that is not in ENGINES."""
    module, _, attribute = ENGINES[name].partition(":")
    engine: Engine = getattr(import_module(module), attribute)
    return engine


COMMON: tuple[tuple[str, Mark], ...] = (
    (r"Traceback \(most recent call last\)", Mark("traceback", sure=False)),
    (r"\[Errno 98\]|error while attempting to bind", Mark("fatal", sure=False)),
    (r"(?i:address already in use)", Mark("fatal", sure=False)),
    (r"Fatal Python error: ", Mark("fatal", sure=False)),
    (r"terminate called after throwing", Mark("fatal", sure=False)),
    (r"(?:Segmentation fault|Aborted|Bus error|Killed)(?: \(core dumped\))?\s*\Z", Mark("echo", sure=False)),
    (r"\S{1,200}: line [0-9]+: +[0-9]+ (?:Killed|Aborted|Segmentation fault|Bus error)", Mark("echo", sure=False)),
    (r"(?:[\w.-]+ ){0,2}[\w.-]+: error: (?:unrecognized arguments|argument |the following arguments|ambiguous option|invalid)", Mark("fatal", sure=False)),
    (r"Shutting down\s*\Z", Mark("stopping", sure=False)),
    (r"Application shutdown complete|Finished server process", Mark("stopped", sure=False)),
)  # fmt: skip
"""Lines that no engine owns: Python, the shell, uvicorn."""

ELAPSED = re.compile(r"(?:elapsed[=:]|Time elapsed:|completed in|capture in|took|takes|finished in) ?(?:[0-9.]+ GiB (?:memory )?and )?([0-9]+(?:\.[0-9]+)?) ?(?:s\b|secs?\b|seconds)")
"""The engine's own duration in a line that ends a phase, in seconds."""


def elapsed_in(text: str) -> float | None:
    """The duration that a line tells, in seconds."""
    found = ELAPSED.search(text, 0, 400)
    return float(found[1]) if found else None
