"""What the screen is given: frozen, and it copies no text. Every `at` is the client's time.monotonic(); ages are `now - at`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from eagletui.gpus.model import GpuReport
from eagletui.logs.advice import Before
from eagletui.logs.state import Diagnosis, LogState
from eagletui.logs.store import LineStore
from eagletui.monitor.series import Series
from eagletui.servers.model import Inventory, Reason, Server, State
from eagletui.servers.record import Record

if TYPE_CHECKING:
    from eagletui.history.estimate import Estimate

LinkState = Literal["up", "down", "connecting"]
LinkNeeds = Literal["login", "look"]
"""What a person has to do before it makes sense to try again: answer a login's questions, or look at what is wrong."""
LATENCIES = 60
"""Latencies kept, for a sparkline."""
STALE_S = 15.0
"""A batch line comes every few seconds while tokens flow; older figures are the last ones, not the current ones."""


@dataclass(frozen=True, slots=True)
class Link:
    """The link to the node. `latencies` are the last round trips in ms (newest last) for a sparkline, None where there was no link; `error`
    is a sentence. `at`: since when it is in this state; `lost_at`: since when there is no link, None before the first and while there is one.
    `retry_at`: when it is tried again by itself, None while it is tried, or when it is not: then `needs` says why.
    `heard_at`: when the node answered last, while it is up: a link that is silent is not lost yet, and what it showed is old.
    """

    state: LinkState
    latency_ms: float | None = None
    latencies: tuple[float | None, ...] = ()
    error: str | None = None
    at: float | None = None
    lost_at: float | None = None
    retry_at: float | None = None
    needs: LinkNeeds | None = None
    heard_at: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The last answer of a probe. `error` is one word ("refused", "timeout", "forbidden", "closed") with `detail` a sentence; both None when answered."""

    path: str = "/health"
    status: int | None = None
    latency_ms: float | None = None
    at: float | None = None
    error: str | None = None
    detail: str | None = None
    latencies: tuple[float, ...] = ()
    asked: int = 0

    def told(
        self, status: int | None, latency_ms: float | None, at: float, error: str | None, detail: str | None
    ) -> Health:
        """The next answer, or that there was none."""
        latencies = self.latencies if latency_ms is None else (*self.latencies, latency_ms)[-LATENCIES:]
        return Health(self.path, status, latency_ms, at, error, detail, latencies, self.asked + 1)


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last figures from batch lines or /metrics. `source` is "log" or "metrics". Stale: nothing new for a while, so it is the last, not the current.

    `at` is when the rate was told; `token_usage` and `accept_rate` (accepted of drafted tokens) are from 0 to 1.
    """

    gen_tok_s: float | None = None
    accept_len: float | None = None
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    at: float | None = None
    stale: bool = False
    source: str | None = None
    accept_rate: float | None = None


@dataclass(frozen=True, slots=True)
class LogView:
    """The followed log. `grew_at`: when it last grew; `error`: why it cannot be read, a sentence that says what to do. `before`: how
    launches of the same kind ended that were watched before, oldest first."""

    store: LineStore
    path: str | None = None
    grew_at: float | None = None
    error: str | None = None
    following: bool = False
    before: tuple[Before, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuView:
    """The GPUs and the last minute of utilisation by index. `at` is None until the first answer."""

    report: GpuReport = field(default_factory=GpuReport)
    at: float | None = None
    history: tuple[tuple[int, tuple[int | None, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """One state with its reason. `since` is monotonic."""

    state: State
    reason: Reason
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the screen shows, for the selected server. `revision` grows with every change; `at` and `wall` are when it was taken.

    `server` None: none is selected or found. `verdicts` holds one verdict a server id. `family_alive`/`family_total`: members alive now of members known.
    `fresh_since`: what was seen before it was seen before the link broke or this machine slept. `family_at`: when members were counted.
    `deep_health`: the last answer of /health_generate, which is asked rarely (it costs a token). `diagnosis`: why it failed or stands, by its
    log and the other witnesses. `estimate`: when it will be ready by earlier launches, None where there are none or it is not starting.
    `undecided`: there are several servers, and the user has named none of them. `series` by name: "gen_tok_s", "accept_len", "running", "queued".
    `record`: what launched the shown server, or what was last done on its port where there is none. `unfinished`: a sequence that an earlier eagletui
    left at a step, and nobody goes on with. `under_way`: one that launches, or is going to, whoever drives it. `acting`: this process does.
    `ended`: the server's launcher is gone: `uptime_s` is how long it lived, and grows no more.
    """

    node: str
    revision: int
    at: float
    wall: float
    link: Link
    inventory: Inventory
    server: Server | None
    verdict: Verdict
    log: LogView
    startup: LogState
    health: Health
    throughput: Throughput
    gpus: GpuView
    series: dict[str, Series]
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    family_alive: int | None = None
    family_total: int | None = None
    uptime_s: float | None = None
    notes: tuple[str, ...] = ()
    discovered: bool = False
    undecided: bool = False
    family_at: float | None = None
    fresh_since: float = 0.0
    deep_health: Health | None = None
    diagnosis: Diagnosis | None = None
    estimate: Estimate | None = None
    record: Record | None = None
    unfinished: Record | None = None
    under_way: Record | None = None
    acting: bool = False
    ended: bool = False

    def up_s(self, now: float) -> float | None:
        """For how long the server is up by now, or was when it ended; None where that is not known."""
        if self.uptime_s is None or self.ended:
            return self.uptime_s
        return self.uptime_s + max(0.0, now - self.at)


def of_no_server(snapshot: Snapshot) -> Snapshot:
    """The snapshot of a launch that has no process to show: what is known of the server before it is no figure of this one. Its log stays in view."""
    return replace(
        snapshot,
        server=None,
        startup=LogState(),
        health=Health(),
        deep_health=None,
        throughput=Throughput(),
        series={},
        family_alive=None,
        family_total=None,
        family_at=None,
        uptime_s=None,
        ended=False,
        estimate=None,
    )


def aged(snapshot: Snapshot, true_time: Callable[[float], float]) -> Snapshot:
    """The snapshot with every time as it would be, had the monotonic clock gone on while this machine slept: ages are true then."""

    def at(when: float | None) -> float | None:
        return None if when is None else true_time(when)

    s = snapshot
    phases = tuple(
        replace(phase, began_at=at(phase.began_at), quiet_since=at(phase.quiet_since)) for phase in s.startup.phases
    )
    return replace(
        s,
        link=replace(s.link, at=at(s.link.at), lost_at=at(s.link.lost_at)),
        verdict=replace(s.verdict, since=at(s.verdict.since)),
        log=replace(s.log, grew_at=at(s.log.grew_at)),
        startup=replace(s.startup, phases=phases),
        health=replace(s.health, at=at(s.health.at)),
        deep_health=None if s.deep_health is None else replace(s.deep_health, at=at(s.deep_health.at)),
        throughput=replace(s.throughput, at=at(s.throughput.at)),
        gpus=replace(s.gpus, at=at(s.gpus.at)),
        family_at=at(s.family_at),
    )
