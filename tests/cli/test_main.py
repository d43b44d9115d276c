"""The command line: help, mistakes, and sentences instead of tracebacks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from eagletui import __version__
from eagletui.cli.main import COMMANDS, main
from tests.cli.command import run


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(tmp_path: Path, flag: str) -> None:
    done = run(tmp_path, flag)
    assert (done.returncode, done.stdout) == (0, f"eagletui {__version__}\n")


def test_help_names_every_command_and_the_first_thing_to_try(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0
    assert "connect demo" in done.stdout
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, name, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


SIGNALS = {129, 130, 141, 143}
LAUNCHED = {12, 13, 15, 18}
EXITS = {
    "restart": {0, 2, 14, 16, 17, 20} | LAUNCHED | SIGNALS,
    "start": {0, 2, 14, 16, 17, 20} | LAUNCHED | SIGNALS,
    "stop": {0, 2, 14, 16, 17, 20} | SIGNALS,
    "wait": {0, 2, 11, 12, 13, 14, 15, 20} | SIGNALS,
    "status": {0, 2, 10, 11, 12, 13, 14, 20, 130},
    "connect": {0, 2, 20, 129, 130},
    "explain": {0, 2, 12, 13},
}


@pytest.mark.parametrize("name", EXITS)
def test_help_tells_exactly_the_exit_statuses_that_a_command_can_give(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--help"])
    told = done.output.partition("Exit status: ")[2].partition("\n\n")[0]
    numbers = {int(word) for word in re.findall(r"(?<![\w-])\d{1,3}(?= )", re.sub(r"\s+", " ", told))}
    assert numbers == EXITS[name]
    assert name != "stop" or "--wait" not in done.output


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["conect", "demo"], 2, "Did you mean 'connect'?"),
        (["status"], 2, "Missing argument"),
        (["connect", "demo"], 2, "eagletui status demo"),
        (["status", "local", "--speed", "3"], 2, "demo node alone"),
        (["status", "local", "--port", "99999"], 2, "65535"),
        (["status", "local", "-F", "/no/such/file"], 2, "does not exist"),
        (["status", "local", "--log", ""], 2, "the path is empty"),
        (["status", "-F", "/etc/hosts"], 2, "Missing argument"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, argv: list[str], status: int, says: str) -> None:
    done = run(tmp_path, *argv)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ("no-such-host.invalid", "no-such-host.invalid"),
        ("127.0.0.1:1", "127.0.0.1"),
    ],
)
def test_no_link_is_offline(tmp_path: Path, node: str, says: str) -> None:
    done = run(tmp_path, "status", node, "--json")
    assert done.returncode == 20
    model = json.loads(done.stdout)
    assert model["link"]["state"] == "down"
    assert says in model["link"]["error"]
    assert model["servers"] == model["gpus"] == []
    assert "Traceback" not in done.stderr


def test_keys_and_themes_are_one_a_line(tmp_path: Path) -> None:
    keys = run(tmp_path, "keys")
    assert keys.returncode == 0
    assert any(line.split()[0] == "q" for line in keys.stdout.splitlines())
    themes = run(tmp_path, "themes")
    assert themes.returncode == 0
    assert len(themes.stdout.splitlines()) >= 4


@pytest.mark.parametrize("argv", [["keys"], ["themes"], ["--help"], ["status", "demo", "--json"]])
def test_a_full_disk_is_a_sentence(tmp_path: Path, argv: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = run(tmp_path, *argv, stdout="/dev/full")
    assert done.returncode == 2
    assert "could not be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_ctrl_c_while_the_program_is_still_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run(tmp_path, "keys")
    assert done.returncode == 130
    assert done.stderr == done.stdout == ""


@pytest.mark.parametrize(
    "argv", [["bench", "demo", "--rate", "nan"], ["stop", "demo", "--grace", "inf"], ["history", "--limit", "9" * 30]]
)
def test_what_is_no_number_is_a_mistake_of_usage(argv: list[str]) -> None:
    done = CliRunner().invoke(main, argv)
    assert done.exit_code == 2
    assert "Invalid value" in done.output
