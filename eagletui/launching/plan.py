"""What is going to be done, before it is done. Pure values; the screen shows them, the command line prints them.

Nothing in a plan is a secret: commands and environments of it are masked (the exact ones stand in `Plan.recipe`, which is never shown as it is).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagletui.launching.recipe import Recipe
from eagletui.launching.steps import GRACE_S
from eagletui.servers.family import Identity
from eagletui.servers.model import Orphan, Server
from eagletui.servers.ownership import NOBODY
from eagletui.servers.ownership import Kept as Kept  # noqa: PLC0414 - read from here as a part of the plan
from eagletui.servers.record import Kind, Record

Result = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One preflight check. `id` in two words ("launch.executable", "gpu.memory"): `doctor` lists the same ones. `todo`: what to do about it."""

    id: str
    result: Result
    text: str
    todo: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why it is not done. `code`: "another-user", "not-a-server", "systemd-unit", "container", "slurm", "rank-of-many", "unseen-listener", "locked",
    "read-only", "cannot-help", "several-servers", "no-environment", "nothing-to-stop", "nothing-to-start", "no-profile", "launch-pending". `text` names who and
    says what to do. `again`: it is done after all when the person insists (a second time; `--again`)."""

    code: str
    text: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """What is said to keep a server: a launcher of the registry, and the tmux session, unit or container that it means. `profile`: which says so; None:
    the record of its launch."""

    launcher: str
    handle: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked beyond the plan itself. `typed`: the word that has to be typed (a production node's name), None for yes or no."""

    code: str
    text: str
    typed: str | None = None


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag of the command that will differ from what runs now. None: it is not there. Masked."""

    flag: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds memory of a GPU. `whose`: ours (the family's), another server's of this login, another user's, or unknown (not in our /proc)."""

    gpu: int
    pid: int
    user: str | None
    mem_mib: int | None
    command: str
    whose: Literal["family", "ours", "others", "unknown"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An entry of /dev/shm that a dead member left. `why` it is known to be one."""

    path: str
    size: int
    why: str


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person asked for. `server`: its id (snapshot, inventory); `port` and `profile` choose otherwise. `changes`: flags by name without hyphens,
    with their value, True for a switch, False or None to remove it, a tuple for several values (engines.command_line.Value). `again`: do it although it
    was refused as of no help. `back`: the last launch that worked. `pid`: the process that the person named as the launcher.
    `launcher`: instead of the profile's."""

    kind: Kind
    server: str | None = None
    port: int | None = None
    pid: int | None = None
    profile: str | None = None
    variant: str | None = None
    changes: tuple[tuple[str, str | bool | tuple[str, ...] | None], ...] = ()
    launcher: str | None = None
    again: bool = False
    back: bool = False
    remove_leftovers: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """`server`: what will be stopped (None: nothing runs); `family` its members by (pid, start ticks), `since_s` its age. `recipe`: what will run (None for a
    stop). `changes`: how that differs from what runs now. `holders`: what is on its GPUs now. `others`: sentences on what somebody else runs here.
    `refusals`: if there is one that is not overruled, nothing can be done. `questions`: what is asked, in this order. `checks`: what preflight found
    (the screen may show the plan before they are in: None). `previous`: the record of what runs now or ran last. `locks`: the ports whose lock is taken.
    `stopped_by`: the unit or container whose launcher ends it, in words, "" where its family is told one by one.
    `declared`: what its record and the profiles say that keeps the server: whether it is ours to stop depends on that."""

    wish: Wish
    node: str
    server: Server | None
    family: tuple[Identity, ...] = ()
    since_s: float | None = None
    kept: Kept = NOBODY
    recipe: Recipe | None = None
    changes: tuple[FlagChange, ...] = ()
    holders: tuple[Holder, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    others: tuple[str, ...] = ()
    running_requests: int | None = None
    refusals: tuple[Refusal, ...] = ()
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] | None = None
    previous: Record | None = None
    grace_s: float = GRACE_S
    locks: tuple[int, ...] = ()
    boot: str | None = None
    declared: tuple[Declared, ...] = ()
    stopped_by: str = ""

    @property
    def kind(self) -> Kind:
        """start, stop or restart."""
        return self.wish.kind

    @property
    def refused(self) -> bool:
        """Whether it cannot be begun."""
        return any(not (refusal.again and self.wish.again) for refusal in self.refusals)
