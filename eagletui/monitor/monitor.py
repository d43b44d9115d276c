"""NodeMonitor: the link, discovery, the poller and the watches of one node, and the snapshot that the screen is given. asyncio, no Textual."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from eagletui.errors import ChannelError, CommandTimeout, EagletuiError, LinkLostError, NodeError
from eagletui.history.store import History
from eagletui.logs.state import Diagnosis, LogState
from eagletui.logs.store import LineStore
from eagletui.monitor.drive import find_servers
from eagletui.monitor.family_watch import FamilyCount
from eagletui.monitor.gpu_watch import GpuWatch
from eagletui.monitor.identities import members, same_launch, still_there
from eagletui.monitor.keeper import Keeper
from eagletui.monitor.launches import Launches, Shown
from eagletui.monitor.link import LinkWatch
from eagletui.monitor.measuring import Measuring
from eagletui.monitor.newcomers import Newcomers
from eagletui.monitor.nobody import absent_link, before_discovery, never_started, nobody
from eagletui.monitor.others import Others
from eagletui.monitor.plainest import plainest
from eagletui.monitor.poller import Poller, open_poller
from eagletui.monitor.publish import Publisher
from eagletui.monitor.recorder import Recorder
from eagletui.monitor.server_watch import ServerWatch
from eagletui.monitor.sessions import Sessions
from eagletui.monitor.sleep import Clocks, Missed, Sleeps, missed, read_clocks
from eagletui.monitor.snapshot import Health, LogView, Snapshot, Throughput, Verdict, aged, of_no_server
from eagletui.monitor.together import Together
from eagletui.nodes.base import Node
from eagletui.servers.intent import Intent
from eagletui.servers.model import Inventory, State
from eagletui.servers.selection import chosen, with_log
from eagletui.shell.scripts import LEASE_S

TICK_S = 0.5
"""The family is polled this often: a death is on the screen within a second."""
LOOK_AGAIN_S = 15.0
"""All of /proc, when nothing suggests that something changed."""
LOOK_STARTING_S = 2.0
"""While a launch is under way its children appear and rename themselves; and without a server one may be started any time."""
YOUNG_S = 60.0
"""A small model is ready before its last children have appeared."""
LOOK_AT_LOG_S = 2.0
"""How often the name of the log is looked at: a rotated one is told, and followed where it is known by name only."""
RENEW_S = LEASE_S - 60.0
"""The poller ends on the node with its lease; a new one is opened before."""
CLOCK_S = 1.0
"""How often the clocks are compared: a second after waking is soon enough to be told, and costs nothing."""
SLEPT_NOTE_S = 60.0
"""How long it is told that this machine slept."""
TASK_RETRY_S = 5.0
NOTE_S = 10.0
"""How long a task that failed has to run again before its note goes."""


class NodeMonitor:
    """Watches a node until cancelled. `port` and `log_path` are the user's choice of server and log. `history`: where launches
    are kept; None keeps none, and estimates nothing.

    `on_failure` is called once, with the sentence, when the *first* connection fails: there is nothing to show then.
    """

    def __init__(
        self,
        node: Node,
        *,
        port: int | None = None,
        log_path: str | None = None,
        on_failure: Callable[[EagletuiError], None] | None = None,
        history: History | None = None,
    ) -> None:
        self.revision = 0
        self._publisher = Publisher(self._changed)
        self._node = Sessions(node)
        self._port = port
        self._log_path = log_path
        self._link = LinkWatch(
            self._node, on_change=self._mark, on_up=self._link_up, on_lost=self._link_lost, on_failure=on_failure
        )
        self._sleeps = Sleeps()
        self._fresh_since = 0.0
        self._inventory = Inventory()
        self._discovered = False
        self._unable: str | None = None
        self._wanted: str | None = None
        self._watch: ServerWatch | None = None
        self._family = FamilyCount()
        self._keeper = Keeper()
        self.measure = Measuring()
        self._gpus = GpuWatch(self._node, self._mark, self.measure)
        self._empty_store = LineStore()
        self._notes: dict[str, str] = {}
        self._recorder = Recorder(history, node.name, note=self._note, on_change=self._mark)
        self._launches = Launches(self._node)
        self._others = Others(
            self._node,
            servers=lambda: self._inventory.servers,
            shown=lambda: self._watch.server.id if self._watch else None,
            skew_s=self._skew_s,
            on_worst=self._show_worst,
            on_change=self._mark,
        )
        self._reselect = asyncio.Event()
        self._look = asyncio.Event()
        self._inventory_wall = time.time()
        self._chosen = False

    # What the screen asks

    @property
    def node(self) -> Sessions:
        """The node with its link and its sessions, for whoever acts on it while it is watched."""
        return self._node

    @property
    def on_change(self) -> Callable[[], None] | None:
        """Called when something changed: at once after quiet, while changes keep coming every 100 ms."""
        return self._publisher.listener

    @on_change.setter
    def on_change(self, listener: Callable[[], None] | None) -> None:
        self._publisher.listener = listener

    def snapshot(self) -> Snapshot:
        """Everything known now. Copies no text."""
        now = time.monotonic()
        watch = self._watch
        instead = self._launches.verdict(self._shown(), now)
        verdict = self._verdict(now, instead)
        link = self._link.look()
        seen_at = now if link.lost_at is None else link.lost_at  # nobody knows whether it lives on
        found = Snapshot(
            node=self._node.name,
            revision=self.revision,
            at=now,
            wall=time.time(),
            link=link,
            inventory=self._inventory,
            server=watch.server if watch else None,
            verdict=verdict,
            log=watch.log.view() if watch else LogView(self._empty_store),
            startup=watch.log.state if watch else LogState(),
            health=watch.own_health if watch else Health(),
            throughput=watch.current_throughput(now) if watch else Throughput(),
            gpus=self._gpus.view,
            series=watch.series if watch else {},
            verdicts=tuple({**self._others.verdicts, **({watch.server.id: verdict} if watch else {})}.items()),
            family_alive=self._family.alive if watch and watch.alive is not None else None,
            family_total=self._family.total if watch and watch.alive is not None else None,
            uptime_s=watch.up_s(seen_at, self._sleeps.aged) if watch else None,
            ended=watch is not None and watch.ended_at is not None,
            notes=(*self._inventory.notes, *self._notes.values(), *((few,) if (few := self._node.note) else ())),
            discovered=self._discovered,
            undecided=self._others.judged
            and not self._chosen
            and self._port is None
            and len(self._inventory.servers) > 1,
            family_at=watch.family_at if watch else None,
            fresh_since=self._fresh_since,
            deep_health=watch.deep.view if watch else None,
            diagnosis=self._diagnosis(verdict, instead, now),
            estimate=self._recorder.estimate(watch, verdict.state, now),
            record=self._launches.record(watch.server if watch else None, self._port),
            unfinished=self._launches.records.unfinished(self._port_shown),
            under_way=self._launches.records.under_way(self._port_shown),
            acting=self._launches.intents.acting,
        )
        found = found if instead is None else of_no_server(found)
        return aged(found, self._sleeps.aged) if self._sleeps else found

    def select_server(self, id: str) -> None:  # noqa: A002 - the word of the snapshot
        """Show another server of the node."""
        self._wanted, self._chosen = id, True
        self._choose()
        self._mark()

    def intend(self, intent: Intent) -> None:
        """Somebody in this process acts on the node: what ends by it is no crash, and what it launches is shown at once."""
        if self._launches.told(intent):
            self._look.set()
        self._mark()

    def probe_now(self) -> None:
        """Ask /health at once."""
        if self._watch is not None:
            self._watch.probe_now()

    def connect_now(self) -> None:
        """A person wants the link: try at once, and ask what the login asks."""
        self._link.connect_now()

    async def run(self) -> None:
        """Connect and watch, again and again, until cancelled. Returns only when the first connection fails."""
        clocks = asyncio.create_task(self._supervise("clocks", self._watch_clocks))
        try:
            await self._link.run(self._session)
        finally:
            clocks.cancel()
            await asyncio.gather(clocks, return_exceptions=True)

    async def aclose(self) -> None:
        """Close the link. The server goes on."""
        self._publisher.listener = None
        await self._recorder.aclose()
        await self._node.aclose()

    # The tasks of one connection

    async def _session(self) -> None:
        """Everything that needs the link. Raises NodeError when it breaks."""
        try:
            async with Together() as tasks:
                tasks.create_task(self._supervise("latency", self._link.measure))
                tasks.create_task(self._supervise("link", self._link.prove))
                tasks.create_task(self._supervise("processes", self._poll))
                tasks.create_task(self._supervise("GPUs", self._gpus.run))
                tasks.create_task(self._supervise("other servers", self._others.run))
                tasks.create_task(self._watch_selected())
        except BaseExceptionGroup as group:
            # Not `except*`: before Python 3.11.4 what is raised in it comes out in a group, which nobody catches.
            if group.split(NodeError)[1] is not None:
                raise
            raise plainest(group) from None

    async def _supervise(self, what: str, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task again when it fails without the link being lost; the failure is a note with a sentence until it has worked for a while.

        It ends when the task is done. Raises LinkLostError.
        """
        while True:
            working = asyncio.get_running_loop().call_later(NOTE_S, self._note, what, None)
            try:
                await task()
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the one place: a bug in one watch must not end the others, nor go unseen
                working.cancel()
                current = asyncio.current_task()
                if current is not None and current.cancelling():
                    raise asyncio.CancelledError from None  # a group told of its failures instead of its cancellation
                self._failed(what, plainest(error))
            else:
                self._note(what, None)
                return
            finally:
                working.cancel()
            await asyncio.sleep(TASK_RETRY_S)

    def _failed(self, what: str, error: BaseException) -> None:
        if isinstance(error, LinkLostError):
            raise error from None
        if isinstance(error, EagletuiError):
            self._unable = str(error) if what == "processes" and not self._discovered else self._unable
            self._note(what, f"{what}: {error}")
            return
        told = f"{type(error).__name__}: {error}"
        self._note(what, f"{what}: stopped by an error of eagletui itself ({told}); it is started again")

    async def _watch_clocks(self) -> None:
        before = read_clocks()
        while True:
            await asyncio.sleep(CLOCK_S)
            before = self.compare_clocks(before, read_clocks())

    def compare_clocks(self, before: Clocks, now: Clocks) -> Clocks:
        """What is done when time passed without us between two looks at the clocks. Gives the later look."""
        gap = missed(before, now, CLOCK_S)
        if gap is not None:
            self._missed(gap, now.steady)
        return now

    def _missed(self, gap: Missed, now: float) -> None:
        if gap.kind == "slept":
            self._sleeps.add(now, gap.seconds)
            self._fresh_since = now
        if self._watch is not None:
            self._watch.missed(gap, now)
        if gap.kind == "slept" or self._link.view.state != "connecting":  # a question on the terminal stops us, too
            self._note("sleep", gap.sentence())
            asyncio.get_running_loop().call_later(SLEPT_NOTE_S, self._note, "sleep", None)
        self._link.woke()

    def _link_up(self, now: float) -> None:
        self._fresh_since = now
        self._others.look_again()
        if self._watch is not None:
            self._watch.link_up(now)

    def _link_lost(self, at: float) -> None:
        self._others.verdicts = {}
        self._launches.link_lost()
        if self._watch is not None:
            self._watch.link_lost(at)

    async def _watch_selected(self) -> None:
        """One watch at a time: it is ended and another begun when another server is chosen."""
        while True:
            self._reselect.clear()
            watch = self._watch
            if watch is None:
                await self._reselect.wait()
                continue
            running = asyncio.create_task(self._supervise(f"server {watch.server.id}", watch.run))
            changed = asyncio.create_task(self._reselect.wait())
            try:
                await asyncio.wait((running, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                if not running.done():
                    running.cancel()
                # Gathered, not waited for: when this task is ended itself nobody else takes what it failed by.
                await asyncio.gather(running, changed, return_exceptions=True)
            if running.done() and not running.cancelled():
                running.result()
                if not self._reselect.is_set():
                    await self._reselect.wait()

    async def _poll(self) -> None:
        """Discovery, then the family each tick, and discovery again when there is reason to; over one poller after another."""
        while True:
            async with open_poller(self._node) as stream:
                poller = Poller(stream)
                reading = asyncio.create_task(poller.read_answers())
                try:
                    shell = await poller.shell()
                    self._keeper.began(shell)
                    first = await poller.all()  # before the table is read: whoever comes after that is new to it
                    await self._discover()
                    await self._tick(poller, reading, Newcomers(first, shell))
                finally:
                    self._keeper.ended()
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)  # whoever waited for an answer was told why

    async def _tick(self, poller: Poller, reading: asyncio.Task[None], newcomers: Newcomers) -> None:
        """Until the poller's lease is to be renewed."""
        looked = looked_at_log = discovered = began = time.monotonic()
        settling = False
        while time.monotonic() - began < RENEW_S:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._look.wait()
            if reading.done():
                await reading
            now = time.monotonic()
            watch = self._watch
            look = self._look.is_set()
            young = newcomers.young(now)
            if watch is not None and watch.launcher_alive is not False:
                launcher = (watch.server.launcher.pid, watch.server.launcher.started)
                answer = await poller.family([*self._family.pids, *young])
                look = newcomers.renamed(answer.rows) or look
                left = self._family.polled(answer, launcher, stopping=watch.stopping)
                family = self._family
                await watch.polled(poller, answer, family)
                look = look or (left and not family.launcher_alive)
                look = look or (family.renamed and now - looked >= LOOK_STARTING_S)
            elif young:
                look = newcomers.renamed((await poller.family(young)).rows) or look
            await self._recorder.tick(poller, watch, self._family.pids)
            if watch is not None and now - looked_at_log >= LOOK_AT_LOG_S:
                looked_at_log = now
                await watch.log.look(poller.look)
            every = self._look_every_s(now)
            look = look or self._launches.is_due(now, self._shown())
            if not look and now - looked >= every:
                looked = now
                changed = newcomers.changed(await poller.all(), {pid for pid, _ in members(self._inventory)}, now)
                # Who came may have become another program since, and a shell that was there may: its pid tells nothing.
                look = changed or settling or (every < LOOK_AGAIN_S and now - discovered >= LOOK_AGAIN_S)
                settling = changed
            if look:
                self._look.clear()
                self._family.renamed = False
                looked = discovered = now
                await self._discover()

    def _look_every_s(self, now: float) -> float:
        watch = self._watch
        if watch is None or watch.started is None or now - watch.started < YOUNG_S:
            return LOOK_STARTING_S
        return LOOK_AGAIN_S if watch.verdict(now).state is State.READY else LOOK_STARTING_S

    async def _discover(self) -> None:
        before = members(self._inventory)
        try:
            self._inventory = await find_servers(self._node, self._launches.read)
        except (CommandTimeout, ChannelError) as error:
            self._note("discovery", str(error))
            return
        self._note("discovery", None)
        self._inventory_wall = time.time()
        self._discovered = True
        self._launches.found(self._inventory)
        self._others.found()
        self._choose()
        if members(self._inventory) != before:
            self._gpus.processes_changed()
        self._mark()

    def _show_worst(self, id_: str) -> None:
        if self._wanted is None and self._port is None:
            self._wanted = id_
            self._choose()
            self._wanted = None

    def _skew_s(self) -> float | None:
        """The node's clock minus ours, as good as the second that it tells."""
        epoch = self._inventory.epoch_s
        return None if epoch is None else epoch - self._inventory_wall

    # Which server

    def _choose(self) -> None:
        """Keep the watched server while its launcher lives; take its successor, or the one that was asked for."""
        servers = self._inventory.servers
        watch = self._watch
        if (launched := self._launches.followed(servers)) is not None:
            self._wanted, self._chosen = launched.id, True
            self._port = launched.port if self._port is not None else None
            self._log_path = None  # it named the log of the one before
        server = launched or chosen(
            servers, wanted=self._wanted, port=self._port, current=watch.server if watch else None
        )
        server = server or self._launches.remembered(self._port, self._shown())
        if server is None:
            return  # a watched server that died stays in view, with its log
        server = with_log(server, self._log_path)
        if watch is not None and same_launch(watch.server, server):
            watch.found(server)
            self._family.found(server)
            return
        if (
            watch is not None
            and watch.launcher_alive is not False
            and self._wanted is None
            and still_there(watch.server, servers)
        ):
            return
        started = None if server.age_s is None else time.monotonic() - server.age_s
        self._watch = ServerWatch(
            self._node,
            server,
            keeper=self._keeper,
            started=started,
            skew_s=self._skew_s(),
            gpus=lambda: self._gpus.view,
            launches=self._launches,
            measuring=self.measure,
            on_change=self._mark,
        )
        self._family = FamilyCount()
        self._family.found(server)
        self._reselect.set()
        self._mark()

    def _shown(self) -> Shown:
        watch = self._watch
        return Shown(None, False) if watch is None else Shown(watch.server, watch.launcher_alive is not False)

    @property
    def _port_shown(self) -> int | None:
        return self._watch.server.port if self._watch is not None else self._port

    def _verdict(self, now: float, instead: Verdict | None) -> Verdict:
        link = self._link.view
        if link.state == "down" or (link.state == "connecting" and self._link.was_up):
            return absent_link(link.error, link.lost_at)
        if instead is not None:
            return instead
        if self._watch is not None:
            return self._watch.verdict(now)
        if not self._discovered:
            return before_discovery(self._node.name, self._unable, connecting=link.state == "connecting")
        told = self._launches.absence(self._port, time.time())
        return told or nobody(self._node.name, self._port, self._inventory.servers)

    def _diagnosis(self, verdict: Verdict, instead: Verdict | None, now: float) -> Diagnosis | None:
        """Why the shown server failed or stands; a launch that no server came of has no log that could tell."""
        if self._watch is None or instead is not None:
            return never_started(verdict)
        return self._watch.diagnosis(verdict, now)

    # Changes

    def _note(self, key: str, text: str | None) -> None:
        if text is None:
            self._notes.pop(key, None)
        else:
            self._notes[key] = text
        self._mark()

    def _mark(self) -> None:
        self._publisher.mark()

    def _changed(self) -> None:
        self.revision += 1
