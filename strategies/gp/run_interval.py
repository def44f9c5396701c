"""Calibrated quantiles of the result of one run, on the scale of the model's targets.

The Gaussian process states a mean and a standard deviation, but its hyperparameters are estimated,
its targets are not normal, and the configurations that a strategy chooses are those that it
overrates. So quantiles of (target - mean) / deviation follow a regression on nine features of the
fit and of the configuration, which was fitted by ``python -m benchmarks.coverage --fit`` to runs
whose results the model had not seen. Whether a configuration is suggested does not enter, only how
near its mean is to the best run: one configuration has one interval on every page.

References: Koenker & Bassett 1978, Regression quantiles (the loss that is fitted); Kuleshov, Fenner
& Ermon 2018, Accurate uncertainties for deep learning using calibrated regression (why an honest
posterior still needs it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

Point: TypeAlias = Literal["chosen", "random"]
"""An untried configuration that the strategy suggests next, or any other one."""

PROBABILITIES = (0.025, 0.1, 0.5, 0.9, 0.975)
"""Probabilities of the quantiles: the ends of the 95 and 80 % intervals around the median."""

LEVEL = 0.95  # Nominal level of the interval that is stated to people

TOLERANCE = 0.05  # Greatest difference of a measured level that is still called by its nominal one

LEAST_RUNS = 4  # Fewest different results from which an interval is stated

MOST_RUNS = 100  # Runs from which on quantiles no longer depend on their number; none had more

FEATURES = (
    "one",
    "runs",
    "near",
    "deviation",
    "left_out",
    "best",
    "runs_near",
    "tried",
    "runs_tried",
)

MOST = 12.0  # Most deviations from the mean that a quantile can lie


@dataclass(frozen=True, slots=True, eq=False)
class IntervalCoefficients:
    """Coefficients of the quantiles, and the coverage that was measured with them.

    Args:
        fitted: what they were fitted to, in words.
        weights: float64 [5, features]: of the median, then logarithms of the distances from it down
            to 10 %, on to 2.5 %, up to 90 % and on to 97.5 %.
        held: measured share of the runs inside the stated interval, 0 to 1, such as of "copper,
            random": by the strategy that chose the runs so far, and the `Point` that is predicted;
            the lesser of measured tables and generated spaces.
    """

    fitted: str
    weights: Floats
    held: Mapping[str, float]

    def quantiles(self, features: Floats) -> Floats:
        """Return the quantiles [m, 5] of (target - mean) / deviation for features [m, features]."""
        median = np.clip(features @ self.weights[0], -MOST, MOST)
        steps = np.exp(np.clip(features @ self.weights[1:].T, -MOST, np.log(MOST)))
        columns = (
            median - steps[:, 0] - steps[:, 1],
            median - steps[:, 0],
            median,
            median + steps[:, 2],
            median + steps[:, 2] + steps[:, 3],
        )
        return np.stack(columns, axis=1)


def features(
    left_out: Floats,
    best: float,
    mean: Floats,
    deviation: Floats,
    tried: NDArray[np.bool_],
) -> Floats:
    """Return the features [m, features] of m configurations.

    Args:
        left_out: standardised leave-one-out errors of the runs, [n].
        best: greatest target of the runs.
        mean: expected targets, [m].
        deviation: standard deviations of a run's target, noise included, [m].
        tried: whether a configuration has a result that another run need not repeat, [m].
    """
    n, m = left_out.size, mean.size
    runs = np.full(m, np.log(min(n, MOST_RUNS) / 20))
    near = np.exp(-np.clip(best - mean, 0.0, 9.0))
    doubt = np.log(np.sqrt((float(left_out @ left_out) + 2.0) / (n + 2.0)))
    columns = (
        np.ones(m),
        runs,
        near,
        np.log(np.clip(deviation, 0.02, 3.0)),
        np.full(m, np.clip(doubt, -2.0, 2.0)),
        np.full(m, np.clip(best, 0.0, 5.0)),
        runs * near,
        tried.astype(np.float64),
        runs * tried,
    )
    return np.stack(columns, axis=1)


def chance_above(quantiles: Floats, target: float) -> float:
    """Return the probability that a run with these quantiles [5] exceeds a target.

    Between the quantiles, and beyond them with the slope of the last ones, the normal score of the
    probability is linear in the target.
    """
    scores = ndtri(np.array(PROBABILITIES))
    i = int(np.clip(np.searchsorted(quantiles, target), 1, len(scores) - 1))
    width = quantiles[i] - quantiles[i - 1]
    slope = (scores[i] - scores[i - 1]) / max(float(width), 1e-12)
    return float(ndtr(-(scores[i - 1] + slope * (target - quantiles[i - 1]))))


@cache
def shipped() -> IntervalCoefficients:
    """Return the coefficients beside this module."""
    text = Path(__file__).with_name("run_interval.json").read_text(encoding="utf-8")
    table = json.loads(text)
    weights = np.array([table["weights"][name] for name in FEATURES], dtype=np.float64).T
    return IntervalCoefficients(table["fitted"], weights, table["held"])


def interval_words(strategy: str, point: Point) -> str:
    """Return how the interval of one run is called, by the level that was measured.

    Where that is within `TOLERANCE` of the nominal one, by the nominal one. A strategy that was not
    measured counts as the worst that was.

    >>> interval_words("grasp", "chosen")
    '95 % interval'
    """
    measured = {name: share for name, share in shipped().held.items() if name.endswith(point)}
    worst = min(measured.values(), default=LEVEL)
    held = measured.get(f"{strategy}, {point}", worst)
    if abs(held - LEVEL) <= TOLERANCE:
        return f"{LEVEL:.0%} interval".replace("%", " %")
    return f"interval that holds about {round(10 * held)} in 10 runs"
