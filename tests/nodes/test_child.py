"""A process that is being started when nobody wants it any more."""

from __future__ import annotations

import asyncio
import gc
import os

from eagletui.nodes.child import start
from tests.requires import require
from tests.sshd import children_of


async def test_a_cancelled_start_leaves_nothing() -> None:
    """Whenever it is cancelled. What is left open would be a ResourceWarning, which is an error here."""
    require("procfs")
    before = set(children_of(os.getpid()))
    pipe = asyncio.subprocess.PIPE
    for turns in range(12):
        starting = asyncio.create_task(start("sleep", "60", stdin=pipe, stdout=pipe, stderr=pipe))
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        done = (await asyncio.gather(starting, return_exceptions=True))[0]
        if not isinstance(done, BaseException):
            done.kill()
            await done.wait()
    del starting, done
    end = asyncio.get_running_loop().time() + 5
    while set(children_of(os.getpid())) - before and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(0.02)
    assert set(children_of(os.getpid())) == before
    gc.collect()
