"""The endless output of `nvidia-smi --query-gpu=… -l 1`, cut into rounds.

Nothing separates one round from the next, and a round that waits for the first row of the next one is a second old.
So a round ends as soon as everything that the round before held is there again, and at the latest when something
comes a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from eagletui.gpus.model import GpuReport
from eagletui.gpus.smi_messages import Message
from eagletui.gpus.smi_rows import (
    LINE_CAP,
    Dialect,
    Row,
    answer_lines,
    build_report,
    clean_line,
    read_line,
    refused_field,
    split_answer,
)

ROUND_CAP: Final = 2048
"""Lines of one round; twice the GPUs that any node has."""
NOISE_CAP: Final = 20
"""Lines without a meaning that are kept for the case that nothing else comes."""

_Key = int | str


class LoopParser:
    """Reads the loop of one dialect, in chunks of any size.

    `retry` is set when the tool does not know a field: start anew with it. `known`: the indexes that the loop will
    tell, so that the first round too is published at once. `unopened`: what a survey heard of GPUs that the loop does
    not ask; they stand in each report.
    """

    def __init__(self, dialect: Dialect, known: Iterable[int] = (), unopened: Iterable[Message] = ()) -> None:
        self.retry: Dialect | None = None
        self._dialect = dialect
        self._unopened = tuple(unopened)
        self._known: set[_Key] = set(known)
        self._round: dict[_Key, Row | Message] = {}
        self._last: dict[_Key, Row | Message] = {}
        self._noise: list[Message] = []
        self._tail = b""

    def feed(self, data: bytes) -> list[GpuReport]:
        """The rounds that these bytes completed."""
        *lines, self._tail = (self._tail + data).split(b"\n")
        self._tail = self._tail[: LINE_CAP + 1]
        reports: list[GpuReport] = []
        for line in lines:
            if len(line) <= LINE_CAP:
                reports += self._take(read_line(clean_line(line), self._dialect))
        return reports

    def flush(self, exit_status: int | None = None, stderr: bytes = b"") -> list[GpuReport]:
        """The loop ended: a report of what it said last, if it said anything.

        Rows of a round that was cut off make no report, unless no round was whole.
        """
        reports: list[GpuReport] = []
        rest, self._tail = self._tail, b""
        for line in answer_lines(rest[:LINE_CAP], stderr):
            item = read_line(line, self._dialect)
            if isinstance(item, Message) and item.code != "unparsable":
                reports += self._take(item)
        if self.retry is not None:
            return reports
        spoken = any(isinstance(item, Message) for item in self._round.values())
        if self._round and (spoken or not self._last):
            reports.append(self._publish(exit_status))
        elif not self._last and not reports:
            reports.append(build_report([], [*self._unopened, *self._noise], exit_status))
        self._round = {}
        return reports

    def _take(self, item: Row | Message | None) -> list[GpuReport]:
        if item is None:
            return []
        if isinstance(item, Message) and item.code is None:
            if refused_field([item]):
                self.retry = self._dialect.older
            self._noise = [*self._noise, item][-NOISE_CAP:]
            return []
        key = self._key(item)
        reports: list[GpuReport] = []
        if key in self._round or len(self._round) >= ROUND_CAP:
            reports.append(self._publish())
        elif not self._round and self._last and key not in self._known:
            # The round was taken for whole, and one more GPU or a message belongs to it: say it again with that.
            self._round = dict(self._last)
        self._round[key] = item
        if self._known and self._known <= self._round.keys():
            reports.append(self._publish())
        return reports

    def _key(self, item: Row | Message) -> _Key:
        if isinstance(item, Message):
            return item.text
        # A GPU that cannot tell its index is known by its uuid or its place on the bus.
        return item.gpu.index if item.gpu.index >= 0 else f"{item.gpu.uuid} {item.bus}"

    def _publish(self, exit_status: int | None = None) -> GpuReport:
        rows, messages = split_answer(self._round.values())
        self._last, self._known, self._round = self._round, set(self._round), {}
        return build_report(rows, [*self._unopened, *messages], exit_status)
