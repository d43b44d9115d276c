"""Keeping the link to a node: opening it, noticing that it is gone, and when to try again. Never by itself where the login needed a person,
nor where trying again cannot help: a bastion bans those who hammer it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from eagletui.errors import AuthError, ConfigError, EagletuiError, HostKeyError, LinkLostError, UsageError
from eagletui.monitor.snapshot import Link, LinkNeeds
from eagletui.nodes.base import Node

PING_EVERY_S = 2.0
LATENCIES = 60
BACKOFF_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
JITTER = 0.2
"""Part of a pause: many clients that lost one node do not come back at one time."""
GOOD_S = 30.0
"""A link that lived so long was good: the pauses begin anew. One that dies sooner is flapping."""
SURE_S = 4.0
"""How long a link is given to prove that it lives, after a sleep or when something on it failed: a good one answers in a second."""
LOGIN_HINT = "; the login needs you: press c to log in again"
LOOK_HINT = "; it is not tried again by itself: press c to try"
"""What the screen's keys are good for. Who has no screen tells the rest."""
_INCURABLE = (HostKeyError, AuthError, UsageError, ConfigError)


class Backoff:
    """The pauses between tries. Time is an argument."""

    def __init__(self) -> None:
        self._attempt = 0

    def was_up(self, seconds: float) -> None:
        """A link ended that had lived so long."""
        if seconds >= GOOD_S:
            self._attempt = 0

    def reset(self) -> None:
        """Begin anew."""
        self._attempt = 0

    def next_s(self, luck: float) -> float:
        """The next pause; `luck` is between 0 and 1."""
        pause = BACKOFF_S[min(self._attempt, len(BACKOFF_S) - 1)]
        self._attempt += 1
        return pause * (1 - JITTER + 2 * JITTER * luck)


def without_hint(error: str) -> str:
    """The sentence of a lost link without what to press."""
    return error.removesuffix(LOGIN_HINT).removesuffix(LOOK_HINT)


def needed(error: EagletuiError, *, asked_person: bool) -> LinkNeeds | None:
    """What a person has to do before the next try; None when it may be tried again without. `asked_person`: the last login asked one."""
    if isinstance(error, AuthError | HostKeyError) and error.needs_person:
        return "login"
    if isinstance(error, _INCURABLE):
        return "look"
    return "login" if asked_person else None


class LinkWatch:
    """The link of one node. `view` is its state, `on_change` is called after each change, `on_failure` when the first connection fails.

    `on_lost(at)` is called when a link ends, with the time of its last sign of life; `on_up(at)` when one is there. Times are monotonic.
    """

    def __init__(
        self,
        node: Node,
        *,
        on_change: Callable[[], None],
        on_up: Callable[[float], None],
        on_lost: Callable[[float], None],
        on_failure: Callable[[EagletuiError], None] | None,
    ) -> None:
        self.view = Link("connecting")
        self.was_up = False
        self._node = node
        self._on_change, self._on_up, self._on_lost, self._on_failure = on_change, on_up, on_lost, on_failure
        self._latencies: deque[float | None] = deque(maxlen=LATENCIES)
        self._backoff = Backoff()
        self._asked_person = False
        self._heard_at = 0.0
        self._now = asyncio.Event()
        self._by_person = False
        self._trying: asyncio.Task[None] | None = None
        self._woke = asyncio.Event()

    def look(self) -> Link:
        """The state with its latencies. A link that is down has none."""
        up = self.view.state == "up"
        return replace(
            self.view,
            latency_ms=self._node.latency_ms if up else None,
            latencies=tuple(self._latencies),
            heard_at=self._heard_at if up else None,
        )

    def connect_now(self) -> None:
        """A person wants it: try at once, asking whatever the login asks. Nothing happens while the link is up, or while a person's try runs."""
        if self.view.state == "up" or self._by_person or not self.was_up:
            return
        self._by_person = True
        self._backoff.reset()
        self._hurry()

    def woke(self) -> None:
        """Time passed without us: the link has to prove that it lives, and no pause goes on."""
        if self.view.state == "up":
            self._woke.set()
        elif not self._by_person and self.was_up and self.view.needs is None:
            self._backoff.reset()
            self._hurry()

    def _hurry(self) -> None:
        self._now.set()
        if self._trying is not None:
            self._trying.cancel()  # it may be waiting for an answer from before the sleep, or may not ask what it needs to

    async def run(self, session: Callable[[], Awaitable[None]]) -> None:
        """Connect and run the session, again and again, until cancelled. Returns only when the first connection fails."""
        may_ask = True
        while True:
            self._set(replace(self.view, state="connecting", retry_at=None, needs=None, at=time.monotonic()))
            try:
                if not await self._connect(may_ask):
                    may_ask = self._by_person
                    continue
                self._came()
                await session()
            except EagletuiError as error:
                if not self.was_up:
                    if self._on_failure is not None:
                        self._on_failure(error)
                    return
                pause = await self._went(error)
                may_ask = await self._pause(pause)

    async def _connect(self, may_ask: bool) -> bool:
        """False: it was cut short, to be begun anew. Raises EagletuiError."""
        self._now.clear()
        trying = asyncio.ensure_future(self._node.connect(may_ask=may_ask))
        self._trying = None if may_ask else trying  # a person's try is never cut short
        try:
            await asyncio.wait((trying,))
        finally:
            self._trying = None
            if not trying.done():
                trying.cancel()
                await asyncio.gather(trying, return_exceptions=True)
        if trying.cancelled():
            return False
        if may_ask:
            self._by_person = False
        trying.result()
        return True

    def _came(self) -> None:
        now = time.monotonic()
        self.was_up = True
        self._by_person = False
        self._asked_person = self._node.asked_person
        if self.view.lost_at is not None:
            self._latencies.extend([None] * min(LATENCIES, 1 + int((now - self.view.lost_at) / PING_EVERY_S)))
        self._heard_at = now
        self._now.clear()
        self._woke.clear()
        self._on_up(now)  # first, so that nobody is shown old evidence under a link that is up
        self._set(Link("up", at=now))

    async def _went(self, error: EagletuiError) -> float | None:
        """Say that it is gone. Gives the pause until the next try, None when a person has to begin it."""
        now = time.monotonic()
        was_up = self.view.state == "up"
        lost_at = now if was_up or self.view.lost_at is None else self.view.lost_at
        if was_up:
            self._backoff.was_up(now - (self.view.at or now))
            self._set(Link("down", error=str(error), at=now, lost_at=lost_at))
            self._on_lost(self._heard_at)
            if await self._lives():
                self._asked_person = False  # only something on it failed: nobody has to log in again
            else:
                await self._node.aclose()  # a silent one is not lost by itself, and would be taken for a good one
        needs = needed(error, asked_person=self._asked_person)
        said = str(error).rstrip(".")
        if needs == "login":
            said += LOGIN_HINT
        elif needs == "look":
            said += LOOK_HINT
        pause = None if needs is not None else self._backoff.next_s(random.random())  # noqa: S311 - no secret
        now = time.monotonic()
        retry_at = None if pause is None else now + pause
        self._set(Link("down", error=said, at=now, lost_at=lost_at, retry_at=retry_at, needs=needs))
        return pause

    async def _lives(self) -> bool:
        try:
            async with asyncio.timeout(SURE_S):
                await self._node.ping()
        except (EagletuiError, TimeoutError):
            return False
        return True

    async def _pause(self, seconds: float | None) -> bool:
        """Until the next try; whether a person asked for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._now.wait()
                while seconds is None and not self._by_person:  # a machine that woke asks nobody for a login
                    self._now.clear()
                    await self._now.wait()
        return self._by_person

    async def measure(self) -> None:
        """The latency, again and again. Raises LinkLostError."""
        while True:
            self._latencies.append(await self._node.ping())
            self._heard_at = time.monotonic()
            self._on_change()
            await asyncio.sleep(PING_EVERY_S)

    async def prove(self) -> None:
        """After each sleep: a link that does not answer soon is lost, instead of after the keepalive's time. Raises LinkLostError."""
        while True:
            await self._woke.wait()
            self._woke.clear()
            if not await self._lives():
                raise LinkLostError(f"the link to {self._node.name} did not answer after a pause of this machine")
            self._heard_at = time.monotonic()

    def _set(self, link: Link) -> None:
        self.view = link
        self._on_change()
