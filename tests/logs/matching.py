"""The expectations of the examination's cases: what an answer must hold, written as JSON.

A dict asks for its own keys only; a list for as many elements, one by one. A dict with a single word of WORDS (and its
bounds) asks something else of a value, see there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

TOLERANCE = 0.01
"""Of `$approx` without a `$tol`."""
EXACT = 1e-6
"""Of numbers that need no more than rounding to be alike."""


def differences(wanted: Any, found: Any, at: str = "$") -> list[str]:
    """A sentence for each place where the answer is not as wanted."""
    return list(_differences(wanted, found, at))


def _fits(wanted: Any, found: Any) -> bool:
    return next(_differences(wanted, found, ""), None) is None


def _text(found: Any) -> str:
    return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)).lower()


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _is_near(wanted: dict[str, Any], found: Any) -> bool:
    return _is_number(found) and abs(found - wanted["$approx"]) <= wanted.get("$tol", TOLERANCE)


def _is_within(wanted: dict[str, Any], found: Any) -> bool:
    return _is_number(found) and wanted.get("$min", found) <= found <= wanted.get("$max", found)


WORDS: dict[str, Callable[[dict[str, Any], Any], bool]] = {
    "$any_of": lambda wanted, found: any(_fits(one, found) for one in wanted["$any_of"]),
    "$approx": _is_near,
    "$min": _is_within,
    "$max": _is_within,
    "$contains": lambda wanted, found: wanted["$contains"].lower() in _text(found),
    "$not_contains": lambda wanted, found: wanted["$not_contains"].lower() not in _text(found),
    "$has": lambda wanted, found: isinstance(found, list) and any(_fits(wanted["$has"], one) for one in found),
    "$lacks": lambda wanted, found: not isinstance(found, list) or not any(_fits(wanted["$lacks"], x) for x in found),
    "$length": lambda wanted, found: isinstance(found, list | str) and len(found) == wanted["$length"],
    "$absent_or_null": lambda _, found: found is None,
}
"""What a dict with this key asks of a value; texts are compared without case, and anything but a text in its JSON."""


def _differences(wanted: Any, found: Any, at: str) -> Iterator[str]:
    if isinstance(wanted, dict):
        yield from _in_dict(wanted, found, at)
    elif isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            yield f"{at}: {str(found)[:200]} is no list of {len(wanted)}"
            return
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differences(one, other, f"{at}[{number}]")
    elif not _are_alike(wanted, found):
        yield f"{at}: {found!r}, wanted {wanted!r}"


def _are_alike(wanted: Any, found: Any) -> bool:
    if _is_number(wanted) and _is_number(found):
        return bool(abs(wanted - found) <= EXACT)
    return bool(wanted == found) and type(wanted) is type(found)


def _in_dict(wanted: dict[str, Any], found: Any, at: str) -> Iterator[str]:
    word = next((word for word in WORDS if word in wanted), None)
    if word is not None:
        if not WORDS[word](wanted, found):
            yield f"{at}: {str(found)[:200]!r}, wanted {wanted!r}"
    elif "$last" in wanted:
        if isinstance(found, list) and found:
            yield from _differences(wanted["$last"], found[-1], f"{at}[-1]")
        else:
            yield f"{at}: {found!r} has no last element"
    elif not isinstance(found, dict):
        yield f"{at}: {str(found)[:200]!r} is no object"
    else:
        for key, value in wanted.items():
            yield from _differences(value, found.get(key), f"{at}.{key}")
