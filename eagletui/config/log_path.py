"""Log path templates: `{profile} {variant} {time} {port} {model}`. Pure: time and what exists are arguments.

Each launch gets a file of its own. The keeper creates it with `set -C`, which fails where the name is taken; the next name of `candidates` is
tried then, so nothing is ever appended to an older log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

FIELDS = ("profile", "variant", "time", "port", "model")
TIME_FORMAT = "%Y%m%d-%H%M%S"
MAX_PART = 64
"""Bytes of one value in a file's name; file systems allow 255 for the whole."""
NO_VARIANT = "base"
"""What `{variant}` is for a profile as it stands."""

_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_HOME = re.compile(r"\A(?:~|\$HOME|\$\{HOME\})(?=/)")
_UNSAFE = re.compile(r"[^\w.+=@,-]+")


@dataclass(frozen=True, slots=True)
class Named:
    """What a template's fields are filled with. `time` is the launch's, in the person's own time zone; `model` a path or a repository's name."""

    profile: str | None
    variant: str | None
    time: datetime
    port: int | None
    model: str | None


def check_template(template: str) -> str:
    """A template, given back. Raises ValueError with a sentence."""
    if not template or "\0" in template or "\n" in template:
        raise ValueError("it is no path")
    if template.endswith("/"):
        raise ValueError("it names a folder; write the file's name, too")
    rest = _HOME.sub("", template)
    for found in _FIELD.finditer(rest):
        if found[0] in {"{{", "}}"}:
            continue
        if found[1] not in FIELDS:
            known = " ".join(f"{{{name}}}" for name in FIELDS)
            raise ValueError(f"{found[0]} is no field; there are {known} (a brace itself is {{{{ or }}}})")
    if rest.startswith("~"):
        raise ValueError("only ~/ is known, the login's own home on the node")
    if "$" in rest:
        raise ValueError("of variables only $HOME at the beginning is replaced")
    return template


def safe_part(text: str) -> str:
    """A value as a piece of a file's name: no slash, blank or control character, never `.` or `..`, and of limited length."""
    plain = _UNSAFE.sub("-", text).strip("-.").encode("utf-8", "replace")[:MAX_PART]
    return plain.decode("utf-8", "ignore").strip("-.") or "-"


def fill(template: str, named: Named, *, home: str, cwd: str) -> str:
    """The absolute path on the node. `home` and `cwd` are the node's, absolute. Raises ValueError as check_template."""
    check_template(template)
    values = {
        "profile": safe_part(named.profile or "server"),
        "variant": safe_part(named.variant or NO_VARIANT),
        "time": named.time.strftime(TIME_FORMAT),
        "port": str(named.port) if named.port is not None else "default",
        "model": safe_part(named.model.rstrip("/").rsplit("/", 1)[-1]) if named.model else "model",
    }

    def value(found: re.Match[str]) -> str:
        return found[0][0] if found[0] in {"{{", "}}"} else values[found[1]]

    path = _FIELD.sub(value, _HOME.sub("", template))
    if _HOME.match(template) is not None:
        return home.rstrip("/") + path
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"


def candidates(path: str) -> Iterator[str]:
    """The path, then others beside it for when it exists already: `a.log`, `a-2.log`, `a-3.log` …"""
    yield path
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    number = 1
    while True:
        number += 1
        yield f"{folder}{slash}{stem}-{number}{dot}{suffix}"


def free_path(path: str, taken: frozenset[str] | set[str]) -> str:
    """The first candidate that is not among the names that exist in its folder (`taken`: whole paths)."""
    return next(one for one in candidates(path) if one not in taken)
