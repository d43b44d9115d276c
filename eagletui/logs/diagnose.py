"""From the chosen clue to a diagnosis: the sentence, the advice, the evidence. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from eagletui.logs.advice import Before, Facts, advice_for, severity_of, summary_of
from eagletui.logs.causes import Causes, Choice, Clue
from eagletui.logs.state import Diagnosis, PhaseName, Quote

MAX_SUMMARY = 240


class Facing(NamedTuple):
    """A launch that does not go on, and what is known about it. `waiting`: the prompt it stands at; `hidden`: the error it
    swallowed; `served`: it was ready.
    """

    engine: str
    args: Mapping[str, object]
    phase: PhaseName | None
    before: tuple[Before, ...]
    causes: Causes
    waiting: str | None
    hidden: Clue | None
    served: bool
    asked_at: int = 0
    """The number of the prompt's line."""


def diagnose(facing: Facing) -> Diagnosis | None:
    """Why it crashed, or stands; None when nothing says that it does either."""
    choice = facing.causes.choose(serving=facing.served)
    if choice is not None:
        return _of_choice(facing, choice)
    if facing.waiting is not None:
        return make(facing, "waiting-for-input", "", facing.phase, None, (Quote(facing.asked_at, facing.waiting),))
    if facing.hidden is not None:
        clue = facing.hidden
        return make(facing, clue.code, clue.said, clue.phase, clue.rank or None, (clue.quote,), clue.clock)
    return None


def _of_choice(facing: Facing, choice: Choice) -> Diagnosis:
    clue = choice.clue
    code = clue.code or "died-silently"
    phase = clue.phase or facing.phase
    said = clue.said if clue.code else ""
    return make(
        facing, code, said, phase, choice.rank or None, choice.quotes, clue.clock, advice=clue.advice, names=clue.names
    )


def make(
    facing: Facing, code: str, said: str, phase: PhaseName | None, rank: str | None, quotes: tuple[Quote, ...], clock: str = "",
    *, advice: str = "", names: tuple[str, ...] = (),
) -> Diagnosis:  # fmt: skip
    """A diagnosis with our words for its code, where none better were found."""
    said = " ".join((said or summary_of(code)).split())
    evidence = " ".join(quote.text for quote in quotes)
    facts = Facts(facing.engine, facing.args, phase, facing.before, names, evidence)
    return Diagnosis(
        code, severity_of(code), phase, rank, said[:MAX_SUMMARY].rstrip(" :"), advice or advice_for(code, facts), quotes, clock
    )  # fmt: skip
