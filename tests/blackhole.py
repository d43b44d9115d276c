"""A TCP proxy in front of a server of the loopback, to break connections with: `with proxied(port) as proxy`.

It runs in a thread with a loop of its own, so a test that stops its own loop or process does not stop the proxy.
What it can do, from any thread, for all connections and for those that come:

    proxy.forward()       as a wire would (the beginning)
    proxy.black_hole()    nothing is forwarded, nobody is told: what a lost Wi-Fi or a firewall's forgotten state looks like.
                          What was sent meanwhile is delivered when forwarding goes on.
    proxy.delay(seconds)  forward, each byte this much later, in each direction
    proxy.drop()          reset every connection (new ones are taken)
    proxy.end()           close every connection in order, as its two ends would (new ones are taken)
    proxy.abandon()       the connections that are there stay silent for ever, and neither end is told; new ones are forwarded
    proxy.refuse()        nobody listens any more: new connections are refused (those that there are stay)
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

CHUNK = 65536
IN_FLIGHT = 64
"""Chunks under way in one direction: not reading is the back-pressure, as on a wire."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on with 0 s: closing sends a reset."""
LIMIT_S = 30.0


class Proxy:
    """Stands on `port` for a server on `upstream` of 127.0.0.1. `accepted` counts the connections that were made, `carried` the
    bytes that were forwarded, both ways."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.port = 0
        self.accepted = 0
        self.carried = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tests-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._delay_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: set[socket.socket] = set()
        self._near: set[asyncio.StreamWriter] = set()

    @property
    def connections(self) -> int:
        """How many there are now."""
        return len(self._tasks)

    @property
    def far_ports(self) -> set[int]:
        """Our ports of the connections to the server: what it sees as its peers'."""
        names = [sock.getsockname() + sock.getpeername() for sock in tuple(self._sockets) if sock.fileno() >= 0]
        return {name[1] for name in names if name[3] == self.upstream}

    def forward(self) -> None:
        """Let everything through, what was held back too, and listen."""

        async def act() -> None:
            self._delay_s = 0.0
            self._flowing.set()
            await self._listen()

        self._do(act)

    def black_hole(self) -> None:
        """Forward nothing, close nothing. New connections are taken, and silent."""

        async def act() -> None:
            self._flowing.clear()

        self._do(act)

    def delay(self, seconds: float) -> None:
        """Forward, later."""

        async def act() -> None:
            self._delay_s = seconds
            self._flowing.set()
            await self._listen()

        self._do(act)

    def drop(self) -> None:
        """Reset every connection there is; what was under way is lost."""
        self._do(self._drop)

    def end(self) -> None:
        """Close every connection there is: each end sees the other one close."""

        async def act() -> None:
            for writer in tuple(self._near):
                writer.close()

        self._do(act)

    def abandon(self) -> None:
        """Forward nothing more of the connections there are, and never again; new ones are new."""

        async def act() -> None:
            self._flowing.clear()
            self._flowing = asyncio.Event()
            self._flowing.set()
            await self._listen()

        self._do(act)

    def refuse(self) -> None:
        """Stop listening."""
        self._do(self._stop_listening)

    # In the thread

    async def _drop(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a transport that was aborted closes its socket in the next turn
        await asyncio.sleep(0)

    async def _settle(self) -> None:
        """What was aborted closes its sockets."""
        await asyncio.sleep(0.05)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port, limit=CHUNK)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _take(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        if task is None:
            return
        self._tasks.add(task)
        writers, flowing = [to_near], self._flowing
        self._sockets.add(to_near.get_extra_info("socket"))
        self._near.add(to_near)
        try:
            await flowing.wait()
            far, to_far = await asyncio.open_connection("127.0.0.1", self.upstream, limit=CHUNK)
            writers.append(to_far)
            self._sockets.add(to_far.get_extra_info("socket"))
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(near, to_far, flowing))
                both.create_task(self._pump(far, to_near, flowing))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # an end of a connection is what this is for
        finally:
            self._tasks.discard(task)
            self._near.discard(to_near)
            for writer in writers:
                self._sockets.discard(writer.get_extra_info("socket"))
                writer.transport.abort() if task.cancelling() else writer.close()
            for writer in writers:
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
        """One direction, to its end; an end is forwarded too."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(IN_FLIGHT)

        async def deliver() -> None:
            while True:
                at, chunk = await under_way.get()
                await asyncio.sleep(max(0.0, at + self._delay_s - loop.time()))
                await flowing.wait()
                if not chunk:
                    sink.write_eof()
                    return
                self.carried += len(chunk)
                sink.write(chunk)
                await sink.drain()

        delivering = asyncio.create_task(deliver())
        try:
            while not delivering.done():
                chunk = await source.read(CHUNK)
                await under_way.put((loop.time(), chunk))
                if not chunk:
                    break
            await delivering
        finally:
            delivering.cancel()
            await asyncio.gather(delivering, return_exceptions=True)

    # From the test

    def _do(self, act: Callable[[], object]) -> None:
        asyncio.run_coroutine_threadsafe(act(), self._loop).result(LIMIT_S)  # type: ignore[arg-type]

    def start(self) -> None:
        """Begin to listen on a free port."""
        self._thread.start()
        self.forward()

    def close(self) -> None:
        """End it with all its connections."""
        self._do(self._stop_listening)
        for _ in range(2):  # a connection that was being taken comes after the first time
            self._do(self._drop)
            self._do(self._settle)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()


@contextlib.contextmanager
def proxied(upstream: int) -> Iterator[Proxy]:
    """A proxy before a port of 127.0.0.1."""
    proxy = Proxy(upstream)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()
