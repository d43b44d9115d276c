"""A table of ssh configurations: `ssh -F FILE NODE` and SshNode come to the same, by a real sshd and as an ordinary user.

Compared are the class of the failure, or who came in where, by which key and by which jump hosts, and what was stored in
known_hosts. Each row's own key tells its logins apart in the servers' logs.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eagletui.nodes.known_hosts import fingerprint
from tests.requires import require
from tests.ssh_rows import BATCH, IN, KNOWN, OWN_KEY, ROWS, TAIL, Row
from tests.sshd import Sshd, end_user, free_port, start_sshd

AT_A_TIME = 6
ROW_SECONDS = 20
FAILURES_OF_SSH = (
    (
        "configuration",
        r"Bad configuration|Can't open user config|terminating, |Bad owner|Cannot execute command-line and remote|Bad number",
    ),
    ("revoked key", r"revoked"),
    ("changed key", r"IDENTIFICATION HAS CHANGED"),
    ("unknown key", r"Host key verification failed|No \S+ host key is known"),
    ("no such host", r"Could not resolve host"),
    ("refused", r"Connection refused"),
    ("login", r"Permission denied|Too many authentication failures"),
    ("algorithms", r"Unable to negotiate|no matching"),
    ("address", r"Cannot assign requested address"),
    ("proxy", r"Connection closed|no such door|Broken pipe|not found"),
)
"""The first that is found is the class; ssh's exit status is 255 for all of them."""
FAILURES_OF_OURS = (
    ("configuration", r"ConnectError: .*cannot read (its|ssh's) configuration|UsageError"),
    ("revoked key", r"HostKeyError: .*revoked"),
    ("changed key", r"HostKeyError: .*has changed"),
    ("unknown key", r"HostKeyError: .*not known"),
    ("no such host", r"UnknownHostError"),
    ("refused", r"ConnectError: .*refused"),
    ("login", r"AuthError"),
    ("algorithms", r"ConnectError: .*algorithm"),
    ("address", r"ConnectError: .*BindAddress"),
    ("proxy", r"ConnectError: .*(ProxyCommand|closed the connection)"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client gave. `said` is for the reader of a failed test only."""

    kind: str
    user: str = ""
    server: str = ""
    key: str = ""
    logins: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    said: str = field(default="", compare=False)


def _run(*argv: str | Path, **options: object) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60, **options).stdout  # type: ignore[call-overload,no-any-return]


def keygen(path: Path, *options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path, *options)
    return path


def public(path: Path) -> str:
    return " ".join(Path(f"{path}.pub").read_text().split()[:2])


def fingerprint_of(path: Path) -> str:
    return fingerprint(base64.b64decode(public(path).split()[1]))


@dataclass(slots=True)
class World:
    """Servers, keys, agents and the user who runs the clients."""

    root: Path
    me: pwd.struct_passwd
    servers: dict[str, Sshd]
    words: dict[str, str]
    environment: dict[str, str]
    key_names: dict[str, str]
    """Fingerprint to name."""

    def fill(self, text: str, **more: str) -> str:
        words = {**self.words, **more}
        return re.sub(r"<([\w]+)>", lambda m: words[m[1]], text)

    def write(self, row: Row, folder: Path) -> tuple[str, str | None]:
        """Lay a row out in its folder: (node, path of the configuration)."""
        key = keygen(folder / "key")
        self.key_names[fingerprint_of(key)] = "own"
        more = {"f": str(folder), "key": str(key), "private": key.read_text()}
        for name, text in {"known": f"{KNOWN} <ed25519>\n{KNOWN} <rsa>\n", **row.files}.items():
            path = Path(self.fill(str(folder / name) if not name.startswith("<home>") else name, **more))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.fill(text, **more))
            path.chmod(0o600)
        tail = TAIL + (OWN_KEY if row.own_key else "") + BATCH
        text = self.fill(row.config + ("" if row.home else tail), **more)
        if row.home:
            with Path(self.me.pw_dir, ".ssh/config").open("a") as file:
                file.write(text)
            return row.node, None
        config = folder / "config"
        config.write_bytes(text.replace("\n", "\r\n" if row.crlf else "\n").encode())
        return self.fill(row.node, **more), str(config)

    def authorize(self, keys: Sequence[Path]) -> None:
        with (self.root / "authorized").open("a") as file:
            file.write("".join(public(k) + "\n" for k in keys))

    def accepted(self) -> list[tuple[str, str, str, str]]:
        """All logins so far: (server, user, client's port, key)."""
        found = []
        for name, server in self.servers.items():
            for user, port, key in re.findall(
                r"^Accepted publickey for (\S+) from \S+ port (\d+) ssh2: \S+ (SHA256:\S+)",
                server.log.read_text(),
                re.MULTILINE,
            ):
                found.append((name, user, port, key))
        return found


@contextlib.contextmanager
def client_user(name: str) -> Iterator[pwd.struct_passwd]:
    _run("useradd", "-m", "-s", "/bin/sh", "-p", "*", name)
    try:
        entry = pwd.getpwnam(name)
        Path(entry.pw_dir, ".ssh").mkdir(mode=0o700)
        yield entry
    finally:
        end_user(name)


@contextlib.contextmanager
def agent(folder: Path, name: str, keys: Sequence[Path], me: pwd.struct_passwd) -> Iterator[Path]:
    """A real agent of the user that holds `keys` in this order."""
    path = folder / name
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", path], user=me.pw_uid, group=me.pw_gid, stdout=subprocess.DEVNULL
    )
    try:
        while not path.exists():
            assert process.poll() is None
        for key in keys:
            _run("ssh-add", "-q", key, user=me.pw_uid, group=me.pw_gid, env={**os.environ, "SSH_AUTH_SOCK": str(path)})
        yield path
    finally:
        process.terminate()
        process.wait(10)


def server_options(root: Path) -> dict[str, tuple[str, ...]]:
    common = (
        f"AuthorizedKeysFile .ssh/authorized_keys {root}/authorized",
        f"TrustedUserCAKeys {root}/keys/user_ca.pub",
    )
    host = root / "keys/host_ecdsa"
    return {
        "main": common, "jump": common, "jump2": common,
        "certified": (*common, f"HostKey {host}", f"HostCertificate {host}-cert.pub"),
    }  # fmt: skip


def make_keys(root: Path, user: str) -> dict[str, Path]:
    """Every key that rows share, with its certificates."""
    names = [
        "right",
        "wrong",
        "user_ca",
        "host_ca",
        "impostor",
        "cert",
        "expired",
        "stranger",
        *(f"agent{n}" for n in range(7)),
    ]
    keys = {name: keygen(root / "keys" / name) for name in names}
    host = root / "keys/host_ecdsa"
    _run("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", host)
    _run("ssh-keygen", "-q", "-s", keys["host_ca"], "-h", "-I", "host", "-n", "127.0.0.1", f"{host}.pub")
    _run("ssh-keygen", "-q", "-s", keys["user_ca"], "-I", "cert", "-n", user, f"{keys['cert']}.pub")
    _run(
        "ssh-keygen",
        "-q",
        "-s",
        keys["user_ca"],
        "-I",
        "old",
        "-n",
        user,
        "-V",
        "20200101:20200102",
        f"{keys['expired']}.pub",
    )
    _run("ssh-keygen", "-q", "-s", keys["user_ca"], "-I", "other", "-n", "somebody", f"{keys['stranger']}.pub")
    for end in ("", ".pub"):
        shutil.copy(f"{keys['cert']}{end}", root / f"keys/bare{end}")
    return {**keys, "bare": root / "keys/bare"}


@pytest.fixture(scope="module")
def world(sshd_users: dict[str, str], ssh_key: Path) -> Iterator[World]:
    for name in ("ssh", "ssh-agent", "ssh-add", "bash"):
        require(name)
    with contextlib.ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix="etui-table-", dir="/tmp"))
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o755)
        me = stack.enter_context(client_user(f"etui-client-{os.getpid()}"))
        # dash starts no program of its own before ours: quicker.
        user, other = sshd_users["dash"], sshd_users["bash"]
        keys = make_keys(root, user)
        servers = {
            name: stack.enter_context(start_sshd(root / name, sshd_users, ssh_key, options))
            for name, options in server_options(root).items()
        }
        for server in list(servers.values())[1:]:
            # One identity for all: rows name it once.
            for kind, path in server.host_keys.items():
                shutil.copy(servers["main"].host_keys[kind], path)
                shutil.copy(f"{servers['main'].host_keys[kind]}.pub", f"{path}.pub")
            server.restart()
        (root / "authorized").touch()
        shutil.copy(keys["right"], Path(me.pw_dir, ".ssh/right"))
        _run(
            "chown",
            "-R",
            f"{me.pw_uid}:{me.pw_gid}",
            me.pw_dir,
            *(p for p in (root / "keys").iterdir() if "host" not in p.name),
        )
        spare = [keys[f"agent{n}"] for n in range(7)]
        sockets = root / "agents"
        sockets.mkdir()
        os.chown(sockets, me.pw_uid, me.pw_gid)
        few = stack.enter_context(agent(sockets, "few", [*spare[:3], keys["right"]], me))
        many = stack.enter_context(agent(sockets, "many", [*spare, keys["right"]], me))
        main = servers["main"]
        hashed = root / "hashed"
        hashed.write_text(f"[127.0.0.1]:{main.port} {public(main.host_keys['ed25519'])}\n")
        _run("ssh-keygen", "-q", "-H", "-f", hashed)
        full = socket.gethostname()
        words = {
            **{name: str(server.port) for name, server in servers.items()},
            **{name: str(keys[name]) for name in ("right", "wrong", "cert", "bare", "expired", "stranger")},
            "user": user, "other": other, "me": me.pw_name, "uid": str(me.pw_uid), "home": me.pw_dir,
            "few": str(few), "many": str(many), "dead": str(free_port()), "forward": str(free_port()), "forward2": str(free_port()),
            "ed25519": public(main.host_keys["ed25519"]), "rsa": public(main.host_keys["rsa"]),
            "impostor": public(keys["impostor"]), "authority": public(keys["host_ca"]),
            "plain": public(root / "keys/host_ecdsa"), "hashed": hashed.read_text(), "ssh": require("ssh"),
            "host": full, "short": full.split(".")[0],
        }  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"], "HOME": me.pw_dir, "LANG": "C.UTF-8",
            "SSH_AUTH_SOCK": str(few), "MY_AGENT": str(few), "MY_WORD": "word",
        }  # fmt: skip
        made = World(root, me, servers, words, environment, {})
        for name, key in keys.items():
            made.key_names.setdefault(fingerprint_of(key), name)
        made.authorize([keys["right"]])
        yield made


def by_ssh(world: World, row: Row, node: str, config: str | None) -> tuple[str, str]:
    """(class of failure or "", what was said) of the real client."""
    argv = [
        "ssh",
        *(("-F", config) if config else ()),
        "-o",
        "BatchMode=yes",
        *(world.fill(row.ssh_name).split() or [node]),
    ]
    try:
        done = subprocess.run(
            [*argv, 'echo "who=`id -un` $SSH_CONNECTION"'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ROW_SECONDS, check=False, cwd="/",
            user=world.me.pw_uid, group=world.me.pw_gid, extra_groups=[], env=world.environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        return "no end", str(exc.stderr)
    if done.returncode == 0:
        return "", done.stdout
    return next((k for k, pattern in FAILURES_OF_SSH if re.search(pattern, done.stderr)), "other"), done.stderr


def by_ours(world: World, nodes: Mapping[str, tuple[str, str | None]], path: str) -> dict[str, tuple[str, str]]:
    """The same of SshNode, all rows by one program."""
    me = world.me
    done = subprocess.run(
        [sys.executable, Path(__file__).parents[1] / "ssh_row_client.py", str(me.pw_uid), str(me.pw_gid), me.pw_dir],
        input=json.dumps([[name, *pair] for name, pair in nodes.items()]), capture_output=True, text=True,
        timeout=ROW_SECONDS * 10, check=False, env={**world.environment, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = {}
    for name, (error, said) in json.loads(done.stdout).items():
        text = f"{error}: {said}"
        kind = next((k for k, pattern in FAILURES_OF_OURS if re.search(pattern, text)), "other") if error else ""
        results[name] = (kind, text if error else said)
    return results


def outcomes(world: World, rows: Sequence[Row], client: str, *, mode: int = 0o600) -> dict[str, Outcome]:
    """Run all rows by one client: "ssh…", "ours…", or "reader" (ours on a machine without ssh); `mode` is that of the
    user's default file.
    """
    folders = {row.id: world.root / client / f"{n:03}" for n, row in enumerate(rows)}
    Path(world.me.pw_dir, ".ssh/config").write_text("")
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        written = pool.map(lambda r: world.write(r, folders[r.id]), rows)
        nodes = dict(zip(folders, written, strict=True))
        world.authorize([f / "key" for f in folders.values()])
        _run("chown", "-R", f"{world.me.pw_uid}:{world.me.pw_gid}", world.root / client, Path(world.me.pw_dir, ".ssh"))
        Path(world.me.pw_dir, ".ssh/config").chmod(mode)
        if client.startswith("ssh"):
            said = dict(zip(folders, pool.map(lambda r: by_ssh(world, r, *nodes[r.id]), rows), strict=True))
        else:
            bare = world.root / "bin"
            said = by_ours(world, nodes, world.environment["PATH"] if client.startswith("ours") else str(bare))
    accepted = world.accepted()
    return {row.id: outcome(world, folders[row.id], *said[row.id], accepted) for row in rows}


def outcome(world: World, folder: Path, kind: str, said: str, accepted: Sequence[tuple[str, str, str, str]]) -> Outcome:
    """What was said, together with what the servers logged."""
    own = fingerprint_of(folder / "key")
    known = folder / "known"
    stored = tuple(line.split()[0][:3] for line in known.read_text().splitlines() if line.strip())
    logins = tuple(f"{server} {user}" for server, user, _, key in accepted if key == own)
    if kind:
        return Outcome(kind, logins=logins, stored=stored, said=said)
    found = re.search(r"who=(\S+) \S+ (\d+) (\S+) (\d+)", said)
    if found is None:
        return Outcome("other", said=said)
    user, client_port, address, port = found.groups()
    server = next(n for n, s in world.servers.items() if str(s.port) == port)
    keys = [key for s, u, p, key in accepted if (s, u, p) == (server, user, client_port)]
    key = world.key_names[keys[-1]] if keys else "none"
    return Outcome(IN, user, f"{address} {server}", key, logins, stored, said)


@dataclass(slots=True)
class Table:
    """The outcomes of all rows, by client."""

    world: World

    known: dict[str, dict[str, Outcome]] = field(default_factory=dict)

    def of(self, client: str) -> dict[str, Outcome]:
        if client not in self.known:
            self.known[client] = {}
            rows = [r for r in ROWS if client != "reader" or r.reader != ""]
            self.known[client] = outcomes(self.world, rows, client)
        return self.known[client]


@pytest.fixture(scope="module")
def table(world: World) -> Table:
    return Table(world)


def ids(rows: Sequence[Row]) -> list[str]:
    return [row.id for row in rows]


def test_the_table_is_large() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) >= 50


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_as_ssh(row: Row, table: Table) -> None:
    theirs, ours = table.of("ssh")[row.id], table.of("ours")[row.id]
    assert theirs.kind == row.gives, f"the row is wrong: {theirs.said}"
    agree(theirs, ours, row.ours)


WITHOUT = [row for row in ROWS if row.reader != ""]


@pytest.mark.parametrize("row", WITHOUT, ids=ids(WITHOUT))
def test_as_ssh_where_there_is_no_ssh(row: Row, table: Table) -> None:
    different = row.reader if isinstance(row.reader, tuple) else row.ours
    agree(table.of("ssh")[row.id], table.of("reader")[row.id], different)


def test_ports_of_forwards_stay_closed(world: World) -> None:
    row = next(r for r in ROWS if r.id == "forwards")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(world.words["forward"])))
        taken.listen()
        # The row says ExitOnForwardFailure: a client that forwards fails.
        assert outcomes(world, [row], "ssh-taken")[row.id].kind == "other"
        assert outcomes(world, [row], "ours-taken")[row.id].kind == IN


def test_default_files_that_others_may_write(world: World) -> None:
    row = next(r for r in ROWS if r.home)
    for client in ("ssh-open", "ours-open"):
        assert outcomes(world, [row], client, mode=0o666)[row.id].kind == "configuration"


def test_a_configuration_that_cannot_be_read(world: World) -> None:
    closed = world.root / "closed"
    closed.write_text("Host *\n")
    closed.chmod(0o600)
    for path in (closed, world.root / "missing"):
        assert by_ssh(world, Row("none", ""), "127.0.0.1", str(path))[0] == "configuration"
        for programs in (world.environment["PATH"], str(world.root / "bin")):
            kind, said = by_ours(world, {"x": ("127.0.0.1", str(path))}, programs)["x"]
            assert kind == "configuration", said


def test_the_sentence_names_a_command_that_is_not_run(table: Table) -> None:
    assert "KnownHostsCommand is not run here" in table.of("ours")["KnownHostsCommand"].said


def test_system_files(world: World) -> None:
    folder = Path("/etc/ssh/ssh_config.d")
    if not folder.is_dir():
        pytest.skip("ssh reads no /etc/ssh/ssh_config.d here")
    path = folder / f"{world.me.pw_name}.conf"
    row = Row("system", "", world.me.pw_name, home=True)
    try:
        for client in ("ssh-system", "ours-system"):
            key = world.root / client / "000/key"
            path.write_text(
                world.fill(
                    f"Host {row.node}\n  HostName 127.0.0.1\n{TAIL}{OWN_KEY}", f=str(key.parent), key=str(key)
                ).replace("Host *", "")
            )
            path.chmod(0o644)
            found = outcomes(world, [row], client)[row.id]
            assert (found.kind, found.key, found.user) == (IN, "own", world.words["user"]), found.said
    finally:
        path.unlink(missing_ok=True)


def agree(theirs: Outcome, ours: Outcome, different: tuple[str, str] | None) -> None:
    if different is not None:
        kind, why = different
        assert ours.kind == kind, f"{why}\nours: {ours.said}"
        return
    assert ours == theirs, f"ssh: {theirs.said}\nours: {ours.said}"
