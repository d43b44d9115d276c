"""Arguments as servers print them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.arguments import MAX_VALUE, read_arguments

ROWS: list[tuple[str, dict[str, object]]] = [
    ("server_args=ServerArgs(model_path='/m, (x)', tp_size=2, f=0.88, a=None, b=True, c=['x', 'y'], d={'k': (1, 2)}, port=30000)",
     {"model_path": "/m, (x)", "tp_size": 2, "f": 0.88, "a": None, "b": True, "c": ["x", "y"], "d": {"k": (1, 2)}, "port": 30000}),
    ("server_args={'model_path': 'it\\'s', 'port': 30000, 'x': <Enum.A: 1>}", {"model_path": "it's", "port": 30000, "x": "<Enum.A: 1>"}),
    ("args: Namespace(host=None, port=8000, model='/m')", {"host": None, "port": 8000, "model": "/m"}),
    ("non-default args: {'model_tag': 'tinyv', 'port': 8100}", {"model_tag": "tinyv", "port": 8100}),
    ("server_args=ServerArgs(a=1, b='cut", {"a": 1}),
    ("server_args=ServerArgs(a=1, b=12", {"a": 1}),
    ("server_args=ServerArgs()", {}),
    ("nothing here", {}),
    ("server_args=ServerArgs(a=__import__('os').system('x'), b=2)", {"a": "__import__('os').system('x')", "b": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_rows(text: str, expected: dict[str, object]) -> None:
    assert read_arguments(text) == expected


def test_a_value_of_kilobytes_is_dropped_and_the_rest_kept() -> None:
    assert read_arguments(f"ServerArgs(a='{'x' * (MAX_VALUE + 1)}', b=2)") == {"b": 2}


@settings(max_examples=60, deadline=1000)
@given(st.text(alphabet="ab=,'\"\\(){}[]: 1", max_size=200))
def test_total(text: str) -> None:
    read_arguments("ServerArgs(a=" + text)
    read_arguments("{'a': " + text)
