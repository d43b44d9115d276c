"""What is going to be done, before it is done: the plan is looked up, its checks come in, and it goes when everything that is asked was answered."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.widgets import Input

from eagletui.errors import EagletuiError
from eagletui.launching.operator import Operator
from eagletui.launching.plan import Plan, Question, Wish
from eagletui.ui.screens.plan_rows import KIND_WORDS, Shown, plan_rows, said, summary_words
from eagletui.ui.screens.sheet import Keys, Sheet, SheetView
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.key_row import KeyHint, KeyRow
from eagletui.ui.widgets.lines import Line, clean, wrap


class Decision(NamedTuple):
    """`go`: begin this plan; else its flags are to be edited."""

    plan: Plan
    go: bool


class PlanScreen(Sheet[Decision | None]):
    """Gives what was decided, or None when it was left. `wall`: the time now, for the times of day in it."""

    BINDINGS: ClassVar[list[Keys]] = [
        ("enter", "go", "go"), ("y", "yes", "go"), ("escape,q", "leave", "leave"), ("n", "no", "no"), ("a", "again", "all the same"),
        ("R", "edit", "edit flags"), ("f", "unfold", "the command"),
    ]  # fmt: skip

    def __init__(self, operator: Operator, wish: Wish, node: str, wall: float) -> None:
        super().__init__()
        self.wish = wish
        self._operator = operator
        self._node = node
        self._wall = wall
        self.plan: Plan | None = None
        self._checking = False
        self._problem: str | None = None
        self._unfolded = False
        self._armed = False
        self._asking: int | None = None

    def compose(self) -> ComposeResult:
        """The frame, a row to type in when a word is asked for, the keys."""
        yield SheetView(self.view, id="sheet")
        typed = Input(id="typed", compact=True)
        typed.display = False
        yield typed
        yield KeyRow(id="sheet-keys")

    def on_mount(self) -> None:
        """Look, at once."""
        super().on_mount()
        self._look()

    def _look(self) -> None:
        self.plan, self._problem, self._armed, self._asking = None, None, False, None
        self.waits()
        self.redraw()
        self.run_worker(self._looking(), name="plan", exclusive=True, exit_on_error=False)

    async def _looking(self) -> None:
        try:
            self.plan = await self._operator.prepare(self.wish)
            self._checking = not self.plan.refused
            self.waits()
            self.redraw()
            if self._checking:
                self.plan = await self._operator.check(self.plan)
        except EagletuiError as error:
            self._problem = str(error)
        finally:
            self._checking = False
        self.redraw()
        if self._armed and self.plan is not None and self._problem is None:
            self._armed = False
            if all(check.result == "ok" for check in self.plan.checks or ()):
                self._next_question(0)
            self.redraw()

    # --- what it shows

    def view(self, width: int, height: int) -> View:
        """The plan, or that it is looked up."""
        title: Line = ((f"{KIND_WORDS[self.wish.kind]} on {clean(self._node)}", "text bold"),)
        plan = self.plan
        rows: list[Line] = []
        if self._problem is not None:
            rows += [((row, "error"),) for row in wrap(said(self._problem), width, 6)]
            rows.append((("enter", "key"), (" looks again", "dim")))
        elif plan is None:
            rows.append(((f"Looking at {clean(self._node)} …{self.waited}", "dim"),))
        if plan is not None:
            shown = Shown(self._wall, self._unfolded, self._checking, self._asking, self.waited)
            rows += plan_rows(plan, shown, width, height - len(rows))
        summary = summary_words(plan, checking=self._checking)
        border = "error" if self._problem or (plan is not None and not self.may_go) else "focus"
        below = len(rows) - height - self.sheet.offset_y
        foot: Line = ((f"↓ {below} more", "key"),) if below > 0 else ()
        if self._armed:
            foot = (("goes when every check has passed", "warning"),)
        return View(rows, title, summary, foot, border=border)

    @property
    def may_go(self) -> bool:
        """Nothing known speaks against it."""
        plan = self.plan
        return plan is not None and not plan.refused and not any(one.result == "fail" for one in plan.checks or ())

    @property
    def question(self) -> Question | None:
        """The one that is asked now."""
        plan = self.plan
        return None if plan is None or self._asking is None else plan.questions[self._asking]

    def keys(self) -> tuple[KeyHint, ...]:
        """What can be done now."""
        plan = self.plan
        question = self.question
        if question is not None:
            yes = ("enter", "when it is typed", "typed") if question.typed is not None else ("y", "yes", "yes")
            return (yes, *(() if question.typed is not None else (("n", "no", "no"),)), ("esc", "leave", "leave"))
        out: list[KeyHint] = []
        if plan is None or self._problem is not None:
            return (*([("enter", "look again", "go")] if self._problem else []), ("esc", "leave", "leave"))
        if self.may_go:
            out.append(("enter", KIND_WORDS[self.wish.kind].lower(), "go"))
        elif not plan.refused:
            out.append(("enter", "check again", "go"))
        if any(one.again for one in plan.refusals) and not plan.wish.again:
            out.append(("a", "all the same", "again"))
        if plan.recipe is not None:
            out += [("R", "change flags", "edit"), ("f", "fold" if self._unfolded else "whole command", "unfold")]
        return (*out, ("esc", "leave", "leave"))

    def rows_below(self) -> int:
        """The row to type in."""
        return 1 if self.question is not None and self.question.typed is not None else 0

    # --- what is done

    def do(self, name: str) -> None:
        """A click."""
        if name == "typed":
            self._check_typed(self.query_one(Input).value)
        else:
            getattr(self, f"action_{name}")()

    def action_go(self) -> None:
        """Enter: begin, ask, or look again. It is no answer to a question."""
        if self._problem is not None or (self.plan is not None and not self.plan.refused and not self.may_go):
            self._look()
        elif self.plan is None or self.question is not None:
            return
        elif self.plan.refused:
            self._say("It is not done: " + self.plan.refusals[0].text)
        elif self._checking:
            self._armed = True
            self.redraw()
        else:
            self._next_question(0)

    def action_yes(self) -> None:
        """To the question, or to the plan."""
        if self._asking is None:
            self.action_go()
        elif self.question is not None and self.question.typed is None:
            self._next_question(self._asking + 1)

    def action_no(self) -> None:
        """Nothing is done."""
        self.dismiss(None)

    def action_leave(self) -> None:
        """Nothing is done; what was only armed is taken back first."""
        if self._armed:
            self._armed = False
            self.redraw()
            return
        self.dismiss(None)

    def action_again(self) -> None:
        """It was refused as of no help, and is done all the same."""
        if self.plan is not None and any(one.again for one in self.plan.refusals) and not self.wish.again:
            self.wish = replace(self.wish, again=True)
            self._look()

    def action_edit(self) -> None:
        """Other flags."""
        if self.plan is not None and self.plan.recipe is not None and self.question is None:
            self.dismiss(Decision(self.plan, go=False))

    def action_unfold(self) -> None:
        """The whole command, or only what differs."""
        self._unfolded = not self._unfolded
        self.redraw()

    def _next_question(self, at: int) -> None:
        plan = self.plan
        if plan is None or plan.refused:
            return
        if at >= len(plan.questions):
            self.dismiss(Decision(plan, go=True))
            return
        self._asking = at
        typed = self.query_one(Input)
        typed.display = plan.questions[at].typed is not None
        if typed.display:
            typed.value = ""
            typed.placeholder = clean(plan.questions[at].typed or "")
            typed.focus()
        else:
            self.set_focus(None)
        self.redraw()
        self.call_after_refresh(self._show_last)  # once the row to type in has taken its place

    def _show_last(self) -> None:
        self.redraw()
        self.sheet.scroll_lines(1000)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The word."""
        event.stop()
        self._check_typed(event.value)

    def _check_typed(self, value: str) -> None:
        question, at = self.question, self._asking
        if question is None or at is None:
            return
        if value.strip() == question.typed:
            self._next_question(at + 1)
        elif value.strip():
            self._say(f"That is not {question.typed}. Nothing was done yet.")

    def _say(self, text: str) -> None:
        self.app.notify(said(text), markup=False, severity="warning")
