"""What an engine is, as a value: its endpoints, its milestones as a table, its batch lines and its metric names. A
registry of strings loads one when used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Literal, NamedTuple

from eagletui.engines.batch import BatchSample
from eagletui.engines.literals import longest_literal

Act = Literal[
    "launch", "args", "begin", "end", "within", "ready", "timings",
    "stopping", "stopped", "gone",
]  # fmt: skip
"""What a milestone tells.

launch: a new process speaks · args: the same, with its arguments · begin, end: of a phase, by the rank that prints it
· within: only seen in that phase ·
ready: it serves · timings: the engine's own list of durations · stopping: a wanted stop began · stopped: it ended in
order · gone: it kills its processes (an end, wanted or not). What a line says of a failure stands in `rules/*.toml`.
"""


class Mark(NamedTuple):
    """The meaning of a milestone. `then` is the phase that begins unseen when every rank ended this one. `sure`: only
    this engine prints it.

    `needs`: what the text must hold; required where a pattern does not begin with a letter of its own.
    """

    act: Act
    phase: str = ""
    then: str = ""
    sure: bool = True
    needs: str = ""


class Bars(NamedTuple):
    """Bars whose label matches belong to a phase and count `unit`."""

    label: re.Pattern[str]
    phase: str
    unit: str


def _branches(pattern: str) -> list[str]:
    """The alternatives of a pattern's outermost level."""
    found, depth, start, i = [], 0, 0, 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            i += 1
        elif char == "[":
            i = pattern.index("]", i + 2)
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            found.append(pattern[start:i])
            start = i + 1
        i += 1
    return [*found, pattern[start:]]


def _initial(branch: str) -> str:
    """The character that every text of a branch begins with, "" when there is not one."""
    if branch[0] == "\\":
        return "" if branch[1].isalnum() else branch[1]
    return branch[0] if branch[0].isalnum() or branch[0] == "#" else ""


def milestone_begins(pattern: str) -> bool:
    """Whether every text that a pattern matches begins with a letter that is known beforehand."""
    return all(branch and _initial(branch) for branch in _branches(pattern))


class _Table:
    """Milestones sorted by how their texts begin, so that a line that means nothing costs little: most lines do.

    Of several that match, the first by its initial wins over one without.
    """

    def __init__(self, milestones: tuple[tuple[str, Mark], ...]) -> None:
        lists: dict[str, list[tuple[str, Mark]]] = {}
        self._wild: list[tuple[str, re.Pattern[str], Mark]] = []
        for pattern, mark in milestones:
            for branch in _branches(pattern):
                initial = _initial(branch)
                if initial:
                    lists.setdefault(initial, []).append((branch, mark))
                elif mark.needs:
                    self._wild.append((mark.needs, re.compile(branch), mark))
                else:
                    raise ValueError(f"milestone {branch!r} begins with no letter and needs nothing")
        self._lists = {
            initial: (re.compile("|".join(f"({branch})" for branch, _ in rows)), [mark for _, mark in rows])
            for initial, rows in lists.items()
        }

    def find(self, text: str) -> Mark | None:
        """The meaning of a text."""
        known = self._lists.get(text[:1])
        if known is not None:
            found = known[0].match(text)
            if found is not None and found.lastindex is not None:
                return known[1][found.lastindex - 1]
        for needs, pattern, mark in self._wild:
            if needs in text and pattern.match(text):
                return mark
        return None


@dataclass(frozen=True)
class Engine:
    """One engine. `milestones` are patterns matched at the begin of a record's text, first match wins; they may hold
    no capturing group.

    `metrics` maps a field of BatchSample to the metric names that hold it, `metrics_counters` names counters whose
    growth is a rate. `read_batch` gives the sample of a batch line's text, None for any other text. `batch_words`:
    how such a text begins.
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
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ready_text: str = ""
    details: tuple[tuple[re.Pattern[str], str, str], ...] = ()
    """(pattern, phase, words): what a line adds to a phase's detail; groups fill the words."""

    @cached_property
    def _table(self) -> _Table:
        return _Table(self.milestones)

    def mark(self, text: str) -> Mark | None:
        """The milestone that a record's text is, None for any other text."""
        return self._table.find(text)

    @cached_property
    def literals(self) -> frozenset[str] | None:
        """A text without any of these is no milestone. None where that cannot be told beforehand (a user's pattern of classes only)."""
        needed = {
            mark.needs if mark.needs and not _initial(branch) else longest_literal(branch)
            for pattern, mark in self.milestones
            for branch in _branches(pattern)
        }
        return frozenset(needed) if all(needed) else None

    def bar_phase(self, label: str) -> Bars | None:
        """What a bar with this label counts."""
        for bars in self.bars:
            if bars.label.match(label):
                return bars
        return None


ENGINES: dict[str, str] = {"sglang": "eagletui.engines.sglang:SGLANG", "vllm": "eagletui.engines.vllm:VLLM"}
"""Engines by name; a value is imported when it is used."""


def detail_in(engine: Engine, text: str) -> tuple[str, str] | None:
    """The phase that a milestone's text tells a detail of, and the detail."""
    for pattern, phase, words in engine.details:
        found = pattern.search(text, 0, 2_000)
        if found is not None:
            return phase, words.format(*found.groups())
    return None


_extended: dict[str, Engine] = {}


def load_engine(name: str) -> Engine:
    """The engine with this name, with the user's own patterns. Raises KeyError for a name that is not in ENGINES."""
    known = _extended.get(name)
    if known is not None:
        return known
    module, _, attribute = ENGINES[name].partition(":")
    engine: Engine = getattr(import_module(module), attribute)
    return engine


def extend_engine(name: str, milestones: tuple[tuple[str, Mark], ...], bars: tuple[Bars, ...]) -> None:
    """Put a user's patterns before an engine's own, for every log that is read from now on; empty ones take them away.

    Raises KeyError for a name that is not in ENGINES.
    """
    _extended.pop(name, None)
    shipped = load_engine(name)
    if milestones or bars:
        _extended[name] = replace(shipped, milestones=(*milestones, *shipped.milestones), bars=(*bars, *shipped.bars))


COMMON: tuple[tuple[str, Mark], ...] = (
    (r"Shutting down\s*\Z", Mark("stopping", sure=False)),
    (r"Application shutdown complete|Finished server process", Mark("stopped", sure=False)),
)
"""Lines that no engine owns: uvicorn's."""

ELAPSED = re.compile(
    r"(?:elapsed[=:]|Time elapsed:|completed in|capture in|took|takes|finished in) ?"
    r"(?:[0-9.]+ GiB (?:memory )?and )?([0-9]+(?:\.[0-9]+)?) ?(?:s\b|secs?\b|seconds)"
)
"""The engine's own duration in a line that ends a phase, in seconds."""


def elapsed_in(text: str) -> float | None:
    """The duration that a line tells, in seconds."""
    found = ELAPSED.search(text, 0, 400)
    return float(found[1]) if found else None
