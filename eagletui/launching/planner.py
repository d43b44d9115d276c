"""Looking at a node for a plan: which server is meant, what will run, what is on its GPUs, and why it might be refused. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from eagletui.config.choose import Guards, profile_of, profiles_of
from eagletui.config.load import Loaded
from eagletui.config.log_path import Named, candidates
from eagletui.config.models import Profile
from eagletui.errors import HistoryError, NothingThereError, RefusedError
from eagletui.gpus.model import GpuReport
from eagletui.history.launches import PastLaunch, kept_command, machine_name
from eagletui.history.store import History
from eagletui.launching import guards
from eagletui.launching.adopt import base_environment, output_file, read_context, read_login, recipe_of_process
from eagletui.launching.gpus_free import holders_of
from eagletui.launching.identify import Identified, identify
from eagletui.launching.keepers import with_its_log
from eagletui.launching.lock import who_holds
from eagletui.launching.looking import see_gpus
from eagletui.launching.on_node import KEEP_S, read_machine
from eagletui.launching.plan import Declared, FlagChange, Plan, Question, Refusal, Wish
from eagletui.launching.planning import (
    changed,
    differences,
    gpus_of,
    model_of,
    new_log,
    newest,
    port_of_command,
    recipe_of_profile,
)
from eagletui.launching.profiles import port_of
from eagletui.launching.recipe import Recipe
from eagletui.launching.records import NodeRecords, read_records
from eagletui.launching.steps import GRACE_S
from eagletui.launching.words import plain
from eagletui.nodes.base import Node
from eagletui.servers import recorded
from eagletui.servers.model import Server
from eagletui.servers.record import Record
from eagletui.shell.follow import measure

NAMES = 20
"""Names that are tried for a log before preflight says that it is there."""
NO_FILE = 3
"""Exit status of `measure` where there is no such file."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What will run. `source`: the record that it is copied from. `profile`: that it came from. `refusal`: why there is nothing that could run."""

    recipe: Recipe | None = None
    source: Record | None = None
    profile: Profile | None = None
    refusal: Refusal | None = None


class Planner:
    """Makes plans for one node. `longest_s`: the longest earlier start on it, None where none is known."""

    def __init__(
        self, node: Node, *, name: str, loaded: Loaded | None, guards: Guards, history: History | None
    ) -> None:
        self.longest_s: float | None = None
        self._node = node
        self._name = name
        self._loaded = loaded
        self._guards = guards
        self._history = history

    async def plan(self, wish: Wish) -> Plan:
        """The plan of a wish. Raises NodeError, and LaunchingError where the node does not show its processes."""
        if self._guards.sentence is not None:
            return Plan(wish, self._name, None, refusals=(Refusal("read-only", self._guards.sentence),))
        try:
            chosen = self._profile(wish)
        except RefusedError as error:
            return Plan(wish, self._name, None, refusals=(Refusal(error.code, str(error)),))
        (lying, pasts), report = await asyncio.gather(self._remembered(), see_gpus(self._node))
        port = self._port(wish, chosen, lying)
        found, own = await self._identified(wish, port, chosen, lying)
        if _ambiguous(found):
            return Plan(wish, self._name, None, refusals=(guards.several(found.inventory.servers),))
        wanted = await self._wanted(wish, found, own, chosen, lying)
        return await self._put_together(wish, found, own, wanted, report, lying, pasts)

    # ---- what is asked of the node and of the files ----

    async def _remembered(self) -> tuple[NodeRecords, tuple[PastLaunch, ...]]:
        """The node's records, and the history of its machine."""
        lying = await read_records(self._node)
        history = self._history
        if history is None:
            return lying, ()
        machine = machine_name(await read_machine(self._node), self._node.name)
        try:
            async with asyncio.timeout(KEEP_S):
                pasts = await asyncio.to_thread(history.latest, machine)
        except (HistoryError, TimeoutError):
            return lying, ()  # the history is a help, and never the end of anything
        self.longest_s = max((one.ready_s for one in pasts if one.ready_s is not None), default=None)
        return lying, pasts

    def _profile(self, wish: Wish) -> tuple[str, Profile] | None:
        """The profile that was named; else the node's own one, for when nothing else tells what to run. Raises RefusedError."""
        if self._loaded is None:
            if wish.profile is not None:
                raise RefusedError(
                    f"there is no configuration, so no profile {wish.profile!r}: `eagletui config init` makes one",
                    code="no-profile",
                )
            return None
        try:
            return profile_of(self._loaded, self._name, wish.profile)
        except KeyError:
            known = ", ".join(self._loaded.config.profiles) or "none"
            raise RefusedError(
                f"no profile {wish.profile!r} fits {self._name}; there are: {known}",
                code="no-profile",
            ) from None

    def _port(self, wish: Wish, chosen: tuple[str, Profile] | None, lying: NodeRecords) -> int | None:
        """Where the server that is meant listens, as far as it is known before looking."""
        if wish.port is not None:
            return wish.port
        if wish.profile is not None and chosen is not None:
            return port_of(chosen[1], chosen[1].argv())
        if wish.kind != "start":
            return None
        last = self._last(wish, lying)
        if last is not None:
            return last.port
        return None if chosen is None else port_of(chosen[1], chosen[1].argv())

    def _last(self, wish: Wish, lying: NodeRecords) -> Record | None:
        can = [one.record.id for one in lying.records if one.relaunchable and one.readable]
        worked = [one.record.id for one in lying.records if one.record.ready_s is not None] if wish.back else None
        return newest((one.record for one in lying.records), port=wish.port, launchable=can, ready=worked)

    async def _identified(
        self, wish: Wish, port: int | None, chosen: tuple[str, Profile] | None, lying: NodeRecords
    ) -> tuple[Identified, Record | None]:
        """Who is there, and the record that it was launched by. What a record knows of a family is looked at again with it."""
        server = wish.server
        if wish.kind == "start" and port is None:
            found = await identify(self._node, port=0)
        else:
            declared = self._declared(wish, chosen, None)
            found = await identify(self._node, port=port, pid=wish.pid, server=server, declared=declared)
        if _ambiguous(found):  # which of them is meant is the person's to say, and no record's
            return found, None
        if found.server is not None:
            own = _own(found.server, found, lying)
        else:
            at = port if port is not None else _port_in(server)
            own = next(
                (
                    one.record
                    for one in lying.records
                    if one.readable and one.record.boot == lying.boot and (at is None or one.record.port == at)
                ),
                None,
            )
        if own is None or (found.server is None and wish.kind == "start"):
            return found, own if found.server is not None else None
        declared = self._declared(wish, chosen, own)
        again = await identify(self._node, port=port, pid=wish.pid, server=server, record=own, declared=declared)
        return (again if again.members or found.server is None else found), own

    def _declared(self, wish: Wish, chosen: tuple[str, Profile] | None, own: Record | None) -> tuple[Declared, ...]:
        """What may keep the server that runs: the launcher of its record, then the profile that was named, else the person's own ones for this node."""
        by_record = () if own is None else (Declared(own.launcher, own.handle),)
        if self._loaded is None:
            return by_record
        theirs = self._loaded.project_profiles
        names = (chosen[0],) if wish.profile is not None and chosen is not None else tuple(
            name for name in profiles_of(self._loaded, self._name) if name not in theirs
        )  # fmt: skip
        profiles = ((name, self._loaded.config.profiles[name]) for name in names)
        return (*by_record, *(Declared(one.launcher, one.handle, name) for name, one in profiles))

    # ---- what will run ----

    async def _wanted(
        self, wish: Wish, found: Identified, own: Record | None, chosen: tuple[str, Profile] | None, lying: NodeRecords
    ) -> _Wanted:
        """What to launch; who was named comes first, then what runs, then what ran last, then the node's own profile."""
        if wish.kind == "stop":
            return _Wanted(profile=self._profile_of(wish, found, own, chosen))
        now = datetime.now().astimezone()
        can = {one.record.id for one in lying.records if one.relaunchable}
        server = None if wish.back else found.server
        try:
            if wish.profile is not None and chosen is not None:
                return await self._of_profile(wish, chosen, now)
            if server is None:
                return await self._again(wish, chosen, lying, now)
            if own is not None and own.id in can:
                return await self._of_record(wish, own, now)
            return await self._of_running(wish, found, server, now)
        except (NothingThereError, RefusedError) as error:
            code = error.code if isinstance(error, RefusedError) else "nothing-to-start"
            return _Wanted(refusal=Refusal(code, str(error)))

    def _keeping(self, found: Identified) -> tuple[str, Profile] | None:
        """The profile that declares the unit or the container in which the server runs."""
        name = None if found.keeper is None else found.keeper.declared.profile
        return None if name is None or self._loaded is None else (name, self._loaded.config.profiles[name])

    def _profile_of(
        self, wish: Wish, found: Identified, own: Record | None, chosen: tuple[str, Profile] | None
    ) -> Profile | None:
        """The profile that a running server is of: the one that was named, else that of its record, else that which declares its unit or container."""
        if wish.profile is not None:
            return None if chosen is None else chosen[1]
        if own is None and (keeps := self._keeping(found)) is not None:
            return keeps[1]
        if self._loaded is None or own is None or own.profile is None:
            return None
        return self._loaded.config.profiles.get(own.profile)

    async def _again(
        self, wish: Wish, chosen: tuple[str, Profile] | None, lying: NodeRecords, now: datetime
    ) -> _Wanted:
        """The launch before. Raises NothingThereError."""
        last = self._last(wish, lying)
        if last is not None:
            return await self._of_record(wish, last, now)
        if wish.back:
            raise NothingThereError("no launch that became ready is recorded on this node")
        if chosen is not None:
            return await self._of_profile(wish, chosen, now)
        where = "" if wish.port is None else f" on port {wish.port}"
        raise NothingThereError(
            f"nothing says what to start{where}: no server runs, no launch is recorded on the node, and no profile fits it "
            "(`eagletui config init` makes one)"
        )

    async def _of_profile(self, wish: Wish, chosen: tuple[str, Profile], now: datetime) -> _Wanted:
        name, profile = chosen
        login = await read_login(self._node)
        recipe, refusal = recipe_of_profile(
            name, profile, wish, base=base_environment(login, profile.base_env), login=login.environ or login.own, home=login.home or "/", now=now
        )  # fmt: skip
        if recipe is None:
            return _Wanted(refusal=refusal)
        return _Wanted(replace(recipe, log=await self._free(recipe.log)), None, profile)

    async def _of_record(self, wish: Wish, record: Record, now: datetime) -> _Wanted:
        argv, refusal = changed(record.command, wish.changes)
        if refusal is not None:
            return _Wanted(refusal=refusal)
        home = dict(record.environment).get("HOME", "/")
        named = Named(record.profile, record.variant, now, record.port, model_of(argv))
        profile = (
            None if self._loaded is None or record.profile is None else self._loaded.config.profiles.get(record.profile)
        )
        log = await self._free(new_log(record.log, named, home=home, cwd=record.cwd or home))
        same = wish.launcher is None or wish.launcher == record.launcher
        recipe = Recipe(
            argv, record.environment, record.cwd or home, log, "record", engine=record.engine, port=port_of_command(argv) or record.port,
            profile=record.profile, variant=record.variant if not wish.changes else None, launcher=wish.launcher or record.launcher,
            handle=record.handle if same else None,
        )  # fmt: skip
        return _Wanted(recipe, record, profile)

    async def _of_running(self, wish: Wish, found: Identified, server: Server, now: datetime) -> _Wanted:
        """By the profile that declares its unit or container, else by what it was started with."""
        if (keeps := self._keeping(found)) is not None:
            return await self._of_profile(wish, keeps, now)
        context = await read_context(self._node, server.pid)
        argv, refusal = changed(context.argv, wish.changes)
        if refusal is not None:
            return _Wanted(refusal=refusal)
        named = Named(None, None, now, server.port, model_of(argv))
        old = output_file(context) or server.log.path
        log = await self._free(new_log(old, named, home=context.home or "/", cwd=context.cwd or "/"))
        recipe = recipe_of_process(
            context, log=log, launcher=wish.launcher or "setsid", port=server.port, engine=server.engine
        )
        return _Wanted(replace(recipe, argv=argv, port=port_of_command(argv) or server.port))

    async def _free(self, log: str) -> str:
        """The first name that no file has: nothing is ever appended to an older log."""
        names = candidates(log)
        for _ in range(NAMES):
            name = next(names)
            done = await self._node.run(measure(name))
            if done.exit_status == NO_FILE:
                return name
            if done.exit_status not in {0, 4, 5}:
                return name  # what is wrong with it is preflight's to say
        return log

    # ---- all of it ----

    def origin(self, recipe: Recipe | None) -> tuple[str, ...]:
        """Whose profile it is, where it is not the person's own: a project's file may have come with somebody else's repository."""
        loaded = self._loaded
        if recipe is None or recipe.source != "profile" or loaded is None or loaded.project is None:
            return ()
        if recipe.profile not in loaded.project_profiles:
            return ()
        return (f"the profile {plain(recipe.profile or '')} is the project's, from {loaded.project.path.absolute()}",)

    async def _put_together(
        self, wish: Wish, found: Identified, own: Record | None, wanted: _Wanted, report: GpuReport, lying: NodeRecords,
        pasts: Sequence[PastLaunch],
    ) -> Plan:  # fmt: skip
        server = found.server
        recipe = None if wanted.recipe is None else with_its_log(wanted.recipe)
        only = None if recipe is None else gpus_of(recipe.env, report)
        family = frozenset(pid for pid, _ in found.identities)
        uuids = None if only is None else {gpu.uuid or f"index {gpu.index}" for gpu in report.gpus if gpu.index in only}
        holders = holders_of(report, found.inventory, family, uuids)
        before = () if server is None else server.command
        if recipe is not None and recipe.source == "record":
            before = kept_command(before)
        locks = self._locks(server, recipe, wish)
        changes = differences(before, recipe.argv) if recipe is not None and before else ()
        keeper = found.keeper
        if keeper is not None and keeper.stops and recipe is not None and server is not None:
            recipe, changes = self._as_it_was_made(wish, server, wanted, recipe)
        refusals = [
            *self._refusals(wish, found, wanted),
            *guards.another_launcher(keeper, recipe),
            *self._cannot_help(recipe, report, only, pasts, lying),
        ]
        if recipe is not None and not refusals and (pending := guards.may_yet_start(lying.records, locks)) is not None:
            refusals.append(pending)
        if not refusals:
            refusals += await who_holds(self._node, locks)
        grace = GRACE_S if wanted.profile is None else wanted.profile.grace_s
        remove = wish.remove_leftovers and (wanted.profile is None or wanted.profile.remove_leftovers)
        return Plan(
            replace(wish, remove_leftovers=remove),
            self._name,
            server,
            family=found.identities,
            since_s=None if server is None else server.age_s,
            kept=found.kept,
            recipe=recipe,
            changes=changes,
            holders=holders,
            orphans=found.orphans,
            others=guards.others(found.inventory, server, holders),
            refusals=tuple(refusals),
            questions=self._questions(wish, found),
            notes=(*found.notes, *self.origin(recipe), *(guards.ends_with_it(server) if wish.kind != "start" else ())),
            previous=wanted.source if wanted.source is not None else own,
            grace_s=grace,
            locks=locks,
            boot=found.boot,
            declared=self._declared_first(wish, found, own, wanted),
            stopped_by="" if keeper is None or not keeper.stops else keeper.named,
        )

    def _declared_first(
        self, wish: Wish, found: Identified, own: Record | None, wanted: _Wanted
    ) -> tuple[Declared, ...]:
        """What may keep the server, and does now first."""
        name = wish.profile
        chosen = None if name is None or wanted.profile is None else (name, wanted.profile)
        others = self._declared(wish, chosen, own)
        first = () if found.keeper is None else (found.keeper.declared,)
        return tuple(dict.fromkeys((*first, *others)))

    @staticmethod
    def _as_it_was_made(
        wish: Wish, server: Server, wanted: _Wanted, recipe: Recipe
    ) -> tuple[Recipe, tuple[FlagChange, ...]]:
        """What starts again in a unit or a container is what runs in it; flags that were asked for are shown, and preflight says that they cannot be."""
        profile = wanted.profile
        asked = (*(() if profile is None or wish.profile is None else profile.changes(wish.variant)), *wish.changes)
        argv, _ = changed(server.command, asked)
        told = differences(server.command, argv)
        return (recipe if recipe.source == "record" else replace(recipe, argv=argv)), told

    def _refusals(self, wish: Wish, found: Identified, wanted: _Wanted) -> list[Refusal]:
        refusals = list(found.refusals)
        server = found.server
        if wish.kind == "start" and server is not None and not refusals:
            text = f"{server.engine} runs there already (port {server.port}, pid {server.pid}): restart it, or stop it first"
            refusals.append(Refusal("already-runs", text))
        if wish.kind == "stop" and server is None and not found.members and not refusals:
            where = "" if wish.port is None else f" on port {wish.port}"
            refusals.append(Refusal("nothing-to-stop", f"no server runs{where} on {self._name}"))
        if wanted.refusal is not None and not refusals:
            mine = [one for one in found.inventory.servers if one.ours]
            beside = wish.kind == "start" and wish.port is None and wanted.refusal.code == "nothing-to-start" and mine
            refusals.append(self._runs_beside(mine[0]) if beside else wanted.refusal)
        return refusals

    def _runs_beside(self, server: Server) -> Refusal:
        text = (
            f"{server.engine} runs here already (port {server.port}, pid {server.pid}), and nothing says what else to start:"
            f" `eagletui restart {self._name}` restarts it, --profile names another one to start beside it"
        )
        return Refusal("already-runs", text)

    def _cannot_help(
        self, recipe: Recipe | None, report: GpuReport, only: frozenset[int] | None, pasts: Sequence[PastLaunch], lying: NodeRecords
    ) -> list[Refusal]:  # fmt: skip
        if recipe is None:
            return []
        told = guards.pasts_of(
            recipe.argv, recipe.engine or "", pasts, [one.record for one in lying.records if one.readable]
        )
        found = (guards.cannot_help(told), guards.gpus_forbid(report, only))
        return [one for one in found if one is not None]

    def _questions(self, wish: Wish, found: Identified) -> tuple[Question, ...]:
        name = self._guards.confirm_name
        typed = guards.name_typed(name or self._name, wish.kind, confirms=name is not None)
        script = None if wish.kind == "start" else guards.kept_by_script(found.kept)
        return tuple(one for one in (script, typed) if one is not None)

    def _locks(self, server: Server | None, recipe: Recipe | None, wish: Wish) -> tuple[int, ...]:
        named = (None if server is None else server.port, None if recipe is None else recipe.port, wish.port)
        return tuple(sorted({port for port in named if port is not None}))


def _ambiguous(found: Identified) -> bool:
    return found.server is None and any(one.code == "several-servers" for one in found.refusals)


def _port_in(server_id: str | None) -> int | None:
    """The port in a server's id ("sglang:30000"), for when that server is gone."""
    tail = (server_id or "").rpartition(":")[2]
    return int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 6 else None


def _own(server: Server, found: Identified, lying: NodeRecords) -> Record | None:
    """The record that a server was launched by."""
    kept = tuple(
        recorded.Kept(one.record, begun=one.begun, process_alive=one.alive)
        for one in lying.records
        if one.readable and one.record.boot == lying.boot
    )
    return recorded.Records(kept).of(server.launcher, found.inventory.processes)
