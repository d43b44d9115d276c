"""A real sshd, an ordinary user's server, and `status` and `connect` as a user types them."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.e2e.terminal import terminal
from tests.engine import engine_of_user
from tests.requires import require
from tests.sshd import Sshd, children_of, start_sshd


def home_of(sshd: Sshd, shell: str) -> Path:
    return Path(pwd.getpwnam(sshd.user(shell)).pw_dir)


def python_of_the_system() -> None:
    require("procfs")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3, for a user that may not see ours")


@pytest.mark.parametrize("shell", ["bash", "dash", "fish", "tcsh"])
def test_status_through_every_login_shell(tmp_path: Path, sshd_server: Sshd, shell: str) -> None:
    require(shell)
    python_of_the_system()
    user = sshd_server.user(shell)
    with engine_of_user(user, home_of(sshd_server, shell)) as (port, log):
        done = run(
            tmp_path, "status", sshd_server.target(shell), "-F", str(sshd_server.config), "--json", "--port", str(port)
        )
    assert done.returncode in (0, 10), done.stderr
    model = json.loads(done.stdout)
    assert model["link"]["state"] == "up"
    assert model["link"]["latency_ms"] > 0
    server = model["servers"][0]
    assert (server["user"], server["port"], server["log"], server["engine"]) == (user, port, str(log), "sglang")
    assert server["cwd"] == str(home_of(sshd_server, shell))


def test_a_start_is_followed_on_the_screen(tmp_path: Path, sshd_server: Sshd) -> None:
    python_of_the_system()
    user = sshd_server.user("bash")
    argv = [sys.executable, "-m", "eagletui", "connect", sshd_server.target("bash"), "-F", str(sshd_server.config)]
    with (
        engine_of_user(user, home_of(sshd_server, "bash"), pace_s=1.0) as (port, _),
        terminal([*argv, "--port", str(port)], tmp_path) as term,
    ):
        first = term.until(r"(\d+)/16")
        seen = re.search(r"(\d+)/16", first)
        assert seen is not None
        term.until(rf"(?!{seen[1]}/16)\b\d+/16")
        assert "STARTING" in first
        term.until("READY", 60)
        term.until(r"8\d\.\d tok/s")
        term.until("alive +4 of 4")
        term.keys("q")
        term.until("exit status 0")


def test_somebody_elses_server_is_unreadable_and_told_so(tmp_path: Path, sshd_server: Sshd) -> None:
    """Logged in as another ordinary user: descriptors and log are denied, the process and its flags are seen."""
    python_of_the_system()
    require("dash")
    owner = sshd_server.user("dash")
    with engine_of_user(owner, home_of(sshd_server, "dash"), pace_s=30, log_mode=0o600) as (port, _):
        done = run(
            tmp_path, "status", sshd_server.target("bash"), "-F", str(sshd_server.config), "--json", "--port", str(port)
        )
    model = json.loads(done.stdout)
    server = model["servers"][0]
    assert server["user"] == owner
    assert server["log"] is None
    assert server["state"] in {"unknown", "starting"}
    assert "Traceback" not in done.stderr


def test_a_log_without_permission_is_a_sentence_on_the_screen(tmp_path: Path, sshd_server: Sshd) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text("hidden\n")
    secret.chmod(0o600)
    tmp_path.chmod(0o755)
    python_of_the_system()
    user = sshd_server.user("bash")
    argv = [sys.executable, "-m", "eagletui", "connect", sshd_server.target("bash"), "-F", str(sshd_server.config)]
    with engine_of_user(user, home_of(sshd_server, "bash")) as (port, _):
        for path, says in (("/etc/shadow", "may not be read"), ("/no/such.log", "There is no log")):
            with terminal([*argv, "--port", str(port), "--log", path], tmp_path) as term:
                screen = term.until(says)
                assert "hidden" not in screen
                term.until("READY", 60)
                term.keys("q")
                term.until("exit status 0")


def test_an_unknown_host_key_is_a_sentence(tmp_path: Path, sshd_server: Sshd) -> None:
    config = sshd_server.write_config("unknown", "Host *", "  UserKnownHostsFile /dev/null")
    target = sshd_server.target("bash")
    done = run(tmp_path, "status", target, "-F", str(config))
    assert done.returncode == 20
    assert "SHA256:" in done.stderr
    assert "Traceback" not in done.stderr
    with terminal([sys.executable, "-m", "eagletui", "connect", target, "-F", str(config)], tmp_path) as term:
        term.until("yes, no, or the fingerprint:")
        term.keys("n", "o", "Enter")
        assert "SHA256:" in term.until("exit status 20")


@pytest.mark.parametrize("options", [(), pytest.param(("AllowTcpForwarding no",), marks=pytest.mark.slow)])
def test_a_frozen_link_is_offline_and_quitting_works(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, options: tuple[str, ...]
) -> None:
    """The sshd of our connection stops answering, as when a laptop sleeps or a VPN drops: no FIN, just silence."""
    python_of_the_system()
    with start_sshd(open_folder, sshd_users, ssh_key, options) as sshd:
        argv = [sys.executable, "-m", "eagletui", "connect", sshd.target("bash"), "-F", str(sshd.config)]
        with (
            engine_of_user(sshd.user("bash"), home_of(sshd, "bash")) as (port, _),
            terminal([*argv, "--port", str(port)], tmp_path) as term,
        ):
            term.until("READY", 60)
            frozen = [child for pid in sshd.connections() for child in (pid, *children_of(pid))]
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            try:
                term.until("OFFLINE", 30)
                term.until("READY", 60)  # a new connection, since sshd itself lives
                term.keys("q")
                term.until("exit status 0")
            finally:
                for pid in frozen:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def test_too_few_sessions_are_a_note(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    python_of_the_system()
    with start_sshd(open_folder, sshd_users, ssh_key, ("MaxSessions 2",)) as sshd:
        argv = [sys.executable, "-m", "eagletui", "connect", sshd.target("bash"), "-F", str(sshd.config)]
        with (
            engine_of_user(sshd.user("bash"), home_of(sshd, "bash")) as (port, _),
            terminal([*argv, "--port", str(port)], tmp_path) as term,
        ):
            term.until("READY", 60)
            screen = term.until(r"allows\s+2\s+sessions", 40)
            assert "eagletui itself" not in screen
            term.keys("q")
            term.until("exit status 0")
