"""One look at a node, for `status`: GPUs, servers, the end of each log, /health and /metrics. Everything that can be asked at once is."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING

from eagletui.engines.metrics import read_metrics
from eagletui.engines.spec import Engine, load_engine
from eagletui.errors import ChannelError, CommandTimeout, NodeError, UsageError
from eagletui.gpus.model import GpuReport
from eagletui.logs.state import LogState
from eagletui.monitor.assessment import Assessment
from eagletui.monitor.autopsy import read_kernel_log
from eagletui.monitor.drive import RECORDS_TIMEOUT_S, find_servers, survey_gpus
from eagletui.monitor.launches import Launches, Shown
from eagletui.monitor.log_tail import LogTail, read_tail
from eagletui.monitor.probes import Answer, Prober
from eagletui.monitor.sessions import Sessions
from eagletui.monitor.snapshot import STALE_S, Health, Throughput
from eagletui.nodes.base import Node
from eagletui.servers.gpu_trouble import trouble
from eagletui.servers.model import Inventory, Server, State
from eagletui.servers.selection import with_log
from eagletui.servers.stalls import Moves, stillness
from eagletui.servers.verdict import Evidence, HealthSeen, degraded, judge
from eagletui.servers.witnesses import Witnessed, refine, stands, unexplained
from eagletui.shell.processes import TICKS_PER_S

if TYPE_CHECKING:
    from eagletui.monitor.report import StatusModel

HEALTH_TIMEOUT_S = 3.0
"""`status` waits no longer for /health, then judges by the rest."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What HTTP told of a server."""

    health: Answer | None = None
    metrics: Answer | None = None
    at: float = 0.0


async def survey(node: Node, *, port: int | None = None, log_path: str | None = None) -> StatusModel:
    """Connect, look once, and give the object. Raises NodeError when there is no link."""
    await node.connect()
    node = Sessions(node)
    looking = asyncio.create_task(survey_gpus(node))
    # pydantic takes a quarter of a second to load: as long as the node's own work takes, so beside it.
    building = asyncio.create_task(asyncio.to_thread(import_module, "eagletui.monitor.build_report"))
    try:
        ping = await node.ping()
        launches = Launches(node, RECORDS_TIMEOUT_S)
        inventory = await find_servers(node, launches.read)
        launches.found(inventory)
        if port is not None:
            inventory = replace(inventory, servers=tuple(s for s in inventory.servers if s.port == port))
        if log_path is not None and len(inventory.servers) > 1:
            ports = ", ".join(str(s.port) for s in inventory.servers)
            raise UsageError(f"--log is of one server, and there are several: name one with --port ({ports})")
        dead = None if inventory.servers else launches.remembered(port, Shown(None, alive=False))
        servers = [with_log(s, log_path) for s in (*inventory.servers, *((dead,) if dead is not None else ()))]
        skew = None if inventory.epoch_s is None else inventory.epoch_s - time.time()
        assessed = await asyncio.gather(*(assess(node, one, skew, launches) for one in servers))
        assessed = await asyncio.gather(*(_explained(node, one) for one in assessed))
        gpus = (await looking).report
        assessed = [_with_gpus(one, gpus) for one in assessed]
    finally:
        looking.cancel()
    await building
    from eagletui.monitor.build_report import build_status
    from eagletui.monitor.report import LinkModel

    link = LinkModel(state="up", latency_ms=None if node.latency_ms is None else round(ping, 1))
    return build_status(node.name, link, inventory=inventory, servers=assessed, gpus=gpus, now=time.monotonic())


def offline(name: str, error: NodeError) -> StatusModel:
    """The object for a node that cannot be reached."""
    from eagletui.monitor.build_report import build_status
    from eagletui.monitor.report import LinkModel

    link = LinkModel(state="down", error=str(error))
    return build_status(name, link, inventory=Inventory(), servers=[], gpus=GpuReport(), now=time.monotonic())


async def assess(node: Node, server: Server, skew_s: float | None, launches: Launches | None = None) -> Assessment:
    """Ask one server everything and judge it. `skew_s`: the node's clock minus ours; `launches`: what records tell of it.
    Raises NodeError only when the link is lost."""
    engine = load_engine(server.engine)
    asked, tail = await asyncio.gather(_ask(node, server, engine), _tail(node, server, skew_s))
    if tail is not None and tail.state.state == "ready" and _early(asked.health):
        asked = await _ask(node, server, engine)  # it may have become ready between the two looks
    now = time.monotonic()
    throughput = _throughput(tail, asked, engine, now)
    log = tail.state if tail is not None else LogState()
    health = _health(engine, asked)
    tokens_age = tail.tokens_age_s if tail is not None else None
    running = queued = None
    if asked.metrics is not None and asked.metrics.status == 200:
        sample = read_metrics(asked.metrics.body.decode("utf-8", "replace"), engine).sample
        running, queued = sample.running, sample.queued
        if tokens_age is None and running and sample.gen_tok_s:
            tokens_age = 0.0
    evidence = Evidence(
        server=server,
        launcher_alive=not server.launcher.gone,
        alive=sum(not m.process.gone for m in server.family),
        total=len(server.family),
        log=log,
        health=None if health is None else HealthSeen(health.status, health.error, 0.0, health.latency_ms),
        running=running,
        tokens_age_s=tokens_age,
        was_ready=health is not None and health.status == 200 and not server.foreign_listener,
        queued=queued,
        stillness=None if tail is None or tail.age_s is None else stillness(log, tail.age_s, Moves()),
        suspended=tuple(m for m in server.family if m.process.state == "T" and m.role != "other"),
        log_empty=None if tail is None else tail.empty,
    )
    if launches is not None:
        evidence = launches.told_of(server, evidence, None if tail is None else tail.last_line)
    state, reason = judge(evidence)
    return Assessment(
        server,
        state,
        reason,
        log,
        health,
        throughput,
        log_age_s=tail.age_s if tail is not None else None,
        log_error=tail.error if tail is not None else server.log.why,
        record=None if launches is None else launches.record_of(server),
    )


async def _explained(node: Node, one: Assessment) -> Assessment:
    """Why it died or stands. Raises NodeError only when the link is lost."""
    server, log = one.server, one.log
    if one.state is State.STALLED:
        return replace(one, diagnosis=log.diagnosis or stands(server.engine, log.phase, None, one.reason))
    if one.state is not State.CRASHED:
        return one
    kernel = await read_kernel_log(node)
    members = {member.process.pid: member.process.comm for member in server.family}
    found = log.diagnosis or unexplained(server.engine, log.phase, started=one.reason.code != "never-started")
    seen = Witnessed(members, server.launcher.started / TICKS_PER_S, None, kernel)
    return replace(one, diagnosis=refine(found, seen))


def _with_gpus(one: Assessment, gpus: GpuReport) -> Assessment:
    """A server that serves with a GPU in trouble is degraded."""
    pids = [member.process.pid for member in one.server.family]
    state, reason = degraded((one.state, one.reason), gpu_trouble=trouble(gpus, pids, one.server.tp))
    return replace(one, state=state, reason=reason)


def _early(answer: Answer | None) -> bool:
    """It answered, though not yet with 200: not a server that is too busy to."""
    return answer is not None and answer.status != 200 and answer.error != "timeout"


async def _ask(node: Node, server: Server, engine: Engine) -> _Asked:
    if server.port is None or server.launcher.gone:
        return _Asked()
    async with Prober(node, server.host, server.port, as_before=True) as prober:
        metrics = asyncio.create_task(prober.get(engine.metrics_path, HEALTH_TIMEOUT_S))
        try:
            health = await prober.get(engine.health_path, HEALTH_TIMEOUT_S)
            return _Asked(health, await metrics, time.monotonic())
        finally:
            metrics.cancel()


async def _tail(node: Node, server: Server, skew_s: float | None) -> LogTail | None:
    if server.log.keeper is None and (server.log.path is None or not server.log.readable):
        return None
    try:
        return await read_tail(node, server.log, server.engine, skew_s)
    except CommandTimeout:
        return None  # a log on a hung file system must not freeze the verdict
    except ChannelError as error:
        return LogTail(LogState(), error=str(error))


def _health(engine: Engine, asked: _Asked) -> Health | None:
    answer = asked.health
    if answer is None:
        return None
    return Health(engine.health_path, answer.status, answer.latency_ms, asked.at, answer.error, answer.detail, asked=1)


def _throughput(tail: LogTail | None, asked: _Asked, engine: Engine, now: float) -> Throughput | None:
    """Batch lines first; /metrics fills what they do not tell."""
    found = Throughput()
    if asked.metrics is not None and asked.metrics.status == 200:
        sample = read_metrics(asked.metrics.body.decode("utf-8", "replace"), engine).sample
        if sample.running == 0:
            sample = sample._replace(
                gen_tok_s=None, accept_len=None, accept_rate=None
            )  # gauges keep the last busy moment's figures
        found = Throughput(
            sample.gen_tok_s, sample.accept_len, sample.running, sample.queued, sample.token_usage, asked.at, source="metrics", accept_rate=sample.accept_rate,
        )  # fmt: skip
    if tail is None or tail.batch is None or tail.tokens_age_s is None:
        return found if found.at is not None else None
    batch, age = tail.batch, tail.tokens_age_s
    if found.at is not None and age > STALE_S and found.gen_tok_s is not None:
        return found
    return Throughput(
        batch.gen_tok_s,
        batch.accept_len,
        batch.running if found.running is None else found.running,
        batch.queued if found.queued is None else found.queued,
        batch.token_usage if found.token_usage is None else found.token_usage,
        now - age,
        stale=age > STALE_S,
        source="log",
        accept_rate=batch.accept_rate,
    )
