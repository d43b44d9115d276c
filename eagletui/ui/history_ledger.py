"""The history of a node as the Experiments screen looks through it: a `ui.ledger.Ledger` over the file. Loaded and called in a thread."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from eagletui.bench.compare import against, flags_differ, rate_of
from eagletui.bench.kept import KeptRun, KeptRuns
from eagletui.bench.outcome import Result
from eagletui.bench.side_by_side import metrics
from eagletui.bench.sweep.state import SweepStore, default_folder
from eagletui.engines.command_line import COMMAND, NotALaunchError, difference
from eagletui.history.launches import LaunchRecord
from eagletui.history.runs import LaunchesWanted, RunsWanted
from eagletui.history.store import History
from eagletui.launching.plan import FlagChange
from eagletui.logs.state import SHOWN_NAMES
from eagletui.ui.bench_words import sweep_words
from eagletui.ui.ledger import Compared, Kept, LaunchEntry, RunEntry
from eagletui.ui.screens.draft import words_of

MOST_RUNS, MOST_LAUNCHES = 1_000, 500
"""Rows of a table that somebody walks through; `eagletui history` lists them all."""


class HistoryLedger:
    """Of the machine that a node's name means; of all machines where that is not known yet."""

    def __init__(self, history: History, node: str) -> None:
        self._history = history
        self._kept = KeptRuns(history)
        self._node = node

    def look(self) -> Kept:
        """See Ledger."""
        machine = self._history.machine_of(self._node)
        runs = self._kept.listed(RunsWanted(limit=MOST_RUNS))
        ours = [one for one in runs if machine is None or one.result.facts.machine in (machine, "")]
        entries = tuple(_entry(one, ours) for one in ours)
        launches = self._history.launches(LaunchesWanted(machine=machine, limit=MOST_LAUNCHES))
        return Kept(entries, _launches(launches, entries), self._sweep())

    def _sweep(self) -> str:
        found = SweepStore(default_folder()).under_way(self._node)
        return sweep_words(found[0], time.time()) if found else ""

    def compare(self, a: RunEntry, b: RunEntry) -> Compared:
        """See Ledger."""
        rows = (self._kept.rows(a.id), self._kept.rows(b.id))
        changes = flags_differ(a.result.facts, b.result.facts)
        return Compared(a, b, against(b.result, a.result), changes, metrics(a.result, b.result, *rows))

    def set_baseline(self, run: str, *, off: bool = False) -> None:
        """See Ledger."""
        self._kept.set_baseline(run, off=off)

    def note(self, run: str, text: str) -> None:
        """See Ledger."""
        self._kept.note(run, text)


def _entry(one: KeptRun, runs: Sequence[KeptRun]) -> RunEntry:
    base = _base(one, runs)
    changes = () if base is None else flags_differ(base.facts, one.result.facts)
    return RunEntry(one.result, one.against, one.baseline, one.note, one.tags, changes)


def _base(one: KeptRun, runs: Sequence[KeptRun]) -> Result | None:
    """Whose flags its own are told against: the baseline's; where there is none, those of the first run of its model."""
    if one.baseline:
        return None
    if one.against is not None:
        return next((other.result for other in runs if other.id == one.against.run), None)
    alike = [other for other in runs if other.result.facts.model == one.result.facts.model]
    return alike[-1].result if alike and alike[-1].id != one.id else None


def _launches(launches: Sequence[LaunchRecord], runs: Sequence[RunEntry]) -> tuple[LaunchEntry, ...]:
    of_launch: dict[str, list[RunEntry]] = {}
    for run in runs:
        if run.result.facts.launch is not None:
            of_launch.setdefault(run.result.facts.launch, []).append(run)
    bases = _base_launches(launches, runs)
    out: list[LaunchEntry] = []
    for one in launches:
        measured = of_launch.get(one.identity.key, [])
        base = bases.get(one.kind.model)
        changes = () if base is None or base.identity == one.identity else _changes(base.command, one.command)
        out.append(
            LaunchEntry(
                one.identity.key, one.started.timestamp(), one.outcome, one.command, one.kind.engine, one.kind.model, one.node, one.profile, one.variant,
                one.diagnosis, one.ended, one.ready_s, one.cold, len(measured), _best(measured), _phases(one), changes,
            )
        )  # fmt: skip
    return tuple(out)


def _phases(launch: LaunchRecord) -> tuple[tuple[str, float], ...]:
    return tuple((SHOWN_NAMES[one.name], one.seconds) for one in launch.phases if one.seconds is not None)


def _base_launches(launches: Sequence[LaunchRecord], runs: Sequence[RunEntry]) -> Mapping[str | None, LaunchRecord]:
    """By model the launch that others are told against: that of the baseline, else the first one."""
    keys = {run.result.facts.launch for run in runs if run.baseline}
    found = {one.kind.model: one for one in launches}  # they are newest first: the last one stays
    found.update({one.kind.model: one for one in launches if one.identity.key in keys})
    return found


def _best(runs: Sequence[RunEntry]) -> RunEntry | None:
    known = [run for run in runs if run.result.complete and rate_of(run.result) is not None]
    return max(known, key=lambda run: rate_of(run.result) or 0.0, default=None)


def _changes(before: Sequence[str], after: Sequence[str]) -> tuple[FlagChange, ...]:
    try:
        found = difference(before, after)
    except NotALaunchError:
        return ()
    return tuple(
        FlagChange(
            one.flag,
            None if one.before is None else words_of(one.flag, one.before),
            None if one.after is None else words_of(one.flag, one.after),
        )
        for one in found
        if one.flag != COMMAND
    )
