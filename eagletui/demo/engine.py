"""One launch of the simulated server: its log, what its HTTP says, its counters. Pure: `now` is the node's clock.

The log plays the recording with this node's time written over the recorded stamps, then goes on with the lines of its
load. `speed` divides its times: at 20 the engine's own clock runs twenty times as fast as the node's; what it prints of
its start's durations is by the node's clock, tokens a second by its own (a demo twenty times as quick is still one of 82).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Final, Literal

from eagletui.demo import shape
from eagletui.demo.load import Line, Load, Request, access_line
from eagletui.demo.logfile import LogFile
from eagletui.demo.metrics import Figures, render
from eagletui.demo.pace import paced
from eagletui.demo.processes import LAUNCHER_CHILDREN
from eagletui.demo.scenarios import Said, Scenario
from eagletui.nodes.recording import Player, Record, Recording

HEALTH_S: Final = 1.0
"""How long /health takes: it generates a token, and answers at its next look (recorded: 1.0 s)."""
HANGING_HEALTH_S: Final = 0.004
"""The front end answers by itself, whatever its scheduler does."""
HttpState = Literal["closed", "warm-up", "ready"]
WORDS: Final = {200: "200 OK", 400: "400 Bad Request", 404: "404 Not Found", 503: "503 Service Unavailable"}
_STAMP: Final = re.compile(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_DEPRECATED: Final = {"/get_server_info": "/server_info", "/get_model_info": "/model_info", "/get_load": "/v1/loads"}
_JSON_PATHS: Final = {
    "/server_info": "/server_info", "/get_server_info": "/server_info", "/model_info": "/model_info",
    "/get_model_info": "/model_info", "/v1/models": "/v1/models", "/v1/loads": "/v1/loads", "/get_load": "/get_load",
}  # fmt: skip


class Engine:
    """A server launched at `launched` (unix seconds) as process `pid`. Times in `e` are its own: seconds since then."""

    def __init__(
        self, recording: Recording, *, launched: float, pid: int, speed: float = 1.0, utc_offset: float = 0.0,
        scenario: Scenario | None = None,
    ) -> None:  # fmt: skip
        self.launched = launched
        self.pid = pid
        self.speed = speed
        self.log = LogFile()
        self.written_at = launched
        self.load = Load(seed=pid)
        self.scenario = scenario
        self._unsaid: list[Said] = list(scenario.says) if scenario is not None else []
        self.answers: Counter[tuple[str, str, int]] = Counter()
        """Answers by (method, path, status)."""
        self._offset = utc_offset
        self._player = Player(recording.channel("log"), began=launched, speed=speed)
        self._bodies = {(str(r.extra.get("path")), r.extra.get("phase")): r.data for r in recording.channel("http")}

    def e(self, now: float) -> float:
        """Seconds since the launch, by the engine's clock."""
        return (now - self.launched) * self.speed

    def node_time(self, e: float) -> float:
        """The node's clock at an engine's time."""
        return self.launched + e / self.speed

    def happened(self, now: float) -> bool:
        """Whether what its scenario has in store has come."""
        return self.scenario is not None and self.e(now) >= self.scenario.at

    def is_gone(self, now: float) -> bool:
        """Whether all its processes have ended."""
        one = self.scenario
        return one is not None and one.gone is not None and self.e(now) >= one.at + one.gone

    def http_state(self, now: float) -> HttpState:
        """Nobody listens until everything is loaded; then it answers 503 until it warmed up."""
        if self.is_gone(now):
            return "closed"
        e = self.e(now)
        return "closed" if e < shape.HTTP_OPEN else "warm-up" if e < shape.READY else "ready"

    def ready_in(self, now: float) -> float:
        """The node's seconds until it is ready; 0.0 once it is."""
        return max(0.0, self.node_time(shape.READY) - now)

    def advance(self, now: float) -> None:
        """Write what is due to the log. Every question about this engine comes after this."""
        until = now if self.scenario is None else min(now, self.node_time(self.scenario.at))
        for record in self._player.due(until):
            self._write(self._player.time_of(record), self._stamped(record))
        for line in self.load.run(self.e(until)):
            self._line(line)
        while self._unsaid and self.scenario is not None and self.e(now) >= self.scenario.at + self._unsaid[0].after:
            said = self._unsaid.pop(0)
            text = said.text.replace("{pid}", str(self.rank_pid(self.scenario.rank)))
            self._line(Line(self.scenario.at + said.after, said.rank, text))

    def rank_pid(self, rank: int | None) -> int:
        """The process of a rank; the launcher's for None."""
        return self.pid if rank is None else self.pid + LAUNCHER_CHILDREN + 1 + rank

    def next_at(self) -> float:
        """The node's time at which it writes next by itself."""
        recorded = self._player.next_at()
        own = self.node_time(self.load.next_at)
        soonest = own if recorded is None else min(own, recorded)
        if self.scenario is None or soonest <= self.node_time(self.scenario.at):
            return soonest
        return self.node_time(self.scenario.at + self._unsaid[0].after) if self._unsaid else math.inf

    def _stamp(self, at: float) -> str:
        return f"[{datetime.fromtimestamp(at + self._offset, UTC):%Y-%m-%d %H:%M:%S}"

    def _stamped(self, record: Record) -> bytes:
        stamp = self._stamp(self._player.time_of(record)).encode()
        text = record.data if self.speed == 1 else paced(record.data, self.speed)
        return _STAMP.sub(stamp, text).replace(b"[{pid}]", b"[%d]" % self.pid)

    def _line(self, line: Line) -> None:
        at = self.node_time(line.at)
        self._write(at, f"{self._stamp(at)}{' ' + line.rank if line.rank else ''}] {line.text}\n".encode())

    def _write(self, at: float, data: bytes) -> None:
        self.log.append(data)
        self.written_at = max(self.written_at, at)

    # What its HTTP does

    def answered(self, now: float, method: str, path: str, status: int, port: int) -> None:
        """An answer went out: its line in the access log, its count."""
        plain = path.partition("?")[0]
        self.advance(now)
        if plain in _DEPRECATED:
            notice = f"Endpoint '{plain}' is deprecated and will be removed in a future version. "
            self._line(Line(self.e(now), "", f"{notice}Please use '{_DEPRECATED[plain]}' instead."))
        self._line(Line(self.e(now), "", access_line(port, method, path, WORDS.get(status, str(status)))))
        self.answers[method, plain, status] += 1

    def probe(self, now: float) -> float:
        """A /health came while it is ready. Gives the node's seconds until it answers 200."""
        self.advance(now)
        if self.happened(now):
            return HANGING_HEALTH_S / self.speed
        self._line(self.load.probe(self.e(now)))
        return HEALTH_S / self.speed

    def begin(self, now: float, prompt_tokens: int) -> Request:
        """A request for tokens came."""
        self.advance(now)
        cached = prompt_tokens // 2 if prompt_tokens > 256 else 0
        request, line = self.load.begin(self.e(now), prompt_tokens - cached, cached)
        self._line(line)
        return request

    def step(self, now: float, request: Request, at_most: int) -> int:
        """The request got the tokens of one step: how many."""
        self.advance(now)
        tokens = min(at_most, self.load.step_tokens())
        self.load.got(request, self.e(now), tokens)
        return tokens

    def step_seconds(self, tokens: int) -> float:
        """The node's seconds that a step giving so many tokens takes now."""
        return tokens / self.load.pace() / self.speed

    def end(self, now: float, request: Request) -> None:
        """The request ended, or its client hung up."""
        self.advance(now)
        self.load.end(request, self.e(now))

    def body(self, path: str, now: float) -> bytes | None:
        """The JSON of a GET, None where there is no such path."""
        recorded = self._bodies.get((_JSON_PATHS.get(path, ""), "ready"))
        if recorded is None:
            return None
        value = json.loads(recorded)
        load = self.load
        if "server_info" in path:
            for state in value["internal_states"]:
                state["last_gen_throughput"] = round(load.throughput, 2)
        elif path == "/v1/models":
            value["data"][0] |= {"created": int(now), "max_model_len": shape.CONTEXT_LENGTH}
        elif path == "/get_load":
            value[0] |= {"num_reqs": load.running, "num_waiting_reqs": 0, "num_tokens": load.tokens}
        elif path == "/v1/loads":
            value["timestamp"] = datetime.fromtimestamp(now, UTC).isoformat()
            value["loads"][0] |= {
                "timestamp": now, "num_running_reqs": load.running, "num_waiting_reqs": 0,
                "num_used_tokens": load.tokens, "num_total_tokens": load.tokens,
                "token_usage": round(load.tokens / shape.KV_TOKENS, 4), "gen_throughput": round(load.throughput, 2),
                "memory": {
                    "weight_gb": shape.WEIGHTS_GIB, "kv_cache_gb": shape.KV_GIB, "graph_gb": 0.26,
                    "token_capacity": shape.KV_TOKENS,
                },
            }  # fmt: skip
        return json.dumps(value, separators=(",", ":")).encode()

    def metrics(self, now: float) -> bytes:
        """/metrics, as the engine is now."""
        phase = "ready" if self.http_state(now) == "ready" else "warm-up"
        load = self.load
        figures = Figures(
            running=load.running,
            tokens=load.tokens,
            throughput=load.throughput,
            accept_len=load.accept_len if load.throughput else 0.0,
            totals=load.totals,
            answers=self.answers,
        )
        return render(self._bodies["/metrics", phase].decode(), figures)
