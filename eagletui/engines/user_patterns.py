"""A user's own milestones and bars, from the rows of a TOML table. Pure.

`[[milestone]]`: engine, match (at the begin of a record's text), act, phase, needs. `[[bar]]`: engine, label, phase, unit.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from eagletui.engines.rulebook import RuleError
from eagletui.engines.spec import ENGINES, Act, Bars, Mark, milestone_begins

PHASES = ("launch", "distributed", "weights", "draft-weights", "kv-cache", "compile", "graphs", "warmup", "serving")
_WITH_PHASE = ("begin", "end", "within")
Patterns = dict[str, tuple[list[tuple[str, Mark]], list[Bars]]]


def patterns_of(table: dict[str, Any], name: str) -> Patterns:
    """The rows by engine. Raises RuleError with which row and what is wrong."""
    found: Patterns = {engine: ([], []) for engine in ENGINES}
    for number, row in enumerate(_rows(table, "milestone", name), 1):
        engine, milestone = _milestone(row, f"{name}, milestone {number}")
        found[engine][0].append(milestone)
    for number, row in enumerate(_rows(table, "bar", name), 1):
        engine, bar = _bar(row, f"{name}, bar {number}")
        found[engine][1].append(bar)
    return found


def _rows(table: dict[str, Any], kind: str, name: str) -> list[dict[str, Any]]:
    rows = table.get(kind, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RuleError(f"{name}: {kind} is no list of tables; write [[{kind}]]")
    return rows


def _texts(row: dict[str, Any], name: str, keys: tuple[str, ...], needed: tuple[str, ...]) -> dict[str, str]:
    unknown = sorted(set(row) - set(keys))
    if unknown:
        raise RuleError(f"{name}: {unknown[0]} is no key; keys are {', '.join(keys)}")
    for key in keys:
        if key in needed and not row.get(key):
            raise RuleError(f"{name}: {key} is missing")
        if not isinstance(row.get(key, ""), str):
            raise RuleError(f"{name}: {key} is no text")
    if row["engine"] not in ENGINES:
        raise RuleError(f"{name}: engine {row['engine']!r} is none of {', '.join(ENGINES)}")
    if row.get("phase") and row["phase"] not in PHASES:
        raise RuleError(f"{name}: phase {row['phase']!r} is none of {', '.join(PHASES)}")
    return {key: row.get(key, "") for key in keys}


def _compiled(pattern: str, name: str, key: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise RuleError(f"{name}: {key} is no regular expression: {error}") from None


def _milestone(row: dict[str, Any], name: str) -> tuple[str, tuple[str, Mark]]:
    text = _texts(row, name, ("engine", "match", "act", "phase", "needs"), ("engine", "match", "act"))
    if _compiled(text["match"], name, "match").groups:
        raise RuleError(f"{name}: match holds a capturing group; write (?:…)")
    if text["act"] not in get_args(Act):
        raise RuleError(f"{name}: act {text['act']!r} is none of {', '.join(get_args(Act))}")
    if text["act"] in _WITH_PHASE and not text["phase"]:
        raise RuleError(f"{name}: phase is missing")
    if not text["needs"] and not milestone_begins(text["match"]):
        raise RuleError(
            f"{name}: match does not begin with a letter of its own, so needs is missing: a literal that it holds"
        )
    mark = Mark(text["act"], text["phase"], needs=text["needs"], sure=False)  # type: ignore[arg-type]  # checked above
    return text["engine"], (text["match"], mark)


def _bar(row: dict[str, Any], name: str) -> tuple[str, Bars]:
    text = _texts(row, name, ("engine", "label", "phase", "unit"), ("engine", "label", "phase", "unit"))
    return text["engine"], Bars(_compiled(text["label"], name, "label"), text["phase"], text["unit"])
