"""Steps 6 and 7 with real processes: what stands is recorded, and what never started says so within six seconds, in its own words."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.errors import NeverStartedError, NothingThereError, OvertakenError, RefusedError
from eagletui.launching.launch import launch
from eagletui.launching.launchers.registry import launcher
from eagletui.launching.records import create, new_id, prune, read_records, update
from eagletui.launching.steps import STARTED_WITHIN_S
from eagletui.launching.verify import Launched, never_started, printed_of, shortcomings, verify
from eagletui.servers.record import Record
from eagletui.shell.keeper import KeeperState, Output
from eagletui.shell.masking import MASK
from eagletui.shell.records import KEPT, Written
from tests.launching.acting import Place, acting_here, take_over
from tests.locked import end_session

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
SECRET = "sk-launch-7f3e9d1c5b"
SLACK_S = 5.0
"""What a machine that has much else to do may take longer (0.4 s where it has not)."""


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    async with acting_here(tmp_path) as found:
        yield found


async def fails(place: Place, *argv: str) -> tuple[NeverStartedError, float]:
    record = await place.written(place.recipe(*argv))
    began = time.monotonic()
    with pytest.raises(NeverStartedError) as caught:
        await verify(place.acting, await launch(place.acting, record))
    assert caught.value.exit_status == 18
    return caught.value, time.monotonic() - began


async def test_the_crash_that_this_began_with(place: Place) -> None:
    """The launch command dies before its log exists: it is told at once, instead of being waited for for twelve minutes."""
    error, took = await fails(place, "/opt/gone/bin/python", "-m", "sglang.launch_server")
    assert took < STARTED_WITHIN_S + SLACK_S
    assert error.status == 127
    assert "/opt/gone/bin/python" in error.printed[-1]
    assert "exit status 127 (there is no such program)" in str(error)
    assert "its log is" in str(error).lower()


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("echo 'usage: x'; echo 'error: unrecognized arguments: --tpp' >&2; exit 2", 2, "unrecognized arguments"),
        (f"echo 'api_key={SECRET}'; kill -s KILL $$", 137, "ended by signal 9"),
        ("exit 0", 0, "nothing of it goes on"),
    ],
)
async def test_what_dies_at_once_is_told_in_its_own_words(place: Place, script: str, status: int, words: str) -> None:
    error, took = await fails(place, "sh", "-c", script)
    assert took < STARTED_WITHIN_S + SLACK_S
    assert error.status == status
    assert words in str(error)
    assert SECRET not in str(error) + str(error.printed)


async def test_what_stands_is_recorded_and_outlives_us(place: Place) -> None:
    record = await place.written(place.recipe("sleep", "600", env={"HF_TOKEN": SECRET}))
    assert not [path for path in place.folder.rglob("record.json") if SECRET in path.read_text()]
    launched = await verify(place.acting, await launch(place.acting, record))
    assert launched.notes == ()
    assert launched.process is not None
    pid, started = launched.process
    assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00600\x00"
    assert os.getsid(pid) != os.getsid(0)
    assert launched.record.boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert await update(place.acting, replace(launched.record, step="verify")) is None
    (kept,) = (await read_records(place.node)).records
    assert kept.alive
    assert kept.relaunchable
    assert (kept.record.process, kept.record.step, kept.record.exit_status) == ((pid, started), "verify", None)
    assert dict(kept.record.environment)["HF_TOKEN"] == MASK
    with pytest.raises(NeverStartedError, match="launched before"):
        await launch(place.acting, record)
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + 20
    while (kept := (await read_records(place.node)).records[0]).record.exit_status is None:
        assert time.monotonic() < until
    assert kept.record.exit_status == 128 + signal.SIGTERM
    assert not kept.alive
    assert await prune(place.acting, KEPT) == 0


async def test_what_is_not_as_it_should_be_is_left_alone_and_said(place: Place) -> None:
    record = await place.written(place.recipe("sh", "-c", "sleep 600 & exit 0"))
    launched = await verify(place.acting, await launch(place.acting, record))
    assert launched.process is not None
    assert Path(f"/proc/{launched.process[0]}/cmdline").read_bytes() == b"sleep\x00600\x00"
    assert "put itself in the background" in launched.notes[0]
    recipe = place.recipe("sh", "-c", "exec 2>elsewhere; echo now; exec sleep 600")
    launched = await launch(place.acting, await place.written(recipe))
    until = time.monotonic() + 20
    while not Path(recipe.log).read_text():
        assert time.monotonic() < until
    state = launcher("setsid").read_look(await place.node.run(launcher("setsid").look(launched.record)))
    launched = replace(launched, state=state, began=launched.began - STARTED_WITHIN_S)  # the time is over
    launched = await verify(place.acting, launched)
    assert "its output goes to" in launched.notes[0]
    assert "elsewhere" in launched.notes[0]


async def test_a_launch_again_from_its_record_needs_nothing_secret_here(place: Place) -> None:
    """`u`, and the start of one that crashed: argv and environment are copied on the node, with the flags that were changed."""
    show = "import os, sys; print(sys.argv[1:], os.environ['HF_TOKEN'], flush=True)"
    recipe = place.recipe(sys.executable, "-S", "-c", show, "--api-key", SECRET, "--tp", "8", env={"HF_TOKEN": SECRET})
    first = await place.written(recipe)
    known = (await read_records(place.node)).of(first.id)
    assert known is not None
    assert SECRET not in repr(known)
    again = replace(
        recipe,
        argv=(*known.record.command[:7], "4"),
        env=known.record.environment,
        source="record",
        log=f"{recipe.log}.2",
    )
    second = await place.written(again, previous=first.id)
    with pytest.raises(NeverStartedError):  # it prints, and ends
        await verify(place.acting, await launch(place.acting, second))
    assert Path(again.log).read_text() == f"['--api-key', '{SECRET}', '--tp', '4'] {SECRET}\n"
    with pytest.raises(RefusedError, match="masked"):
        await place.written(
            replace(again, argv=(*again.argv, "--hf-token", MASK), log=f"{recipe.log}.3"), previous=first.id
        )
    with pytest.raises(NothingThereError, match="no longer"):
        await place.written(again, previous="20200101T000000000Z-aaaaaa")


async def test_a_launch_whose_keeper_was_ended_with_it_is_not_waited_for(place: Place) -> None:
    launched = await launch(place.acting, await place.written(place.recipe("sleep", "600")))
    assert launched.record.keeper is not None
    end_session(*launched.record.keeper)
    began = time.monotonic()
    with pytest.raises(NeverStartedError, match="its keeper was ended, too") as caught:
        await verify(place.acting, launched)
    assert time.monotonic() - began < STARTED_WITHIN_S + SLACK_S
    assert caught.value.status is None


async def test_the_fence(place: Place) -> None:
    """One that was overtaken launches nothing and writes nothing."""
    record = await place.written(place.recipe("sleep", "600"))
    await take_over(place)
    with pytest.raises(OvertakenError):
        await launch(place.acting, record)
    with pytest.raises(OvertakenError):
        await update(place.acting, replace(record, step="launch"))
    with pytest.raises(OvertakenError):
        await place.written(place.recipe("sleep", "600"))
    (kept,) = (await read_records(place.node)).records
    assert not kept.begun
    assert kept.record.step is None


async def test_a_dry_run_changes_nothing_and_goes_through_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    async with acting_here(tmp_path, dry=True) as place:
        record = await place.written(place.recipe("sleep", "600"))
        await verify(place.acting, await launch(place.acting, record))
        assert await update(place.acting, record) is None
        assert place.ran == ["record-create", "record-prune", "launch", "keeper-state", "keeper-state", "record-update"]
        assert list(tmp_path.iterdir()) == []


async def test_where_no_record_can_be_written_nothing_is_done(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/self/nowhere")
    with pytest.raises(RefusedError, match="cannot be written in /proc/self/nowhere") as caught:
        await place.written(place.recipe("sleep", "600"))
    assert caught.value.code == "no-record"
    assert "Nothing was stopped" in str(caught.value)
    bad = replace(place.recipe("sleep", "600"), argv=("sleep", "6\x0000"))
    with pytest.raises(RefusedError, match="NUL"):
        await create(place.acting, Record(new_id(), "start", "", ""), bad)
    for change in ({"argv": ()}, {"log": "a.log"}, {"cwd": "work"}):
        with pytest.raises(RefusedError, match="whole paths"):
            await create(place.acting, Record(new_id(), "start", "", ""), replace(place.recipe("x"), **change))


ALIVE = KeeperState(
    record=True, keeper=Written(10, 5, True), process=Written(11, 6, True), session=10, outputs=(Output(1, True), Output(2, True)), log_size=0
)  # fmt: skip


def test_what_is_not_as_it_should_be() -> None:
    assert shortcomings(ALIVE) == ()
    assert shortcomings(replace(ALIVE, session=11)) == ()
    assert "session of process 7" in shortcomings(replace(ALIVE, session=7))[0]
    assert "log does not exist" in shortcomings(replace(ALIVE, log_size=None))[0]
    assert "/dev/pts/1" in shortcomings(replace(ALIVE, outputs=(Output(2, False, "/dev/pts/1"),)))[0]
    assert shortcomings(KeeperState())


def test_a_unit_that_is_still_being_started_may_yet_start() -> None:
    record = Record("a", "start", "", "", launcher="systemd", handle="sgl.service")
    said = str(never_started(Launched(record, KeeperState(begun=True, complete=True), 0.0)))
    assert "being started (systemd sgl.service) and may yet be" in said
    assert "may yet" not in str(never_started(Launched(record, KeeperState(complete=True), 0.0)))


def test_last_words_are_masked_and_printable() -> None:
    state = KeeperState(tail=b"one\r\n\x1b[31mtwo \xff\n" + f"api_key='{SECRET}'\n\n".encode(), exit_status=1)
    assert printed_of(state)[0] == "one"
    assert "\x1b" not in "".join(printed_of(state))
    assert SECRET not in "".join(printed_of(state))
    record = Record("1-a", "start", "", "")
    assert "never began" in str(never_started(Launched(record, KeeperState(), 0.0)))
    assert "keeper was ended" in str(never_started(Launched(record, KeeperState(process=Written(2, 3, False)), 0.0)))
