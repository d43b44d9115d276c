"""All of one run or launch, and two runs side by side: flags that differ, metrics with their difference, what is concluded and what to beware of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote
from typing import ClassVar

from eagletui.bench.load import Load
from eagletui.bench.outcome import Conclusion, Result, Spread
from eagletui.bench.side_by_side import Metric
from eagletui.ui import format as fmt
from eagletui.ui.bench_words import (
    RUNNER_WORDS,
    SIGNS,
    ago,
    len_failed,
    load_words,
    moment,
    percent,
    rate_words,
    verdict_words,
)
from eagletui.ui.ledger import Compared, LaunchEntry, RunEntry
from eagletui.ui.screens.experiment_rows import name_of
from eagletui.ui.screens.plan_rows import diff_rows, said
from eagletui.ui.screens.sheet import Keys, Sheet
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.key_row import KeyHint
from eagletui.ui.widgets.lines import EMPTY, Line, cut, width_of, wrap

LABEL_CELLS = 15
TEXT_CELLS = 120
"""Sentences are no wider: longer rows are hard to read."""
NUMBER_CELLS = 10
MOST_ERRORS = 6
KEY_CELLS = 12
FLAGS_HEAD = "Flags otherwise than the baseline's (or first one's)"
COMMAND_ROWS = 24
PERCENTILES: tuple[tuple[str, str, Callable[[Result], Spread | None], int], ...] = (
    ("tok/s", "tok/s a request", lambda one: one.tok_s, 1), ("TTFT", "TTFT ms", lambda one: one.ttft_ms, 1), ("TPOT", "TPOT ms", lambda one: one.tpot_ms, 2),
    ("ITL", "ITL ms", lambda one: one.itl_ms, 2), ("E2E", "whole answer ms", lambda one: one.e2e_ms, 0),
)  # fmt: skip


class RowsScreen(Sheet[None]):
    """Rows to read and to scroll."""

    BINDINGS: ClassVar[list[Keys]] = [("escape,q,enter", "leave", "leave")]
    border = "focus"

    def rows(self, width: int) -> list[Line]:
        """All of them."""
        raise NotImplementedError

    def head(self) -> Line:
        """What it is about."""
        raise NotImplementedError

    def wanted_rows(self, width: int, height: int) -> int:  # noqa: ARG002 - as every sheet
        """All there is: it lies over a table of that height."""
        return height

    def view(self, width: int, height: int) -> View:
        """The rows, and how many are below."""
        rows = self.rows(width)
        below = len(rows) - height - self.sheet.offset_y
        foot: Line = ((f"↓ {below} more", "key"),) if below > 0 else ()
        return View(rows, self.head(), foot=foot, border=self.border)

    def keys(self) -> tuple[KeyHint, ...]:
        """The way back."""
        return (("↑ ↓", "scroll", "page"), ("esc", "back", "leave"))

    def do(self, name: str) -> None:
        """A click."""
        if name == "leave":
            self.action_leave()
        else:
            self.action_page(1)

    def action_leave(self) -> None:
        """Back to the list."""
        self.dismiss(None)


class RunDetails(RowsScreen):
    """A run. `wall`: the time now."""

    def __init__(self, entry: RunEntry, wall: float) -> None:
        super().__init__()
        self._entry, self._wall = entry, wall

    def head(self) -> Line:
        """Which."""
        return (
            ("Run", "text bold"),
            ("  ", "text"),
            (name_of(self._entry), "accent"),
            ("  the baseline" if self._entry.baseline else "", "dim"),
        )

    def rows(self, width: int) -> list[Line]:
        """Everything that is kept of it."""
        return run_rows(self._entry, self._wall, width)


class LaunchDetails(RowsScreen):
    """A launch. `wall`: the time now."""

    def __init__(self, entry: LaunchEntry, wall: float) -> None:
        super().__init__()
        self._entry, self._wall = entry, wall

    def head(self) -> Line:
        """Which."""
        return (("Launch", "text bold"), ("  ", "text"), (name_of(self._entry), "accent"))

    def rows(self, width: int) -> list[Line]:
        """Everything that is kept of it."""
        return launch_rows(self._entry, self._wall, width)


class CompareScreen(RowsScreen):
    """Two runs. `wall`: the time now."""

    def __init__(self, compared: Compared, wall: float) -> None:
        super().__init__()
        self._compared, self._wall = compared, wall

    def head(self) -> Line:
        """Which two."""
        a, b = self._compared.a, self._compared.b
        return (
            ("Comparison", "text bold"),
            ("  A ", "key bold"),
            (name_of(a), "accent"),
            ("  B ", "key bold"),
            (name_of(b), "accent"),
        )

    def rows(self, width: int) -> list[Line]:
        """See compare_rows."""
        return compare_rows(self._compared, self._wall, width)


class KeysScreen(RowsScreen):
    """What the keys of a screen do: (key, sentence) each."""

    def __init__(self, title: str, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._keys = title, keys

    def head(self) -> Line:
        """Whose."""
        return ((f"Keys of {self._title}", "text bold"),)

    def rows(self, width: int) -> list[Line]:
        """A row a key."""
        return [
            ((f"{key:<{KEY_CELLS}}", "key bold"), (cut(text, width - KEY_CELLS), "text")) for key, text in self._keys
        ]


# --- rows


def labelled(label: str, text: str, width: int, role: str = "text", rows: int = 6) -> list[Line]:
    """`label   text`, wrapped below itself."""
    room = min(TEXT_CELLS, width) - LABEL_CELLS
    return [
        ((f"{'' if at else label:<{LABEL_CELLS}}", "dim"), (row, role)) for at, row in enumerate(wrap(text, room, rows))
    ]


def run_rows(entry: RunEntry, wall: float, width: int) -> list[Line]:
    """What it came to, its percentiles, what was sent, against what, flags, caveats, errors."""
    result = entry.result
    rows: list[Line] = []
    rate: Line = ((f"{'tok/s':<{LABEL_CELLS}}", "dim"), (rate_words(result), "text bold"), (" a request", "dim"))
    rows.append(rate)
    if len(result.repeat_means) > 1:
        rows += labelled("each repeat", " · ".join(f"{one:.1f}" for one in result.repeat_means), width)
    rows.append(
        ((f"{'':<{LABEL_CELLS}}", "dim"), (fmt.number(result.tok_s_total, 1), "text"), (" of all together", "dim"))
    )
    rows += _verdict_rows(entry, width)
    rows += [EMPTY, *percentile_rows(result)]
    rows += [EMPTY, *_sent_rows(result, wall, width)]
    if entry.note:
        rows += labelled("note", said(entry.note), width)
    if entry.changes:
        rows += [EMPTY, ((FLAGS_HEAD, "dim"),), *diff_rows(entry.changes, width, ("that", "this"))]
    rows += _caveat_rows(result, width)
    return rows


def _verdict_rows(entry: RunEntry, width: int) -> list[Line]:
    result, against = entry.result, entry.against
    rows: list[Line] = []
    if not result.complete:
        rows += labelled(
            "ended early", f"after {result.ok + len_failed(result)} of {result.asked} requests", width, "warning"
        )
    if against is None:
        told = (
            "it is what others are held against" if entry.baseline else "none: b in the list makes a run the baseline"
        )
        return [*rows, *labelled("baseline", told, width, "dim")]
    base: Line = ((f"{'baseline':<{LABEL_CELLS}}", "dim"), (fmt.number(against.tok_s, 1), "text"), (" tok/s", "dim"))
    rows.append(base)
    rows.append(((f"{'verdict':<{LABEL_CELLS}}", "dim"), *verdict_words(against)))
    if against.why:
        rows += labelled("", said(against.why), width, "dim")
    if against.break_even is not None and against.verdict != "not-comparable":
        rows.append(
            (
                (f"{'breaks even':<{LABEL_CELLS}}", "dim"),
                ("at accept length ", "dim"),
                (fmt.number(against.break_even, 2), "text"),
            )
        )
    return rows


def percentile_rows(result: Result) -> list[Line]:
    """A table: mean and percentiles."""
    head = f"{'':<{LABEL_CELLS}}" + "".join(f"{word:>{NUMBER_CELLS}}" for word in ("mean", "p50", "p90", "p99"))
    rows: list[Line] = [((head, "faint"),)]
    for _, label, spread_of, decimals in PERCENTILES:
        spread = spread_of(result)
        values = (None,) * 4 if spread is None else (spread.mean, spread.p50, spread.p90, spread.p99)
        cells = ((f"{fmt.number(one, decimals):>{NUMBER_CELLS}}", "text") for one in values)
        rows.append(((f"{label:<{LABEL_CELLS}}", "dim"), *cells))
    return rows


def _sent_rows(result: Result, wall: float, width: int) -> list[Line]:
    load, facts = result.load, result.facts
    runner = RUNNER_WORDS.get(load.runner, (load.runner, ""))[0] + (
        f" {said(result.runner_version)}" if result.runner_version else ""
    )
    link = (
        "" if result.link_overhead_ms is None else f" · the link adds {result.link_overhead_ms:.1f} ms to a first token"
    )
    counted = "the server" if result.source == "usage" else "chunks"
    tokens = f"{fmt.count(result.input_tokens)} tokens in, {fmt.count(result.output_tokens)} out, counted by {counted}"
    engine = " ".join(said(one) for one in (facts.engine, facts.version) if one)
    rows = labelled(
        "began",
        f"{moment(result.began, year=True)}, {_ago(wall - result.began)}; took {fmt.duration(result.duration_s)}",
        width,
    )
    rows += labelled("sent", f"{said(load.preset)}: {load_words(load)}, seed {load.seed}", width)
    rows += labelled("by", f"{runner}{link}", width)
    rows += labelled("answered", f"{fmt.count(result.ok)} of {fmt.count(result.asked)} · {tokens}", width)
    rows += labelled("accept length", fmt.number(result.accept_len, 2), width)
    rows += labelled(
        "server",
        f"{engine or fmt.UNKNOWN} · {said(facts.model or fmt.UNKNOWN)}{f' on {said(facts.node)}' if facts.node else ''}",
        width,
    )
    return [*rows, *labelled("run", said(result.run), width, "dim")]


def _ago(seconds: float) -> str:
    told = ago(max(0.0, seconds))
    return told if told == "now" else f"{told} ago"


def _caveat_rows(result: Result, width: int) -> list[Line]:
    rows: list[Line] = []
    if result.notes:
        rows += [EMPTY, (("Beware", "dim"),)]
        for note in result.notes:
            texts = wrap(said(note), min(TEXT_CELLS, width) - 2, 4)
            rows += [(("  " if at else "▲ ", "warning"), (row, "text")) for at, row in enumerate(texts)]
    if result.failures:
        rows += [EMPTY, (("Errors", "dim"),)]
        for one in sorted(result.failures, key=lambda one: -one.count)[:MOST_ERRORS]:
            status = "no answer" if one.status is None else str(one.status)
            head = f"{fmt.count(one.count):>4} × {status}  "
            texts = wrap(said(one.text), max(20, min(TEXT_CELLS, width) - len(head)), 3)
            rows += [((" " * len(head) if at else head, "error"), (row, "text")) for at, row in enumerate(texts)]
    return rows


def launch_rows(entry: LaunchEntry, wall: float, width: int) -> list[Line]:
    """When, how it went, what it ran."""
    rows = labelled("began", f"{moment(entry.started, year=True)}, {_ago(wall - entry.started)}", width)
    ended = {"ready": "became ready", "crashed": "crashed", "stopped": "was stopped before it was ready"}.get(
        entry.outcome, "not known how it ended"
    )
    role = {"ready": "ok", "crashed": "error"}.get(entry.outcome, "text")
    rows += labelled(
        "outcome", ended + (f" in {fmt.duration(entry.ready_s)}" if entry.ready_s is not None else ""), width, role
    )
    if entry.ended is not None:
        rows += labelled("then", f"{entry.ended} later", width, "error" if entry.ended == "crashed" else "text")
    if entry.diagnosis:
        rows += labelled("cause", said(entry.diagnosis), width, "error")
    if entry.phases:
        rows += labelled(
            "phases", " · ".join(f"{name} {fmt.duration(seconds)}" for name, seconds in entry.phases), width
        )
    weights = {True: "from disk (a cold start)", False: "in memory already (a warm start)", None: fmt.UNKNOWN}[
        entry.cold
    ]
    rows += labelled("weights", weights, width)
    best = (
        f"{rate_words(entry.best.result)} tok/s at best of {fmt.plural(entry.runs, 'run')}"
        if entry.best is not None
        else fmt.UNKNOWN
    )
    rows += labelled("measured", best, width)
    where = f" on {said(entry.node)}" if entry.node else ""
    rows += labelled(
        "server", f"{said(entry.engine) or fmt.UNKNOWN} · {said(entry.model or fmt.UNKNOWN)}{where}", width
    )
    if entry.changes:
        rows += [EMPTY, ((FLAGS_HEAD, "dim"),), *diff_rows(entry.changes, width, ("that", "this"))]
    if entry.command:
        rows += [
            EMPTY,
            *labelled(
                "command",
                " ".join(quote(said(word)) if word else "''" for word in entry.command),
                width,
                rows=COMMAND_ROWS,
            ),
        ]
    return rows


# --- two side by side


METRICS: dict[str, tuple[str, int]] = {
    "tok_s": ("tok/s a request", 1), "tok_s_total": ("tok/s together", 1), "ttft_mean": ("TTFT mean ms", 1), "ttft_p50": ("TTFT p50 ms", 1),
    "ttft_p99": ("TTFT p99 ms", 1), "tpot_mean": ("TPOT mean ms", 2), "itl_p50": ("ITL p50 ms", 2), "itl_p99": ("ITL p99 ms", 2),
    "e2e_mean": ("answer mean ms", 0), "e2e_p99": ("answer p99 ms", 0), "accept_len": ("accept length", 2),
}  # fmt: skip
"""Label and decimals by name; in this order."""
_THAN: dict[Conclusion, str] = {"faster": " than A", "slower": " than A", "same": " as A", "not-comparable": " with A"}
VALUE_CELLS, METRIC_CELLS, DELTA_CELLS = 14, 18, 9


def compare_rows(compared: Compared, wall: float, width: int) -> list[Line]:
    """What is concluded first, then why: metrics, flags, what was sent, caveats."""
    a, b = compared.a, compared.b
    rows: list[Line] = []
    against = compared.against
    rows.append((("B is ", "text"), *verdict_words(against), (_THAN[against.verdict], "text")))
    rows += [((row, "dim"),) for row in wrap(said(against.why), min(TEXT_CELLS, width), 4)] if against.why else []
    rows += [EMPTY, *_heads(a, b, wall)]
    by_name = {one.name: one for one in compared.metrics}
    rows += [
        _metric_row(by_name[name], compared, width) for name in METRICS if name in by_name and _is_told(by_name[name])
    ]
    rows += [_failed_row(a.result, b.result)] if a.result.failed or b.result.failed else []
    rows.append(EMPTY)
    if compared.changes:
        rows += [(("Flags, A then B", "dim"),), *diff_rows(compared.changes, width, ("A", "B"))]
    else:
        rows.append((("The same flags, as far as they are known.", "dim"),))
    rows += _loads(a.result, b.result, width)
    for letter, entry in (("A", a), ("B", b)):
        caveats = _caveat_rows(entry.result, width)
        if caveats:
            rows += [EMPTY, ((f"{letter} ", "key bold"), (name_of(entry), "text")), *caveats[1:]]
    return rows


def _heads(a: RunEntry, b: RunEntry, wall: float) -> list[Line]:
    cells = VALUE_CELLS
    names = tuple(cut(name_of(one), cells - 3) for one in (a, b))
    head: Line = (
        (" " * METRIC_CELLS, "text"), (f"{'A ':>{cells - width_of([(names[0], '')])}}", "key bold"), (names[0], "accent"),
        (f"{'B ':>{cells - width_of([(names[1], '')])}}", "key bold"), (names[1], "accent"),
    )  # fmt: skip
    when = tuple(moment(one.result.began) for one in (a, b))
    since = tuple(_ago(wall - one.result.began) for one in (a, b))
    return [
        head,
        ((" " * METRIC_CELLS + "".join(f"{one:>{cells}}" for one in when), "dim"),),
        ((" " * METRIC_CELLS + "".join(f"{one:>{cells}}" for one in since), "faint"),),
    ]


def _is_told(metric: Metric) -> bool:
    return metric.a is not None or metric.b is not None


def _metric_row(metric: Metric, compared: Compared, width: int) -> Line:
    """Both values, by how much they differ, and whether that is more than noise, where that was tested."""
    label, decimals = METRICS[metric.name]
    main = metric.name == "tok_s"
    words = (
        tuple(rate_words(one.result) for one in (compared.a, compared.b))
        if main
        else tuple(fmt.number(one, decimals) for one in (metric.a, metric.b))
    )
    verdict = compared.against.verdict if main else metric.verdict
    role = SIGNS[verdict][2] if verdict is not None else "dim"
    line: Line = (
        (f"{label:<{METRIC_CELLS}}", "text" if main else "dim"),
        *((f"{one:>{VALUE_CELLS}}", "text bold" if main else "text") for one in words),
        (f"{percent(metric.delta_pct if comparable(compared) else None):>{DELTA_CELLS}}", role),
    )
    if verdict is None or verdict == "not-comparable":
        return line
    told = (*line, (f"  {SIGNS[verdict][0]} {SIGNS[verdict][1]}", role))
    return told if width_of(told) <= width else line


def comparable(compared: Compared) -> bool:
    """Whether a difference in per cent says anything: not of different loads."""
    return compared.against.delta_pct is not None


def _failed_row(a: Result, b: Result) -> Line:
    cells = ((f"{fmt.count(one.failed):>{VALUE_CELLS}}", "error" if one.failed else "text") for one in (a, b))
    return ((f"{'failed':<{METRIC_CELLS}}", "dim"), *cells)


def _loads(a: Result, b: Result, width: int) -> list[Line]:
    """What was sent: once where it was the same."""
    words = tuple(_sent(one.load) for one in (a, b))
    if words[0] == words[1]:
        return [EMPTY, *labelled("both were sent", words[0], width)]
    return [EMPTY, *labelled("A was sent", words[0], width), *labelled("B was sent", words[1], width)]


def _sent(load: Load) -> str:
    by = RUNNER_WORDS.get(load.runner, (load.runner, ""))[0]
    return f"{said(load.preset)}: {load_words(load)}, seed {load.seed}, by {by}"
