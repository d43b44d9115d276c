"""Means, percentiles, intervals, and whether a difference is one. Pure; nothing but `math`.

Percentiles are by linear interpolation between the closest ranks (Hyndman and Fan's type 7; NumPy's "linear"): of n values in order the p-quantile is at
rank (n - 1)p from 0. Intervals are Student's, tests Welch's (two-sided, unequal variances, degrees of freedom by Welch and Satterthwaite).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
"""Of intervals and of verdicts."""
PERCENTILE = "linear interpolation between the closest ranks"
"""How percentiles are taken, for a reader."""
_TINY = 1e-300
"""In place of a zero denominator of the continued fraction."""
_EXACT = 1e-15
"""The continued fraction has come to its end when a step changes it by less."""
_STEPS = 10_000
"""More than any of its arguments here takes: it needs about the square root of the larger one."""
_HALVINGS = 200
"""Halvings of an interval of doubles until nothing lies between its ends."""


@dataclass(frozen=True, slots=True)
class Test:
    """Welch's test of two samples. `t`: difference of the means by its standard error; `degrees` of freedom; `p`: two-sided."""

    t: float
    degrees: float
    p: float


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean. Raises ValueError for none."""
    if not values:
        raise ValueError("no values have no mean")
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Of the population that the values are a sample of (n - 1). Raises ValueError for fewer than two."""
    if len(values) < 2:
        raise ValueError("the spread of one value cannot be told")
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of them lie, by linear interpolation between the closest ranks. Raises ValueError for none."""
    return of_sorted(sorted(values), share)


def of_sorted(ordered: Sequence[float], share: float) -> float:
    """As percentile, of values in order."""
    if not ordered:
        raise ValueError("no values have no percentile")
    rank = (len(ordered) - 1) * share
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def ci95(values: Sequence[float]) -> tuple[float, float] | None:
    """The interval that holds the mean of all that could be measured, with 95 % confidence (Student). None for fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    half = student_quantile(0.5 + LEVEL / 2, len(values) - 1) * math.sqrt(variance(values) / len(values))
    return middle - half, middle + half


def welch(a: Sequence[float], b: Sequence[float]) -> Test | None:
    """Whether the means of two samples differ. None where it cannot be told: fewer than two values on one side. Samples that do not vary at all
    differ certainly or not at all."""
    if len(a) < 2 or len(b) < 2:
        return None
    of_a, of_b = variance(a) / len(a), variance(b) / len(b)
    error = of_a + of_b
    difference = mean(a) - mean(b)
    weight = of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1)
    if weight == 0.0:  # also where the squares are too small for a double
        same = difference == 0.0
        return Test(0.0 if same else math.copysign(math.inf, difference), len(a) + len(b) - 2.0, 1.0 if same else 0.0)
    degrees = error**2 / weight
    t = difference / math.sqrt(error)
    return Test(t, degrees, 2.0 * student_tail(abs(t), degrees))


def student_tail(t: float, degrees: float) -> float:
    """The probability that Student's t of so many degrees of freedom is above t."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    half = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2
    return half if t >= 0 else 1.0 - half


def student_quantile(share: float, degrees: float) -> float:
    """Student's t of so many degrees of freedom is below this with probability `share` (above 0, below 1)."""
    if not 0.0 < share < 1.0 or degrees <= 0.0:
        raise ValueError("a share is above 0 and below 1, degrees of freedom are above 0")
    if share == 0.5:
        return 0.0
    if share < 0.5:
        return -student_quantile(1.0 - share, degrees)
    tail = 1.0 - share
    low, high = 0.0, 1.0
    while student_tail(high, degrees) > tail:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if student_tail(middle, degrees) > tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's way), on the side where that comes to its end fast."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log) * _fraction(a, b, x) / a


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for term in (even, odd):
            d = 1.0 / _not_zero(1.0 + term * d)
            c = _not_zero(1.0 + term / c)
            step = d * c
            found *= step
        if abs(step - 1.0) < _EXACT:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
