"""Who watches a new server until it is ready. launching knows no monitor: the command line and the screen each bring their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from eagletui.launching.steps import Progress
from eagletui.logs.state import Diagnosis, PhaseName


@dataclass(frozen=True, slots=True)
class Watched:
    """How it ended. `ready_s`: seconds from the launch to ready, None when it never was. `text`: one sentence. `phases`: seconds by phase, in their order."""

    ending: Literal["done", "crashed", "stalled", "timed-out", "no-link"]
    text: str
    ready_s: float | None = None
    diagnosis: Diagnosis | None = None
    phases: tuple[tuple[PhaseName, float | None], ...] = ()


class Watch(Protocol):
    """Looks at the server that `progress` tells of (`launched`, `port`, `log`)."""

    async def until_ready(self, progress: Progress) -> Watched:
        """Returns when it is ready or certainly will not be. May be cancelled: the server goes on. Raises NodeError."""
