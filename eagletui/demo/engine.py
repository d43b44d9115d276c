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
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from eagletui.demo import processes, shape
from eagletui.demo.life import MEMORY_BACK_S, Life
from eagletui.demo.load import REQUEST_S, Line, Load, Request, access_line
from eagletui.demo.logfile import LogFile
from eagletui.demo.metrics import Figures, render
from eagletui.demo.pace import paced
from eagletui.demo.processes import ENVIRONMENT, HOME, SESSION, Proc
from eagletui.demo.scenarios import Scenario
from eagletui.demo.settings import Settings, said_by
from eagletui.nodes.recording import Player, Record, Recording

HEALTH_S: Final = 1.0
"""How long /health takes: it generates a token, and answers at its next look (recorded: 1.0 s)."""
HANGING_HEALTH_S: Final = 0.004
"""The front end answers by itself, whatever its scheduler does."""
LOOK_S: Final = 0.1
"""How often a draining server looks at what runs."""
HttpState = Literal["closed", "warm-up", "ready", "draining"]
WORDS: Final = {200: "200 OK", 400: "400 Bad Request", 404: "404 Not Found", 503: "503 Service Unavailable"}
_STAMP: Final = re.compile(rb"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_DEPRECATED: Final = {"/get_server_info": "/server_info", "/get_model_info": "/model_info", "/get_load": "/v1/loads"}
_JSON_PATHS: Final = {
    "/server_info": "/server_info", "/get_server_info": "/server_info", "/model_info": "/model_info",
    "/get_model_info": "/model_info", "/v1/models": "/v1/models", "/v1/loads": "/v1/loads", "/get_load": "/get_load",
}  # fmt: skip


class Segment(NamedTuple):
    """An entry of /dev/shm: its name, its bytes, when it was made, and whether a process has it."""

    name: str
    size: int
    made: float
    used: bool


class Engine:
    """A server launched at `launched` (unix seconds) as process `pid`. Times in `e` are its own: seconds since then.

    `parent`, `group`: the pids of the process above it, and of its session. `log_path`: where its file is. `http_inode`: its socket's.
    """

    def __init__(
        self, recording: Recording, *, launched: float, pid: int, speed: float = 1.0, utc_offset: float = 0.0,
        scenario: Scenario | None = None, settings: Settings | None = None, log: LogFile | None = None, log_path: str = "",
        parent: int = 1, group: int | None = None, cwd: str = HOME, env: Mapping[str, str] | None = None, port_is_taken: bool = False,
        cgroup: str = SESSION,
    ) -> None:  # fmt: skip
        self.launched = launched
        self.pid = pid
        self.speed = speed
        self.settings = settings or Settings()
        self.log = LogFile() if log is None else log
        self.log_path = log_path
        self.parent = parent
        self.group = group
        self.cwd = cwd
        self.cgroup = cgroup
        self.env = dict(ENVIRONMENT if env is None else env)
        self.written_at = launched
        self.scenario = scenario
        self.port_is_taken = port_is_taken
        self.load = Load(
            pid, (scenario.request_s if scenario is not None else None) or REQUEST_S, self.settings.steps or 0
        )
        self.life = Life(pid, self.settings.own_ranks, scenario.stuck if scenario is not None else None)
        self.answers: Counter[tuple[str, str, int]] = Counter()
        """Answers by (method, path, status)."""
        self.killed_by_kernel: float | None = None
        """When the kernel killed one of its processes, by its own clock."""
        self._offset = utc_offset
        self._awaited = self._due_at()
        self._over = math.inf
        """From when nothing of it is there any more, as far as that was seen."""
        self._looked = 0.0
        self._player = Player(recording.channel("log"), began=launched, speed=speed)
        self._bodies = {(str(r.extra.get("path")), r.extra.get("phase")): r.data for r in recording.channel("http")}

    def e(self, now: float) -> float:
        """Seconds since the launch, by the engine's clock."""
        return (now - self.launched) * self.speed

    def node_time(self, e: float) -> float:
        """The node's clock at an engine's time."""
        return self.launched + e / self.speed

    # What comes by itself

    def _due_at(self) -> float:
        """When what is in store for it happens; never, mostly."""
        if self.settings.failure is not None:
            return self.settings.failure.at
        return self.scenario.at if self.scenario is not None and self.scenario.at is not None else math.inf

    def _happens(self) -> None:
        at, self._awaited = self._awaited, math.inf
        if self.life.is_gone(at) or self.life.draining is not None:
            return  # it was ended before
        failure, one = self.settings.failure, self.scenario
        if failure is not None:
            self.life.crash(at, said_by(failure), failure.gone, failure.status)
        elif one is not None and one.gone is not None:
            pid = str(self.rank_pid(one.rank))
            says = [Line(at + said.after, said.rank, said.text.replace("{pid}", pid)) for said in one.says]
            self.killed_by_kernel = at if one.kernel else None
            self.life.crash(at, says, one.gone, 137, one.rank)
        else:
            self.life.hang(at)

    def signal(self, now: float, pid: int, number: int) -> None:
        """One of its processes got a signal."""
        self.advance(now)
        self.life.signal(pid, number, self.e(now))
        self.load.closing = self.life.draining is not None
        self.advance(now)

    def no_tokens(self, now: float) -> bool:
        """Whether none come any more, though it may live."""
        return self.e(now) >= min(self.life.hangs, self.life.halted)

    def is_gone(self, now: float) -> bool:
        """Whether its launcher has ended."""
        return self.life.is_gone(self.e(now))

    def http_state(self, now: float) -> HttpState:
        """Nobody listens until everything is loaded; then it answers 503 until it warmed up, and while it drains."""
        e = self.e(now)
        if self.is_gone(now) or e < shape.HTTP_OPEN or self.port_is_taken:
            return "closed"
        return "warm-up" if e < shape.READY else "draining" if self.life.draining is not None else "ready"

    def ready_in(self, now: float) -> float:
        """The node's seconds until it is ready; 0.0 once it is."""
        return max(0.0, self.node_time(shape.READY) - now)

    def advance(self, now: float) -> None:
        """Let happen what is due, and write it to the log. Every question about this engine comes after this."""
        e = self.e(now)
        if e >= self._awaited:
            self._run(self._awaited)
            self._happens()
        self._run(e)

    def _run(self, e: float) -> None:
        life = self.life
        until = min(e, life.halted, life.hangs)
        silent = self.settings.failure is not None and self.settings.failure.never_ran
        for record in self._player.due(self.node_time(until)) if not silent else ():
            self._write(self._player.time_of(record), self._stamped(record))
        while (
            life.draining is not None
            and life.drained is None
            and (look := max(life.draining, self._looked + LOOK_S)) <= until
        ):
            self._looked = look
            for line in self.load.run(self._looked):
                self._line(line)
            life.drains(self._looked, self.load.running)
            self._say(self._looked)
        for line in self.load.run(min(until, life.halted)):
            self._line(line)
        self._say(e)

    def _say(self, e: float) -> None:
        while self.life.unsaid and self.life.unsaid[0].at <= e:
            line = self.life.unsaid.pop(0)
            if self.settings.failure is not None and self.settings.failure.raw:
                self._write(self.node_time(line.at), line.text.encode("utf-8", "surrogateescape"))
            else:
                self._line(line)

    def rank_pid(self, rank: int | None) -> int:
        """The process of a rank; the launcher's for None."""
        return self.life.rank_pid(rank)

    def next_at(self) -> float:
        """The node's time at which it writes next by itself."""
        recorded = self._player.next_at()
        own = self.node_time(self.load.next_at)
        soonest = own if recorded is None else min(own, recorded)
        if soonest <= self.node_time(min(self.life.halted, self.life.hangs, self._awaited)):
            return soonest
        return self.node_time(min([self._awaited, *(line.at for line in self.life.unsaid)]))

    def _stamp(self, at: float) -> str:
        return f"[{datetime.fromtimestamp(at + self._offset, UTC):%Y-%m-%d %H:%M:%S}"

    def _stamped(self, record: Record) -> bytes:
        stamp = self._stamp(self._player.time_of(record)).encode()
        text = record.data if self.speed == 1 else paced(record.data, self.speed)
        return _STAMP.sub(stamp, self.settings.told(text)).replace(b"[{pid}]", b"[%d]" % self.pid)

    def _line(self, line: Line) -> None:
        at = self.node_time(line.at)
        text = f"{self._stamp(at)}{' ' + line.rank if line.rank else ''}] {line.text}\n"
        self._write(at, text.encode("utf-8", "surrogateescape"))

    def _write(self, at: float, data: bytes) -> None:
        self.log.append(data)
        self.written_at = max(self.written_at, at)

    # Its processes

    def processes(self, now: float) -> list[Proc]:
        """Its family, dead members that nobody reaped yet included."""
        e, life = self.e(now), self.life
        found: list[Proc] = []
        if e >= self._over:
            return found
        made = processes.family(
            self.pid, self.settings.argv, self.launched, self.speed, min(e, life.halted),
            ranks=life.ranks, parent=self.parent, group=self.group, cwd=self.cwd,
            cgroup=self.cgroup,
        )  # fmt: skip
        for proc in made:
            fate = life.fates.get(proc.pid)
            above = 1 if proc.ppid != self.parent and life.is_dead(proc.ppid, e) else proc.ppid
            if fate is None or e < fate.dead:
                found.append(replace(proc, ppid=above))
            elif e < fate.gone:
                threads = 3 if life.is_stuck(proc.pid) else 1
                found.append(
                    replace(proc, ppid=above, state="Z", threads=threads, argv=(), title=None, busy=0.0, rss_mib=0)
                )
        if not found and life.is_gone(e):
            self._over = e
        return found

    def gpu_time(self, index: int, now: float) -> float | None:
        """The engine's time that GPU `index` shows; None once this launch holds nothing of it any more."""
        e = self.e(now)
        if index >= self.life.ranks:
            return None
        pid = self.rank_pid(index)
        fate = self.life.fates.get(pid)
        if fate is not None and e >= fate.dead + MEMORY_BACK_S and not self.life.is_stuck(pid):
            return None
        return min(e, self.life.halted)

    def shared_memory(self, now: float) -> list[Segment]:
        """What it made in /dev/shm and did not remove itself. A graceful end leaves nothing."""
        e = self.e(now)
        if min(e, self.life.halted) < shape.DISTRIBUTED or (self.life.tidy and self.is_gone(now)):
            return []
        used = not self.life.is_gone(e)
        found = [Segment(f"sgl_shm_{self.pid}_0", 1_048_576, self.node_time(shape.SERVER_ARGS), used)]
        for rank in range(self.life.ranks):
            letters = "".join(chr(97 + (self.pid * 31 + rank * 577 + n * 7 * (rank + 3)) % 26) for n in range(6))
            used = not self.life.is_dead(self.rank_pid(rank), e) or self.life.is_stuck(self.rank_pid(rank))
            found.append(Segment(f"nccl-{letters}", 33_554_432, self.node_time(shape.DISTRIBUTED + 0.5), used))
        return found

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
        if self.no_tokens(now):
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

    def step_seconds(self, tokens: int, request: Request) -> float:
        """The node's seconds that a step giving a request so many tokens takes now."""
        return tokens / (self.load.pace() * request.luck) / self.speed

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
            self.settings.fill(value)
            for state in value["internal_states"]:
                state["last_gen_throughput"] = round(load.throughput, 2)
        elif path == "/v1/models":
            value["data"][0] |= {
                "created": int(now),
                "id": self.settings.model,
                "root": self.settings.model,
                "max_model_len": shape.CONTEXT_LENGTH,
            }
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
        phase = "warm-up" if self.http_state(now) == "warm-up" else "ready"
        load = self.load
        figures = Figures(
            running=load.running,
            tokens=load.tokens,
            throughput=load.throughput,
            accept_len=load.accept_len if load.throughput and load.speculates else 0.0,
            totals=load.totals,
            answers=self.answers,
        )
        return render(self._bodies["/metrics", phase].decode(), figures)
