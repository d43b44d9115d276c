"""`explain` for a person: a compact report with the timeline and, where something failed, the card."""

from __future__ import annotations

from eagletui.logs.explain import Explanation


def explain_text(told: Explanation, name: str) -> str:
    """The report."""
    return f"{name}: {told.lines} lines {told.worst}"
