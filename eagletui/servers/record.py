"""The record of a launch as eagletui keeps it on the node, as values. Pure.

It stands under `${XDG_STATE_HOME:-~/.local/state}/eagletui/launches/<machine-id>/<id>/` on the node: `record.json` (0600) is what this module reads
and writes, `launch/` (0700) what runs (argv and env NUL-separated, cwd, limits; never printed), and beside them what the keeper writes itself:
`keeper` and `process` ("PID STARTED\\n"), `exit` (the exit status). The record is shown and copied, so everything in it is masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from eagletui.servers.family import Identity
from eagletui.shell.masking import MASK, mask_argv, mask_text, secret_name, shown

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
    `stop_sent`: whether what it ends may have been told so (None: of an older eagletui, which wrote the step alone).
    `grace_s` and `keep_leftovers`: what was said of the stop, for whoever goes on with it (None: nothing).
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
    grace_s: float | None = None
    keep_leftovers: bool = False
    stop_sent: bool | None = None
    newer: bool = False
    """It was written by a newer eagletui: shown as far as it is understood, and never changed."""

    @property
    def launched(self) -> bool:
        """Whether a process of it was ever started."""
        return self.process is not None or self.keeper is not None


NAME: Final = "eagletui.launch"
"""The `schema` of record.json, with the number of its format behind a slash."""
_PAIR_LIMIT: Final = 4096
"""Entries of a list that are read: far beyond a family or an environment, and a bound for a file that is none of ours."""


def masked_environment(environment: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Variables with their secrets masked, by what they are called and by what they look like. Their number and order stay."""
    return tuple(
        (shown(name), MASK if value and secret_name(name) else shown(mask_text(value))) for name, value in environment
    )


def encode_record(record: Record) -> bytes:
    """The bytes of record.json: ASCII, one line a key. Everything in it is masked again, so that nothing depends on who made the record."""
    fields: dict[str, Any] = {
        "schema": f"{NAME}/{FORMAT}",
        **{name: getattr(record, name) for name in _TEXTS},
        **{
            name: getattr(record, name)
            for name in (*_NUMBERS, "asked_to_stop", "ready_s", "grace_s", "keep_leftovers", "stop_sent")
        },
        "command": [shown(word) for word in mask_argv(record.command)],
        "environment": [list(pair) for pair in masked_environment(record.environment)],
        "keeper": record.keeper,
        "process": record.process,
        "family": [list(member) for member in record.family],
        "floor_mib": [list(pair) for pair in record.floor_mib],
    }
    for name in ("text", "diagnosis", "variant", "profile", "handle", "who", "cwd", "log"):
        if fields[name] is not None:  # bytes of a path that are no UTF-8 stay: it has to be found again
            fields[name] = mask_text(fields[name]) if name in {"cwd", "log"} else shown(mask_text(fields[name]))
    return (json.dumps(fields, indent=1) + "\n").encode("ascii")


_TEXTS: Final = (
    "id", "kind", "created", "who", "launcher", "engine", "profile", "variant", "cwd", "log", "boot", "step", "outcome", "text", "previous",
    "diagnosis", "handle",
)  # fmt: skip
_KINDS: Final = {kind: kind for kind in get_args(Kind)}
_OUTCOMES: Final = {outcome: outcome for outcome in get_args(Outcome)}
_NUMBERS: Final = ("port", "exit_status")


def parse_record(raw: bytes) -> Record | None:
    """A record.json. None for what is none (no JSON, no id); a value of another type than it should have counts as absent. Total."""
    try:
        data = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    schema = re.fullmatch(rf"{re.escape(NAME)}/([0-9]{{1,6}})", str(data.get("schema")))
    known = _text(data.get("id"))
    if schema is None or not known:
        return None
    newer = int(schema[1]) > FORMAT
    return Record(
        id=known,
        kind=_KINDS.get(_text(data.get("kind")), "start"),
        created=_text(data.get("created")) or "",
        who=_text(data.get("who")) or "",
        launcher=_text(data.get("launcher")) or "setsid",
        engine=_text(data.get("engine")),
        port=_number(data.get("port"), 65535),
        profile=_text(data.get("profile")),
        variant=_text(data.get("variant")),
        command=tuple(word for word in _list(data.get("command")) if isinstance(word, str)),
        environment=tuple(
            (one[0], one[1])
            for one in _list(data.get("environment"))
            if isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) and isinstance(one[1], str)
        ),
        cwd=_text(data.get("cwd")),
        log=_text(data.get("log")),
        boot=_text(data.get("boot")),
        keeper=_identity(data.get("keeper")),
        process=_identity(data.get("process")),
        family=tuple(member for one in _list(data.get("family")) if (member := _identity(one)) is not None),
        step=_text(data.get("step")),
        outcome=_OUTCOMES.get(_text(data.get("outcome")), "running"),
        text=_text(data.get("text")) or "",
        previous=_text(data.get("previous")),
        exit_status=_number(data.get("exit_status"), 255),
        asked_to_stop=data.get("asked_to_stop") is True,
        ready_s=_seconds(data.get("ready_s")),
        diagnosis=_text(data.get("diagnosis")),
        floor_mib=tuple(floor for one in _list(data.get("floor_mib")) if (floor := _floor(one)) is not None),
        handle=_text(data.get("handle")),
        grace_s=_seconds(data.get("grace_s")),
        keep_leftovers=data.get("keep_leftovers") is True,
        stop_sent=sent if isinstance(sent := data.get("stop_sent"), bool) else None,
        newer=newer,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object, most: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return float(value)


def _list(value: object) -> list[object]:
    return value[:_PAIR_LIMIT] if isinstance(value, list) else []


def _identity(value: object) -> Identity | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    pid, started = _number(value[0], 2**31), _number(value[1], 2**63)
    return (pid, started) if pid is not None and pid > 1 and started is not None else None


def _floor(value: object) -> tuple[str, int] | None:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str):
        return None
    mib = _number(value[1], 2**40)
    return None if mib is None else (value[0], mib)
