"""Who uses the simulated server once it is ready: clients of its own, and whoever sends requests from outside.

Its own clients keep 1 to 8 requests of about a second each running, mostly one at about 82 tokens a second, and stand
back while somebody else sends, so that a benchmark measures the server and not its neighbours. Time is seconds since
the launch at 1×; everything random is seeded.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal, NamedTuple

from eagletui.demo import shape

GEN_TOK_S: Final = 82.2
"""Tokens a second of one stream on the idle server."""
PACE_LOSS: Final = 0.045
"""How much slower each stream gets with one more beside it: a batch costs hardly more than one request."""
ACCEPT_LEN: Final = 2.11
ACCEPT_WEIGHTS: Final = (0.27, 0.35, 0.38)
"""Chances that a step of 2 draft steps gives 1, 2 or 3 tokens; the mean is ACCEPT_LEN."""
SPECULATION: Final = {0: (43.1, 1.0), 1: (68.4, 1.63), 2: (GEN_TOK_S, ACCEPT_LEN), 3: (88.9, 2.42), 4: (87.6, 2.61)}
"""By the number of draft steps: tokens a second of one stream, and tokens that a step gives. 0: without speculation."""
MORE_STEPS: Final = (83.1, 2.72)
"""With more of them: what is gained by longer drafts is lost again by making them."""
NOISE: Final = 0.006
"""By how much the pace of one request, or of one decode line, differs from another's (a standard deviation, as a share)."""
PREFILL_S: Final = 0.05
"""From the arrival of a request from outside to its first tokens."""
DECODE_LOG_STEPS: Final = 40
"""SGLang's decode_log_interval."""
CLIENTS: Final = 8
STAND_BACK_S: Final = 4.0
"""How long its own clients wait after the last request from outside."""
FIRST_CLIENT_S: Final = 1.5
REQUEST_S: Final = (0.8, 1.3)
"""How long a request of its own clients takes."""

TTFT_BOUNDS: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
E2E_BOUNDS: Final = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400)
"""Upper bounds of the buckets, as SGLang 0.5.16 has them."""


def together(streams: int, alone: float = GEN_TOK_S) -> float:
    """Tokens a second of so many streams in one batch, of which one alone gets `alone`."""
    return alone * streams / (1 + PACE_LOSS * (streams - 1))


class Line(NamedTuple):
    """One line for the log: when, whose rank ("" for the main process), what."""

    at: float
    rank: str
    text: str


@dataclass(slots=True)
class Histogram:
    """A Prometheus histogram: not cumulative counts a bucket (the last is +Inf), and the sum."""

    bounds: tuple[float, ...]
    total: float = 0.0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True, eq=False)
class Request:
    """A request that runs. `new` and `cached` are its prompt's tokens; `generated` what it got so far; `luck` its pace, as a share of what is usual."""

    began: float
    new: int
    cached: int
    own: bool
    generated: float = 0.0
    first_token: float | None = None
    luck: float = 1.0


@dataclass(slots=True)
class Totals:
    """Counters since the launch, as /metrics has them."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated: int = 0
    verify_calls: int = 0
    ttft: Histogram = field(default_factory=lambda: Histogram(TTFT_BOUNDS))
    e2e: Histogram = field(default_factory=lambda: Histogram(E2E_BOUNDS))


def access_line(port: int, method: str, path: str, status: str) -> str:
    """uvicorn's line for an answer. `status` with its words: "200 OK"."""
    return f'INFO:     127.0.0.1:{port} - "{method} {path} HTTP/1.1" {status}'


class Load:
    """The requests of one launch. `run` gives the lines that they cause."""

    def __init__(self, seed: int, request_s: tuple[float, float] = REQUEST_S, steps: int = 2) -> None:
        self._alone, self._accepts = SPECULATION.get(steps, MORE_STEPS)
        self.speculates = steps > 0
        self.closing = False
        """Nobody sends a new request of its own any more."""
        self._request_s = request_s
        self._random = Random(seed)  # noqa: S311 - a simulation that must be the same each time
        self._events: list[tuple[float, int, Literal["arrive", "finish", "decode"], int]] = []
        self._sequence = 0
        self._own: dict[int, Request] = {}
        self._outside: list[Request] = []
        self._outside_until = -math.inf
        self._port = 40_000
        self.now = 0.0
        self.totals = Totals()
        self.accept_len = ACCEPT_LEN
        self.throughput = 0.0
        """Tokens a second of the last decode line (0.0 before the first: that is what the engine's gauge says)."""
        for client in range(CLIENTS):
            self._plan(shape.READY + FIRST_CLIENT_S + 0.21 * client, "arrive", client)
        self._plan(shape.READY + FIRST_CLIENT_S + 1.0, "decode", 0)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return len(self._own) + len(self._outside)

    @property
    def tokens(self) -> int:
        """Tokens that they hold in the KV cache."""
        return round(sum(r.new + r.cached + r.generated for r in (*self._own.values(), *self._outside)))

    @property
    def next_at(self) -> float:
        """When something happens next by itself."""
        return self._events[0][0]

    def free_port(self) -> int:
        """A client's port for the access log."""
        self._port = 32_768 + (self._port - 32_768 + 1 + self._random.randrange(12)) % 28_000
        return self._port

    def pace(self) -> float:
        """Tokens a second of one stream from outside, now."""
        return together(max(1, len(self._outside)), self._alone) / max(1, len(self._outside))

    def step_tokens(self) -> int:
        """Tokens that the next step of a stream gives."""
        if self._accepts == ACCEPT_LEN:
            return self._random.choices((1, 2, 3), ACCEPT_WEIGHTS)[0]
        whole = int(self._accepts)
        return whole + (self._random.random() < self._accepts - whole)

    def begin(self, at: float, new: int, cached: int) -> tuple[Request, Line]:
        """A request from outside begins; the line of its prefill."""
        line = self._prefill(at, new, cached)
        request = Request(at, new, cached, own=False, luck=self._random.gauss(1.0, NOISE))
        self._outside.append(request)
        return request, line

    def got(self, request: Request, at: float, tokens: int) -> None:
        """A stream from outside got tokens."""
        request.generated += tokens
        if request.first_token is None:
            request.first_token = at

    def end(self, request: Request, at: float) -> None:
        """A request from outside ended (or its client hung up). Twice is once."""
        if request in self._outside:
            self._outside.remove(request)
            self._outside_until = at + STAND_BACK_S
            self._count(request, at)

    def probe(self, at: float) -> Line:
        """The one-token generation of a /health, which shows as a prefill."""
        return self._prefill(at, 1, 0, graph=False)

    def run(self, until: float) -> list[Line]:
        """What happens until then, as lines in the order of their times."""
        lines: list[Line] = []
        while self._events[0][0] <= until:
            self.now, _, kind, client = heapq.heappop(self._events)
            if kind == "arrive":
                lines += self._arrive(client)
            elif kind == "finish":
                lines += self._finish(client)
            else:
                lines += self._decode()
        self.now = max(self.now, until)
        return lines

    def _plan(self, at: float, kind: Literal["arrive", "finish", "decode"], client: int) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (at, self._sequence, kind, client))

    def _level(self, at: float) -> int:
        """How many of its own clients are at work: mostly 1 or 2, at times all."""
        burst = 6.0 if at % 170 > 150 else 0.0
        return max(1, min(CLIENTS, round(1.1 + 0.5 * math.sin(at / 37) + 0.4 * math.sin(at / 11 + 1) + burst)))

    def _rate(self) -> float:
        """Tokens a second of the whole batch; a dip of 20 s now and then."""
        if self._outside:
            return self.pace() * len(self._outside)
        dip = 0.06 if self.now % 720 > 700 else 0.0
        return together(self.running, self._alone) * (
            1 + 0.02 * math.sin(self.now / 67) + self._random.gauss(0, NOISE) - dip
        )

    def _prefill(self, at: float, new: int, cached: int, *, graph: bool = True) -> Line:
        usage = self.tokens / shape.KV_TOKENS
        speed = new / self._random.uniform(0.04, 0.09) if graph else 1.0
        text = (
            f"Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, token usage: {usage:.2f}, "
            f"#running-req: {self.running}, #queue-req: 0, #pending-token: 0, cuda graph: {graph}, "
            f"input throughput (token/s): {speed:.2f}"
        )
        return Line(at, "TP0", text)

    def _arrive(self, client: int) -> list[Line]:
        busy = self.closing or self._outside or self.now < self._outside_until
        if busy or self._level(self.now) <= client:
            self._plan(self.now + 0.4, "arrive", client)
            return []
        cached = self._random.choice((0, 512, 1024))
        new = self._random.randint(300, 1800)
        line = self._prefill(self.now, new, cached)
        seconds = self._random.uniform(*self._request_s)
        first = self.now + self._random.uniform(0.06, 0.15)
        self._own[client] = Request(self.now, new, cached, own=True, first_token=first)
        self._plan(self.now + seconds, "finish", client)
        return [line]

    def _finish(self, client: int) -> list[Line]:
        request = self._own.pop(client)
        beside = len(self._own) + 1
        request.generated = max(1.0, (self.now - request.began) * together(beside, self._alone) / beside)
        self._count(request, self.now)
        self._plan(self.now + self._random.uniform(0.02, 0.15), "arrive", client)
        return [Line(self.now, "", access_line(self.free_port(), "POST", "/v1/completions", "200 OK"))]

    def _decode(self) -> list[Line]:
        running = self.running
        wave = 0.05 * math.sin(self.now / 29) + self._random.gauss(0, 0.025)
        self.accept_len = self._accepts + wave if self.speculates else 1.0
        if not running:
            self._plan(self.now + 0.25, "decode", 0)
            return []
        rate = self._rate()
        self._plan(self.now + DECODE_LOG_STEPS * self.accept_len * running / rate, "decode", 0)
        for request in self._own.values():
            request.generated = (self.now - request.began) * rate / running
        self.throughput = rate
        accepted = ""
        if self.speculates:
            accepted = f"accept len: {self.accept_len:.2f}, accept rate: {(self.accept_len - 1) / 4:.2f}, "
        text = (
            f"Decode batch, #running-req: {running}, #token: {self.tokens}, "
            f"token usage: {self.tokens / shape.KV_TOKENS:.2f}, {accepted}cuda graph: True, "
            f"gen throughput (token/s): {rate:.2f}, #queue-req: 0"
        )
        return [Line(self.now, "TP0", text)]

    def _count(self, request: Request, at: float) -> None:
        totals, generated = self.totals, round(request.generated)
        totals.requests += 1
        totals.prompt_tokens += request.new + request.cached
        totals.cached_tokens += request.cached
        totals.generated += generated
        totals.verify_calls += round(generated / self._accepts) if self.speculates else 0
        totals.e2e.add(at - request.began)
        if request.first_token is not None:
            totals.ttft.add(request.first_token - request.began)
