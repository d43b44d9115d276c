"""Watching one server: its log, /health and /metrics, and the verdict over them. Lives as long as the launcher it was made for stays selected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from eagletui.engines.batch import BatchSample
from eagletui.engines.metrics import Figures, read_metrics
from eagletui.engines.spec import load_engine
from eagletui.logs.state import Diagnosis, LogState, PhaseName
from eagletui.monitor.autopsy import Autopsy, Case
from eagletui.monitor.deep_health import DeepHealth, Situation
from eagletui.monitor.family_watch import FamilyCount
from eagletui.monitor.figures import SERIES, taken, told_by_metrics
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.launches import Launches
from eagletui.monitor.log_watch import LogWatch
from eagletui.monitor.measuring import Measuring
from eagletui.monitor.movement import Movement
from eagletui.monitor.poller import Poller
from eagletui.monitor.probes import HEALTH_TIMEOUT_S, Answer, Prober, health_interval_s
from eagletui.monitor.series import Series
from eagletui.monitor.sleep import Missed
from eagletui.monitor.snapshot import STALE_S, GpuView, Health, Throughput, Verdict
from eagletui.monitor.together import Together
from eagletui.monitor.tokens import Tokens
from eagletui.nodes.base import Node
from eagletui.servers.family import Identity
from eagletui.servers.gpu_trouble import busy_pct, trouble
from eagletui.servers.model import Member, Reason, Server, State
from eagletui.servers.record import Record
from eagletui.servers.stalls import Stillness, stillness
from eagletui.servers.verdict import FLOWING_S, Evidence, HealthSeen, judge
from eagletui.shell.poll import PollAnswer

METRICS_EVERY_S = 15.0
"""Beside a log that is followed: /metrics is the second witness, and each scrape is a line in the user's log."""
METRICS_ALONE_EVERY_S = 2.0
"""Without a log it is the only one."""
METRICS_TIMEOUT_S = 5.0
_NEEDED = frozenset({"launcher", "scheduler", "detokenizer"})
"""Roles that every answer passes through."""


class ServerWatch:
    """Everything known of one server. `gpus`: the node's, as last seen. `on_change` is called after each change."""

    def __init__(
        self,
        node: Node,
        server: Server,
        *,
        keeper: Keeper,
        started: float | None,
        skew_s: float | None,
        gpus: Callable[[], GpuView],
        launches: Launches,
        on_change: Callable[[], None],
        measuring: Measuring | None = None,
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
        self.launcher_alive: bool | None = False if server.launcher.gone else None
        self.alive: int | None = None
        self.total: int | None = None
        self.ended_at: float | None = None
        """When the launcher was first seen to be gone; None while it lives, and where it was gone before it was watched."""
        self.family_at: float | None = None
        """When the family was last counted."""
        self._fresh_since = 0.0
        """What was seen before it was seen before a break of the link: it is shown, and says nothing about now."""
        self._node = node
        self._on_change = on_change
        self._launches = launches
        self.usual_s: Mapping[PhaseName, float] = {}
        """How long each phase takes by earlier launches, as far as that is known."""
        self._measuring = measuring or Measuring()
        self.autopsy = Autopsy(node, on_change)
        self.deep = DeepHealth(self.engine.deep_health_path, self._situation, on_change)
        self._movement = Movement()
        self._helpers_gone: dict[int, Member] = {}
        self._gpus = gpus
        self._told: tuple[State, str] | None = None
        self._compiling: tuple[int, float | None] | None = None
        """How many lines told of kernels being compiled, and when the last one came while we looked."""
        self._probe = asyncio.Event()
        self._prober: Prober | None = None
        self._was_ready = False
        self._ready_at: float | None = None
        self._asked_at = 0.0
        self._tokens = Tokens()
        self._figures: tuple[float, Figures] | None = None
        self._since: dict[State, float] = {}

    @property
    def record(self) -> Record | None:
        """What launched it, None for what eagletui did not launch."""
        return self._launches.record_of(self.server)

    @property
    def stopping(self) -> bool:
        """Whether a stop of it is under way, whoever drives it."""
        return self._launches.story(self.server).stopping

    @property
    def own_health(self) -> Health:
        """What it answered itself: nothing where another process listens on its port."""
        return Health(path=self.engine.health_path) if self.server.foreign_listener else self.health

    def up_s(self, seen_at: float, true_time: Callable[[float], float]) -> float | None:
        """How long it was up when it was seen last, at most until its launcher went. `true_time`: of a time before this machine slept."""
        if self.started is None:
            return None
        until = seen_at if self.ended_at is None else min(seen_at, true_time(self.ended_at))
        return max(0.0, until - true_time(self.started))

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
                tasks.create_task(self.autopsy.run(self.server.pid), name="autopsy")
                if self._prober is not None:
                    tasks.create_task(self._watch_health(self._prober), name="health")
                    tasks.create_task(self._watch_metrics(self._prober), name="metrics")
                    tasks.create_task(self.deep.run(self._prober), name="deep-health")
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

    async def polled(self, poller: Poller, answer: PollAnswer, family: FamilyCount) -> None:
        """The poller told of the family. Raises LinkLostError."""
        now = time.monotonic()
        changed = (family.alive, family.total, family.launcher_alive) != (self.alive, self.total, self.launcher_alive)
        self.alive, self.total, self.launcher_alive = family.alive, family.total, family.launcher_alive
        self.missing = dict(family.gone)
        self.family_at = now
        if self.launcher_alive is False and self.ended_at is None:
            self.ended_at = now
        if self._was_ready:  # while it loads, helpers come and go
            self._helpers_gone |= family.helpers_gone
        family.helpers_gone.clear()
        self._see_compiling(now)
        self._movement.polled(answer.rows, family.members, now)
        self._movement.gpus(self._gpus().report, family.pids, now)
        quiet_s = self._quiet_s(now) if self.log.state.state == "starting" else None
        await self._movement.ask(poller, family.pids, quiet_s)
        verdict = self.verdict(time.monotonic())  # what only time changes, a stall, is told as soon as it is one
        told = (verdict.state, verdict.reason.code)
        if changed or told != self._told:
            self._told = told
            self._on_change()

    def _see_compiling(self, now: float) -> None:
        told = sum(one.count for one in self.log.state.warnings if one.code == "jit-compiling")
        if self._compiling is not None and told > self._compiling[0]:
            self._compiling = (told, now)
        elif self._compiling is None or told < self._compiling[0]:
            self._compiling = (told, None)  # what was there when we came is not of now

    def link_lost(self, at: float) -> None:
        """Nothing is seen since then."""
        for series in self.series.values():
            series.gap_began(at)

    def link_up(self, now: float) -> None:
        """It is seen again: what was known before gives no verdict any more."""
        self._fresh_since = now
        self._tokens.link_up(now)
        self._figures = None  # counters over a break give a mean of it, not a rate of now
        for series in self.series.values():
            series.gap_ended(now)

    def missed(self, gap: Missed, now: float) -> None:
        """Time passed without us, until now."""
        if gap.kind == "slept":
            self._fresh_since = now
            self._tokens.link_up(now)
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

    def _looking_again(self) -> bool:
        """Whether too little was seen since the break: a live family, and a sign of what it does."""
        if not self._fresh_since or self.launcher_alive is False:
            return False
        if not self._is_fresh(self.family_at):
            return True
        return self.server.port is not None and not (
            self._is_fresh(self.health.at) or self._tokens.age_s(time.monotonic()) is not None
        )

    def verdict(self, now: float) -> Verdict:
        """The state by everything known now."""
        if self._looking_again():
            return Verdict(State.UNKNOWN, Reason("looking", "asking the server again, after a break"))
        log = self._log()
        if (
            self.health.at is None
            and (log.state == "unknown" or self.log.catching_up)
            and self.launcher_alive is not False
            and self.server.port is not None
        ):
            # Nothing was heard yet: no verdict is better than a wrong one that flashes by.
            return Verdict(State.UNKNOWN, Reason("looking", f"asking the server on port {self.server.port}"))
        state, reason = judge(self._evidence(log, now))
        since = self._since.get(state)
        if since is None:
            self._since = {state: now}
            since = now
        if state is State.CRASHED:
            self.autopsy.died(since)
        else:
            self.autopsy.lives()
        return Verdict(state, reason, since)

    def diagnosis(self, verdict: Verdict, now: float) -> Diagnosis | None:
        """Why it died or stands, None while it is well or the cause is still gathered."""
        rank = next((member.rank for member in self._suspended(now) if member.rank), None)
        grew_at = self.log.view().grew_at
        return self.autopsy.diagnosis(Case(self.server, self.missing, self.log.state, verdict, rank, grew_at), now)

    def _log(self) -> LogState:
        """What its log says, as far as that is enough."""
        log = self.log.state
        asked = self.health.at is not None and (self._ready_at is None or self._asked_at >= self._ready_at)
        if self._ready_at is not None and not self._was_ready and not asked:
            log = replace(log, state="starting", phase="warmup")  # its own word is not enough: /health is being asked
        return log

    def _evidence(self, log: LogState, now: float) -> Evidence:
        running, queued = (None, None) if self.server.foreign_listener else self._tokens.work(now)
        report = self._gpus().report
        pids = self._pids()
        gone_at = self._since.get(State.ABSENT)
        evidence = Evidence(
            server=self.server,
            launcher_alive=self.launcher_alive,
            alive=self.alive,
            total=self.total,
            missing=tuple(self.missing.values()),
            log=log,
            health=self._seen(self.health, now),
            running=running,
            tokens_age_s=self._tokens.age_s(now),
            was_ready=self._was_ready,
            queued=queued,
            no_tokens_s=self._tokens.without_s(now),
            deep=None if self.deep.view is None else self._seen(self.deep.view, now),
            stillness=self._stillness(log, now),
            suspended=self._suspended(now),
            waiting=tuple(
                (member, s) for who, s in self._movement.waiting(now).items() if (member := self._member(who))
            ),
            helpers_gone=tuple(self._helpers_gone.values()),
            gpu_trouble=trouble(report, pids, self.server.tp),
            gpu_busy_pct=busy_pct(report, pids),
            compiling_s=None if self._compiling is None or self._compiling[1] is None else now - self._compiling[1],
            log_empty=self.log.empty,
            gone_s=now - gone_at if gone_at is not None and self.started is not None else None,
        )
        return self._launches.told_of(
            self.server, evidence, self.log.last_line if self.launcher_alive is False else None
        )

    def _seen(self, health: Health, now: float) -> HealthSeen | None:
        """A probe's answer, if it is of now."""
        if health.at is None or not self._is_fresh(health.at):
            return None
        return HealthSeen(health.status, health.error, now - health.at, health.latency_ms)

    def _pids(self) -> frozenset[int]:
        return frozenset(member.process.pid for member in self.server.family)

    def _member(self, who: Identity) -> Member | None:
        return next((m for m in self.server.family if (m.process.pid, m.process.started) == who), None)

    def _suspended(self, now: float) -> tuple[Member, ...]:
        """Members that a signal stopped, of those that every answer needs."""
        found = [self._member(who) for who in self._movement.suspended(now)]
        return tuple(member for member in found if member is not None and member.role in _NEEDED)

    def _quiet_s(self, now: float) -> float | None:
        """For how long the running phase has not moved by the log; None where the log is not followed, and cannot tell."""
        phase = next((one for one in reversed(self.log.state.phases) if one.status == "running"), None)
        if phase is None or phase.quiet_since is None or not self.log.following:
            return None
        return max(0.0, now - max(phase.quiet_since, self._fresh_since))

    def _stillness(self, log: LogState, now: float) -> Stillness | None:
        quiet_s = self._quiet_s(now)
        if quiet_s is None or log.phase is None:
            return None
        return stillness(log, quiet_s, self._movement.moves(now), self.usual_s.get(log.phase))

    def _situation(self) -> Situation:
        """What decides whether /health_generate is asked."""
        now = time.monotonic()
        age = self._tokens.age_s(now)
        ready = self.health.status == 200 and self._was_ready and self.launcher_alive is not False
        work = self._tokens.work(now)
        return Situation(
            ready=ready and not self.missing and not self.server.foreign_listener,
            flowing=age is not None and age <= FLOWING_S,
            requests=None if work == (None, None) else any(work),
            without_s=self._tokens.without_s(now),
            benchmarking=self._measuring.on,
        )

    def current_throughput(self, now: float) -> Throughput:
        """The last figures, marked stale when they are old."""
        at = self.throughput.at
        return replace(self.throughput, stale=at is not None and (now - at > STALE_S or at < self._fresh_since))

    def _batch(self, sample: BatchSample, at: float) -> None:
        """Figures from a batch line or /metrics. Fields that it does not tell keep their last value."""
        if sample.kind != "metrics":
            self._tokens.line(sample, at)
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
            await self._measuring.over()
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
        # Another process on the port answers for itself: the bind that failed is told a moment later.
        self._was_ready = self._was_ready or (answer.status == 200 and not self.server.foreign_listener)
        self.health = self.health.told(answer.status, answer.latency_ms, now, answer.error, answer.detail)
        self._on_change()

    async def _watch_metrics(self, prober: Prober) -> None:
        while True:
            alone = not self.log.following
            await asyncio.sleep(METRICS_ALONE_EVERY_S if alone else METRICS_EVERY_S)
            if self.health.status is None or self._measuring.on or self.server.foreign_listener:
                continue  # another process on its port has figures of its own; who measures asks /metrics as well, as seldom as it may be asked
            answer = await prober.get(self.engine.metrics_path, METRICS_TIMEOUT_S)
            if answer.status == 404:
                return  # it was started without metrics
            if answer.status == 200:
                self._take_metrics(answer.body, time.monotonic())

    def _take_metrics(self, body: bytes, now: float) -> None:
        figures = read_metrics(body.decode("utf-8", "replace"), self.engine)
        at, before = self._figures if self._figures is not None else (now, None)
        moved = self._tokens.metrics(before, figures, now, at)
        self._figures = (now, figures)
        sample = told_by_metrics(before, figures, now - at, moved=moved)
        self._batch(sample, now)
