"""Flags changed by name: in every way that people write them, and checked against argparse itself."""

from __future__ import annotations

import argparse
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.engines.command_line import (
    BadChangeError,
    Difference,
    NotALaunchError,
    Value,
    change,
    difference,
    flags,
    known_flags,
    parse_change,
    value_of,
)

SGLANG = "python -m sglang.launch_server --model-path /m"
VLLM = "vllm serve /m"


@pytest.mark.parametrize(
    ("before", "flag", "value", "after"),
    [
        # in the place and the manner of what stands there
        (f"{SGLANG} --tp 8 --port 1", "tp", "4", f"{SGLANG} --tp 4 --port 1"),
        (f"{SGLANG} --tp=8 --port 1", "tp", "4", f"{SGLANG} --tp=4 --port 1"),
        (f"{SGLANG} --tensor-parallel-size 8", "tp-size", "4", f"{SGLANG} --tensor-parallel-size 4"),
        (f"{SGLANG} --mem_fraction_static 0.8", "mem-fraction-static", "0.9", f"{SGLANG} --mem_fraction_static 0.9"),
        (f"{SGLANG} --mem-fraction-static 0.8", "mem_fraction_static", "0.9", f"{SGLANG} --mem-fraction-static 0.9"),
        # what was not there comes last
        (SGLANG, "speculative_num_steps", "2", f"{SGLANG} --speculative-num-steps 2"),
        (f"{VLLM} -- x", "max-num-seqs", "2", f"{VLLM} --max-num-seqs 2 -- x"),
        # numbers below zero, and texts that would be taken for flags
        (f"{SGLANG} --chunked-prefill-size 1", "chunked-prefill-size", "-1", f"{SGLANG} --chunked-prefill-size -1"),
        (f"{SGLANG} --chunked-prefill-size -1 --x", "chunked-prefill-size", None, f"{SGLANG} --x"),
        (SGLANG, "file-storage-path", "-x", f"{SGLANG} --file-storage-path=-x"),
        # switches
        (SGLANG, "enable-metrics", True, f"{SGLANG} --enable-metrics"),
        (f"{SGLANG} --enable-metrics --tp 8", "enable-metrics", False, f"{SGLANG} --tp 8"),
        (f"{SGLANG} --enable-metrics", "enable-metrics", "false", SGLANG),
        (SGLANG, "is-embedding", "true", f"{SGLANG} --is-embedding"),
        (SGLANG, "unknown-thing", "true", f"{SGLANG} --unknown-thing true"),
        (
            f"{VLLM} --enable-prefix-caching --port 1",
            "no-enable-prefix-caching",
            True,
            f"{VLLM} --no-enable-prefix-caching --port 1",
        ),
        (f"{VLLM} --no-enable-prefix-caching", "enable_prefix_caching", True, f"{VLLM} --enable-prefix-caching"),
        (f"{VLLM} --no-enable-prefix-caching", "enable-prefix-caching", False, f"{VLLM} --no-enable-prefix-caching"),
        # several values, and a flag that stands twice
        (f"{SGLANG} --cuda-graph-bs 1 2 4 --tp 8", "cuda-graph-bs", ("1", "2"), f"{SGLANG} --cuda-graph-bs 1 2 --tp 8"),
        (f"{SGLANG} --cuda-graph-bs 1 2 4 --tp 8", "cuda-graph-bs", None, f"{SGLANG} --tp 8"),
        (f"{SGLANG} --cuda-graph-bs 1", "cuda-graph-bs", "8 16", f"{SGLANG} --cuda-graph-bs 8 16"),
        (f"{SGLANG} --cuda-graph-bs=1", "cuda-graph-bs", ("1", "2"), f"{SGLANG} --cuda-graph-bs 1 2"),
        (f"{SGLANG} --tp 8 --port 1 --tp 4", "tp", "2", f"{SGLANG} --port 1 --tp 2"),
        (f"{SGLANG} --tp 8 --port 1 --tp 4", "tp", "4", f"{SGLANG} --tp 8 --port 1 --tp 4"),
        (f"{SGLANG} --tp 8 --port 1 --tp-size 4", "tp", None, f"{SGLANG} --port 1"),
        (f"{VLLM} --middleware a --port 1 --middleware b", "middleware", ("c", "d"), f"{VLLM} --port 1 --middleware c --middleware d"),
        # vLLM: short names, the model without a flag, levels glued to their letter
        (f"{VLLM} -tp 8", "tensor-parallel-size", "4", f"{VLLM} -tp 4"),
        (f"{VLLM} -O3", "optimization-level", "1", f"{VLLM} -O1"),
        (f"{VLLM} --port 1", "model", "/n", "vllm serve /n --port 1"),
        ("vllm serve --port 1 --enforce-eager /m", "model", "/n", "vllm serve --port 1 --enforce-eager /n"),
        ("vllm serve --port 1 --enforce-eager /m", "port", "2", "vllm serve --port 2 --enforce-eager /m"),
        ("vllm serve --port 1", "model", "/n", "vllm serve /n --port 1"),
        ("vllm serve --enforce-eager /m", "enforce-eager", None, "vllm serve /m"),
        ("vllm serve --model /m", "model", "/n", "vllm serve --model /n"),
        # vLLM's settings in JSON, and with dots
        (
            f"""{VLLM} --speculative-config '{{"method": "eagle3", "num_speculative_tokens": 3}}'""",
            "speculative-config.num-speculative-tokens",
            "5",
            f"""{VLLM} --speculative-config '{{"method": "eagle3", "num_speculative_tokens": 5}}'""",
        ),
        (f"""{VLLM} -sc '{{"a":1,"b":2}}'""", "speculative-config.a", None, f"""{VLLM} -sc '{{"b":2}}'"""),
        (f"""{VLLM} -sc '{{"a":1}}' --port 1""", "speculative-config.a", None, f"{VLLM} --port 1"),
        (f"{VLLM} --speculative-config.method a --port 1", "speculative-config.method", "b", f"{VLLM} --speculative-config.method b --port 1"),
        (f"{VLLM} --speculative-config.method=a", "sc.method", "b", f"{VLLM} --speculative-config.method=b"),
        (f"{VLLM} --speculative-config.method a --speculative-config.n 2 --port 1", "speculative-config", None, f"{VLLM} --port 1"),
        (
            f"{VLLM} --compilation-config.pass_config.x 1 --port 1",
            "compilation-config",
            '{"mode": 3}',
            f"""{VLLM} --compilation-config '{{"mode": 3}}' --port 1""",
        ),
        (VLLM, "compilation-config.mode", "3", f"{VLLM} --compilation-config.mode 3"),
        # wrappers, and what a person's own script hands on
        (
            f"taskset -c 0-31 env A=1 {SGLANG} --tp 8 --tag a",
            "tp",
            "4",
            f"taskset -c 0-31 env A=1 {SGLANG} --tp 4 --tag a",
        ),
        ("uv run --with x vllm serve /m --port 1", "port", "2", "uv run --with x vllm serve /m --port 2"),
        ("numactl --port 3 python3.11 -um sglang.launch_server --port 1", "port", "2", "numactl --port 3 python3.11 -um sglang.launch_server --port 2"),
        ("./serve.sh --tp 8 /m", "tp", "4", "./serve.sh --tp 4 /m"),
    ],
)  # fmt: skip
def test_a_flag_is_changed_where_it_stands(before: str, flag: str, value: Value, after: str) -> None:
    words = shlex.split(before)
    changed = change(words, [(flag, value)])
    assert shlex.join(changed) == shlex.join(shlex.split(after))
    assert change(changed, [(flag, value)]) == changed


@pytest.mark.parametrize(
    "command", ["bash -c 'python -m sglang.launch_server --tp 8'", "docker run --gpus all vllm/vllm-openai --tp 8", ""]
)
def test_where_no_flag_can_be_found_none_is_changed(command: str) -> None:
    with pytest.raises(NotALaunchError):
        change(shlex.split(command), [("tp", "4")])


@pytest.mark.parametrize(
    ("command", "flag", "value"),
    [
        (VLLM, "a b", "1"),
        (VLLM, "", "1"),
        (f"{SGLANG} --cuda-graph-bs 1 2", "cuda-graph-bs", ("1", "--tp")),
        (VLLM, "model", "--x"),
        (f"{VLLM} --speculative-config @file", "speculative-config.method", "x"),
        ("vllm serve --tp 8 /m", "tp", ("1", "2")),  # the model would be one of them
    ],
)
def test_what_cannot_be_written_is_refused(command: str, flag: str, value: Value) -> None:
    with pytest.raises(BadChangeError):
        change(shlex.split(command), [(flag, value)])


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("tp=4", ("tp", "4")),
        ("--tp=4", ("tp", "4")),
        ("enable-x", ("enable-x", True)),
        ("tp=", ("tp", None)),
        ('chat-template=""', ("chat-template", "")),
        ("hf-overrides={}", ("hf-overrides", "{}")),
        ("x=a=b", ("x", "a=b")),
    ],
)
def test_what_set_means(text: str, meaning: tuple[str, Value]) -> None:
    assert parse_change(text) == meaning


@pytest.mark.parametrize("text", ["", "=3", "--", "a b=3", "-=1"])
def test_what_set_does_not_mean(text: str) -> None:
    with pytest.raises(BadChangeError):
        parse_change(text)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (f"{SGLANG} --tp 8 --enable-metrics", f"{SGLANG} --enable-metrics --tensor-parallel-size=8", []),
        (f"{SGLANG} --tp 8", f"{SGLANG} --tp-size 4", [("tp-size", "8", "4")]),
        (f"{SGLANG} --tp 8 --x", SGLANG, [("tp", "8", None), ("x", True, None)]),
        (VLLM, "vllm serve /n", [("model", "/m", "/n")]),
        (
            f"""{VLLM} -sc '{{"method": "a", "n": 3}}'""",
            f"{VLLM} --speculative-config.method a --speculative-config.n 5",
            [("speculative-config.n", "3", "5")],
        ),
        (VLLM, f"""{VLLM} -sc '{{"n": 3}}'""", [("sc", None, '{"n": 3}')]),
        (f"a {VLLM}", VLLM, [("", "a vllm serve", "vllm serve")]),
    ],
)
def test_two_command_lines_differ_by_their_flags(before: str, after: str, told: list[tuple[str, Value, Value]]) -> None:
    assert list(difference(shlex.split(before), shlex.split(after))) == [Difference(*one) for one in told]


def test_flags_for_completion_are_named_once() -> None:
    words = shlex.split(f"{SGLANG} --tensor-parallel-size 8 --my_own 1")
    known = known_flags(words)
    assert known[:3] == ("model-path", "tensor-parallel-size", "my-own")
    assert "speculative-num-steps" in known
    assert "tp-size" not in known
    assert flags(words) == (("model-path", "/m"), ("tensor-parallel-size", "8"), ("my-own", "1"))
    assert known_flags(["sh", "-c", "x"]) == ()


# --- any command: what argparse reads is the witness

SCALARS = ("tp-size", "port", "dtype", "chunked-prefill-size", "mem-fraction-static")
SWITCHES = ("enable-metrics", "trust-remote-code")
SEVERAL = ("cuda-graph-bs", "lora-paths")
plain = st.from_regex(r"\A-?[0-9]{1,3}\Z|\A[a-z/][a-z=./ {}:\"-]{0,8}\Z")
scalar = st.tuples(st.sampled_from(SCALARS), plain)
switch = st.tuples(st.sampled_from(SWITCHES), st.just(True))
several = st.tuples(st.sampled_from(SEVERAL), st.lists(plain, min_size=2, max_size=3).map(tuple))
setting: st.SearchStrategy[tuple[str, Value]] = st.one_of(scalar, switch, several)
anything: st.SearchStrategy[tuple[str, Value]] = st.one_of(
    setting, st.tuples(st.sampled_from((*SCALARS, *SWITCHES, *SEVERAL)), st.sampled_from([None, False]))
)


@st.composite
def commands(draw: st.DrawFn) -> tuple[str, ...]:
    words: list[str] = []
    for name, value in draw(st.lists(setting, max_size=6)):
        if name == "tp-size":
            name = draw(st.sampled_from(["tp-size", "tensor-parallel-size"]))
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, tuple):
            words += (f"--{name}", *value)
        elif draw(st.booleans()):
            words.append(f"--{name}={value}")
        else:
            words += (f"--{name}", str(value))
    return ("taskset", "-c", "0", "python", "-m", "sglang.launch_server", *words)


def witness(words: tuple[str, ...]) -> dict[str, object]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in SCALARS:
        parser.add_argument(f"--{name}", *(["--tensor-parallel-size"] if name == "tp-size" else []), dest=name)
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", dest=name)
    for name in SEVERAL:
        parser.add_argument(f"--{name}", nargs="+", dest=name)
    return vars(parser.parse_args(words[words.index("sglang.launch_server") + 1 :]))


def as_parsed(flag: str, value: Value) -> object:
    if flag in SWITCHES:
        return value is True
    if flag in SEVERAL and isinstance(value, str):
        return value.split() if " " in value else [value]
    return list(value) if isinstance(value, tuple) else value or None


@settings(max_examples=100, deadline=None)
@given(commands(), anything)
def test_a_change_does_that_and_nothing_else(words: tuple[str, ...], wish: tuple[str, Value]) -> None:
    flag, value = wish
    before, changed = witness(words), change(words, [wish])
    after = witness(changed)
    assert after == before | {flag: as_parsed(flag, value)}
    assert change(changed, [wish]) == changed
    assert value_of(changed, flag) == (value or None)
    others = [one for one in flags(words) if one[0] not in (flag, "tensor-parallel-size", "tp-size")]
    assert [one for one in flags(changed) if one[0] not in (flag, "tensor-parallel-size", "tp-size")] == others


@settings(max_examples=100, deadline=None)
@given(commands(), commands())
def test_a_difference_applied_leaves_none(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    told = difference(before, after)
    made = change(before, [(one.flag, one.after) for one in told])
    assert difference(made, after) == ()
    assert witness(made) == witness(after)


word = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["--", "-", "--tp", "-O3", "--a.b", "--a", '{"b": 1}', "vllm", "serve", "--a.b+", "x"]),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(word, max_size=8),
    st.sampled_from(["tp", "a", "a.b", "a.b.c", "model", "no-a"]),
    st.one_of(st.none(), st.just(True), st.text(max_size=4)),
)
def test_any_words_are_changed_as_told_or_refused(tail: list[str], flag: str, value: Value) -> None:
    words = ("vllm", "serve", *tail)
    try:
        changed = change(words, [(flag, value)])
    except (BadChangeError, NotALaunchError):
        return
    assert change(changed, [(flag, value)]) == changed
    assert difference(words, words) == difference(changed, changed) == ()
    known_flags(changed)
