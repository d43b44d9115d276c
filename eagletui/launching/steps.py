"""The steps of the sequence, and what is shown of them. Pure.

A sequence is a row of steps; each is pending, running, done, failed or skipped (it had nothing to do). `Progress` is the whole of it at one moment:
the screen, the command line, the record and the history are given the same value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from eagletui.logs.state import Diagnosis
from eagletui.servers.family import Identity
from eagletui.servers.record import Kind


class StepName(StrEnum):
    """In their order; the words of the JSON."""

    PREFLIGHT = "preflight"
    IDENTIFY = "identify"
    STOP = "stop"
    GPUS = "gpus-free"
    LEFTOVERS = "leftovers"
    LAUNCH = "launch"
    VERIFY = "verify"
    WATCH = "watch"
    READY = "ready"


TIMEOUT_S: Final[dict[StepName, float]] = {
    StepName.PREFLIGHT: 20.0,
    StepName.IDENTIFY: 15.0,
    StepName.GPUS: 60.0,
    StepName.LEFTOVERS: 30.0,
    StepName.LAUNCH: 5.0,
    StepName.VERIFY: 5.0,
}
"""Seconds. Identifying is half a dozen commands, each a login shell with its rc files, which a busy node does not do in 5 s.

A stop has its grace time and STOP_AFTER_KILL_S instead, the watch its stall limits."""
GRACE_S: Final = 30.0
"""From the first TERM until what is left is told again and then killed; a profile's `grace_s` replaces it, 0 is no limit."""
KILL_AFTER_TERM_S: Final = 5.0
"""From the TERM to everything that is left to the KILL of exactly what is still there."""
STOP_AFTER_KILL_S: Final = 15.0
STARTED_WITHIN_S: Final = 6.0
"""From the begin of the launch to "it runs" or "it never started, because …"."""
EMPTY_SCANS: Final = 2
EMPTY_SCAN_EVERY_S: Final = 0.5

Status = Literal["pending", "running", "done", "failed", "skipped"]
Ending = Literal[
    "running",
    "done",
    "refused",
    "failed",
    "never-started",
    "crashed",
    "stalled",
    "aborted",
    "timed-out",
    "no-link",
    "overtaken",
]
"""How a sequence ended. overtaken: another eagletui took the lock; nothing more was done."""
Offer = Literal["retry", "show-holder", "restore", "start", "go-on", "end-orphans", "look-at-log"]
"""What makes sense after a failure. restore: launch the previous command again; start: launch what was going to be launched;
go-on: continue at the step reached."""

EXIT_STATUS: Final[dict[Ending, int]] = {
    "running": 0, "done": 0, "refused": 16, "failed": 17, "never-started": 18, "crashed": 13, "stalled": 12,
    "aborted": 16, "timed-out": 15, "no-link": 20, "overtaken": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `began` and `ended` are the client's time.monotonic(); `timeout_s` None where it has none. `text`: one line that tells where it is or
    why it ended ("11 of 12 gone, 3 requests running"); `lines` the details (a member, a holder, a check each). Everything is masked and printable."""

    name: StepName
    status: Status = "pending"
    began: float | None = None
    ended: float | None = None
    timeout_s: float | None = None
    text: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """A sequence at one moment. `now_true`: a sentence or two on what is true on the node now ("The old server is left running."). `may_abort`: Esc is
    safe now; else `why_not` says why it is not. `may_stop_now`: `k` ends a drain. `launched`: the new server (pid, start ticks); `log` its log.
    `exit_status`: what the keeper told of a launch that died; `printed`: its last lines, masked. `record`: the id of the record on the node."""

    kind: Kind
    steps: tuple[Step, ...]
    ending: Ending = "running"
    text: str = ""
    now_true: str = ""
    may_abort: bool = True
    why_not: str = ""
    may_stop_now: bool = False
    offers: tuple[Offer, ...] = ()
    record: str | None = None
    launched: Identity | None = None
    port: int | None = None
    log: str | None = None
    exit_status: int | None = None
    printed: tuple[str, ...] = ()
    ready_s: float | None = None
    diagnosis: Diagnosis | None = None

    @property
    def step(self) -> Step | None:
        """The one that was reached: the last that is not pending."""
        return next((one for one in reversed(self.steps) if one.status not in {"pending", "skipped"}), None)

    @property
    def result(self) -> int:
        """The exit status of the command."""
        return EXIT_STATUS[self.ending]
