"""Starting a process of this machine so that being cancelled in that very moment leaves none behind."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process


async def start(*argv: str, **options: object) -> Process:
    """As asyncio.create_subprocess_exec. Raises OSError."""
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))  # type: ignore[arg-type]
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # asyncio itself would forget the child with its pipes open.
        starting.add_done_callback(_end)
        raise


def _end(starting: asyncio.Task[Process]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        transport: asyncio.SubprocessTransport = starting.result()._transport  # type: ignore[attr-defined]
        transport.close()
