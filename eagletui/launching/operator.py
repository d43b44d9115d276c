"""What the screen and the command line ask of whoever restarts servers. The implementation drives the sequence; nothing here knows how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from eagletui.launching.plan import Plan, Wish
from eagletui.launching.steps import Progress
from eagletui.servers.model import Orphan
from eagletui.servers.record import Record


@dataclass(frozen=True, slots=True)
class DryCommand:
    """A command of the sequence as it would run: the script's name and text, its arguments and stdin, masked (`***`)."""

    step: str
    name: str
    text: str
    args: tuple[str, ...]
    stdin: str
    reads_only: bool


class Run(Protocol):
    """A sequence under way, or ended."""

    plan: Plan

    @property
    def progress(self) -> Progress:
        """Where it is now."""

    @property
    def record(self) -> Record | None:
        """As it was written last on the node; None before it was. With it a sequence that failed is gone on with."""

    def abort(self) -> bool:
        """Stop before the next step. False where that is not safe now (`progress.why_not` says why)."""

    def stop_now(self) -> bool:
        """End a draining stop now (`k`). False where none drains."""

    async def wait(self) -> Progress:
        """Until it ended."""


class Operator(Protocol):
    """Restarts servers of one node. One sequence at a time: `begin` while one runs gives that one.

    `on_change` is called whenever `current.progress` changed. `read_only`: why this node is only looked at, None where it is not."""

    on_change: Callable[[], None] | None

    @property
    def read_only(self) -> str | None:
        """A sentence."""

    @property
    def confirm_name(self) -> str | None:
        """What has to be typed before anything is changed on this node, None where nothing has. A plan asks it by itself."""

    @property
    def current(self) -> Run | None:
        """The sequence that runs, or the last one that ran here."""

    def profiles(self) -> tuple[str, ...]:
        """Names of the profiles that fit this node."""

    def variants(self, profile: str) -> tuple[str, ...]:
        """Names of the variants of a profile; none of one that is not there."""

    def known_flags(self, wish: Wish) -> tuple[str, ...]:
        """Flag names (without hyphens) for completion: of the command, the profile, its variants, and the engine's usual ones."""

    async def prepare(self, wish: Wish) -> Plan:
        """Look, and say what would be done. Reads only. Raises NodeError; a refusal is part of the plan."""

    async def check(self, plan: Plan) -> Plan:
        """The plan with its preflight checks. Reads only. Raises NodeError."""

    async def dry_run(self, plan: Plan) -> tuple[DryCommand, ...]:
        """Every command of the sequence, in order; only those that read are run. Raises NodeError."""

    def begin(self, plan: Plan) -> Run:
        """Start it (the person has confirmed everything in the plan)."""

    def resume(self, record: Record) -> Run | None:
        """Go on with a sequence that an earlier eagletui left at a step. None when there is nothing to go on with."""

    async def end_orphans(self, orphans: Sequence[Orphan]) -> str:
        """End exactly these, by pid and start, and say what became of them. Raises NodeError."""

    async def aclose(self) -> None:
        """Leave what runs (what was begun on the node goes on), and give the lock back. Never raises."""
