"""Pure error of replicates against SciPy's distributions and numbers worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strategies import Observation, estimate_noise
from strategies.steering.confirmation import mean_of, replicates
from tests.draw.spaces import grid, observe_all

SPACE = grid(9)


def runs(*groups: list[float]) -> tuple[Observation, ...]:
    """Observations of level 0, 1, ...: a list of qualities for each."""
    cells = [(i,) for i, group in enumerate(groups) for _ in group]
    return observe_all(SPACE, cells, [quality for group in groups for quality in group])


def test_the_pooled_variance_by_hand() -> None:
    # within: (1, 3) has 2, (10, 10, 13) has 1 + 1 + 4, the single run nothing; df 1 + 2
    noise = estimate_noise(runs([1.0, 3.0], [10.0, 10.0, 13.0], [99.0]))
    assert noise is not None
    assert noise.df == 3
    assert noise.variance == pytest.approx(8 / 3)
    assert noise.sd == pytest.approx(math.sqrt(8 / 3))
    low, high = stats.chi2.ppf([0.975, 0.025], 3)
    assert noise.interval == pytest.approx((8 / low, 8 / high))


def test_the_order_of_runs_does_not_matter() -> None:
    ones = runs([1.0, 3.0], [10.0, 10.0, 13.0], [99.0])
    mixed = [ones[i] for i in (4, 0, 5, 2, 1, 3)]
    assert estimate_noise(mixed) == estimate_noise(ones)
    assert [len(own) for own in replicates(mixed).values()] == [3, 2, 1]


def test_without_replicates_the_noise_is_unknown_and_equal_ones_have_none() -> None:
    assert estimate_noise(()) is None
    assert estimate_noise(runs([1.0], [5.0], [-2.0])) is None
    none = estimate_noise(runs([0.1, 0.1, 0.1], [0.7, 0.7]))
    assert none is not None
    assert (none.variance, none.interval, none.half_width(2)) == (0.0, (0.0, 0.0), 0.0)


def test_the_interval_of_one_group_is_students() -> None:
    sample = [3.1, 2.7, 3.9, 3.3]
    noise = estimate_noise(runs(sample))
    assert noise is not None
    low, high = stats.t.interval(0.95, 3, np.mean(sample), stats.sem(sample))
    assert noise.half_width(4) == pytest.approx((high - low) / 2)


def test_the_interval_of_the_variance_covers_it() -> None:
    """400 experiments of 4 pairs with variance 4; 95% is 380, standard deviation 4.4."""
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(400):
        noise = estimate_noise(runs(*rng.normal(0.0, 2.0, (4, 2)).tolist()))
        assert noise is not None
        covered += noise.interval[0] <= 4.0 <= noise.interval[1]
    assert 362 < covered < 395


few = st.floats(-100, 100)


@given(st.lists(st.tuples(few, st.sampled_from([0.0, 0.0, 1.5])), min_size=1, max_size=6))
def test_a_mean_lies_among_its_runs_and_is_feasible_if_all_are(
    drawn: list[tuple[float, float]],
) -> None:
    cell = SPACE.configuration(0)
    ones = [Observation(cell, q, v == 0, v, second=-q) for q, v in drawn]
    mean = mean_of(ones)
    slack = 1e-12
    assert min(q for q, _ in drawn) - slack <= mean.quality <= max(q for q, _ in drawn) + slack
    assert mean.second == -mean.quality
    assert mean.feasible == all(v == 0 for _, v in drawn)
    assert mean.violation == pytest.approx(sum(v for _, v in drawn) / len(drawn))
    if len(drawn) == 1:
        assert mean.quality == drawn[0][0]
