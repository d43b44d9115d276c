"""How a step reaches the node: every command of the sequence goes through `Acting.run`, under the fence.

Each command that signals, launches, writes or removes carries the lock's ports and token as its first two arguments and does nothing where the token
that lies on the node is another: it ends with status FENCED, which is `OvertakenError` here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from eagletui.errors import OvertakenError
from eagletui.launching.words import age, plain
from eagletui.nodes.base import Completed, Node
from eagletui.shell.lock import parse_fenced
from eagletui.shell.script import Command

T = TypeVar("T")
FENCED = 9
"""Exit status of a script whose token is no longer that of the lock. Its stdout: `fenced` and who holds it now, as `lock-look` tells."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The lock that this sequence holds: the ports in its order, and the token that we made."""

    ports: tuple[int, ...]
    token: str

    @property
    def arguments(self) -> tuple[str, str]:
        """The first two arguments of every script that changes something."""
        return ",".join(str(port) for port in self.ports), self.token


def _overtaken(output: bytes) -> str:
    now = parse_fenced(output)
    if now is None or now.who is None:
        by = "the lock of this port is gone or another's"
    else:
        client = plain((now.client or "").partition(" ")[0])
        since = "" if now.age_s is None else f" {age(now.age_s)} ago"
        by = f"{plain(now.who)}{f' on {client}' if client else ''} took over the lock of port {now.port}{since}"
    return f"{by}: nothing more was signalled or launched from here"


class Acting:
    """The node, the fence and what is told meanwhile. `dry`: nothing that changes the node is run; `Completed(0, b"", b"")` comes back for it, and a
    step gives each such command once and goes on. `tell(text, lines)` shows where the running step is. `ran` is called with every command
    before it runs (the dry run prints them; the log of eagletui keeps their names). `overtaken`: the sentence, once a command found another's token."""

    def __init__(
        self,
        node: Node,
        fence: Fence,
        *,
        tell: Callable[[str, tuple[str, ...]], None] = lambda _text, _lines: None,
        ran: Callable[[Command], None] = lambda _command: None,
        dry: bool = False,
    ) -> None:
        self.node = node
        self.fence = fence
        self.tell = tell
        self.dry = dry
        self.overtaken: str | None = None
        self._ran = ran

    async def run(self, command: Command, *, timeout: float = 20.0, limit: int = 16 << 20) -> Completed:  # noqa: ASYNC109 - see nodes.base
        """One standalone command. One that changes something is never cut in its middle: who is cancelled meanwhile is so when it ended.
        Raises OvertakenError, and what Node.run raises."""
        self._ran(command)
        if self.dry and not command.script.reads_only:
            return Completed(0, b"", b"")
        if command.script.reads_only:
            return await self.node.run(command, timeout=timeout, limit=limit)
        done = await whole(self.node.run(command, timeout=timeout, limit=limit))
        if done.exit_status == FENCED:
            self.overtaken = _overtaken(done.stdout)
            raise OvertakenError(self.overtaken)
        return done


async def whole(running: Coroutine[Any, Any, T]) -> T:
    """What must not be cut in its middle, to its end (its commands have deadlines of their own), then the cancellation that came meanwhile."""
    task = asyncio.ensure_future(running)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # seen
        raise cancelled
    return task.result()
