"""The loads that have a name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from eagletui.bench.load import Load
from eagletui.errors import UsageError

PRESETS: tuple[Load, ...] = (
    Load("quick", requests=8, input_len=256, output_len=128, concurrency=1, warmup=1, repeats=3),
    Load("standard", requests=32, input_len=1024, output_len=512, concurrency=8, warmup=4, repeats=3),
)
"""quick: about 20 s with a server of 150 tok/s. standard: what a change of flags is judged by."""


def with_own(own: Mapping[str, Mapping[str, object]]) -> tuple[Load, ...]:
    """Those of the house and a person's own, by name, as the configuration gives their fields. One of the name of the house's changes that one; another
    begins from `quick`. With `rate` alone requests begin at it, however many are open."""
    found = {one.preset: one for one in PRESETS}
    for name, fields in own.items():
        load = replace(found.get(name, PRESETS[0]), preset=name, **fields)  # type: ignore[arg-type]
        found[name] = replace(load, concurrency=None) if "rate" in fields and "concurrency" not in fields else load
    return tuple(found.values())


def preset_named(name: str, presets: tuple[Load, ...] = PRESETS) -> Load:
    """The load of that name. Raises UsageError with the nearest name."""
    found = next((one for one in presets if one.preset == name), None)
    if found is None:
        names = [one.preset for one in presets]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no preset {name!r}; {hint}")
    return found
