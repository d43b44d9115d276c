"""Statistics against values that SciPy and NumPy gave, and against SciPy itself where it is installed (`pip install eagletui[stats]`)."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from eagletui.bench.statistics import ci95, incomplete_beta, mean, percentile, student_quantile, student_tail, welch

QUANTILES = (
    (0.6, 1, 0.32491969623290634), (0.6, 3.7, 0.27216446429206953), (0.6, 500, 0.2534819498516658),
    (0.975, 1, 12.706204736174694), (0.975, 2, 4.302652729749462), (0.975, 3.7, 2.8675207071911895), (0.975, 30, 2.0422724563012378),
    (0.995, 1, 63.656741162871526), (0.995, 2, 9.924843200918287), (0.995, 500, 2.5856978351419415),
)  # fmt: skip


def test_students_quantiles() -> None:
    for share, degrees, value in QUANTILES:
        assert student_quantile(share, degrees) == pytest.approx(value, rel=1e-10)
        assert student_quantile(1 - share, degrees) == pytest.approx(-value, rel=1e-9)
        assert student_tail(value, degrees) == pytest.approx(1 - share, rel=1e-9)


def test_an_interval_of_three_repeats() -> None:
    assert ci95([82.1, 82.9, 81.7]) == pytest.approx((80.71550011989463, 83.75116654677204), rel=1e-12)
    assert ci95([82.1]) is None
    assert ci95([5.0, 5.0, 5.0]) == (5.0, 5.0)


def test_welchs_test() -> None:
    found = welch([82.1, 82.9, 81.7], [90.2, 89.8, 90.5])
    assert found is not None
    assert (found.t, found.degrees, found.p) == pytest.approx(
        (-19.497719708353088, 3.191403723136636, 0.00019911314080287132)
    )
    found = welch([82.1, 82.9, 81.7], [82.0, 83.5, 81.0, 82.2])
    assert found is not None
    assert (found.t, found.degrees, found.p) == pytest.approx(
        (0.09359995293261288, 4.871393579598789, 0.9291542538774422)
    )


def test_what_cannot_be_tested_and_what_does_not_vary() -> None:
    assert welch([1.0], [2.0, 3.0]) is None
    assert welch([1e-170, 2e-170], [1.0, 1.0]) is not None
    same, other = welch([2.0, 2.0], [2.0, 2.0]), welch([2.0, 2.0], [3.0, 3.0])
    assert same is not None
    assert other is not None
    assert (same.p, other.p, other.t) == (1.0, 0.0, -math.inf)


def test_percentiles_lie_between_the_closest_ranks() -> None:
    values = [10.0, 1.0, 3.0, 2.0, 4.0]
    assert [percentile(values, share) for share in (0, 0.5, 0.9, 0.99, 1)] == pytest.approx([1, 3, 7.6, 9.76, 10])
    assert percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="no percentile"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="no mean"):
        mean([])


def test_against_scipy() -> None:
    stats: Any = pytest.importorskip("scipy.stats")
    special: Any = pytest.importorskip("scipy.special")
    random = Random(1)
    for _ in range(100):
        degrees, share = random.uniform(0.5, 400), random.uniform(0.001, 0.999)
        assert student_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-8, abs=1e-12)
        a, b, x = random.uniform(0.1, 200), random.uniform(0.1, 200), random.random()
        assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-14)
        one = [random.gauss(80, 2) for _ in range(random.randint(2, 9))]
        other = [random.gauss(81, 0.3) for _ in range(random.randint(2, 9))]
        found, wanted = welch(one, other), stats.ttest_ind(one, other, equal_var=False)
        assert found is not None
        assert (found.t, found.degrees, found.p) == pytest.approx(
            (wanted.statistic, wanted.df, wanted.pvalue), rel=1e-8
        )
