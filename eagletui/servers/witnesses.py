"""What other witnesses make of a diagnosis that was read from a log: the kernel, the control group, the exit status. Pure.

A log tells that a process was killed, not by whom; and an error that many things cause (a collective that failed, a CUDA error) is
the consequence where the kernel told the cause itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from eagletui.logs.advice import Facts, advice_for, severity_of, summary_of
from eagletui.logs.causes import signal_code
from eagletui.logs.state import Diagnosis, PhaseName, Quote
from eagletui.servers.model import Reason
from eagletui.shell.kernel import KernelEvent, KernelLog, OomCount

GPU_OFF_THE_BUS = 79
"""The Xid of "GPU has fallen off the bus"."""
NEAR_DEATH_S = 30.0
"""Inside a container the kernel's pids are not ours: a kill counts as the server's when name and time fit."""
QUOTED = 4
"""Lines of the kernel's that are quoted at most."""

_LET_GO = "Let it go on with `kill -CONT PID`, and find who stopped it: a debugger, a job scheduler, ctrl+z."

_AFTER_A_KILL = frozenset({
    "died-silently", "worker-killed", "nccl-error", "nccl-timeout", "rendezvous-timeout", "watchdog-timeout", "aborted", "segfault",
    "warmup-failed", "python-exception", "kernel-build-failed", "graph-capture-failed", "stalled", "never-started",
})  # fmt: skip
"""What a log says when a process was taken from it."""
_AFTER_A_LOST_GPU = frozenset({
    "died-silently", "worker-killed", "nccl-error", "nccl-timeout", "watchdog-timeout", "aborted", "segfault", "cuda-error",
    "illegal-memory-access", "warmup-failed", "python-exception", "graph-capture-failed", "stalled", "never-started",
})  # fmt: skip
_AFTER_A_FAULT = frozenset({
    "died-silently", "worker-killed", "nccl-error", "nccl-timeout", "rendezvous-timeout", "watchdog-timeout", "never-started",
})  # fmt: skip
_OF_THE_GPU = frozenset(
    {"cuda-error", "illegal-memory-access", "device-assert", "nccl-error", "nccl-timeout", "watchdog-timeout"}
)
_OPEN = frozenset({"died-silently", "worker-killed"})
"""The question whether it was killed for memory stands."""
_NO_SUCH_PROGRAM = 127


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What was learned beside the log of a launch that died; None is "not known".

    `members`: the names of its processes by pid, as the kernel has them (15 bytes). `launched_s`, `died_s`: in seconds of the
    node's uptime. `kernel` None: not read yet. `before`, `after`: the count of its control group while it lived, and now.
    `exit_status`: of the launcher, from the launch's record; -9 and 137 alike.
    """

    members: Mapping[int, str] = field(default_factory=dict)
    launched_s: float | None = None
    died_s: float | None = None
    kernel: KernelLog | None = None
    before: OomCount | None = None
    after: OomCount | None = None
    exit_status: int | None = None

    @property
    def kills_in_group(self) -> int | None:
        """How often the kernel killed for memory in its control group since the launch was first seen."""
        if self.before is None or self.after is None or self.before.group != self.after.group:
            return None
        return max(0, self.after.kills - self.before.kills)

    def _of_this_launch(self, event: KernelEvent) -> bool:
        # The kernel's clock and the uptime may be a second apart (suspend is counted in one of them).
        return event.at_s is None or self.launched_s is None or event.at_s >= self.launched_s - 1

    def events(self, kind: str) -> tuple[KernelEvent, ...]:
        """What the kernel told of this launch's processes or, for a GPU, of its time."""
        if self.kernel is None:
            return ()
        found = [event for event in self.kernel.events if event.kind == kind and self._of_this_launch(event)]
        return tuple(event for event in found if kind == "xid" or self._is_of_family(event))

    def _is_of_family(self, event: KernelEvent) -> bool:
        if event.pid in self.members:
            return True
        near = self.died_s is not None and event.at_s is not None and abs(self.died_s - event.at_s) <= NEAR_DEATH_S
        return near and event.name in self.members.values() and not self._pids_are_ours

    @property
    def _pids_are_ours(self) -> bool:
        """Whether the kernel's pids and those of /proc are the same: it named one of ours."""
        return self.kernel is not None and any(event.pid in self.members for event in self.kernel.events)


def unexplained(engine: str, phase: PhaseName | None, *, started: bool) -> Diagnosis:
    """For a death without any reason in the log. `started` False: there is no log, or an empty one."""
    return _named("died-silently" if started else "never-started", engine, phase)


def stands(engine: str, phase: PhaseName | None, rank: str | None, reason: Reason) -> Diagnosis:
    """For a server that lives and does not move, and whose log does not say why: what is seen is the summary."""
    made = replace(_named("stalled", engine, phase), rank=rank, summary=reason.text[:1].upper() + reason.text[1:])
    return replace(made, advice=_LET_GO) if reason.code == "suspended" else made


def _named(code: str, engine: str, phase: PhaseName | None) -> Diagnosis:
    facts = Facts(engine, {}, phase)
    return Diagnosis(code, severity_of(code), phase, None, summary_of(code), advice_for(code, facts))


def _anew(
    old: Diagnosis, code: str, quotes: tuple[Quote, ...], summary: str | None = None, advice: str | None = None
) -> Diagnosis:
    """Another code for the same death: the other witness first, then what the log said."""
    made = _named(code, "", old.phase)
    return replace(
        old,
        code=code,
        severity=made.severity,
        summary=summary or made.summary,
        advice=made.advice if advice is None else advice,
        evidence=(*quotes, *(quote for quote in old.evidence if quote not in quotes)),
    )


def _quotes(events: tuple[KernelEvent, ...]) -> tuple[Quote, ...]:
    return tuple(Quote(0, f"kernel: {event.text}") for event in events[-QUOTED:])


def refine(diagnosis: Diagnosis | None, seen: Witnessed) -> Diagnosis | None:
    """The diagnosis as the other witnesses make it. None stays None: whether it died is not theirs to say."""
    if diagnosis is None:
        return None
    for rule in (_gpu_lost, _killed_for_memory, _faulted, _by_status):
        found = rule(diagnosis, seen)
        if found is not None:
            return found
    return _told_of_the_kernel(_with_xids(diagnosis, seen), seen)


def _gpu_lost(old: Diagnosis, seen: Witnessed) -> Diagnosis | None:
    lost = tuple(event for event in seen.events("xid") if event.number == GPU_OFF_THE_BUS)
    if not lost or old.code not in _AFTER_A_LOST_GPU:
        return None
    where = f" ({lost[0].device})" if lost[0].device else ""
    return _anew(old, "gpu-lost", _quotes(lost), f"A GPU has fallen off the bus{where}")


def _killed_for_memory(old: Diagnosis, seen: Witnessed) -> Diagnosis | None:
    if old.code not in _AFTER_A_KILL:
        return None
    killed = seen.events("oom")
    kills = seen.kills_in_group
    if not killed and not kills:
        return None
    quotes = _quotes(killed)
    if kills and seen.after is not None:
        limit = seen.after.limit_bytes
        within = "" if limit is None else f", whose limit is {limit / (1 << 30):.1f} GiB"
        group = seen.after.group[1:]
        quotes += (Quote(0, f"control group {group}: oom_kill grew by {kills}{within}"),)
    if not killed:
        text = "The kernel killed a process of its control group for memory"
    else:
        first = killed[0]
        text = f"The kernel killed {first.name or 'a process'} (pid {first.pid}) for memory"
        text += (
            " in its control group's limit"
            if "emory cgroup out of memory" in first.text
            else ": the machine had none left"
        )
    return _anew(old, "host-oom", quotes, text)


def _faulted(old: Diagnosis, seen: Witnessed) -> Diagnosis | None:
    faults = seen.events("fault")
    if not faults:
        return None
    if old.code == "segfault":
        return replace(old, evidence=(*old.evidence, *_quotes(faults)))
    if old.code not in _AFTER_A_FAULT:
        return None
    first = faults[0]
    return _anew(old, "segfault", _quotes(faults), f"{first.name} (pid {first.pid}) crashed with a segmentation fault")


def _by_status(old: Diagnosis, seen: Witnessed) -> Diagnosis | None:
    """The exit status of the launcher, where the log says nothing."""
    status = seen.exit_status
    if status is None or old.code not in {"died-silently", "never-started"}:
        return None
    quote = (Quote(0, f"exit status {status}"),)
    code = signal_code(status)
    if code:
        return _told_of_the_kernel(_anew(old, code, quote), seen)
    if status == _NO_SUCH_PROGRAM:
        return _anew(old, "never-started", quote, "Its program was not found (exit status 127)")
    return replace(old, evidence=(*old.evidence, *quote))


def _with_xids(old: Diagnosis, seen: Witnessed) -> Diagnosis:
    """What the driver told of a GPU stands beside a GPU's error: which Xid it was decides what to do."""
    xids = seen.events("xid")
    if not xids or old.code not in _OF_THE_GPU:
        return old
    return replace(old, evidence=(*old.evidence, *_quotes(xids)))


def _told_of_the_kernel(old: Diagnosis, seen: Witnessed) -> Diagnosis:
    """Who killed it is the question: what the kernel's log, or its silence, says to it."""
    if old.code not in _OPEN or seen.kernel is None:
        return old
    if not seen.kernel.readable:
        said = f"The kernel's log could not be read ({seen.kernel.error}), so a kill for memory can be neither shown nor excluded."
        return replace(old, advice=f"{old.advice} {said}".strip())
    text = "The kernel's log shows no kill for memory and no fault of its processes since the launch"
    if seen.kills_in_group == 0:
        text += ", and its control group counts none"
    if old.code == "worker-killed":
        return replace(
            old, advice=f"{text}: somebody, or another program, sent SIGKILL. Ask who may end processes here."
        )
    return replace(old, advice=f"{text}. Look at the other nodes' logs; start it with its output in a file of its own.")
