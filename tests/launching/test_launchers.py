"""Launchers by name; and tmux for real: what it shows may be closed, what runs goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from eagletui.errors import UsageError
from eagletui.launching.launch import launch
from eagletui.launching.launchers import registry
from eagletui.launching.launchers.registry import launcher, launcher_names
from eagletui.launching.recipe import Recipe
from eagletui.launching.verify import Launched, verify
from tests.launching.acting import Place, acting_here
from tests.requires import require


def tmux(*words: str) -> str:
    return subprocess.run(["tmux", *words], capture_output=True, text=True, check=False, timeout=20).stdout


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="nodes are Linux")
async def test_tmux_shows_what_stands_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("tmux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))  # a server of its own
    for name in ("XDG_STATE_HOME", "TMUX"):
        monkeypatch.delenv(name, raising=False)

    async def started(place: Place, *argv: str) -> Launched:
        recipe = place.recipe(*argv, launcher="tmux")
        record = await place.written(recipe)
        return await verify(place.acting, await launch(place.acting, record))

    try:
        async with acting_here(tmp_path) as place:
            first = await started(
                place, "sh", "-c", "echo hello from the server; grep SigIgn /proc/self/status; exec sleep 600"
            )
            name = f"eagletui-{place.port}"
            assert first.record.handle == name
            assert first.notes == ()
            assert first.process is not None
            pid, _ = first.process
            until(lambda: "hello from the server" in tmux("capture-pane", "-p", "-t", f"={name}:"))
            assert first.record.log is not None
            assert int(Path(first.record.log).read_text().split("SigIgn:")[1].split()[0], 16) & ~1 == 0
            second = await started(place, "sleep", "600")  # one more: the first is left alone
            assert second.record.handle == f"{name}-2"
            tmux("kill-session", "-t", f"={name}-2")
            os.kill(pid, signal.SIGINT)
            until(lambda: "it ended with status 130" in tmux("capture-pane", "-p", "-t", f"={name}:"))
            until(lambda: tmux("list-panes", "-t", f"={name}:", "-F", "#{pane_dead}") == "1\n")
            third = await started(place, "sleep", "600")
            assert third.record.handle == name  # its dead pane is used again
            tmux("kill-server")
            until(lambda: not tmux("list-sessions"))
            for one in (second, third):
                assert one.process is not None
                assert Path(f"/proc/{one.process[0]}/cmdline").read_bytes() == b"sleep\x00600\x00"
                state = launcher("tmux").read_look(await place.node.run(launcher("tmux").look(one.record)))
                assert state.lives
    finally:
        tmux("kill-server")


def test_what_a_session_is_called() -> None:
    recipe = Recipe(("x",), (), "/", "/l", "profile", port=30000)
    tmux_launcher = launcher("tmux")
    assert tmux_launcher.handle(recipe) == "eagletui-30000"
    assert tmux_launcher.handle(Recipe(("x",), (), "/", "/l", "profile", profile="a.b:c d")) == "eagletui-a-b-c-d"
    assert tmux_launcher.handle(Recipe(("x",), (), "/", "/l", "profile", profile="…")) == "eagletui-server"
    assert tmux_launcher.handle(Recipe(("x",), (), "/", "/l", "profile", handle="-my.session")) == "my-session"
    assert launcher("setsid").handle(recipe) is None
    assert {need.id for need in tmux_launcher.needs} == {"launcher.setsid", "launcher.tmux"}


def test_launchers_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    others = EntryPoints((
        EntryPoint("mine", "eagletui.launching.launchers.setsid:SETSID", registry.GROUP), EntryPoint("broken", "no.such.module:X", registry.GROUP),
        EntryPoint("tmux", "no.such.module:X", registry.GROUP),
    ))  # fmt: skip
    monkeypatch.setattr(registry, "entry_points", lambda group: others.select(group=group))
    assert set(launcher_names()) >= {"setsid", "tmux", "mine", "broken"}
    for name in registry.LAUNCHERS:
        assert launcher(name).name == name
    assert launcher("mine").name == "setsid"
    with pytest.raises(UsageError, match=r"no launcher 'nohup'.*setsid, tmux"):
        launcher("nohup")
    with pytest.raises(UsageError, match="cannot be loaded"):
        launcher("broken")
