"""Reading and changing flags of a server's command line by name, in the engine's own argument syntax. Pure.

A flag is named without hyphens; `-` and `_` are the same in it, and so are its aliases (`tp`, `tp-size`, `tensor-parallel-size`). What is not
changed stays byte for byte where it is: wrappers before the launcher, the order, and how each flag is written (`--flag value`, `--flag=value`).

A value (`Value`) is a str; a tuple for several (`--cuda-graph-bs 1 2 4`); True for a switch; None where the flag is not there. In a change False means
the same as None: the flag is removed, and the engine's default holds. A switch that is on by default is turned off by its own
negation, as the engine has it: `no-enable-prefix-caching` set to True takes the place of `--enable-prefix-caching`, and the other way round.

vLLM's settings in JSON go by a path, however they are written: `speculative-config.num_speculative_tokens` is changed inside
`--speculative-config '{…}'` where that stands, else as a dotted flag. vLLM's positional model goes by `model`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from eagletui.engines.command_words import (
    MODEL,
    Item,
    NotALaunchError,
    Parts,
    could_be_mistaken,
    looks_like_flag,
    take_apart,
)
from eagletui.engines.flag_names import USUAL, is_appended, one_name, takes_none, takes_several
from eagletui.engines.json_values import (
    leaves,
    list_text,
    one_text,
    parse_object,
    tellable,
    text_of,
    with_path,
    without_path,
)

__all__ = [
    "BadChangeError",
    "Difference",
    "NotALaunchError",
    "Value",
    "change",
    "difference",
    "flags",
    "known_flags",
    "parse_change",
    "value_of",
]

Value = str | bool | tuple[str, ...] | None
COMMAND = ""
"""In a difference: not a flag but the command itself (program, wrappers, words that belong to no flag)."""


class BadChangeError(ValueError):
    """A change that cannot be made or understood; the message is a sentence."""


class Difference(NamedTuple):
    """A flag (as the later command writes it) and its value in either command; None: it is not there."""

    flag: str
    before: Value
    after: Value


def _settled(value: Value) -> Value:
    """One way to say a value that may be said in several."""
    if value is False:
        return None
    if isinstance(value, tuple):
        return value[0] if len(value) == 1 else (value or True)
    return value


def _held(items: Sequence[Item], parts: Parts) -> Value:
    """What several occurrences of one flag mean together."""
    if not items:
        return None
    if items[0].name.endswith("+") or is_appended(parts.engine, items[0].key):
        return _settled(tuple(value for item in items for value in item.values))
    bare = [item for item in items if item.bare]
    return _settled((bare or items)[-1].values)


def _dotted(parts: Parts, key: str) -> bool:
    return parts.engine == "vllm" and "." in key


def _find(parts: Parts, key: str) -> list[Item]:
    return [item for item in parts.items if item.key == key]


def _holder(parts: Parts, key: str) -> tuple[Item, list[str]] | None:
    """The flag whose JSON holds a dotted setting, and the path in it. Where anything of the same flag is written dotted, that counts alone."""
    if not _dotted(parts, key):
        return None
    names = key.split(".")
    for length in range(len(names) - 1, 0, -1):
        upper = ".".join(names[:length])
        found = [item for item in _find(parts, upper) if not item.name.endswith("+")]
        if found and (length > 1 or not any(item.key.startswith(upper + ".") for item in parts.items)):
            return found[-1], names[length:]
    return None


def _read(parts: Parts, key: str) -> Value:
    held = _held(_find(parts, key), parts)
    if held is not None or not _dotted(parts, key):
        return held
    holder = _holder(parts, key)
    data = parse_object(holder[0].values) if holder is not None else None
    return text_of(data, holder[1]) if holder is not None and data is not None else None


def value_of(command: Sequence[str], flag: str) -> Value:
    """The value that a flag has in a command line. Raises NotALaunchError."""
    parts = take_apart(command)
    return _read(parts, one_name(parts.engine, flag.lstrip("-")))


def flags(command: Sequence[str]) -> tuple[tuple[str, Value], ...]:
    """The flags that a command line names, as written and in its order, each once. Raises NotALaunchError."""
    parts = take_apart(command)
    last = {item.key: item.name.replace("_", "-") if "." not in item.name else item.name for item in parts.items}
    return tuple((name, _read(parts, key)) for key, name in last.items())


def known_flags(command: Sequence[str]) -> tuple[str, ...]:
    """Names for completion: the command's own first, then those of its engine that people change. Total."""
    try:
        parts = take_apart(command)
    except NotALaunchError:
        return ()
    own = [name for name, _ in flags(command)]
    keys = {one_name(parts.engine, name) for name in own}
    usual = USUAL[parts.engine] if parts.engine is not None else ()
    return (*own, *(name for name in usual if one_name(parts.engine, name) not in keys))


def parse_change(text: str) -> tuple[str, Value]:
    """What `--set` means: `FLAG=VALUE` sets a value, `FLAG` alone a switch, `FLAG=` removes the flag, `FLAG=""` (with the quotes reaching us)
    sets an empty value. `FLAG=true` and `FLAG=false` turn a switch on and remove it; a flag that takes such a word gets it. Raises BadChangeError."""
    name, equals, value = text.partition("=")
    flag = _flag_name(name)
    if not equals:
        return flag, True
    if value in {'""', "''"}:
        return flag, ""
    return flag, value or None


def _flag_name(text: str) -> str:
    name = text.strip().lstrip("-")
    if not name or not looks_like_flag(f"--{name}") or "=" in name:
        raise BadChangeError(f"{text!r} names no flag: write FLAG=VALUE, FLAG for a switch, or FLAG= to remove it")
    return name


def change(command: Sequence[str], changes: Iterable[tuple[str, Value]]) -> tuple[str, ...]:
    """The command line with flags changed, one after the other. Raises NotALaunchError, BadChangeError."""
    words = tuple(command)
    take_apart(words)
    for flag, value in changes:
        words = _change_one(words, _flag_name(flag), value)
    return words


def _change_one(words: tuple[str, ...], flag: str, asked: Value) -> tuple[str, ...]:
    parts = take_apart(words)
    key = one_name(parts.engine, flag)
    value = _meant(parts, key, asked)
    below = parts.engine == "vllm" and any(item.key.startswith(key + ".") for item in parts.items)
    if _read(parts, key) == value and not below:
        return words
    holder = None if _find(parts, key) else _holder(parts, key)
    changed = _in_json(words, flag, holder, value) if holder is not None else _as_flag(words, parts, flag, key, value)
    if _read(take_apart(changed), key) != value:
        raise BadChangeError(
            f"--{flag} cannot be set to {value!r} in this command: a word of it would be taken for something else"
        )
    return changed


def _meant(parts: Parts, key: str, asked: Value) -> Value:
    """A value as this command's flag takes it: "true" of a switch, "1 2 4" of a flag with several values."""
    value = _settled(asked)
    if _dotted(parts, key) and value is not None:
        return _meant_in_json(parts, key, value)
    if not isinstance(value, str):
        return value
    found = _find(parts, key)
    if value in {"true", "false", "True", "False"}:
        switch = all(not item.values for item in found) if found else takes_none(parts.engine, key)
        if switch:
            return True if value in {"true", "True"} else None
    if " " in value and (takes_several(parts.engine, key) or any(len(item.values) > 1 for item in found)):
        return _settled(tuple(value.split()))
    return value


def _meant_in_json(parts: Parts, key: str, value: str | bool | tuple[str, ...]) -> str:
    """A setting's value as text: a switch is `true`, several values are a list. In JSON a number has one way to be written."""
    text = list_text(value) if isinstance(value, tuple) else "true" if isinstance(value, bool) else value
    return one_text(text) if not _find(parts, key) and _holder(parts, key) is not None else text


def _in_json(words: tuple[str, ...], flag: str, holder: tuple[Item, list[str]], value: Value) -> tuple[str, ...]:
    """A setting inside a flag's JSON; the flag goes with its last setting."""
    item, path = holder
    data = parse_object(item.values)
    if data is None:
        raise BadChangeError(
            f"--{flag} cannot be changed: the value of --{item.name} is no JSON object. Set --{item.name} as a whole"
        )
    if value is None:
        left = without_path(item.values[0], data, path)
        return _replaced(words, item, _written(item, left) if left is not None else ())
    return _replaced(words, item, _written(item, with_path(item.values[0], data, path, str(value))))


def _as_flag(words: tuple[str, ...], parts: Parts, flag: str, key: str, value: Value) -> tuple[str, ...]:
    """A flag of its own: in the place of the one that counts now, the others of it go; else at the end."""
    lower = [item for item in parts.items if parts.engine == "vllm" and item.key.startswith(key + ".")]
    found = _find(parts, key) or lower or (_negated(parts, key) if value is True else [])
    gone = {id(item): item for item in (*_find(parts, key), *lower, *(found if value is not None else ()))}
    if value is not None and found:
        bare = [item for item in found if item.bare]
        kept = (bare or found)[-1]
        same = kept.key == key
        new = _written(kept, value, several=_spread(parts, key, found)) if same else _fresh(flag, value, parts, key)
        gone.pop(id(kept))
        return _rebuilt(words, {item.start: (item.stop, ()) for item in gone.values()} | {kept.start: (kept.stop, new)})
    if value is None:
        return _rebuilt(words, {item.start: (item.stop, ()) for item in gone.values()})
    if key == MODEL and parts.model_first and isinstance(value, str) and not could_be_mistaken(value):
        return (*words[: parts.head], value, *words[parts.head :])
    return (*words[: parts.end], *_fresh(flag, value, parts, key), *words[parts.end :])


def _negated(parts: Parts, key: str) -> list[Item]:
    """The switch that says the opposite."""
    other = key[3:] if key.startswith("no-") else f"no-{key}"
    return [item for item in _find(parts, other) if not item.values]


def _spread(parts: Parts, key: str, found: Sequence[Item]) -> bool:
    return is_appended(parts.engine, key) or any(item.name.endswith("+") for item in found)


def _fresh(flag: str, value: Value, parts: Parts, key: str) -> tuple[str, ...]:
    """A flag that was not there."""
    head, dot, path = flag.partition(".")
    name = head.replace("_", "-") + (dot + path.replace("-", "_") if parts.engine == "vllm" else dot + path)
    hyphens = "-" if len(name) <= 3 and parts.engine == "vllm" and one_name("vllm", name) != name else "--"
    return _written(Item(0, 0, hyphens, name, key, ()), value, several=is_appended(parts.engine, key))


def _written(item: Item, value: Value, *, several: bool = False) -> tuple[str, ...]:
    """The words of a flag in the manner of an item."""
    word = item.hyphens + item.name
    if value is True:
        return (word,)
    if isinstance(value, tuple):
        if several:
            return tuple(part for one in value for part in _written(item, one))
        mistaken = next((one for one in value if could_be_mistaken(one)), None)
        if mistaken is not None:
            raise BadChangeError(f"{mistaken!r} cannot be one of several values: it would be taken for a flag")
        return (word, *value)
    text = str(value)
    if item.bare:
        if could_be_mistaken(text):
            raise BadChangeError(f"{text!r} cannot be the model: it would be taken for a flag")
        return (text,)
    if item.glued:
        return (f"{word}{text}",)
    return (f"{word}={text}",) if item.equals or could_be_mistaken(text) else (word, text)


def _replaced(words: tuple[str, ...], item: Item, new: tuple[str, ...]) -> tuple[str, ...]:
    return _rebuilt(words, {item.start: (item.stop, new)})


def _rebuilt(words: tuple[str, ...], edits: dict[int, tuple[int, tuple[str, ...]]]) -> tuple[str, ...]:
    out: list[str] = []
    at = 0
    while at < len(words):
        if at in edits:
            at, new = edits[at]
            out += new
        else:
            out.append(words[at])
            at += 1
    return tuple(out)


def difference(before: Sequence[str], after: Sequence[str]) -> tuple[Difference, ...]:
    """What a command line has otherwise than another. A first entry with the flag COMMAND tells of all that is no flag. `change(before, …)`
    with the flags of it gives a command line that means the same as `after`. Raises NotALaunchError."""
    was, now = take_apart(before), take_apart(after)
    found: list[Difference] = []
    around = [(*words[: parts.head], *parts.strays) for words, parts in ((before, was), (after, now))]
    if around[0] != around[1]:
        found.append(Difference(COMMAND, shlex.join(around[0]), shlex.join(around[1])))
    old, new = _settings(was, now), _settings(now, was)
    for key in dict.fromkeys((*old, *new)):
        (name, value), (name_before, value_before) = new.get(key, ("", None)), old.get(key, ("", None))
        if value != value_before:
            found.append(Difference(name or name_before, value_before, value))
    return tuple(found)


def _settings(parts: Parts, other: Parts) -> dict[str, tuple[str, Value]]:
    """Key to (name as written, value). JSON is told by its leaves where the other command has the same flag."""
    found: dict[str, tuple[str, Value]] = {}
    for item in parts.items:
        head = item.key.partition(".")[0]
        shared = parts.engine == "vllm" and any(one.key.partition(".")[0] == head for one in other.items)
        data = parse_object(item.values) if shared and not item.bare else None
        if data is None:
            found.pop(item.key, None)
            found[item.key] = (item.name.removesuffix("+"), _read(parts, item.key))
            continue
        if "." not in item.key and any(one.key.startswith(item.key + ".") for one in parts.items):
            continue  # what is dotted counts alone
        paths = tuple(leaves(data))
        if not tellable(paths):
            found[item.key] = (item.name, _read(parts, item.key))
            continue
        for path in paths:
            key = ".".join((item.key, *path))
            found[key] = (".".join((item.name, *path)), text_of(data, list(path)))
    return found
