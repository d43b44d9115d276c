"""Runs that are kept: into the history and back, the baseline that a run is held against, notes and tags. Every method blocks for some milliseconds;
where an event loop runs it is called in a thread. Each raises HistoryError with a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from eagletui.bench.compare import against, rate_of, terms_differ, unfitness
from eagletui.bench.load import Load
from eagletui.bench.outcome import Against, Facts, Result, Row, TokenSource
from eagletui.bench.report import result_of, text_of
from eagletui.errors import HistoryError, UsageError
from eagletui.history.runs import Origin, RequestRow, RunRecord, RunsWanted, new_id
from eagletui.history.store import History

_PARSED = 2_000
"""Runs whose text is not read again: a list is looked at again and again, and a run does not change."""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A run that is kept. `result.against`: as it was held when it was measured; `against`: held against the baseline that there is now, None where
    there is none, and for a baseline itself."""

    result: Result
    baseline: bool = False
    note: str = ""
    tags: tuple[str, ...] = ()
    origin: Origin = "measured"
    against: Against | None = None

    @property
    def id(self) -> str:
        """Of the run."""
        return self.result.run


class KeptRuns:
    """The runs of a history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def new_id(self) -> str:
        """For a run that begins now."""
        return new_id()

    def record(
        self, result: Result, rows: Sequence[Row] = (), *, origin: Origin = "measured", source: str | None = None,
        note: str = "", tags: Sequence[str] = (),
    ) -> bool:  # fmt: skip
        """Keep a run with its requests. Written again with the same id it is replaced, and its note, tags and that it is a baseline stay.
        `source`: of an import; False where the same one is kept already."""
        facts = result.facts
        record = RunRecord(
            id=result.run, machine=facts.machine, began=result.began, body=text_of(result), node=facts.node, engine=facts.engine,
            model=facts.model, profile=facts.profile, variant=facts.variant, launch=facts.launch, tok_s=rate_of(result),
            origin=origin, source=source, note=note, tags=tuple(tags),
        )  # fmt: skip
        return self._history.record_run(record, [_request(row) for row in rows])

    def find(self, name: str) -> KeptRun:
        """By its id, or by what only its id begins with. Raises UsageError for none and for several."""
        return self._held((self._history.run(name),))[0]

    def listed(self, which: RunsWanted | None = None) -> tuple[KeptRun, ...]:
        """Those that are wanted, newest first. What another version of eagletui wrote and this one cannot read is passed over."""
        return self._held([one for one in self._history.runs(which) if _readable(one.body) is not None])

    def rows(self, run: str) -> tuple[Row, ...]:
        """Requests of a run, by its whole id; without the times between tokens, which are not kept."""
        return tuple(
            Row(
                one.repeat, one.number, one.sent_s, one.ttft_ms, one.e2e_ms, one.input_tokens, one.output_tokens,
                cast("TokenSource", one.source), one.status, one.error,
            )
            for one in self._history.requests(run)
        )  # fmt: skip

    def baseline_for(self, load: Load, facts: Facts) -> Result | None:
        """What a run of such a load on such a server is held against: a baseline of its machine (or one whose machine is not known) that can be
        compared, else the one that differs least, the newest first. None where its machine has none."""
        return _nearest(load, facts, self._baselines())

    def set_baseline(self, name: str, *, off: bool = False) -> tuple[str, ...]:
        """From now on runs like this one are held against it; `off`: no longer. Gives the ids of those that were it for the same kind of run before,
        on the same machine: only one is. Raises UsageError as find, and for a run with which none could be compared."""
        run = self._history.run(name)
        if off:
            self._history.set_baseline("", off=(run.id,))
            return ()
        result = _parsed(run.body)
        unfit = unfitness(result, run.id)
        if unfit:
            raise UsageError(f"{run.id} cannot be a baseline: {'; '.join(unfit)}")
        before = tuple(
            other.run
            for other in self._baselines()
            if other.run != run.id
            and other.facts.machine == run.machine
            and not terms_differ(result.load, result.facts, other.load, other.facts)
        )
        self._history.set_baseline(run.id, off=before)
        return before

    def note(self, name: str, text: str) -> str:
        """What a person writes about it; "" takes it away. Gives the run's id. Raises UsageError as find."""
        run = self._history.run(name).id
        self._history.set_note(run, text)
        return run

    def tag(self, name: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
        """Give it tags, take some away. Gives the run's id and the tags that it has then. Raises UsageError as find."""
        run = self._history.run(name).id
        self._history.tag(run, add, remove)
        return run, self._history.run(run).tags

    def _baselines(self) -> tuple[Result, ...]:
        return tuple(found for one in self._history.baselines() if (found := _readable(one.body)) is not None)

    def _held(self, records: Sequence[RunRecord]) -> tuple[KeptRun, ...]:
        baselines = self._baselines() if records else ()
        found = []
        for one in records:
            result = _parsed(one.body)
            is_one = one.baseline_since is not None
            base = None if is_one else _nearest(result.load, result.facts, baselines)
            held = None if base is None else against(result, base)
            found.append(KeptRun(result, is_one, one.note, one.tags, one.origin, held))
        return tuple(found)


def _nearest(load: Load, facts: Facts, baselines: Sequence[Result]) -> Result | None:
    best: tuple[tuple[bool, bool, int], Result] | None = None
    for one in baselines:  # the newest comes first: of equals it wins
        if one.facts.machine not in {facts.machine, ""}:
            continue
        why = terms_differ(load, facts, one.load, one.facts)
        rank = (bool(why), one.facts.machine != facts.machine, len(why))
        if best is None or rank < best[0]:
            best = (rank, one)
    return None if best is None else best[1]


def _parsed(body: str) -> Result:
    found = _readable(body)
    if found is None:
        raise HistoryError("another version of eagletui wrote this run; this one cannot read it")
    return found


@lru_cache(maxsize=_PARSED)
def _readable(body: str) -> Result | None:
    try:
        return result_of(body)
    except ValueError:
        return None


def _request(row: Row) -> RequestRow:
    return RequestRow(
        row.repeat, row.index, row.sent_s, row.ttft_ms, row.e2e_ms, row.input_tokens, row.output_tokens, row.source,
        row.status, row.error,
    )  # fmt: skip
