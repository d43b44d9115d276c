"""What the screen is given: frozen, and it copies no text. Every `at` is the client's time.monotonic(); ages are `now - at`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from eagletui.gpus.model import GpuReport
from eagletui.logs.state import LogState
from eagletui.logs.store import LineStore
from eagletui.monitor.series import Series
from eagletui.servers.model import Inventory, Reason, Server, State

LinkState = Literal["up", "down", "connecting"]
STALE_S = 15.0
"""A batch line comes every few seconds while tokens flow; older figures are the last ones, not the current ones."""


@dataclass(frozen=True, slots=True)
class Link:
    """The link to the node. `latencies` are the last round trips in ms (newest last) for a sparkline; `error` is a sentence."""

    state: LinkState
    latency_ms: float | None = None
    latencies: tuple[float, ...] = ()
    error: str | None = None
    at: float | None = None


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


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last figures from batch lines or /metrics. `source` is "log" or "metrics". Stale: nothing new for a while, so it is the last, not the current."""

    gen_tok_s: float | None = None
    accept_len: float | None = None
    running: int | None = None
    queued: int | None = None
    token_usage: float | None = None
    at: float | None = None
    stale: bool = False
    source: str | None = None


@dataclass(frozen=True, slots=True)
class LogView:
    """The followed log. `grew_at`: when it last grew; `error`: why it cannot be read, a sentence that says what to do."""

    store: LineStore
    path: str | None = None
    grew_at: float | None = None
    error: str | None = None
    following: bool = False


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
    `undecided`: there are several servers, and the user has named none of them. `series` by name: "gen_tok_s", "accept_len", "running", "queued".
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
