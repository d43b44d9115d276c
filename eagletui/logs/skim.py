"""Many whole lines of a log at once, for a reader whose lines and events nobody watches: usual batch lines are added up by columns,
lines that mean nothing are counted, and what is left is read one by one. Pure.

What comes out is what reading each line would give. Of every shape that is not known here the line is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from eagletui.engines.batch import BatchSample, finite, value_of
from eagletui.engines.rulebook import RuleBook
from eagletui.engines.spec import Engine
from eagletui.logs.figures import Figures
from eagletui.logs.gate import gate
from eagletui.logs.records import is_later, ranks_of, stamp_of
from eagletui.logs.stage import Moment
from eagletui.logs.totals import Totals

ALWAYS = (
    "JIT", "AUTOTUNE", "Traceback (most recent call last):", "Current thread 0x", "Avg prompt throughput", "SpecDecoding metrics", "Speculative metrics",
    " |", "| [",
)  # fmt: skip
"""Held by lines that mean something beside the tables: tracebacks, dumps, vLLM's figures, composed logs."""

CURLED = (b"\0", b"\x1b", b"\xc2\x9b", b"\r")
"""What a block of plain lines holds none of: what the decoder takes out, or ends a line at."""

_DAY = rb"2[0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOCK = rb"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_OWN = rb"\[(" + _DAY + rb" " + _CLOCK + rb")((?: [A-Z_]{1,20}[0-9]{1,6})*)\] "
_PROCESS = rb"\((?:APIServer|EngineCore|Worker)[\w-]* pid=[0-9]{1,9}\) "
_LEVEL = rb"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) "
_ODD = rb"[\[(]|[0-9]{4}-|" + _LEVEL + rb"[0-9]|[A-Z][a-z]{2} [ 0-9]"
_START = re.compile(
    rb"\n(?:" + _OWN
    + rb"|(?:" + _PROCESS + rb")?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) ([0-9]{2}-[0-9]{2} " + _CLOCK + rb") \[[\w./-]+:[0-9]+\] "
    + rb"|" + _PROCESS + rb"(?!" + _ODD + rb")"
    + rb"|(" + _ODD + rb"))"
)  # fmt: skip
"""How a line begins that has a time, a rank or an outer prefix. Groups: time and ranks of SGLang, time of vLLM; the last one for all
others, whose lines are read."""
_GLUED = re.compile(rb"[^\n]\[2[0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")

_BATCH_WORDS = re.compile(rb"(?:Decode|Prefill) batch")
_BATCH = re.compile(
    rb"\n"
    + _OWN
    + rb"(?:Decode batch[.,] #running-req: ([0-9]{1,9}), #token: [0-9]+, token usage: ([0-9]{1,9}\.[0-9]{1,9}), "
    rb"(?:accept len: ([0-9]{1,9}\.[0-9]{1,9}), )?(?:accept rate: [0-9]{1,9}\.[0-9]{1,9}, )?"
    rb"(?:(?!accept )[^:,\n]{1,40}: [^,\n]{1,20}, ){0,4}"
    rb"gen throughput \(token/s\): ([0-9]{1,9}\.[0-9]{1,9}), #queue-req: ([0-9]{1,9})"
    rb"|Prefill batch[.,] #new-seq: [0-9]+, #new-token: ([0-9]{1,9}), #cached-token: [0-9]+, (?:cache hit rate: [0-9.]+%, )?"
    rb"token usage: ([0-9]{1,9}\.[0-9]{1,9}), #running-req: ([0-9]{1,9}), #queue-req: ([0-9]{1,9})"
    rb")((?:, [^\n]*)?)(?=\n)"
)
_Row = tuple[bytes, ...]
"""Of a batch line: time, ranks; running, usage, accept length, rate, queued of a decode; new tokens, usage, running, queued of a
prefill; the rest of it."""
_TIME, _OF, _RUNNING, _USAGE, _ACCEPT, _RATE, _QUEUED, _NEW, _P_USAGE, _P_RUNNING, _P_QUEUED, _REST = range(12)


class Run(NamedTuple):
    """Lines in a row that need not be read. `batches`: the batch lines among them; `times`: how each line begins that has a time or a
    prefix, in order, batch lines too; empty where all are batch lines."""

    lines: int
    batches: list[_Row]
    times: list[tuple[bytes, bytes, bytes, bytes]]

    def newest(self, known: float | None) -> float | None:
        """The newest time of them that is later than `known`, None where there is none."""
        newest = known
        ours = [row[0] for row in self.batches]
        ours += [time[0] for time in self.times if time[0]]
        if ours:
            stamp = _stamp(max(ours))
            if stamp is not None and is_later(newest, stamp):
                newest = stamp
        for text, _ in groupby(time[2] for time in self.times if time[2]):
            stamp = _stamp(text)
            if stamp is not None and is_later(newest, stamp):
                newest = stamp
        return None if newest == known else newest

    @property
    def clock(self) -> str:
        """The time of day of the last line that has one, "" without one."""
        last = next((time[0] or time[2] for time in reversed(self.times) if time[0] or time[2]), b"")
        if self.batches and not self.times:
            last = self.batches[-1][_TIME]
        return last.decode("ascii").rpartition(" ")[2]

    def add_to(self, figures: Figures, totals: Totals, now: float) -> Moment | None:
        """Add the batch lines up. When the last of them was that tells of tokens."""
        rows = self.batches
        if not rows:
            return None
        ranks = {text: _data_rank(text) for text in {row[_OF] for row in rows}}
        if totals.of_one and not any(ranks.values()):
            _add_columns(rows, figures, totals)
        else:
            for row in rows:
                sample = _sample(row)._replace(dp_rank=ranks[row[_OF]])
                figures.add(sample, totals.add(sample, _stamp(row[_TIME]) or 0.0))
        told = next((row for row in reversed(rows) if _tells_of_tokens(row)), None)
        return None if told is None else Moment(_stamp(told[_TIME]), now)


class Skim:
    """Finds, in a block of whole lines, those that have to be read. `engines`: whose lines may come; `rules`: of failures.

    Raises ValueError where that cannot be told: an engine's milestones hold no literals.
    """

    def __init__(self, engines: Iterable[Engine], rules: RuleBook, *, re2: bool = True) -> None:
        literals = set(ALWAYS)
        for engine in engines:
            if engine.literals is None:
                raise ValueError(f"milestones of {engine.name} hold no literals")
            literals |= engine.literals
        literals |= {need for rule in rules.rules if rule.where == "any" for need in rule.needs}
        self._gate = gate(literals, re2=re2)

    @staticmethod
    def plain(lines: bytes) -> bytes | None:
        """Lines as a block, between two LF; None where they have to be read for what the decoder does to them."""
        if b"\r" in lines:
            lines = lines.replace(b"\r\n", b"\n")
        return None if any(one in lines for one in CURLED) else b"\n" + lines

    def to_read(self, block: bytes, *, batches: bool) -> list[int] | None:
        """Where lines of a block begin that have to be read, in order; None for all. `batches`: batch lines need not be."""
        lines = block.count(b"\n") - 1
        words = block.count(b"code batch") + block.count(b"fill batch")
        if batches and words == lines == block.count(b"[2") and len(_BATCH.findall(block)) == lines:
            return []
        starts = _START.findall(block)
        stamped = sum(1 for start in starts if start[0])
        if stamped and any(start[2] for start in starts):
            return None  # clocks of two kinds
        found = set(self._gate.lines(block))
        if any(start[3] for start in starts):
            found.update(one.start() + 1 for one in _START.finditer(block) if one[4])
        if block.count(b"[2") != stamped:
            found.update(block.rfind(b"\n", 0, one.start() + 1) + 1 for one in _GLUED.finditer(block))
        if words:
            usual = {one.start() + 1 for one in _BATCH.finditer(block)} if batches else set()
            found.update(
                start
                for one in _BATCH_WORDS.finditer(block)
                if (start := block.rfind(b"\n", 0, one.start()) + 1) not in usual
            )
        return sorted(found)

    @staticmethod
    def run(block: bytes, start: int, end: int) -> Run:
        """The lines from `start` to `end`, none of which has to be read."""
        lines = block.count(b"\n", start, end)
        rows = _BATCH.findall(block, start - 1, end)
        return Run(lines, rows, _START.findall(block, start - 1, end) if len(rows) < lines else [])


def _stamp(text: bytes) -> float | None:
    day, _, clock = text.decode("ascii").partition(" ")
    return stamp_of(day, clock)


def _data_rank(ranks: bytes) -> str:
    return next((rank for rank in ranks_of(ranks.decode("ascii")) if rank.startswith("DP")), "")


def _sample(row: _Row) -> BatchSample:
    if row[_RATE]:
        return BatchSample(
            "decode", float(row[_RATE]), float(row[_ACCEPT]) if row[_ACCEPT] else None, int(row[_RUNNING]), int(row[_QUEUED]),
            float(row[_USAGE]),
        )  # fmt: skip
    return BatchSample(
        "prefill", running=int(row[_P_RUNNING]), queued=int(row[_P_QUEUED]), token_usage=float(row[_P_USAGE]),
        input_tok_s=_input_rate(row), new_tokens=int(row[_NEW]),
    )  # fmt: skip


def _input_rate(row: _Row) -> float | None:
    return finite(value_of(row[_REST].decode("utf-8", "replace"), "input throughput (token/s)", 0))


def _tells_of_tokens(row: _Row) -> bool:
    if row[_RATE]:
        return float(row[_RATE]) > 0
    return int(row[_NEW]) > 1 or (_input_rate(row) or 0) > 0


def _add_columns(rows: Sequence[_Row], figures: Figures, totals: Totals) -> None:
    """What adding line by line gives where each line tells of the whole server."""
    _, _, running, usage, accept, rate, queued, _, p_usage, _, p_queued, _ = zip(*rows, strict=True)
    rates = [float(one) for one in rate if one]
    figures.decode_samples += len(rates)
    figures.gen_tok_s.add_all(rates)
    figures.running.add_all([int(one) for one in running if one])
    figures.accept_len.add_all([float(one) for one in accept if one])
    figures.queued.add_all([int(one or other) for one, other in zip(queued, p_queued, strict=True)])
    figures.token_usage.add_all([float(one or other) for one, other in zip(usage, p_usage, strict=True)])
    # What is known of the only rank by then: its last decode, and what the last prefill after it told of the queue.
    decode = next((i for i in range(len(rows) - 1, -1, -1) if rows[i][_RATE]), None)
    for i in (decode, len(rows) - 1):
        if i is not None:
            totals.add(_sample(rows[i]), _stamp(rows[i][_TIME]) or 0.0)
