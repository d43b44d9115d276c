"""The steps of a sequence on a node: each calls what does it, and keeps what the next one and the record need to know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from eagletui.errors import (
    HistoryError,
    LaunchingError,
    NodeError,
    OvertakenError,
    RefusedError,
    RestartedByKeeperError,
    StopFailedError,
)
from eagletui.gpus.model import GpuReport
from eagletui.history.launches import Identity as LaunchIdentity
from eagletui.history.launches import LaunchRecord, PhaseTime, kept_command, machine_name
from eagletui.history.launches import Outcome as LaunchOutcome
from eagletui.history.store import History
from eagletui.launching import launch as launching
from eagletui.launching import records
from eagletui.launching.acting import Acting
from eagletui.launching.gpus_free import Floor, floor_of, gpus_free
from eagletui.launching.identify import Identified, identify
from eagletui.launching.launchers.registry import launcher as launcher_of
from eagletui.launching.leftovers import clean, listening_on, ports_of
from eagletui.launching.lock import Lock
from eagletui.launching.looking import Runs, see_gpus
from eagletui.launching.plan import Check, Declared, Plan
from eagletui.launching.planning import gpus_of, kind_of_command
from eagletui.launching.preflight import preflight
from eagletui.launching.steps import TIMEOUT_S, Ending, StepName
from eagletui.launching.stop import line_of, stop, watch_for_return
from eagletui.launching.verify import Launched, printed_of, verify
from eagletui.launching.watch import Watched
from eagletui.launching.work import Death, Finding, Found, Verified
from eagletui.logs.reader import Reader
from eagletui.logs.state import Diagnosis
from eagletui.servers.family import Identity
from eagletui.servers.intent import Intent, Launching, NeverStarted, Over, Spared, Stopping
from eagletui.servers.intent import Launched as LaunchedIntent
from eagletui.servers.model import Inventory, Process
from eagletui.servers.record import Outcome, Record
from eagletui.servers.targets import Target
from eagletui.shell.follow import parse_file_head, read_range
from eagletui.shell.poll import Machine, PollDecoder, ask_machine, start_poll

_OUTCOMES: dict[Ending, Outcome] = {"running": "running", "done": "done", "aborted": "aborted"}
"""Every other ending is a failure."""
LOG_BYTES = 1 << 20
"""The end of a dead launch's log that is read for its cause."""
KEEP_S = 8.0
"""For the file of earlier launches, which may lie in a folder that hangs."""


class WorkOnNode:
    """A `launching.work.Work`. `who`: "user@client", for the record and the lock. `requests`: how many the old server answers now. `intent` is told what is
    being done. `record`: of a sequence that goes on. `checked`: preflight's checks, if they were made a moment ago."""

    def __init__(
        self,
        acting: Acting,
        plan: Plan,
        *,
        who: str,
        history: History | None = None,
        requests: Callable[[], int | None] = lambda: None,
        intent: Callable[[Intent], None] = lambda _intent: None,
        record: Record | None = None,
        checked: tuple[Check, ...] | None = None,
    ) -> None:
        self._acting = acting
        self._plan = plan
        self._who = who
        self._history = history
        self._requests = requests
        self._intent = intent
        self._record = record
        self._goes_on = record is not None
        self._checked = checked
        self._lock: Lock | None = None
        self._identified: Identified | None = None
        self._members: tuple[Identity, ...] = plan.family
        self._launched: Launched | None = None
        self._floor = Floor()
        self._machine: Machine | None = None
        self._launched_at = datetime.now(UTC)
        self._began = time.monotonic()

    @property
    def record(self) -> Record | None:
        """As it was written last."""
        return self._record

    async def take_lock(self) -> str:
        """See Work."""
        lock = Lock(self._acting, who=self._who)
        await lock.__aenter__()
        self._lock = lock
        return "; ".join(lock.notices)

    async def release_lock(self) -> None:
        """See Work."""
        lock, self._lock = self._lock, None
        if lock is not None:
            await lock.__aexit__(None, None, None)

    async def check(self) -> tuple[Check, ...]:
        """See Work."""
        return self._checked if self._checked is not None else await preflight(self._acting, self._plan)

    async def write_record(self) -> str:
        """See Work."""
        plan, server = self._plan, self._plan.server
        by = plan.declared[0] if plan.declared and plan.kept.kind in {"unit", "container"} else Declared("setsid")
        first = Record(
            records.new_id(),
            plan.kind,
            datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            self._who,
            launcher=by.launcher,
            handle=by.handle if plan.recipe is None else None,
            engine=None if server is None else server.engine,
            port=plan.wish.port if server is None else server.port,
            command=() if server is None else kept_command(server.command),
            boot=plan.boot,
            family=plan.family,
            step=StepName.PREFLIGHT.value,
            previous=None if plan.previous is None else plan.previous.id,
            grace_s=plan.grace_s,
            keep_leftovers=not plan.wish.remove_leftovers,
            stop_sent=False,
        )
        self._record = await records.create(self._acting, first, plan.recipe)
        return self._record.id

    async def note(
        self, step: StepName, *, ending: Ending = "running", text: str = "", watched: Watched | None = None
    ) -> str | None:
        """See Work."""
        record = self._record
        if record is None:
            return None
        record = replace(record, step=step.value, outcome=_OUTCOMES.get(ending, "failed"), text=text)
        if watched is not None:
            code = None if watched.diagnosis is None else watched.diagnosis.code
            record = replace(record, ready_s=watched.ready_s, diagnosis=code)
        self._told_intent(ending)
        try:
            if self._lock is not None:
                await self._lock.reached(step.value)
                return await self._update(record)
            await self.take_lock()  # a watch needs no lock, its end is written under one
            try:
                return await self._update(record)
            finally:
                await self.release_lock()
        except (LaunchingError, NodeError) as error:
            if isinstance(error, OvertakenError) and ending == "running":
                raise  # nothing more is to be done from here
            return f"the record on the node was not brought up to date: {error}"

    def _told_intent(self, ending: Ending) -> None:
        if ending != "running":
            self._intent(Over(time.monotonic()))

    async def _update(self, record: Record) -> str | None:
        self._record = record
        return await records.update(self._acting, record)

    async def identify(self) -> Found:
        """See Work."""
        plan = self._plan
        wish, server, recipe = plan.wish, plan.server, plan.recipe
        port = server.port if server is not None else recipe.port if recipe is not None else wish.port
        old = self._old_record()
        found, report = await asyncio.gather(
            identify(
                self._acting,
                port=port,
                pid=wish.pid,
                record=old,
                declared=plan.declared,
            ),
            self._gpus_now(),
        )
        self._identified = found
        self._floor = self._floor_now(report, found, old)
        lines = (*(line_of(process) for process in found.members), *found.notes)
        launcher = None if found.server is None else (found.server.pid, found.server.launcher.started)
        other = self._other(found)
        refusal = found.refusals[0] if found.refusals else None
        if (
            other is None and refusal is None
        ):  # who is not ours to stop is in no record of ours: a later look would take it for a member
            if self._record is not None and found.identities:
                self._record = replace(self._record, family=tuple(sorted({*self._record.family, *found.identities})))
            if self._record is not None and self._floor.mib:
                self._record = replace(self._record, floor_mib=self._floor.mib)
            self._members = tuple(sorted({*self._members, *found.identities}))
        return Found(launcher, found.identities, found.kept, refusal, other, lines)

    def _other(self, found: Identified) -> str | None:
        """Why the server that is there now is not the one that was meant; None where it is, or nobody is there."""
        server, planned = found.server, self._plan.server
        if server is None:
            return None
        there = (server.pid, server.launcher.started)
        named = f"{server.engine} on port {server.port} (pid {server.pid})"
        if planned is not None:
            if there == (planned.pid, planned.launcher.started):
                return None
            return f"another server than planned is there now: {named} instead of pid {planned.pid}. Look again"
        if not self._goes_on or self._plan.kind == "start":
            return f"a server runs there already: {named}. Restart it, or stop it first"
        if self._record is not None and there in self._record.family:
            return None
        return f"since this was left, another server was started there: {named}. It is left alone; look again, and plan anew"

    def _old_record(self) -> Record | None:
        """The record whose members may be left: that of a sequence that goes on, else that of the server before."""
        if (
            self._record is not None
            and self._record.family
            and self._plan.server is None
            and self._plan.kind != "start"
        ):
            return replace(self._record, process=None, keeper=None)
        return self._plan.previous

    async def stop(self, found: Found, stop_now: asyncio.Event) -> Finding:
        """See Work."""
        identified = self._identified
        if identified is None or identified.target is None:
            return Finding("nobody of it lived any more")
        target = identified.target

        async def announce(wish: bool) -> None:
            now, members = time.monotonic(), frozenset(found.family)
            self._intent(Stopping(members, now, target.port) if wish else Spared(members, now))
            await self._say_that_we_stop(found, wish=wish)

        async def seen(members: frozenset[Identity]) -> None:
            if self._record is not None and self._record.stop_sent:
                self._intent(Stopping(members, time.monotonic(), target.port))
            self._members = tuple(sorted({*self._members, *members}))
            if self._record is not None:
                await self._update(replace(self._record, family=self._members))

        stopped = await stop(
            self._acting, target, grace_s=self._plan.grace_s, stop_now=stop_now, requests=self._requests, seen=seen,
            keeper=identified.keeper, announce=announce,
        )  # fmt: skip
        self._members = tuple(sorted({*self._members, *stopped.members}))
        if found.kept.kind == "script":
            again = await watch_for_return(self._acting, target, self._members)
            if again is not None:
                raise RestartedByKeeperError(
                    f"the server was restarted by its keeper ({found.kept.name}): pid {again.pid} runs now, and nothing was launched"
                )
        return Finding(stopped.text)

    async def _say_that_we_stop(self, found: Found, *, wish: bool) -> None:
        """In the record of the sequence, and in the server's own: its exit status is no crash then. Taken back where nobody was told."""
        if self._record is not None:
            asked = wish and self._plan.kind == "stop"
            await self._update(replace(self._record, asked_to_stop=asked, stop_sent=wish))
        for kept in (await records.read_records(self._acting)).records:
            if kept.readable and kept.record.process in found.family and kept.record.asked_to_stop is not wish:
                await records.update(self._acting, replace(kept.record, asked_to_stop=wish))

    async def _gpus_now(self) -> GpuReport:
        """What is on the GPUs while the old server still runs. One that does not answer in time is waited for in the step that needs it."""
        try:
            async with asyncio.timeout(TIMEOUT_S[StepName.IDENTIFY] - 1.0):
                return await see_gpus(self._acting)
        except TimeoutError:
            return GpuReport()

    def _floor_now(self, report: GpuReport, found: Identified, old: Record | None) -> Floor:
        """What is in use without the old server, on its own GPUs; of a sequence that goes on, what was written then."""
        if self._record is not None and self._record.floor_mib:
            return Floor(self._record.floor_mib)
        floor = floor_of(report, {pid for pid, _ in self._members}, () if old is None else old.floor_mib)
        if found.members or self._plan.recipe is None:
            return floor
        only = gpus_of(self._plan.recipe.env, report)
        used = {
            gpu.uuid: gpu.mem_used_mib
            for gpu in report.gpus
            if gpu.uuid is not None and gpu.mem_used_mib is not None and (only is None or gpu.index in only)
        }
        return Floor(tuple(sorted((used | floor.of).items())), floor.blind)

    async def gpus_free(self) -> Finding:
        """See Work."""
        inventory = Inventory() if self._identified is None else self._identified.inventory
        pids = {pid for pid, _ in self._members}
        freed = await gpus_free(
            self._acting, self._floor, pids, inventory=inventory, for_launch=self._plan.recipe is not None
        )
        return Finding(freed.text, freed.lines)

    async def leftovers(self) -> Finding:
        """See Work."""
        plan = self._plan
        old = () if plan.server is None else ports_of(plan.server.command, plan.server.port)
        new = () if plan.recipe is None else ports_of(plan.recipe.argv, plan.recipe.port)
        ports = tuple(sorted({*old, *new}))
        target = None if self._identified is None else self._identified.target
        if target is None and self._members:
            target = self._gone()
        if target is None:
            held = await listening_on(self._acting, ports)
            if held:
                who = "someone we cannot see" if held[0].pid is None else f"pid {held[0].pid}"
                raise StopFailedError(f"{who} listens on port {held[0].port}, which the new server needs")
            return Finding("nobody listens on its ports" if ports else "nothing left")
        cleaned = await clean(self._acting, target, self._members, remove=plan.wish.remove_leftovers, ports=ports)
        return Finding(cleaned.text, cleaned.lines)

    def _gone(self) -> Target:
        """A server of which nobody lives any more, for what it may have left."""
        pid, started = min(self._members, key=lambda member: member[1])
        launcher = Process(pid, 0, 0, 0, "X", "", started)
        return Target(launcher, self._plan.boot or "", frozenset(self._members), port=self._plan.wish.port)

    async def launch(self) -> Finding:
        """See Work."""
        record = self._record
        if record is None:
            raise RefusedError("there is no record to launch from")
        self._began = time.monotonic()
        self._launched_at = datetime.now(UTC)
        if await self._was_begun(record):
            return Finding("it was launched before the link was lost")
        if self._goes_on and self._identified is None:  # it was left here, and nobody has looked since
            found = await self.identify()
            why = found.other or (None if found.refusal is None else found.refusal.text)
            if why is not None:
                raise RefusedError(why)
        self._intent(Launching(self._began, record.port, record.id, record.log))
        try:
            launched = await launching.launch(self._acting, record)
        except LaunchingError as error:
            self._never_started(record, error)
            raise
        self._launched = launched
        pid = launched.process
        return Finding("started" if pid is None else f"pid {pid[0]}")

    def _never_started(self, record: Record, error: LaunchingError) -> None:
        status, printed = getattr(error, "status", None), getattr(error, "printed", ())
        self._intent(NeverStarted(str(error), self._began, record.port, record.id, record.log, status, printed))

    async def _was_begun(self, record: Record) -> bool:
        """Whether the launch of a sequence that goes on was sent before: then what became of it is looked at."""
        if not self._goes_on:
            return False
        launcher = launcher_of(record.launcher)
        state = launcher.read_look(await self._acting.run(launcher.look(record)))
        return state.begun

    async def verify(self) -> Verified:
        """See Work."""
        record = self._record
        if record is None:
            raise RefusedError("there is no record to launch from")
        launched = self._launched
        if launched is None:
            state = launcher_of(record.launcher)
            done = await self._acting.run(state.look(record))
            launched = Launched(record, state.read_look(done), time.monotonic())
        try:
            launched = await verify(self._acting, launched)
        except LaunchingError as error:
            self._never_started(record, error)
            raise
        self._launched = launched
        process = launched.process
        if process is None:
            raise RefusedError("the launch has no process")
        await self._update(replace(launched.record, step=StepName.VERIFY.value, family=tuple({process})))
        self._intent(LaunchedIntent(process, self._began, record.port, record.id, record.log))
        log = launcher_of(record.launcher).log(record)
        where = f"logs to {log.path}" if log.path is not None else f"its output is in {log.keeper}"
        return Verified(process, f"pid {process[0]} runs and {where}", launched.notes)

    async def keep(self, process: Identity) -> str | None:
        """See Work."""
        return await self._to_history(process, None)

    async def outcome(self, process: Identity, watched: Watched) -> str | None:
        """See Work."""
        return await self._to_history(process, watched)

    async def _to_history(self, process: Identity, watched: Watched | None) -> str | None:
        """What was launched, and what became of it; whoever watched it may have kept more, which stays."""
        record, history = self._record, self._history
        engine = None if record is None else record.engine or self._engine()
        if history is None or record is None or engine is None or self._acting.dry:
            return None
        if self._machine is None:
            self._machine = await read_machine(self._acting)
        outcome: LaunchOutcome = "unknown"
        if watched is not None and watched.ending in {"done", "crashed"}:
            outcome = "ready" if watched.ending == "done" else "crashed"
        made = LaunchRecord(
            identity=LaunchIdentity(machine_name(self._machine, self._acting.node.name), self._machine.boot, *process),
            node=self._acting.node.name,
            kind=kind_of_command(engine, record.command),
            command=record.command,
            started=self._launched_at,
            outcome=outcome,
            phases=() if watched is None else tuple(PhaseTime(name, seconds) for name, seconds in watched.phases),
            ready_s=None if watched is None else watched.ready_s,
            diagnosis=None if watched is None or watched.diagnosis is None else watched.diagnosis.code,
            origin="eagletui",
            profile=record.profile,
            variant=record.variant,
        )
        try:
            async with asyncio.timeout(KEEP_S):
                await asyncio.to_thread(history.record, made)
        except (HistoryError, TimeoutError) as error:
            return str(error) or "the file of earlier launches did not answer"
        return None

    def _engine(self) -> str | None:
        return None if self._plan.recipe is None else self._plan.recipe.engine

    async def look_after_death(self) -> Death:
        """See Work."""
        record = self._record
        if record is None:
            return Death()
        launcher = launcher_of(record.launcher)
        state = launcher.read_look(await self._acting.run(launcher.look(record)))
        process = None if state.process is None else (state.process.pid, state.process.started)
        return Death(state.exit_status, printed_of(state), await self._by_its_log(record, state.log_size), process)

    async def _by_its_log(self, record: Record, size: int | None) -> Diagnosis | None:
        """What the log tells of its end; a launch may be dead before anybody watched it."""
        engine = record.engine or self._engine()
        if record.log is None or engine is None or not size:
            return None
        reader = Reader(engine)
        begin = max(0, size - LOG_BYTES)
        done = await self._acting.run(read_range(record.log, begin, LOG_BYTES))
        _, text = parse_file_head(done.stdout)
        now = time.monotonic()
        reader.feed(text, now)
        reader.flush(now)
        return reader.state.diagnosis


async def read_machine(node: Runs) -> Machine:
    """Which machine it is, as the history names it. Raises NodeError."""
    command = replace(start_poll(), data=ask_machine(1))
    answers = PollDecoder().feed((await node.run(command)).stdout)
    return next((answer.machine for answer in answers if answer.machine is not None), Machine())
