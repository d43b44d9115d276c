"""What of the person's own file the screen needs before its first paint: theme and keys, read without the models (they take 0.15 s to load).

Total: what is wrong here is told by `config check`, and by every command that loads the whole configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from eagletui.config.place import is_there, own_path


@dataclass(frozen=True, slots=True)
class ScreenSettings:
    """`theme`: a theme's name, None for the default one. `keys`: action and the keys it has instead of its own."""

    theme: str | None = None
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()


def flat_ids(table: dict[str, object]) -> dict[str, object]:
    """Ids of actions have dots (`app.quit`), which TOML takes for tables in tables where nobody quotes them: joined again."""
    found: dict[str, object] = {}
    for name, below in table.items():
        if isinstance(below, dict):
            found |= {f"{name}.{rest}": one for rest, one in flat_ids(below).items()}
        else:
            found[name] = below
    return found


def screen_settings() -> ScreenSettings:
    """Theme and keys of the person's own file; nothing where it is not there or not in order."""
    path = own_path()
    if not is_there(path):
        return ScreenSettings()
    from eagletui.config.reading import UnreadableError, read_source

    try:
        table = read_source(path).table
    except (FileNotFoundError, UnreadableError):
        return ScreenSettings()
    theme, keys = table.get("theme"), table.get("keys")
    told = flat_ids(keys) if isinstance(keys, dict) else {}
    return ScreenSettings(
        theme if isinstance(theme, str) and theme else None,
        tuple((action, found) for action, key in told.items() if (found := _keys(key))),
    )


def _keys(value: object) -> tuple[str, ...]:
    keys = value if isinstance(value, list) else [value]
    return tuple(key for key in keys if isinstance(key, str) and key)
