"""The card of a failure: what, where, since when, the evidence, what to do. The same words in the pane and on the whole screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eagletui.logs.decoder import RawLine
from eagletui.logs.records import read_record
from eagletui.logs.state import SHOWN_NAMES, Diagnosis, Quote
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import State
from eagletui.shell.masking import mask_text
from eagletui.ui import format as fmt
from eagletui.ui.panes.pane import LEVEL_OF_STATE
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, fit, width_of, wrap

EVIDENCE_ROWS = 3
SUMMARY_ROWS = 2
ADVICE_ROWS = 6
QUOTE_ROWS = 4
"""Rows of a death's own words while its cause is being gathered."""
MIN_NUMBER_CELLS = 3
SETTLED = ("never-started",)
"""Reasons that need no cause from the log: there is none to read, and the sentence says all."""


@dataclass(frozen=True, slots=True)
class Card:
    """Rows, and which of them show which quotation (row, its place in the diagnosis' evidence)."""

    lines: list[Line]
    quotes: tuple[tuple[int, int], ...] = ()


def has_card(snapshot: Snapshot) -> bool:
    """Whether a failure is what the first pane is about."""
    state = snapshot.verdict.state
    return state is State.CRASHED or (state is State.STALLED and snapshot.diagnosis is not None)


def diagnosis_of(snapshot: Snapshot) -> Diagnosis | None:
    """The diagnosis to show: none of a state that it does not explain."""
    return snapshot.diagnosis if has_card(snapshot) else None


def card(snapshot: Snapshot, now: float, width: int, height: int, cursor: int | None) -> Card:
    """At most `height` rows of `width` cells. `cursor`: which quotation was chosen; before one was the first ones are shown."""
    diagnosis = diagnosis_of(snapshot)
    if diagnosis is None:
        return Card(_gathering(snapshot, now, width)[:height])
    quotes = diagnosis.evidence[:EVIDENCE_ROWS]
    summary = summary_lines(diagnosis, LEVEL_OF_STATE[snapshot.verdict.state], width, SUMMARY_ROWS)
    advice = wrap(mask_text(diagnosis.advice), width, ADVICE_ROWS) if diagnosis.advice else []
    shown, rows, blanks = _shares(height - len(summary) - 1, len(quotes), len(advice))
    at_mark = marked_at(quotes, cursor)
    first = max(0, min(at_mark - shown + 1, len(quotes) - shown)) if cursor is not None else 0
    lines = summary
    lines.append(((where_words(snapshot, diagnosis, now, width), "dim"),))
    places: list[tuple[int, int]] = []
    if shown:
        lines += [EMPTY] * (blanks > 0)
        cells = number_cells(snapshot, (quote.line for quote in diagnosis.evidence))
        for at in range(first, first + shown):
            places.append((len(lines), at))
            lines.append(quote_line(quotes[at], cells, width, marked=at == at_mark))
    if rows:
        lines += [EMPTY] * (blanks > (1 if shown else 0))
        lines += [((row, "text"),) for row in wrap(mask_text(diagnosis.advice), width, rows)]
    return Card(lines[:height], tuple(place for place in places if place[0] < height))


def headline(diagnosis: Diagnosis) -> str:
    """The summary up to its colon: what happened, without the figures."""
    return mask_text(diagnosis.summary).partition(": ")[0].rstrip(".")


def summary_lines(diagnosis: Diagnosis, role: str, width: int, rows: int) -> list[Line]:
    """The summary, only its headline in the colour of the state."""
    text, head = clean(mask_text(diagnosis.summary)), len(headline(diagnosis))
    lines: list[Line] = []
    at = 0
    for row in wrap(text, width, rows):
        red = len(row) if head >= len(text.rstrip(".")) else max(0, head - at)
        lines.append(tuple(span for span in ((row[:red], f"{role} bold"), (row[red:], "text")) if span[0]))
        at += len(row)
        at += text[at : at + 1] == " "
    return lines


def where_words(snapshot: Snapshot, diagnosis: Diagnosis, now: float, width: int) -> str:
    """Code, phase, rank, when it was by the log, how long ago that was noticed. The code is the first to go, then how long ago."""
    place = [SHOWN_NAMES.get(diagnosis.phase, diagnosis.phase)] if diagnosis.phase is not None else []
    place += [mask_text(diagnosis.rank)] if diagnosis.rank else []
    since = snapshot.verdict.since
    ago = ""
    if snapshot.verdict.state is State.STALLED:
        at = f"since {diagnosis.clock}" if diagnosis.clock else ""
        at = at or (f"for {fmt.duration(now - since)}" if since is not None else "")
    else:
        at = diagnosis.clock or (fmt.clock(snapshot.wall - (snapshot.at - since)) if since is not None else "")
        ago = f", {fmt.age(since, now)}" if since is not None else ""
    forms = ([diagnosis.code, *place, at + ago], [*place, at + ago], [*place, at], place or [diagnosis.code])
    texts = [clean(" · ".join(word for word in form if word)) for form in forms]
    return next((text for text in texts if width_of([(text, "")]) <= width), cut(texts[-1], width))


def marked_at(quotes: Sequence[Quote], cursor: int | None) -> int:
    """Which quotation is marked: the chosen one, before one was chosen the first that stands in this log (a kernel's words do not)."""
    if cursor is None:
        return next((at for at, quote in enumerate(quotes) if quote.line), 0)
    return max(0, min(cursor, len(quotes) - 1))


def number_cells(snapshot: Snapshot, numbers: Iterable[int]) -> int:
    """Width of the column of line numbers; 0 where they are not those of the file, since its begin was not read."""
    if not snapshot.log.store.counted:
        return 0
    return max(MIN_NUMBER_CELLS, *(len(str(number)) for number in numbers), 0)


def number_words(number: int, cells: int) -> str:
    """The number of a line in its column, with the gap behind; `–` for what stands in no line of this log."""
    return f"{number or fmt.UNKNOWN:>{cells}} " if cells else ""


def quote_line(quote: Quote, cells: int, width: int, *, marked: bool) -> Line:
    """`▸ 812 TP3 Scheduler hit an exception: …`: without its date, which every line has."""
    mark: Span = ("▸ " if marked else "  ", "accent bold")
    number: Span = (number_words(quote.line, cells), "dim" if marked else "faint")
    return fit((mark, number, (quote_text(quote), "text")), width)


def quote_text(quote: Quote) -> str:
    """The words of a quotation with its rank, secrets masked."""
    text = mask_text(quote.text)
    record = read_record(RawLine(text, len(text), quote.line))
    if not record.time:
        return text.strip()
    return " ".join(word for word in (record.rank, record.level, record.text.strip()) if word)


def _shares(room: int, quotes: int, advice: int) -> tuple[int, int, int]:
    """(rows of evidence, rows of advice, blank rows) that fit: what to do is worth more than a second quotation, and air the least."""
    blanks = min(quotes, 1) + min(advice, 1)
    steps = (("q", 1), ("a", 3), ("b", 1), ("a", 2), ("b", 0), ("a", 1), ("q", 0), ("a", 0))
    for what, least in steps:
        while quotes + advice + blanks > room:
            if what == "q" and quotes > least:
                quotes -= 1
            elif what == "a" and advice > least:
                advice -= 1
            elif what == "b" and blanks > least:
                blanks -= 1
            else:
                break
    return quotes, advice, blanks


def _gathering(snapshot: Snapshot, now: float, width: int) -> list[Line]:
    """A death whose cause is not known yet, in its own words."""
    verdict, startup = snapshot.verdict, snapshot.startup
    lines: list[Line] = [((row, "error bold"),) for row in wrap(mask_text(verdict.reason.text), width, 3)]
    where: list[str] = []
    if verdict.since is not None:
        where.append(f"{fmt.clock(snapshot.wall - (snapshot.at - verdict.since))}, {fmt.age(verdict.since, now)}")
    if startup.phase is not None and startup.phase != "serving":
        where.append(f"during {SHOWN_NAMES[startup.phase]}")
    elif startup.ready_s is not None:
        where.append("after it was ready")
    if where:
        lines.append(((cut(" · ".join(where), width), "dim"),))
    if startup.error_text:
        rows = wrap(mask_text(startup.error_text), width - 2, QUOTE_ROWS)
        lines += [EMPTY, *((("▎ ", "error"), (row, "text")) for row in rows)]
    if verdict.reason.code not in SETTLED:
        lines += [EMPTY, (("gathering the cause …", "dim"),)]
    return lines
