"""What `wait` says to a person: a line for each thing that happened, and one line that is redrawn for what goes on. Pure; text of the node
is made plain."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterator, Sequence

from eagletui.cli.status_text import plain
from eagletui.history.estimate import Estimate
from eagletui.logs.state import SHOWN_NAMES, Diagnosis
from eagletui.monitor.happenings import (
    PASSING,
    Happening,
    LogTold,
    PhaseTold,
    ProgressTold,
    StateTold,
    elapsed_in,
    running_phase,
    told_reason,
)
from eagletui.monitor.snapshot import Snapshot
from eagletui.monitor.waiting import ABSENT, OFFLINE, READY, TIMED_OUT, Ended
from eagletui.servers.model import Server, State
from eagletui.shell.masking import mask_text
from eagletui.ui.format import UNKNOWN, duration, plural
from eagletui.ui.panes.estimate_words import late_words, promise, starts_words

BAR_CELLS = 20
BAR_NEEDS = 70
"""Columns from which on there is room for a bar beside the figures."""
NAME_CELLS = 14
PLAIN_EVERY_S = 10.0
PLAIN_PARTS = 10
"""In a pipe a bar is told when it moved by such a part of it, or after so many seconds."""
PLAIN_GAP_S = 0.9
"""And not oftener than that, but for its end; a little less than the second in which progress comes."""
EVIDENCE_LINES = 5
SIGNALLED = 128
"""Exit statuses from here on: it was told to end."""
_COLOURS = {
    State.READY: "32", State.DEGRADED: "33", State.STALLED: "31", State.CRASHED: "31", State.ABSENT: "33", State.OFFLINE: "31", State.UNKNOWN: "33",
}  # fmt: skip
"""SGR parameters of the state's word: the terminal's own palette."""


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""What colours a word of ours: it takes no column."""


def cells(text: str) -> int:
    """Columns of a text."""
    text = _COLOUR.sub("", text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """The text in at most so many columns."""
    if cells(text) <= width:
        return text
    out, used = "", 0
    for char in text:
        used += cells(char)
        if used > width - 1:
            break
        out += char
    return f"{out}…" if width > 0 else ""


def safe(text: str) -> str:
    """A node's text: secrets masked, nothing that a terminal obeys."""
    return plain(mask_text(text))


def word(state: State, *, colour: bool) -> str:
    """The state's word."""
    name = "NO SERVER" if state is State.ABSENT else state.value.upper()
    code = _COLOURS.get(state)
    return f"\x1b[1;{code}m{name}\x1b[0m" if colour and code is not None else name


def who(server: Server) -> str:
    """A server in a few words."""
    model = f", {safe(server.model)}" if server.model else ""
    return f"{server.id} (pid {server.pid}{model})"


def several(servers: Sequence[Server]) -> str:
    """That there are several, and what counts."""
    names = ", ".join(server.id for server in servers)
    return f"{plural(len(servers), 'server')}: {names}; all have to be ready, --port waits for one"


def _rate(rate: float | None, unit: str) -> str:
    if rate is None or rate <= 0:
        return ""
    one = unit.removesuffix("s") or unit
    return f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s a {safe(one)}"


def forecast(snapshot: Snapshot) -> str:
    """When it will be ready by earlier starts; how much later than usual it is where nothing can be promised. Empty without any."""
    promised = promise(snapshot, snapshot.at)
    if promised and snapshot.estimate is not None:
        return f"{promised} ({starts_words(snapshot.estimate)})"
    return late_words(snapshot, snapshot.at)


def _bar(done: int, total: int) -> str:
    full = min(BAR_CELLS, BAR_CELLS * done // total) if total > 0 else 0
    return "█" * full + "░" * (BAR_CELLS - full)


def live_line(snapshot: Snapshot, width: int) -> str:
    """What goes on now, in at most `width` columns; empty when there is nothing to tell."""
    startup, state = snapshot.startup, snapshot.verdict.state
    if state is not State.STARTING:
        text = safe(told_reason(snapshot).text)
        told = state is State.ABSENT or snapshot.verdict.reason.code in PASSING
        return cut(f"  {text} …" if told else f"  {word(state, colour=False).lower()}: {text}", width)
    phase, bar = running_phase(snapshot), startup.progress
    elapsed = elapsed_in(phase, snapshot.at)
    parts = []
    if bar is not None and bar.total > 0:
        picture = f"{_bar(bar.done, bar.total)} " if width >= BAR_NEEDS else ""
        parts += [f"{picture}{bar.done}/{bar.total} {safe(bar.unit)}", _rate(bar.rate, bar.unit)]
    if phase is None:
        parts.append(safe(snapshot.verdict.reason.text))
        elapsed = snapshot.uptime_s
    parts += [duration(elapsed) if elapsed is not None else "", forecast(snapshot)]
    name = SHOWN_NAMES.get(startup.phase or "", "") if phase is not None else "starting"
    return cut(f"  {name:<{NAME_CELLS}} " + "  ".join(part for part in parts if part), width)


def _phase_line(told: PhaseTold) -> str:
    usual = f"  usually {_took(told.usual_s)}" if told.usual_s is not None else ""
    detail = f"  {safe(told.detail)}" if told.detail else ""
    return f"{SHOWN_NAMES[told.name]:<{NAME_CELLS}} {_took(told.seconds):>7}{usual}{detail}"


def _took(seconds: float | None) -> str:
    if seconds is not None and seconds < 1:
        return "<1 s"
    return duration(seconds) if seconds is not None else UNKNOWN


def lines_of(told: Happening, *, colour: bool, live: bool) -> Iterator[str]:
    """What is said of it. `live`: a redrawn line tells what runs, so that only what ended is told."""
    match told:
        case PhaseTold(done=True):
            yield ("\x1b[32m✓\x1b[0m " if colour else "✓ ") + _phase_line(told)
        case ProgressTold():
            if not live:
                yield _progress_line(told)
        case StateTold(state, reason, server):
            if state is not State.READY:
                name = f" {who(server)}" if server is not None else ""
                yield f"{word(state, colour=colour)}{name}: {safe(reason.text)}"
        case LogTold():
            yield f"  {told.level}: {safe(told.text)}"


def _progress_line(told: ProgressTold) -> str:
    name = SHOWN_NAMES.get(told.phase or "", "progress")
    share = f" ({100 * told.done // told.total} %)" if told.total > 0 else ""
    parts = [f"{told.done}/{told.total} {safe(told.unit)}{share}", _rate(told.rate, told.unit)]
    parts.append(duration(told.elapsed_s) if told.elapsed_s is not None else "")
    if told.ready_in_s is not None and told.starts is not None:
        parts.append(f"ready in ~{duration(told.ready_in_s)} ({plural(told.starts, 'start')})")
    return f"  {name:<{NAME_CELLS}} " + "  ".join(part for part in parts if part)


def end_lines(ended: Ended, *, waited_s: float, colour: bool, estimate: Estimate | None) -> Iterator[str]:
    """How it ended, and why."""
    name = f" {who(ended.server)}" if ended.server is not None else ""
    said = f"{word(ended.state, colour=colour)}{name}"
    if ended.exit == READY:
        took = f" after {duration(ended.ready_s)}" if ended.ready_s is not None else ""
        usual = f", usually {duration(estimate.total_s)}" if took and estimate is not None else ""
        reason = f": {safe(ended.reason.text)}" if ended.state is not State.READY else ""
        yield f"{said}{took}{usual}{reason}"
    elif ended.exit == TIMED_OUT:
        yield f"timed out after {duration(waited_s)}: {said}: {safe(ended.reason.text)}"
    elif ended.exit >= SIGNALLED:
        yield f"ended after {duration(waited_s)}: {said}: {safe(ended.reason.text)}"
    elif ended.exit in (ABSENT, OFFLINE):
        yield f"{word(ended.state, colour=colour)}: {safe(ended.reason.text)}"
    else:
        yield f"{said}: {safe(ended.reason.text)}"
    if ended.diagnosis is not None:
        yield from _card(ended.diagnosis, ended.reason.text)


def _card(diagnosis: Diagnosis, said: str) -> Iterator[str]:
    """What is known of the cause, beyond what was said."""
    summary = "" if diagnosis.summary.lower() in said.lower() else safe(diagnosis.summary) + " "
    phase, rank = SHOWN_NAMES.get(diagnosis.phase or "", ""), safe(diagnosis.rank or "")
    where = [part for part in (diagnosis.code, phase, rank, safe(diagnosis.clock)) if part]
    yield f"  {summary}({', '.join(where)})"
    if diagnosis.advice:
        yield f"  what to do: {safe(diagnosis.advice)}"
    for quote in diagnosis.evidence[:EVIDENCE_LINES]:
        number = f"{quote.line}: " if quote.line else ""
        yield f"  │ {number}{safe(quote.text)}"


class Sparse:
    """Which of a bar's steps are told where lines stay: a part further, some seconds later, or its end. `at` is monotonic."""

    def __init__(self) -> None:
        self._at = float("-inf")
        self._done = 0
        self._bar: tuple[object, ...] | None = None

    def takes(self, told: ProgressTold, at: float) -> bool:
        """Whether it is told."""
        bar = (told.phase, told.total, told.unit)
        same = bar == self._bar and told.done >= self._done
        further = not same or (told.done - self._done) * PLAIN_PARTS >= told.total or at - self._at >= PLAIN_EVERY_S
        ends = (
            bar == self._bar and told.total <= told.done > self._done
        )  # compiling has a bar a kernel: those that end at once wait
        if not ends and not (further and at - self._at >= PLAIN_GAP_S):
            return False
        self._bar, self._at, self._done = bar, at, told.done
        return True


def stamped(line: str, wall: float) -> str:
    """A line that stays in a file, with the time of day."""
    return f"{time.strftime('%H:%M:%S', time.localtime(wall))}  {line}"
