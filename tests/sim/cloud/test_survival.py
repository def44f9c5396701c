"""Kaplan and Meier in all forms and Survival-MSE, by hand and against plain sums over time."""

import numpy as np
import pytest

from sim.generators.cloud.lifetimes import fit_lifetimes
from sim.generators.cloud.scores import (
    CENSORINGS,
    kaplan_meier,
    score_lifetimes,
    survival_of,
    treat_censored,
)
from sim.model.cloud_trace import Bins
from sim.model.errors import WorkloadError
from tests.sim.cloud.test_stages import trace_of

FOUR = Bins((10.0, 20.0, 40.0), 100.0)


def test_kaplan_and_meier_as_counted() -> None:
    # Ended in bins 0, 1, 1 and 3; one was seen last in bin 2.
    lifetime, censored = np.array([0, 1, 1, 2, 3]), np.array([0, 0, 0, 1, 0])
    assert kaplan_meier(lifetime, censored, 5).tolist() == [1 / 5, 2 / 4, 0, 1, 0]


@pytest.mark.parametrize(
    ("how", "hazards"),
    [
        ("counted", [1 / 5, 2 / 4, 0, 1]),
        ("ignored", [1 / 4, 2 / 3, 0, 1]),
        ("ended", [1 / 5, 2 / 4, 1 / 2, 1]),
    ],
)
def test_censored_jobs_in_three_ways(how: str, hazards: list[float]) -> None:
    trace = trace_of([[0, 0], [1, 1], [2]], [0, 1, 1, 2, 3], censored=(3,))
    treated = treat_censored(trace, how)  # type: ignore[arg-type]
    found = kaplan_meier(treated.lifetime, treated.censored, 4)
    assert found.tolist() == hazards
    assert set(CENSORINGS) == {"counted", "ignored", "ended"}


def test_a_batch_of_which_all_are_ignored_is_gone() -> None:
    trace = trace_of([[0], [1, 1], [2]], [0, 1, 1, 2], censored=(1, 2))
    left = treat_censored(trace, "ignored")
    assert left.flavour.tolist() == [0, 2]
    assert left.batch.tolist() == [0, 1]
    assert score_lifetimes(fit_lifetimes(left, 1), trace).bce > 0
    with pytest.raises(WorkloadError, match="no job of this trace ended"):
        treat_censored(trace_of([[0]], [1], censored=(0,)), "ignored")


def test_survival_by_hand() -> None:
    """Half end in the first bin, the others in the last: S is 1/2 from 10 s on."""
    hazard = np.array([[0.5, 0.0, 0.0, 1.0]])
    stepped = survival_of(hazard, FOUR, stepped=True)
    # A job that lives 20 s: right for 10 s, then 1/4 for 10 s, then 1/4 for the 80 s after.
    assert stepped.mse(np.array([20.0]), np.array([0])) == pytest.approx(90 / 4 / 100)
    spread = survival_of(hazard, FOUR, stepped=False)
    # From 1 to 1/2 within 10 s: a square of 10 / 12; from 1/2 to 0 within 60: 60 / 12.
    expected = (10 / 12 + 10 / 4 + 20 / 4 + 60 / 12) / 100
    assert spread.mse(np.array([20.0]), np.array([0])) == pytest.approx(expected)


@pytest.mark.parametrize("stepped", [True, False])
def test_survival_mse_is_the_plain_mean_over_time(stepped: bool) -> None:
    rng = np.random.default_rng(7)
    hazard = rng.random((5, 4)) * 0.8
    lived_s, row = rng.uniform(0, 120, 40), rng.integers(0, 5, 40)
    time_s = (np.arange(200_000) + 0.5) * 100 / 200_000
    curve = survival_of(hazard, FOUR, stepped=stepped)
    bins = np.searchsorted(FOUR.edges_s, time_s, side="right") - 1
    share = (time_s - FOUR.edges_s[bins]) / np.diff(FOUR.edges_s)[bins]
    expected = []
    for one, at in zip(lived_s.tolist(), row.tolist(), strict=True):
        begin, end = curve.begins[at, bins], curve.ends[at, bins]
        foreseen = begin + (end - begin) * share
        expected.append(((foreseen - (time_s < one)) ** 2).mean())
    assert curve.mse(lived_s, row) == pytest.approx(np.mean(expected), rel=1e-4)


def test_who_knows_when_is_never_wrong() -> None:
    times = np.array([5.0, 17.0, 33.0])
    exact = Bins(tuple(times.tolist()), 100.0)
    hazard = np.eye(4)[:3]
    curve = survival_of(hazard, exact, stepped=True)
    assert curve.mse(times, np.arange(3)) == pytest.approx(0.0)
    assert curve.mse(times, np.array([1, 2, 0])) > 0.1


def test_bins_without_a_width_count_for_nothing() -> None:
    """The paper's first bin holds lifetimes of 0 alone."""
    bins = Bins((0.0, 10.0), 20.0)
    curve = survival_of(np.array([[0.5, 1.0, 1.0]]), bins, stepped=True)
    assert curve.mse(np.array([0.0]), np.array([0])) == pytest.approx(0.25 * 10 / 20)
