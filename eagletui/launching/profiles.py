"""Profiles and commands: the command of a profile's variant, and which profile a running command came from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from eagletui.config.models import Profile
from eagletui.engines.command_line import (
    COMMAND,
    BadChangeError,
    Difference,
    NotALaunchError,
    Value,
    change,
    difference,
    value_of,
)
from eagletui.engines.shapes import DEFAULT_PORT, Launch, flags_of, launch_of
from eagletui.shell.masking import MASK


@dataclass(frozen=True, slots=True)
class Match:
    """A profile that a command looks like. `differences`: from the profile's command to it; none for an exact one."""

    profile: str
    variant: str | None
    differences: tuple[Difference, ...]

    @property
    def exact(self) -> bool:
        """The flags are the same."""
        return not self.differences


def engine_launch(command: Sequence[str]) -> Launch | None:
    """The engine's launch in a command line, behind wrappers too (`taskset … python -m sglang.launch_server …`)."""
    return next((found for at in range(len(command)) if (found := launch_of(command[at:])) is not None), None)


def command_of(
    profile: Profile, variant: str | None = None, changes: Iterable[tuple[str, Value]] = ()
) -> tuple[str, ...]:
    """A profile's command with its variant's flags and then these. Raises KeyError for a variant that is none, NotALaunchError, BadChangeError (also
    where a secret was left out of the command and nobody has put it in)."""
    wanted = (*profile.changes(variant), *changes)
    words = change(profile.argv(), wanted) if wanted else profile.argv()
    if any(word == MASK or word.endswith(f"={MASK}") for word in words):
        raise BadChangeError(
            f"the command has {MASK} where a secret was left out: write the secret there, or remove the flag"
        )
    return words


def port_of(profile: Profile, command: Sequence[str]) -> int | None:
    """Where a command of this profile listens: as the profile says, else the command, else the engine's usual port."""
    if profile.port is not None:
        return profile.port
    launch = engine_launch(command)
    if launch is not None:
        return flags_of(launch).port or DEFAULT_PORT[launch.engine]
    try:
        told = value_of(command, "port")
    except NotALaunchError:
        return None
    return (
        int(told) if isinstance(told, str) and told.isascii() and told.isdigit() and 0 < int(told[:6]) < 65536 else None
    )


def match_of(profiles: Mapping[str, Profile], names: Iterable[str], command: Sequence[str]) -> Match | None:
    """Which of these profiles a running command came from: the one with the same flags, else the one of the same engine, model and port with the
    fewest differences. How the program is called does not count: a process shows the interpreter where the profile has a name. None: none of them."""
    running = engine_launch(command)
    if running is None:
        return None
    found = [match for name in names if name in profiles for match in _matches(name, profiles[name], command, running)]
    return min(found, key=lambda match: (len(match.differences), match.variant is not None), default=None)


def _matches(name: str, profile: Profile, command: Sequence[str], running: Launch) -> Iterator[Match]:
    for variant in (None, *profile.variants):
        try:
            ours = command_of(profile, variant)
            told = tuple(one for one in difference(ours, command) if one.flag != COMMAND)
        except ValueError:  # a variant that cannot be applied is told by `config check`
            continue
        launch = engine_launch(ours)
        if launch is None or launch.engine != running.engine:
            continue
        if not told or _same_server(launch, running, profile):
            yield Match(name, variant, told)


def _same_server(ours: Launch, running: Launch, profile: Profile) -> bool:
    mine, theirs = flags_of(ours), flags_of(running)
    usual = DEFAULT_PORT[running.engine]
    return mine.model == theirs.model and (profile.port or mine.port or usual) == (theirs.port or usual)
