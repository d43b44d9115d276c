"""The link: when it is tried again, what a sleep is, and what the monitor tells over a real sshd that is cut in several ways."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from eagletui.errors import (
    AuthError,
    ConfigError,
    ConnectError,
    EagletuiError,
    HostKeyError,
    LinkLostError,
    UnknownHostError,
    UsageError,
)
from eagletui.monitor import link as link_module
from eagletui.monitor import monitor as monitor_module
from eagletui.monitor import sleep
from eagletui.monitor.link import BACKOFF_S, GOOD_S, Backoff, needed
from eagletui.monitor.monitor import NodeMonitor
from eagletui.monitor.sleep import Clocks, Missed, Sleeps, missed, read_clocks
from eagletui.monitor.snapshot import Snapshot
from eagletui.nodes.registry import open_node
from eagletui.servers.model import State
from tests.blackhole import Proxy, proxied
from tests.engine import Engine, user_engine
from tests.requires import require
from tests.sshd import Sshd, children_of
from tests.watching import running, until


def pauses(*lives: float) -> list[float]:
    """The pauses after links that lived so long (0: the try failed)."""
    backoff, out = Backoff(), []
    for life in lives:
        if life:
            backoff.was_up(life)
        out.append(backoff.next_s(0.5))
    return out


def test_pauses_grow_to_a_limit_and_begin_anew_only_after_a_good_link() -> None:
    assert pauses(GOOD_S, 0, 0, 0, 0, 0, 0) == [1, 2, 4, 8, 15, 30, 30]
    assert pauses(GOOD_S, 0.1, 0.1, 3.0) == [1, 2, 4, 8]
    assert pauses(GOOD_S, 0, 0, GOOD_S + 1, 0) == [1, 2, 4, 1, 2]


def test_pauses_have_a_jitter() -> None:
    low, high = Backoff().next_s(0.0), Backoff().next_s(1.0)
    assert low == pytest.approx(BACKOFF_S[0] * 0.8)
    assert high == pytest.approx(BACKOFF_S[0] * 1.2)


@pytest.mark.parametrize(
    ("error", "asked", "what"),
    [
        (LinkLostError("lost"), False, None),
        (ConnectError("refused"), False, None),
        (UnknownHostError("no DNS yet"), False, None),
        (LinkLostError("lost"), True, "login"),
        (ConnectError("no route"), True, "login"),
        (AuthError("a code is asked", needs_person=True), False, "login"),
        (HostKeyError("unknown", needs_person=True), False, "login"),
        (AuthError("refused"), False, "look"),
        (AuthError("refused"), True, "look"),
        (HostKeyError("changed"), True, "look"),
        (UsageError("no such option"), False, "look"),
        (ConfigError("line 3"), False, "look"),
    ],
)
def test_who_has_to_act(error: EagletuiError, asked: bool, what: str | None) -> None:
    assert needed(error, asked_person=asked) == what


START = Clocks(1_000.0, 50.0, 70.0)


@pytest.mark.parametrize(
    ("wall", "steady", "going", "found"),
    [
        (1.0, 1.0, 1.0, None),
        (5.9, 5.9, 5.9, None),
        (751.0, 1.0, 751.0, Missed("slept", 750.0)),
        (751.0, 751.0, 751.0, Missed("stopped", 750.0)),
        (7.0, 7.0, 7.0, Missed("stopped", 6.0)),
        (751.0, 1.0, 1.0, Missed("set", 750.0)),
        (-3_600.0, 1.0, 1.0, None),
        (1.0, 1.0, 30.0, Missed("slept", 29.0)),
    ],
)
def test_time_that_passed_without_us(wall: float, steady: float, going: float, found: Missed | None) -> None:
    now = Clocks(START.wall + wall, START.steady + steady, START.going + going)
    assert missed(START, now, 1.0) == found


def test_a_sleep_in_words() -> None:
    assert Missed("slept", 750.2).sentence() == "this machine slept 12:30"
    assert Missed("stopped", 3_725.0).sentence() == "eagletui was stopped for 1:02:05"


def test_what_was_before_a_sleep_is_older_by_it() -> None:
    sleeps = Sleeps()
    sleeps.add(100.0, 750.0)
    sleeps.add(200.0, 50.0)
    assert [sleeps.aged(at) for at in (90.0, 150.0, 250.0)] == [-710.0, 100.0, 250.0]


# --- over a real sshd


@asynccontextmanager
async def watching(sshd: Sshd, ssh_port: int, port: int | None = None) -> AsyncIterator[NodeMonitor]:
    """A monitor of a node behind `ssh_port`, and what becomes of the link's state and verdict in `monitor.seen`."""
    config = sshd.write_config(
        "link_config", "Host *", "  StrictHostKeyChecking yes", f"  HostKeyAlias [127.0.0.1]:{sshd.port}"
    )
    node = open_node(f"{sshd.user('bash')}@127.0.0.1:{ssh_port}", config_file=config)
    monitor = NodeMonitor(node, port=port)
    async with running(monitor):
        yield monitor


@pytest.fixture
def engine(sshd_server: Sshd) -> Iterator[Engine]:
    require("procfs")
    if not Path("/usr/bin/python3").exists():
        pytest.skip("needs /usr/bin/python3, for a user that may not see ours")
    user = sshd_server.user("bash")
    with user_engine(user, Path(pwd.getpwnam(user).pw_dir)) as running:
        yield running


@pytest.fixture
def proxy(sshd_server: Sshd) -> Iterator[Proxy]:
    with proxied(sshd_server.port) as between:
        yield between


def is_ready(snapshot: Snapshot) -> bool:
    return snapshot.link.state == "up" and snapshot.verdict.state is State.READY and snapshot.family_at is not None


async def test_a_lost_link_counts_down_and_no_old_health_is_ready_afterwards(
    sshd_server: Sshd, proxy: Proxy, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "BACKOFF_S", (0.4, 0.8, 30.0))
    async with watching(sshd_server, proxy.port, engine.port) as monitor:
        before = await until(monitor, lambda s: is_ready(s) and len(s.series["gen_tok_s"]) > 0)
        proxy.refuse()
        proxy.drop()
        down = await until(monitor, lambda s: s.link.retry_at is not None)
        assert down.verdict.state is State.OFFLINE
        assert down.link.lost_at is not None
        assert down.link.retry_at is not None
        assert 0 < down.link.retry_at - down.at <= 0.5
        assert down.health.status == before.health.status == 200  # what was last seen stays
        later = await until(monitor, lambda s: s.link.retry_at is not None and s.link.retry_at - s.at > 5)
        assert "refused the connection" in (later.link.error or "")
        assert later.link.lost_at == down.link.lost_at
        assert later.uptime_s == pytest.approx(down.uptime_s, abs=0.01)  # nobody knows whether it lives on
        os.killpg(engine.process.pid, signal.SIGSTOP)  # it will not answer: only old evidence says that it is ready
        proxy.forward()
        monitor.connect_now()
        seen: list[Snapshot] = []
        monitor.on_change = lambda: seen.append(monitor.snapshot())
        up = await until(monitor, lambda s: s.link.state == "up", 10)
        assert up.link.lost_at is None
        assert up.health.at is not None
        assert up.health.at < up.fresh_since
        await until(monitor, lambda s: s.family_at is not None and s.family_at > s.fresh_since)
        seen.append(monitor.snapshot())
        assert not [s.verdict for s in seen if s.verdict.state is State.READY]
        assert {s.verdict.reason.code for s in seen if s.link.state == "up"} == {"looking"}
        os.killpg(engine.process.pid, signal.SIGCONT)
        again = await until(monitor, is_ready)
        (gap,) = again.series["gen_tok_s"].gaps(0, again.at)
        assert gap[0] <= down.link.lost_at <= gap[1] <= again.fresh_since
        assert None in again.link.latencies


async def test_a_login_that_needed_a_person_is_not_tried_without_one(sshd_server: Sshd, proxy: Proxy) -> None:
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.discovered)
        monitor._link._asked_person = True  # as after a login with a code
        before = proxy.accepted
        proxy.drop()
        down = await until(monitor, lambda s: s.link.needs is not None)
        assert down.link.needs == "login"
        assert down.link.retry_at is None
        assert "the login needs you: press c to log in again" in down.verdict.reason.text
        monitor._missed(Missed("slept", 750.0), time.monotonic())
        await asyncio.sleep(2.5)
        assert proxy.accepted == before
        assert monitor.snapshot().link.state == "down"
        monitor.connect_now()
        await until(monitor, lambda s: s.link.state == "up")
        assert proxy.accepted == before + 1


async def test_what_no_retry_cures_waits_for_a_person(sshd_server: Sshd, proxy: Proxy) -> None:
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.discovered)
        known = sshd_server.known_hosts.read_text()
        keys = Path(pwd.getpwnam(sshd_server.user("bash")).pw_dir, ".ssh/authorized_keys")
        allowed = keys.read_text()
        try:
            keys.write_text("")
            proxy.drop()
            down = await until(monitor, lambda s: s.link.needs is not None)
            assert down.link.needs == "look"
            assert "press c to try" in (down.link.error or "")
            tries = proxy.accepted
            await asyncio.sleep(2.5)
            assert proxy.accepted == tries
        finally:
            keys.write_text(allowed)
            assert sshd_server.known_hosts.read_text() == known
        monitor.connect_now()
        await until(monitor, lambda s: s.link.state == "up")


async def test_after_a_sleep_a_silent_link_is_noticed_at_once(
    sshd_server: Sshd, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "SURE_S", 1.0)
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.gpus.at is not None and s.discovered)
        gpus = monitor.snapshot().gpus.at or 0.0
        proxy.black_hole()
        clocks = read_clocks()
        monitor.compare_clocks(replace(clocks, going=clocks.going - 750), clocks)
        began = time.monotonic()
        told = await until(monitor, lambda s: "this machine slept 12:30" in s.notes, 1)
        assert told.gpus.at is not None
        assert told.at - told.gpus.at >= 750  # its age counts the sleep
        assert told.gpus.at <= gpus - 740
        down = await until(monitor, lambda s: s.link.state == "down", 5)
        assert time.monotonic() - began < 5
        assert "did not answer after a pause" in (down.link.error or "")
        proxy.forward()
        await until(monitor, lambda s: s.link.state == "up")


async def test_a_link_that_outlived_the_sleep_stays(sshd_server: Sshd, proxy: Proxy) -> None:
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.discovered)
        before = proxy.accepted
        monitor._missed(Missed("slept", 750.0), time.monotonic())
        await asyncio.sleep(1.0)
        assert monitor.snapshot().link.state == "up"
        assert proxy.accepted == before


async def test_waking_cuts_a_pause_short(sshd_server: Sshd, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "BACKOFF_S", (60.0,))
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.discovered)
        proxy.drop()
        await until(monitor, lambda s: s.link.retry_at is not None)
        monitor._missed(Missed("stopped", 20.0), time.monotonic())
        await until(monitor, lambda s: s.link.state == "up", 10)


async def test_when_the_node_was_heard_last_is_known_while_the_link_is_up(
    sshd_server: Sshd, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "PING_EVERY_S", 0.1)
    async with watching(sshd_server, proxy.port) as monitor:
        began = (await until(monitor, lambda s: s.link.heard_at is not None)).link.heard_at or 0.0
        await until(monitor, lambda s: (s.link.heard_at or 0.0) > began)
        proxy.black_hole()
        await asyncio.sleep(0.5)  # what was under way
        silent = monitor.snapshot().link.heard_at
        await asyncio.sleep(1.0)
        assert monitor.snapshot().link.state == "up"
        assert monitor.snapshot().link.heard_at == silent
        proxy.drop()
        assert (await until(monitor, lambda s: s.link.state != "up")).link.heard_at is None
        proxy.forward()


async def test_a_silent_try_is_cut_short_by_a_person(
    sshd_server: Sshd, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "BACKOFF_S", (0.1,))
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.discovered)
        proxy.black_hole()
        proxy.drop()
        await until(monitor, lambda s: s.link.state == "connecting" and s.link.lost_at is not None)
        await asyncio.sleep(0.3)
        proxy.abandon()  # this try would wait for its 15 s
        proxy.forward()
        monitor.connect_now()
        await until(monitor, lambda s: s.link.state == "up", 8)


async def test_a_dead_poller_is_a_note_that_goes(
    sshd_server: Sshd, proxy: Proxy, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "TASK_RETRY_S", 0.5)
    monkeypatch.setattr(monitor_module, "NOTE_S", 1.0)
    others = {child for pid in sshd_server.connections() for child in children_of(pid)}
    async with watching(sshd_server, proxy.port, engine.port) as monitor:
        await until(monitor, is_ready)
        assert monitor._keeper.pid not in others
        os.kill(monitor._keeper.pid, signal.SIGKILL)
        noted = await until(monitor, lambda s: any("processes" in note for note in s.notes))
        assert noted.link.state == "up"
        counted = noted.family_at or 0.0
        await until(monitor, lambda s: (s.family_at or 0.0) > counted)
        end = await until(monitor, lambda s: not any("processes" in note for note in s.notes))
        assert is_ready(end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine.children()["sglang::scheduler_TP1"], signal.SIGKILL)
        await until(monitor, lambda s: s.verdict.reason.code == "rank-missing", 10)


async def test_a_process_that_was_stopped_notices_it(
    sshd_server: Sshd, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleep, "GAP_S", 0.6)
    monkeypatch.setattr(monitor_module, "SLEPT_NOTE_S", 0.5)
    async with watching(sshd_server, proxy.port) as monitor:
        await until(monitor, lambda s: s.discovered)
        time.sleep(2.5)  # the loop stands still, as the whole process does in a SIGSTOP
        told = await until(monitor, lambda s: any("eagletui was stopped for 0:0" in note for note in s.notes), 5)
        assert told.link.state == "up"
        await until(monitor, lambda s: not any("stopped" in note for note in s.notes), 10)
