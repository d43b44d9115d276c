"""/health_generate of one server: asked rarely, since each answer costs it a token, and only when the answer would tell something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from eagletui.monitor.probes import Answer, Prober
from eagletui.monitor.snapshot import Health

LEAST_S = 60.0
"""Never twice within it."""
IDLE_EVERY_S = 300.0
"""While nothing else tells that it can generate: an idle server is asked every five minutes."""
DOUBT_S = 15.0
"""/health says 200, requests are there, and no token came for so long."""
TIMEOUT_S = 30.0
"""SGLang gives up on itself after 20 s, with a 503."""
LOOK_EVERY_S = 1.0
_CANNOT_TELL = frozenset({401, 403, 404, 405})
"""It has no such path, or not for us: it is not asked again."""


class Situation(NamedTuple):
    """What is known of the server when it is decided whether to ask. `ready`: it is up by /health. `flowing`: tokens come out now.
    `requests`: there are some, running or waiting; None when that is not known. `without_s`: for how long they got no token."""

    ready: bool
    flowing: bool
    requests: bool | None
    without_s: float | None
    benchmarking: bool = False


def is_due(now: Situation, asked_s: float | None, *, failed: bool) -> bool:
    """Whether to ask. `asked_s`: since the last time, None when it was never asked. `failed`: the last answer was no."""
    if not now.ready or now.benchmarking or (asked_s is not None and asked_s < LEAST_S):
        return False
    if now.without_s is not None and now.without_s >= DOUBT_S:
        return True
    if now.flowing:
        return False
    if failed:
        return True
    if now.requests:
        return False  # they began a moment ago: their own tokens will tell
    return asked_s is None or asked_s >= IDLE_EVERY_S


class DeepHealth:
    """`path` None: the engine has none, and nothing is ever asked. `view` is the last answer, None before the first."""

    def __init__(self, path: str | None, situation: Callable[[], Situation], on_change: Callable[[], None]) -> None:
        self.view: Health | None = None
        self._path = path
        self._situation = situation
        self._on_change = on_change
        self._asked_at: float | None = None

    async def run(self, prober: Prober) -> None:
        """Ask whenever it is due, until cancelled or until the server cannot tell. Raises LinkLostError."""
        while self._path is not None:
            await asyncio.sleep(LOOK_EVERY_S)
            asked_s = None if self._asked_at is None else time.monotonic() - self._asked_at
            if not is_due(self._situation(), asked_s, failed=self._failed):
                continue
            self._asked_at = time.monotonic()
            answer = await prober.get(self._path, TIMEOUT_S)
            self._take(self._path, answer, time.monotonic())
            if answer.status in _CANNOT_TELL:
                return

    @property
    def _failed(self) -> bool:
        view = self.view
        return view is not None and view.status != 200 and view.status not in _CANNOT_TELL

    def _take(self, path: str, answer: Answer, now: float) -> None:
        old = self.view or Health(path)
        error, detail = answer.error, answer.detail
        if answer.status in _CANNOT_TELL:
            detail = f"this server cannot be asked for a token by {path} (status {answer.status})"
        self.view = old.told(answer.status, answer.latency_ms, now, error, detail)
        self._on_change()
