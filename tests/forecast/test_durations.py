"""Durations: censoring, futures, and when runs end on k workers, by hand and against a model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.analysis.remaining_runs import DRAWS, DurationModel, run_end_times


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_nothing_is_known_before_a_run_has_ended() -> None:
    assert DurationModel.learn([], [30.0]) is None


def test_recent_runs_count_more() -> None:
    known = DurationModel.learn([10.0] * 15 + [20.0], [])
    assert known is not None
    assert known.weights[-1] == 1.0
    assert known.weights[0] == pytest.approx(0.5)


def test_a_run_that_goes_on_counts_for_the_longer_ones() -> None:
    free = DurationModel.learn([10.0, 100.0], [])
    held = DurationModel.learn([10.0, 100.0], [50.0])
    assert free is not None
    assert held is not None
    assert held.weights[0] == free.weights[0]
    assert held.weights[1] == pytest.approx(free.weights[1] + 1.0)
    beyond = DurationModel.learn([10.0, 100.0], [500.0])  # beyond all: for the longest
    assert beyond is not None
    assert beyond.weights[1] == pytest.approx(free.weights[1] + 1.0)


def test_the_draws_have_the_mean_of_the_durations_and_no_more_spread_than_asked() -> None:
    known = DurationModel.learn([60.0] * 40, [])
    assert known is not None
    seconds, costs = known.draw(50, rng())
    assert seconds.shape == costs.shape == (DRAWS, 50)
    assert seconds.mean() == pytest.approx(60.0, rel=0.02)
    assert (costs == 0).all()
    one = DurationModel.learn([60.0], [])
    assert one is not None
    wide, _ = one.draw(50, rng())
    assert wide.std() > 3 * seconds.std()  # one run is little knowledge


def test_no_run_takes_longer_than_the_limit_and_costs_shrink_with_it() -> None:
    known = DurationModel.learn([60.0, 600.0], [], costs=[6.0, 60.0])
    assert known is not None
    seconds, costs = known.draw(30, rng(), limit_s=100.0)
    assert seconds.max() <= 100.0
    assert costs == pytest.approx(0.1 * seconds)
    assert known.to_go([90.0], rng(), limit_s=100.0).max() <= 10.0


def test_what_goes_on_takes_what_longer_runs_took() -> None:
    known = DurationModel.learn([100.0] * 30 + [10.0], [50.0])
    assert known is not None
    left_s = known.to_go([50.0, 1_000.0], rng())
    assert left_s.shape == (DRAWS, 2)
    assert np.median(left_s[:, 0]) == pytest.approx(50.0, rel=0.25)  # 100 - 50
    assert 500 < left_s[:, 1].mean() < 1_500  # exponential of its size
    assert known.to_go([], rng()).shape == (DRAWS, 0)


@pytest.mark.parametrize(
    ("workers", "batch", "going", "expected"),
    [
        (1, 1, [], [3, 4, 6]),
        (2, 1, [], [1, 3, 3]),  # 3 on one, 1 then 2 on the other
        (2, 2, [], [1, 3, 5]),  # the third waits for both of the first batch
        (2, 1, [10], [3, 4, 6, 10]),  # one worker is taken for 10
        (1, 1, [2], [2, 5, 6, 8]),
    ],
)
def test_runs_end_as_worked_out_by_hand(
    workers: int, batch: int, going: list[float], expected: list[float]
) -> None:
    durations = np.tile([3.0, 1.0, 2.0], (2, 1))
    to_go = np.tile(np.asarray(going, dtype=float), (2, 1)).reshape(2, len(going))
    assert run_end_times(durations, to_go, workers, batch)[1].tolist() == expected


@given(
    st.lists(st.floats(0.1, 50.0), min_size=1, max_size=12),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_ends_are_those_of_a_plain_simulation(
    taken_s: list[float], workers: int, batch: int
) -> None:
    ends = run_end_times(np.array([taken_s]), np.zeros((1, 0)), workers, batch)[0]
    free = [0.0] * workers
    expected = []
    for i, one_s in enumerate(taken_s):
        if batch > 1 and i % batch == 0:
            free = [max(free)] * workers
        at = free.index(min(free))
        free[at] += one_s
        expected.append(free[at])
    assert ends == pytest.approx(sorted(expected))
    assert ends[-1] <= sum(taken_s) + 1e-9
    assert ends[-1] >= max(*taken_s, sum(taken_s) / workers) - 1e-9


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=5), st.lists(st.floats(0.0, 1e300)))
def test_no_duration_is_too_short_or_too_long(over: list[float], going: list[float]) -> None:
    known = DurationModel.learn(over, going)
    assert known is not None
    seconds, _ = known.draw(3, rng())
    assert not np.isnan(seconds).any()
    assert (seconds > 0).all()
    assert math.isfinite(known.spread)
