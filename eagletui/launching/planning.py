"""From a wish and what is on the node to a plan: which server is meant, what will run, what differs, what is in the way. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from eagletui.config.log_path import TIME_FORMAT, Named, fill, safe_part
from eagletui.config.models import DEFAULT_LOG, Profile
from eagletui.engines.command_line import (
    COMMAND,
    BadChangeError,
    NotALaunchError,
    Value,
    change,
    difference,
    known_flags,
)
from eagletui.engines.shapes import DEFAULT_PORT, flags_of, short_model
from eagletui.gpus.model import GpuReport
from eagletui.history.launches import LaunchKind, kind_of
from eagletui.launching.plan import FlagChange, Refusal, Wish
from eagletui.launching.profiles import command_of, engine_launch, port_of
from eagletui.launching.recipe import Limits, Recipe
from eagletui.launching.words import plain
from eagletui.servers.record import Record
from eagletui.shell.masking import mask_argv, mask_text, shown

_STAMP = re.compile(r"(?:[-_.](?:\d{4}-?\d\d-?\d\d|\d{4})[-_T]?\d\d[-_]?\d\d[-_]?\d\d(?:-\d{1,3})?)+\Z")
"""Times of launches behind a log's name, ours and those that people write (k25_1201-104646): the new one stands in their place."""
"""The time that an earlier launch of ours put behind a log's name."""


def newest(
    records: Iterable[Record], *, port: int | None, launchable: Iterable[str], ready: Iterable[str] | None = None
) -> Record | None:
    """The last launch of a record (on this port, if one is named) that can be launched again; `ready`: of these alone."""
    can, worked = set(launchable), None if ready is None else set(ready)
    return next(
        (
            one
            for one in sorted(records, key=lambda record: record.id, reverse=True)
            if one.id in can and (port is None or one.port == port) and (worked is None or one.id in worked)
        ),
        None,
    )


def port_of_command(command: Sequence[str]) -> int | None:
    """Where a command listens, by its flags or its engine's habit."""
    launch = engine_launch(command)
    return None if launch is None else flags_of(launch).port or DEFAULT_PORT[launch.engine]


def kind_of_command(engine: str, command: Sequence[str]) -> LaunchKind:
    """What a launch of this command is compared with."""
    launch = engine_launch(command)
    flags = None if launch is None else flags_of(launch)
    model = None if flags is None or flags.model is None else mask_text(flags.model)
    return kind_of(engine, command, model, None if flags is None else flags.tp)


def model_of(command: Sequence[str]) -> str | None:
    """The model that a command serves."""
    launch = engine_launch(command)
    return None if launch is None else flags_of(launch).model


def changed(command: Sequence[str], changes: Iterable[tuple[str, Value]]) -> tuple[tuple[str, ...], Refusal | None]:
    """The command with flags changed; why not where that cannot be."""
    wanted = tuple(changes)
    if not wanted:
        return tuple(command), None
    try:
        return change(command, wanted), None
    except (NotALaunchError, BadChangeError) as error:
        return tuple(command), Refusal("bad-change", f"the flags cannot be changed: {plain(str(error))}")


def differences(before: Sequence[str], after: Sequence[str]) -> tuple[FlagChange, ...]:
    """What a command has otherwise than what runs now, masked."""
    try:
        found = difference(before, after)
    except NotALaunchError:
        return () if tuple(before) == tuple(after) else (FlagChange("command", _shown(before), _shown(after)),)
    return tuple(
        FlagChange(
            "command" if one.flag == COMMAND else one.flag, _value(one.flag, one.before), _value(one.flag, one.after)
        )
        for one in found
    )


def _shown(command: Sequence[str]) -> str:
    return " ".join(shown(word) for word in mask_argv(command))


def _value(flag: str, value: Value) -> str | None:
    if value is None or value is False:
        return None
    if value is True:
        return "on"
    text = value if isinstance(value, str) else " ".join(value)
    return plain(mask_argv((f"--{flag}", text))[1]) if flag else plain(text)


def new_log(old: str | None, named: Named, *, home: str, cwd: str) -> str:
    """Where a launch logs that no profile names a place for: beside the old log, with the time behind its name; else where profiles log."""
    if old is None or not old.startswith("/") or old.startswith(("/dev/", "/proc/")):
        return fill(
            DEFAULT_LOG,
            replace(named, profile=named.profile or safe_part(short_model(named.model or "server"))),
            home=home,
            cwd=cwd,
        )
    folder, _, name = old.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not dot or not stem:
        stem, ending = name, "log"
    return f"{folder}/{_STAMP.sub('', stem) or 'server'}-{named.time.strftime(TIME_FORMAT)}.{ending}"


def recipe_of_profile(
    name: str,
    profile: Profile,
    wish: Wish,
    *,
    base: Sequence[tuple[str, str]],
    login: Sequence[tuple[str, str]],
    home: str,
    now: datetime,
) -> tuple[Recipe | None, Refusal | None]:
    """What a profile launches. `base`: the environment it adds to; `login`: the login's, for variables that it refers to."""
    try:
        argv = command_of(profile, wish.variant, wish.changes)
    except KeyError:
        known = ", ".join(profile.variants) or "none"
        return None, Refusal(
            "no-variant", f"the profile {name} has no variant {plain(wish.variant or '')!r}; it has {known}"
        )
    except (NotALaunchError, BadChangeError) as error:
        return None, Refusal("bad-change", f"the flags cannot be changed: {plain(str(error))}")
    there = dict(login)
    missing = [variable for variable, of in profile.referred_env() if of not in there]
    if missing:
        text = f"the profile {name} takes {', '.join(missing)} from the login's environment on the node, and it is not set there"
        return None, Refusal("no-environment", text)
    env = dict(base) | dict(profile.literal_env()) | {variable: there[of] for variable, of in profile.referred_env()}
    cwd = home if profile.cwd is None else _absolute(profile.cwd, home)
    port, launch = port_of(profile, argv), engine_launch(argv)
    named = Named(name, wish.variant, now, port, model_of(argv))
    log = fill(profile.log, named, home=home, cwd=cwd)
    return Recipe(
        argv, tuple(env.items()), cwd, log, "profile", engine=None if launch is None else launch.engine, port=port, profile=name,
        variant=wish.variant, launcher=wish.launcher or profile.launcher, handle=profile.handle, limits=Limits(umask=profile.umask),
    ), None  # fmt: skip


def _absolute(path: str, home: str) -> str:
    if path == "~" or path.startswith("~/"):
        return home.rstrip("/") + path[1:]
    return path if path.startswith("/") else f"{home.rstrip('/')}/{path}"


def gpus_of(env: Iterable[tuple[str, str]], report: GpuReport) -> frozenset[int] | None:
    """Indexes that CUDA_VISIBLE_DEVICES leaves visible; None for all, or where it names none that are known."""
    told = dict(env).get("CUDA_VISIBLE_DEVICES")
    if told is None:
        return None
    by_uuid = {gpu.uuid: gpu.index for gpu in report.gpus if gpu.uuid is not None}
    found: set[int] = set()
    for word in (part.strip() for part in told.split(",")):
        if word.isascii() and word.isdigit():
            found.add(int(word))
        elif (index := next((at for uuid, at in by_uuid.items() if word and uuid.startswith(word)), None)) is not None:
            found.add(index)
        else:
            break  # CUDA takes nothing behind what it does not know
    return frozenset(found) or None


def flags_for(wish: Wish, profile: Profile | None, command: Sequence[str]) -> tuple[str, ...]:
    """Names for completion: of the command, the profile and its variants, then the engine's usual ones."""
    own = () if profile is None else profile.argv()
    variants = () if profile is None else (flag for one in profile.variants.values() for flag, _ in one.changes())
    names = (*known_flags(command or own), *known_flags(own), *variants, *(flag for flag, _ in wish.changes))
    return tuple(dict.fromkeys(names))
