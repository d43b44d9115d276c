"""The same commands, run by the real sh here or answered by the simulated node: so that one story can be told of both."""

from __future__ import annotations

import importlib
import os
import pkgutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import eagletui.shell
from eagletui.demo import shape
from eagletui.demo.answers import answer
from eagletui.demo.processes import UID
from eagletui.demo.world import World
from eagletui.shell.script import Command, Script
from tests.shell.sh import run

OPENED = 1_800_000_000.0
T = TypeVar("T")


def scripts() -> dict[str, Script]:
    """Every named script of the house."""
    modules = (
        importlib.import_module(f"eagletui.shell.{one.name}") for one in pkgutil.iter_modules(eagletui.shell.__path__)
    )
    return {value.name: value for module in modules for value in vars(module).values() if isinstance(value, Script)}


@dataclass(frozen=True, slots=True)
class Said:
    """What a command gave."""

    status: int
    stdout: bytes
    stderr: bytes


class Place(Protocol):
    """Somewhere that commands are run. `command` is one that lives for a while; `folder` one that it may write to."""

    uid: int
    port: int
    folder: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def run(self, command: Command) -> Said:
        """Run it."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


def until(place: Place, ask: Callable[[], T], good: Callable[[T], bool], seconds: float = 10.0) -> T:
    """What is asked, as soon as it is good; as it is at the end of the time otherwise."""
    found = ask()
    for _ in range(int(seconds / 0.05)):
        if good(found):
            break
        place.wait(0.05)
        found = ask()
    return found


class Real:
    """This machine."""

    command: tuple[str, ...] = ("sleep", "60")
    environment: tuple[tuple[str, str], ...] = (("PATH", os.environ["PATH"]),)

    def __init__(self, folder: Path) -> None:
        self.uid = os.getuid()
        self.port = 20_000 + os.getpid() % 9_000
        self.folder = str(folder)
        self._folder = folder

    def run(self, command: Command) -> Said:
        return Said(*run(command, self._folder))

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class Simulated:
    """The simulated node, at its own time."""

    command: tuple[str, ...] = shape.COMMAND
    environment: tuple[tuple[str, str], ...] = (("PATH", "/opt/venv/bin:/usr/bin:/bin"),)
    uid = UID
    folder = "/data/eagle3"

    def __init__(self, world: World | None = None, port: int = 29_000) -> None:
        self.world = world if world is not None else World(opened=OPENED, into_start=shape.READY + 30)
        self.port = port
        self.now = self.world.opened

    def run(self, command: Command) -> Said:
        self.now += 0.01
        args = [one if isinstance(one, bytes) else one.encode("utf-8", "surrogateescape") for one in command.args]
        given = answer(self.world, command.script.name, args, self.now, command.data)
        return Said(given.status, given.stdout, given.stderr)

    def wait(self, seconds: float) -> None:
        self.now += seconds
