"""A platform fitted to a simulated one is like it, and an altered one is not (Q-Q, KS, bands)."""

from dataclasses import replace

import numpy as np
import pytest

from sim.aiops.engine import run_platform
from sim.aiops.logs import NUMBERS, PlatformLogs, fit_statistics
from sim.aiops.platform import TASKS
from sim.aiops.platform_statistics import published_statistics
from sim.aiops.synthesis import PlatformScenario
from sim.aiops.validation import hourly_bands, validate
from sim.model.errors import SetupError

WEEK_S = 7 * 86_400.0
SCENARIO = PlatformScenario(
    duration_s=4 * WEEK_S, interarrival_factor=12.0, profile="calendar", seed=21, drain=True
)


@pytest.fixture(scope="module")
def logs() -> PlatformLogs:
    """A log as a platform would have written it: that of a simulation of known laws."""
    found = run_platform(SCENARIO)
    tasks, of = found.tables["tasks"], found.tables["pipelines"]
    place = np.searchsorted(of["pipeline"], tasks["pipeline"])
    hierarchical = of["prototype"][place] == 2
    keep = ~(hierarchical & (tasks["task"] == 1))
    place = place[keep]
    numbers = {name: np.full(len(place), np.nan) for name in NUMBERS}
    numbers["seconds"] = (tasks["ended_s"] - tasks["started_s"])[keep]
    numbers["submit_s"] = of["arrived_s"][place]
    for name in ("rows", "columns", "bytes"):
        numbers[name] = of[name][place].astype(float)
    texts = {
        "task": np.array(TASKS)[tasks["task"][keep]],
        "framework": np.array(found.texts["framework"])[of["framework"][place]],
        "estimator": np.full(len(place), ""),
    }
    return PlatformLogs(texts, numbers)


@pytest.mark.slow
def test_what_is_fitted_to_a_platform_behaves_like_it(logs: PlatformLogs) -> None:
    statistics = fit_statistics(logs, components=6)
    again = replace(SCENARIO, statistics=statistics, seed=22, interarrival_factor=1.0)
    found = {one.name: one for one in validate(logs, run_platform(again))}
    assert {"preprocess", "evaluate", "train SparkML", "train TensorFlow"} <= set(found)
    for name in ("preprocess", "train", "evaluate", "train SparkML", "train TensorFlow"):
        assert found[name].ks < 0.06, name
        middle = slice(10, 90)  # from 5 to 95 percent: extremes are hard, as in the paper
        ratio = np.array(found[name].simulated[middle]) / np.array(found[name].observed[middle])
        assert np.all((ratio > 0.65) & (ratio < 1.5)), name
    assert found["gaps between arrivals"].log_wasserstein < 0.3


def test_another_platform_is_told_apart(logs: PlatformLogs) -> None:
    told = published_statistics()
    slower = {name: law.with_median(3 * law.median()) for name, law in told.train.items()}
    other = replace(SCENARIO, statistics=replace(told, train=slower), seed=23)
    found = {one.name: one for one in validate(logs, run_platform(other))}
    assert found["train SparkML"].ks > 5 * found["train SparkML"].ks_critical
    assert found["train SparkML"].log_wasserstein == pytest.approx(np.log(3), rel=0.15)
    assert found["evaluate"].ks < 2 * found["evaluate"].ks_critical


def test_arrivals_by_hour_lie_within_the_bands_and_a_shifted_week_does_not(
    logs: PlatformLogs,
) -> None:
    observed = logs.numbers["submit_s"][logs.texts["task"] == "train"]
    other = run_platform(replace(SCENARIO, seed=24)).tables["pipelines"]["arrived_s"]
    scaled = other[np.random.default_rng(0).random(len(other)) < len(observed) / len(other)]
    assert hourly_bands(observed, scaled).within > 0.85
    assert hourly_bands(observed, scaled, start_s=12 * 3600.0).within < 0.6
    with pytest.raises(SetupError, match="two or more whole weeks"):
        hourly_bands(observed[:50], other)


def test_a_trace_on_disk_is_not_compared(logs: PlatformLogs, tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SetupError, match="in memory"):
        validate(logs, run_platform(replace(SCENARIO, duration_s=3_600.0), tmp_path))
