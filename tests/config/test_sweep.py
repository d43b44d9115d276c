"""What a person writes for a sweep: what it means, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagletui.config.sweep import load_sweep, seconds_of
from eagletui.errors import ConfigError

WHOLE = """
profile = "llama"
order = "interleaved"
start_timeout = "1h30m"

[flags]
speculative-num-steps = [2, 3]
enable-torch-compile = [true, false]
cuda-graph-bs = [[1, 2], "8"]

[[cells]]
name = "no graphs"
set = { --disable-cuda-graph = true }

[[cells]]
variant = "tp4"

[load]
concurrency = 8
output-len = 64
"""


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "night.toml"
    path.write_text(WHOLE)
    found, text = load_sweep(path)
    assert text == WHOLE
    assert found.values() == (
        ("speculative-num-steps", ("2", "3")),
        ("enable-torch-compile", (True, False)),
        ("cuda-graph-bs", (("1", "2"), "8")),
    )
    assert [cell.changes() for cell in found.cells] == [(("disable-cuda-graph", True),), ()]
    assert (found.profile, found.order, found.load.concurrency, found.load.output_len) == (
        "llama",
        "interleaved",
        8,
        64,
    )
    assert seconds_of(found.start_timeout) == 5400


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "it has nothing to try: write [flags] with values, or [[cells]]"),
        ("[flags]\ntp = 4\n", ":2: flags.tp: write a list of the values to try"),
        ("[flags]\ntp = []\n", ":2: flags.tp: "),
        ("[flags]\n'a b' = [1]\n", ":2: flags.a b: 'a b' is no flag"),
        ("ordr = 'given'\n[flags]\ntp = [1]\n", ":1: ordr: there is no such key; did you mean order?"),
        ("order = 'randm'\n[flags]\ntp = [1]\n", "did you mean random?"),
        ("[load]\nconcurency = 2\n[flags]\ntp = [1]\n", ":2: load.concurency: there is no such key; did you mean concurrency?"),
        ("[[cells]]\nnam = 'x'\nset = { tp = 1 }\n", ":2: cells.0.nam: there is no such key; did you mean name?"),
        ("[[cells]]\nvariant = 'x'\n", ":1: cells.0.variant: a variant is of a profile"),
        ("[[cells]]\nname = 'x'\n", ":1: cells.0: it changes nothing"),
        ("start_timeout = 'soon'\n[flags]\ntp = [1]\n", ":1: start_timeout: 'soon' is no time"),
        ("[flags]\ntp = [" + ",".join(map(str, range(501))) + "]\n", "501 cells are more than 500"),
        ("[flags]\nport = [1, 2]\n", ":2: flags.port: every cell is the same server"),
        ("[flags\n", "it is no TOML"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "night.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_sweep(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_sweep(tmp_path / "none.toml")
