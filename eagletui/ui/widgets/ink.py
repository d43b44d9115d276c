"""Colours by role. A span names what it means ("ok", "dim bold", "error block"); the theme says how that looks."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color, ColorParseError

ROLES = (
    "background", "bar", "text", "dim", "faint", "border", "focus", "accent", "key", "ok", "warning", "error", "util", "memory", "others",
    "track", "chart", "spark", "on-state", "selection",
)  # fmt: skip
"""Every role a theme gives a colour to; the theme variable of `dim` is `$eagle-dim`."""
PREFIX = "eagle-"


class Ink:
    """Rich styles by role for one theme. A role may be followed by words: `bold`, `italic`, `underline`, `block` (a filled word), `on-bar`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._colors = {role: _parse(variables.get(PREFIX + role)) for role in ROLES}
        self._styles: dict[str, Style] = {}

    def style(self, role: str) -> Style:
        """The style of a role with its words; an unknown role is plain text."""
        style = self._styles.get(role)
        if style is None:
            style = self._styles[role] = self._make(role)
        return style

    def _make(self, role: str) -> Style:
        name, *words = role.split()
        color = self._colors.get(name) or self._colors["text"]
        rich = color.rich_color if color else None
        bold = "bold" in words or None
        if "block" in words:
            ground = self._colors["on-state"]
            return Style(color=ground.rich_color if ground else None, bgcolor=rich, bold=True)
        back = next((self._colors.get(w[3:]) for w in words if w.startswith("on-")), self._colors["background"])
        return Style(
            color=rich, bgcolor=back.rich_color if back else None, bold=bold, italic="italic" in words or None,
            underline="underline" in words or None,
        )  # fmt: skip


def _parse(text: str | None) -> Color | None:
    if text is None:
        return None
    try:
        return Color.parse(text)
    except ColorParseError:
        return None
