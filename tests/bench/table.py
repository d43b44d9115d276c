"""What every budget script prints: a row a budget, its figure, its verdict; and the exit status that follows from them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import NamedTuple


class Row(NamedTuple):
    """`verdict`: ok, MISSED, not yet (the feature does not exist; no miss), told (no budget of its own)."""

    name: str
    figure: str
    budget: str
    verdict: str


@dataclass(slots=True)
class Table:
    """The rows so far. What stands in brackets of a unit is told with the figure only. A figure of None is a measurement that got no answer: a miss."""

    rows: list[Row] = field(default_factory=list)

    def at_most(self, name: str, figure: float | None, unit: str, budget: float, digits: int = 2) -> None:
        """A figure with an upper limit."""
        self._add(
            name,
            figure,
            unit,
            f"<= {budget:g} {unit.partition('(')[0].rstrip()}",
            digits,
            met=figure is not None and figure <= budget,
        )

    def at_least(self, name: str, figure: float | None, unit: str, budget: float, digits: int = 2) -> None:
        """A figure with a lower limit."""
        self._add(
            name,
            figure,
            unit,
            f">= {budget:g} {unit.partition('(')[0].rstrip()}",
            digits,
            met=figure is not None and figure >= budget,
        )

    def told(self, name: str, figure: str) -> None:
        """A baseline, or something to know beside a figure."""
        self.rows.append(Row(name, figure, "", "told"))

    def not_yet(self, name: str, why: str) -> None:
        """Its feature does not exist, or it cannot be measured here."""
        self.rows.append(Row(name, why, "", "not yet"))

    def _add(self, name: str, figure: float | None, unit: str, budget: str, digits: int, *, met: bool) -> None:
        shown = "no answer" if figure is None else f"{figure:.{digits}f} {unit}"
        self.rows.append(Row(name, shown, budget, "ok" if met else "MISSED"))

    def show(self) -> int:
        """Print it; the exit status: 1 when a budget was missed."""
        widths = [max((len(row[column]) for row in self.rows), default=0) for column in range(3)]
        for row in self.rows:
            cells = [f"{text:<{width}}" for text, width in zip(row, widths, strict=False)]
            sys.stdout.write(f"{'  '.join(cells)}  {row.verdict}\n")
        sys.stdout.flush()
        return 1 if any(row.verdict == "MISSED" for row in self.rows) else 0
