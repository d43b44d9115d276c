"""What the steps of a sequence do, as the sequence asks for it. One implementation does it on a node (on_node), tests script others."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from eagletui.launching.plan import Check, Kept, Refusal
from eagletui.launching.steps import Ending, StepName
from eagletui.launching.watch import Watched
from eagletui.logs.state import Diagnosis
from eagletui.servers.family import Identity
from eagletui.servers.ownership import NOBODY
from eagletui.servers.record import Record


@dataclass(frozen=True, slots=True)
class Found:
    """Who is there, looked at under the lock. `launcher` None: it is gone; then `family` may still hold members that were recorded. `others`: a server
    that listens where the new one shall, and was not planned with, in words."""

    launcher: Identity | None
    family: tuple[Identity, ...]
    kept: Kept = NOBODY
    refusal: Refusal | None = None
    other: str | None = None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """How a step ended that ended well."""

    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """The launch stands. `process`: what runs. `lines`: what is not as it should be, although it lives."""

    process: Identity
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Death:
    """What the keeper tells of a server that died. `exit_status` as it wrote it, None where nobody could tell; `printed`: its last lines, masked.
    `diagnosis`: by its log. `process`: who it was, None if it never was anybody."""

    exit_status: int | None = None
    printed: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None
    process: Identity | None = None


class Work(Protocol):
    """Every method raises NodeError (no link), and what launching.acting.Acting.run raises. A LaunchingError is a failure with its sentence."""

    async def take_lock(self) -> str:
        """Take the lock of the ports; a notice, "" for none. Raises RefusedError: somebody holds it."""

    async def release_lock(self) -> None:
        """Give it back; nothing where it is not ours (any more)."""

    async def check(self) -> tuple[Check, ...]:
        """Preflight."""

    @property
    def record(self) -> Record | None:
        """As it was written last; None before it was."""

    async def write_record(self) -> str:
        """Write the record, with what will run: before anything is stopped. Gives its id. Raises RefusedError."""

    async def note(
        self, step: StepName, *, ending: Ending = "running", text: str = "", watched: Watched | None = None
    ) -> str | None:
        """Write the step to the record: why it could not be written, None when it was. Raises OvertakenError alone."""

    async def identify(self) -> Found:
        """Who is there now."""

    async def stop(self, found: Found, stop_now: asyncio.Event) -> Finding:
        """Let it drain, then end what is left. Raises StopFailedError."""

    async def gpus_free(self) -> Finding:
        """Until the GPUs are free. Raises StopFailedError."""

    async def leftovers(self) -> Finding:
        """Remove what dead members left, and see that nothing listens. Raises StopFailedError."""

    async def launch(self) -> Finding:
        """Start the keeper. Raises NeverStartedError."""

    async def verify(self) -> Verified:
        """Whether it stands. Raises NeverStartedError."""

    async def keep(self, process: Identity) -> str | None:
        """Tell the history that this was launched. Never raises: why it could not be kept."""

    async def outcome(self, process: Identity, watched: Watched) -> str | None:
        """Tell the history what became of it. As keep."""

    async def look_after_death(self) -> Death:
        """What the keeper tells of a server that died while it was watched."""
