"""The lock as a sequence holds it: taken or refused with a sentence, renewed meanwhile, given back, taken over from an eagletui that is gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagletui.errors import RefusedError
from eagletui.launching import lock as locking
from eagletui.launching.acting import Acting
from eagletui.launching.lock import Lock, has_ended, new_fence, this_client, who_holds
from eagletui.nodes.local import LocalNode
from eagletui.shell.lock import LEASE_S, ask_lock_take
from tests.requires import require
from tests.sshd import free_port

pytestmark = pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="nodes are Linux")


@pytest.fixture
def port() -> Iterator[int]:
    number = free_port()
    yield number
    place = Path(f"/tmp/eagletui-lock-{number}")
    if place.is_symlink():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)


def acting(*ports: int) -> Acting:
    return Acting(LocalNode(), new_fence(ports))


def lease(port: int) -> Path:
    return Path(f"/tmp/eagletui-lock-{port}/lease")


def old() -> str:
    return f"{int(float(Path('/proc/uptime').read_text().split()[0])) - LEASE_S - 1}\n"


async def test_it_is_held_told_and_given_back(port: int) -> None:
    first = acting(port)
    async with Lock(first, who="me@here") as lock:
        assert lock.notices == ()
        await lock.reached("stop")
        for reason in (str((await who_holds(first.node, (port,)))[0].text), await refused(port)):
            assert f"the lock of port {port} is held by me@here" in reason
            assert "(step stop), taken" in reason
            assert "It is free in" in reason
    assert await who_holds(first.node, (port,)) == ()
    assert not lease(port).exists()


async def test_a_takeover_under_way_is_told(port: int) -> None:
    async with Lock(acting(port), who="me@here"):
        lease(port).write_text(old())
        (lease(port).parent / "over").mkdir()
        (lease(port).parent / "over" / "since").write_text(f"{int(old()) + LEASE_S}\n")
        assert "is being taken over by somebody else at this moment" in await refused(port)


async def refused(*ports: int) -> str:
    with pytest.raises(RefusedError) as info:
        async with Lock(acting(*ports), who="you@there"):
            pytest.fail("it is another's")
    assert info.value.code == "locked"
    assert "Nothing was touched" in str(info.value)
    return str(info.value)


async def test_two_who_want_the_same_two_ports_never_hold_one_each(port: int) -> None:
    other = free_port()
    got: list[str] = []

    async def one(name: str, *ports: int) -> None:
        try:
            async with Lock(acting(*ports), who=name):
                got.append(name)
                await asyncio.sleep(1.0)
        except RefusedError:
            got.append("refused")

    await asyncio.gather(one("a", port, other), one("b", other, port))
    assert len([name for name in got if name != "refused"]) <= 1
    assert not lease(port).exists()
    assert not lease(other).exists()


async def test_it_is_renewed_while_nothing_else_is_run(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "RENEW_EVERY_S", 0.1)
    async with Lock(acting(port), who="me@here") as lock:
        lease(port).write_text(old())
        async with asyncio.timeout(10):
            while lease(port).read_text() == old() or int(lease(port).read_text()) < int(old()) + LEASE_S:
                await asyncio.sleep(0.05)
        (lease(port).parent / "token").write_text("anothers\n")
        async with asyncio.timeout(10):
            while not lock.overtaken:
                await asyncio.sleep(0.05)
    assert lease(port).exists(), "what is another's now is not given back"


async def test_of_an_eagletui_that_is_gone_it_is_taken_over_at_once(port: int) -> None:
    """Killed with -9 on this machine: nothing can come from it any more, and nobody waits a minute."""
    code = "from eagletui.launching.lock import this_client; print(this_client(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        client = process.stdout.readline().strip()
        mine = acting(port)
        done = await mine.node.run(ask_lock_take((port,), "e" * 32, "me@here", client, "stop"))
        assert done.exit_status == 0
        assert not has_ended(client)
        await refused(port)
        process.kill()
        process.wait(10)
    assert has_ended(client)
    assert await who_holds(mine.node, (port,)) == ()
    async with Lock(mine, who="me@here") as lock:
        assert "was taken over from me@here" in lock.notices[0]


def test_of_what_ran_elsewhere_or_still_runs_it_is_not_known_that_it_ended() -> None:
    ours = this_client()
    assert not has_ended(ours)
    assert str(os.getpid()) in ours
    name, _, rest = ours.rpartition(" ")
    machine = rest.partition("@")[2]
    assert has_ended(f"{name} {os.getpid()}.1@{machine}")
    assert has_ended(f"{name} 4199999.5@{machine}")
    for odd in (
        "",
        "laptop",
        f"{name} 4199999.5@000000000000",
        f"{name} x.5@{machine}",
        f"{name} 4199999.0@{machine}",
        f"{name} 4199999@{machine}x",
    ):
        assert not has_ended(odd), odd


async def test_another_users_lock_and_what_is_none_are_refused_with_a_sentence(port: int) -> None:
    require("root")
    place = lease(port).parent
    place.mkdir()
    (place / "owner").write_text("bob\x1b[31m\n")
    (place / "lease").write_text(old())
    os.chown(place, 65534, 65534)
    said = await refused(port)
    assert "Another user's lock is never removed: ask nobody" in said
    assert "\x1b" not in said
    assert place.exists()
    os.chown(place, 0, 0)
    assert "is no lock of eagletui but something else" in await refused(port)
    shutil.rmtree(place)
    place.symlink_to("/etc")
    assert "is no lock of eagletui but something else" in await refused(port)
