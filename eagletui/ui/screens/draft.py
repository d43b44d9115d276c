"""Flags of a command as they are edited: what is there, what was changed, what will come of it. Pure. The base is masked; only changes leave here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from eagletui.engines.command_line import (
    BadChangeError,
    NotALaunchError,
    Value,
    change,
    difference,
    flags,
    parse_change,
    value_of,
)
from eagletui.engines.flag_names import names_of, one_name, takes_none
from eagletui.engines.shapes import Engine, launch_of
from eagletui.launching.plan import FlagChange
from eagletui.shell.masking import mask_argv

Changes = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A flag of the list. `before`: in the base, None where it is not there; `after`: in what will run."""

    name: str
    before: Value
    after: Value

    @property
    def changed(self) -> bool:
        """Whether it will be otherwise."""
        return self.before != self.after


def words_of(name: str, value: Value) -> str:
    """A value as it is shown: a switch is `on`, a secret is masked."""
    if value is None or value is False:
        return ""
    if value is True:
        return "on"
    text = " ".join(value) if isinstance(value, tuple) else value
    return mask_argv((f"--{name}", text))[-1] if text else '""'


def is_secret(name: str) -> bool:
    """Whether a value of it is not to be seen."""
    return mask_argv((f"--{name}", "value0value0"))[-1] != "value0value0"


@dataclass(frozen=True, slots=True)
class Draft:
    """`base`: the masked command without changes. `known`: names for completion. Raises NotALaunchError on first use where `base` is no engine's."""

    base: tuple[str, ...]
    known: tuple[str, ...] = ()
    changes: Changes = ()

    @property
    def engine(self) -> Engine | None:
        """Whose syntax it is."""
        launch = launch_of(self.base)
        return launch.engine if launch is not None else None

    def key(self, name: str) -> str:
        """One name for a flag and its aliases."""
        return one_name(self.engine, name)

    def distance(self, name: str, typed: str) -> int | None:
        """How far a flag is from what was typed (lower case, with hyphens), by its name or an alias that its engine knows: 0 the very name,
        1 one that begins so, 2 any other that has it; None where nothing of it was typed."""
        names = [one.lower().replace("_", "-") for one in (name, *names_of(self.engine, name))]
        return min(
            (0 if one == typed or not typed else 1 if one.startswith(typed) else 2 for one in names if typed in one),
            default=None,
        )

    @property
    def command(self) -> tuple[str, ...]:
        """What will run, masked."""
        return mask_argv(change(self.base, self.changes))

    def entries(self) -> tuple[Entry, ...]:
        """The flags of the base in its order, then those that were added."""
        command = change(self.base, self.changes)
        out = [Entry(name, before, value_of(command, name)) for name, before in flags(self.base)]
        keys = {self.key(one.name) for one in out}
        for name, _ in self.changes:
            if self.key(name) not in keys:
                out.append(Entry(name, value_of(self.base, name), value_of(command, name)))
        return tuple(out)

    def value(self, name: str) -> Value:
        """As it will be."""
        return value_of(change(self.base, self.changes), name)

    def differences(self) -> tuple[FlagChange, ...]:
        """What will be otherwise, masked."""
        return tuple(
            FlagChange(
                one.flag,
                None if one.before is None else words_of(one.flag, one.before),
                None if one.after is None else words_of(one.flag, one.after),
            )
            for one in difference(self.base, change(self.base, self.changes))
        )

    def others(self) -> tuple[str, ...]:
        """Known names that are not in the list."""
        keys = {self.key(one.name) for one in self.entries()}
        out: dict[str, str] = {}
        for name in self.known:
            out.setdefault(self.key(name), name)
        return tuple(name for key, name in out.items() if key not in keys)

    def is_switch(self, name: str) -> bool:
        """Whether it takes no value: here it has none, or its engine knows it as such."""
        value = value_of(self.base, name)
        return value is True or (value is None and takes_none(self.engine, self.key(name)))

    def with_(self, name: str, value: Value) -> Draft:
        """Set, or remove (None). A value as in the base is no change. Raises BadChangeError."""
        key = self.key(name)
        rest = tuple(pair for pair in self.changes if self.key(pair[0]) != key)
        same = value_of(self.base, name) == value
        draft = replace(self, changes=rest if same else (*rest, (name, value)))
        change(draft.base, draft.changes)
        if not same and value_of(change(draft.base, draft.changes), name) == value_of(self.base, name):
            return replace(self, changes=rest)  # written otherwise, and the same
        return draft

    def without(self, name: str) -> Draft:
        """As it was."""
        return replace(self, changes=tuple(pair for pair in self.changes if self.key(pair[0]) != self.key(name)))

    def understood(self, text: str) -> tuple[str, Value]:
        """What `flag=value` means, as `--set` has it. Raises BadChangeError."""
        return parse_change(text)


__all__ = ["BadChangeError", "Changes", "Draft", "Entry", "NotALaunchError", "is_secret", "words_of"]
