"""`e` and `l`: what was measured and what was launched, over the panes. The history is read beside the loop; nothing here knows its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.widgets import Input

from eagletui.ui import format as fmt
from eagletui.ui.bench_words import moment, rate_words
from eagletui.ui.ledger import Entry, Kept, LaunchEntry, Ledger, RunEntry
from eagletui.ui.panes.throughput import Canvas
from eagletui.ui.screens.comparison import CompareScreen, KeysScreen, LaunchDetails, RunDetails
from eagletui.ui.screens.experiment_rows import (
    KEYS,
    LAUNCH_COLUMNS,
    RUN_COLUMNS,
    Mark,
    Order,
    changes_words,
    filtered,
    fitting,
    header,
    row,
    sorted_by,
)
from eagletui.ui.screens.ledger_sheet import LedgerSheet
from eagletui.ui.screens.plan_rows import said
from eagletui.ui.screens.run_plot import plot_rows
from eagletui.ui.screens.sheet import Keys, Sheet, SheetView
from eagletui.ui.screens.table_view import TableView
from eagletui.ui.widgets.frame import Tab, View
from eagletui.ui.widgets.key_row import KeyHint, KeyRow
from eagletui.ui.widgets.lines import EMPTY, Line, clean, cut, wrap

PLOT_ROWS, MOST_PLOT_ROWS = 14, 28
"""Of the plot: so many where the table wants more room than there is, and at most so many."""
LEAST_TABLE_ROWS = 6
TAB_NAMES: dict[str, str] = {"runs": "Runs", "launches": "Launches"}
TabName = Literal["runs", "launches"]
NOTE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Again:
    """A variant that is to be launched again, as the person chose it in the list. `command`: of its launch, masked; () where it is not known."""

    entry: Entry
    command: tuple[str, ...] = ()


class ExperimentsScreen(LedgerSheet[Again | None]):
    """Gives a variant to launch again, or None. `wall` tells the time now."""

    BINDINGS: ClassVar[list[Keys]] = [
        ("escape,q", "leave", "leave"), ("enter", "details", "details"), ("up", "walk(-1)", ""), ("down", "walk(1)", ""), ("pageup", "leap(-1)", ""),
        ("pagedown", "leap(1)", ""), ("home,g", "leap(-9999)", ""), ("end,G", "leap(9999)", ""), ("tab", "other", "other table"), ("e", "tab('runs')", "runs"),
        ("l", "tab('launches')", "launches"), ("slash", "filter", "filter"), ("s", "sort", "sort"), ("S", "turn", "reverse"), ("space", "mark", "mark"),
        ("c", "compare", "compare"), ("p", "plot", "plot"), ("b", "baseline", "baseline"), ("n", "note", "note"), ("r", "again", "launch again"),
        ("question_mark", "help", "keys"),
    ]  # fmt: skip

    def __init__(
        self,
        ledger: Ledger,
        node: str,
        wall: Callable[[], float],
        *,
        tab: TabName = "runs",
        canvas: Canvas | None = None,
    ) -> None:
        super().__init__(ledger)
        self._node = node
        self._wall = wall
        self.tab_name: TabName = tab
        self._canvas = canvas
        self._orders: dict[str, Order] = {"runs": Order(), "launches": Order()}
        self._at: dict[str, str | None] = {"runs": None, "launches": None}
        """Id of the entry under the cursor: it stays with it when the order changes."""
        self._top: dict[str, int] = {"runs": 0, "launches": 0}
        self._filter: dict[str, str] = {"runs": "", "launches": ""}
        self._marks: list[str] = []
        self._plots = False
        self._typing: Literal["", "filter", "note"] = ""
        self._noted: RunEntry | None = None
        """Whose note is typed, wherever the cursor goes meanwhile."""
        self._places: list[tuple[int, int, str]] = []
        self._page = 1
        self._runs_key: tuple[Kept | None, str, Order] | None = None
        self._runs_made: list[RunEntry] = []
        self._launches_key: tuple[Kept | None, str, Order] | None = None
        self._launches_made: list[LaunchEntry] = []

    def compose(self) -> ComposeResult:
        """The table, a row to type in, the keys."""
        yield TableView(self.view, id="sheet")
        typed = Input(id="typed", compact=True, select_on_focus=False)
        typed.display = False
        yield typed
        yield KeyRow(id="sheet-keys")

    def on_mount(self) -> None:
        """Look, at once."""
        self._name_tabs()
        super().on_mount()
        self.reload()

    def _name_tabs(self) -> None:
        self.sheet.tabs = (("runs", "e", "Runs", ""), ("launches", "l", "Launches", ""))
        self.sheet.tab = self.tab_name

    # --- what is shown

    @property
    def runs(self) -> list[RunEntry]:
        """Of the table, filtered and in its order."""
        key = (self.kept, self._filter["runs"], self._orders["runs"])
        if key != self._runs_key:  # a key is pressed more often than they change
            kept = self.kept.runs if self.kept is not None else ()
            self._runs_made = sorted_by(filtered(kept, key[1]), RUN_COLUMNS, key[2])
            self._runs_key = key
        return self._runs_made

    @property
    def launches(self) -> list[LaunchEntry]:
        """Of the table, filtered and in its order."""
        key = (self.kept, self._filter["launches"], self._orders["launches"])
        if key != self._launches_key:
            kept = self.kept.launches if self.kept is not None else ()
            self._launches_made = sorted_by(filtered(kept, key[1]), LAUNCH_COLUMNS, key[2])
            self._launches_key = key
        return self._launches_made

    @property
    def entries(self) -> Sequence[Entry]:
        """Of the table in sight."""
        return self.runs if self.tab_name == "runs" else self.launches

    @property
    def here(self) -> Entry | None:
        """Under the cursor."""
        entries = self.entries
        return entries[self._index(entries)] if entries else None

    def _index(self, entries: Sequence[Entry]) -> int:
        at = self._at[self.tab_name]
        return next((index for index, one in enumerate(entries) if one.id == at), 0)

    def wanted_rows(self, width: int, height: int) -> int:  # noqa: ARG002 - as every sheet
        """All there is: a table has room for more than it shows."""
        return height

    def rows_below(self) -> int:
        """The row to type in."""
        return 1 if self._typing else 0

    def view(self, width: int, height: int) -> View:
        """The table, and the plot below it."""
        entries = self.entries
        sweep = f"  {self.kept.sweep}" if self.kept is not None and self.kept.sweep else ""
        title: Line = (("Experiments", "text bold"), (f"  on {clean(self._node)}", "dim"), (sweep, "accent"))
        if self.problem is not None or not entries:
            return View(self._empty(width), title, self._summary(0), border="error" if self.problem else "focus")
        plot = self._plot(width, height)
        room = max(1, height - len(plot) - 1)
        self._page = room
        at = self._index(entries)
        top = max(0, min(self._top[self.tab_name], len(entries) - room, at))
        top = max(top, at - room + 1)
        self._top[self.tab_name] = top
        lines = self._runs(width, top, room, at) if self.tab_name == "runs" else self._launches(width, top, room, at)
        thumb = None
        if len(entries) > room > 1:
            size = max(1, room * room // len(entries))
            first = 1 + round((room - size) * top / (len(entries) - room))
            thumb = (first, first + size)
        lines += [EMPTY] * (room + 1 - len(lines)) if plot else []
        return View([*lines, *plot], title, self._summary(len(entries)), self._foot(width), border="focus", thumb=thumb)

    def _runs(self, width: int, top: int, room: int, at: int) -> list[Line]:
        entries = self.runs
        columns, first = fitting(RUN_COLUMNS, width, entries)
        head, self._places = header(columns, first, self._orders["runs"])
        wall, shown = self._wall(), enumerate(entries[top : top + room], start=top)
        rows = (row(one, columns, first, wall, width, here=n == at, mark=self._mark_of(one)) for n, one in shown)
        return [head, *rows]

    def _launches(self, width: int, top: int, room: int, at: int) -> list[Line]:
        entries = self.launches
        columns, first = fitting(LAUNCH_COLUMNS, width, entries)
        head, self._places = header(columns, first, self._orders["launches"])
        wall, shown = self._wall(), enumerate(entries[top : top + room], start=top)
        return [head, *(row(one, columns, first, wall, width, here=n == at, mark="") for n, one in shown)]

    def _mark_of(self, entry: RunEntry) -> Mark:
        if entry.id not in self._marks:
            return ""
        return "A" if self._marks.index(entry.id) == 0 else "B"

    def _plot(self, width: int, height: int) -> list[Line]:
        if not self._plots or self.tab_name != "runs" or self.kept is None:
            return []
        least = min(PLOT_ROWS, height - LEAST_TABLE_ROWS - 1)
        rows = min(MOST_PLOT_ROWS, max(least, height - len(self.runs) - 2))
        here = self.here.id if self.here is not None else None
        return [EMPTY, *plot_rows(self.runs, self.kept.base_of(self.here), here, self._canvas, width, rows)]

    def _foot(self, width: int) -> Line:
        """Of the one under the cursor what its row may have no room for."""
        here = self.here
        if here is None:
            return EMPTY
        at = here.result.began if isinstance(here, RunEntry) else here.started
        parts = [moment(at), changes_words(here.changes)]
        if isinstance(here, RunEntry):
            parts.append(here.note and f"“{said(here.note)}”")
        return ((cut(" · ".join(one for one in parts if one), width - 2), "dim"),)

    def _summary(self, shown: int) -> Line:
        if self.kept is None:
            return EMPTY
        all_ = len(self.kept.runs) if self.tab_name == "runs" else len(self.kept.launches)
        word = self.tab_name[:-1] if self.tab_name == "runs" else "launch"
        text = self._filter[self.tab_name]
        many = fmt.plural(all_, word, "launches" if word == "launch" else None)
        if not text:
            return ((many, "dim"),) if all_ else EMPTY
        return (("/ ", "key"), (clean(text), "text"), (f"  {fmt.count(shown)} of {many}", "dim"))

    def _empty(self, width: int) -> list[Line]:
        """What to do where there is nothing."""
        if self.problem is not None:
            return [((row_, "error"),) for row_ in wrap(self.problem, width, 4)]
        if self.kept is None:
            return [((f"Reading the history …{self.waited}", "dim"),)]
        text = self._filter[self.tab_name]
        if text:
            said_ = f"None has “{text}” in it. / changes what is looked for; emptied it shows all."
        elif self.tab_name == "runs":
            said_ = (
                "Nothing was measured here yet. Leave with esc; b runs the quick benchmark on the server, B lets you choose. Then make one run the baseline "
                "with b in this list: what comes after it is held against it."
            )
        else:
            said_ = (
                f"No launch was watched on {self._node} yet. Every start that eagletui sees or makes appears here, with how long it took "
                "and how it ended."
            )
        return [
            ((row_, "text" if not number else "dim"),) for number, row_ in enumerate(wrap(said_, min(width, 110), 6))
        ]

    def keys(self) -> tuple[KeyHint, ...]:
        """What can be done now."""
        if self._typing == "filter":
            return (("enter", "keep it", "typed"), ("esc", "all of them", "leave"))
        if self._typing == "note":
            return (("enter", "write it", "typed"), ("esc", "leave it", "leave"))
        here = self.here
        out: list[KeyHint] = []
        if here is not None:
            out.append(("enter", "more", "details"))
        if isinstance(here, RunEntry):
            marked = len(self._marks)
            out += [("space", "mark", "mark"), ("c", "compare A and B" if marked == 2 else "compare", "compare")]
            out.append(("?", "keys", "help"))
            base = "no baseline" if here.baseline else "baseline"
            out += [("p", "no plot" if self._plots else "plot", "plot"), ("b", base, "baseline"), ("n", "note", "note")]
        if here is not None:
            out += [("r", "launch again", "again"), ("/", "filter", "filter"), ("s", "sort", "sort")]
        return (
            *out,
            ("tab", "launches" if self.tab_name == "runs" else "runs", "other"),
            ("esc", "leave", "leave"),
        )

    def do(self, name: str) -> None:
        """A click."""
        if name == "typed":
            self._typed(self.query_one(Input).value)
        else:
            getattr(self, f"action_{name}")()

    # --- walking

    def action_walk(self, step: int) -> None:
        """The next row."""
        entries = self.entries
        if entries:
            self._at[self.tab_name] = entries[max(0, min(len(entries) - 1, self._index(entries) + step))].id
            self.redraw()

    def action_leap(self, pages: int) -> None:
        """A screenful, or all of it."""
        self.action_walk(pages * max(1, self._page - 1))

    def action_tab(self, name: TabName) -> None:
        """The other table."""
        self.tab_name = name
        self._name_tabs()
        self.redraw()

    def action_other(self) -> None:
        """The one that is not in sight."""
        if self._typing:
            return
        self.action_tab("launches" if self.tab_name == "runs" else "runs")

    def on_table_view_wheel(self, event: TableView.Wheel) -> None:
        """The wheel."""
        event.stop()
        self.action_walk(1 if event.rows > 0 else -1)

    def on_tab(self, event: Tab) -> None:
        """Its name in the title was clicked."""
        event.stop()
        self.action_tab("launches" if event.pane == "launches" else "runs")

    def on_sheet_view_clicked(self, event: SheetView.Clicked) -> None:
        """A row is chosen, and opened by a second click; the header sorts."""
        if event.row == 0:
            for first, end, column in self._places:
                if first <= event.column < end:
                    self._sort_by(column)
            return
        at = self._top[self.tab_name] + event.row - 1
        entries = self.entries
        if event.row <= self._page and 0 <= at < len(entries):
            if self._at[self.tab_name] == entries[at].id:
                self.action_details()
            self._at[self.tab_name] = entries[at].id
            self.redraw()

    # --- order and choice

    def _sort_by(self, name: str) -> None:
        order = self._orders[self.tab_name]
        columns = RUN_COLUMNS if self.tab_name == "runs" else LAUNCH_COLUMNS
        down = next((one.down for one in columns if one.id == name), True)
        self._orders[self.tab_name] = Order(name, not order.down) if order.column == name else Order(name, down)
        self._keep_cursor()
        self.redraw()

    def _keep_cursor(self) -> None:
        """It stays with its entry, which may have been the first one without a word."""
        here = self.here
        if here is not None:
            self._at[self.tab_name] = here.id

    def action_sort(self) -> None:
        """By the next column of those in sight."""
        names = [name for _, _, name in self._places]
        if names:
            at = names.index(self._orders[self.tab_name].column) if self._orders[self.tab_name].column in names else -1
            self._sort_by(names[(at + 1) % len(names)])

    def action_turn(self) -> None:
        """The other way round."""
        self._sort_by(self._orders[self.tab_name].column)

    def action_filter(self) -> None:
        """Type what is looked for; the table follows."""
        self._type("filter", self._filter[self.tab_name], "words that a row has: a flag, a preset, faster, …")

    def action_note(self) -> None:
        """Type what is to be remembered of a run."""
        here = self.here
        if isinstance(here, RunEntry):
            self._keep_cursor()
            self._noted = here
            self._type("note", here.note, f"a note about this run of {here.result.load.preset}")

    def _type(self, what: Literal["filter", "note"], value: str, hint: str) -> None:
        self._typing = what
        typed = self.query_one(Input)
        typed.value, typed.placeholder, typed.max_length = value, clean(hint), NOTE_CHARACTERS
        typed.display = True
        typed.focus()
        typed.cursor_position = len(value)
        self.redraw()

    def _no_typing(self) -> None:
        self._typing = ""
        self.query_one(Input).display = False
        self.set_focus(None)
        self.redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The table follows the filter."""
        event.stop()
        if self._typing == "filter":
            self._filter[self.tab_name] = event.value
            self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Done."""
        event.stop()
        self._typed(event.value)

    def _typed(self, value: str) -> None:
        noted = self._noted
        if self._typing == "note" and noted is not None:
            text = " ".join(value.split())
            self.write(lambda: self.ledger.note(noted.id, text), "The note is kept." if text else "The note is gone.")
        self._no_typing()

    # --- what is done

    def action_mark(self) -> None:
        """A, then B; a third one takes the place of the first."""
        here = self.here
        if isinstance(here, RunEntry):
            self._keep_cursor()
            rest = [one for one in self._marks if one != here.id]
            self._marks = rest if here.id in self._marks else [*rest, here.id][-2:]
            self.redraw()

    def action_compare(self) -> None:
        """The two that are marked; else this one with the one that is marked, or with the baseline."""
        here, kept = self.here, self.kept
        if not isinstance(here, RunEntry) or kept is None:
            return
        by_id = {one.id: one for one in kept.runs}
        marked = [by_id[one] for one in self._marks if one in by_id]
        if len(marked) < 2:
            other = marked[0] if marked else kept.base_of(here)
            if other is None or other.id == here.id:
                alone = "This run is the baseline; choose another one to compare with it."
                self.say("Mark two runs with space to compare them." if other is None or marked else alone)
                return
            marked = [other, here]
        self.run_worker(
            self._show_comparison(marked[0], marked[1]), name="compare", exclusive=True, exit_on_error=False
        )

    async def _show_comparison(self, a: RunEntry, b: RunEntry) -> None:
        compared = await self.comparing(a, b)
        if compared is not None:
            self._open(CompareScreen(compared, self._wall()))

    def _open(self, dialog: Sheet[None]) -> None:
        """Over this one, once."""
        if self.is_current:
            self.app.push_screen(dialog)

    def action_details(self) -> None:
        """All that is known of it."""
        here = self.here
        if isinstance(here, RunEntry):
            self._open(RunDetails(here, self._wall()))
        elif isinstance(here, LaunchEntry):
            self._open(LaunchDetails(here, self._wall()))

    def action_help(self) -> None:
        """Keys that the row has no room for."""
        self._open(KeysScreen("Experiments", KEYS))

    def action_plot(self) -> None:
        """Show or hide it."""
        if self.tab_name == "runs":
            self._plots = not self._plots
            self.redraw()

    def action_baseline(self) -> None:
        """What others are held against, or no longer."""
        here = self.here
        if not isinstance(here, RunEntry):
            return
        if not here.baseline and (here.result.tok_s is None or not here.result.complete):
            self.say("A run that was ended early or measured nothing is no baseline.", severity="warning")
            return
        off = here.baseline
        told = "It is no baseline any more." if off else f"The baseline is now {rate_words(here.result)} tok/s."
        self.write(lambda: self.ledger.set_baseline(here.id, off=off), told)

    def action_again(self) -> None:
        """Its plan; nothing is stopped before that is confirmed."""
        here, kept = self.here, self.kept
        if here is None or kept is None:
            return
        key = here.result.facts.launch if isinstance(here, RunEntry) else here.key
        self.dismiss(Again(here, next((one.command for one in kept.launches if one.key == key), ())))

    def action_leave(self) -> None:
        """Out of what is typed, then out."""
        if self._typing == "filter":
            self._filter[self.tab_name] = ""
        if self._typing:
            self._no_typing()
        elif self._filter[self.tab_name]:
            self._filter[self.tab_name] = ""
            self.redraw()
        else:
            self.dismiss(None)
