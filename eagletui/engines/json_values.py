"""Settings inside a flag's JSON: read, set and removed by a path of keys. Pure.

Hyphens and underscores are the same in a key; a new one is written with underscores, as vLLM has its settings. JSON is written again in the
manner it was (blanks behind commas and colons or none).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

MAX_DEPTH = 20
"""Levels of keys; deeper ones are told as one value."""


def parse_object(values: Sequence[str]) -> dict[str, object] | None:
    """The object that a flag's one value is; None where it is none."""
    if len(values) != 1 or not values[0].lstrip().startswith("{"):
        return None
    try:
        data = json.loads(values[0])
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _key(data: dict[str, object], name: str) -> str | None:
    """The key as it is written there."""
    if name in data:
        return name
    plain = name.replace("-", "_")
    return next((key for key in data if key.replace("-", "_") == plain), None)


def text_of(data: dict[str, object], path: Sequence[str]) -> str | None:
    """What stands there, as it is said in a flag: a string as it is unless it would be taken for something else, all else as JSON. None: nothing."""
    at: object = data
    for name in path:
        key = _key(at, name) if isinstance(at, dict) else None
        if key is None or not isinstance(at, dict):
            return None
        at = at[key]
    if isinstance(at, str):
        return json.dumps(at) if _typed(at) is not at else at
    return json.dumps(at)


def _typed(text: str) -> object:
    """A value as vLLM reads it behind a dotted flag: JSON where it is some, else text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def leaves(data: dict[str, object]) -> Iterator[tuple[str, ...]]:
    """The path of every value that is no object with something in it."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            for path in leaves(value):
                if len(path) < MAX_DEPTH:
                    yield ((key.replace("-", "_")), *path)
        else:
            yield (key.replace("-", "_"),)


def tellable(paths: Sequence[tuple[str, ...]]) -> bool:
    """Whether each path says which value is meant once it is written with dots."""
    return len(set(paths)) == len(paths) and all(re.fullmatch(r"\w+", name) for path in paths for name in path)


def one_text(text: str) -> str:
    """A value's text as `text_of` gives it back once it is set."""
    return text_of({"value": _typed(text)}, ["value"]) or text


def list_text(values: Sequence[str]) -> str:
    """Several values as one, a list."""
    return json.dumps([_typed(value) for value in values])


def with_path(text: str, data: dict[str, object], path: Sequence[str], value: str) -> str:
    """The JSON with one setting more, or another."""
    at = data
    for name in path[:-1]:
        key = _key(at, name) or name
        below = at.get(key)
        if not isinstance(below, dict):
            below = at[key] = dict[str, object]()
        at = below
    at[_key(at, path[-1]) or path[-1]] = _typed(value)
    return _dumped(text, data)


def without_path(text: str, data: dict[str, object], path: Sequence[str]) -> str | None:
    """The JSON without one setting, and without the objects that it leaves empty. None: nothing is left."""
    passed: list[tuple[dict[str, object], str]] = []
    at: object = data
    for name in path:
        key = _key(at, name) if isinstance(at, dict) else None
        if key is None or not isinstance(at, dict):
            return text
        passed.append((at, key))
        at = at[key]
    for level, (holder, key) in enumerate(reversed(passed)):
        if level and holder[key]:
            break
        del holder[key]
    return _dumped(text, data) if data else None


def _dumped(text: str, data: dict[str, object]) -> str:
    tight = '": ' not in text and '", ' not in text and ', "' not in text
    return json.dumps(data, separators=(",", ":") if tight else None, ensure_ascii=text.isascii())
