"""The rows of the editor of flags: variants, flags, what could be added, and what comes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagletui.ui.screens.draft import Draft, Entry, words_of
from eagletui.ui.screens.plan_rows import diff_rows, flag_word, said, shown_words
from eagletui.ui.widgets.lines import EMPTY, Line, clean, cut, marked, width_of, wrap

COMMAND_ROWS = 30
PREVIEW_ROWS = 5
"""Of the command below the list, where there is no room beside it."""
_ROLES = {"+": "ok", "−": "error", "~": "warning", " ": "faint"}
Kind = Literal["variant", "flag", "known", "new"]


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that can be chosen: a variant, a flag, a name that could be added (known to be one, or new)."""

    kind: Kind
    name: str
    entry: Entry | None = None


def sign_of(entry: Entry) -> str:
    """+ added, − removed, ~ changed, a blank for what stays."""
    if not entry.changed:
        return " "
    return "+" if entry.before is None else "−" if entry.after is None else "~"


def name_of(row: Row) -> str:
    """What stands in the first column."""
    return "variant" if row.kind == "variant" else flag_word(row.name)


def row_line(
    row: Row, name: str, draft: Draft | None, variant: str | None, cells: int, width: int, *, here: bool
) -> Line:
    """One row; `here`: the cursor is on it."""
    head: Line = (("▸ " if here else "  ", "accent bold"),)
    if row.kind == "variant":
        chosen = (variant or "") == row.name
        what = ("● " if chosen else "○ ") + (clean(row.name) or "the profile as it is")
        line: Line = (*head, ("  ", "faint"), (name.ljust(cells), "dim"), (what, "accent" if chosen else "text"))
    elif row.entry is None:
        what = "a switch" if draft is not None and draft.is_switch(row.name) else "add it"
        what = what if row.kind == "known" else "not known to us; add it all the same"
        line = (*head, ("+ ", "faint"), (cut(name, width - 4).ljust(cells), "dim"), (f" {what}", "faint"))
    else:
        line = (*head, *_entry(row.entry, name, cells, width - 4))
    return marked(line, width) if here else line


def _entry(entry: Entry, name: str, cells: int, width: int) -> Line:
    sign = sign_of(entry)
    before, after = said(words_of(entry.name, entry.before)), said(words_of(entry.name, entry.after))
    head: Line = (
        (f"{sign} ", _ROLES[sign]),
        (cut(name, cells - 1).ljust(cells), "text" if entry.after is not None else "faint"),
    )
    room = max(6, width - cells)
    if not entry.changed:
        return (*head, (cut(after, room), "text"))
    if entry.after is None:
        return (*head, (cut(before, room - 9), "faint"), ("  removed", "error"))
    if entry.before is None:
        return (*head, (cut(after, room), "text bold"))
    was = cut(before, max(3, (room - 3) // 2))
    return (*head, (was, "dim"), (" → ", "warning"), (cut(after, room - width_of([(was, "")]) - 3), "text bold"))


def preview(draft: Draft, width: int, *, wide: bool) -> list[Line]:
    """What differs and the command; without room only the command."""
    command = shown_words(draft.command)
    if not wide:
        return [((row, "dim"),) for row in wrap(command, width, PREVIEW_ROWS)]
    changes = draft.differences()
    lines: list[Line] = (
        [(("what differs", "dim"),), *diff_rows(changes, width)] if changes else [(("nothing differs yet", "dim"),)]
    )
    return [*lines, EMPTY, (("the command", "dim"),), *(((row, "text"),) for row in wrap(command, width, COMMAND_ROWS))]
