"""The record of a launch as eagletui keeps it on the node, as values. Pure.

It stands under `${XDG_STATE_HOME:-~/.local/state}/eagletui/launches/<machine-id>/<id>/` on the node: `record.json` (0600) is what this module reads
and writes, `launch/` (0700) what runs (argv and env NUL-separated, cwd, limits; never printed), and beside them what the keeper writes itself:
`keeper` and `process` ("PID STARTED\\n"), `exit` (the exit status). The record is shown and copied, so everything in it is masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagletui.servers.family import Identity

Kind = Literal["start", "stop", "restart"]
Outcome = Literal["running", "done", "failed", "aborted"]
FORMAT = 1
"""Of record.json. What a newer eagletui wrote is shown as far as it is understood and never changed."""


@dataclass(frozen=True, slots=True)
class Record:
    """One launch (or the stop of a server that eagletui did not launch).

    `id` is unique on the node and sorts by time. `created`: ISO 8601, UTC. `who`: "user@client". `command` and `environment` are masked. `keeper`
    and `process`: (pid, start ticks), None until they were started; `boot` the boot they count in. `family`: every member seen alive. `step`: the name
    of the step reached (launching.steps.StepName); `outcome` of the sequence with `text`, a sentence. `previous`: the record of the launch before it.
    `exit_status` as the keeper wrote it (128 + n: a signal; 127: no such program), None while it runs or when nobody could tell.
    `asked_to_stop`: we stopped it, so that its exit status is no crash. `ready_s`: seconds from launch to ready, None when it never was. `floor_mib`:
    memory in use on each of its GPUs before it began, by uuid. `handle`: what the launcher calls it (a tmux session, a unit, a container).
    """

    id: str
    kind: Kind
    created: str
    who: str
    launcher: str = "setsid"
    engine: str | None = None
    port: int | None = None
    profile: str | None = None
    variant: str | None = None
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    log: str | None = None
    boot: str | None = None
    keeper: Identity | None = None
    process: Identity | None = None
    family: tuple[Identity, ...] = ()
    step: str | None = None
    outcome: Outcome = "running"
    text: str = ""
    previous: str | None = None
    exit_status: int | None = None
    asked_to_stop: bool = False
    ready_s: float | None = None
    diagnosis: str | None = None
    floor_mib: tuple[tuple[str, int], ...] = ()
    handle: str | None = None

    @property
    def launched(self) -> bool:
        """Whether a process of it was ever started."""
        return self.process is not None or self.keeper is not None
