"""Commands without a shell, environments with references, and what a variant changes."""

from __future__ import annotations

import pytest

from eagletui.config.models import Config, Profile
from eagletui.config.words import as_literal, check_value, literal_of, reference_of, split_command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vllm serve /m --port 1", ("vllm", "serve", "/m", "--port", "1")),
        ("a 'b c' \"d e\" f\\ g ''", ("a", "b c", "d e", "f g", "")),
        ("""vllm -sc '{"a": "x|y;$Z"}' 'a`b'""", ("vllm", "-sc", '{"a": "x|y;$Z"}', "a`b")),
        ("a \\\n  --b 1 \n --c 2", ("a", "--b", "1", "--c", "2")),
        ('a \\$HOME \\| "\\$x" "\\a" 5$', ("a", "$HOME", "|", "$x", "\\a", "5$")),
    ],
)  # fmt: skip
def test_a_line_is_split_as_a_shell_would(line: str, words: tuple[str, ...]) -> None:
    assert split_command(line) == words


@pytest.mark.parametrize(
    "line",
    ["", "  ", "a | b", "a > log", "a && b", "a; b", "a &", "$(a)", "a $HOME", "a `b`", "a \\", 'a "${HOME}/x"', 'a "`b`"', "A=1 b", "a 'b", "a\0b", "'' b"],
)  # fmt: skip
def test_what_only_a_shell_could_do_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"command|shell"):
        split_command(line)


@pytest.mark.parametrize("value", ["$A", "${A_1}", "a$$b", "$$", "", "a b", "$$A"])
def test_values_of_an_environment(value: str) -> None:
    check_value(value)
    assert (reference_of(value) is None) == (value not in {"$A", "${A_1}"})


@pytest.mark.parametrize("value", ["/x:$PATH", "${A}/b", "$", "${A", "$1", "$$$A", "a\0"])
def test_a_reference_stands_alone(value: str) -> None:
    with pytest.raises(ValueError, match=r"whole value|NUL"):
        check_value(value)


@pytest.mark.parametrize("text", ["", "$A", "$$", "a$b${c}", "x"])
def test_any_text_can_be_written_as_a_value(text: str) -> None:
    assert reference_of(check_value(as_literal(text))) is None
    assert literal_of(as_literal(text)) == text


def test_a_profile_gives_what_a_launch_needs() -> None:
    profile = Profile.model_validate({
        "command": "vllm serve /m",
        "env": {"A": "1$$", "TOKEN": "${HF_TOKEN}", "B": "$C"},
        "umask": "022",
        "variants": {"v": {"set": {"--tp": 4, "x": 0.5, "on": True, "off": False, "many": [1, 2], "one": "a b"}}},
    })  # fmt: skip
    assert profile.argv() == ("vllm", "serve", "/m")
    assert profile.literal_env() == (("A", "1$"),)
    assert profile.referred_env() == (("TOKEN", "HF_TOKEN"), ("B", "C"))
    assert profile.umask == "0022"
    assert profile.changes(None) == ()
    assert profile.changes("v") == (
        ("tp", "4"),
        ("x", "0.5"),
        ("on", True),
        ("off", False),
        ("many", ("1", "2")),
        ("one", "a b"),
    )
    with pytest.raises(KeyError):
        profile.changes("w")
    assert Profile(command=["a", "b c"]).argv() == ("a", "b c")


def test_the_schema_tells_every_key() -> None:
    schema = Config.model_json_schema()
    for name in ("Profile", "NodeConfig", "Variant"):
        properties = schema["$defs"][name]["properties"]
        assert all("description" in one for one in properties.values())
        assert schema["$defs"][name]["additionalProperties"] is False
