"""`config`: a profile from a server that runs, without its secrets, and a file that is checked, kept and never overwritten."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from eagletui.cli.configured import _real_host, configured, guards_for, reached
from eagletui.cli.main import main
from eagletui.config.models import Config
from eagletui.config.screen import ScreenSettings, screen_settings
from eagletui.errors import ConfigError, EagletuiError, UsageError
from tests.cli.command import run
from tests.engine import CANARY, Engine, running_engine
from tests.requires import require


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The person's own file, not made yet, in a folder that commands run in."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    asked = (configured, reached, _real_host)
    for one in asked:
        one.cache_clear()
    yield tmp_path / "config" / "eagletui" / "config.toml"
    for one in asked:
        one.cache_clear()


def command(*argv: str) -> Result:
    return CliRunner().invoke(main, ["config", *argv], standalone_mode=False)


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    require("procfs")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HF_TOKEN", CANARY)
            patch.setenv("ODD", "$HOME is 'here' \"and\" \\ there")
            patch.setenv("TMUX", "/tmp/tmux")
            running = stack.enter_context(running_engine(tmp_path_factory.mktemp("engine")))
        running.wait_for("Decode batch")
        yield running


def test_a_profile_is_what_runs_less_its_secrets(tmp_path: Path, engine: Engine) -> None:
    file = write(tmp_path / ".config" / "eagletui" / "config.toml", '# mine\n[nodes.gpu] # and this\nhost = "x"\n')
    argv = ("config", "init", "local", "--port", str(engine.port), "--profile", "my tiny/one")
    done = run(tmp_path, *argv)
    assert (done.returncode, done.stdout) == (0, "")
    text = file.read_text()
    assert text.startswith('# mine\n[nodes.gpu] # and this\nhost = "x"\n\n# From a server')
    assert CANARY not in text + done.stderr
    assert "HF_TOKEN: left out" in done.stderr
    profile = Config.model_validate(tomllib.loads(text)).profiles["my tiny/one"]
    words = ("-m", "sglang.launch_server", "--model-path", "/models/tiny", "--port", str(engine.port), "--tp", "2")
    assert profile.argv()[1:] == (*words, "--api-key", "***")
    assert "put it in place of ***" in text
    assert (profile.node, profile.cwd, profile.port) == ("local", str(engine.log.parent), engine.port)
    assert profile.log == f"{engine.log.parent}/{{profile}}-{{variant}}-{{time}}.log"
    env = dict(profile.literal_env())
    assert env["ODD"] == "$HOME is 'here' \"and\" \\ there"
    assert not {"HF_TOKEN", "TMUX", "PWD", "_"} & set(env)

    again = run(tmp_path, *argv)
    assert again.returncode == 2
    assert "was not touched" in again.stderr
    assert file.read_text() == text
    checked = run(tmp_path, "config", "check")
    assert checked.returncode == 2  # the secret has to be put in
    assert "profiles.my tiny/one" in checked.stdout


def test_a_profile_can_be_looked_at_first(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_another")  # a login has it: on this machine, ours is its
    done = run(tmp_path, "config", "init", "local", "--pid", str(engine.pid), "--output", "-")
    assert done.returncode == 0
    profiles = tomllib.loads(done.stdout)["profiles"]
    assert list(profiles) == ["tiny"]
    assert profiles["tiny"]["env"]["HF_TOKEN"] == "${HF_TOKEN}"
    assert "taken from the login on the node, where its value is another one now" in done.stderr
    assert list(tmp_path.rglob("*.toml")) == []
    nobody = run(tmp_path, "config", "init", "local", "--port", "1", "--output", "-")
    assert (nobody.returncode, nobody.stdout) == (14, "")


def test_a_template_is_valid_and_is_never_written_over(own: Path) -> None:
    assert command("init").return_value == 0
    assert own.stat().st_mode & 0o777 == 0o600
    assert own.parent.stat().st_mode & 0o777 == 0o700
    text = own.read_text()
    assert command("check").return_value == 0
    second = command("init")
    assert isinstance(second.exception, UsageError)
    assert own.read_text() == text
    # Every example in it is one.
    lines = [
        line[2:]
        for line in text.splitlines()
        if line.startswith("# ") and not line[2:3].isupper() and not line.startswith("# eagletui")
    ]
    Config.model_validate(tomllib.loads("\n".join(lines)))


def test_a_server_in_a_unit_gets_a_profile_that_asks_systemd(own: Path) -> None:
    """And a restart by it does: here only root may, which is told, and the server runs on."""
    assert command("init", "demo", "--scenario", "kept-by-systemd").return_value == 0
    (profile,) = Config.model_validate(tomllib.loads(own.read_text())).profiles.values()
    assert (profile.launcher, profile.handle, profile.env, profile.cwd) == ("systemd", "sglang.service", {}, None)
    assert command("check").return_value == 0
    boxed = command("init", "demo", "--scenario", "in-a-container", "--profile", "boxed", "--output", "-")
    assert 'launcher = "docker"\nhandle = "7c1f0a9e4b2d"' in boxed.stdout

    configured.cache_clear()
    argv = ["restart", "demo", "--scenario", "kept-by-systemd", "--speed", "20", "--yes"]
    done = CliRunner().invoke(main, argv, standalone_mode=False)
    assert (done.return_value, done.exception) == (17, None)


def test_one_mistake_hides_no_other(own: Path) -> None:
    """Whether it is pydantic's to find, or ours: a key that is none, a theme, an action, a flag, a port, each by its line."""
    write(
        own,
        """theme = "nosuch"
typo = 1
[keys]
"server.restrat" = "f9"
[profiles.a]
command = "python -m sglang.launch_server --model-path /m --port 30001"
port = 30000
[profiles.b]
command = "python -m sglang.launch_server"
gracce_s = 3
""",
    )
    done = command("check")
    assert done.return_value == 2
    told = [line.partition(f"{own}:")[2].split(": ")[:2] for line in done.stdout.splitlines()]
    assert told == [
        ["1", "theme"],
        ["2", "typo"],
        ["4", "keys.server.restrat"],
        ["7", "profiles.a.port"],
        ["10", "profiles.b.gracce_s"],
    ]
    looked = CliRunner().invoke(main, ["status", "demo"], standalone_mode=False)
    assert isinstance(looked.exception, ConfigError)  # no node is looked at with half of a configuration


def test_nothing_is_added_to_a_file_that_is_not_in_order(own: Path) -> None:
    write(own, "[nodes\n")
    done = command("init", "local")
    assert isinstance(done.exception, EagletuiError)
    assert f"{own}:1: it is no TOML" in str(done.exception)
    assert own.read_text() == "[nodes\n"


def test_a_file_to_which_nothing_can_be_added_stays(own: Path, engine: Engine) -> None:
    text = 'profiles = { a = { command = "x" } }\n'
    link = write(own, text)
    link.rename(own.parent / "real.toml")
    own.symlink_to("real.toml")
    done = command("init", "local", "--pid", str(engine.pid))
    assert "was not touched" in str(done.exception)
    assert own.read_text() == text
    write(own.parent / "real.toml", "# mine\n", 0o640)
    assert command("init", "local", "--pid", str(engine.pid)).return_value == 0
    assert own.is_symlink()  # into a folder of dotfiles, as people have it
    assert (own.parent / "real.toml").read_text().startswith("# mine\n\n# From")
    assert (own.parent / "real.toml").stat().st_mode & 0o777 == 0o640
    assert {one.name for one in own.parent.iterdir()} == {"config.toml", "real.toml"}


CHECKED = """
theme = "nightmare"
keys = { app.qit = "F 5", app.help = ["r", "f1"], "app.theme" = "ctrl+t" }
[profiles.p]
command = "python -m sglang.launch_server --port 1"
port = 2
[profiles.q]
command = "bash -c 'x'"
variants.v.set = { tp = 4 }
"""


def test_check_tells_everything_with_file_and_line(own: Path, tmp_path: Path) -> None:
    write(own, CHECKED)
    done = command("check")
    assert done.return_value == 2
    told = [line.removeprefix(f"{own}:") for line in done.stdout.splitlines()]
    assert [line.partition(":")[0] for line in told] == ["2", "3", "3", "3", "6", "9"]
    assert "no theme 'nightmare'" in told[0]
    assert "did you mean app.quit?" in told[1]
    assert "'F 5' is no key" in told[2]
    assert "r is the key of server.restart, too" in told[3]
    assert "2 here and 1 in the command" in told[4]
    assert "profiles.q.variants.v: the command is a text for bash" in told[5]
    write(tmp_path / "eagletui.toml", 'theme = "x"\n')
    assert "eagletui.toml:1: theme: only your own file" in command("check").stdout


def test_a_secret_that_others_can_read_is_warned_of(own: Path) -> None:
    text = f'[profiles.p]\ncommand = "vllm serve /m --api-key {CANARY}"\nenv = {{ HF_TOKEN = "{CANARY}", A = "1", B_TOKEN = "${{B_TOKEN}}" }}\n'
    write(own, text, 0o644)
    done = command("check")
    assert done.return_value == 0
    assert CANARY not in done.output
    assert done.stderr.count("looks like a secret") == 2
    assert f"{own}:3: profiles.p.env.HF_TOKEN" in done.stderr
    own.chmod(0o600)
    assert "secret" not in command("check").stderr


def test_path_and_schema(own: Path) -> None:
    done = command("path")
    assert done.stdout == f"{own}\n"
    assert "not there" in done.stderr
    write(own, "")
    write(Path("eagletui.toml"), "")
    assert command("path").stdout == f"{own}\n{Path('eagletui.toml').absolute()}\n"
    schema: dict[str, Any] = json.loads(command("schema").stdout)
    assert set(schema["properties"]) == set(Config.model_fields)


def test_theme_and_keys_are_the_persons(own: Path, tmp_path: Path) -> None:
    write(own, 'theme = "x"\nkeys.app.quit = ["ctrl+c", "f10"]\nkeys."app.help" = "h"\nkeys.log = { up = 3 }\n')
    assert screen_settings() == ScreenSettings("x", (("app.quit", ("ctrl+c", "f10")), ("app.help", ("h",))))
    write(tmp_path / ".config" / "eagletui" / "config.toml", 'keys.app.quit = "f10"\n')
    listed = run(tmp_path, "keys").stdout.splitlines()
    assert [line.split()[0] for line in listed if " app.quit " in line] == ["f10"]
    write(own, "theme = ")
    assert screen_settings() == ScreenSettings()


# --- names of nodes


def test_a_configured_name_leads_to_its_host(own: Path, tmp_path: Path) -> None:
    write(own, '[nodes.gpu]\nhost = "me@10.0.0.7:2222"\nssh_config = "ssh_config"\nread_only = true\n')
    assert reached("gpu", None) == ("me@10.0.0.7:2222", own.parent / "ssh_config")
    assert reached("gpu", tmp_path) == ("me@10.0.0.7:2222", tmp_path)
    assert reached("elsewhere", None) == ("elsewhere", None)
    assert guards_for("10.0.0.7").read_only


def test_a_guard_holds_for_the_address_behind_an_alias_of_ssh(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ssh -G` is asked; here a stand-in on PATH, since ssh reads the configuration of the login's home."""
    require("sh")
    stand_in = write(
        tmp_path / "bin" / "ssh",
        '#!/bin/sh\nfor name; do :; done\n[ "$name" = prod ] && name=10.0.0.7\necho "hostname $name"\n',
        0o755,
    )
    monkeypatch.setenv("PATH", f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}")
    write(own, "[nodes.prod]\nread_only = true\n")
    write(tmp_path / "eagletui.toml", '[nodes.new]\nhost = "you@10.0.0.7:22"\n')
    assert [guards_for(name).read_only for name in ("prod", "10.0.0.7", "new", "other")] == [True, True, True, False]


def test_without_a_file_nothing_is_loaded(own: Path) -> None:
    assert configured() is None
    assert reached("gpu", None) == ("gpu", None)
    assert not guards_for("gpu").read_only


def test_a_name_that_ssh_knows_is_not_led_elsewhere_by_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository cannot make `connect gpu` go to a machine of its author."""
    require("ssh")
    write(tmp_path / "eagletui.toml", '[nodes.gpu]\nhost = "evil.example"\n[nodes.other]\nhost = "fine.example"\n')
    ssh_config = write(tmp_path / "ssh_config", "Host gpu\n  HostName 10.0.0.7\n")
    with pytest.raises(UsageError, match=r"ssh knows gpu, and eagletui\.toml would lead it to evil\.example"):
        reached("gpu", ssh_config)
    assert reached("other", ssh_config)[0] == "fine.example"


def test_a_node_of_the_configuration_is_connected(tmp_path: Path) -> None:
    write(tmp_path / ".config" / "eagletui" / "config.toml", '[nodes.gpu]\nhost = "me@127.0.0.1:1"\n')
    done = run(tmp_path, "status", "gpu")
    assert done.returncode == 20
    assert "127.0.0.1:1" in done.stderr
    write(tmp_path / ".config" / "eagletui" / "config.toml", "[nodes.gpu]\nhst = 1\n")
    broken = run(tmp_path, "status", "gpu")
    assert broken.returncode == 2
    assert "config.toml:2: nodes.gpu.hst: there is no such key; did you mean host?" in broken.stderr
    assert os.linesep in broken.stderr
