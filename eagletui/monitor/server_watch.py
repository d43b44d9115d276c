"""Watching one server: its log, /health and /metrics, and the verdict over them. Lives as long as the launcher it was made for stays selected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from eagletui.engines.batch import BatchSample
from eagletui.engines.metrics import Figures, between, read_metrics
from eagletui.engines.spec import load_engine
from eagletui.monitor.figures import SERIES, taken, tell_tokens
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.log_watch import LogWatch
from eagletui.monitor.probes import HEALTH_TIMEOUT_S, Answer, Prober, health_interval_s
from eagletui.monitor.series import Series
from eagletui.monitor.sleep import Missed
from eagletui.monitor.snapshot import STALE_S, Health, Throughput, Verdict
from eagletui.monitor.together import Together
from eagletui.nodes.base import Node
from eagletui.servers.model import Member, Reason, Server, State
from eagletui.servers.verdict import Evidence, HealthSeen, judge

METRICS_EVERY_S = 15.0
"""Beside a log that is followed: /metrics is the second witness, and each scrape is a line in the user's log."""
METRICS_ALONE_EVERY_S = 2.0
"""Without a log it is the only one."""
METRICS_TIMEOUT_S = 5.0
RUNNING_FRESH_S = 30.0
LATENCIES = 60
CATCH_UP_S = 3.0
"""Lines that come within it after a break were written during the break: no sign that tokens flow now."""


class ServerWatch:
    """Everything known of one server. `on_change` is called after each change."""

    def __init__(
        self,
        node: Node,
        server: Server,
        *,
        keeper: Keeper,
        started: float | None,
        skew_s: float | None,
        on_change: Callable[[], None],
    ) -> None:
        self.server = server
        self.started = started
        """Monotonic time of the launcher's start, None when it is not known."""
        self.engine = load_engine(server.engine)
        self.health = Health(path=self.engine.health_path)
        self.throughput = Throughput()
        self.series: dict[str, Series] = {name: Series() for name in SERIES}
        self.log = LogWatch(
            node,
            server,
            keeper=keeper,
            skew_s=skew_s,
            on_batch=self._batch,
            on_ready=self._ready,
            on_caught_up=self._caught_up,
            on_change=on_change,
        )
        self.missing: dict[int, Member] = {}
        self.launcher_alive: bool | None = None
        self.alive: int | None = None
        self.total: int | None = None
        self.family_at: float | None = None
        """When the family was last counted."""
        self._fresh_since = 0.0
        """What was seen before it was seen before a break of the link: it is shown, and says nothing about now."""
        self._node = node
        self._on_change = on_change
        self._probe = asyncio.Event()
        self._prober: Prober | None = None
        self._was_ready = False
        self._ready_at: float | None = None
        self._asked_at = 0.0
        self._running: tuple[float, int] | None = None
        self._tokens_at: float | None = None
        self._figures: tuple[float, Figures] | None = None
        self._since: dict[State, float] = {}

    def probe_now(self) -> None:
        """Ask /health at once."""
        self._probe.set()

    def _ready(self) -> None:
        """Its log says that it serves: what /health said before that is of the past."""
        self._ready_at = time.monotonic()
        self.probe_now()

    def _caught_up(self) -> None:
        """It may have become ready while its log was being found: the next question would be seconds away."""
        if self.health.status != 200:
            self.probe_now()

    async def run(self) -> None:
        """Watch until cancelled. Raises NodeError."""
        port = self.server.port
        self._prober = None if port is None else Prober(self._node, self.server.host, port)
        try:
            async with Together() as tasks:
                tasks.create_task(self.log.run(), name="log")
                if self._prober is not None:
                    tasks.create_task(self._watch_health(self._prober), name="health")
                    tasks.create_task(self._watch_metrics(self._prober), name="metrics")
        finally:
            prober, self._prober = self._prober, None
            if prober is not None:
                await prober.aclose()

    def found(self, server: Server) -> None:
        """Discovery looked again: the family grew, the port opened."""
        opened = server.listening and not self.server.listening
        self.server = server
        if self._prober is not None and server.port is not None:
            self._prober.aim(server.host, server.port)
        if opened:
            self.probe_now()

    def members(self, alive: int, total: int, missing: dict[int, Member], *, launcher_alive: bool) -> None:
        """The poller counted the family."""
        changed = (alive, total, launcher_alive) != (self.alive, self.total, self.launcher_alive)
        self.alive, self.total, self.missing, self.launcher_alive = alive, total, missing, launcher_alive
        self.family_at = time.monotonic()
        if changed:
            self._on_change()

    def link_lost(self, at: float) -> None:
        """Nothing is seen since then."""
        for series in self.series.values():
            series.gap_began(at)

    def link_up(self, now: float) -> None:
        """It is seen again: what was known before gives no verdict any more."""
        self._fresh_since = now
        self._figures = None  # counters over a break give a mean of it, not a rate of now
        for series in self.series.values():
            series.gap_ended(now)

    def missed(self, gap: Missed, now: float) -> None:
        """Time passed without us, until now."""
        if gap.kind == "slept":
            self._fresh_since = now
            self._figures = None
        for series in self.series.values():
            if gap.kind == "slept":
                series.slept(now, gap.seconds)
            elif gap.kind == "stopped":
                series.gap_began(now - gap.seconds)
                series.gap_ended(now)
        self.probe_now()

    def _is_fresh(self, at: float | None) -> bool:
        return at is not None and at >= self._fresh_since

    def _tokens_seen_at(self) -> float | None:
        """When a token was last seen, of those that say something about now."""
        at = self._tokens_at
        return None if at is None or (self._fresh_since and at < self._fresh_since + CATCH_UP_S) else at

    def _looking_again(self) -> bool:
        """Whether too little was seen since the break: a live family, and a sign of what it does."""
        if not self._fresh_since or self.launcher_alive is False:
            return False
        if not self._is_fresh(self.family_at):
            return True
        return self.server.port is not None and not (
            self._is_fresh(self.health.at) or self._tokens_seen_at() is not None
        )

    def verdict(self, now: float) -> Verdict:
        """The state by everything known now."""
        if self._looking_again():
            return Verdict(State.UNKNOWN, Reason("looking", "asking the server again, after a break"))
        health = self.health
        seen = None
        if health.at is not None and self._is_fresh(health.at):
            seen = HealthSeen(health.status, health.error, now - health.at)
        log = self.log.state
        if (
            self._ready_at is not None
            and not self._was_ready
            and (health.at is None or self._asked_at < self._ready_at)
        ):
            log = replace(log, state="starting", phase="warmup")  # its own word is not enough: /health is being asked
        running = None
        if self._running and self._is_fresh(self._running[0]) and now - self._running[0] <= RUNNING_FRESH_S:
            running = self._running[1]
        if (
            health.at is None
            and log.state == "unknown"
            and self.launcher_alive is not False
            and self.server.port is not None
        ):
            # Nothing was heard yet: no verdict is better than a wrong one that flashes by.
            return Verdict(State.UNKNOWN, Reason("looking", f"asking the server on port {self.server.port}"))
        tokens_at = self._tokens_seen_at()
        state, reason = judge(
            Evidence(
                server=self.server,
                launcher_alive=self.launcher_alive,
                alive=self.alive,
                total=self.total,
                missing=tuple(self.missing.values()),
                log=log,
                health=seen,
                running=running,
                tokens_age_s=None if tokens_at is None else now - tokens_at,
                was_ready=self._was_ready,
            )
        )
        since = self._since.get(state)
        if since is None:
            self._since = {state: now}
            since = now
        return Verdict(state, reason, since)

    def current_throughput(self, now: float) -> Throughput:
        """The last figures, marked stale when they are old."""
        at = self.throughput.at
        return replace(self.throughput, stale=at is not None and (now - at > STALE_S or at < self._fresh_since))

    def _batch(self, sample: BatchSample, at: float) -> None:
        """Figures from a batch line or /metrics. Fields that it does not tell keep their last value."""
        if tell_tokens(sample):
            self._tokens_at = max(at, self._tokens_at or at)
        now = taken(self.throughput, sample, at)
        if now is None:
            return
        self.throughput, told = now
        for name in SERIES:
            if name in told:
                self.series[name].append(at, float(told[name]))
        self._on_change()

    async def _watch_health(self, prober: Prober) -> None:
        while True:
            self._probe.clear()
            asked = time.monotonic()
            answer = await prober.get(self.engine.health_path, HEALTH_TIMEOUT_S)
            self._asked_at = asked
            self._take_health(answer, time.monotonic())
            pause = health_interval_s(ready=self._was_ready, last_status=self.health.status) - (
                time.monotonic() - asked
            )
            try:
                async with asyncio.timeout(max(0.0, pause)):
                    await self._probe.wait()
            except TimeoutError:
                continue

    def _take_health(self, answer: Answer, now: float) -> None:
        old = self.health
        latencies = old.latencies if answer.latency_ms is None else (*old.latencies, answer.latency_ms)[-LATENCIES:]
        self._was_ready = self._was_ready or answer.status == 200
        self.health = Health(
            old.path, answer.status, answer.latency_ms, now, answer.error, answer.detail, latencies, old.asked + 1
        )
        self._on_change()

    async def _watch_metrics(self, prober: Prober) -> None:
        while True:
            alone = not self.log.following
            await asyncio.sleep(METRICS_ALONE_EVERY_S if alone else METRICS_EVERY_S)
            if self.health.status is None:
                continue
            answer = await prober.get(self.engine.metrics_path, METRICS_TIMEOUT_S)
            if answer.status == 404:
                return  # it was started without metrics
            if answer.status == 200:
                self._take_metrics(answer.body, time.monotonic())

    def _take_metrics(self, body: bytes, now: float) -> None:
        figures = read_metrics(body.decode("utf-8", "replace"), self.engine)
        sample = figures.sample
        if self._figures is not None:
            sample = between(self._figures[1], figures, now - self._figures[0])
        self._figures = (now, figures)
        if sample.running is not None:
            self._running = (now, sample.running)
            if not sample.running:
                sample = sample._replace(
                    gen_tok_s=None, accept_len=None, accept_rate=None
                )  # the gauges keep the last busy moment's figures
        self._batch(sample, now)


def absent(text: str, code: str = "no-server") -> Verdict:
    """The verdict of a node without a server to show."""
    return Verdict(State.ABSENT, Reason(code, text))
