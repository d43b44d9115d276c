"""Startup: the phases as a checklist; who the server is once it is up; the card of its failure when it died or stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from textual import events
from textual.message import Message

from eagletui.logs.state import SHOWN_NAMES, Phase, Quote
from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.model import Server, State
from eagletui.servers.record import Record
from eagletui.ui import format as fmt
from eagletui.ui.actions import BY_ID
from eagletui.ui.panes.card import EVIDENCE_ROWS, card, diagnosis_of, has_card, marked_at
from eagletui.ui.panes.checklist import checklist, compare_cells, total_line
from eagletui.ui.panes.estimate_words import starts_words
from eagletui.ui.panes.link_words import next_words
from eagletui.ui.panes.pane import LEVEL_OF_STATE, Pane, is_undecided
from eagletui.ui.panes.steps import (
    Doing,
    Hit,
    done_rows,
    failed,
    failure_card,
    foot,
    step_rows,
    ticks,
    title_word,
    unfinished_card,
)
from eagletui.ui.widgets.frame import DOUBLE, View
from eagletui.ui.widgets.lines import EMPTY, Line, Span, width_of, wrap

if TYPE_CHECKING:
    from eagletui.history.estimate import Estimate

_LAUNCHING = (State.STARTING, State.STALLED, State.UNKNOWN)
Kind = Literal["link", "connecting", "none", "crash", "launch", "server"]
_WORDS: dict[Kind, str] = {"link": "Link", "crash": "Crash", "server": "Server"}
_EDGE_CELLS = 6
"""Of a border row that words cannot use."""


class Evidence(Message):
    """A quoted line was clicked: it is wanted in the log."""

    def __init__(self, quote: Quote) -> None:
        super().__init__()
        self.quote = quote


class Offered(Message):
    """An offer on a card was clicked."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action


class StartupPane(Pane):
    """Pane 1. `cursor` is the quotation that was chosen on a card, None before one was (see card.marked_at). `doing`: the restart to show instead
    while its steps run, or once it failed; `left`: what an earlier eagletui left at a step; `able`: ids of actions that cards may offer."""

    number = "1"
    name_ = "Startup"

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self.cursor: int | None = None
        self.doing: Doing | None = None
        self.left: Record | None = None
        self.able: tuple[str, ...] = ()
        self._hits: tuple[Hit, ...] = ()
        self._earlier: tuple[str, Estimate] | None = None
        """Of the server with this id: what is not to vanish when it is nearly ready."""
        self._quotes: tuple[tuple[int, int], ...] = ()

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """See Pane."""
        return (
            snapshot.startup,
            snapshot.verdict,
            snapshot.server,
            snapshot.link,
            snapshot.inventory,
            snapshot.discovered,
            snapshot.log.path,
            snapshot.diagnosis,
            snapshot.estimate,
            self.doing,
            self.left,
            self.able,
        )

    def quotes_in(self, snapshot: Snapshot) -> tuple[Quote, ...]:
        """The quotations on the card of a failure; none where there is no card, or a restart is what the pane is about."""
        return () if self.steps_in(snapshot) is not None or self.left is not None else quotes_of(snapshot)

    def steps_in(self, snapshot: Snapshot) -> Doing | None:
        """The restart whose steps or whose failure are shown: the start-up itself is shown as every start-up is, once the monitor has it."""
        doing = self.doing
        if doing is None:
            return None
        progress = doing.progress
        if ticks(progress) or failed(progress):
            return doing
        launched = progress.launched
        server = snapshot.server
        here = server is not None and launched is not None and any(
            (one.process.pid, one.process.started) == launched for one in server.family
        )  # fmt: skip
        return None if here or progress.ending != "running" else doing

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The quotations on the card, none where there is no card."""
        return self.quotes_in(self.snapshot) if self.snapshot is not None else ()

    @property
    def takes_arrows(self) -> bool:
        """On a card they walk over the quotations."""
        return bool(self.quotes) or super().takes_arrows

    def scroll_lines(self, lines: int) -> None:
        """On a card another quotation is marked."""
        quotes = self.quotes
        if not quotes:
            super().scroll_lines(lines)
            return
        self.cursor = marked_at(quotes, marked_at(quotes, self.cursor) + (1 if lines > 0 else -1))
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A quotation leads to its line in the log; anything else is as in every frame."""
        hit = next((one for one in self._hits if one.row + 1 == event.y and one.first <= event.x - 2 < one.end), None)
        if hit is not None:
            self.post_message(Offered(hit.action))
            event.stop()
            event.prevent_default()
            return
        place = next((at for row, at in self._quotes if row + 1 == event.y), None)
        if event.chain < DOUBLE and place is not None and place < len(self.quotes):
            self.cursor = place
            self.redraw()
            self.post_message(Evidence(self.quotes[place]))
            event.stop()
            event.prevent_default()

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """What fits the state."""
        snapshot = self._with_earlier(snapshot)
        state = snapshot.verdict.state
        border = (
            LEVEL_OF_STATE[state]
            if state in (State.STARTING, State.STALLED, State.CRASHED, State.STOPPING)
            else "border"
        )
        kind = kind_of(snapshot)
        title: Line = ((self.word(snapshot), "text"),)
        self._quotes, self._hits = (), ()
        if (view := self._of_launch(snapshot, kind, width, height, title)) is not None:
            return view
        if kind in ("connecting", "link"):
            waits = kind == "connecting"
            lines = (
                _text(f"Connecting to {snapshot.node} …", "text", width, height)
                if waits
                else self._no_link(snapshot, width)
            )
            return View(lines[:height], title, border="border" if waits else "error")
        if kind == "crash":
            return self._card(snapshot, width, height, title)
        if kind == "launch":
            return self._checklist(snapshot, width, height, border)
        if kind == "none" or snapshot.server is None:
            return View(self._no_server(snapshot, width, height)[:height], title)
        # Of a server that was up and stands now the witnesses tell, in the next pane.
        border = "border" if state is State.STALLED else border
        return View(self._server(snapshot, snapshot.server, width)[:height], title, border=border)

    def _with_earlier(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what earlier launches took, told as long as the server lives; when it will be ready is told by nobody then."""
        server, estimate = snapshot.server, snapshot.estimate
        if server is None:
            return snapshot
        if estimate is not None:
            self._earlier = (server.id, replace(estimate, ready_in_s=None, late=None))
        elif self._earlier is not None and self._earlier[0] == server.id:
            return replace(snapshot, estimate=self._earlier[1])
        return snapshot

    def _of_launch(self, snapshot: Snapshot, kind: Kind, width: int, height: int, title: Line) -> View | None:
        """The restart that is under way or failed, or what was left of one."""
        if (doing := self.steps_in(snapshot)) is not None:
            return self._steps(doing, width, height, title)
        if self.left is None or kind in ("connecting", "link"):
            return None
        lines, self._hits = unfinished_card(self.left, width, height, self.able)
        return View(lines, title, foot=(("esc", "key"), (" closes", "dim")), border="warning")

    def _steps(self, doing: Doing, width: int, height: int, title: Line) -> View:
        progress = doing.progress
        named: Line = (*title, ("  ", "text"), (doing.named, "accent")) if doing.named else title
        if failed(progress):
            lines, self._hits = failure_card(progress, width, height, self.able)
            border = "warning" if progress.ending == "aborted" else "error"
            return View(lines, named, foot=(("esc", "key"), (" closes", "dim")), border=border)
        lines = step_rows(progress, self.now, width, height)
        return View(lines, named, foot=foot(progress, self.now, width - _EDGE_CELLS), border="warning")

    def word(self, snapshot: Snapshot) -> str:
        """See Pane: it is called by what it shows."""
        if (doing := self.steps_in(snapshot)) is not None:
            return title_word(doing.progress)
        if self.left is not None:
            return "Left at a step"
        if snapshot.verdict.state is State.STALLED and has_card(snapshot):
            return "Stalled"
        return _WORDS.get(kind_of(snapshot), self.name_)

    def _no_link(self, snapshot: Snapshot, width: int) -> list[Line]:
        link = snapshot.link
        lines = _text(f"No link to {snapshot.node}.", "error bold", width, 2)
        if link.error:
            lines += [EMPTY, *_text(link.error, "text", width, 5)]
        if link.lost_at is not None:
            lines += [
                EMPTY,
                (
                    ("lost ", "dim"),
                    (f"{fmt.duration(max(0.0, self.now - link.lost_at))} ago", "text"),
                    (" · ", "dim"),
                    *next_words(link, self.now, short=False),
                ),
            ]
        said = "What is shown is what was last seen; the server is not touched."
        if link.needs is None:
            said = f"It is tried again by itself; c tries at once. {said}"
        return [*lines, EMPTY, *_text(said, "dim", width, 3)]

    def _no_server(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        servers = snapshot.inventory.servers
        if servers:
            said = f"{fmt.plural(len(servers), 'server')} on {snapshot.node}: press v to choose the one to show."
            return _text(said, "text", width, height)
        if not snapshot.discovered or is_undecided(snapshot.verdict):
            return _text(f"Looking for servers on {snapshot.node} …", "dim", width, height)
        if snapshot.verdict.state is State.STARTING:  # it was launched, and is not there yet
            said = snapshot.verdict.reason.text
            return _text(f"{said[:1].upper()}{said[1:]}.", "text", width, height)
        lines = _text(f"No server on {snapshot.node}.", "text bold", width, 2)
        orphans = snapshot.inventory.orphans
        if orphans:
            said = fmt.plural(len(orphans), "process", "processes")
            lines += [
                EMPTY,
                *_text(f"{said} of an engine without its server, holding what it held:", "warning", width, 2),
            ]
            lines[-1] = (*lines[-1], ("  ", "dim"), (BY_ID["server.orphans"].key, "key"), (" lists them", "dim"))
            for orphan in orphans[: max(0, height - len(lines) - 2)]:
                who = f" · {orphan.user}" if orphan.user else ""
                lines.append(
                    (
                        (f"{orphan.process.pid:>8} ", "dim"),
                        (orphan.name, "text"),
                        (f"{who} · {fmt.duration(orphan.age_s)}", "dim"),
                    )
                )
        if "server.start" in self.able:
            said = f"{BY_ID['server.start'].key} starts one: from a profile, or as it was launched last. One that is started otherwise appears here by itself."
        else:
            said = "Start one on the node: it appears here by itself, with its log, within seconds."
        return [*lines, EMPTY, *_text(said, "dim", width, 3)]

    def _card(self, snapshot: Snapshot, width: int, height: int, title: Line) -> View:
        shown = card(snapshot, self.now, width, height, self.cursor)
        self._quotes = shown.quotes
        hints: list[Span] = [("enter", "key"), (" to the line · ", "dim")] if self.quotes else []
        return View(shown.lines, title, foot=(*hints, ("x", "key"), (" explains it", "dim")), border="error")

    def _silent(self, snapshot: Snapshot) -> Snapshot:
        """A server that starts and whose followed log tells no phase yet is at its imports: its first lines (warnings, arguments) name none."""
        log, elapsed = snapshot.log, self._elapsed(snapshot)
        starts = snapshot.verdict.state is State.STARTING
        if not starts or snapshot.startup.phases or not log.following or log.error or elapsed is None:
            return snapshot
        imports = Phase("launch", "running", began_at=self.now - elapsed)
        return replace(snapshot, startup=replace(snapshot.startup, phase="launch", phases=(imports,)))

    def _checklist(self, snapshot: Snapshot, width: int, height: int, border: str) -> View:
        stalled = snapshot.verdict.state in (State.STALLED, State.UNKNOWN)
        words = _text(snapshot.verdict.reason.text, LEVEL_OF_STATE[snapshot.verdict.state], width, 3) if stalled else []
        lines = checklist(self._silent(snapshot), self.now, width, height - (len(words) + 1 if words else 0))
        if lines and self.doing is not None and self.doing.progress.ending == "running":
            before = done_rows(self.doing.progress, self.now, width, compare_cells(snapshot.estimate))
            lines = [*before, *lines] if len(before) + len(lines) <= height else lines
        if not lines:
            lines = _text("Alive; its log has not told a phase yet.", "dim", width, 2)
        if words:
            lines += [EMPTY, *words]
        foot = total_line(snapshot, self._elapsed(snapshot), self.now, width - _EDGE_CELLS)
        # After a break the bar stands where it stood, until something fresh has come.
        return View(lines, title=(("Startup", "text"),), foot=foot, border=border, stale=is_undecided(snapshot.verdict))

    def _elapsed(self, snapshot: Snapshot) -> float | None:
        if (up := snapshot.up_s(self.now)) is not None:
            return up
        since = snapshot.verdict.since
        return self.now - since if since is not None else None

    def _server(self, snapshot: Snapshot, server: Server, width: int) -> list[Line]:
        startup = snapshot.startup
        lines: list[Line] = []
        if startup.ready_s is not None and snapshot.verdict.state is not State.STOPPING:
            lines.append(_ready_line(startup.ready_s, snapshot.estimate, width))
        elif snapshot.verdict.state is not State.READY:
            lines += _text(snapshot.verdict.reason.text, LEVEL_OF_STATE[snapshot.verdict.state], width, 3)
        lines += _times(startup.phases, width)
        if lines:
            lines.append(EMPTY)
        lines += _facts(server, width)
        return lines


def quotes_of(snapshot: Snapshot) -> tuple[Quote, ...]:
    """The quotations that the card of a failure shows."""
    diagnosis = diagnosis_of(snapshot)
    if diagnosis is None or kind_of(snapshot) != "crash":
        return ()
    return diagnosis.evidence[:EVIDENCE_ROWS]


def kind_of(snapshot: Snapshot) -> Kind:
    """What the pane is about in this state."""
    state = snapshot.verdict.state
    if snapshot.link.state != "up" and (state is State.OFFLINE or snapshot.server is None):
        return "connecting" if snapshot.link.state == "connecting" and snapshot.link.lost_at is None else "link"
    if has_card(snapshot):
        return "crash"
    if snapshot.server is None:
        return "none"
    launching = snapshot.startup.state in ("starting", "stalled") and state in _LAUNCHING
    return "launch" if state is State.STARTING or launching else "server"


def _times(phases: Iterable[Phase], width: int) -> list[Line]:
    """`imports 0:14 · distributed 0:20 · …`, wrapped between phases."""
    rows: list[list[Span]] = []
    used = 0
    for phase in phases:
        if phase.name == "serving" or phase.seconds is None:
            continue
        name, took = SHOWN_NAMES.get(phase.name, phase.name), fmt.duration(phase.seconds)
        size = len(name) + len(took) + 1
        if not rows or used + 3 + size > width - 2:
            rows.append([("  ", "dim")])
            used = 2
        else:
            rows[-1].append((" · ", "faint"))
            used += 3
        rows[-1] += [(f"{name} ", "dim"), (took, "text")]
        used += size
    return [tuple(row) for row in rows]


def _ready_line(took: float, estimate: Estimate | None, width: int) -> Line:
    """`✓ ready in 3:12   usually 3:09 (6 starts)`."""
    line: Line = (("✓ ", "ok"), ("ready in ", "text"), (fmt.duration(took), "text bold"))
    if estimate is None:
        return line
    usual: Span = (f"   usually {fmt.duration(estimate.total_s)} ({starts_words(estimate)})", "dim")
    return (*line, usual) if width_of((*line, usual)) <= width else line


def _facts(server: Server, width: int) -> list[Line]:
    out: list[Line] = []
    who = [
        server.engine,
        f"pid {server.pid}",
        *([f"port {server.port}"] if server.port else []),
        *([server.user] if server.user else []),
    ]
    for label, value in (
        ("server", " · ".join(who)),
        ("model", server.model or fmt.UNKNOWN),
        ("flags", " · ".join(server.flags)),
    ):
        if value:
            for at, row in enumerate(wrap(value, width - 8, 2)):
                out.append(
                    (
                        ("" if at else label, "dim"),
                        (" " * (8 - (0 if at else len(label))), "dim"),
                        (row.removesuffix(" ·"), "text"),
                    )
                )
    return out


def _text(said: str, role: str, width: int, rows: int) -> list[Line]:
    return [((row, role),) for row in wrap(said, width, rows)]
