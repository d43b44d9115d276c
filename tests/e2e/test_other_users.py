"""Logging in as an ordinary user among others: what may be seen is judged, and what may not is said with what to do."""

from __future__ import annotations

import json
import pwd
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run
from tests.e2e.following import Orders, following_client
from tests.e2e.test_hygiene import tools_in
from tests.engine import STAND_IN, user_engine
from tests.node_processes import end_processes_of, processes_of
from tests.requires import require
from tests.sshd import Sshd, extra_user, free_port, keys_in, start_sshd

LOGIN, OWNER = "bash", "dash"
"""Users of the tests, by their shells: who logs in, and whose server it is."""


def home_of(user: str) -> Path:
    return Path(pwd.getpwnam(user).pw_dir)


def status(home: Path, sshd: Sshd, *more: str, user: str | None = None) -> dict[str, Any]:
    """`eagletui status --json` as that login, which must not fail in an unforeseen way."""
    target = sshd.target(LOGIN) if user is None else f"{user}@127.0.0.1:{sshd.port}"
    done = run(home, "status", target, "-F", str(sshd.config), "--json", *more)
    assert done.returncode in (0, 10, 11, 12, 13, 14), done.stderr
    assert "Traceback" not in done.stderr
    model: dict[str, Any] = json.loads(done.stdout)
    assert model["link"]["state"] == "up"
    return model


def in_own_mounts(*commands: str) -> tuple[str, ...]:
    """A prefix for sshd that makes mounts which only it sees. Skips where that is not permitted."""
    prefix = (require("unshare"), "-m", "sh", "-ec", "\n".join([*commands, 'exec "$@"']), "sh")
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False, timeout=10)
    if tried.returncode:
        pytest.skip(f"own mounts are not permitted here: {tried.stderr.decode().strip()}")
    return prefix


# Somebody else's server


def test_somebody_elses_server_is_asked_and_told_as_unreadable(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    owner = sshd_users[OWNER]
    tools = tools_in(open_folder / "tools")
    options = (f"SetEnv PATH={tools}:/usr/bin:/bin",)
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, options) as sshd,
        user_engine(owner, home_of(owner), pace_s=30, log_mode=0o600) as engine,
    ):
        engine.wait_for("Loading safetensors")
        rank = engine.children()["sglang::scheduler_TP0"]
        (tools / "apps").write_text(f"GPU-aaaaaaaa-0000-0000-0000-000000000000, {rank}, 4321, sglang::scheduler_TP0\n")
        model = status(tmp_path, sshd, "--port", str(engine.port))
        [server] = model["servers"]
        assert (server["user"], server["state"], server["reason"]["code"]) == (owner, "unknown", "unreadable")
        assert "another user" in server["reason"]["text"]
        assert "--log PATH" in server["reason"]["text"]
        assert server["log"] is None
        assert server["health"]["error"].startswith("refused"), "its /health was not asked"
        [held] = model["gpus"][0]["processes"]
        assert (held["user"], held["server"], held["mem_mib"]) == (owner, server["id"], 4321)


def test_somebody_elses_server_is_ready_by_its_health(
    tmp_path: Path, sshd_server: Sshd, sshd_users: dict[str, str]
) -> None:
    owner = sshd_users[OWNER]
    with user_engine(owner, home_of(owner), log_mode=0o600) as engine:
        engine.wait_for("fired up")
        [server] = status(tmp_path, sshd_server, "--port", str(engine.port))["servers"]
        assert (server["state"], server["health"]["status"]) == ("ready", 200)
        [server] = status(tmp_path, sshd_server, "--port", str(engine.port), "--log", str(engine.log))["servers"]
        assert server["state"] == "ready"


def test_processes_that_are_hidden_are_not_judged(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path
) -> None:
    """hidepid=2: our own server is all there, somebody else's is not, and GPU memory of a hidden process is nobody's."""
    login, owner = sshd_users[LOGIN], sshd_users[OWNER]
    tools = tools_in(open_folder / "tools")
    prefix = in_own_mounts("mount -t proc -o hidepid=2 proc /proc")
    options = (f"SetEnv PATH={tools}:/usr/bin:/bin",)
    with (
        start_sshd(open_folder / "sshd", sshd_users, ssh_key, options, prefix=prefix) as sshd,
        user_engine(owner, home_of(owner)) as theirs,
        user_engine(login, home_of(login)) as own,
    ):
        own.wait_for("fired up")
        theirs.wait_for("fired up")
        (tools / "apps").write_text(
            f"GPU-aaaaaaaa-0000-0000-0000-000000000000, {theirs.pid}, 1000, python3\n"
            f"GPU-aaaaaaaa-0000-0000-0000-000000000000, {own.pid}, 2000, python3\n"
        )
        model = status(tmp_path, sshd)
        [server] = model["servers"]
        assert (server["port"], server["state"], server["log"]) == (own.port, "ready", str(own.log))
        assert len(server["family"]) == 4
        holders = {held["mem_mib"]: (held["user"], held["server"]) for held in model["gpus"][0]["processes"]}
        assert holders == {1000: (None, None), 2000: (login, server["id"])}
        orders = Orders(sshd.target(LOGIN), str(sshd.config), str(tmp_path / "shown"))
        with following_client(orders) as client:
            client.wait_for_text("V ready")
            client.wait_for_text("N this login sees only its own processes")


# Logs that may not be read


def test_a_log_that_may_not_be_read_becomes_readable(
    tmp_path: Path, sshd_server: Sshd, sshd_users: dict[str, str], open_folder: Path
) -> None:
    """Denied by its mode or by a folder on the way: said, with what to do. Followed as soon as it may be."""
    owner = sshd_users[OWNER]
    closed = open_folder / "closed"
    closed.mkdir()
    for log, shut, opened in ((open_folder / "own.log", 0o600, 0o644), (closed / "own.log", None, None)):
        log.write_text("first line\n")
        shutil.chown(log, owner)
        if shut is not None:
            log.chmod(shut)
        else:
            closed.chmod(0o600)
        with user_engine(owner, home_of(owner), log=log, appends=True, pace_s=30, log_mode=0o600) as engine:
            orders = Orders(
                sshd_server.target(LOGIN),
                str(sshd_server.config),
                str(log.with_suffix(".shown")) if opened else str(open_folder / "closed.shown"),
                engine.port,
                str(log),
            )
            with following_client(orders) as client:
                client.wait_for_text("may not be read")
                assert "first line" not in client.text()
                assert "chmod" in client.text()
                log.chmod(0o644)
                closed.chmod(0o755)
                client.wait_for_text("= first line")


def test_a_log_that_its_group_may_read_is_read(
    tmp_path: Path, sshd_server: Sshd, sshd_users: dict[str, str], open_folder: Path
) -> None:
    login, owner = sshd_users[LOGIN], sshd_users[OWNER]
    log = open_folder / "group.log"
    log.touch()
    shutil.chown(log, owner, login)
    log.chmod(0o640)
    with user_engine(owner, home_of(owner), log=log, pace_s=1) as engine:
        engine.wait_for("Loading safetensors")
        [server] = status(tmp_path, sshd_server, "--port", str(engine.port), "--log", str(log))["servers"]
        assert (server["state"], server["reason"]["code"], server["phase"]) == ("starting", "loading", "weights")


# Logins that lack something


@pytest.mark.parametrize("lack", ["no home", "a closed home", "no space"])
def test_a_login_that_lacks_something_still_sees_its_server(
    tmp_path: Path, sshd_users: dict[str, str], ssh_key: Path, open_folder: Path, lack: str
) -> None:
    """Nothing of ours needs a home, or writes a file."""
    prefix: tuple[str, ...] = ()
    place = open_folder / "place"
    place.mkdir()
    home = place if lack != "no home" else open_folder / "missing"
    with extra_user("poor", "-M", "-d", str(home)) as user:
        shutil.chown(place, user)
        if lack == "no space":
            fill = "mount -t tmpfs -o size=64k,mode=1777 tmpfs {0}; cat /dev/zero >{0}/full 2>/dev/null || true"
            prefix = in_own_mounts(*(fill.format(where) for where in (place, "/var/tmp", "/dev/shm")))
        options = (keys_in(open_folder / "keys", ssh_key, user),)
        with (
            user_engine(user, place) as engine,
            start_sshd(open_folder / "sshd", sshd_users, ssh_key, options, prefix=prefix) as sshd,
        ):
            engine.wait_for("fired up")
            if lack == "a closed home":
                shutil.chown(place, "root")
                place.chmod(0o700)
            [server] = status(tmp_path, sshd, "--port", str(engine.port), user=user)["servers"]
            assert (server["user"], server["state"], server["health"]["status"]) == (user, "ready", 200)
            assert server["log"] == str(engine.log)
            assert len(server["family"]) == 4


# Servers of the same user that other sessions started

LAUNCH = "PACE_S=0.01 PYTHONPATH=~/engine exec /usr/bin/python3 -m sglang.launch_server --model-path /models/tiny --port {port} --tp 2 </dev/null"


@pytest.mark.parametrize("way", ["another login", "tmux", "tee in tmux", "setsid", "another user's shell"])
def test_a_server_that_another_session_started(
    tmp_path: Path, sshd_server: Sshd, sshd_users: dict[str, str], way: str
) -> None:
    user = sshd_users[LOGIN]
    home, port = home_of(user), free_port()
    log = home / "session.log"
    shutil.copytree(STAND_IN, home / "engine", dirs_exist_ok=True)
    launch = LAUNCH.format(port=port)
    to_file = f"{launch} >{log} 2>&1"
    ssh = ("ssh", "-F", str(sshd_server.config), "-p", str(sshd_server.port), f"{user}@127.0.0.1")
    socket = home / "tmux.sock"
    if "tmux" in way:
        require("tmux")
    as_user = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups", "env", f"HOME={home}", "PATH=/usr/bin:/bin", "sh", "-c")  # fmt: skip
    starts: dict[str, tuple[str, ...]] = {
        "another login": (*ssh, f"cd; ({to_file}) & sleep 0.1"),
        "tmux": (*as_user, f"cd; exec tmux -f /dev/null -S {socket} new-session -d {shlex.quote(f'({to_file}); true')}"),
        "tee in tmux": (*as_user, f"cd; exec tmux -f /dev/null -S {socket} new-session -d {shlex.quote(f'({launch} 2>&1) | tee session.log')}"),
        "setsid": (*ssh, f"cd; setsid sh -c {shlex.quote(to_file)} & sleep 0.1"),
        "another user's shell": (*as_user, f"cd; ({to_file}) & exit 0"),
    }  # fmt: skip
    try:
        subprocess.run(starts[way], check=True, capture_output=True, timeout=20)
        until = time.monotonic() + 15
        while not (log.exists() and "fired up" in log.read_text(errors="replace")):
            said = log.read_text(errors="replace") if log.exists() else "no log"
            assert time.monotonic() < until, f"{said}; {processes_of(user)}"
            time.sleep(0.05)
        [server] = status(tmp_path, sshd_server, "--port", str(port))["servers"]
        assert (server["user"], server["log"], server["state"]) == (user, str(log), "ready")
        assert sorted(member["role"] for member in server["family"])[:1] == ["detokenizer"]
        assert len(server["family"]) == 4
    finally:
        end_processes_of(user)
        log.unlink(missing_ok=True)
