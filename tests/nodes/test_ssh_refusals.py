"""Every way a connection can fail is one of our errors, with a sentence that says what to do."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagletui.errors import AuthError, ConnectError, HostKeyError, LinkLostError, NodeError, UnknownHostError
from eagletui.nodes.known_hosts import fingerprint
from eagletui.nodes.ssh import SshNode
from eagletui.shell.script import Command, Script
from tests.requires import program, require
from tests.sshd import Sshd, free_port, start_sshd

ECHO = Script("echo", "echo ok\n")


async def refused(node: SshNode) -> NodeError:
    try:
        with pytest.raises(NodeError) as caught:
            await node.connect()
    finally:
        await node.aclose()
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


async def works(node: SshNode) -> None:
    await node.connect()
    assert (await node.run(Command(ECHO))).stdout == b"ok\n"
    await node.aclose()


def keygen(*argv: str | Path) -> str:
    return subprocess.run(["ssh-keygen", "-q", *argv], check=True, capture_output=True, text=True, timeout=30).stdout


def public(path: Path) -> tuple[str, bytes]:
    words = Path(f"{path}.pub").read_text().split()
    return f"{words[0]} {words[1]}", base64.b64decode(words[1])


# The host's key


def with_known_hosts(server: Sshd, name: str, text: str, *lines: str) -> tuple[Path, Path]:
    known = server.folder / f"{name}_known"
    known.write_text(text)
    return server.write_config(f"{name}_config", f"UserKnownHostsFile {known}", *lines), known


async def test_an_unknown_key(sshd_server: Sshd) -> None:
    config, known = with_known_hosts(sshd_server, "unknown", "")
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, HostKeyError)
    shown = fingerprint(public(sshd_server.host_keys["ed25519"])[1])
    assert f"ssh-ed25519 {shown}" in str(error)
    assert f"ssh -F {config} -p {sshd_server.port} {sshd_server.user()}@127.0.0.1" in str(error)
    assert known.read_text() == ""


@pytest.mark.parametrize("value", ["no", "yes"])
async def test_no_setting_but_accept_new_lets_an_unknown_key_pass(sshd_server: Sshd, value: str) -> None:
    config, known = with_known_hosts(sshd_server, "strict", "", f"StrictHostKeyChecking {value}")
    assert isinstance(await refused(SshNode(sshd_server.target(), config_file=config)), HostKeyError)
    assert known.read_text() == ""


async def test_a_changed_key(sshd_server: Sshd, ssh_key: Path) -> None:
    text, blob = public(ssh_key)
    config, known = with_known_hosts(sshd_server, "changed", f"# first\n[127.0.0.1]:{sshd_server.port} {text}\n")
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, HostKeyError)
    assert "has changed" in str(error)
    assert f"{known}:2" in str(error)
    assert fingerprint(blob) in str(error)
    assert f"ssh-keygen -f {known} -R '[127.0.0.1]:{sshd_server.port}'" in str(error)


async def test_accept_new_does_not_accept_a_changed_key(sshd_server: Sshd, ssh_key: Path) -> None:
    line = f"[127.0.0.1]:{sshd_server.port} {public(ssh_key)[0]}\n"
    config, known = with_known_hosts(sshd_server, "both", line, "StrictHostKeyChecking accept-new")
    assert "has changed" in str(await refused(SshNode(sshd_server.target(), config_file=config)))
    assert known.read_text() == line


async def test_a_revoked_key(sshd_server: Sshd) -> None:
    text = public(sshd_server.host_keys["ed25519"])[0]
    line = f"[127.0.0.1]:{sshd_server.port} {text}\n@revoked * {text}\n"
    config, known = with_known_hosts(sshd_server, "revoked", line)
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, HostKeyError)
    assert f"revoked by {known}:2" in str(error)


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
async def test_one_kind_of_key_on_file_is_enough(sshd_server: Sshd, kind: str) -> None:
    line = f"[127.0.0.1]:{sshd_server.port} {public(sshd_server.host_keys[kind])[0]}\n"
    config, _ = with_known_hosts(sshd_server, f"one-{kind}", line)
    await works(SshNode(sshd_server.target(), config_file=config))


async def test_hashed_names_and_aliases(sshd_server: Sshd) -> None:
    text = public(sshd_server.host_keys["ed25519"])[0]
    config, known = with_known_hosts(sshd_server, "hashed", f"[127.0.0.1]:{sshd_server.port} {text}\n")
    keygen("-H", "-f", known)
    assert known.read_text().startswith("|1|")
    await works(SshNode(sshd_server.target(), config_file=config))
    config, _ = with_known_hosts(sshd_server, "alias", f"the-gpu {text}\n", "HostKeyAlias the-gpu")
    await works(SshNode(sshd_server.target(), config_file=config))


@pytest.mark.parametrize("hashed", [False, True])
async def test_accept_new_stores_the_key(sshd_server: Sshd, tmp_path: Path, hashed: bool) -> None:
    known = tmp_path / "fresh" / "known_hosts"
    config = sshd_server.write_config(
        f"new-{hashed}", f"UserKnownHostsFile {known} {sshd_server.folder}/second", "StrictHostKeyChecking accept-new",
        f"HashKnownHosts {'yes' if hashed else 'no'}",
    )  # fmt: skip
    await works(SshNode(sshd_server.target(), config_file=config))
    assert stat.S_IMODE(known.stat().st_mode) == 0o600
    assert stat.S_IMODE(known.parent.stat().st_mode) == 0o700
    stored = known.read_text()
    assert stored.count("\n") == 1
    assert stored.startswith("|1|" if hashed else f"[127.0.0.1]:{sshd_server.port} ssh-ed25519 ")
    await works(SshNode(sshd_server.target(), config_file=config))
    assert known.read_text() == stored
    if program("ssh"):
        argv = ["ssh", "-F", str(config), "-o", "StrictHostKeyChecking=yes", "-p", str(sshd_server.port)]
        subprocess.run([*argv, f"{sshd_server.user()}@127.0.0.1", "true"], check=True, capture_output=True, timeout=30)


async def test_a_failed_login_stores_the_key_of_a_host_that_proved_it(sshd_server: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("# no newline at the end")
    config = sshd_server.write_config("proved", f"UserKnownHostsFile {known}", "StrictHostKeyChecking accept-new")
    node = SshNode(f"nobody-here@127.0.0.1:{sshd_server.port}", config_file=config)
    assert isinstance(await refused(node), AuthError)
    assert len(known.read_text().splitlines()) == 2


async def test_jump_hosts_are_checked_too(sshd_server: Sshd) -> None:
    config, _ = with_known_hosts(
        sshd_server,
        "jump",
        "",
        f"Host inner\n  HostName ::1\n  ProxyJump {sshd_server.user()}@127.0.0.1:{sshd_server.port}\nHost *",
    )
    error = await refused(SshNode("inner", config_file=config))
    assert isinstance(error, HostKeyError)
    assert f"127.0.0.1:{sshd_server.port}" in str(error)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("ssh-keygen")
    path = tmp_path_factory.mktemp("ca") / "ca"
    keygen("-t", "ed25519", "-N", "", "-f", path)
    return path


@pytest.fixture(scope="module")
def certified(
    sshd_users: dict[str, str], ssh_key: Path, authority: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sshd]:
    """A server with a host certificate for 127.0.0.1, that trusts user certificates of the same authority alone."""
    folder = tmp_path_factory.mktemp("certified")
    host = folder / "certified"
    keygen("-t", "ed25519", "-N", "", "-f", host)
    keygen("-s", authority, "-I", "host", "-h", "-n", "127.0.0.1", f"{host}.pub")
    options = (
        f"HostKey {host}",
        f"HostCertificate {host}-cert.pub",
        f"TrustedUserCAKeys {authority}.pub",
        "AuthorizedKeysFile none",
    )
    with start_sshd(folder / "sshd", sshd_users, ssh_key, options) as server:
        yield server


def user_certificate(folder: Path, authority: Path, user: str, *, named: bool) -> tuple[Path, Path]:
    key = folder / "user"
    keygen("-t", "ed25519", "-N", "", "-f", key)
    keygen("-s", authority, "-I", "user", "-n", user, f"{key}.pub")
    certificate = folder / ("elsewhere.pub" if named else "user-cert.pub")
    (folder / "user-cert.pub").rename(certificate)
    return key, certificate


@pytest.mark.parametrize("named", [False, True])
async def test_certificates(certified: Sshd, authority: Path, tmp_path: Path, named: bool) -> None:
    key, certificate = user_certificate(tmp_path, authority, certified.user(), named=named)
    lines = [f"IdentityFile {key}", *([f"CertificateFile {certificate}"] if named else [])]
    known = f"@cert-authority [127.0.0.1]:* {public(authority)[0]}\n"
    config, _ = with_known_hosts(certified, f"cert-{named}", known, *lines)
    await works(SshNode(certified.target(), config_file=config))


async def test_a_certificate_for_another_host(certified: Sshd, authority: Path) -> None:
    config, _ = with_known_hosts(certified, "other", f"@cert-authority * {public(authority)[0]}\n")
    error = await refused(SshNode(certified.target(host="::1"), config_file=config))
    assert isinstance(error, HostKeyError)
    assert "certificate" in str(error)


async def test_a_certificate_of_another_authority(certified: Sshd, ssh_key: Path) -> None:
    config, _ = with_known_hosts(certified, "stranger", f"@cert-authority * {public(ssh_key)[0]}\n")
    error = await refused(SshNode(certified.target(), config_file=config))
    assert isinstance(error, HostKeyError)
    assert "authority that is not known" in str(error)


async def test_a_certified_host_known_by_its_plain_key(certified: Sshd) -> None:
    host = Path(f"{certified.folder.parent}/certified")
    config, _ = with_known_hosts(certified, "plain", f"[127.0.0.1]:{certified.port} {public(host)[0]}\n")
    assert isinstance(await refused(SshNode(certified.target(), config_file=config)), AuthError)


# The login


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    path = tmp_path / "stranger"
    keygen("-t", "ed25519", "-N", "", "-f", path)
    return path


async def test_a_wrong_key(sshd_server: Sshd, stranger: Path) -> None:
    config = sshd_server.folder / "wrong_config"
    config.write_text(sshd_server.config.read_text().replace(str(sshd_server.key), str(stranger)))
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, AuthError)
    assert str(stranger) in str(error)
    assert "ssh-add" in str(error)
    assert "IdentityFile" in str(error)
    assert f"login of {sshd_server.user()}" in str(error)
    assert "it offers publickey" in str(error)


async def test_no_key(sshd_server: Sshd, tmp_path: Path) -> None:
    config = sshd_server.folder / "none_config"
    config.write_text(sshd_server.config.read_text().replace(str(sshd_server.key), str(tmp_path / "missing")))
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, AuthError)
    assert "no key to try" in str(error)


async def test_an_encrypted_key(sshd_server: Sshd, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.write_bytes(sshd_server.key.read_bytes())
    locked.chmod(0o600)
    keygen("-p", "-N", "secret", "-f", locked)
    config = sshd_server.folder / "locked_config"
    config.write_text(sshd_server.config.read_text().replace(str(sshd_server.key), str(locked)))
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, AuthError)
    assert error.needs_person
    assert f"ssh-add {locked}" in str(error)


async def test_an_encrypted_key_that_the_server_does_not_want(sshd_server: Sshd, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    keygen("-t", "ed25519", "-N", "secret", "-f", locked)
    config = sshd_server.folder / "unwanted_config"
    config.write_text(sshd_server.config.read_text().replace(str(sshd_server.key), str(locked)))
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert isinstance(error, AuthError)
    assert not error.needs_person
    assert f"tried {locked}" in str(error)


async def test_a_file_that_is_no_key(sshd_server: Sshd, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nnot base64\n-----END OPENSSH PRIVATE KEY-----\n")
    config = sshd_server.write_config("broken_config", f"IdentityFile {broken}")
    await works(SshNode(sshd_server.target(), config_file=config))
    config.write_text(config.read_text().replace(str(sshd_server.key), "/nonexistent"))
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert f"passed over {broken}" in str(error)


@pytest.fixture
def agent(tmp_path: Path, ssh_key: Path) -> Iterator[Path]:
    require("ssh-agent")
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if path.exists():
                break
            time.sleep(0.05)
        subprocess.run(
            ["ssh-add", "-q", ssh_key],
            check=True,
            timeout=30,
            capture_output=True,
            env={**os.environ, "SSH_AUTH_SOCK": str(path)},
        )
        yield path
    finally:
        process.terminate()
        process.wait(5)


def agent_config(server: Sshd, name: str, agent: Path, identity: Path) -> Path:
    config = server.write_config(name, f"IdentityAgent {agent}")
    config.write_text(config.read_text().replace(str(server.key), str(identity)))
    return config


async def test_the_agent_is_asked(sshd_server: Sshd, agent: Path, tmp_path: Path) -> None:
    config = agent_config(sshd_server, "agent_config", agent, tmp_path / "missing")
    config.write_text(config.read_text().replace("IdentitiesOnly yes", "IdentitiesOnly no"))
    await works(SshNode(sshd_server.target(), config_file=config))


async def test_the_agent_by_the_environment(
    sshd_server: Sshd, agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
    config = sshd_server.folder / "env_config"
    text = sshd_server.config.read_text().replace(str(sshd_server.key), str(tmp_path / "missing"))
    config.write_text(text.replace("  IdentityAgent none\n", "").replace("IdentitiesOnly yes", "IdentitiesOnly no"))
    await works(SshNode(sshd_server.target(), config_file=config))


async def test_identities_only_hides_other_keys_of_the_agent(sshd_server: Sshd, agent: Path, tmp_path: Path) -> None:
    config = agent_config(sshd_server, "only_config", agent, tmp_path / "missing")
    assert isinstance(await refused(SshNode(sshd_server.target(), config_file=config)), AuthError)


async def test_a_public_key_file_chooses_a_key_of_the_agent(
    sshd_server: Sshd, agent: Path, ssh_key: Path, tmp_path: Path
) -> None:
    chosen = tmp_path / "chosen"
    Path(f"{chosen}.pub").write_text(Path(f"{ssh_key}.pub").read_text())
    await works(SshNode(sshd_server.target(), config_file=agent_config(sshd_server, "chosen_config", agent, chosen)))
    itself = Path(f"{chosen}.pub")
    await works(SshNode(sshd_server.target(), config_file=agent_config(sshd_server, "itself_config", agent, itself)))


async def test_an_agent_that_is_gone(sshd_server: Sshd, tmp_path: Path, stranger: Path) -> None:
    config = agent_config(sshd_server, "gone_config", tmp_path / "no-agent", stranger)
    error = await refused(SshNode(sshd_server.target(), config_file=config))
    assert "passed over the agent" in str(error)
    await works(
        SshNode(sshd_server.target(), config_file=agent_config(sshd_server, "g2", tmp_path / "no", sshd_server.key))
    )


async def test_too_many_keys(sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path) -> None:
    keys = []
    for n in range(3):
        keys.append(tmp_path / f"k{n}")
        keygen("-t", "ed25519", "-N", "", "-f", keys[-1])
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, ("MaxAuthTries 2",)) as server:
        config = server.write_config("many", *(f"IdentityFile {k}" for k in keys))
        error = await refused(SshNode(server.target(), config_file=config))
    assert isinstance(error, AuthError)
    assert "IdentitiesOnly" in str(error)


async def test_the_servers_banner_is_told(
    sshd_users: dict[str, str], ssh_key: Path, tmp_path: Path, stranger: Path
) -> None:
    (tmp_path / "banner").write_text("closed\x1b[31m for repair\nuntil noon\n")
    with start_sshd(tmp_path / "sshd", sshd_users, ssh_key, (f"Banner {tmp_path}/banner",)) as server:
        server.config.write_text(server.config.read_text().replace(str(server.key), str(stranger)))
        error = await refused(SshNode(server.target(), config_file=server.config))
    assert "until noon" in str(error)
    assert "\x1b" not in str(error)


# The way there


async def test_a_refused_port(sshd_server: Sshd) -> None:
    port = free_port()
    error = await refused(SshNode(f"x@127.0.0.1:{port}", config_file=sshd_server.config))
    assert isinstance(error, ConnectError)
    assert "refused" in str(error)
    assert str(port) in str(error)


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a" * 70 + ".invalid", "..", "x.."])
async def test_a_name_that_does_not_resolve(sshd_server: Sshd, name: str) -> None:
    error = await refused(SshNode(name, config_file=sshd_server.config))
    assert isinstance(error, UnknownHostError)
    assert "HostName" in str(error)


async def test_a_port_that_is_silent(sshd_server: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = sshd_server.write_config("silent_config", "ConnectTimeout 1")
        error = await refused(SshNode(f"x@127.0.0.1:{silent.getsockname()[1]}", config_file=config))
    assert isinstance(error, ConnectError)
    assert "in time" in str(error)


@pytest.mark.parametrize("hello", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", b"\x00\xff" * 500, b"SSH-1.0-old\r\n"])
async def test_a_port_that_is_no_ssh(sshd_server: Sshd, hello: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(hello)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        error = await refused(SshNode(f"x@127.0.0.1:{port}", config_file=sshd_server.config))
    assert isinstance(error, ConnectError)


async def test_a_jump_host_that_cannot_go_on(sshd_server: Sshd) -> None:
    config = sshd_server.write_config(
        "dead_end", f"Host inner\n  HostName 127.0.0.1\n  Port {free_port()}\n  ProxyJump {sshd_server.target()}"
    )
    error = await refused(SshNode("inner", config_file=config))
    assert isinstance(error, ConnectError)
    assert "jump host" in str(error)


async def test_jump_hosts_in_a_circle(sshd_server: Sshd) -> None:
    config = sshd_server.write_config("circle", "Host a\n  ProxyJump b", "Host b\n  ProxyJump a")
    error = await refused(SshNode("a", config_file=config))
    assert isinstance(error, ConnectError)
    assert "circle" in str(error)


async def test_a_proxy_command_that_fails(sshd_server: Sshd, capfd: pytest.CaptureFixture[str]) -> None:
    config = sshd_server.write_config("no_proxy", 'Host inner\n  ProxyCommand sh -c "echo not today >&2; exit 1"')
    error = await refused(SshNode("inner", config_file=config))
    assert isinstance(error, ConnectError)
    assert "not today" in str(error)
    assert capfd.readouterr() == ("", "")


# A socket that is there already


async def test_over_a_socket(sshd_server: Sshd) -> None:
    """The login is refused (this server wants a key), so the right host key let it get that far, and a wrong one did
    not."""
    right = public(sshd_server.host_keys["ed25519"])[1]
    for blob, kind in ((right, AuthError), (right[:-1] + b"x", HostKeyError)):
        sock = socket.create_connection(("127.0.0.1", sshd_server.port))
        sock.setblocking(False)
        node = SshNode.over_socket("sim", sock, host_key=blob, user=sshd_server.user())
        assert isinstance(await refused(node), kind)
        assert sock.fileno() == -1
        with pytest.raises(NodeError):
            await node.connect()


def test_a_broken_link_is_exit_20() -> None:
    assert {e.exit_status for e in (AuthError, ConnectError, HostKeyError, LinkLostError, UnknownHostError)} == {20}
