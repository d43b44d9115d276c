"""Lines as a person wants to see them: bars that move in place, our own probes folded, prefixes as columns. Feeds a
LineStore.

PRODUCT.md (log pane): "levels coloured; progress bars shown as one updating line; access-log noise of our own health
polls folded away".
"""

from __future__ import annotations

from dataclasses import replace

from eagletui.engines.bars import Bar
from eagletui.logs.reader import Line, Reader
from eagletui.logs.records import Record
from eagletui.logs.store import LineKind, LineStore, StoredLine
from eagletui.shell.masking import mask_text

SHOWN = 4_096
"""Characters of a line that are kept for showing; of a longer one its size is told."""
TAB = 8
OPEN_BARS = 256
"""Bars that may move in place at a time (a rank and a label each)."""
_KINDS = {"WARNING": LineKind.WARNING, "ERROR": LineKind.ERROR, "DEBUG": LineKind.DEBUG}
_PROBE_WARMING_TOKENS = "#new-token: 1,"


class _Place:
    """Where a bar is shown, and its last drawing."""

    __slots__ = ("bar", "number")

    def __init__(self, number: int, bar: Bar) -> None:
        self.number = number
        self.bar = bar


class Presenter:
    """Takes the reader's lines (its `watch`) and keeps the store. `show_partial` after each feed shows the unfinished
    last line in place. `channel`: which of the server's files the lines that come next are of, as the reader's."""

    def __init__(self, store: LineStore) -> None:
        self.store = store
        self.channel = 0
        self._bars: dict[tuple[str, str], _Place] = {}
        self._probe: int | None = None
        self._partial: int | None = None

    def add(self, line: Line) -> None:
        """A finished line. It takes the place of the unfinished one that it was."""
        if self._partial is not None:
            self.store.drop_last()
            self._partial = None
        shown = stored(line, self.channel)
        if line.bar is not None:
            self._show_bar(line.record, line.bar, shown)
        elif line.probe is not None:
            self._show_probe(shown)
        else:
            if not _goes_with_probes(line.record):
                self._probe = None
            self.store.append(shown)

    def show_partial(self, line: Line | None) -> None:
        """The unfinished last line as it stands now, None when there is none."""
        if line is None or not line.record.text:
            return
        shown = stored(line, self.channel)
        if line.bar is None:
            # What it is, and whether it counts as a warning, is known at its end.
            shown = replace(shown, kind=LineKind.PLAIN)
        elif self._partial is None:
            place = self._bars.get(_key(line.record, line.bar))
            if place is not None and _goes_on(place.bar, line.bar) and self.store.replace(place.number, shown):
                return
        if self._partial is None:
            self._partial = self.store.append(shown)
        elif self.store.line(self._partial) != shown:
            self.store.replace(self._partial, shown)

    def mark(self, text: str, clock: str = "") -> None:
        """A line of ours: a rotation, a gap, the end of the log. It stands before a line that is still being written: that one goes on below it."""
        unfinished = None if self._partial is None else self.store.line(self._partial)
        if unfinished is not None:
            self.store.drop_last()
        self._probe = None
        self._bars.clear()
        self.store.append(StoredLine(text, LineKind.MARKER, clock))
        self._partial = None if unfinished is None else self.store.append(unfinished)

    def skipped(self, text: str) -> None:
        """Something before what comes next was not read; `text` says how much."""
        self.store.counted = False
        self.mark(text)

    def _show_bar(self, record: Record, bar: Bar, shown: StoredLine) -> None:
        key = _key(record, bar)
        place = self._bars.get(key)
        if bar.label and (
            place is None or not _goes_on(place.bar, bar)
        ):  # a bar draws itself once before it has a name
            unnamed = self._bars.get((key[0], ""))
            if unnamed is not None and unnamed.bar.total == bar.total and unnamed.bar.done <= bar.done:
                place = self._bars[key] = self._bars.pop((key[0], ""))
        if place is not None and _goes_on(place.bar, bar) and self.store.replace(place.number, shown):
            place.bar = bar
            return
        number = self.store.append(shown)
        if len(self._bars) >= OPEN_BARS:
            self._bars.pop(next(iter(self._bars)))
        self._bars[key] = _Place(number, bar)

    def _show_probe(self, shown: StoredLine) -> None:
        before = self.store.line(self._probe) if self._probe is not None else None
        if before is not None and self._probe is not None:
            self.store.replace(self._probe, replace(shown, count=before.count + 1))
            return
        self._probe = self.store.append(shown)


def _key(record: Record, bar: Bar) -> tuple[str, str]:
    return (f"{record.source} {record.process} {record.rank}", bar.label)


def _goes_on(before: Bar, after: Bar) -> bool:
    """Whether it is the same run of a bar, and not the next one with its name."""
    return before.total == after.total and not (before.done == before.total and after.done < before.done)


def _goes_with_probes(record: Record) -> bool:
    """A health probe makes the server generate one token: its Prefill line stands between two probes."""
    return record.text.startswith("Prefill batch") and _PROBE_WARMING_TOKENS in record.text


def stored(line: Line, channel: int = 0) -> StoredLine:
    """A line as it is shown."""
    record = line.record
    kind = _KINDS.get(record.level, LineKind.PLAIN)
    if line.bar is not None:
        kind = LineKind.PROGRESS
    elif line.probe is not None:
        kind = LineKind.PROBE
    elif line.error:
        kind = LineKind.ERROR
    text = record.text
    if record.origin:
        text = f"[{record.origin}] {text}"
    rank = record.rank or record.process or record.source
    return StoredLine(mask_text(_fit(text, record)), kind, record.time, rank, record.level, 1, record.number, channel)


def _fit(text: str, record: Record) -> str:
    if "\t" in text:
        text = text.expandtabs(TAB)
    if len(text) <= SHOWN and record.length <= len(record.text) + 512:
        return text
    size = max(record.length, len(text))
    told = f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{round(size / 1_000)} KB"
    return f"{text[:SHOWN]} … {told}"


def present(reader: Reader, presenter: Presenter) -> None:
    """After a feed: what stands unfinished at the end of the log."""
    presenter.show_partial(reader.partial)
