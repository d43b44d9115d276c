"""Oddities that people met with real servers, rebuilt: what explain must answer to each (tests/data/explain/cases.tar.xz)."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.logs.explained import answer
from tests.logs.matching import differences

CASES = Path(__file__).parent.parent / "data" / "explain" / "cases.tar.xz"


@cache
def cases() -> dict[str, tuple[dict[str, Any], bytes]]:
    """Each case's description and its log, by name."""
    files: dict[str, bytes] = {}
    with tarfile.open(CASES) as archive:
        for member in archive:
            opened = archive.extractfile(member)
            assert opened is not None
            files[member.name] = opened.read()
    names = sorted({name.split("/")[0] for name in files})
    return {name: (json.loads(files[f"{name}/case.json"]), files[f"{name}/input.log"]) for name in names}


@pytest.mark.parametrize("name", cases())
def test_a_case_gets_its_right_answer(name: str, tmp_path: Path) -> None:
    case, log = cases()[name]
    found, status = answer(log, case["args"], tmp_path)
    wrong = differences(case["expect"], found)
    wanted = case.get("exit", status)
    if status not in (wanted if isinstance(wanted, list) else [wanted]):
        wrong.append(f"exit status {status}, wanted {wanted}")
    assert not wrong, "\n".join([case["title"], *wrong])


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"state": "ready"}, {"state": "crashed"}),
        ({"a": None}, {"a": 0}),
        ({"a": 1.5}, {"a": 1.6}),
        ({"a": False}, {"a": 0}),
        ([1, 2], [1]),
        ({"$last": {"a": 1}}, []),
        ({"$any_of": [1, 2]}, 3),
        ({"$contains": "OOM"}, "all is well"),
        ({"$not_contains": "oom"}, {"text": "OOM"}),
        ({"$approx": 5.0, "$tol": 0.5}, 5.6),
        ({"$min": 2, "$max": 3}, 3.5),
        ({"$min": 2}, None),
        ({"$has": {"line": 3}}, [{"line": 2}]),
        ({"$lacks": {"line": 3}}, [{"line": 3}]),
        ({"$length": 2}, [1]),
        ({"$absent_or_null": True}, 0),
        ({"a": {"b": 1}}, {"a": "text"}),
    ],
)
def test_the_matcher_sees_what_differs(wanted: Any, found: Any) -> None:
    assert differences(wanted, found)
