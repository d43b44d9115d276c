"""The user's own rules: patterns and diagnosis rules in `rules.toml` beside the configuration. A broken file is told once and
skipped; nothing else suffers from it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from eagletui.config.place import own_folder

KINDS = ("rule", "milestone", "bar")

NAME = "rules.toml"
MAX_SIZE = 1 << 20


def rules_path() -> Path:
    """Where the user's rules are: beside the configuration (`$XDG_CONFIG_HOME/eagletui/rules.toml`)."""
    return own_folder() / NAME


def load_user_rules(path: Path | None = None) -> list[str]:
    """Put them in force for every log that is read from now on. Gives sentences about what could not be used."""
    path = path or rules_path()
    if not path.exists():
        return []
    from eagletui.engines.rulebook import RuleError, add_rules, rules_of
    from eagletui.engines.spec import extend_engine
    from eagletui.engines.user_patterns import patterns_of

    try:
        table = _table(path)
        rules, patterns = rules_of(table, path.name), patterns_of(table, path.name)
    except RuleError as error:
        return [f"{path} cannot be used ({error}); your own rules are not used"]
    add_rules(rules)
    for engine, (milestones, bars) in patterns.items():
        extend_engine(engine, tuple(milestones), tuple(bars))
    unknown = sorted(set(table) - set(KINDS))
    return [f"{path}: {unknown[0]} means nothing; write [[rule]], [[milestone]] or [[bar]]"] if unknown else []


def _table(path: Path) -> dict[str, Any]:
    """What the file holds. Raises RuleError for what cannot be read."""
    from eagletui.engines.rulebook import RuleError

    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise RuleError(f"it cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_SIZE:
        raise RuleError("it is larger than 1 MB")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RuleError(f"it is no TOML: {error}") from None
