"""What will run, where it logs, and how it differs from what runs now."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from eagletui.config.log_path import Named
from eagletui.config.models import Profile
from eagletui.gpus.model import Gpu, GpuReport
from eagletui.launching.plan import Wish
from eagletui.launching.planning import (
    changed,
    differences,
    flags_for,
    gpus_of,
    kind_of_command,
    new_log,
    newest,
    port_of_command,
    recipe_of_profile,
)
from eagletui.servers.record import Record

NOW = datetime(2026, 12, 1, 10, 30, tzinfo=UTC)
COMMAND = ("python", "-m", "sglang.launch_server", "--model-path", "/m/x", "--tp", "8", "--api-key", "hunter22-secret")
NAMED = Named(None, None, NOW, 30000, "/m/x")
LOGIN = (("HOME", "/home/me"), ("PATH", "/bin"), ("TOKEN", "from-the-login"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/data/x.log", "/data/x-20261201-103000.log"),
        ("/data/x-20261130-090000.log", "/data/x-20261201-103000.log"),
        ("/data/x-20261130-090000-2.log", "/data/x-20261201-103000.log"),
        ("/data/k25_2step_1201-104646-20261201-104651.log", "/data/k25_2step-20261201-103000.log"),
        ("/data/run.2026-11-30T09_00_00.log", "/data/run-20261201-103000.log"),
        ("/data/tp8-30000.log", "/data/tp8-30000-20261201-103000.log"),
        ("/data/nohup", "/data/nohup-20261201-103000.log"),
        ("/data/.hidden", "/data/.hidden-20261201-103000.log"),
        (None, "/home/me/.local/state/eagletui/logs/x-base-20261201-103000.log"),
        ("/dev/pts/3", "/home/me/.local/state/eagletui/logs/x-base-20261201-103000.log"),
    ],
)
def test_each_launch_logs_to_a_file_of_its_own_beside_the_old_one(old: str | None, new: str) -> None:
    assert new_log(old, NAMED, home="/home/me", cwd="/") == new


def test_flags_are_changed_and_told_without_their_secrets() -> None:
    after, refusal = changed(COMMAND, (("tensor-parallel-size", "4"), ("api-key", "another-secret"), ("port", "31000")))
    assert refusal is None
    told = {one.flag: (one.before, one.after) for one in differences(COMMAND, after)}
    assert told["tp"] == ("8", "4")
    assert told["port"] == (None, "31000")
    assert "secret" not in str(told)
    assert (port_of_command(COMMAND), port_of_command(after)) == (30000, 31000)
    assert (kind_of_command("sglang", after).tp, kind_of_command("sglang", after).model) == (4, "/m/x")
    refused = changed(COMMAND, (("no flag", "4"),))[1]
    assert refused is not None
    assert "names no flag" in refused.text
    assert changed(COMMAND, ()) == (COMMAND, None)


def profile(**more: object) -> Profile:
    return Profile.model_validate(
        {"command": list(COMMAND), "env": {"A": "1", "HF_TOKEN": "${TOKEN}"}, "variants": {"small": {"set": {"tp": 1}}}, **more}
    )  # fmt: skip


def test_a_profile_becomes_a_recipe() -> None:
    recipe, refusal = recipe_of_profile(
        "p", profile(cwd="~/work", log="{variant}-{port}.log", umask="027"), Wish("start", variant="small"),
        base=LOGIN[:2], login=LOGIN, home="/home/me", now=NOW,
    )  # fmt: skip
    assert refusal is None
    assert recipe is not None
    assert dict(recipe.env) == {"HOME": "/home/me", "PATH": "/bin", "A": "1", "HF_TOKEN": "from-the-login"}
    assert (recipe.cwd, recipe.log, recipe.port) == ("/home/me/work", "/home/me/work/small-30000.log", 30000)
    assert (recipe.source, recipe.engine, recipe.variant, recipe.limits.umask) == ("profile", "sglang", "small", "0027")
    assert recipe.argv[recipe.argv.index("--tp") + 1] == "1"


@pytest.mark.parametrize(
    ("wish", "more", "code"),
    [
        (Wish("start", variant="none"), {}, "no-variant"),
        (Wish("start"), {"env": {"X": "$NOT_THERE"}}, "no-environment"),
        (Wish("start", changes=(("=", "2"),)), {}, "bad-change"),
    ],
)
def test_a_profile_that_cannot_be_launched_says_why(wish: Wish, more: dict[str, object], code: str) -> None:
    recipe, refusal = recipe_of_profile("p", profile(**more), wish, base=LOGIN, login=LOGIN, home="/home/me", now=NOW)
    assert recipe is None
    assert refusal is not None
    assert refusal.code == code


@pytest.mark.parametrize(
    ("visible", "found"),
    [(None, None), ("0,2", {0, 2}), ("GPU-bb", {1}), ("1,x,0", {1}), ("", None), ("-1", None)],
)
def test_which_gpus_a_launch_would_use(visible: str | None, found: set[int] | None) -> None:
    report = GpuReport((Gpu(0, uuid="GPU-aa"), Gpu(1, uuid="GPU-bb"), Gpu(2)))
    env = () if visible is None else (("CUDA_VISIBLE_DEVICES", visible),)
    assert gpus_of(env, report) == (None if found is None else frozenset(found))


def test_what_ran_last_and_what_worked_last() -> None:
    records = [
        Record(str(at), "restart", "", "me@here", port=port) for at, port in ((1, 30000), (3, 31000), (2, 30000))
    ]
    can = ("1", "2", "3")
    assert [newest(records, port=port, launchable=can) for port in (None, 30000, 32000)] == [
        records[1],
        records[2],
        None,
    ]
    assert newest(records, port=None, launchable=can, ready=("1",)) is records[0]
    assert newest(records, port=None, launchable=()) is None


def test_flags_that_may_be_completed_come_from_everywhere_once() -> None:
    found = flags_for(Wish("restart", changes=(("own", "1"),)), profile(), COMMAND)
    assert len(found) == len(set(found))
    assert found[0] == "model-path"
    assert {"tp", "own", "mem-fraction-static"} <= set(found)
