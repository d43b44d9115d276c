"""A question before something is done that has no plan of its own: sentences, yes or no, and on a production node its name to be typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.widgets import Input

from eagletui.servers.record import Record
from eagletui.ui.screens.plan_rows import said
from eagletui.ui.screens.sheet import Keys, Sheet, SheetView
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.key_row import KeyHint, KeyRow
from eagletui.ui.widgets.lines import EMPTY, Line, clean, wrap

MOST_PIDS = 12
"""Of a family that are named."""


def going_on(record: Record) -> tuple[str, ...]:
    """What going on with a sequence does, of which nothing but its record is known: who began it, where it stands, what it ends and what it runs."""
    where = f" on port {record.port}" if record.port is not None else ""
    told = [f"{record.who} began it at {record.created} and left it at the step {record.step or 'preflight'}{where}."]
    if record.kind != "start" and record.family and record.process is None:
        pids = ", ".join(str(pid) for pid, _ in record.family[:MOST_PIDS])
        more = f" and {len(record.family) - MOST_PIDS} more" if len(record.family) > MOST_PIDS else ""
        told.append(f"What is left of the old server is ended: pid {pids}{more}.")
    if record.kind != "stop" and record.process is None and record.command:
        profile = f" ({record.profile}{f' / {record.variant}' if record.variant else ''})" if record.profile else ""
        told.append(f"Then this runs{profile}: {' '.join(record.command)}")
    elif record.process is not None:
        told.append(f"The new server, pid {record.process[0]}, is looked at until it is ready.")
    return tuple(told)


class ConfirmScreen(Sheet[bool]):
    """Gives whether it is to be done. `yes`: what the key does, a few words. `typed`: the word that has to be typed instead of a key, None for none."""

    BINDINGS: ClassVar[list[Keys]] = [("y", "yes", "yes"), ("n,escape,q", "no", "no")]

    def __init__(self, title: str, sentences: Sequence[str], yes: str, typed: str | None = None) -> None:
        super().__init__()
        self._title = title
        self._sentences = sentences
        self._yes = yes
        self._typed = typed

    def compose(self) -> ComposeResult:
        """The frame, a row to type in where a word is asked for, the keys."""
        yield SheetView(self.view, id="sheet")
        typed = Input(id="typed", compact=True, placeholder=clean(self._typed or ""))
        typed.display = self._typed is not None
        yield typed
        yield KeyRow(id="sheet-keys")

    def on_mount(self) -> None:
        """The word can be typed at once."""
        super().on_mount()
        if self._typed is not None:
            self.query_one(Input).focus()

    def view(self, width: int, height: int) -> View:  # noqa: ARG002 - as every sheet
        """What is asked."""
        rows: list[Line] = []
        for sentence in self._sentences:
            rows += [((row, "text"),) for row in wrap(said(sentence), width, 6)]
        if self._typed is not None:
            asked = f"It is a production node. Type its name, {clean(self._typed)}:"
            rows += [EMPTY, *(((row, "warning bold"),) for row in wrap(asked, width, 3))]
        return View(rows, ((clean(self._title), "text bold"),), border="warning")

    def keys(self) -> tuple[KeyHint, ...]:
        """What can be done now."""
        first = ("enter", "when it is typed", "typed") if self._typed is not None else ("y", self._yes, "yes")
        return (first, ("esc" if self._typed is not None else "n", "no", "no"))

    def rows_below(self) -> int:
        """The row to type in."""
        return 0 if self._typed is None else 1

    def do(self, name: str) -> None:
        """A click."""
        if name == "typed":
            self._check(self.query_one(Input).value)
        else:
            getattr(self, f"action_{name}")()

    def action_yes(self) -> None:
        """Where no word is asked for."""
        if self._typed is None:
            self.dismiss(True)

    def action_no(self) -> None:
        """Nothing is done."""
        self.dismiss(False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The word."""
        event.stop()
        self._check(event.value)

    def _check(self, value: str) -> None:
        if value.strip() == self._typed:
            self.dismiss(True)
        elif value.strip():
            self.app.notify(said(f"That is not {self._typed}. Nothing was done yet."), markup=False, severity="warning")
