"""Where the configuration is. Imports nothing heavy: a command that finds no file pays for a look and no more."""

from __future__ import annotations

import os
from pathlib import Path

OWN_NAME = "config.toml"
PROJECT_NAME = "eagletui.toml"


def own_folder() -> Path:
    """The person's own folder: `$XDG_CONFIG_HOME/eagletui`, on macOS too where it is set; else where the system keeps such files."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(base):  # noqa: PTH117 - a relative one is to be ignored, as the specification says
        return Path(base) / "eagletui"
    from platformdirs import user_config_dir

    return Path(user_config_dir("eagletui", appauthor=False))


def own_path() -> Path:
    """The person's own file, whether it is there or not."""
    return own_folder() / OWN_NAME


def project_path() -> Path:
    """The file of the folder that the command runs in, whether it is there or not."""
    return Path(PROJECT_NAME)


def is_there(path: Path) -> bool:
    """Whether anything of that name is there, readable or not. A folder of the path that cannot be entered counts: what is wrong is told later."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
