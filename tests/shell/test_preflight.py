"""The scripts `preflight` and `check-flags`, for real under each sh: what they tell, and that values are never run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagletui.shell.flag_check import FlagAnswer, ask_check_flags, parse_check_flags
from eagletui.shell.preflight import NodeFacts, Program, ask_preflight, parse_preflight
from tests.requires import require
from tests.shell.sh import run

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
HOSTILE = (
    "$(touch executed)",
    "`touch executed`",
    "; touch executed #",
    "'\"",
    "a\nb",
    "-n",
    "*",
    "é\udcff",
    "x\\0101",
)
PACKAGES = Path(__file__).parent.parent / "stand_in" / "unruly"
SHELLS = ("dash", "bash", "busybox")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(folder: Path, shell: str, program: str = "", **named: Any) -> NodeFacts:
    """The facts with everything under `folder` unless it is named."""
    words: dict[str, Any] = {
        "path": f"{folder / 'bin'}:/usr/bin:/bin",
        "cwd": str(folder),
        "log": str(folder / "new" / "a.log"),
    }
    status, output, errors = run(ask_preflight(program=program, tmp=str(folder), **(words | named)), folder, shell)
    assert (status, errors) == (0, b"")
    facts = parse_preflight(output)
    assert facts.complete
    assert facts.uid == os.getuid()
    return facts


def executable(path: Path, text: str, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_programs_are_found_as_the_launch_would(shell: str, tmp_path: Path) -> None:
    script = executable(tmp_path / "bin" / "serve", "#! /opt/gone/bin/python3 -u\n")
    executable(tmp_path / "bin" / "by-env", "#!/usr/bin/env -S python3 -u\n")
    executable(tmp_path / "bin" / "long", f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n")
    executable(tmp_path / "bin" / "locked", "#!/bin/sh\n", 0o644)
    executable(tmp_path / "here" / "run.sh", "#!/bin/sh\necho\n")
    (tmp_path / "bin" / "folder").mkdir()

    facts = ask(tmp_path, shell, "serve")
    assert facts.program == Program("found", str(script))
    assert facts.interpreter == Program("absent", "/opt/gone/bin/python3")
    by_env = ask(tmp_path, shell, "by-env").interpreter
    assert by_env is not None
    assert (by_env.word, Path(by_env.path).name) == ("found", "python3")
    assert ask(tmp_path, shell, "long").interpreter == Program("found", sys.executable)
    assert ask(tmp_path, shell, "locked").program == Program("denied", str(tmp_path / "bin" / "locked"))
    relative = ask(tmp_path, shell, "here/run.sh")
    assert relative.program == Program("found", f"{tmp_path}/here/run.sh")
    assert relative.interpreter == Program("found", "/bin/sh")
    assert ask(tmp_path, shell, "./bin/folder").program == Program("directory", f"{tmp_path}/./bin/folder")
    missing = ask(tmp_path, shell, "no-such")
    assert (missing.program, missing.interpreter) == (Program("absent", "no-such"), None)


@pytest.fixture
def unrunnable(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system that is mounted noexec."""
    require("root")
    place = tmp_path / "no exec"
    place.mkdir()
    mount = [require("mount"), "-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, timeout=10, check=False).returncode != 0:
        pytest.skip("may not mount here")
    yield place
    subprocess.run([require("umount"), str(place)], timeout=10, check=True)


def test_a_file_system_that_forbids_to_run(tmp_path: Path, unrunnable: Path) -> None:
    program = executable(unrunnable / "serve", "#!/bin/sh\n")
    for shell in SHELLS:
        assert ask(tmp_path, shell, str(program)).program == Program("noexec", str(program))


def test_paths_models_and_space(shell: str, tmp_path: Path) -> None:
    whole, cut, hub = tmp_path / "whole", tmp_path / "cut", tmp_path / "hub"
    for folder, names in ((whole, (1, 2)), (cut, (1,))):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        for n in names:
            (folder / f"model-0000{n}-of-00002.safetensors").write_bytes(b"x" * 2000)
    (cut / "model-00002-of-00002.safetensors").symlink_to("gone")
    (hub / "models--org--name" / "snapshots" / "abc").mkdir(parents=True)
    (hub / "models--org--name" / "snapshots" / "abc" / "config.json").write_text("{}")
    models = (
        (str(whole), ""),
        (str(cut), ""),
        (str(tmp_path / "org/name"), "models--org--name"),
        (str(tmp_path / "un/known"), "models--un--known"),
    )
    (tmp_path / "old.log").write_text("")

    facts = ask(tmp_path, shell, hub=str(hub), models=models, log=str(tmp_path / "old.log"))

    weights = dict(facts.weights)
    assert (weights[0].count, weights[0].broken, weights[0].shards, weights[0].total, weights[0].last_size) == (
        2,
        0,
        2,
        2,
        2000,
    )
    assert (weights[1].count, weights[1].broken) == (2, 1)
    assert dict(facts.snapshots) == {2: 1, 3: 0}
    config, log, around = facts.path("config-0"), facts.path("log"), facts.path("folder")
    assert config is not None
    assert config.read
    assert log is not None
    assert log.kind == "f"
    assert around is not None
    space = os.statvfs(tmp_path)
    assert (around.kind, around.write, around.size) == ("d", True, space.f_blocks * space.f_frsize)
    assert around.free is not None
    assert abs(around.free - space.f_bavail * space.f_frsize) < 1 << 30
    new = ask(tmp_path, shell, log=str(tmp_path / "new" / "er" / "a.log")).path("folder")
    assert new is not None
    assert (new.kind, new.near, new.near_kind, new.near_write) == ("-", len(str(tmp_path)), "d", True)
    assert ask(tmp_path, shell, tools=["tail", "no-such", "-v"]).tools == {"tail"}


def test_hostile_values_are_values(shell: str, tmp_path: Path) -> None:
    for word in HOSTILE:
        facts = ask(
            tmp_path, shell, word, cwd=f"{tmp_path}/{word}", log=f"{tmp_path}/{word}/{word}", hub=f"{tmp_path}/{word}",
            launcher=word, handle=word, models=((f"{tmp_path}/{word}", word),), path=f"{word}:{tmp_path}",
        )  # fmt: skip
        assert facts.program is not None
        assert facts.program.word == "absent" or word == "-n"
        env = [("PATH", word), ("A", word), ("LD_LIBRARY_PATH", word)]
        command = ask_check_flags("sglang", [word], program=word, cwd=word, env=env, path=f"{word}:{tmp_path}")
        status, output, _ = run(command, tmp_path, shell)
        assert status == 0
        assert parse_check_flags(output, status).word == "absent"
    assert not list(tmp_path.rglob("executed"))


def flags(
    folder: Path, shell: str, *args: str, program: str = sys.executable, engine: str = "sglang", **env: str
) -> FlagAnswer:
    variables = {"PYTHONPATH": str(PACKAGES), "HOME": str(folder)} | env
    command = ask_check_flags(
        engine, args, program=program, cwd=str(folder), env=variables.items(), path="/usr/bin:/bin", seconds=60
    )
    status, output, errors = run(command, folder, shell, timeout=90)
    assert errors == b""
    return parse_check_flags(output, status)


def test_the_engines_own_parser_is_asked(shell: str, tmp_path: Path) -> None:
    good = flags(tmp_path, shell, "--model", "a b", "--tp", "2", "--api-key", "", HF_TOKEN="a\nb='")
    assert good.word == "found"
    assert good.parser is not None
    assert (good.parser.error, good.parser.extras, good.parser.text) == (None, (), None)
    assert "--speculative-num-steps" in good.parser.options
    strange = flags(tmp_path, shell, "--model", "a", "--speculative-num-stpes=3", *HOSTILE)
    assert strange.parser is not None
    assert strange.parser.extras == ("--speculative-num-stpes=3", *HOSTILE)
    wrong = flags(tmp_path, shell, "--model", "a", "--tp", "two")
    assert wrong.parser is not None
    assert "invalid int value: 'two'" in (wrong.parser.error or "")
    helped = flags(tmp_path, shell, "--model", "a", "--help")
    assert helped.parser is not None
    assert helped.parser.error is not None
    assert not list(tmp_path.rglob("executed"))


def package(folder: Path, text: str) -> str:
    """A package tree named sglang whose server_args.py is this text."""
    srt = folder / "packages" / "sglang" / "srt"
    srt.mkdir(parents=True)
    for init in (srt.parent / "__init__.py", srt / "__init__.py"):
        init.write_text("print('noise on stdout')\n")
    (srt / "server_args.py").write_text(text)
    (srt / "arg_groups" / "fields").mkdir(parents=True)
    (srt / "arg_groups" / "fields" / "spec.py").write_text(
        "class Spec:\n    speculative_num_steps: A[int, 'Steps.'] = 1\n"
    )
    return str(folder / "packages")


SOURCE = """
import dataclasses, os, sys
{begin}
@dataclasses.dataclass
class ServerArgs:
    tp_size: int = 1
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path")
        parser.add_argument("--cuda", default=os.environ["CUDA_VISIBLE_DEVICES"])
        parser.add_argument("--" + os.environ["LAUNCH"])
"""


@pytest.mark.parametrize(
    ("begin", "why"),
    [
        ("raise RuntimeError('no libcuda')", "RuntimeError: no libcuda"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "OSError: no connections"),
    ],
    ids=("raises", "exits", "connects"),
)
def test_an_engine_that_cannot_be_imported_is_read(tmp_path: Path, begin: str, why: str) -> None:
    answer = flags(tmp_path, "sh", "--model", "a", PYTHONPATH=package(tmp_path, SOURCE.format(begin=begin)))
    assert answer.scan is not None
    assert set(answer.scan.options) == {"--model-path", "--cuda", "--tp-size", "--speculative-num-steps"}
    assert answer.parser is not None
    assert why in (answer.parser.text or "")


def test_an_import_that_takes_too_long_leaves_what_was_read(tmp_path: Path) -> None:
    place = package(tmp_path, SOURCE.format(begin="import signal; os.kill(os.getpid(), signal.SIGALRM)"))
    answer = flags(tmp_path, "sh", "--model", "a", PYTHONPATH=place)  # as if the time were over just then
    assert (answer.late, answer.parser) == (True, None)
    assert answer.scan is not None
    assert "--tp-size" in answer.scan.options
    (Path(place) / "sglang" / "srt" / "server_args.py").write_text("import time; time.sleep(600)\n")
    command = ask_check_flags(
        "sglang", ["--model", "a"], program=sys.executable, cwd="/", env=[("PYTHONPATH", place)], path="", seconds=1
    )
    status, output, _ = run(command, tmp_path, "sh")
    assert parse_check_flags(output, status).late


def test_it_runs_in_the_launchs_environment_with_cuda_hidden(tmp_path: Path) -> None:
    script = executable(tmp_path / "sglang", f"#!{sys.executable}\n")
    place = package(tmp_path, SOURCE.format(begin="assert os.environ['CUDA_VISIBLE_DEVICES'] == ''"))
    answer = flags(
        tmp_path, "sh", "--model", "a", program=str(script), PYTHONPATH=place, CUDA_VISIBLE_DEVICES="0,1", LAUNCH="own-flag"
    )  # fmt: skip
    assert answer.interpreter == sys.executable
    assert answer.parser is not None
    assert answer.parser.text is None
    assert "--own-flag" in answer.parser.options
    assert not list(Path(place).rglob("__pycache__"))
    shell_script = executable(tmp_path / "run.sh", "#!/bin/sh\n")
    assert flags(tmp_path, "sh", "--x", program=str(shell_script)).word == "other"
    none = flags(tmp_path, "sh", "--x", engine="vllm")
    assert none.scan is not None
    assert none.parser is None


def test_a_binary_has_no_interpreter(tmp_path: Path) -> None:
    facts = ask(tmp_path, "sh", require("sh"))
    assert facts.program is not None
    assert (facts.program.word, facts.interpreter) == ("found", None)


@given(st.binary(max_size=200), st.sampled_from([None, 0, 1, 124, 142]))
def test_parsers_are_total(raw: bytes, status: int | None) -> None:
    parse_preflight(raw)
    for key in (b"path ", b"weights ", b"login ", b"handle ", b"interpreter ", b'{"scan": ', b'{"parser": '):
        parse_preflight(key + raw)
        parse_check_flags(key + raw, status)
