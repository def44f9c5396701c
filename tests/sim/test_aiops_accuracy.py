"""A log beside its simulation: the numbers of the validation, and another law is told apart."""

from dataclasses import replace

import numpy as np
import pytest

from sim.aiops.engine import run_platform
from sim.aiops.logs import NUMBERS, PlatformLogs, fit_statistics
from sim.aiops.platform_statistics import PipelineArrivals, PlatformStatistics, published_statistics
from sim.aiops.synthesis import PlatformScenario
from sim.aiops.validation import COMPARED, accuracy, example_log, hourly_bands, log_of, validate
from sim.model.errors import SetupError

WEEK_S = 7 * 86_400.0


def test_a_log_of_a_simulation_is_compared_by_the_numbers_of_the_validation() -> None:
    short = PlatformScenario(
        profile="calendar", duration_s=0.25 * WEEK_S, interarrival_factor=8.0, drain=True, seed=3
    )
    logs = log_of(run_platform(short))
    statistics = sparse()
    found = accuracy(logs, statistics, weeks=1, seed=4)
    assert tuple(found.gaps) == COMPARED
    assert found.hours == {}, "less than two weeks"
    assert found.n_observed == len(logs)
    again = PlatformScenario(
        statistics=statistics, profile="calendar", duration_s=WEEK_S, drain=True, seed=4
    )
    expected = {one.name: one for one in validate(logs, run_platform(again))}
    assert {one.name: one for one in found.tasks} == {
        name: one for name, one in expected.items() if name != "gaps between arrivals"
    }
    assert found.gaps["calendar"].ks == expected["gaps between arrivals"].ks
    of_data, of_bytes, of_preprocessing = found.scatters
    assets = {
        (row, column, size)
        for row, column, size in np.column_stack(
            [logs.numbers[n] for n in ("rows", "columns", "bytes")]
        )
    }
    assert len({*map(tuple, of_data.observed)}) == len(of_data.observed), "no data set twice"
    assert {(y, x) for x, y in of_data.observed} <= {asset[:2] for asset in assets}
    assert {(x, y) for x, y in of_bytes.observed} <= {(r * c, size) for r, c, size in assets}
    size, seconds = of_preprocessing.simulated.T
    assert (seconds > statistics.preprocess.expected(size)).all(), "the noise is above 0"
    assert [one.name for one in found.histograms] == ["train SparkML", "train TensorFlow"]
    for one in found.histograms:
        assert one.observed.sum() == pytest.approx(0.99, abs=0.02)
        assert one.simulated.sum() <= 1.0
    without = replace(logs, numbers=logs.numbers | {"rows": np.full(len(logs), np.nan)})
    assert accuracy(without, statistics, weeks=1, seed=4).scatters == ()


@pytest.mark.soak
@pytest.mark.slow
def test_the_same_laws_are_alike_and_others_are_not() -> None:
    logs = example_log(weeks=2)
    fitted = fit_statistics(logs, components=4)
    twice = {name: law.with_median(2 * law.median()) for name, law in fitted.train.items()}
    found = accuracy(logs, fitted, weeks=2, seed=5)
    altered = accuracy(logs, replace(fitted, train=twice), weeks=2, seed=5)
    alike, other = ({one.name: one for one in told.tasks} for told in (found, altered))
    assert alike["train SparkML"].ks < 2 * alike["train SparkML"].ks_critical
    assert other["train SparkML"].log_wasserstein == pytest.approx(np.log(2), rel=0.2)
    assert other["evaluate"].ks == alike["evaluate"].ks
    assert set(found.hours) == set(COMPARED)
    assert found.hours["calendar"].within > 0.9
    assert found.hours["random"].within < 0.5
    times = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    expected = hourly_bands(times, times).observed
    np.testing.assert_array_equal(found.hours["calendar"].observed, expected)


def sparse() -> PlatformStatistics:
    """Return the published statistics with a twentieth of the arrivals."""
    usual = published_statistics()
    laws = usual.arrivals
    rarer = PipelineArrivals(
        replace(laws.everywhere, scale=20 * laws.everywhere.scale),
        tuple(replace(law, scale=20 * law.scale) for law in laws.cells),
    )
    return replace(usual, arrivals=rarer)


def test_a_log_without_times_has_no_gaps_and_no_weeks_are_refused() -> None:
    rng = np.random.default_rng(0)
    numbers = {name: np.full(60, np.nan) for name in NUMBERS}
    numbers["seconds"] = rng.lognormal(3, 1, 60)
    texts = {name: np.full(60, "") for name in ("framework", "estimator")}
    logs = PlatformLogs({"task": np.full(60, "train"), **texts}, numbers)
    found = accuracy(logs, sparse(), weeks=1)
    assert [one.name for one in found.tasks] == ["train"]
    assert (found.gaps, found.hours) == ({}, {})
    with pytest.raises(SetupError, match="0 weeks cannot be simulated"):
        accuracy(logs, published_statistics(), weeks=0)
