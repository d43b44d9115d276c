"""A launch's phases and the bar of the present one as JSON, the same in `status`, `explain` and in the results of `wait`, `start` and `restart`."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from eagletui.logs.state import Phase

DIGITS = 4
DIFFER_S = 1.0
DIFFER = 0.05
"""Ranks are told one by one when they differ by more than this many seconds, and this share of the slowest."""


class ProgressModel(BaseModel):
    """n/N of a phase's bar; `rate` per second, `eta_s` seconds."""

    model_config = ConfigDict(frozen=True)

    done: int
    total: int
    unit: str
    rate: float | None
    eta_s: float | None


class PhaseModel(BaseModel):
    """A phase's duration; `rank` null: of the whole launch (the slowest rank). `seconds` null: it runs, or nobody knows."""

    model_config = ConfigDict(frozen=True)

    name: str
    seconds: float | None
    rank: str | None


def phases_of(phases: Iterable[Phase]) -> list[PhaseModel]:
    """The phases up to readiness, and each rank of those in which the ranks differ."""
    return [model for phase in phases if phase.name != "serving" for model in _models(phase)]


def _models(phase: Phase) -> list[PhaseModel]:
    whole = PhaseModel(name=phase.name, seconds=_rounded(phase.seconds), rank=None)
    times = [seconds for _, seconds in phase.ranks]
    if not times or max(times) - min(times) < max(DIFFER_S, DIFFER * max(times)):
        return [whole]
    return [whole, *(PhaseModel(name=phase.name, seconds=_rounded(one), rank=rank) for rank, one in phase.ranks)]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, DIGITS)
