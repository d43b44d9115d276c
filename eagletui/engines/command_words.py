"""A command line taken apart: the words before its flags, and each flag with the words that are its. Pure.

    taskset -c 0-31 vllm serve /models/a --port 8000 --speculative-config.method=eagle3
    └────────── head ────────┘ └ model ┘ └─ flag ──┘ └──────────── flag ──────────────┘

Where a flag's values end is what argparse would see: every word up to the next flag is its value; only where vLLM's model may stand behind flags
do the tables of flag_names decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eagletui.engines.flag_names import one_name, takes_none, takes_several
from eagletui.engines.shapes import Engine, launch_of

MODEL = "model"
"""The name of vLLM's model, which may stand without a flag."""

_FLAG = re.compile(r"\A(--?)([A-Za-z][\w.+-]*)(?:(=)(.*))?\Z", re.DOTALL)
_NUMBER = re.compile(r"\A-(?:\d+(?:\.\d*)?|\.\d+)\Z")
_GLUED = re.compile(r"\A-O=?([A-Za-z0-9]+)\Z")
"""vLLM's -O3: the level stands right behind the letter."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl", "apptainer", "singularity"})


class NotALaunchError(ValueError):
    """A command line in which no flags can be changed; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Item:
    """One flag where it stands: `words[start:stop]`. `name` as written, without hyphens; `key` stands for it and its aliases. `equals`: written
    `--flag=value`; `glued`: `-O3`. `bare`: vLLM's model without a flag."""

    start: int
    stop: int
    hyphens: str
    name: str
    key: str
    values: tuple[str, ...]
    equals: bool = False
    glued: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Parts:
    """`head` is the number of words before the flags; `end` where further flags may be written (before a `--`). `strays`: words that belong to no flag.
    `model_first`: vLLM's model may stand without a flag, and its place is right behind the head."""

    engine: Engine | None
    head: int
    end: int
    items: tuple[Item, ...]
    strays: tuple[str, ...] = ()
    model_first: bool = False


def looks_like_flag(word: str) -> bool:
    """Whether a parser takes a word for a flag (and so not for a value)."""
    return word == "--" or _FLAG.match(word) is not None


def could_be_mistaken(value: str) -> bool:
    """Whether a value must stand behind `=`, since a word of its own would be taken for a flag."""
    return value.startswith("-") and value != "-" and not _NUMBER.match(value)


def _head(words: Sequence[str]) -> tuple[Engine | None, int]:
    """The engine, and how many words stand before what it reads. Raises NotALaunchError."""
    for at in range(len(words)):
        launch = launch_of(words[at:])
        if launch is not None:
            return launch.engine, len(words) - len(launch.args)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    if program in _SHELLS and any(re.match(r"\A-[a-z]*c\Z", word) for word in words[1:]):
        raise NotALaunchError(
            f"the command is a text for {program}, in which no flags can be changed by name: write the server's command as words"
        )
    if program in _CONTAINERS:
        raise NotALaunchError(
            f"the command is one of {program}, and which of its flags are the engine's cannot be told: change it in the profile"
        )
    if not program:
        raise NotALaunchError("the command is empty")
    return None, 1  # a script of the person's own that hands its arguments on


def take_apart(words: Sequence[str]) -> Parts:
    """The parts of a command line. Raises NotALaunchError."""
    engine, head = _head(words)
    end = next((at for at in range(head, len(words)) if words[at] == "--"), len(words))
    serves = engine == "vllm" and words[head - 1] == "serve"
    # A model right behind `serve`, or none that could come later: then every word behind a flag is the flag's.
    leading = serves and head < end and not looks_like_flag(words[head])
    named = any(
        _FLAG.match(word) and one_name(engine, word.lstrip("-").partition("=")[0]) == MODEL for word in words[head:end]
    )
    sure = (engine is not None and not serves) or leading or (serves and named)
    items: list[Item] = []
    strays: list[str] = []
    at = head
    while at < end:
        found = _FLAG.match(words[at])
        if found is None:
            if serves and not named and not any(item.bare for item in items):
                items.append(Item(at, at + 1, "", MODEL, MODEL, (words[at],), bare=True))
            else:
                strays.append(words[at])
            at += 1
            continue
        item = _item(engine, words, at, end, found, sure=sure)
        items.append(item)
        at = item.stop
    return Parts(engine, head, end, tuple(items), (*strays, *words[end:]), serves)


def _item(engine: Engine | None, words: Sequence[str], at: int, end: int, found: re.Match[str], *, sure: bool) -> Item:
    glued = _GLUED.match(words[at]) if engine == "vllm" else None
    if glued is not None:
        return Item(at, at + 1, "-", "O", one_name(engine, "O"), (glued[1],), glued=True)
    hyphens, name, equals, value = found.groups()
    key = one_name(engine, name)
    if equals:
        return Item(at, at + 1, hyphens, name, key, (value,), equals=True)
    stop = at + 1
    while stop < end and not looks_like_flag(words[stop]):
        stop += 1
    if not sure and not takes_several(engine, key):
        stop = min(stop, at + (1 if takes_none(engine, key) else 2))
    return Item(at, stop, hyphens, name, key, tuple(words[at + 1 : stop]))
