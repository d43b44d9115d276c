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
from eagletui.logs.state import SHOWN_NAMES, LogState
from eagletui.servers.model import Member, Reason, Server, State

NO_TOKENS_S = 60.0
"""Requests run and no token came for so long: nothing that works is so slow."""
FLOWING_S = 15.0
"""A token is "now" for so long: a decode line comes every 40 steps, a few seconds apart at the slowest."""
FRESH_HEALTH_S = 30.0
"""An answer of /health says something about now for so long."""

_VITAL = frozenset({"scheduler", "detokenizer"})
"""Roles without which no answer comes."""


@dataclass(frozen=True, slots=True)
class HealthSeen:
    """The last probe of /health: a status, or why there was none ("refused", "timeout", "forbidden", "closed" …)."""

    status: int | None = None
    error: str | None = None
    age_s: float | None = None

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

    @property
    def flowing(self) -> bool:
        """Tokens come out now."""
        return self.tokens_age_s is not None and self.tokens_age_s <= FLOWING_S

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
    """It goes down on request, so that members leave is no crash."""
    return evidence.stopping or evidence.log.state == "stopped"


def _without_server(evidence: Evidence) -> Judgement:
    if (evidence.launcher_alive is False or evidence.missing) and not _wanted(evidence):
        return _say(State.CRASHED, "died", f"the server died{_because(evidence.log)}")
    if _wanted(evidence):
        return _say(State.ABSENT, "stopped", "the server was stopped")
    return _say(State.ABSENT, "no-server", "no server was found on this node")


def _launcher_death(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    if evidence.launcher_alive is not False and not server.launcher.gone:
        return
    left = evidence.alive
    if left is None:
        left = sum(not m.process.gone for m in server.family if m.role != "launcher")
    if not _wanted(evidence):
        rest = f"; {left} of its processes are left" if left else ""
        yield _say(State.CRASHED, "died", f"the launcher (pid {server.pid}) is dead{rest}{_because(evidence.log)}")
    elif left:
        yield _say(State.STOPPING, "stopping", f"stopping: {left} of its processes are left")
    else:
        yield _say(State.ABSENT, "stopped", "the server was stopped")


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
        yield _say(State.CRASHED, "rank-missing", f"no process for {names}, of {server.tp or 1} ranks{because}")


def _log_says(evidence: Evidence, _server: Server) -> Iterator[Judgement]:
    log = evidence.log
    if log.state == "crashed":
        text = log.error_text or "the log ends in an error"
        yield _say(State.CRASHED, "failed", f"its log says it failed, though processes are left: {text}")
    if _wanted(evidence):
        running = f"; {evidence.running} requests still run" if evidence.running else ""
        yield _say(State.STOPPING, "draining", f"it was asked to stop and drains{running}")


def _stalls(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    """Work that is there and does not move, whatever /health says."""
    age, running, phase = evidence.tokens_age_s, evidence.running, evidence.log.phase
    if running and age is not None and age >= NO_TOKENS_S:
        yield _say(State.STALLED, "no-tokens", f"{running} requests run and no token came for {age:.0f} s")
    up = evidence.answers(200) and server.listening
    if evidence.log.state == "stalled" and (phase == "serving" or not up):
        where = SHOWN_NAMES.get(phase or "", "its work")
        yield _say(State.STALLED, "no-progress", f"nothing moves in {where} for longer than that explains")


def _health_answers(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    if not evidence.answers(200):
        return
    if server.foreign_listener:
        text = f"port {server.port} is answered by a process that is not of this server's family"
        yield _say(State.UNKNOWN, "wrong-server", text)
    elif evidence.flowing:
        yield _say(State.READY, "serving", "serving: /health answers and tokens flow")
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
    elif health.status == 503:
        yield _say(State.STALLED, "no-tokens", "/health says 503: its own test request made no token")
    elif failed == "timeout":
        yield _say(State.DEGRADED, "no-answer", "/health does not answer in time, and no tokens flow")
    else:
        yield _say(State.DEGRADED, "health-failing", f"it was ready, but /health fails now ({failed})")


def _loading_text(log: LogState) -> str:
    phase = SHOWN_NAMES.get(log.phase or "")
    text = f"loading: {phase}" if phase else "loading"
    if log.progress is not None and log.progress.total > 0:
        text += f" {log.progress.done}/{log.progress.total}"
        if log.progress.unit not in text:
            text += f" {log.progress.unit}"
    return text


def _other_witnesses(evidence: Evidence, server: Server) -> Iterator[Judgement]:
    """No death, no proof, no 200: ready by other witnesses, or still loading."""
    if evidence.ready_before and evidence.flowing:
        yield _say(State.READY, "serving", "serving: tokens flow (/health is not known)")
    elif evidence.ready_before:
        yield _say(State.READY, "idle", "ready by its log, no tokens flow (/health is not known)")
    if evidence.log.state == "starting":
        yield _say(State.STARTING, "loading", _loading_text(evidence.log))
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
    refused = health is not None and health.fresh and health.error == "refused"
    if refused or (health is None and not server.listening and server.port is not None):
        yield _say(State.STARTING, "loading", f"loading: port {server.port} is not open yet")
    yield _say(State.UNKNOWN, "unrecognised", "it is alive, but neither /health nor its log says how it is")


_RULES = (
    _launcher_death,
    _member_deaths,
    _log_says,
    _stalls,
    _health_answers,
    _health_fails,
    _other_witnesses,
    _the_port,
)
"""From the surest witness to the weakest: the first thing that one of them says is the state."""


def judge(evidence: Evidence) -> Judgement:
    """The state of one server, or of a node without one, and why."""
    if not evidence.linked:
        return _say(State.OFFLINE, "no-link", evidence.link_error or "there is no link to the node")
    server = evidence.server
    if server is None:
        return _without_server(evidence)
    return next(judgement for rule in _RULES for judgement in rule(evidence, server))


def worst(judgements: Sequence[Judgement]) -> Judgement | None:
    """With several servers the worst is what a node is judged by."""
    return max(judgements, key=lambda judgement: judgement[0].badness, default=None)
