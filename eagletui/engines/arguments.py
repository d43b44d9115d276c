"""The arguments that a server prints of itself: `ServerArgs(a=1, b='x')`, `Namespace(...)`, or a dict. Tolerant,
capped, and never evaluated."""

from __future__ import annotations

import ast
import re

MAX_ARGUMENTS = 1_000
MAX_VALUE = 2_000
"""Characters of one value; a longer one is dropped."""

_CALL_KEY = re.compile(r"\s*([A-Za-z_]\w*)=")
_DICT_KEY = re.compile(r"\s*'([^'\n]{1,100})': ")
_OPENING, _CLOSING = "([{", ")]}"


def read_arguments(text: str) -> dict[str, object]:
    """The first `Name(key=value, …)` or `{'key': value, …}` in a text. What is no literal is kept as its text; a cut
    end loses its last pair."""
    call = re.search(r"[A-Za-z_]\w*\((?=\w+=)|\{(?=')", text[:4096])
    if call is None:
        return {}
    key_pattern = _DICT_KEY if call[0] == "{" else _CALL_KEY
    found: dict[str, object] = {}
    at = call.end()
    while len(found) < MAX_ARGUMENTS:
        key = key_pattern.match(text, at)
        if key is None:
            break
        end = _value_end(text, key.end())
        if end >= len(text):
            break
        if end - key.end() <= MAX_VALUE:
            found[key[1]] = _literal(text[key.end() : end])
        if text[end] != ",":
            break
        at = end + 1
    return found


# One step: a whole quoted string (maybe cut), or a character that opens, closes or separates.
_STEP = re.compile(r"'(?:[^'\\]|\\.)*('|\Z)|\"(?:[^\"\\]|\\.)*(\"|\Z)|[,()\[\]{}]", re.DOTALL)


def _value_end(text: str, at: int) -> int:
    """Where the value that begins at `at` ends: at a comma or closing bracket of its own level; len(text) when cut."""
    depth = 0
    for step in _STEP.finditer(text, at):
        char = step[0][0]
        if char in _OPENING:
            depth += 1
        elif depth == 0 and (char in _CLOSING or char == ","):
            return step.start()
        elif char in _CLOSING:
            depth -= 1
    return len(text)


def _literal(text: str) -> object:
    text = text.strip()
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value
