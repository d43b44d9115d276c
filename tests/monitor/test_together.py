"""Tasks that fail together leave the task that waited for them as it was."""

from __future__ import annotations

import asyncio

import pytest

from eagletui.monitor.together import Together


async def fail(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise OSError("lost")


async def fail_when_cancelled() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise OSError("lost")


async def together(*, inside: bool) -> None:
    async with Together() as tasks:
        tasks.create_task(fail(0.01))
        tasks.create_task(asyncio.sleep(60))
        if inside:
            await asyncio.sleep(60)


@pytest.mark.parametrize("inside", [False, True])
async def test_a_failure_is_no_cancellation(inside: bool) -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(ExceptionGroup):
        await together(inside=inside)
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)


async def together_cancelled() -> None:
    async with Together() as tasks:
        tasks.create_task(fail_when_cancelled())


async def test_a_cancellation_stays_one() -> None:
    async def wait() -> int:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(ExceptionGroup):
            await together_cancelled()
        return task.cancelling()

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.01)
    waiting.cancel()
    assert await waiting == 1
