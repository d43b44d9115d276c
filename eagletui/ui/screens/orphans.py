"""Processes of an engine without a server: what they hold, and which of them to end. Exactly those that were chosen, after a second key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eagletui.monitor.snapshot import Snapshot
from eagletui.servers.family import Identity
from eagletui.servers.model import Orphan
from eagletui.shell.masking import mask_text
from eagletui.ui import format as fmt
from eagletui.ui.screens.sheet import Keys, Sheet, SheetView
from eagletui.ui.widgets.frame import View
from eagletui.ui.widgets.key_row import KeyHint
from eagletui.ui.widgets.lines import EMPTY, Line, clean, cut, marked, width_of, wrap

HEAD_ROWS = 2
"""Rows above the list: its header and a blank one."""
PID_CELLS, AGE_CELLS, MEMORY_CELLS, GPU_CELLS = 9, 11, 7, 6
MOST_USER_CELLS = 18
FEWEST_NAME_CELLS = 12


@dataclass(frozen=True, slots=True)
class Held:
    """An orphan, and the GPU memory it holds (None: the tool does not say) on which GPUs."""

    orphan: Orphan
    mem_mib: int | None
    gpus: tuple[int, ...]

    @property
    def identity(self) -> Identity:
        """(pid, start ticks)."""
        return self.orphan.process.pid, self.orphan.process.started


def held_by(snapshot: Snapshot) -> tuple[Held, ...]:
    """Every orphan with what it holds, those that hold most first."""
    out: list[Held] = []
    for orphan in snapshot.inventory.orphans:
        found = [
            (gpu.index, process.mem_mib)
            for gpu in snapshot.gpus.report.gpus
            for process in gpu.processes
            if process.pid == orphan.process.pid
        ]
        known = [mib for _, mib in found if mib is not None]
        out.append(Held(orphan, sum(known) if known else None, tuple(sorted({index for index, _ in found}))))
    return tuple(sorted(out, key=lambda one: (-(one.mem_mib or 0), one.orphan.process.pid)))


class OrphanScreen(Sheet[tuple[Orphan, ...] | None]):
    """Gives the orphans to end, or None. `fixed`: why nothing can be ended here."""

    BINDINGS: ClassVar[list[Keys]] = [
        ("escape,q", "leave", "leave"), ("up", "walk(-1)", ""), ("down", "walk(1)", ""), ("space,enter", "choose", ""), ("a", "all", ""),
        ("e", "end", ""), ("y", "confirm", ""), ("n", "leave", ""),
    ]  # fmt: skip

    def __init__(self, snapshot: Snapshot, fixed: str | None) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._fixed = fixed
        self._at = 0
        self._chosen: set[Identity] = set()
        self._asking: tuple[Identity, ...] = ()
        """What is being confirmed; it does not change under the question."""

    def show(self, snapshot: Snapshot, now: float) -> None:
        """The node goes on while the list is open; a choice stays with its process."""
        held = self._held
        before = held[self._at].identity if self._at < len(held) else None
        self._snapshot = snapshot
        there = [one.identity for one in self._held]
        self._at = there.index(before) if before in there else max(0, min(self._at, len(there) - 1))
        self._chosen &= set(there)
        if set(self._asking) - set(there):
            self._asking = ()
        super().show(snapshot, now)
        self.redraw()

    @property
    def _held(self) -> tuple[Held, ...]:
        return held_by(self._snapshot)

    def _may(self, one: Held) -> bool:
        return self._fixed is None and one.orphan.ours

    def view(self, width: int, height: int) -> View:  # noqa: ARG002 - as every sheet
        """The list, and what is asked."""
        held = self._held
        title: Line = (("Processes without a server", "text bold"), (f"  on {clean(self._snapshot.node)}", "dim"))
        if not held:
            return View([(("None is left.", "dim"),)], title)
        user_cells = min(MOST_USER_CELLS, max(4, *(len(clean(one.orphan.user or "")) for one in held)) + 2)
        name_cells = max(FEWEST_NAME_CELLS, width - 4 - PID_CELLS - user_cells - AGE_CELLS - MEMORY_CELLS - GPU_CELLS)
        name_cells = min(name_cells, max(4, *(len(clean(one.orphan.name)) for one in held)) + 2)
        head = f"    {'pid':>{PID_CELLS - 2}}  {'name':<{name_cells}}{'user':<{user_cells}}{'age':>{AGE_CELLS - 2}}  {'GiB':>{MEMORY_CELLS}}  GPU"
        lines: list[Line] = [((head, "faint"),)]
        lines += [self._row(one, at == self._at, name_cells, user_cells, width) for at, one in enumerate(held)]
        lines += [EMPTY, *self._below(held, width)]
        summary: Line = ((f"{fmt.gib(sum(one.mem_mib or 0 for one in held))} GiB of GPU memory", "warning"),)
        if all(one.mem_mib is None for one in held):
            summary = EMPTY
        return View(lines, title, summary, border="warning" if self._asking else "focus")

    def _row(self, one: Held, here: bool, name_cells: int, user_cells: int, width: int) -> Line:
        orphan, may = one.orphan, self._may(one)
        sign = ("✓ " if one.identity in self._chosen else "  ", "error bold") if may else ("– ", "faint")
        role = "text" if may else "faint"
        gpus = ",".join(map(str, one.gpus)) or fmt.UNKNOWN
        name = cut(clean(mask_text(orphan.name)), name_cells - 1).ljust(name_cells)
        user = cut(clean(orphan.user or fmt.UNKNOWN), user_cells - 1).ljust(user_cells)
        line: Line = (
            ("▸ " if here else "  ", "accent bold"), sign, (f"{orphan.process.pid:>{PID_CELLS - 2}}  ", "dim"), (name, role),
            (user, role if orphan.ours else "others"), (f"{fmt.duration(orphan.age_s):>{AGE_CELLS - 2}}  ", "dim"),
            (f"{fmt.gib(one.mem_mib):>{MEMORY_CELLS}}", role), (f"  {gpus}", "dim"),
        )  # fmt: skip
        if not orphan.ours and width_of(line) + len("  not yours") <= width:
            line = (*line, ("  not yours", "others"))
        return marked(line, width) if here else line

    def _below(self, held: tuple[Held, ...], width: int) -> list[Line]:
        if self._asking:
            pids = ", ".join(str(pid) for pid, _ in self._asking)
            text = f"End exactly {fmt.plural(len(self._asking), 'process', 'processes')} (pid {pids})? It cannot be undone."
            return [((row, "warning bold"),) for row in wrap(text, width, 4)]
        if self._fixed is not None:
            return [((row, "dim"),) for row in wrap(self._fixed, width, 3)]
        text = "They look like an engine's and belong to no server; a server may just be starting or ending."
        if any(not one.orphan.ours for one in held):
            text += " Another user's are never ended from here."
        return [((row, "dim"),) for row in wrap(text, width, 3)]

    def keys(self) -> tuple[KeyHint, ...]:
        """What can be done now."""
        if self._asking:
            return (("y", "end them", "confirm"), ("n", "no", "leave"), ("esc", "back", "leave"))
        out: list[KeyHint] = []
        if any(self._may(one) for one in self._held):
            out += [("space", "choose", "choose"), ("a", "all of yours", "all")]
        if self._chosen:
            out.append(("e", f"end {len(self._chosen)}", "end"))
        return (*out, ("esc", "leave", "leave"))

    def do(self, name: str) -> None:
        """A click."""
        getattr(self, f"action_{name}")()

    def action_walk(self, step: int) -> None:
        """The next row."""
        if not self._asking:
            self._at = max(0, min(len(self._held) - 1, self._at + step))
            self._keep_in_sight()

    def _keep_in_sight(self) -> None:
        row, page = self._at + 1, max(1, self.sheet.size.height - 2)
        if row < self.sheet.offset_y + 1:
            self.sheet.offset_y = max(0, row - 1)
        elif row >= self.sheet.offset_y + page:
            self.sheet.offset_y = row - page + 1
        self.redraw()

    def action_choose(self) -> None:
        """This one, or not."""
        held = self._held
        if self._asking or self._at >= len(held):
            return
        one = held[self._at]
        if not self._may(one):
            why = (
                self._fixed
                or f"Process {one.orphan.process.pid} is {one.orphan.user or 'somebody else'}'s: it is never ended from here."
            )
            self.app.notify(clean(why), markup=False, severity="warning")
            return
        self._chosen ^= {one.identity}
        self.redraw()

    def action_all(self) -> None:
        """All that may be, or none."""
        able = {one.identity for one in self._held if self._may(one)}
        if not self._asking:
            self._chosen = set() if self._chosen == able else able
            self.redraw()

    def action_end(self) -> None:
        """Ask."""
        if self._chosen and not self._asking:
            self._asking = tuple(one.identity for one in self._held if one.identity in self._chosen)
            self.redraw()
            self.sheet.scroll_lines(1000)

    def action_confirm(self) -> None:
        """Yes."""
        if self._asking:
            self.dismiss(tuple(one.orphan for one in self._held if one.identity in self._asking and self._may(one)))

    def action_leave(self) -> None:
        """Back to the list, or out."""
        if self._asking:
            self._asking = ()
            self.redraw()
        else:
            self.dismiss(None)

    def on_sheet_view_clicked(self, event: SheetView.Clicked) -> None:
        """A row: choose it."""
        at = event.row - 1
        if 0 <= at < len(self._held) and not self._asking:
            self._at = at
            self.action_choose()
