"""The user's own patterns and diagnosis rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eagletui.cli.user_rules import load_user_rules
from eagletui.engines.rulebook import add_rules
from eagletui.engines.spec import ENGINES, extend_engine, load_engine
from eagletui.logs.explain import explain

MINE = """
[[rule]]
code = "our-filer"
needs = "stale handle"
match = 'stale handle on (\\S+)'
fatal = true
say = "The filer lost {0}"
advice = "Call storage."

[[milestone]]
engine = "sglang"
match = "Warming our cache"
act = "begin"
phase = "compile"

[[bar]]
engine = "sglang"
label = "Our kernels"
phase = "compile"
unit = "kernels"
"""
LOG = b"""[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/m', tp_size=1)
[2026-01-01 00:00:05] Warming our cache
Our kernels:  50%|#####     | 3/6 [00:03<00:03,  1.00it/s]
[2026-01-01 00:00:09] stale handle on /data
"""


@pytest.fixture(autouse=True)
def _without_rules() -> Iterator[None]:
    yield
    add_rules([])
    for engine in ENGINES:
        extend_engine(engine, (), ())


def test_a_rule_a_milestone_and_a_bar(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(MINE)
    assert load_user_rules(file) == []
    launch = explain([LOG]).servers[0].launches[0]
    assert (launch.state, launch.phase) == ("crashed", "compile")
    assert launch.progress is not None
    assert (launch.progress.done, launch.progress.total, launch.progress.unit) == (3, 6, "kernels")
    found = launch.diagnosis
    assert found is not None
    assert (found.code, found.summary, found.advice) == ("our-filer", "The filer lost /data", "Call storage.")


def test_no_file_is_no_complaint(tmp_path: Path) -> None:
    assert load_user_rules(tmp_path / "rules.toml") == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[rule]\n", "it is no TOML"),
        ("\xff", "it is no TOML"),
        ("rule = 3", "rule is no list of tables"),
        ("[[milestone]]\nengine='sglang'\nmatch='A(b)'\nact='begin'\nphase='weights'", "capturing group"),
        ("[[milestone]]\nengine='sglang'\nmatch='.x'\nact='begin'\nphase='weights'", "needs is missing"),
        ("[[milestone]]\nengine='sglang'\nmatch='x'\nact='begin'", "phase is missing"),
        ("[[milestone]]\nengine='sglang'\nmatch='x'\nact='begun'\nphase='weights'", "act 'begun' is none of"),
        ("[[milestone]]\nengine='tgi'\nmatch='x'\nact='ready'", "engine 'tgi' is none of sglang, vllm"),
        ("[[bar]]\nengine='vllm'\nlabel='x'\nphase='loading'\nunit='y'", "phase 'loading' is none of"),
        ("[[bar]]\nengine='vllm'\nlabel='x'\nphase='weights'", "unit is missing"),
        ("[[rules]]\ncode='x'", "rules means nothing; write [[rule]]"),
    ],
)
def test_a_broken_file_is_told_and_skipped(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_bytes(text.encode("latin-1"))
    told = load_user_rules(file)
    assert len(told) == 1
    assert complaint in told[0]
    assert str(file) in told[0]
    assert load_engine("sglang").mark("Warming our cache") is None


def test_a_folder_in_its_place(tmp_path: Path) -> None:
    assert "it cannot be read" in load_user_rules(tmp_path)[0]
