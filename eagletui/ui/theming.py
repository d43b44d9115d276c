"""Themes as TOML: `name`, `description`, `dark`, `ansi`, and a table `[colors]` with a colour for each role.

Roles: background, bar (status line and footer), text, dim (secondary), faint (time stamps), border, focus (border of the pane with the keys),
accent (what lives), key (what can be pressed), ok, warning, error, util and memory (the two GPU bars), others (other users' memory),
track (the empty part of a bar), chart, spark, on-state (words on a coloured block), selection. A missing role is taken from the default
theme. `ansi = true` uses the terminal's own colours (`ansi_blue`, `ansi_default`, …) as they are.
A file that cannot be used is told once in `problems` and skipped.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.theme import Theme as TextualTheme

DEFAULT_THEME = "eagle-night"
MAX_BYTES = 64 * 1024
"""A theme is a page of text; more is a mistake, not a theme."""
BUILT_IN: dict[str, str] = {
    "background": "#0b0e14", "bar": "#0f1723", "text": "#d5dbe5", "dim": "#7d8899", "faint": "#465061", "border": "#364257",
    "focus": "#5c6f8c", "accent": "#5ab0f6", "key": "#e8b255", "ok": "#5fd38d", "warning": "#f0b14a", "error": "#f7686f",
    "util": "#57b1f2", "memory": "#a68af0", "others": "#e58fb1", "track": "#222b39", "chart": "#57b1f2", "spark": "#4f5c72",
    "on-state": "#0b0e14", "selection": "#1c2a3f",
}  # fmt: skip
"""The colours of the default theme, so that there is one even without its file."""


@dataclass(frozen=True, slots=True)
class Theme:
    """A theme as read. `colors` has every role."""

    name: str
    description: str = ""
    dark: bool = True
    ansi: bool = False
    colors: Mapping[str, str] = field(default_factory=lambda: dict(BUILT_IN))


@dataclass(frozen=True, slots=True)
class Found:
    """Themes, the default first, and a sentence for each file that was skipped."""

    themes: tuple[Theme, ...]
    problems: tuple[str, ...] = ()

    def get(self, name: str | None) -> Theme | None:
        """The theme of this name."""
        return next((t for t in self.themes if t.name == name), None)


def folders() -> list[Path]:
    """Where themes lie: with the package (an installed wheel, else beside it in a checkout), then the user's own, which win."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_themes"
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return [shipped if shipped.is_dir() else package.parent / "themes", Path(config) / "eagletui" / "themes"]


def load_themes(where: Iterable[Path] | None = None) -> Found:
    """Read every `*.toml`; never raises. A later folder's theme replaces one of the same name."""
    themes: dict[str, Theme] = {DEFAULT_THEME: Theme(DEFAULT_THEME, "dark, calm; the default")}
    problems: list[str] = []
    for folder in folders() if where is None else where:
        try:
            files = sorted(folder.glob("*.toml"))
        except OSError:
            continue
        for path in files:
            try:
                theme = read_theme(path)
            except (OSError, ValueError) as error:
                problems.append(f"theme {path} was skipped: {error}")
            else:
                themes[theme.name] = theme
    return Found(tuple(themes.values()), tuple(problems))


def read_theme(path: Path) -> Theme:
    """One file. Raises OSError, or ValueError with a sentence."""
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ValueError("it is larger than 64 KiB")
    data = tomllib.loads(raw.decode("utf-8"))  # both errors are ValueErrors
    colors = data.get("colors", {})
    if not isinstance(colors, dict):
        raise ValueError("`colors` is not a table")  # noqa: TRY004 - one kind of error for a bad file
    unknown = sorted(set(colors) - set(BUILT_IN))
    if unknown:
        raise ValueError(f"unknown role `{unknown[0]}`; roles are {', '.join(BUILT_IN)}")
    name = data.get("name", path.stem)
    if not isinstance(name, str) or not name.isprintable() or not name:
        raise ValueError("`name` is not a name")
    for role, color in colors.items():
        _check_color(role, color)
    return Theme(
        name,
        _words(data.get("description")),
        bool(data.get("dark", True)),
        bool(data.get("ansi", False)),
        {**BUILT_IN, **colors},
    )


def _words(value: object) -> str:
    return value if isinstance(value, str) else ""


def _check_color(role: str, color: object) -> None:
    from textual.color import Color, ColorParseError

    try:
        Color.parse(str(color))
    except ColorParseError:
        raise ValueError(f"`{role}` = {color!r} is no colour") from None


def variables(theme: Theme) -> dict[str, str]:
    """Our roles as theme variables, and Textual's own where its default would not fit."""
    c = theme.colors
    ours = {f"eagle-{role}": color for role, color in c.items()}
    return ours | {
        # Over the screen, under a dialog; a colour of the terminal cannot be mixed.
        "eagle-veil": "transparent" if theme.ansi else f"{c['background']} 55%",
        # Less important words of a list, which must be seen on the chosen row's ground, too: sixteen colours have one grey.
        "eagle-aside": c["text"] if theme.ansi else c["dim"],
        "ansi-background": "ansi_black" if theme.dark else "ansi_white",
        "ansi-foreground": "ansi_white" if theme.dark else "ansi_black",
        "border": c["focus"],
        "border-blurred": c["border"],
        "block-cursor-background": c["selection"],
        "block-cursor-foreground": c["text"],
        "block-cursor-text-style": "bold",
        "input-cursor-background": c["text"],
        "input-cursor-foreground": c["background"],
        "scrollbar": c["border"],
        "scrollbar-hover": c["focus"],
        "scrollbar-active": c["focus"],
        "scrollbar-background": c["background"],
        "scrollbar-background-hover": c["background"],
        "scrollbar-background-active": c["background"],
        "scrollbar-corner-color": c["background"],
    }


def to_textual(theme: Theme) -> TextualTheme:
    """Textual's theme object for ours."""
    from textual.theme import Theme as TextualTheme

    c = theme.colors
    return TextualTheme(
        name=theme.name, primary=c["accent"], secondary=c["dim"], accent=c["key"], warning=c["warning"], error=c["error"], success=c["ok"],
        foreground=c["text"], background=c["background"], surface=c["background"], panel=c["bar"], boost=c["bar"], dark=theme.dark,
        ansi=theme.ansi, variables=variables(theme),
    )  # fmt: skip
