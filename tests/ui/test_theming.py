"""Themes: all that ship work, a broken one is told and skipped, words can be read on their ground."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color

from eagletui.ui import theming
from eagletui.ui.actions import ACTIONS, BY_ID, bindings, keymap_problem
from eagletui.ui.widgets.ink import ROLES, Ink

SHIPPED = theming.load_themes([theming.folders()[0]])


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def luminance(color: str) -> float:
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in Color.parse(color).normalized]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_what_ships() -> None:
    assert not SHIPPED.problems
    assert SHIPPED.themes[0].name == theming.DEFAULT_THEME
    assert {"eagle-night", "eagle-day", "eagle-contrast", "terminal"} <= {t.name for t in SHIPPED.themes}
    assert all(t.description for t in SHIPPED.themes)


def test_the_built_in_colours_are_those_of_the_default_file() -> None:
    shipped = SHIPPED.get(theming.DEFAULT_THEME)
    assert shipped is not None
    assert dict(shipped.colors) == theming.BUILT_IN
    assert set(ROLES) == set(theming.BUILT_IN)


@pytest.mark.parametrize("theme", [t for t in SHIPPED.themes if not t.ansi], ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("role", "least"),
    [("text", 7.0), ("dim", 4.0), ("ok", 4.5), ("warning", 4.5), ("error", 4.5), ("accent", 4.5), ("key", 4.5)],
)
def test_contrast(theme: theming.Theme, role: str, least: float) -> None:
    assert contrast(theme.colors["background"], theme.colors[role]) >= least


def test_broken_themes_are_told_once_and_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("name = [", encoding="utf-8")
    (tmp_path / "b.toml").write_text('name = "b"\n[colors]\ntext = "no-such-colour"\n', encoding="utf-8")
    (tmp_path / "c.toml").write_text('[colors]\ntxet = "red"\n', encoding="utf-8")
    (tmp_path / "d.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "e.toml").write_text('colors = "red"\n', encoding="utf-8")
    (tmp_path / "f.toml").write_text('name = "mine"\n[colors]\ntext = "#ff0000"\n', encoding="utf-8")
    found = theming.load_themes([tmp_path, tmp_path / "missing"])
    assert [t.name for t in found.themes] == [theming.DEFAULT_THEME, "mine"]
    assert len(found.problems) == 5
    assert "txet" in next(p for p in found.problems if "c.toml" in p)
    mine = found.get("mine")
    assert mine is not None
    assert mine.colors["text"] == "#ff0000"
    assert mine.colors["ok"] == theming.BUILT_IN["ok"]


def test_the_users_theme_replaces_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "eagletui" / "themes"
    own.mkdir(parents=True)
    (own / "n.toml").write_text('name = "eagle-night"\ndescription = "mine"\n', encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    theme = theming.load_themes().get("eagle-night")
    assert theme is not None
    assert theme.description == "mine"


def test_ink_of_an_ansi_theme_keeps_the_terminals_colours() -> None:
    theme = SHIPPED.get("terminal")
    assert theme is not None
    ink = Ink(theming.variables(theme))
    color = ink.style("error bold").color
    assert color is not None
    assert color.number == 1
    assert ink.style("error bold").bold


def test_actions_are_unique_and_every_key_of_the_design_is_there() -> None:
    assert len(BY_ID) == len(ACTIONS)
    keys = [k for a in ACTIONS for k in (a.keys or a.key).split(",")]
    assert len(keys) == len(set(keys))
    assert set("rRsSbBelxuk/nNfEW:pw[]mtq?gG12345") <= set(keys)
    assert all(isinstance(b, tuple) or b.id in BY_ID for b in bindings())


def test_a_wrong_id_in_a_keymap_is_answered_with_the_nearest() -> None:
    assert keymap_problem("server.restart") is None
    assert "server.restart" in (keymap_problem("server.restrat") or "")
