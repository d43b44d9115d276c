"""The phases of a launch as a checklist: what is done and how it compares, what runs, what is to come. Rows of fixed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagletui.logs.state import SHOWN_NAMES, LogState, Phase, Progress
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui import format as fmt
from eagletui.ui.panes.estimate_words import beyond, late_words, promise, starts_words, usual_of
from eagletui.ui.widgets.bars import bar
from eagletui.ui.widgets.lines import EMPTY, Line, Span, cut, fit, spread, width_of

if TYPE_CHECKING:
    from eagletui.history.estimate import Estimate

MARK_CELLS = 2
NAME_CELLS = 14
TIME_CELLS = 7
BAR_CELLS = 20
MIN_BAR_CELLS = 6
RATE_CELLS = 10
"""` 14 s each`; the bar keeps its size whatever the rate is."""
SHORT_RATE_CELLS = 7
QUIET_S = 20.0
"""A running phase that printed nothing for so long says so."""
SPREAD_S = 2.0
SPREAD = 0.1
"""Ranks differ when the slowest took longer than the fastest by this many seconds and this share of its time."""
MIN_DETAIL_CELLS = 6
_TO_COME = ("distributed", "weights", "draft-weights", "kv-cache", "compile", "graphs", "warmup")
_DRAFTS = ("speculative_algorithm", "speculative_config", "speculative_draft_model_path")


def checklist(snapshot: Snapshot, now: float, width: int, height: int) -> list[Line]:
    """At most `height` rows of `width` cells; empty while no phase is known."""
    startup, estimate = snapshot.startup, snapshot.estimate
    compare = compare_cells(estimate)
    to_come = expected(startup, estimate)
    gaps = sum(1 for phase in startup.phases if phase.gaps)
    # A gap has a row of its own where there is room for all of them: rows must not come and go.
    as_rows = len(startup.phases) + len(to_come) + gaps <= height
    lines: list[Line] = []
    for phase in startup.phases:
        usual = usual_of(estimate, phase)
        if phase.status == "done":
            lines.append(_done_row(phase, usual, width, compare, gaps=not as_rows))
        else:
            lines.append(_running_row(phase, startup, usual, now, width, compare))
        if phase.gaps and as_rows:
            lines.append(_gap_row(phase, width, compare))
    known = len(lines)
    if known:
        lines += [_coming_row(name, estimate, width, compare) for name in to_come]
    return _around_running(lines, known, height)


def total_line(snapshot: Snapshot, elapsed: float | None, now: float, width: int) -> Line:
    """`2:07, usually 3:12 · ready in ~1:05 (6 starts)`, or why nothing is promised; what fits."""
    estimate = snapshot.estimate
    took = "" if elapsed is None else fmt.duration(elapsed)
    if estimate is None:
        return ((took, "text"), (" so far", "dim")) if took else EMPTY
    starts: Span = (f" ({starts_words(estimate)})", "dim")
    said, late = promise(snapshot, now), late_words(snapshot, now)
    if said:
        main: Line = ((said, "text"),)
        head: Line = ((took, "dim"), (f", usually {fmt.duration(estimate.total_s)} · ", "dim")) if took else EMPTY
    else:
        main = ((late or f"usually ready after {fmt.duration(estimate.total_s)}", "warning" if late else "dim"),)
        head = ((took, "dim"), (" so far · ", "dim")) if took else EMPTY
    forms: tuple[Line, ...] = ((*head, *main, starts), (*main, starts), main)
    return next((form for form in forms if width_of(form) <= width), main)


def expected(startup: LogState, estimate: Estimate | None) -> list[str]:
    """Phases that are still to come: those that earlier launches had; without any those that every launch has, for nobody lists a draft
    model or a compilation that there may not be."""
    seen = {phase.name for phase in startup.phases}
    if estimate is not None and estimate.usual:
        order = [name for name in estimate.usual if name != "serving"]
        reached = max((order.index(name) for name in seen if name in order), default=-1)
        return [name for name in order[reached + 1 :] if name not in seen]
    drafts = any(startup.args.get(key) for key in _DRAFTS)
    last = max((_TO_COME.index(name) for name in seen if name in _TO_COME), default=-1)
    return [
        name
        for name in _TO_COME[last + 1 :]
        if (name != "draft-weights" or drafts) and (name != "compile" or startup.engine == "vllm")
    ]


def spread_forms(phase: Phase) -> tuple[str, ...]:
    """How the ranks differ, the most telling form first; empty where they do not, or one of them told nothing."""
    if len(phase.ranks) < 2:
        return ()
    fastest, slowest = min(phase.ranks, key=_seconds), max(phase.ranks, key=_seconds)
    if slowest[1] - fastest[1] < max(SPREAD_S, SPREAD * slowest[1]):
        return ()
    rank, long, short = slowest[0], fmt.duration(slowest[1]), fmt.duration(fastest[1])
    return (
        f"{rank} slowest {long}, fastest {short}",
        f"{rank} slowest, fastest {short}",
        f"{rank}, fastest {short}",
        f"{rank} slowest",
    )


def gap_words(phase: Phase) -> str:
    """`silent`, `silent twice`, `3 silences`; "" without one."""
    if not phase.gaps:
        return ""
    return {1: "silent", 2: "silent twice"}.get(len(phase.gaps), f"{len(phase.gaps)} silences")


def _seconds(rank: tuple[str, float]) -> float:
    return rank[1]


def compare_cells(estimate: Estimate | None) -> int:
    """The column of `of ~1:49` and `+0:06` is as wide as the longest usual time needs; it is not there without one."""
    if estimate is None or not estimate.usual:
        return 0
    return max(len(f" of ~{fmt.duration(seconds)}") for seconds in estimate.usual.values())


def _row(head: Line, time: Span, compare: Span, cells: int, width: int) -> Line:
    right: list[Span] = [(f"{time[0]:>{TIME_CELLS}}", time[1])]
    if cells:
        right.append((f" {compare[0]}".ljust(cells), compare[1]))
    return spread(head, tuple(right), width)


def _room(width: int, compare: int) -> int:
    return max(0, width - MARK_CELLS - NAME_CELLS - TIME_CELLS - compare - 1)


def _name(name: str) -> str:
    return cut(SHOWN_NAMES.get(name, name), NAME_CELLS - 1).ljust(NAME_CELLS)


def _done_row(phase: Phase, usual: float | None, width: int, compare: int, *, gaps: bool) -> Line:
    detail = _detail(phase, _room(width, compare), gaps=gaps)
    time: Span = (fmt.duration(phase.seconds), "text" if phase.seconds is not None else "dim")
    head: Line = (("✓ ", "ok"), (_name(phase.name), "text"), (detail, "dim"))
    return _row(head, time, (beyond(phase.seconds, usual), "warning"), compare, width)


def _detail(phase: Phase, room: int, *, gaps: bool) -> str:
    silent = f"{gap_words(phase)} {fmt.duration(sum(gap.seconds for gap in phase.gaps))}" if gaps and phase.gaps else ""
    forms: list[str] = []
    for form in (*spread_forms(phase), ""):
        forms += [
            " · ".join(word for word in words if word) for words in ((form, silent, phase.detail), (form, silent))
        ]
    forms += [silent]
    fitting = next((form for form in forms if form and len(form) <= room), "")
    if fitting or room < MIN_DETAIL_CELLS:
        return fitting
    head = phase.detail[: room + 1].rpartition(", ")[0]
    return head or cut(phase.detail, room)


def _running_row(phase: Phase, startup: LogState, usual: float | None, now: float, width: int, compare: int) -> Line:
    took = max(0.0, now - phase.began_at) if phase.began_at is not None else None
    progress = startup.progress if startup.phase == phase.name else None
    quiet = now - phase.quiet_since if phase.quiet_since is not None else 0.0
    room = _room(width, compare)
    head: list[Span] = [("▸ ", "warning"), (_name(phase.name), "text bold")]
    if progress is not None and progress.total > 0:
        head += _progress(progress, quiet, room)
    else:
        words = f"quiet for {fmt.duration(quiet)}" if quiet >= QUIET_S else ""
        both = " · ".join(word for word in (words, phase.detail) if word)
        head.append((cut(both if len(both) <= room else words or phase.detail, room), "dim"))
    late = beyond(took, usual)
    versus: Span = (late, "warning") if late else (f"of ~{fmt.duration(usual)}" if usual is not None else "", "dim")
    return _row(tuple(head), (fmt.duration(took), "text" if took is not None else "dim"), versus, compare, width)


def _progress(progress: Progress, quiet: float, room: int) -> list[Span]:
    """A bar, n of N, and the rate; a rate of what no longer moves is none."""
    digits = len(str(progress.total))
    counts = f" {progress.done:>{digits}}/{progress.total}"
    cells = next((c for c in (RATE_CELLS, SHORT_RATE_CELLS) if room - len(counts) - c >= MIN_BAR_CELLS + 2), 0)
    words: list[Span] = [(counts, "warning bold")]
    if cells:
        said = f" quiet {fmt.duration(quiet)}" if quiet >= QUIET_S else _rate(progress.rate, cells)
        words.append((said.ljust(cells) if len(said) <= cells else " " * cells, "dim"))
    size = min(BAR_CELLS, room - width_of(words))
    if size < MIN_BAR_CELLS:
        return words
    return [*bar([(progress.done / progress.total, "warning")], size), *words]


def _rate(rate: float | None, cells: int) -> str:
    if rate is None or rate <= 0:
        return ""
    if rate >= 0.1:
        return f" {rate:.1f}/s"
    slow = f" {1 / rate:.0f} s each"
    return slow if len(slow) <= cells else f" {rate:.2f}/s"


def _gap_row(phase: Phase, width: int, compare: int) -> Line:
    silent = sum(gap.seconds for gap in phase.gaps)
    head: Line = (("  ", "faint"), ("┆ ", "dim"), (gap_words(phase), "dim"))
    return _row(head, (fmt.duration(silent), "dim"), ("", "dim"), compare, width)


def _coming_row(name: str, estimate: Estimate | None, width: int, compare: int) -> Line:
    usual = estimate.usual.get(name) if estimate is not None else None  # type: ignore[call-overload]
    head: Line = ((f"· {_name(name)}", "dim" if compare else "faint"),)
    if usual is None:
        return fit(head, width)
    return _row(head, (f"~{fmt.duration(max(1.0, usual))}", "dim"), ("", "dim"), compare, width)


def _around_running(lines: list[Line], known: int, room: int) -> list[Line]:
    """Too many rows: what is done gives way from the top, what is to come from the end."""
    if len(lines) <= room:
        return lines
    first = max(0, min(known - room + 1, len(lines) - room))
    return lines[first : first + room]
