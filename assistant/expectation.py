"""What a run would be expected to measure, by the ANOVA model of what was measured so far.

The same for every strategy, so that suggestions of any source, edited ones too, can be compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assistant.experiment import Experiment
from strategies import AnovaModel, Configuration, Observation

FEW = 2
"""Results below which nothing is expected."""


FEW_DURATIONS = 5
"""Durations below which none is expected of a configuration by itself."""

_LEAST_S = 1e-6


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected value with its 95% interval, in the unit of the objective or in seconds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Expectations:
    """Expected values with their 95% intervals, in the unit of the objective; float64 [n] each."""

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]


def expectation(experiment: Experiment, configuration: Configuration) -> Expectation | None:
    """Return what to expect of one run of a configuration; None below two results.

    Of two measures it is the first; whether constraints would be met is not part of it.
    Raises SpaceError if the configuration is not of the experiment's space.
    """
    model = experiment.measured_anova
    if model is None or len(model.ids) < FEW:
        return None
    prediction = model.predict(configuration)
    value_of = experiment.opened.objective.value_of
    ends = [value_of(end) for end in prediction.interval]
    return Expectation(value_of(prediction.value), min(ends), max(ends))


def expectations(
    experiment: Experiment, level_ids: NDArray[np.int64], over: tuple[int, ...] = ()
) -> Expectations | None:
    """Return what to expect of many configurations at once; None below two results.

    Args:
        experiment: what has been measured.
        level_ids: int64 [n, parameters], a configuration a row.
        over: positions of parameters whose column is not looked at: the expected value is that of
            a typical configuration over all their levels then, and its interval is of that, not
            of one run.
    """
    model = experiment.measured_anova
    if model is None or len(model.ids) < FEW:
        return None
    if over:
        named = [i for i in range(level_ids.shape[1]) if i not in over]
        bands = model.average_all(named, level_ids[:, named])
    else:
        bands = model.predict_all(level_ids)
    if experiment.opened.objective.goal == "minimise":
        return Expectations(-bands.values, -bands.highs, -bands.lows)
    return Expectations(bands.values, bands.lows, bands.highs)


def expected_durations(
    experiment: Experiment, configurations: Sequence[Configuration]
) -> tuple[Expectation, ...] | None:
    """Return how long a run of each configuration is expected to take, in seconds.

    By the same kind of model as `expectation`, of the logarithms of the durations; no longer than
    the agreement allows a run. None below five durations, or if they do not differ.
    Raises SpaceError if a configuration is not of the experiment's space.
    """
    told = [
        Observation(run.configuration, -math.log(max(run.duration_s, _LEAST_S)))
        for run in experiment.runs
        if run.is_charged and run.outcome is not None and run.duration_s is not None
    ]
    if len(told) < FEW_DURATIONS or len({one.quality for one in told}) == 1:
        return None
    model = AnovaModel(experiment.space, told)
    limit_s = experiment.sla.run_limit_s or math.inf
    found = []
    for configuration in configurations:
        prediction = model.predict(configuration)
        high, low = (_seconds(end, limit_s) for end in prediction.interval)
        found.append(Expectation(_seconds(prediction.value, limit_s), low, high))
    return tuple(found)


def _seconds(quality: float, limit_s: float) -> float:
    return min(math.exp(min(-quality, 700.0)), limit_s)
