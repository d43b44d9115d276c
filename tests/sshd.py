"""A real sshd on the loopback, with ordinary users whose login shells have noisy rc files. Needs root.

`sshd_server` (session) is a server with defaults; `start_sshd(folder, users, key, options)` gives one with options of
its own. `Sshd.target(shell)` names a user and `Sshd.config` is what to give as ssh's -F. Everything lies in a temporary
folder; users are removed at the end. tests/conftest.py makes the fixtures known to all tests.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.requires import program as find_program
from tests.requires import require

SHELLS = ("bash", "dash", "fish", "tcsh")
NOISE = {
    "bash": (
        ".bashrc",
        "echo junk from bashrc; echo junk on stderr >&2; stty erase ^H\nprintf 'no newline at the end'\n",
    ),
    "dash": (".profile", "echo junk from profile\n"),
    "fish": (".config/fish/config.fish", "echo junk from config.fish\necho junk on stderr >&2\nstty erase ^H\n"),
    "tcsh": (".cshrc", "echo junk from cshrc\nsh -c 'echo junk on stderr >&2'\nstty erase ^H\n"),
}


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


def free_port() -> int:
    """A port that nobody listens on, on both loopbacks' address families."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(slots=True)
class Sshd:
    """A running server. `key` is a private key that every user accepts, `known_hosts` knows the server's host keys."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    users: dict[str, str]
    key: Path
    host_keys: dict[str, Path]
    known_hosts: Path
    config: Path
    log: Path
    prefix: tuple[str, ...] = ()
    """What starts the server's program: `unshare …`."""

    def user(self, shell: str = "bash") -> str:
        """The user with that login shell."""
        return self.users[shell]

    def target(self, shell: str = "bash", host: str = "127.0.0.1") -> str:
        """A node name for that user."""
        return f"{self.user(shell)}@[{host}]:{self.port}" if ":" in host else f"{self.user(shell)}@{host}:{self.port}"

    def write_config(self, name: str, *lines: str) -> Path:
        """An ssh configuration with `lines` before the server's own ones (the first value of a keyword wins)."""
        path = self.folder / name
        path.write_text("\n".join([*lines, self.config.read_text()]) + "\n")
        return path

    def connections(self) -> list[int]:
        """Process ids of the server's connections (the privileged monitor of each)."""
        return children_of(self.process.pid)

    def restart(self) -> None:
        """End the server with all its connections, and start it again on its port."""
        for pid in [*(child for one in self.connections() for child in children_of(one)), *self.connections()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(10)
        self.process = _serve(self.folder / "sshd_config", self.log, self.prefix)
        _wait_for_port(self.process, self.port, self.log)

    def send_since(self, before: set[int], number: signal.Signals) -> list[int]:
        """Signal both processes (sshd's monitor and the user's part) of each connection that was not there `before`."""
        new = [pid for pid in self.connections() if pid not in before]
        pids = [*(child for pid in new for child in children_of(pid)), *new]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pids


def children_of(pid: int) -> list[int]:
    """Process ids of the children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def processes_with(argument: str) -> list[int]:
    """Process ids of other processes that have `argument` somewhere in their command line."""
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in cmdline.read_bytes() and int(cmdline.parent.name) != os.getpid():
                found.append(int(cmdline.parent.name))
    return found


@contextlib.contextmanager
def ssh_users(public_key: str) -> Iterator[dict[str, str]]:
    """Ordinary users, one a login shell that is installed, with noisy rc files; they are removed at the end."""
    users: dict[str, str] = {}
    try:
        for shell in SHELLS:
            if (program := find_program(shell)) is None:
                continue
            # The pid keeps runs at the same time on one machine apart.
            name = f"etui-{shell}-{os.getpid()}"
            _run("useradd", "-m", "-s", program, "-p", "*", name)
            users[shell] = name
            entry = pwd.getpwnam(name)
            file, text = NOISE[shell]
            for path, content in ((file, text), (".ssh/authorized_keys", public_key)):
                target = Path(entry.pw_dir, path)
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                target.write_text(content)
            _run("chown", "-R", f"{name}:", entry.pw_dir)
        yield users
    finally:
        for name in users.values():
            end_user(name)


def end_user(name: str) -> None:
    """Remove a user with all that runs as it and its home."""
    uid = pwd.getpwnam(name).pw_uid
    for status in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if status.stat().st_uid == uid:
                os.kill(int(status.name), signal.SIGKILL)
    until = time.monotonic() + 5
    while (
        subprocess.run(["userdel", "-f", "-r", name], capture_output=True, check=False, timeout=60).returncode
        and time.monotonic() < until
    ):
        time.sleep(0.2)


@contextlib.contextmanager
def extra_user(name: str, *options: str) -> Iterator[str]:
    """One more user, whose key is looked for in a folder that sshd is told (`keys_in`)."""
    name = f"etui-{name}-{os.getpid()}"
    _run("useradd", "-s", "/bin/sh", "-p", "*", *options, name)
    try:
        yield name
    finally:
        end_user(name)


def keys_in(folder: Path, key: Path, *users: str) -> str:
    """An option of sshd: keys are here, and not in homes."""
    folder.mkdir()
    for user in users:
        (folder / user).write_bytes(Path(f"{key}.pub").read_bytes())
    return f"AuthorizedKeysFile {folder}/%u"


@contextlib.contextmanager
def start_sshd(
    folder: Path, users: dict[str, str], key: Path, options: tuple[str, ...] = (), *, prefix: tuple[str, ...] = ()
) -> Iterator[Sshd]:
    """A server on a free port of both loopbacks, with host keys of its own and `options` (lines of sshd_config)
    first. `prefix` starts its program in another way; it must become it (exec).
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    host_keys = {kind: folder / f"host_{kind}" for kind in ("ed25519", "rsa")}
    for kind, path in host_keys.items():
        # A shorter key is made in a tenth of the time, and fifty are made.
        size = ("-b", "2048") if kind == "rsa" else ()
        _run("ssh-keygen", "-q", "-t", kind, *size, "-N", "", "-C", "host", "-f", str(path))
    port, log, conf = free_port(), folder / "sshd.log", folder / "sshd_config"
    lines = [
        *options, f"Port {port}", "ListenAddress 127.0.0.1", "ListenAddress ::1",
        *(f"HostKey {p}" for p in host_keys.values()),
        f"PidFile {folder}/sshd.pid", "UsePAM no",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "StrictModes no", "PrintMotd no", "LogLevel VERBOSE",
        "UseDNS no", "PermitRootLogin no",
        # Unlike the others' its last value wins, at least in OpenSSH 9.2.
        *(() if any(o.startswith("MaxStartups") for o in options) else ("MaxStartups 100",)),
    ]  # fmt: skip
    conf.write_text("\n".join(lines) + "\n")
    known, config = folder / "known_hosts", folder / "ssh_config"
    server = Sshd(port, folder, _serve(conf, log, prefix), users, key, host_keys, known, config, log, prefix)
    try:
        _wait_for_port(server.process, port, log)
        known.write_text("".join(_known_lines(port, p) for p in host_keys.values()))
        config.write_text(
            f"Host *\n  UserKnownHostsFile {known}\n  GlobalKnownHostsFile /dev/null\n  IdentityFile {key}\n"
            "  IdentityAgent none\n  IdentitiesOnly yes\n"
        )
        yield server
    finally:
        for pid in server.connections():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        server.process.terminate()
        server.process.wait(10)


def _serve(conf: Path, log: Path, prefix: tuple[str, ...]) -> subprocess.Popen[bytes]:
    program = find_program("sshd")
    assert program is not None
    with log.open("ab") as out:
        return subprocess.Popen(
            [*prefix, program, "-D", "-e", "-f", str(conf)], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )


def _known_lines(port: int, host_key: Path) -> str:
    public = " ".join(Path(f"{host_key}.pub").read_text().split()[:2])
    return "".join(f"[{host}]:{port} {public}\n" for host in ("127.0.0.1", "::1", "localhost"))


def _wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail(f"sshd did not start: {log.read_text(errors='replace')[-500:]}")


@pytest.fixture(scope="session")
def ssh_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private key without a passphrase; its public half stands beside it."""
    require("ssh-keygen")
    path = tmp_path_factory.mktemp("key") / "id_ed25519"
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tests", "-f", str(path))
    return path


@pytest.fixture(scope="session")
def sshd_users(ssh_key: Path) -> Iterator[dict[str, str]]:
    """Shell name to user name."""
    for name in ("root", "sshd", "useradd", "userdel", "procfs"):
        require(name)
    with ssh_users(Path(f"{ssh_key}.pub").read_text()) as users:
        yield users


@pytest.fixture(scope="session")
def sshd_server(sshd_users: dict[str, str], ssh_key: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A server with defaults, shared by the whole run."""
    folder = tmp_path_factory.mktemp("sshd")
    with start_sshd(folder, sshd_users, ssh_key) as server:
        yield server
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that ordinary users may read and write: pytest's own temporary folders are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="etui-open-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
