"""`R`: the flags of what will run, to change, add and remove; typing filters and completes. What comes of it is shown beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from eagletui.errors import EagletuiError
from eagletui.launching.operator import Operator
from eagletui.launching.plan import Plan, Wish
from eagletui.ui.screens.draft import BadChangeError, Draft, NotALaunchError, is_secret, words_of
from eagletui.ui.screens.plan_rows import flag_word, said
from eagletui.ui.screens.sheet import Keys, Sheet, SheetView
from eagletui.ui.screens.variant_rows import Row, name_of, preview, row_line, sign_of
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.key_row import KeyHint, KeyRow
from eagletui.ui.widgets.lines import EMPTY, Line, clean, cut, fit, wrap

TWO_COLUMNS_FROM = 104
NAME_CELLS = 34
SHOWN_KNOWN = 60


class VariantScreen(Sheet[Wish | None]):
    """Gives the wish with its changes, or None. The operator is asked for what would run; the exact command never comes here."""

    BINDINGS: ClassVar[list[Keys]] = [
        Binding("escape", "leave", "leave"), Binding("up", "walk(-1)", ""), Binding("down", "walk(1)", ""), Binding("pageup", "walk(-10)", ""),
        Binding("pagedown", "walk(10)", ""), Binding("ctrl+d", "remove", "", priority=True), Binding("ctrl+z", "undo", "", priority=True),
        Binding("ctrl+s", "plan", "", priority=True), Binding("tab", "complete", "", priority=True),
    ]  # fmt: skip

    def __init__(self, operator: Operator, wish: Wish, node: str, plan: Plan | None = None) -> None:
        super().__init__()
        self._had = plan if plan is not None and not wish.changes else None
        """What would run is known from there already."""
        self.wish = wish
        self._operator = operator
        self._node = node
        self._plan: Plan | None = None
        self.draft: Draft | None = None
        self._given = wish.changes
        self._problem: str | None = None
        self._editing: str | None = None
        """The flag whose value is typed."""
        self._bare = ""
        """The flag for which Enter was pressed without a value: a second one makes it a switch."""
        self._typed = ""
        self._at = 0
        self._top = 0
        self._leaving = False

    def compose(self) -> ComposeResult:
        """The frame, what is typed, the keys."""
        yield SheetView(self.view, id="sheet")
        with Horizontal(id="variant-input"):
            yield Static(id="variant-label")
            yield Input(id="variant-text", compact=True)
        yield KeyRow(id="sheet-keys")

    def on_mount(self) -> None:
        """Ask what would run."""
        self._read_input()
        super().on_mount()
        if self._had is not None:
            self._take(self._had, ())
            self.redraw()
        else:
            self._read()

    def _read(self) -> None:
        self._problem = None
        self.waits()
        self.run_worker(self._reading(), name="variant", exclusive=True, exit_on_error=False)
        self.redraw()

    async def _reading(self) -> None:
        changes = self.draft.changes if self.draft is not None else self._given
        self._plan = None
        try:
            plan = await self._operator.prepare(replace(self.wish, changes=()))
        except EagletuiError as error:
            self._problem = str(error)
        else:
            self._take(plan, changes)
        self.redraw()

    def _take(self, plan: Plan, changes: tuple[tuple[str, str | bool | tuple[str, ...] | None], ...]) -> None:
        self._plan = plan
        self.draft = None
        if plan.recipe is None:
            self._problem = (
                plan.refusals[0].text
                if plan.refusals
                else "It is not known what would run: there is neither a profile nor a server"
            )
            return
        try:
            draft = Draft(plan.recipe.shown_command, self._operator.known_flags(self.wish))
            draft.entries()
        except NotALaunchError:
            self._problem = "Its command is no server's that eagletui knows, so that its flags cannot be told apart"
            return
        for name, value in changes:
            try:
                draft = draft.with_(name, value)
            except BadChangeError as error:
                self._problem = str(error)
        self.draft = draft
        if draft.changes and not self._text:
            self._go_to(draft.changes[0][0])

    # --- rows

    @property
    def rows(self) -> list[Row]:
        """What the filter leaves: variants, flags, then what could be added."""
        draft = self.draft
        if draft is None:
            return []
        typed = (
            ""
            if self._editing is not None
            else self._text.strip().lstrip("-").partition("=")[0].replace("_", "-").lower()
        )
        found = [
            (far, Row("flag", one.name, one))
            for one in draft.entries()
            if (far := draft.distance(one.name, typed)) is not None
        ]
        found.sort(key=_distance)
        if typed:
            known = [
                (far, Row("known", name)) for name in draft.others() if (far := draft.distance(name, typed)) is not None
            ]
            known.sort(key=_distance)
            found += known[:SHOWN_KNOWN]
            found.sort(key=lambda one: one[0] > 0)  # the very name first, wherever it is from
            out = [row for _, row in found]
            names = {draft.key(row.name) for row in out}
            if draft.key(typed) not in names:
                out.append(Row("new", self._text.strip().lstrip("-").partition("=")[0]))
            return out
        out = [row for _, row in found]
        return [*(Row("variant", name) for name in self._variants), *out]

    @property
    def _variants(self) -> tuple[str, ...]:
        profile = self._profile
        names = self._operator.variants(profile) if profile else ()
        return ("", *names) if names else ()

    @property
    def _profile(self) -> str | None:
        recipe = self._plan.recipe if self._plan is not None else None
        return self.wish.profile or (recipe.profile if recipe is not None else None)

    @property
    def _variant(self) -> str | None:
        """The one that is in force."""
        recipe = self._plan.recipe if self._plan is not None else None
        return recipe.variant if recipe is not None else self.wish.variant

    @property
    def _text(self) -> str:
        found = next(iter(self.query("#variant-text").results(Input)), None)
        return found.value if found is not None else ""

    @property
    def row(self) -> Row | None:
        """The one under the cursor."""
        rows = self.rows
        return rows[max(0, min(self._at, len(rows) - 1))] if rows else None

    # --- what it shows

    def view(self, width: int, height: int) -> View:
        """The list, and what comes of it beside or below it."""
        title: Line = (("Change flags", "text bold"), (f"  on {clean(self._node)}", "dim"))
        draft = self.draft
        if draft is None:
            said_ = self._problem or f"Reading what would run on {self._node} …{self.waited}"
            lines: list[Line] = [((row, "error" if self._problem else "dim"),) for row in wrap(said(said_), width, 6)]
            return View(lines, title, border="error" if self._problem else "focus")
        wide = width >= TWO_COLUMNS_FROM
        left = width * 11 // 20 if wide else width
        beside = preview(draft, width - left - 3 if wide else width, wide=wide)
        room = height if wide else max(4, height - len(beside) - 1)
        listed = self._list(left, room)
        lines = [*listed]
        if wide:
            height_ = max(len(listed), min(height, len(beside)))
            lines = [
                (
                    *fit(listed[y] if y < len(listed) else EMPTY, left),
                    (" │ ", "border"),
                    *(beside[y] if y < len(beside) else EMPTY),
                )
                for y in range(height_)
            ]
        else:
            lines = [*listed, (("─" * width, "border"),), *beside][:height]
        return View(lines, title, self._summary(draft), self._foot(), border="warning" if self._leaving else "focus")

    def wanted_rows(self, width: int, height: int) -> int:  # noqa: ARG002 - a list that is filtered must not make the frame jump
        """All of it."""
        return height

    def _summary(self, draft: Draft) -> Line:
        signs = [sign_of(one) for one in draft.entries()]
        words = [
            f"{signs.count(sign)} {word}"
            for sign, word in (("~", "changed"), ("+", "added"), ("−", "removed"))
            if sign in signs
        ]
        return ((" · ".join(words) or "nothing changed", "warning" if words else "dim"),)

    def _foot(self) -> Line:
        if self._leaving:
            return (("what was changed would be lost: ", "warning"), ("esc", "key"), (" again leaves", "warning"))
        if self._problem:
            return ((cut(said(self._problem), max(10, self.size.width - 10)), "error"),)
        return EMPTY

    def _list(self, width: int, room: int) -> list[Line]:
        rows = self.rows
        self._at = max(0, min(self._at, len(rows) - 1))
        self._top = max(0, min(self._top, self._at, len(rows) - room), self._at - room + 1)
        names = [name_of(row) for row in rows]
        cells = min(NAME_CELLS, width // 2, max((len(name) for name in names), default=8) + 2)
        return [
            row_line(rows[y], names[y], self.draft, self._variant, cells, width, here=y == self._at)
            for y in range(self._top, min(len(rows), self._top + room))
        ]

    def keys(self) -> tuple[KeyHint, ...]:
        """What can be done now."""
        if self.draft is None:
            return (("esc", "leave", "leave"),)
        if self._editing is not None:
            return (("enter", "set", "enter"), ("ctrl+d", "remove", "remove"), ("esc", "as it was", "leave"))
        row = self.row
        word = (
            "choose"
            if row is not None and row.kind == "variant"
            else "add"
            if row is not None and row.kind != "flag"
            else "change"
        )
        return (
            ("enter", word, "enter"), ("ctrl+s", "plan", "plan"), ("ctrl+d", "remove", "remove"), ("ctrl+z", "undo", "undo"), ("tab", "complete", "complete"),
            ("esc", "clear" if self._text else "leave", "leave"),
        )  # fmt: skip

    def rows_below(self) -> int:
        """The row to type in."""
        return 1

    def redraw(self) -> None:
        """With the label before what is typed."""
        label = next(iter(self.query("#variant-label").results(Static)), None)
        if label is not None:
            word = f"{flag_word(self._editing)} = " if self._editing is not None else "find or add  "
            label.update(Content(" " + cut(word, 44)))
        super().redraw()

    # --- what is done

    def do(self, name: str) -> None:
        """A click."""
        getattr(self, f"action_{name}")()

    def _read_input(
        self, text: str = "", *, placeholder: str = "a flag's name, or flag=value", secret: bool = False
    ) -> None:
        found = self.query_one("#variant-text", Input)
        self._typed = text
        found.password = secret
        found.value = text
        found.placeholder = placeholder
        found.cursor_position = len(text)
        found.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter."""
        event.stop()
        if event.value == self._typed:
            return  # it was put there
        self._typed = event.value
        self._leaving, self._problem, self._bare = False, None if self.draft is not None else self._problem, ""
        if self._editing is None:
            self._at = self._top = 0
        self.redraw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.action_enter()

    def action_enter(self) -> None:
        """Change the value, choose the variant, add the flag; set what was typed."""
        self._leaving = False
        draft, row = self.draft, self.row
        if draft is None:
            return
        if self._editing is not None:
            self._set(draft, self._editing, self._text)
        elif "=" in self._text:
            _, _, value = self._text.partition("=")
            known = row is not None and row.kind != "new"  # the row under the cursor is what is meant, as in every list
            self._set_typed(draft, f"{row.name}={value}" if row is not None and known else self._text)
        elif row is not None and row.kind == "variant":
            self.wish = replace(self.wish, profile=self._profile, variant=row.name or None)
            self._read()
        elif row is not None:
            self._edit(draft, row)
        self.redraw()

    def _set_typed(self, draft: Draft, text: str) -> None:
        try:
            name, value = draft.understood(text)
            self._change(draft.with_(name, value))
        except BadChangeError as error:
            self._problem = str(error)
        else:
            self._show_flag(name)

    def _edit(self, draft: Draft, row: Row) -> None:
        try:
            name = draft.understood(row.name)[0]
            value = draft.value(name)
        except BadChangeError as error:
            self._problem = str(error)
            return
        if draft.is_switch(name):
            self._apply(draft, name, None if value is not None else True)
            self._show_flag(name)
            return
        secret = is_secret(name)
        text = "" if secret or value is None or isinstance(value, bool) else words_of(name, value) if value else ""
        self._editing, self._bare = name, ""
        self._read_input(
            text, placeholder="its value" if not secret else "its value, which is not shown", secret=secret
        )

    def _set(self, draft: Draft, name: str, text: str) -> None:
        if not text.strip():
            if self._bare == name:
                self._apply(draft, name, True)
                self._show_flag(name)
                return
            self._bare = name
            self._problem = (
                f"{flag_word(name)} without a value: enter again for a switch, ctrl+d removes it, esc leaves it"
            )
            return
        value: str | bool | tuple[str, ...] | None = "" if text.strip() in ('""', "''") else text
        now = draft.value(name)
        if isinstance(now, tuple) and isinstance(value, str):
            value = tuple(value.split())
        self._apply(draft, name, value)
        if self._problem is None:
            self._show_flag(name)

    def _apply(self, draft: Draft, name: str, value: str | bool | tuple[str, ...] | None) -> None:
        self._problem = None
        try:
            self._change(draft.with_(name, value))
        except BadChangeError as error:
            self._problem = str(error)

    def _change(self, draft: Draft) -> None:
        self.draft, self._problem = draft, None

    def _show_flag(self, name: str) -> None:
        """Back to the list, at that flag."""
        self._editing = None
        self._read_input()
        self._go_to(name)

    def _go_to(self, name: str) -> None:
        draft = self.draft
        if draft is not None:
            found = [
                at for at, row in enumerate(self.rows) if row.kind == "flag" and draft.key(row.name) == draft.key(name)
            ]
            self._at = found[0] if found else 0

    def _flag_here(self) -> str | None:
        if self._editing is not None:
            return self._editing
        row = self.row
        return row.name if row is not None and row.kind == "flag" else None

    def action_remove(self) -> None:
        """This flag goes, or comes back."""
        draft, name = self.draft, self._flag_here()
        if draft is None or name is None:
            return
        if draft.value(name) is None:
            self._change(draft.without(name))
        else:
            self._apply(draft, name, None)
        if self._editing is not None:
            self._show_flag(name)
        self.redraw()

    def action_undo(self) -> None:
        """This flag as it was; where the cursor is on none that was changed, the one that was changed last."""
        draft, name = self.draft, self._flag_here()
        if draft is None or self._editing is not None or not draft.changes:
            return
        changed = {draft.key(one) for one, _ in draft.changes}
        if name is None or draft.key(name) not in changed:
            name = draft.changes[-1][0]
        self._change(draft.without(name))
        self._go_to(name)
        self.redraw()

    def action_complete(self) -> None:
        """The name under the cursor."""
        row = self.row
        if row is not None and self._editing is None and row.kind in ("flag", "known") and self._text:
            self._read_input(row.name)

    def action_walk(self, step: int) -> None:
        """Another row."""
        if self._editing is None:
            self._leaving = False
            self._at = max(0, min(len(self.rows) - 1, self._at + step))
            self.redraw()

    def action_plan(self) -> None:
        """On with it: the plan shows what will be done."""
        draft = self.draft
        if draft is None:
            return
        if self._is_editing():
            self.action_enter()
            if self._is_editing():
                return  # what is typed cannot be set
            draft = self.draft or draft
        self.dismiss(replace(self.wish, changes=draft.changes))

    def _is_editing(self) -> bool:
        return self._editing is not None

    def action_leave(self) -> None:
        """The value as it was; the filter away; then out, at the second press where something was changed."""
        if self._editing is not None:
            name, self._editing = self._editing, None
            self._problem = None
            self._show_flag(name)
        elif self._text:
            self._read_input()
        elif self.draft is not None and self.draft.changes and not self._leaving:
            self._leaving = True
        else:
            self.dismiss(None)
            return
        self.redraw()

    def on_sheet_view_clicked(self, event: SheetView.Clicked) -> None:
        """A row: the cursor, and at the second click as Enter."""
        at = self._top + event.row
        if self._editing is None and 0 <= at < len(self.rows):
            again = at == self._at
            self._at = at
            if again:
                self.action_enter()
            self.redraw()


def _distance(found: tuple[int, Row]) -> int:
    return found[0]
