"""A sheet over the history, which is read and written beside the loop: a folder in the network may hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from eagletui.errors import EagletuiError
from eagletui.monitor.aside import aside
from eagletui.ui.ledger import Compared, Kept, Ledger, RunEntry
from eagletui.ui.screens.plan_rows import said
from eagletui.ui.screens.sheet import Sheet

T = TypeVar("T")
FOLLOWED_S = 3.0
"""While a sweep goes on."""
READ_S = 10.0
"""Longer than SQLite waits for others, with its tries; then it is told."""


class LedgerSheet(Sheet[T]):
    """`kept` None: it was not read yet; `problem`: why not."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.kept: Kept | None = None
        self.problem: str | None = None

    def on_mount(self) -> None:
        """See Sheet."""
        super().on_mount()
        self.set_interval(FOLLOWED_S, self.follow)

    def reload(self) -> None:
        """Look again: a run ended, or something was written."""
        self.run_worker(self._looking(), name="history", exclusive=True, exit_on_error=False)

    def follow(self) -> None:
        """A sweep goes on without this screen."""
        if self.kept is not None and self.kept.sweep:
            self.reload()

    async def _looking(self) -> None:
        try:
            self.kept = await aside(self.ledger.look, READ_S)
            self.problem = None
        except EagletuiError as error:
            self.problem = said(str(error))
        except TimeoutError:
            self.problem = f"The history did not answer within {READ_S:.0f} s."
        self.redraw()

    def write(self, work: Callable[[], None], told: str) -> None:
        self.run_worker(self._writing(work, told), name="history-write", exit_on_error=False)

    async def _writing(self, work: Callable[[], None], told: str) -> None:
        try:
            await aside(work, READ_S)
        except EagletuiError as error:
            self.say(said(str(error)), severity="error")
        except TimeoutError:
            self.say(f"It was not written: the history did not answer within {READ_S:.0f} s.", severity="error")
        else:
            self.say(told)
            await self._looking()

    async def comparing(self, a: RunEntry, b: RunEntry) -> Compared | None:
        """B held against A; None where that was said to be impossible."""
        try:
            return await aside(lambda: self.ledger.compare(a, b), READ_S)
        except EagletuiError as error:
            self.say(said(str(error)), severity="error")
        except TimeoutError:
            self.say(f"The history did not answer within {READ_S:.0f} s.", severity="error")
        return None

    def say(self, text: str, *, severity: Literal["information", "warning", "error"] = "information") -> None:
        """A notice."""
        self.app.notify(text, markup=False, severity=severity)
