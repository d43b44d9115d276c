"""The loads that have a name. Pure."""

from __future__ import annotations

from difflib import get_close_matches

from eagletui.bench.load import Load
from eagletui.errors import UsageError

PRESETS: tuple[Load, ...] = (
    Load("quick", requests=8, input_len=256, output_len=128, concurrency=1, warmup=1, repeats=3),
    Load("standard", requests=32, input_len=1024, output_len=512, concurrency=8, warmup=4, repeats=3),
)
"""quick: about 20 s with a server of 150 tok/s. standard: what a change of flags is judged by."""


def preset_named(name: str, presets: tuple[Load, ...] = PRESETS) -> Load:
    """The load of that name. Raises UsageError with the nearest name."""
    found = next((one for one in presets if one.preset == name), None)
    if found is None:
        names = [one.preset for one in presets]
        near = get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise UsageError(f"there is no preset {name!r}; {hint}")
    return found
