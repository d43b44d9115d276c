"""What a person writes for `eagletui sweep NODE FILE`: flags and the values to try, and how each is measured. TOML:

profile = "llama"              # what is launched; without it the server that runs, or ran last
preset = "standard"            # of `eagletui bench`
order = "interleaved"          # given, random, or interleaved: the baseline before each cell
start_timeout = "45m"

[flags]                        # every combination is a cell; false leaves a flag out
speculative-num-steps = [2, 3, 5]
enable-torch-compile = [true, false]

[[cells]]                      # and these by hand
name = "no graphs"
set = { disable-cuda-graph = true }

[load]                         # instead of the preset's
concurrency = 8
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, StrictStr, ValidationError

from eagletui.config.lines import lines_of
from eagletui.config.load import told
from eagletui.config.models import Flag, FlagValue, Name, Set, Written, flag_value
from eagletui.config.reading import Problem, UnreadableError, read_source
from eagletui.errors import ConfigError

MAX_CELLS = 500
"""More than anybody waits for: ten days of starts of half an hour."""
_WHERE = frozenset({"port", "host"})
_NOT_HERE = "every cell is the same server: where it listens is not changed (--port names which one is meant)"
_TIME = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


def _seconds(value: str) -> str:
    if seconds_of(value) <= 0:
        raise ValueError(f"{value!r} is no time; write 90s, 5m or 1h30m")
    return value


def seconds_of(value: str) -> float:
    """Seconds of `90s`, `5m`, `1h30m`; 0 for what is no time."""
    found = _TIME.fullmatch(value.strip())
    if found is None:
        return 0.0
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


class SweepLoad(Written):
    """What is sent to each cell, where the preset says otherwise."""

    requests: Count | None = Field(default=None, description="Requests of each repeat.")
    input_len: Count | None = Field(default=None, description="Tokens of a prompt.")
    output_len: Count | None = Field(default=None, description="Tokens of an answer.")
    concurrency: Count | None = Field(default=None, description="Requests at a time.")
    repeats: Annotated[int, Field(ge=1, le=100, strict=True)] | None = Field(default=None, description="Repeats.")
    warmup: Annotated[int, Field(ge=0, le=10_000, strict=True)] | None = Field(
        default=None, description="Requests before the first repeat that are not counted."
    )
    seed: Annotated[int, Field(ge=0, strict=True)] | None = Field(default=None, description="Of the prompts.")


class SweepCell(Written):
    """One thing to try, by hand."""

    name: Name | None = Field(default=None, description="What it is called; without it its flags are its name.")
    variant: Name | None = Field(default=None, description="A variant of the profile.")
    set: dict[Flag, Set] = Field(default_factory=dict, description="Flag to value; false leaves the flag out.")

    def changes(self) -> tuple[tuple[str, FlagValue], ...]:
        """The flags (without hyphens) and their values."""
        return tuple((flag, flag_value(value)) for flag, value in self.set.items())


class SweepFile(Written):
    """The whole of it."""

    profile: Name | None = Field(default=None, description="What is launched; else the server that runs or ran last.")
    baseline: Name | None = Field(
        default=None, description="The variant that cells are compared with; else the profile as it is."
    )
    preset: Name = Field(default="standard", description="Of `eagletui bench`.")
    runner: Literal["builtin", "bench_serving", "aiperf"] = Field(default="builtin", description="Who sends the load.")
    order: Literal["given", "random", "interleaved"] = Field(
        default="given", description="random against drift; interleaved measures the baseline before each cell."
    )
    rounds: Annotated[int, Field(ge=1, le=20, strict=True)] = Field(
        default=1, description="How often the whole is gone through."
    )
    seed: Annotated[int, Field(ge=0, strict=True)] = Field(default=0, description="Of the random order.")
    start_timeout: Annotated[StrictStr, AfterValidator(_seconds)] = Field(
        default="1h", description="How long a start may take: 90s, 5m, 1h30m."
    )
    afterwards: Literal["leave", "baseline", "stop"] = Field(
        default="leave", description="What runs when all is done: the last cell, the baseline, or nothing."
    )
    flags: dict[Flag, Annotated[list[Set], Field(min_length=1)]] = Field(
        default_factory=dict, description="Flag to the values to try: every combination is a cell."
    )
    cells: list[SweepCell] = Field(default_factory=list, description="Further cells, by hand.")
    load: SweepLoad = Field(default_factory=SweepLoad, description="What is sent, where the preset says otherwise.")

    def values(self) -> tuple[tuple[str, tuple[FlagValue, ...]], ...]:
        """The flags and the values to try."""
        return tuple((flag, tuple(map(flag_value, values))) for flag, values in self.flags.items())


def load_sweep(path: Path) -> tuple[SweepFile, str]:
    """The file's content, and its text. Raises ConfigError that names every problem with file, line and key."""
    try:
        source = read_source(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file. `eagletui sweep --help` shows what one holds") from None
    except UnreadableError as error:
        raise ConfigError(str(error.problem)) from None
    lines = lines_of(source.text)
    try:
        found = SweepFile.model_validate(_as_named(source.table))
    except ValidationError as error:
        raise ConfigError("\n".join(map(str, told(source, lines, error, _names_beside)))) from None
    problems = list(_senseless(path, lines, found))
    if problems:
        raise ConfigError("\n".join(map(str, problems)))
    return found, source.text


def _as_named(table: dict[str, Any]) -> dict[str, Any]:
    """With the keys of `load` as they are named here: a person writes them as the options are, too."""
    load = table.get("load")
    if not isinstance(load, dict):
        return table
    return {**table, "load": {key.replace("-", "_"): value for key, value in load.items()}}


def _senseless(path: Path, lines: dict[tuple[str, ...], int], found: SweepFile) -> list[Problem]:
    """What is well written and means nothing."""
    problems: list[Problem] = []
    if not found.flags and not found.cells:
        problems.append(Problem(path, None, "", "it has nothing to try: write [flags] with values, or [[cells]]"))
    combinations = 1
    for values in found.flags.values():
        combinations *= len(values)
    total = ((combinations if found.flags else 0) + len(found.cells)) * found.rounds
    if total > MAX_CELLS:
        problems.append(Problem(path, lines.get(("flags",)), "flags", f"{total} cells are more than {MAX_CELLS}"))
    problems += [
        Problem(path, lines.get(("flags", flag)), f"flags.{flag}", _NOT_HERE) for flag in found.flags if flag in _WHERE
    ]
    for at, cell in enumerate(found.cells):
        if set(cell.set) & _WHERE:
            problems.append(Problem(path, lines.get(("cells", str(at), "set")), f"cells.{at}.set", _NOT_HERE))
        where = lines.get(("cells", str(at)))
        if cell.variant is not None and found.profile is None:
            problems.append(Problem(path, where, f"cells.{at}.variant", "a variant is of a profile: name it above"))
        if cell.variant is None and not cell.set:
            problems.append(Problem(path, where, f"cells.{at}", "it changes nothing: write set, or variant"))
    if found.baseline is not None and found.profile is None:
        problems.append(Problem(path, lines.get(("baseline",)), "baseline", "it is a variant of a profile: name it"))
    return problems


def _names_beside(path: tuple[str, ...]) -> list[str]:
    """The keys that may stand where an unknown one does."""
    models: dict[str, type[BaseModel]] = {"cells": SweepCell, "load": SweepLoad}
    model = models.get(path[0], SweepFile) if len(path) > 1 else SweepFile
    return list(model.model_fields)
