"""What is kept of a launch, as values. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from eagletui.engines.alike import what_counts
from eagletui.engines.shapes import launch_of
from eagletui.logs.state import PhaseName
from eagletui.shell.masking import mask_argv, mask_text, shown
from eagletui.shell.poll import Machine

Outcome = Literal["ready", "crashed", "stopped", "unknown"]
"""How the start ended. A server that crashes after it was ready keeps "ready"; how it ended is told beside it."""
Ended = Literal["crashed", "stopped"]


@dataclass(frozen=True, slots=True)
class LaunchKind:
    """What has to be the same for two launches to be compared.

    `fingerprint` stands for the engine and all that counts of its arguments; `model` and `tp` are for the second look,
    when no launch has the same fingerprint. `flags` are what counts, for a person: masked.
    """

    engine: str
    model: str | None
    tp: int | None
    fingerprint: str
    flags: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """One launch, whoever sees it: the machine, its boot, and the launcher's pid and start (clock ticks since the boot).

    `machine` tells machines apart that share a home, a name or a boot image: see `machine_name`.
    """

    machine: str
    boot: str | None
    pid: int
    ticks: int

    @property
    def key(self) -> str:
        """It in one word."""
        return f"{self.machine} {self.boot or '-'} {self.pid} {self.ticks}"


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """How long a phase took in seconds, None when unknown; `ranks` as in logs.state.Phase."""

    name: PhaseName
    seconds: float | None
    ranks: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch as it is kept. `command` is masked.

    `started` is the launcher's start in UTC. `ready_s`: seconds from the begin of its log to ready; `lead_s`: from the
    launcher's start to the begin of its log. `read` and `size`: bytes that came from a disk while the weights were
    loaded, and of how many; `cold` what that means (None: it could not be seen). `ended`: what became of a server that
    had been ready. `args`: the numbers among the arguments that the server printed (text may hold what is secret).
    `origin`: who saw or made it ("watched", "eagletui"). `profile` and `variant`: what eagletui launched it from, `record` the id of its
    record on the node, `who` launched it ("user@client").
    """

    identity: Identity
    node: str
    kind: LaunchKind
    command: tuple[str, ...]
    started: datetime
    outcome: Outcome
    phases: tuple[PhaseTime, ...] = ()
    ready_s: float | None = None
    lead_s: float | None = None
    diagnosis: str | None = None
    ended: Ended | None = None
    read: int | None = None
    size: int | None = None
    cold: bool | None = None
    args: tuple[tuple[str, float], ...] = ()
    origin: str = "watched"
    profile: str | None = None
    variant: str | None = None
    record: str | None = None
    who: str | None = None


@dataclass(frozen=True, slots=True)
class PastLaunch:
    """A launch on a machine, as what was kept tells it again. `key` as Identity.key; `command` is masked."""

    key: str
    engine: str
    fingerprint: str
    command: tuple[str, ...]
    outcome: Outcome
    diagnosis: str | None
    ended: str | None = None
    profile: str | None = None
    variant: str | None = None
    ready_s: float | None = None


@dataclass(frozen=True, slots=True)
class EarlierLaunch:
    """What an estimate takes from a launch that became ready. `phases` in the order in which they came."""

    ready_s: float
    phases: Mapping[PhaseName, float] = field(default_factory=dict)
    lead_s: float | None = None
    size: int | None = None
    cold: bool | None = None


def machine_name(machine: Machine, node: str) -> str:
    """A name that no other machine has: its own id and its host name (images are cloned with their id, and a container may
    have none). Where it tells neither, the node's name as the user has it."""
    if machine.id is None and machine.host is None:
        return f"node {node}"
    return f"{machine.id or '-'} {machine.host or '-'}"


def kind_of(engine: str, command: Sequence[str], model: str | None, tp: int | None) -> LaunchKind:
    """The kind of a launch, by its command line. `model` and `tp`: what is known of them, the model masked."""
    launch = launch_of(command)
    if launch is not None:
        counted = what_counts(launch)
    else:
        known = (("model", model or ""), ("tp", str(tp or "")))
        counted = tuple((name, value) for name, value in known if value)
    text = json.dumps([engine, counted])
    flags = tuple((shown(mask_text(name)), shown(_masked(name, value))) for name, value in counted)
    named = None if model is None else shown(model)
    return LaunchKind(engine, named, tp, hashlib.sha256(text.encode()).hexdigest()[:32], flags)


def _masked(name: str, value: str) -> str:
    """A value as it is masked behind its flag."""
    return mask_argv((f"--{name}", value))[1]


def kept_command(command: Sequence[str]) -> tuple[str, ...]:
    """A command line, fit to be kept."""
    return tuple(shown(word) for word in mask_argv(command))


def kept_numbers(args: Mapping[str, object]) -> tuple[tuple[str, float], ...]:
    """What is kept of the arguments that a server printed: numbers, but what is secret by its name."""
    return tuple(
        (name, value)
        for name, value in args.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and _masked(name, str(value)) == str(value)
    )
