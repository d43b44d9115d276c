"""The poller over a real shell that gets stopped and killed."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from eagletui.errors import ChannelError
from eagletui.monitor.poller import Poller, open_poller
from eagletui.nodes.local import LocalNode
from tests.requires import require


async def test_a_shell_that_dies_in_a_request_is_told() -> None:
    """A cancelled request would end the asking task without a word, and a dead rank would then stay READY."""
    require("procfs")
    node = LocalNode()
    await node.connect()
    async with open_poller(node) as stream:
        poller = Poller(stream)
        reading = asyncio.create_task(poller.read_answers())
        assert os.getpid() in {row.pid for row in (await poller.family([os.getpid(), 2**22 + 1])).rows}
        shell = await poller.shell()
        assert shell is not None
        os.kill(shell, signal.SIGSTOP)
        asking = asyncio.create_task(poller.all())
        await asyncio.sleep(0.2)
        os.kill(shell, signal.SIGKILL)
        async with asyncio.timeout(5):
            with pytest.raises(ChannelError):
                await asking
            with pytest.raises(ChannelError):
                await reading
    await node.aclose()
