"""SshNode against a real sshd."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from eagletui.nodes.ssh import SshNode
from eagletui.shell.script import Command, Script
from tests.sshd import Sshd, ssh_key, sshd_server, sshd_users

__all__ = ["ssh_key", "sshd_server", "sshd_users"]


@pytest.fixture
async def node(sshd_server: Sshd) -> AsyncIterator[SshNode]:
    node = SshNode(sshd_server.target(), config_file=sshd_server.config)
    await node.connect()
    yield node
    await node.aclose()


async def test_smoke(node: SshNode) -> None:
    done = await node.run(Command(Script("x", "printf '%s' \"$1\"; exit 3\n"), ("a b",)))
    assert done.stdout == b"a b"
    assert done.exit_status == 3
    assert await node.ping() > 0
