"""How good forecasts are: Brier score and skill, AUC, calibration error, alarms; all by space.

Each space counts the same; intervals are 95 % of a bootstrap over the spaces.

References: Brier 1950; Murphy 1973 for skill; Naeini, Cooper & Hauskrecht 2015 for the expected
calibration error (ten bins of equal width).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.forecasting.rows import weights_of

Floats = NDArray[np.float64]
Strings = NDArray[np.str_]

BINS = 10
RESAMPLES = 400


def brier(predicted: Floats, missed: Floats, weights: Floats) -> float:
    """Return the mean squared error of probabilities."""
    return float(np.average((predicted - missed) ** 2, weights=weights))


def skill(predicted: Floats, reference: Floats, missed: Floats, weights: Floats) -> float:
    """Return 1 - Brier / Brier of the reference: 0 is no better, 1 is perfect."""
    return 1.0 - brier(predicted, missed, weights) / brier(reference, missed, weights)


def auc(predicted: Floats, missed: Floats, weights: Floats) -> float:
    """Return the chance that a miss was thought likelier than a hit; NaN without both."""
    if missed.min() == missed.max():
        return float("nan")
    return float(roc_auc_score(missed, predicted, sample_weight=weights))


def calibration_error(predicted: Floats, missed: Floats, weights: Floats) -> float:
    """Return the mean distance of predicted and observed shares over ten bins."""
    bins = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    total = 0.0
    for one in range(BINS):
        inside = bins == one
        if inside.any():
            off = np.average((predicted - missed)[inside], weights=weights[inside])
            total += float(weights[inside].sum() * abs(off))
    return total / float(weights.sum())


def reliability(predicted: Floats, missed: Floats, weights: Floats) -> list[tuple[float, float]]:
    """Return predicted and observed shares of each bin that has rows."""
    bins = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    found = []
    for one in range(BINS):
        inside = bins == one
        if inside.any():
            pair = [np.average(v[inside], weights=weights[inside]) for v in (predicted, missed)]
            found.append((float(pair[0]), float(pair[1])))
    return found


def interval(
    score: Callable[[NDArray[np.int64], Floats], float], space: Strings
) -> tuple[float, float]:
    """Return the 95 % interval of a score over resampled spaces.

    Args:
        score: of row numbers and their weights.
        space: of each row.
    """
    names = np.unique(space)
    rows = {name: np.flatnonzero(space == name) for name in names}
    rng = np.random.default_rng(0)
    told = []
    for _ in range(RESAMPLES):
        drawn = [rows[name] for name in rng.choice(names, len(names))]
        weights = np.concatenate([np.full(len(one), 1.0 / len(one)) for one in drawn])
        told.append(score(np.concatenate(drawn), weights))
    low, high = np.nanquantile(told, (0.025, 0.975))
    return float(low), float(high)


def equal_weights(space: Strings) -> Floats:
    """Return weights under which each space counts the same."""
    return weights_of(space)
