"""A profile's command, and which profile a running command came from."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from eagletui.config.choose import Guards
from eagletui.config.load import read_config
from eagletui.config.models import Profile
from eagletui.engines.command_line import BadChangeError
from eagletui.launching.planner import Planner
from eagletui.launching.profiles import command_of, match_of, port_of
from eagletui.launching.recipe import Recipe

if TYPE_CHECKING:
    from eagletui.nodes.base import Node

LLAMA = Profile.model_validate({
    "command": "taskset -c 0-7 python -m sglang.launch_server --model-path /m/llama --tp 8 --port 30000",
    "variants": {"steps": {"set": {"speculative-num-steps": 2, "tp": 4}}, "metrics": {"set": {"enable-metrics": True}}},
})  # fmt: skip
QWEN = Profile(command="vllm serve /m/qwen --api-key ***", port=8001)
PROFILES = {"llama": LLAMA, "qwen": QWEN}
RUNNING = "/venv/bin/python3 -m sglang.launch_server"


def test_a_command_is_the_profiles_with_its_variant_and_then_what_was_asked() -> None:
    words = command_of(LLAMA, "steps", [("tp-size", "2")])
    assert shlex.join(words) == (
        "taskset -c 0-7 python -m sglang.launch_server --model-path /m/llama --tp 2 --port 30000 --speculative-num-steps 2"
    )
    with pytest.raises(KeyError):
        command_of(LLAMA, "none")
    with pytest.raises(BadChangeError, match="secret was left out"):
        command_of(QWEN)
    assert command_of(QWEN, None, [("api-key", None)]) == ("vllm", "serve", "/m/qwen")


@pytest.mark.parametrize(
    ("profile", "port"),
    [
        (LLAMA, 30000),
        (QWEN, 8001),
        (Profile(command="vllm serve /m"), 8000),
        (Profile(command="./serve.sh --port 7000"), 7000),
        (Profile(command="./serve.sh"), None),
        (Profile(command="sh -c x"), None),
    ],
)
def test_where_a_profile_listens(profile: Profile, port: int | None) -> None:
    assert port_of(profile, profile.argv()) == port


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("--model-path /m/llama --tp-size=8 --port 30000", ("llama", None, ())),
        ("--model-path /m/llama --tp 4 --speculative-num-steps 2 --port 30000", ("llama", "steps", ())),
        ("--model-path /m/llama --tp 8 --mem-fraction-static 0.8", ("llama", None, ("mem-fraction-static",))),
        ("--model-path /m/other --tp 8 --port 30000", None),
        ("--model-path /m/llama --tp 8 --port 30001", None),
    ],
)
def test_a_running_command_is_known_again(flags: str, found: tuple[str, str | None, tuple[str, ...]] | None) -> None:
    match = match_of(PROFILES, PROFILES, shlex.split(f"{RUNNING} {flags}"))
    told = (
        None
        if match is None
        else (match.profile, match.variant, tuple(one.flag for one in match.differences if one.flag != "port"))
    )
    assert told == found
    assert match_of(PROFILES, ["qwen"], shlex.split(f"{RUNNING} {flags}")) is None


def test_a_plan_says_when_its_profile_came_with_the_project(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[profiles.mine]\ncommand = "x"\n')
    (tmp_path / "eagletui.toml").write_text('[profiles.theirs]\ncommand = "x"\n')
    loaded = read_config(tmp_path / "config.toml", tmp_path / "eagletui.toml")
    planner = Planner(cast("Node", None), name="gpu", loaded=loaded, guards=Guards(), history=None)
    recipe = Recipe(("x",), (), "/", "/x.log", "profile", profile="theirs")
    assert [str(tmp_path / "eagletui.toml") in note for note in planner.origin(recipe)] == [True]
    assert planner.origin(replace(recipe, profile="mine")) == ()
    assert planner.origin(replace(recipe, source="record")) == ()
