"""A ProxyCommand as a process of its own: it is ended with the link, whatever it thinks of that."""

from __future__ import annotations

import asyncio
import time

import pytest

from eagletui.nodes import dial
from eagletui.nodes.ssh_config import HostSettings


@pytest.mark.parametrize("command", ["sleep 60", "sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'"])
async def test_a_proxy_ends_with_its_link(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(dial, "END_SECONDS", 0.3)
    sock, proxy = await dial.dial_proxy(HostSettings("x", "x", "u"), command)
    sock.close()
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await proxy.aclose()
    assert time.monotonic() - began < 5
    assert proxy.process.returncode is not None
