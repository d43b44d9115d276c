"""Which cells a sweep has, and in which order. Pure."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from eagletui.engines.command_line import Value
from eagletui.shell.masking import mask_argv

Order = Literal["given", "random", "interleaved"]
Changes = tuple[tuple[str, Value], ...]
BASELINE = "baseline"
"""The name of the cell that all others are held against."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to launch and measure: a variant of the sweep's profile (None: the profile as it is), and flags changed on top. `turn`: which place it has
    in the whole row, from 0: the same thing measured twice is two cells. `name` is for people: masked."""

    turn: int
    name: str
    variant: str | None = None
    changes: Changes = ()
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """A cell before it has its turn."""

    variant: str | None = None
    changes: Changes = ()
    name: str | None = None


def combinations(flags: Sequence[tuple[str, Sequence[Value]]]) -> tuple[Tried, ...]:
    """Every combination of the values of every flag, the last flag changing fastest; none for no flags."""
    if not flags:
        return ()
    names = [name for name, _ in flags]
    return tuple(
        Tried(changes=tuple(zip(names, values, strict=True)))
        for values in itertools.product(*(values for _, values in flags))
    )


def in_order(tried: Sequence[Tried], baseline: Tried, order: Order, rounds: int, seed: int) -> tuple[Cell, ...]:
    """The whole row. The baseline comes first, so that each cell has something to be held against at once; interleaved it comes before every cell, and once
    more at the end, so that what drifts (a warming machine, a neighbour) is seen on both sides of each. What is tried twice in a round is tried once."""
    once = list(dict.fromkeys(Tried(one.variant, one.changes, one.name) for one in tried))
    drawn = random.Random(seed)  # noqa: S311 - an order, no secret
    row: list[tuple[Tried, bool]] = []
    for _ in range(rounds):
        turn = list(once)
        if order == "random":
            drawn.shuffle(turn)
        if order == "interleaved":
            row += [pair for one in turn for pair in ((baseline, True), (one, False))]
        else:
            row += [(baseline, True), *((one, False) for one in turn)]
    if order == "interleaved":
        row.append((baseline, True))
    return tuple(
        Cell(at, BASELINE if is_baseline else named(one), one.variant, one.changes, is_baseline)
        for at, (one, is_baseline) in enumerate(row)
    )


def named(one: Tried) -> str:
    """What a cell is called: its own name, else its variant and flags as they would be written."""
    if one.name is not None:
        return one.name
    flags = [_written(flag, value) for flag, value in one.changes]
    return " ".join([*([one.variant] if one.variant is not None else []), *flags]) or "as it is"


def _written(flag: str, value: Value) -> str:
    if value is None or value is False:
        return f"no {flag}"
    if value is True:
        return flag
    return f"{flag}={_masked(flag, value)}"


def _masked(flag: str, value: str | tuple[str, ...]) -> str:
    return mask_argv((f"--{flag}", " ".join(value) if isinstance(value, tuple) else value))[-1]


def masked_changes(changes: Changes) -> dict[str, str | bool | None]:
    """A cell's flags and values as they may be shown."""
    return {
        flag: value if value is None or isinstance(value, bool) else _masked(flag, value) for flag, value in changes
    }


def identity_of(node: str, port: int | None, text: str) -> str:
    """Which sweep this is: the same file on the same node, and server, is the same one, to be gone on with."""
    digest = hashlib.sha256("\0".join((node, str(port or ""), text)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:12]
