"""A node of the configuration over a real sshd: reached by its name, made into a profile, and left alone where it is read_only."""

from __future__ import annotations

import pwd
import tomllib
from pathlib import Path

from tests.cli.command import run
from tests.engine import user_engine
from tests.requires import require
from tests.sshd import Sshd


def test_a_node_by_a_name_of_ones_own(tmp_path: Path, sshd_server: Sshd) -> None:
    require("procfs")
    require("/usr/bin/python3")
    user, target = sshd_server.user("bash"), sshd_server.target("bash")
    file = tmp_path / ".config" / "eagletui" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'[nodes.gpu]\nhost = "{target}"\nssh_config = "{sshd_server.config}"\nread_only = true\n')
    (tmp_path / "eagletui.toml").write_text(f'[nodes.open]\nhost = "{target}"\n[profiles.p]\ncommand = "true"\n')
    home = Path(pwd.getpwnam(user).pw_dir)
    with user_engine(user, home) as engine:
        engine.wait_for("Decode batch")
        done = run(tmp_path, "config", "init", "gpu", "--port", str(engine.port), "--output", "-")
        assert done.returncode == 0, done.stderr
        profile = tomllib.loads(done.stdout)["profiles"]["tiny"]
        assert profile["node"] == "gpu"
        assert profile["command"].split()[1:3] == ["-m", "sglang.launch_server"]
        assert profile["cwd"] == str(home)
        assert profile["env"]["PYTHONPATH"] == str(home / "engine")
        for name, more in (
            ("gpu", ()),
            (target, ("-F", str(sshd_server.config))),
            ("open", ("-F", str(sshd_server.config))),
        ):
            refused = run(tmp_path, "restart", name, *more, "--port", str(engine.port), "--yes")
            assert (refused.returncode, "gpu is read_only in" in refused.stderr) == (16, True), refused.stderr
        assert engine.process.poll() is None
