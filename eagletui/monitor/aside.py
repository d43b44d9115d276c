"""Work that blocks, beside the event loop, with a limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], seconds: float) -> T:
    """What `work` gives, done in a thread. Raises what it raises, and TimeoutError after so many seconds.

    The thread is no pool's: one that hangs in a dead network folder for ever holds up nothing, not even our end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # it is a T when there is no error

    def run() -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - handed over to who waits, whatever it is
            failure = error
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                return  # the loop was closed meanwhile: nobody waits

    threading.Thread(target=run, name="eagletui-aside", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done
