"""The driver of the sequence: steps in their order, every way to end, and what is true then. What the steps do on a node is tested on real ones."""

# ruff: noqa: ARG002 - what is scripted needs no arguments
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import pytest

from eagletui.errors import (
    CommandTimeout,
    LaunchingError,
    LinkLostError,
    NeverStartedError,
    NothingThereError,
    OvertakenError,
    RefusedError,
    StopFailedError,
)
from eagletui.launching.plan import Check, Plan, Refusal, Wish
from eagletui.launching.recipe import Recipe
from eagletui.launching.sequence import SequenceRun
from eagletui.launching.steps import Ending, Progress, StepName
from eagletui.launching.watch import Watched
from eagletui.launching.work import Death, Finding, Found, Verified
from eagletui.servers.family import Identity
from eagletui.servers.model import LogSource, Process, Server
from eagletui.servers.record import Kind, Record

OLD, NEW = (10, 1), (20, 2)
PROCESS = Process(10, 1, 10, 10, "S", "python", 1, 1000)
SERVER = Server("sglang:30000", "sglang", PROCESS, (), "me", 30000, "/m", ("python",), "/", LogSource("/l"))
FAMILY = Found(OLD, (OLD, (11, 1)))
RECIPE = Recipe(("python",), (), "/", "/new.log", "process", port=30000)


@dataclass
class Scripted:
    """Does nothing, and says what it was asked. `then` is done in a step's stead."""

    then: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    found: Found = FAMILY
    checks: tuple[Check, ...] = (Check("a.b", "ok", "fine"),)
    asked: list[str] = field(default_factory=list)
    noted: list[tuple[str, Ending]] = field(default_factory=list)
    unwritable: str | None = None
    locked: bool = False
    killed_early: bool = False

    async def _do(self, name: str) -> None:
        self.asked.append(name)
        if name in self.then:
            await self.then[name]()

    async def take_lock(self) -> str:
        await self._do("lock")
        self.locked = True
        return ""

    async def release_lock(self) -> None:
        self.asked.append("unlock")
        self.locked = False

    async def check(self) -> tuple[Check, ...]:
        await self._do("check")
        return self.checks

    record: Record | None = None

    async def write_record(self) -> str:
        await self._do("record")
        return "r1"

    async def note(
        self, step: StepName, *, ending: Ending = "running", text: str = "", watched: Watched | None = None
    ) -> str | None:
        self.noted.append((step.value, ending))
        return self.unwritable

    async def identify(self) -> Found:
        await self._do("identify")
        return self.found

    async def stop(self, found: Found, stop_now: asyncio.Event) -> Finding:
        await self._do("stop")
        self.killed_early = stop_now.is_set()
        return Finding("all gone")

    async def gpus_free(self) -> Finding:
        await self._do("gpus")
        return Finding("free")

    async def leftovers(self) -> Finding:
        await self._do("leftovers")
        return Finding("clean")

    async def launch(self) -> Finding:
        await self._do("launch")
        return Finding("started")

    async def verify(self) -> Verified:
        await self._do("verify")
        return Verified(NEW, "it runs")

    async def keep(self, process: Identity) -> str | None:
        self.asked.append("keep")
        return None

    async def outcome(self, process: Identity, watched: Watched) -> str | None:
        self.asked.append(f"outcome {watched.ending}")
        return None

    async def look_after_death(self) -> Death:
        return Death(137, ("killed",))


@dataclass
class Watches:
    """A watch that ends as it is told."""

    watched: Watched
    asked: Progress | None = None

    async def until_ready(self, progress: Progress) -> Watched:
        self.asked = progress
        return self.watched


def plan(kind: Kind = "restart", **others: object) -> Plan:
    made = Plan(Wish(kind), "gpu", SERVER, recipe=None if kind == "stop" else RECIPE)
    return replace(made, **others)  # type: ignore[arg-type]


def raising(error: Exception) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


async def for_ever() -> None:
    await asyncio.Event().wait()


async def reached(run: SequenceRun, step: StepName) -> None:
    async with asyncio.timeout(10):
        while run.progress.step is None or run.progress.step.name is not step or run.progress.step.status != "running":
            await asyncio.sleep(0.005)


async def done(work: Scripted, made: Plan | None = None, watch: Watches | None = None) -> Progress:
    run = SequenceRun(made or plan(), work, watch=watch)
    run.begin()
    async with asyncio.timeout(10):
        return await run.wait()


async def test_a_restart_takes_the_lock_and_writes_the_record_before_anything_is_stopped() -> None:
    work, watch = Scripted(), Watches(Watched("done", "ready", 80.0))
    progress = await done(work, watch=watch)
    assert work.asked == ["lock", "check", "record", "identify", "stop", "gpus", "leftovers", "launch", "verify", "keep", "unlock", "outcome done"]  # fmt: skip
    assert (progress.ending, progress.ready_s, progress.launched, progress.record) == ("done", 80.0, NEW, "r1")
    assert watch.asked is not None
    assert (watch.asked.launched, watch.asked.port, watch.asked.log) == (NEW, 30000, "/new.log")
    assert [name for name, _ in work.noted][:4] == ["identify", "stop", "gpus-free", "leftovers"]
    assert work.noted[-1] == ("ready", "done")


async def test_without_a_watch_it_ends_when_the_new_server_runs() -> None:
    work = Scripted()
    progress = await done(work)
    assert (progress.ending, progress.result) == ("done", 0)
    assert [one.status for one in progress.steps[-2:]] == ["skipped", "skipped"]
    assert not work.locked


async def test_a_stop_ends_after_the_leftovers_and_a_start_stops_nobody() -> None:
    work = Scripted()
    progress = await done(work, plan("stop"))
    assert progress.now_true == "The old server (sglang:30000, pid 10) is gone."
    assert "launch" not in work.asked
    work = Scripted(found=Found(None, ()))
    progress = await done(work, plan("start", server=None))
    assert "stop" not in work.asked
    assert {"gpus", "leftovers", "launch"} <= set(work.asked)


async def test_preflight_that_fails_leaves_the_old_server_running() -> None:
    work = Scripted(checks=(Check("launch.executable", "fail", "/x is not there", "install it"),))
    progress = await done(work)
    assert (progress.ending, progress.result) == ("refused", 16)
    assert "install it" in progress.text
    assert "left running, untouched" in progress.now_true
    assert {"record", "identify", "stop"}.isdisjoint(work.asked)
    assert not work.locked


@pytest.mark.parametrize(
    "found",
    [
        Found(OLD, (OLD,), refusal=Refusal("systemd-unit", "vllm.service keeps it")),
        Found(OLD, (OLD,), other="another server (pid 99) than planned listens on port 30000"),
    ],
)
async def test_who_is_there_under_the_lock_decides(found: Found) -> None:
    work = Scripted(found=found)
    progress = await done(work)
    assert (progress.ending, progress.step and progress.step.name) == ("refused", StepName.IDENTIFY)
    assert "stop" not in work.asked
    assert not work.locked


ENDS: list[tuple[str, Exception, Ending, int, str]] = [
    ("lock", RefusedError("held by bob", code="locked"), "refused", 16, "left running"),
    ("record", RefusedError("the disk is full"), "refused", 16, "left running"),
    ("check", CommandTimeout("no answer"), "refused", 16, "left running"),
    ("stop", StopFailedError("pid 11 is left"), "failed", 17, "not gone"),
    ("stop", OvertakenError("taken over"), "overtaken", 16, "not gone"),
    ("record", NothingThereError("the record is gone"), "refused", 16, "left running"),
    ("identify", LaunchingError("no /proc"), "refused", 16, "left running"),
    ("stop", ZeroDivisionError("oops"), "failed", 17, "not gone"),
    ("gpus", StopFailedError("GPU 3 is held"), "failed", 17, "is gone; nothing was launched"),
    ("leftovers", StopFailedError("port taken"), "failed", 17, "is gone; nothing was launched"),
    (
        "launch",
        NeverStartedError("no such program", status=127, printed=("sh: x",)),
        "never-started",
        18,
        "does not run",
    ),
    ("verify", NeverStartedError("died", status=1), "never-started", 18, "does not run"),
    ("verify", CommandTimeout("no answer"), "never-started", 18, "does not run"),
    ("identify", LinkLostError("gone"), "no-link", 20, "Nothing was stopped"),
    ("stop", LinkLostError("gone"), "no-link", 20, "ends without us"),
    ("launch", LinkLostError("gone"), "no-link", 20, "record on the node"),
]


@pytest.mark.parametrize(("step", "error", "ending", "status", "true"), ENDS)
async def test_a_step_that_fails_stops_there_and_says_what_is_true(
    step: str, error: Exception, ending: Ending, status: int, true: str
) -> None:
    work = Scripted(then={step: raising(error)})
    progress = await done(work)
    assert (progress.ending, progress.result) == (ending, status)
    assert true in progress.now_true
    assert work.asked.index(step) == len([one for one in work.asked if one != "unlock"]) - 1
    if ending not in {"no-link", "overtaken"}:
        assert not work.locked
    if isinstance(error, NeverStartedError):
        assert (progress.exit_status, progress.printed) == (error.status, error.printed)


async def test_an_abort_while_only_looking_ends_at_once() -> None:
    work = Scripted(then={"gpus": for_ever})
    run = SequenceRun(plan(), work)
    run.begin()
    await reached(run, StepName.GPUS)
    assert run.abort()
    progress = await run.wait()
    assert progress.ending == "aborted"
    assert "is stopped, nothing was launched; it can be started from its record" in progress.now_true
    assert progress.offers == ("go-on", "start")
    assert not work.locked


async def test_an_abort_of_a_stop_takes_effect_once_it_is_over() -> None:
    gone = asyncio.Event()

    async def drain() -> None:
        await gone.wait()

    work = Scripted(then={"stop": drain})
    run = SequenceRun(plan(), work)
    run.begin()
    await reached(run, StepName.STOP)
    assert "cannot be undone" in run.progress.why_not
    assert run.stop_now()
    assert run.abort()
    await asyncio.sleep(0.05)
    assert run.progress.ending == "running"
    gone.set()
    progress = await run.wait()
    assert progress.ending == "aborted"
    assert "nothing was launched" in progress.now_true
    assert {"gpus", "launch"}.isdisjoint(work.asked)
    assert work.killed_early


@pytest.mark.parametrize(("kind", "step"), [("stop", StepName.STOP), ("restart", StepName.LAUNCH)])
async def test_where_it_is_not_safe_an_abort_says_why(kind: Kind, step: StepName) -> None:
    hold = asyncio.Event()

    async def wait() -> None:
        await hold.wait()

    run = SequenceRun(plan(kind), Scripted(then={"stop" if kind == "stop" else "launch": wait}))
    run.begin()
    await reached(run, step)
    assert not run.abort()
    assert run.progress.why_not
    hold.set()
    assert (await run.wait()).ending == "done"


@pytest.mark.parametrize("aborted", [False, True])
@pytest.mark.parametrize(
    ("sent", "true"),
    [(None, "told to end and ends by itself"), (True, "ends by itself"), (False, "was not told to end yet")],
)
async def test_who_leaves_in_a_stop_gives_the_lock_back_and_the_record_stays_unfinished(
    aborted: bool, sent: bool | None, true: str
) -> None:
    work = Scripted(then={"stop": for_ever})
    work.record = Record("r1", "restart", "x", "me", stop_sent=sent)
    run = SequenceRun(plan(), work)
    run.begin()
    await reached(run, StepName.STOP)
    assert run.abort() or not aborted
    await run.leave()
    assert (run.progress.ending, run.progress.text) == ("aborted", "left at stop")
    assert true in run.progress.now_true
    assert "go-on" in run.progress.offers
    assert work.noted[-1] == ("stop", "running")
    assert not work.locked


async def test_who_leaves_before_anything_was_touched_leaves_nothing_to_go_on_with() -> None:
    work = Scripted(then={"identify": for_ever})
    run = SequenceRun(plan(), work)
    run.begin()
    await reached(run, StepName.IDENTIFY)
    await run.leave()
    assert work.noted[-1] == ("identify", "aborted")
    assert not run.progress.offers


async def test_a_record_that_cannot_be_written_is_a_note_and_not_the_end() -> None:
    progress = await done(Scripted(unwritable="the record could not be written: disk full"))
    assert progress.ending == "done"
    assert progress.now_true.count("disk full") == 1


@pytest.mark.parametrize(("ending", "status"), [("crashed", 13), ("stalled", 12), ("timed-out", 15), ("no-link", 20)])
async def test_a_watch_that_ends_badly(ending: Ending, status: int) -> None:
    watch = Watches(Watched(ending, "why"))  # type: ignore[arg-type]
    progress = await done(Scripted(), watch=watch)
    assert (progress.ending, progress.result, progress.text) == (ending, status, "why")
    assert progress.exit_status == (137 if ending == "crashed" else None)


async def test_it_goes_on_where_an_earlier_eagletui_left_it() -> None:
    work = Scripted(found=Found(None, ()))
    run = SequenceRun(plan(server=None), work, reached=StepName.LAUNCH, record="r0")
    run.begin()
    progress = await run.wait()
    assert (progress.ending, progress.record) == ("done", "r0")
    assert work.asked == ["lock", "launch", "verify", "keep", "unlock"]
    work = Scripted(found=Found(None, (OLD,)))
    run = SequenceRun(plan(server=None), work, reached=StepName.STOP, record="r0")
    run.begin()
    await run.wait()
    assert work.asked[:4] == ["lock", "identify", "stop", "gpus"]
    work, watch = Scripted(), Watches(Watched("done", "ready", 3.0))
    run = SequenceRun(plan(), work, watch=watch, reached=StepName.WATCH, launched=NEW, record="r0")
    run.begin()
    assert (await run.wait()).ready_s == 3.0
    assert "lock" not in work.asked
