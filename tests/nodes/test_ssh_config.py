"""Reading `ssh -G`, and asyncssh's reader giving the same where there is no ssh."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagletui.errors import ConnectError
from eagletui.nodes.ssh import settings_without_ssh
from eagletui.nodes.ssh_config import ask_ssh, home, local_user, parse_ssh_g
from eagletui.nodes.target import Target, parse_target
from tests.requires import require


def test_nothing_said() -> None:
    found = parse_ssh_g(Target("gpu"), "")
    assert (found.host, found.port, found.user, found.name) == ("gpu", 22, local_user(), "gpu")
    assert found.family == socket.AF_UNSPEC
    assert found.public_key_login
    assert found.connect_timeout is None
    assert not found.accept_new


def test_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, spaced = tmp_path / "key-real", tmp_path / "known hosts"
    Path(f"{tmp_path}/agent-key.pub").write_text("ssh-ed25519 AAAA")
    key.write_text("x")
    spaced.write_text("")
    monkeypatch.setenv("MY_AGENT", "/run/agent")
    found = parse_ssh_g(
        Target("gpu"),
        f"hostname real\nuser me\nport 2200\nidentityfile {tmp_path}/key-%h\nidentityfile {tmp_path}/none\n"
        f"identityfile {tmp_path}/agent-key\nidentitiesonly yes\nidentityagent $MY_AGENT\nproxyjump a,b@c:3\n"
        f"proxycommand nc %h %p %r %%n %n\nuserknownhostsfile {spaced} /x/y ~/k\nstricthostkeychecking accept-new\n"
        "hostkeyalias ali\nconnecttimeout 7\naddressfamily inet6\nhostkeyalgorithms a,b\ncompression yes\n"
        "preferredauthentications password,keyboard-interactive\nhashknownhosts yes\n",
    )
    assert (found.host, found.user, found.port, found.name) == ("real", "me", 2200, "gpu")
    assert found.identity_files == (tmp_path / "key-real", tmp_path / "agent-key")
    assert found.identities_only
    assert found.agent == "/run/agent"
    assert found.proxy_jump == ("a", "b@c:3")
    assert found.proxy_command == "nc real 2200 me %n gpu"
    assert found.user_known_hosts == (spaced, Path("/x/y"), Path(home(), "k"))
    assert (found.accept_new, found.hash_known_hosts, found.alias, found.connect_timeout) == (True, True, "ali", 7.0)
    assert (found.family, found.algorithms, found.compression) == (socket.AF_INET6, ("a", "b"), True)
    assert not found.public_key_login


@pytest.mark.parametrize(
    ("value", "agent"), [("none", None), ("SSH_AUTH_SOCK", "/env"), ("", "/env"), ("/a b", "/a b"), ("$NOT_SET", None)]
)
def test_agents(value: str, agent: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/env")
    assert parse_ssh_g(Target("x"), f"identityagent {value}" if value else "").agent == agent


@pytest.mark.parametrize("value", ["no", "ask", "yes", "false", "off"])
def test_only_accept_new_accepts(value: str) -> None:
    assert not parse_ssh_g(Target("x"), f"stricthostkeychecking {value}").accept_new


@given(st.text(max_size=300))
@settings(max_examples=50)
def test_any_output_can_be_read(text: str) -> None:
    assert parse_ssh_g(Target("gpu"), text).name == "gpu"


CONFIG = """\
Include {folder}/more
Host gpu
  HostName 10.1.2.3
  User me
  Port 2200
  ProxyJump jump.example
  StrictHostKeyChecking accept-new
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile {folder}/global
  IdentityFile {folder}/key
  IdentityAgent none
  IdentitiesOnly yes
  HostKeyAlias ali
  ConnectTimeout 9
Host cmd
  ProxyCommand nc -X connect %h %p
"""


def config(folder: Path) -> Path:
    (folder / "key").write_text("x")
    (folder / "more").write_text("Host included\n  HostName from.include\n")
    path = folder / "config"
    path.write_text(CONFIG.format(folder=folder))
    return path


@pytest.mark.parametrize("name", ["gpu", "you@gpu:23", "cmd", "included", "elsewhere"])
async def test_both_readers_agree(name: str, tmp_path: Path) -> None:
    require("ssh")
    target, path = parse_target(name), config(tmp_path)
    by_ssh, by_library = await ask_ssh(target, path), settings_without_ssh(target, path)
    # Only ssh prints its default algorithms and the second default file, and only ssh knows about storing keys.
    assert by_library == replace(
        by_ssh,
        algorithms=(),
        ciphers=(),
        key_exchanges=(),
        macs=(),
        signatures=(),
        user_known_hosts=by_ssh.user_known_hosts[:1],
        global_known_hosts=by_ssh.global_known_hosts[:1],
        accept_new=False,
        hash_known_hosts=False,
    )


async def test_a_broken_configuration_is_a_sentence(tmp_path: Path) -> None:
    require("ssh")
    path = tmp_path / "config"
    path.write_text("Nonsense yes\n")
    with pytest.raises(ConnectError, match="Bad configuration option"):
        await ask_ssh(Target("gpu"), path)
    with pytest.raises(ConnectError, match="cannot read"):
        settings_without_ssh(Target("gpu"), tmp_path / "missing")
