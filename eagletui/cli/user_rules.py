"""The user's own rules: patterns and diagnosis rules in `rules.toml` beside the configuration. A broken file is told once and
skipped; nothing else suffers from it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import platformdirs

from eagletui.engines.rulebook import RuleError, add_rules, rules_of

NAME = "rules.toml"
MAX_SIZE = 1 << 20


def rules_path() -> Path:
    """Where the user's rules are: `$XDG_CONFIG_HOME/eagletui/rules.toml`."""
    return Path(platformdirs.user_config_dir("eagletui", appauthor=False)) / NAME


def load_user_rules(path: Path | None = None) -> list[str]:
    """Put them in force for every log that is read from now on. Gives sentences about what could not be used."""
    path = path or rules_path()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_SIZE + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{path} cannot be read ({error.strerror or error}); your own rules are not used"]
    if len(data) > MAX_SIZE:
        return [f"{path} is larger than 1 MB; your own rules are not used"]
    try:
        add_rules(rules_of(tomllib.loads(data.decode("utf-8")), path.name))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return [f"{path} is no TOML ({error}); your own rules are not used"]
    except RuleError as error:
        return [f"{path} cannot be used ({error}); your own rules are not used"]
    return []
