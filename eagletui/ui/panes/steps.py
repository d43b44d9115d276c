"""A restart under way, as steps that tick; and the card of one that failed: what failed, what is true now, what can be done. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eagletui.launching.steps import Offer, Progress, Step, StepName
from eagletui.servers.record import Kind, Record
from eagletui.shell.masking import mask_text
from eagletui.ui import format as fmt
from eagletui.ui.actions import BY_ID
from eagletui.ui.widgets.bars import bar
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, spread, width_of, wrap

if TYPE_CHECKING:
    from eagletui.launching.plan import Plan

NAME_CELLS = 11
PHASE_CELLS = 13
"""Of a name above the phases of a start-up, whose column is wider."""
TIME_CELLS = 6
BAR_CELLS = 20
DETAIL_ROWS = 4
SHORT_S = 10.0
"""Below it the tenths of a second tell something."""
PRINTED_ROWS = 4
DETAIL_ROWS = 4
"""Rows that one line of a card's details may take."""
SHOWN_NAMES: dict[StepName, str] = {
    StepName.PREFLIGHT: "preflight", StepName.IDENTIFY: "identify", StepName.STOP: "stop", StepName.GPUS: "GPUs free",
    StepName.LEFTOVERS: "leftovers", StepName.LAUNCH: "launch", StepName.VERIFY: "verify", StepName.WATCH: "start-up", StepName.READY: "ready",
}  # fmt: skip
KIND_WORDS: dict[Kind, str] = {"start": "Start", "stop": "Stop", "restart": "Restart"}
_VERBS: dict[Kind, str] = {"start": "start", "stop": "stop", "restart": "restart"}
_MARKS = {
    "done": ("✓", "ok"),
    "running": ("▸", "warning"),
    "failed": ("✗", "error"),
    "skipped": ("–", "faint"),
    "pending": ("·", "faint"),
}
_HEADS = {
    "refused": "not done", "failed": "failed", "never-started": "never started", "aborted": "aborted", "timed-out": "timed out",
    "no-link": "no link", "overtaken": "overtaken", "crashed": "crashed", "stalled": "stalled",
}  # fmt: skip
_BY_LOG = frozenset({"running", "done", "crashed", "stalled", "timed-out"})
"""Endings that the log tells of better than a card of the steps."""
_OFFERS: dict[Offer, tuple[str, str]] = {
    "show-holder": ("pane.gpus", "who holds it"), "restore": ("server.back", "the previous command"), "start": ("server.start", "launch it now"),
    "go-on": ("server.go-on", "go on"), "end-orphans": ("server.orphans", "what is left"), "look-at-log": ("pane.log", "the log"),
}  # fmt: skip
_RETRY: dict[Kind, str] = {"start": "server.start", "stop": "server.stop", "restart": "server.restart"}


@dataclass(frozen=True, slots=True)
class Doing:
    """What is shown of a sequence: where it is, and its plan."""

    progress: Progress
    plan: Plan

    @property
    def named(self) -> str:
        """`k25 / 2step`, or ""."""
        recipe = self.plan.recipe
        return "" if recipe is None else said(" / ".join(one for one in (recipe.profile, recipe.variant) if one))


def said(text: str) -> str:
    """Text from the node: masked, and nothing a terminal obeys."""
    return clean(mask_text(text))


def ticks(progress: Progress) -> bool:
    """Whether the steps are what matters: until the start-up is watched, by its log."""
    step = progress.step
    return progress.ending == "running" and not (step is not None and step.name in (StepName.WATCH, StepName.READY))


def failed(progress: Progress) -> bool:
    """Whether it ended in a way that the card tells."""
    return progress.ending not in _BY_LOG


def took(step: Step, now: float) -> float | None:
    """Seconds that it took, or takes until now."""
    if step.began is None:
        return None
    return max(0.0, (step.ended if step.ended is not None else now) - step.began)


def total(progress: Progress, now: float) -> float | None:
    """Seconds since the first step began, to the end of the last one."""
    began = [one.began for one in progress.steps if one.began is not None]
    if not began:
        return None
    ended = [one.ended for one in progress.steps if one.ended is not None]
    until = now if progress.ending == "running" or not ended else max(ended)
    return max(0.0, until - min(began))


def step_rows(progress: Progress, now: float, width: int, height: int) -> list[Line]:
    """A row a step; the running one with its limit as a bar and what it does below it. What is done gives way from the top."""
    steps = [one for one in progress.steps if one.name is not StepName.READY]
    at = next((at for at, one in enumerate(steps) if one.status == "running"), 0)
    spare = height - len(steps)
    in_the_way = len(steps[at].lines) if steps else 0
    wanted = 1 + (in_the_way if in_the_way < DETAIL_ROWS else 0)
    room = max(spare, min(wanted, spare + max(0, at - 1)))  # what is done is worth less than who is in the way
    lines: list[Line] = []
    for step in steps:
        if step.status == "running":
            lines += _running(step, progress, now, width, max(0, min(DETAIL_ROWS, room)))
        else:
            lines.append(_row(step, now, width))
    if len(lines) <= height:
        return lines
    first = max(0, min(at - 1, len(lines) - height)) if height > 1 else at
    return lines[first : first + height]


def done_rows(progress: Progress, now: float, width: int, compare: int) -> list[Line]:
    """The steps before the start-up, for above its phases and in their columns: those that took time."""
    chosen = (StepName.STOP, StepName.GPUS, StepName.LAUNCH)
    steps = [one for one in progress.steps if one.name in chosen and one.status == "done"]
    return [_row(one, now, width, name_cells=PHASE_CELLS, after=compare) for one in steps]


def _row(step: Step, now: float, width: int, *, name_cells: int = NAME_CELLS, after: int = 0) -> Line:
    mark, role = _MARKS[step.status]
    calm = "text" if step.status in ("done", "failed") else "dim" if step.status == "pending" else "faint"
    text = said(step.text) if step.status != "pending" else ""
    time_ = fmt.duration(took(step, now)) if step.began is not None else ""
    head: Line = ((f"{mark} ", role), (f"{SHOWN_NAMES[step.name]:<{name_cells}} ", calm))
    right: Line = ((f"{time_:>{TIME_CELLS}}", "text"), (" " * after, "dim")) if time_ else EMPTY
    room = max(0, width - width_of(head) - (width_of(right) + 1 if time_ else 0))
    return spread((*head, (cut(text, room), "error" if step.status == "failed" else "dim")), right, width)


def _running(step: Step, progress: Progress, now: float, width: int, room: int) -> list[Line]:
    elapsed = took(step, now)
    right: Line = ((f"{fmt.duration(elapsed):>{TIME_CELLS}}", "text"),)
    head: Line = (("▸ ", "warning"), (f"{SHOWN_NAMES[step.name]:<{NAME_CELLS}} ", "text bold"))
    words = said(step.text)
    key = BY_ID["server.stop-now"].key
    hint: Line = ((key, "key"), (" ends it now", "dim")) if progress.may_stop_now else EMPTY
    inline = max(0, width - width_of(head) - width_of(right) - 1)
    if not room or not (step.timeout_s or len(words) > inline or step.lines or hint):
        return [spread((*head, (cut(words, inline), "dim")), right, width)]
    indent = " " * (2 + NAME_CELLS + 1)
    rows = wrap(words, max(8, width - len(indent)), room)
    below: list[Line] = [((indent, "dim"), (row, "text")) for row in rows]
    if hint and below and width_of(below[-1]) + 3 + width_of(hint) <= width:
        below[-1] = (*below[-1], (" · ", "dim"), *hint)
    elif hint:
        below = [*below[: room - 1], ((indent, "dim"), *hint)]
    rest = [((indent, "dim"), (cut(said(one), width - len(indent)), "dim")) for one in step.lines]
    left = room - len(below)
    if len(rest) > left:  # a few of many tell nothing
        rest = [*rest[: left - 1], ((indent, "dim"), (f"… {len(rest) - left + 1} more", "dim"))] if left > 1 else []
    below += rest
    return [spread((*head, *_meter(step, elapsed, inline)), right, width), *below[:room]]


def _meter(step: Step, elapsed: float | None, room: int) -> Line:
    """The time as a bar whose end is the limit."""
    if not step.timeout_s:
        return EMPTY
    limit = f" {fmt.duration(step.timeout_s)}"
    cells = min(BAR_CELLS, room - len(limit))
    return (
        (*bar([(min(1.0, (elapsed or 0.0) / step.timeout_s), "warning")], cells), (limit, "dim"))
        if cells > 0
        else EMPTY
    )


def foot(progress: Progress, now: float, width: int) -> Line:
    """Below the steps: what Esc does, and how long it has taken."""
    elapsed: Span = (fmt.duration(total(progress, now)), "text")
    if progress.may_abort:
        forms: tuple[Line, ...] = (
            (("esc", "key"), (" aborts" if not progress.why_not else " launches nothing afterwards", "dim")),
            (("esc", "key"), (" aborts", "dim")),
        )
    else:
        forms = (((f"no abort now: {said(progress.why_not)}", "dim"),), (("no abort now", "dim"),))
    best = next((form for form in forms if width_of(form) + 3 + len(elapsed[0]) <= width), EMPTY)
    return (*best, (" · ", "dim"), elapsed) if best else (elapsed,)


def title_word(progress: Progress) -> str:
    """What the pane is called."""
    word = KIND_WORDS[progress.kind]
    return word if not failed(progress) else f"{word}: {_HEADS[progress.ending]}"


# --- the card of a failure


@dataclass(frozen=True, slots=True)
class Hit:
    """Cells of a row that do an action when they are clicked."""

    row: int
    first: int
    end: int
    action: str


def offered(progress: Progress, *, able: Sequence[str]) -> list[tuple[str, str]]:
    """(action id, label) of what makes sense; only what can be done now (`able`, ids)."""
    found: list[tuple[str, str]] = []
    for offer in progress.offers:
        action, label = (_RETRY[progress.kind], "try again") if offer == "retry" else _OFFERS[offer]
        if action in able:
            found.append((action, label))
    return found


def failure_card(
    progress: Progress, width: int, height: int, able: Sequence[str]
) -> tuple[list[Line], tuple[Hit, ...]]:
    """At most `height` rows: what failed, what is true now, the details, and what can be done. The last two share what is left."""
    text = said(progress.text) or _HEADS[progress.ending]
    text = text[:1].upper() + text[1:]
    offers, spans = offer_rows(offered(progress, able=able), width)
    step = progress.step
    where = f"at {SHOWN_NAMES[step.name]}" if step is not None else ""
    if step is not None and step.began is not None and step.ended is not None:
        spent = step.ended - step.began
        where += f" after {fmt.seconds(spent) if spent < SHORT_S else fmt.duration(spent)}"
    if progress.exit_status is not None:
        where += (" · " if where else "") + f"exit status {progress.exit_status}"
    left = max(1, height - len(offers))
    now_rows = wrap(f"now: {said(progress.now_true)}", width, 3) if progress.now_true else []
    now = _now_lines(now_rows)
    head = _headline(text, width, max(2, left - len(now)))[:left]
    details = _details(progress, step, width)
    room = left - len(head) - len(now)
    if room < 0:
        now = now[: max(0, left - len(head))]
        room = 0
    place: list[Line] = [((cut(where, width), "dim"),)] if where and room > 0 else []
    room -= len(place)
    shown: list[Line] = details[:room]
    if 0 < room < len(details):
        shown[-1] = ((f"… {len(details) - room + 1} more", "dim"),)
    room -= len(shown)
    gap: list[Line] = [EMPTY] if room > 0 and offers else []
    air: list[Line] = [EMPTY] if room > 1 and shown else []
    lines = [*head, *place, *now, *air, *shown, *gap, *offers][:height]
    first = len(lines) - len(offers)
    hits = tuple(Hit(first + hit.row, hit.first, hit.end, hit.action) for hit in spans)
    return lines, hits


def _headline(text: str, width: int, rows: int) -> list[Line]:
    """Only what happened is in the colour of a failure, not who and what to do."""
    ends = [at for at in (text.find(mark) for mark in (". ", " (", ": ")) if at > 0]
    end, at = min(ends, default=len(text)), 0
    out: list[Line] = []
    for row in wrap(text, width, rows):
        red = max(0, min(len(row), end - at))
        out.append(tuple(span for span in ((row[:red], "error bold"), (row[red:], "text")) if span[0]))
        at += len(row) + (text[at + len(row) : at + len(row) + 1] == " ")
    return out


def _now_lines(rows: Sequence[str]) -> list[Line]:
    out: list[Line] = []
    for at, row in enumerate(rows):
        out.append(((row[:5], "dim"), (row[5:], "text")) if not at else ((row, "text"),))
    return out


def _details(progress: Progress, step: Step | None, width: int) -> list[Line]:
    """Holders, members that are left, failed checks; then what the launch printed."""
    lines: list[Line] = [
        line for one in (step.lines if step is not None else ()) for line in _wrapped(("· ", "faint"), said(one), width)
    ]
    printed = [one for one in progress.printed if one.strip()][-PRINTED_ROWS:]
    return [*lines, *(line for one in printed for line in _wrapped(("▎ ", "error"), said(one), width))]


def _wrapped(mark: Span, text: str, width: int) -> list[Line]:
    """A foreign line whole, as far as a card can be about one: the reason stands at its end as often as not."""
    rows = wrap(text, max(1, width - len(mark[0])), DETAIL_ROWS)
    return [
        ((mark if not at or mark[1] == "error" else (" " * len(mark[0]), mark[1])), (row, "text"))
        for at, row in enumerate(rows)
    ]


def offer_rows(offers: Sequence[tuple[str, str]], width: int) -> tuple[list[Line], list[Hit]]:
    """`r try again   u the previous command`, wrapped between offers."""
    rows: list[list[Span]] = []
    hits: list[Hit] = []
    used = 0
    for action, label in offers:
        spans: list[Span] = [(BY_ID[action].key, "key bold"), (f" {label}", "text")]
        size = width_of(spans)
        if not rows or used + 3 + size > width:
            rows.append([])
            used = 0
        elif rows[-1]:
            rows[-1].append(("   ", "text"))
            used += 3
        hits.append(Hit(len(rows) - 1, used, used + size, action))
        rows[-1] += spans
        used += size
    return [tuple(row) for row in rows], hits


# --- what an earlier eagletui left


def unfinished_card(record: Record, width: int, height: int, able: Sequence[str]) -> tuple[list[Line], tuple[Hit, ...]]:
    """A sequence that was left at a step: whose, which, where, and that it can be gone on with."""
    kind = _VERBS[record.kind]
    names = {name.value: word for name, word in SHOWN_NAMES.items()}
    step = names.get(record.step or "", said(record.step or "its begin"))
    named = said(" / ".join(one for one in (record.profile, record.variant) if one))
    head = f"A {kind}{' of ' + named if named else ''} was left at {step}"
    offers, spans = offer_rows(
        [(one, label) for one, label in (("server.go-on", "go on"), ("server.start", "start anew")) if one in able],
        width,
    )
    lines: list[Line] = [((row, "warning bold"),) for row in wrap(head, width, 2)]
    lines += [((row, "dim"),) for row in wrap(f"by {said(record.who)}, {said(record.created)}", width, 2)]
    if record.text:
        lines += [((row, "text"),) for row in wrap(said(record.text), width, 3)]
    lines = lines[: max(1, height - len(offers) - 1)]
    lines += [EMPTY, *offers] if offers else []
    first = len(lines) - len(offers)
    return lines[:height], tuple(Hit(first + hit.row, hit.first, hit.end, hit.action) for hit in spans)
