"""The log: time and rank in fixed columns, the line itself plain, colour only on level words and on what moves."""

from __future__ import annotations

from typing import Literal

from eagletui.logs.state import Quote
from eagletui.logs.store import LineKind, StoredLine
from eagletui.monitor.snapshot import Snapshot
from eagletui.ui import format as fmt
from eagletui.ui.panes.pane import Pane
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.line_view import LineView
from eagletui.ui.widgets.lines import EMPTY, Line, Span, fit, skip, width_of, wrap

TIME_CELLS = 8
MAX_RANK_CELLS = 12
QUOTED_CELLS = 60
"""So much of a quotation's begin tells its line from others of the same number."""
Found = Literal["none", "only", "next", "wrapped"]
"""What a search of the next line of a kind came to: there is none, it is where we are, it was found, it was found from the top again."""
_NAMES = {LineKind.WARNING: "warning", LineKind.ERROR: "error"}
_LEVELS = {LineKind.WARNING: "warning bold", LineKind.ERROR: "error bold"}


class LogPane(LineView, Pane):
    """Pane 5."""

    number = "5"
    name_ = "Log"

    def __init__(self, *, id: str) -> None:  # noqa: A002 - the word of the interface
        super().__init__(id=id)
        self._times = False
        self._rank_cells = 0
        self._place = ""
        """What the marked line is: "error 2 of 5"."""

    def show_quote(self, quote: Quote) -> bool:
        """Go to the line that was quoted; False when it is not, or no longer, among the lines that are kept."""
        store = self.snapshot.log.store if self.snapshot is not None else None
        places = store.numbered(quote.line, quote.channel) if store is not None else []
        if store is None or not places:
            return False
        # Bars are glued to records: of what stands in one line of the file the words that were quoted are meant.
        said = quote.text.strip()[:QUOTED_CELLS]
        texts = {at: line.text for at in places if (line := store.line(at)) is not None}
        at = next((at for at, text in texts.items() if said and said in text), places[0])
        self._place = f"line {fmt.count(quote.line)}" if store.counted else "the quoted line"
        self.go_to(at)
        return True

    def show_next(self, kind: LineKind) -> Found:
        """Go to the next line of a kind below the marked one, or below the top; at the end, and after the last one, to the first."""
        store = self.snapshot.log.store if self.snapshot is not None else None
        places = store.of_kind(kind) if store is not None else []
        if not places:
            return "none"
        here = self._here()
        later = [at for at in places if here is not None and at > here]
        at = later[0] if later else places[0]
        self._place = f"{_NAMES.get(kind, '')} {places.index(at) + 1} of {len(places)}".strip()
        self.go_to(at)
        if here is None or later:
            return "next"
        return "only" if at == here else "wrapped"

    def _here(self) -> int | None:
        """The line from which on is searched; None at the end, from where it begins anew."""
        if self.top is None:
            return None
        seen = self.mark is not None and self.top <= self.mark < self.top + self._page()
        return self.mark if seen else self.top - 1

    def bounds(self) -> tuple[int, int]:
        """Numbers kept by the store."""
        if self.snapshot is None:
            return 0, 0
        store = self.snapshot.log.store
        return store.first, store.end

    def prepare(self, first: int, end: int) -> None:
        """Widen the columns before any line is drawn, so that all of a picture's lines share them. They never shrink: nothing jumps."""
        store = self.snapshot.log.store if self.snapshot is not None else None
        for number in range(first, end):
            line = store.line(number) if store is not None else None
            if line is not None:
                self._times = self._times or bool(line.time)
                self._rank_cells = min(MAX_RANK_CELLS, max(self._rank_cells, len(line.rank)))

    def parts(self, snapshot: Snapshot) -> tuple[object, ...]:
        """See Pane."""
        return (
            id(snapshot.log.store),
            snapshot.log.store.revision,
            snapshot.log.path,
            snapshot.log.error,
            snapshot.log.following,
            snapshot.link.state,
        )

    def view_of(self, snapshot: Snapshot, width: int, height: int) -> View:
        """The visible lines, or a sentence when there are none."""
        log = snapshot.log
        title: list[Span] = [("Log", "text")]
        if log.path:
            title += [("  ", "text"), (log.path, "dim")]
        said = self._said(snapshot, width, height)
        lines = self.visible_lines(width, height - len(said))
        if not lines:
            return View(self._empty(snapshot, width, height), tuple(title))
        summary: Line = EMPTY
        if not self.following:
            summary = (
                ((f"+{fmt.count(self.missed)}", "accent bold"), (" new", "accent"))
                if self.missed
                else (("paused", "key"),)
            )
        return View(
            [*lines, *said],
            tuple(title),
            summary,
            self._foot(snapshot),
            thumb=self.thumb_rows(height),
            stale=self.is_offline(snapshot),
        )

    def _said(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        """Why nothing comes after the lines that did, below them and whole; not while an older place is looked at."""
        log = snapshot.log
        if not log.error or not self.following or not log.store.end or self.is_offline(snapshot):
            return []
        return [((row, "warning"),) for row in wrap(log.error, width, max(0, height - 1))]

    def _foot(self, snapshot: Snapshot) -> Line:
        log = snapshot.log
        store = log.store
        if not self.following:
            word: Span = ("paused, G follows", "key")
            if self.mark is not None:
                return ((self._place, "text"), (" · ", "dim"), word)
        elif self.is_offline(snapshot):
            word = ("link down", "dim")
        elif log.error:
            word = ("not followed", "warning")
        elif log.following:
            word = ("following", "dim")
        else:
            word = ("not followed", "dim")
        return (
            word, (f" · {fmt.plural(store.end, 'line')} · ", "dim"),
            (fmt.plural(store.warnings, "warning"), "warning" if store.warnings else "dim"), (" · ", "dim"),
            (fmt.plural(store.errors, "error"), "error" if store.errors else "dim"),
        )  # fmt: skip

    def _empty(self, snapshot: Snapshot, width: int, height: int) -> list[Line]:
        log = snapshot.log
        if log.error:
            said, role = log.error, "warning"
        elif snapshot.link.state != "up" and not log.path:
            said, role = "The log opens once the link is up.", "dim"
        elif log.path and not log.following:
            said, role = "The log is being opened.", "dim"
        elif log.path:
            said, role = "Nothing was written yet.", "dim"
        elif snapshot.server is not None:
            said, role = snapshot.server.log.why or "Looking for the log of this server.", "dim"
        else:
            said, role = "The log of a server appears here.", "dim"
        return [((row, role),) for row in wrap(said, width, height)]

    def line_at(self, number: int, width: int) -> Line:
        """One stored line as spans, scrolled sideways without its time and rank."""
        store = self.snapshot.log.store if self.snapshot is not None else None
        line = store.line(number) if store is not None else None
        if line is None:
            return EMPTY
        if line.kind is LineKind.PROBE:
            return ((f"⋯ {fmt.plural(line.count, 'probe')} of ours", "faint"),)
        if line.kind is LineKind.MARKER:
            return ((f"── {line.text} ──", "faint"),)
        head: list[Span] = []
        if self._times:
            head.append((f"{line.time:<{TIME_CELLS}} ", "faint"))
        if self._rank_cells:
            head.append((f"{line.rank[:MAX_RANK_CELLS]:<{self._rank_cells}} ", "dim"))
        body = _body(line)
        if self.left:
            room = width - width_of(head)
            body = (("‹", "faint"), *skip(body, self.left + 1)) if room > 1 else body
        return fit((*head, *body), width)


def _body(line: StoredLine) -> Line:
    role = "accent" if line.kind is LineKind.PROGRESS else "dim" if line.kind is LineKind.DEBUG else "text"
    if line.level and line.kind in _LEVELS:
        return (line.level, _LEVELS[line.kind]), (" ", role), (line.text, role)
    return ((line.text, role),)
