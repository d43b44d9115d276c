"""The first row: where, what, how far, and the one coloured word."""

from __future__ import annotations

from eagletui.logs.state import SHOWN_NAMES
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import State
from eagletui.ui import format as fmt
from eagletui.ui.panes.card import diagnosis_of, headline
from eagletui.ui.panes.estimate_words import promise, short_late_words
from eagletui.ui.panes.link_words import link_words
from eagletui.ui.panes.pane import LEVEL_OF_STATE, NOT_KNOWN_YET, is_undecided, word_and_role
from eagletui.ui.panes.trouble import alarm
from eagletui.ui.widgets.frame import Painted
from eagletui.ui.widgets.lines import EMPTY, Line, Span, clean, cut, fit, spread, tidy, width_of

MIN_REASON_CELLS = 16
MIN_WORDS_CELLS = 12
"""Fewer cells for engine and flags say nothing: they are left out."""
NODE_CELLS = 28
GAP = 2
MIN_NODE_CELLS = 8


class StatusLine(Painted):
    """Drawn on the bar's ground. What is right is kept, what is left is cut."""

    def __init__(self, node: str, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self._node = node
        self._snapshot: Snapshot | None = None
        self._now = 0.0

    def show(self, snapshot: Snapshot, now: float) -> None:
        """Draw this snapshot."""
        self._snapshot, self._now = snapshot, now
        self.redraw()

    def rows(self, width: int, height: int) -> list[Line]:
        """One row."""
        inner = width - 2
        snapshot = self._snapshot
        line = fit(((self._node, "text bold"),), inner) if snapshot is None else self._line(snapshot, inner)
        row: Line = ((" ", "text"), *line, (" ", "text"))
        return [fit(tuple((text, role if "block" in role else f"{role} on-bar") for text, role in row), width)] * height

    def _line(self, snapshot: Snapshot, width: int) -> Line:
        word, role = state_word(snapshot)
        # A block shouts; what is not known yet is no state to shout.
        block: Span = (f" {word} ", role if word in NOT_KNOWN_YET.values() else f"{role} block")
        core, words = self._who(snapshot, width - width_of([block]) - 1)
        least = width_of(core)
        if snapshot.link.state == "up" or snapshot.link.lost_at is None:
            # Node and link stay, with room behind them for the ellipsis of what is cut: "0.7 m…" is no latency.
            kept = width_of(core[:2]) + width_of(link_words(snapshot.link, self._now, 0)) + GAP
            least = min(least, max(width * 9 // 20, kept))
        room = width - least - width_of([block]) - GAP
        # Room is given in the order of importance, which is not that on screen: an alarm goes last, words of progress first.
        trouble, elapsed = alarm(snapshot), self._elapsed(snapshot)
        trouble = trouble if width_of([(trouble, "")]) + GAP <= room else ""
        room -= width_of([(trouble, "")]) + GAP if trouble else 0
        elapsed = elapsed if len(elapsed) + GAP <= room else ""
        room -= len(elapsed) + GAP if elapsed else 0
        forms, said_role = progress_words(snapshot, self._now)
        said = next((form for form in forms if width_of([(form, "")]) <= room - GAP), forms[-1])
        said = cut(said, room - GAP) if room - GAP >= min(MIN_REASON_CELLS, len(said)) else ""
        right: list[Span] = []
        for text, text_role in ((trouble, "warning bold"), (said, said_role), (elapsed, "text")):
            right += [(text, text_role), (" " * GAP, "text")] if text else []
        tail = (*right, block)
        spare = width - width_of(tail) - width_of(core) - 1
        return spread((*core, *words) if spare >= MIN_WORDS_CELLS else core, tail, width)

    def _elapsed(self, snapshot: Snapshot) -> str:
        state = snapshot.verdict.state
        if state in (State.ABSENT, State.UNKNOWN) and snapshot.server is None:
            return ""
        if state is State.OFFLINE:
            return ""  # the link says it
        if state is State.CRASHED:
            return fmt.age(snapshot.verdict.since, self._now) if snapshot.verdict.since is not None else ""
        if (up := snapshot.up_s(self._now)) is None:
            return ""
        return fmt.duration(up)

    def _who(self, snapshot: Snapshot, room: int) -> tuple[Line, Line]:
        """(node, link and model; the words that may go). Node and link fit `room`."""
        link = snapshot.link
        # The link is always told: a long name of the node gives way to it.
        shortest = width_of(link_words(link, self._now, 0))
        node = cut(clean(snapshot.node), max(MIN_NODE_CELLS, min(NODE_CELLS, room - 2 - shortest)))
        out: list[Span] = [
            (node, "text bold"),
            ("  ", "text"),
            *link_words(link, self._now, room - width_of([(node, "")]) - 2),
        ]
        server = snapshot.server
        if server is None:
            return tidy(tuple(out)), EMPTY
        model = (server.model or "").rstrip("/").rsplit("/", 1)[-1]
        if model:
            out += [("   ", "text"), (model, "accent bold")]
        words = [
            server.engine,
            *([f":{server.port}"] if len(snapshot.inventory.servers) > 1 and server.port else []),
            *server.flags,
        ]
        return tidy(tuple(out)), tidy((("  ", "text"), (" · ".join(words), "dim")))


def is_first(snapshot: Snapshot) -> bool:
    """Whether it connects for the first time: nothing was lost yet."""
    return snapshot.link.state == "connecting" and snapshot.link.lost_at is None


def state_word(snapshot: Snapshot) -> tuple[str, str]:
    """The state as a word, with its role."""
    if snapshot.verdict.state is State.OFFLINE and is_first(snapshot):
        return "CONNECTING", "dim"
    return word_and_role(snapshot.verdict)


def progress_words(snapshot: Snapshot, now: float) -> tuple[tuple[str, ...], str]:
    """What the right says before the state, the longest form first and the last one to be cut where it must; and its role."""
    state = snapshot.verdict.state
    role = LEVEL_OF_STATE[state]
    if state is State.STARTING:
        return _startup_words(snapshot, now), role
    if state is State.READY:
        last = snapshot.throughput
        if last.gen_tok_s is not None and not last.stale:
            return (f"{last.gen_tok_s:.1f} tok/s",), role
        return (("idle",), "dim") if snapshot.verdict.reason.code == "idle" else (("",), role)
    nothing = snapshot.server is None and is_undecided(snapshot.verdict)
    if nothing or state is State.ABSENT or (state is State.OFFLINE and is_first(snapshot)):
        return ("",), role
    diagnosis = diagnosis_of(snapshot)
    if diagnosis is not None:
        where = [SHOWN_NAMES[diagnosis.phase]] if diagnosis.phase is not None else []
        where = [*([diagnosis.rank] if diagnosis.rank else []), *where]
        # A sentence that would be cut gives way to its code, which is short; but not to the word that stands there already.
        words = [headline(diagnosis), *([] if diagnosis.code == state.name.lower() else [diagnosis.code])]
        forms = [(said, *where[:n]) for said in words for n in range(len(where), -1, -1)]
        return tuple(clean(" · ".join(form)) for form in forms), role
    # The link beside it says in red that it is lost; why is a second glance.
    return (clean(snapshot.verdict.reason.text),), "dim" if state is State.OFFLINE else role


def _startup_words(snapshot: Snapshot, now: float) -> tuple[str, ...]:
    """The phase, how far it is, and when all is ready; the last is what is asked most."""
    startup = snapshot.startup
    if startup.phase == "serving":
        return ("waiting for /health",)  # its log says that it is ready
    phase = SHOWN_NAMES.get(startup.phase, startup.phase) if startup.phase is not None else ""
    counts = ""
    if startup.progress is not None and startup.progress.total > 0:
        digits = len(str(startup.progress.total))
        counts = f"{phase} {startup.progress.done:>{digits}}/{startup.progress.total}" if phase else ""
    ready = promise(snapshot, now)
    when = ready or short_late_words(snapshot)
    forms = (
        f"{counts or phase} · {when}" if when and phase else "",
        f"{phase} · {when}" if when and phase else "",
        ready, counts, phase,
    )  # fmt: skip
    return tuple(form for form in forms if form) or ("",)
