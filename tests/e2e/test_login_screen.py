"""Logging in as a person does: on a real terminal, before the screen opens, to a real sshd."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.e2e.terminal import Terminal, terminal
from tests.requires import require
from tests.sshd import Sshd, start_sshd

SECRET = "open sesame"


@pytest.fixture
def locked(sshd_server: Sshd, tmp_path: Path) -> Path:
    """A configuration whose only key has a passphrase."""
    key = tmp_path / "locked"
    shutil.copy(sshd_server.key, key)
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", SECRET, "-f", key], check=True, capture_output=True, timeout=30)
    config = sshd_server.write_config(f"{tmp_path.name}-locked", f"IdentityFile {key}")
    config.write_text(config.read_text().replace(f"  IdentityFile {sshd_server.key}\n", ""))
    return config


@contextmanager
def eagletui(home: Path, *argv: str, width: int = 160) -> Iterator[Terminal]:
    # No server is looked at: those of other tests on this machine are no part of these.
    with terminal([sys.executable, "-m", "eagletui", *argv, "--port", "1"], home, width=width) as term:
        yield term


def settings(term: Terminal) -> str:
    """The terminal's modes, as its own `stty` tells them."""
    require("stty")
    tty = term.run("display-message", "-p", "-t", "t", "#{pane_tty}").strip()
    return subprocess.run(["stty", "-a", "-F", tty], capture_output=True, text=True, check=True, timeout=10).stdout


def test_a_passphrase_then_the_screen(tmp_path: Path, sshd_server: Sshd, locked: Path) -> None:
    with eagletui(tmp_path, "connect", sshd_server.target(), "-F", str(locked)) as term:
        asked = term.until("Passphrase of .*locked:")
        assert f"login {sshd_server.user()}@127.0.0.1:{sshd_server.port}" in asked
        term.keys("-l", "wrong one")
        term.keys("Enter")
        again = term.until("does not open")
        assert "wrong one" not in again
        term.until(r"does not open[\s\S]*Passphrase of .*locked:")
        term.keys("-l", f"typo{SECRET}")
        term.keys("C-u")
        term.keys("-l", SECRET)
        term.keys("Enter")
        shown = term.until("q quit", 30)
        assert "Passphrase" not in shown
        term.keys("q")
        left = term.until("exit status 0")
        assert SECRET not in left


def test_connecting_again_asks_again_with_the_screen_set_aside(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, locked: Path
) -> None:
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key) as server:
        key = re.findall(r"IdentityFile (.*locked)", locked.read_text())[0]
        server.config.write_text(server.config.read_text().replace(str(ssh_key), key))
        with eagletui(tmp_path, "connect", server.target(), "-F", str(server.config)) as term:
            term.until("Passphrase of .*locked:")
            term.keys("-l", SECRET)
            term.keys("Enter")
            term.until("q quit", 30)
            server.restart()
            assert "Passphrase" not in term.until("OFFLINE", 30)
            term.keys("c")
            assert "OFFLINE" not in term.until("Passphrase of .*locked:", 30)
            term.keys("-l", SECRET)
            term.keys("Enter")
            term.until(r"●\s+[\d.]+ ms[\s\S]*q quit", 30)
            term.keys("q")
            term.until("exit status 0")


def test_ctrl_c_at_the_question(tmp_path: Path, sshd_server: Sshd, locked: Path) -> None:
    with eagletui(tmp_path, "connect", sshd_server.target(), "-F", str(locked)) as term:
        term.until("Passphrase of .*locked:")
        before = settings(term)
        assert re.search(r"(?<!\S)-echo\b", before)
        term.keys("C-c")
        left = term.until("exit status 130")
        assert "Traceback" not in left
        assert "stopped" in left
        assert not re.search(r"(?<!\S)-(echo|icanon|isig)\b", settings(term))


def test_a_login_that_fails_opens_no_screen(tmp_path: Path, sshd_server: Sshd, locked: Path) -> None:
    with eagletui(tmp_path, "connect", sshd_server.target(), "-F", str(locked)) as term:
        term.until("Passphrase of .*locked:")
        term.keys("Enter")
        left = term.until("exit status 20")
        assert "needs its passphrase" in " ".join(left.split())


def test_ending_it_at_the_question_leaves_the_terminal_as_it_was(
    tmp_path: Path, sshd_server: Sshd, locked: Path
) -> None:
    with eagletui(tmp_path, "connect", sshd_server.target(), "-F", str(locked)) as term:
        term.until("Passphrase of .*locked:")
        pid = term.run("list-panes", "-t", "t", "-F", "#{pane_pid}").strip()
        child = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        subprocess.run(["kill", "-TERM", child], check=True)
        term.until("exit status 143")
        assert not re.search(r"(?<!\S)-(echo|icanon|isig)\b", settings(term))


def test_an_unknown_key_is_asked_on_the_terminal(tmp_path: Path, sshd_server: Sshd) -> None:
    known = tmp_path / "known"
    config = sshd_server.write_config(f"{tmp_path.name}-unknown", f"UserKnownHostsFile {known}")
    with eagletui(tmp_path, "connect", sshd_server.target(), "-F", str(config), width=80) as term:
        asked = term.until("yes, no, or the fingerprint:")
        assert "ssh-ed25519" in asked
        assert "SHA256:" in asked
        term.keys("-l", "yes")
        assert "fingerprint: yes" in term.until("fingerprint: yes")
        term.keys("Enter")
        term.until("q quit", 30)
        term.keys("q")
        term.until("exit status 0")
    assert known.read_text().startswith(f"[127.0.0.1]:{sshd_server.port} ")


def test_status_asks_in_a_terminal(tmp_path: Path, sshd_server: Sshd, locked: Path) -> None:
    with eagletui(tmp_path, "status", sshd_server.target(), "-F", str(locked)) as term:
        term.until("Passphrase of .*locked:")
        term.keys("-l", SECRET)
        term.keys("Enter")
        term.until(r"exit status (0|1\d)", 30)


def test_a_server_that_does_not_wait_for_the_answer(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, locked: Path
) -> None:
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, ("LoginGraceTime 2",)) as server:
        key = re.findall(r"IdentityFile (.*locked)", locked.read_text())[0]
        server.config.write_text(server.config.read_text().replace(str(ssh_key), key))
        with eagletui(tmp_path, "connect", server.target(), "-F", str(server.config)) as term:
            term.until("Passphrase of .*locked:")
            term.keys("-l", "half an ans")
            left = term.until("exit status 20")
            assert "LoginGraceTime" in left
            assert not re.search(r"(?<!\S)-(echo|icanon|isig)\b", settings(term))


def test_a_connection_that_takes_a_while_is_announced(tmp_path: Path, sshd_server: Sshd) -> None:
    config = sshd_server.write_config(f"{tmp_path.name}-silent", "ConnectTimeout 3")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"x@127.0.0.1:{silent.getsockname()[1]}"
        with eagletui(tmp_path, "connect", name, "-F", str(config)) as term:
            assert "exit status" not in term.until(f"connecting to {re.escape(name)} …")
            term.until("exit status 20")


def test_ctrl_c_while_it_connects(tmp_path: Path, sshd_server: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"x@127.0.0.1:{silent.getsockname()[1]}"
        with eagletui(tmp_path, "connect", name, "-F", str(sshd_server.config)) as term:
            term.until("connecting to")
            term.keys("C-c")
            assert "Traceback" not in term.until("exit status 130")


def test_status_in_a_pipe_asks_nobody(tmp_path: Path, sshd_server: Sshd, locked: Path) -> None:
    done = run(tmp_path, "status", sshd_server.target(), "-F", str(locked), "--json")
    assert done.returncode == 20
    assert "nobody could be asked for the passphrase" in done.stderr
    assert json.loads(done.stdout)["link"]["state"] == "down"


def test_a_proxy_has_no_terminal_to_ask_on(tmp_path: Path, sshd_server: Sshd) -> None:
    """What a ProxyCommand would ask on /dev/tty could not be told from our own questions, nor from the screen."""
    config = sshd_server.write_config(
        f"{tmp_path.name}-proxy",
        "Host inner\n  ProxyCommand sh -c 'exec 3<>/dev/tty && echo Password: >&3 && read x <&3'",
    )
    with eagletui(tmp_path, "connect", "inner", "-F", str(config)) as term:
        left = term.until("exit status 20")
        assert "ProxyCommand" in left
        assert "/dev/tty" in left
        assert "Password:" not in left
