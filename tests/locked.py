"""A node's lock, held for a test of scripts that stand behind the fence, and the launches that such a test makes: nothing of them is left."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from eagletui.shell.keeper import KeeperState, ask_keeper_state, parse_keeper_state
from eagletui.shell.lock import ask_lock_release, ask_lock_take
from eagletui.shell.script import Command
from tests.shell.sh import run
from tests.sshd import free_port


@dataclass(slots=True)
class Locked:
    """A folder that is HOME of a login with that shell, and the lock of a port nobody else uses."""

    folder: Path
    shell: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    looked: list[KeeperState] = field(default_factory=list)

    @property
    def fence(self) -> tuple[str, str]:
        """What scripts begin with."""
        return str(self.port), self.token

    @property
    def records(self) -> Path:
        """Where records lie."""
        (place,) = (self.folder / ".local/state/eagletui/launches").iterdir()
        return place

    def run(self, command: Command) -> tuple[int, bytes, bytes]:
        """Exit status, stdout and stderr."""
        return run(command, self.folder, self.shell)

    def look(self, record_id: str) -> KeeperState:
        """What became of a launch."""
        self.looked.append(parse_keeper_state(self.run(ask_keeper_state(record_id))[1]))
        return self.looked[-1]

    def wait(self, record_id: str, until: Callable[[KeeperState], bool], seconds: float = 20.0) -> KeeperState:
        """Look until something is true of it."""
        end = time.monotonic() + seconds
        while not until(state := self.look(record_id)):
            assert time.monotonic() < end, state
            time.sleep(0.03)
        return state


@contextmanager
def locked(folder: Path, shell: str = "sh") -> Iterator[Locked]:
    """The lock is taken, and given back; what was launched meanwhile is ended."""
    place = Locked(folder, shell, free_port())
    status, _, said = place.run(ask_lock_take([place.port], place.token, "me@here", "test", "launch"))
    assert status == 0, said
    try:
        yield place
    finally:
        place.run(ask_lock_release([place.port], place.token))
        shutil.rmtree(f"/tmp/eagletui-lock-{place.port}", ignore_errors=True)  # where a test gave it to another
        end_launches(place.looked)


def end_launches(states: list[KeeperState]) -> None:
    """End exactly what was seen: each keeper with its session."""
    for keeper, started in {(one.keeper.pid, one.keeper.started) for one in states if one.keeper is not None}:
        end_session(keeper, started)


def end_session(keeper: int, started: int) -> None:
    """End a keeper and what it started: what is in the session that is numbered with it, and not older."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == keeper and int(fields[19]) >= started:
                os.kill(int(stat.parent.name), signal.SIGKILL)
