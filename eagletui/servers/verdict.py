"""One state with a reason, from witnesses that may disagree. Pure: whoever knows gathers the evidence; ages are
seconds.

The rules are tried from the surest witness to the weakest: the link, who is dead, what the log proves, whose port it
is, tokens that flow or do not, and only then /health. `status` asks once and has no history; the live monitor fills
in more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eagletui.engines.shapes import flags_of, launch_of
from eagletui.logs.stall import NO_TOKEN_S, clock
from eagletui.logs.state import SHOWN_NAMES, LogState
from eagletui.servers.exit_status import exit_words
from eagletui.servers.model import Member, Reason, Server, State
from eagletui.servers.stalls import Stillness, where
from eagletui.shell.plural import plural

FLOWING_S = 15.0
"""A token is "now" for so long: a decode line comes every 40 steps, a few seconds apart at the slowest."""
FRESH_HEALTH_S = 30.0
"""An answer of /health says something about now for so long."""
FRESH_DEEP_S = 90.0
"""The same for /health_generate, which is asked seldom; while it fails it is asked again sooner than that."""
SLOW_MS = 2000.0
"""An idle server answers /health within a few steps of its scheduler."""
COMPILING_S = 300.0
"""A line about kernels that are compiled explains so long a silence of a serving server: its scheduler waits for the compiler."""
NEVER_S = 6.0
"""A launch of ours that no process came of within it never started."""
LONG_WAIT_S = 10.0
"""A process that waits in the kernel (state D) for so long is told: a disk or a driver does not answer."""

_VITAL = frozenset({"scheduler", "detokenizer"})
"""Roles without which no answer comes."""


@dataclass(frozen=True, slots=True)
class HealthSeen:
    """The last probe of /health: a status, or why there was none ("refused", "timeout", "forbidden", "closed" …)."""

    status: int | None = None
    error: str | None = None
    age_s: float | None = None
    latency_ms: float | None = None

    @property
    def fresh(self) -> bool:
        """It says something about now."""
        return self.age_s is None or self.age_s <= FRESH_HEALTH_S


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one server; None is "not known".

    `alive`/`total`: members alive of members known. `missing`: members that were seen alive and are gone now.
    `running` is how many requests run *now* (not what the last batch line said once), `tokens_age_s` how long ago a
    token was seen. `was_ready`: this launch has answered 200 or said that it is ready. `stopping`: we, or somebody,
    signalled it.

    `queued`: requests that wait now. `no_tokens_s`: for how long requests have been there without a token; None where only
    `running` and `tokens_age_s` are known. `deep`: the last answer of /health_generate. `stillness`: how long the log of a launch
    that is under way has been quiet. `suspended`: members that a signal stopped (state T); `waiting`: how long each member has
    been waiting in the kernel (state D). `helpers_gone`: titled members that were seen alive, without which answers still come.
    `gpu_trouble`: what is wrong with a GPU of its own, a sentence; `gpu_busy_pct`: the mean utilisation of its GPUs.
    `compiling_s`: since its log last told of kernels that are compiled while it serves.
    `log_empty`: its log is there and holds nothing. `launch_s`: since a launch that no process came of yet.
    `recorded`: eagletui launched it, and it is told what its keeper wrote: `exit_status`, and `never_ran` (its sequence saw it die at once).
    `printed`: the last line of its log. `asked_to_stop`: eagletui ended it; `gone_s` since when nobody of it is left.
    """

    server: Server | None = None
    linked: bool = True
    link_error: str | None = None
    launcher_alive: bool | None = None
    alive: int | None = None
    total: int | None = None
    missing: tuple[Member, ...] = ()
    log: LogState = field(default_factory=LogState)
    health: HealthSeen | None = None
    running: int | None = None
    tokens_age_s: float | None = None
    was_ready: bool = False
    stopping: bool = False
    queued: int | None = None
    no_tokens_s: float | None = None
    deep: HealthSeen | None = None
    stillness: Stillness | None = None
    suspended: tuple[Member, ...] = ()
    waiting: tuple[tuple[Member, float], ...] = ()
    helpers_gone: tuple[Member, ...] = ()
    gpu_trouble: str | None = None
    gpu_busy_pct: int | None = None
    compiling_s: float | None = None
    log_empty: bool | None = None
    launch_s: float | None = None
    recorded: bool = False
    exit_status: int | None = None
    never_ran: bool = False
    printed: str | None = None
    asked_to_stop: bool = False
    gone_s: float | None = None

    @property
    def flowing(self) -> bool:
        """Tokens come out now."""
        return self.tokens_age_s is not None and self.tokens_age_s <= FLOWING_S

    @property
    def compiling(self) -> bool:
        """Kernels are compiled, which holds up everything."""
        return self.compiling_s is not None and self.compiling_s <= COMPILING_S

    def answers(self, status: int) -> bool:
        """/health lately gave this status."""
        return self.health is not None and self.health.fresh and self.health.status == status

    @property
    def ready_before(self) -> bool:
        """This launch was ready once, by a witness of ours or by its log."""
        return self.was_ready or self.log.state == "ready" or self.log.phase == "serving"


Judgement = tuple[State, Reason]


def _say(state: State, code: str, text: str) -> Judgement:
    return state, Reason(code, text)


def missing_ranks(server: Server, log: LogState) -> tuple[str, ...]:
    """Ranks that a started SGLang lacks, without having seen them alive. Empty when that cannot be told.

    Children carry no rank until their imports are done, so this speaks only when the detokenizer has its title, no
    child is still unnamed, and the log is past the point where all ranks have met. On several nodes the ranks here
    are not known.
    """
    launch = launch_of(server.command)
    if server.engine != "sglang" or launch is None:
        return ()
    flags = flags_of(launch)
    met = log.state == "ready" or (log.phase not in {None, "launch", "distributed"} and log.state != "unknown")
    renamed = any(m.role == "detokenizer" and not m.process.gone for m in server.family)
    unnamed = any("spawn_main" in word for m in server.family if not m.process.gone for word in m.process.argv)
    if not met or not renamed or unnamed or flags.has_config or (flags.nodes or 1) > 1:
        return ()
    schedulers = [m for m in server.family if m.role == "scheduler" and not m.process.gone]
    size = flags.tp or 1
    if size == 1:
        return () if schedulers else ("scheduler",)
    seen = {int(number) for m in schedulers for number in re.findall(r"TP(\d{1,5})", m.rank or "")}
    if schedulers and not seen:
        return ()
    return tuple(f"TP{rank}" for rank in range(size) if rank not in seen)


def _names(members: Sequence[Member]) -> str:
    shown = [f"{m.role} {m.rank}" if m.rank else m.role for m in members[:4]]
    more = len(members) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _because(log: LogState) -> str:
    """The log's own words, when it has any."""
    return f": {log.error_text}" if log.error_text else ""


def _wanted(evidence: Evidence) -> bool:
    """It goes down on request, so that members leave is no crash, and whatever exit status comes of it."""
    return evidence.stopping or _asked(evidence) or evidence.log.stopping or evidence.log.state == "stopped"


def _asked(evidence: Evidence) -> bool:
    """A wish that is written counts until the server answers all the same: whoever wrote it was gone before it was told."""
    lives = evidence.launcher_alive is not False and evidence.server is not None and not evidence.server.launcher.gone
    answers = evidence.answers(200) and evidence.server is not None and evidence.server.listening
    return evidence.asked_to_stop and not (lives and answers and not evidence.missing)


def _without_server(evidence: Evidence) -> Judgement:
    if (evidence.launcher_alive is False or evidence.missing) and not _wanted(evidence):
        return _say(State.CRASHED, "died", f"the server died{_because(evidence.log)}")
    if _wanted(evidence):
        return _stopped(evidence)
    if evidence.launch_s is not None and evidence.launch_s >= NEVER_S:
        return _say(
            State.CRASHED, "never-started", f"never started: no process came of the launch{_because(evidence.log)}"
        )
    if evidence.launch_s is not None:
        return _say(State.STARTING, "loading", "launched, its process is not there yet")
    return _say(State.ABSENT, "no-server", "no server was found on this node")


def _stopped(evidence: Evidence) -> Judgement:
    if not evidence.asked_to_stop:
        return _say(State.ABSENT, "stopped", "the server was stopped")
    ago = "" if evidence.gone_s is None else f" {clock(evidence.gone_s)} ago"
    return _say(State.ABSENT, "stopped", f"stopped by eagletui{ago}")


def _never_started(evidence: Evidence) -> bool:
    """No log, an empty one, or one that no engine wrote into; or its launch was seen to fail."""
    if evidence.log_empty or evidence.never_ran:
        return not evidence.ready_before
    return evidence.recorded and not evidence.log.phases and not evidence.ready_before


def _how_it_ended(evidence: Evidence, server: Server) -> str:
    """The exit status and what was printed, as far as they are known."""
    dead = f"pid {server.pid} is dead" if server.pid > 1 else "its process was not started"
    status = dead if evidence.exit_status is None else exit_words(evidence.exit_status)
    said = evidence.log.error_text or evidence.printed
    if said:
        return f"{status}: {said}"
    return f"{status}, and its log is empty" if evidence.log_empty else status


def _launcher_death(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    if evidence.launcher_alive is not False and not server.launcher.gone:
        return
    left = evidence.alive
    if left is None:
        left = sum(not m.process.gone for m in server.family if m.role != "launcher")
    if not _wanted(evidence) and not left and _never_started(evidence):
        yield _say(State.CRASHED, "never-started", f"never started: {_how_it_ended(evidence, server)}")
    elif not _wanted(evidence) and evidence.exit_status == 0 and evidence.ready_before and not left:
        yield _say(State.ABSENT, "stopped", "it ended by itself (exit status 0)")
    elif not _wanted(evidence):
        rest = f"; {_left(left)}" if left else ""
        status = "" if evidence.exit_status is None else f", {exit_words(evidence.exit_status)}"
        text = f"the launcher (pid {server.pid}) is dead{status}{rest}{_because(evidence.log)}"
        yield _say(State.CRASHED, "died", text)
    elif left:
        by = ", ended by eagletui" if evidence.stopping or _asked(evidence) else ""
        yield _say(State.STOPPING, "stopping", f"stopping{by}: {_left(left)}")
    else:
        yield _stopped(evidence)


def _left(left: int) -> str:
    return f"{plural(left, 'of its processes is', 'of its processes are')} left"


def _member_deaths(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    """A rank or the detokenizer is dead: the port may stay open for a minute, but no answer comes any more."""
    if _wanted(evidence):
        return
    because = _because(evidence.log)
    gone = [m for m in evidence.missing if m.role in _VITAL]
    gone += [m for m in server.family if m.role in _VITAL and m.process.gone and m not in gone]
    ranks = [m for m in gone if m.role == "scheduler"]
    if ranks:
        yield _say(State.CRASHED, "rank-missing", f"{_names(ranks)} is dead, the launcher still lives{because}")
    elif gone:
        yield _say(State.CRASHED, "died", f"the {_names(gone)} is dead, so no answer can come{because}")
    absent = missing_ranks(server, evidence.log)
    if absent:
        names = ", ".join(absent[:8]) + (" …" if len(absent) > 8 else "")
        what = f"no process for {names}, of {server.tp or 1} ranks" if (server.tp or 1) > 1 else "its scheduler is gone"
        yield _say(State.CRASHED, "rank-missing", f"{what}{because}")


def _log_says(evidence: Evidence, _server: Server) -> Iterator[Judgement]:
    log = evidence.log
    ours = evidence.stopping or _asked(evidence)
    if log.state == "crashed" and not ours:
        text = log.error_text or "the log ends in an error"
        yield _say(State.CRASHED, "failed", f"its log says it failed, though processes are left: {text}")
    if _wanted(evidence):
        count = evidence.running or 0
        running = f"; {count} request{'s still run' if count > 1 else ' still runs'}" if count else ""
        by = "eagletui asked it to stop" if ours else "it was asked to stop"
        yield _say(State.STOPPING, "draining", f"{by}, and it drains{running}" if ours else f"{by} and drains{running}")


def _requests(evidence: Evidence) -> str:
    """The work that is there, "" when there is none or it is not known."""
    running, queued = evidence.running or 0, evidence.queued or 0
    words = [f"{running} {'request runs' if running == 1 else 'requests run'}"] if running else []
    if queued:
        words.append(f"{queued} {'waits' if queued == 1 else 'wait'}" if words else f"{queued} requests wait")
    return " and ".join(words)


def _waited(evidence: Evidence) -> float | None:
    """For how long requests got no token; None when it is not known."""
    return evidence.no_tokens_s if evidence.no_tokens_s is not None else evidence.tokens_age_s


def _suspended(evidence: Evidence, _server: Server) -> Iterator[Judgement]:
    """Nothing that a signal stopped moves, and what needs it hangs: whatever /health and /metrics say."""
    if evidence.suspended:
        names = _names(evidence.suspended)
        pids = ", ".join(str(m.process.pid) for m in evidence.suspended[:4])
        text = f"{names} (pid {pids}) was stopped by a signal (state T): nothing moves until it gets SIGCONT"
        yield _say(State.STALLED, "suspended", text)


def _no_tokens(evidence: Evidence, _server: Server) -> Iterator[Judgement]:
    """Requests that get nothing."""
    if evidence.compiling:
        return
    requests = _requests(evidence)
    waited = _waited(evidence)
    if requests and waited is not None and waited >= NO_TOKEN_S:
        gpus = "" if evidence.gpu_busy_pct is None else f" (GPUs at {evidence.gpu_busy_pct} %)"
        text = f"{requests} and no token came for {clock(waited)}{gpus}{_who_waits(evidence)}"
        yield _say(State.STALLED, "no-tokens", text)
    deep = evidence.deep
    if deep is None or deep.age_s is None or deep.age_s > FRESH_DEEP_S or evidence.flowing:
        return
    failed = deep.error == "timeout" or (deep.status is not None and deep.status >= 500)
    newer = evidence.tokens_age_s is not None and evidence.tokens_age_s < deep.age_s
    if failed and not newer:
        how = "did not answer in time" if deep.status is None else f"says {deep.status}"
        beside = "/health answers 200, but " if evidence.answers(200) else ""
        text = f"{beside}/health_generate {how}: it makes no token{_who_waits(evidence)}"
        yield _say(State.STALLED, "no-tokens", text)


def _who_waits(evidence: Evidence) -> str:
    """Who waits in the kernel for long."""
    slow = [(member, seconds) for member, seconds in evidence.waiting if seconds >= LONG_WAIT_S]
    if not slow:
        return ""
    longest = max(seconds for _, seconds in slow)
    return f"; {_names([member for member, _ in slow])} waits in the kernel (state D) since {clock(longest)}"


def _schedulers(evidence: Evidence, server: Server) -> str:
    """Of the ranks, how many live; "" for one rank, or when they have no names yet."""
    size = server.tp or 1
    gone = {member.process.pid for member in evidence.missing}
    ranks = [m for m in server.family if m.role == "scheduler"]
    alive = sum(not m.process.gone and m.process.pid not in gone for m in ranks)
    return f", {alive} of {max(size, len(ranks))} schedulers alive" if size > 1 and ranks else ""


def _stands_still(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    """A launch that does not move, by its own log or by all witnesses."""
    log = evidence.log
    up = evidence.answers(200) and server.listening
    if up and log.phase != "serving":
        return
    if log.state == "stalled":
        text = f"nothing moves in {where(log.phase)} for longer than that explains"
        if log.diagnosis is not None:
            text = log.diagnosis.summary
        yield _say(State.STALLED, "no-progress", text)
    still = evidence.stillness
    if still is not None and still.stalled:
        what = f"no {still.waits_for} for {clock(still.quiet_s)}"
        named = "" if still.waits_for != "line" else f" in {where(still.phase)}"
        text = f"{what}{named}{_schedulers(evidence, server)}{_who_waits(evidence)}"
        yield _say(State.STALLED, "no-progress", text)


def _health_answers(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    if not evidence.answers(200):
        return
    if server.foreign_listener:
        text = f"port {server.port} is answered by a process that is not of this server's family"
        if evidence.log.state == "ready":
            text += ", so its own ready line is about that one"
        yield _say(State.UNKNOWN, "wrong-server", text)
    elif evidence.flowing and evidence.health is not None and (evidence.health.latency_ms or 0) >= SLOW_MS:
        took = (evidence.health.latency_ms or 0) / 1000
        yield _say(State.READY, "busy", f"busy: /health took {took:.1f} s, and tokens flow")
    elif evidence.flowing:
        yield _say(State.READY, "serving", "serving: /health answers and tokens flow")
    elif (requests := _requests(evidence)) and (waited := _waited(evidence)) is not None:
        yield _say(State.READY, "serving", f"/health answers, {requests}, no token for {clock(waited)}")
    else:
        yield _say(State.READY, "idle", "idle: /health answers, no tokens flow")


def _health_fails(evidence: Evidence, _server: Server) -> Iterator[Judgement]:
    """It was ready once, and /health fails now. Forbidden is no failure of the server's."""
    health = evidence.health
    if health is None or not health.fresh or not evidence.ready_before or health.error == "forbidden":
        return
    failed = health.error or (f"status {health.status}" if health.status is not None else None)
    if failed is None:
        return
    if evidence.flowing and failed == "timeout":
        yield _say(State.READY, "busy", "busy: /health is slow to answer while tokens flow")
    elif evidence.flowing:
        yield _say(State.DEGRADED, "health-failing", f"tokens flow, but /health fails ({failed})")
    elif evidence.compiling:
        text = f"kernels are compiled while it serves, so /health fails ({failed}) and no token comes"
        yield _say(State.DEGRADED, "busy", text)
    elif health.status == 503:
        yield _say(State.STALLED, "no-tokens", "/health says 503: its own test request made no token")
    elif failed == "timeout":
        yield _say(State.DEGRADED, "no-answer", "/health does not answer in time, and no tokens flow")
    else:
        yield _say(State.DEGRADED, "health-failing", f"it was ready, but /health fails now ({failed})")


def _loading_text(evidence: Evidence) -> str:
    log = evidence.log
    phase = SHOWN_NAMES.get(log.phase or "")
    text = f"loading: {phase}" if phase else "loading"
    if log.progress is not None and log.progress.total > 0:
        text += f" {log.progress.done}/{log.progress.total}"
        if log.progress.unit not in text:
            text += f" {log.progress.unit}"
    if evidence.stillness is not None and evidence.stillness.told:
        text += f"; {evidence.stillness.told}{_who_waits(evidence)}"
    return text


def _other_witnesses(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    """No death, no proof, no 200: ready by other witnesses, or still loading."""
    if evidence.ready_before and evidence.flowing:
        yield _say(State.READY, "serving", "serving: tokens flow (/health is not known)")
    elif evidence.ready_before:
        yield _say(State.READY, "idle", "ready by its log, no tokens flow (/health is not known)")
    if evidence.log.state == "starting":
        yield _say(State.STARTING, "loading", _loading_text(evidence))
    if evidence.answers(503):
        yield _say(State.STARTING, "loading", "loading: the port is open, /health says 503")
    if not server.ours or not server.log.readable:
        text = server.log.why or "it belongs to another user, so its log and its descriptors cannot be seen"
        yield _say(State.UNKNOWN, "unreadable", text)


def _the_port(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    """The weakest witness: whether the port is open."""
    health = evidence.health
    if server.foreign_listener:
        text = f"port {server.port} is taken by a process that is not of this server's family"
        yield _say(State.UNKNOWN, "wrong-server", text)
    if launch_of(server.launcher.argv) is None and not server.launcher.gone:
        text = f"launched (pid {server.pid}), and no process of an engine's has come of it yet"
        yield _say(State.STARTING, "loading", text)
    refused = health is not None and health.fresh and health.error == "refused"
    if refused or (health is None and not server.listening and server.port is not None):
        yield _say(State.STARTING, "loading", f"loading: port {server.port} is not open yet")
    yield _say(State.UNKNOWN, "unrecognised", "it is alive, but neither /health nor its log says how it is")


_RULES = (
    _launcher_death,
    _member_deaths,
    _log_says,
    _suspended,
    _no_tokens,
    _stands_still,
    _health_answers,
    _health_fails,
    _other_witnesses,
    _the_port,
)
"""From the surest witness to the weakest: the first thing that one of them says is the state."""


def degraded(judgement: Judgement, *, gpu_trouble: str | None, helpers_gone: Sequence[Member] = ()) -> Judgement:
    """The judgement, of a server that serves while something is wrong with it. `gpu_trouble` as in Evidence."""
    if judgement[0] is not State.READY:
        return judgement
    if gpu_trouble is not None:
        return _say(State.DEGRADED, "gpu-trouble", f"it serves, but {gpu_trouble}")
    if helpers_gone:
        return _say(State.DEGRADED, "helper-gone", f"it serves, but {_names(helpers_gone)} is gone")
    return judgement


def judge(evidence: Evidence) -> Judgement:
    """The state of one server, or of a node without one, and why."""
    if not evidence.linked:
        return _say(State.OFFLINE, "no-link", evidence.link_error or "there is no link to the node")
    server = evidence.server
    if server is None:
        return _without_server(evidence)
    found = next(judgement for rule in _RULES for judgement in rule(evidence, server))
    return degraded(found, gpu_trouble=evidence.gpu_trouble, helpers_gone=evidence.helpers_gone)


def worst(judgements: Sequence[Judgement]) -> Judgement | None:
    """With several servers the worst is what a node is judged by."""
    return max(judgements, key=lambda judgement: judgement[0].badness, default=None)
