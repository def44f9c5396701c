"""Fitting the coefficients: a weighted logistic with constrained signs, and quantiles of the best.

Each space counts the same. Ridge on standardised inputs and on the offsets of the drivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from assistant.analysis.calibration import SHARES, TERMS, ModelCoefficients
from benchmarks.forecasting.rows import Bests, Rows, weights_of

Floats = NDArray[np.float64]

RIDGE = 20.0
CORNER = 0.05
"""Width over which the check function of a quantile is rounded, in logarithms of steps."""

SIGNS: Mapping[str, tuple[float | None, float | None]] = {
    "left": (None, 0.0),
    "size": (0.0, None),
    "reach": (None, 0.0),
}
"""More runs never hurt, a larger space and a goal further off never help."""


def dummies(driver: NDArray[np.str_], names: Sequence[str]) -> Floats:
    """Return 1.0 in the column of each row's driver, float64 [n, names]."""
    return np.stack([(driver == name).astype(np.float64) for name in names], axis=1)


def fit_missed(rows: Rows, names: Sequence[str]) -> tuple[ModelCoefficients, dict[str, float]]:
    """Return the coefficients of a miss and the offset of each driver."""
    mean, sd = rows.x.mean(axis=0), rows.x.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    design = np.hstack([np.ones((len(rows), 1)), (rows.x - mean) / sd, dummies(rows.driver, names)])
    weights, k = rows.weights, rows.x.shape[1]
    penalty = np.full(design.shape[1], RIDGE)
    penalty[0] = 0.0

    def loss(b: Floats) -> tuple[float, Floats]:
        logit = design @ b
        value = weights @ (np.logaddexp(0.0, logit) - rows.missed * logit)
        slope = design.T @ (weights * (expit(logit) - rows.missed)) + penalty * b
        return float(value + 0.5 * (penalty * b * b).sum()), slope

    bounds = [(None, None), *(SIGNS.get(name, (None, None)) for name in TERMS)]
    bounds += [(None, None)] * len(names)
    b = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = b[1 : 1 + k] / sd
    of = {name: float(slope) for name, slope in zip(TERMS, slopes, strict=True)}
    intercept = float(b[0] - slopes @ mean)
    return ModelCoefficients(intercept, of), dict(zip(names, map(float, b[1 + k :]), strict=True))


def logits(rows: Rows, terms: ModelCoefficients, offsets: Mapping[str, float]) -> Floats:
    """Return logit P(missed) of rows; a driver without an offset has the mean of all."""
    mean = float(np.mean(list(offsets.values())))
    slopes = np.array([terms.of[name] for name in TERMS])
    added = np.array([offsets.get(name, mean) for name in rows.driver])
    return np.asarray(terms.intercept + rows.x @ slopes + added)


def fit_offset(logit: Floats, missed: Floats, weights: Floats, ridge: float = RIDGE) -> float:
    """Return what must be added to logits so that they are right on average."""

    def loss(b: Floats) -> float:
        moved = logit + b[0]
        told = weights @ (np.logaddexp(0.0, moved) - missed * moved)
        return float(told + 0.5 * ridge * b[0] ** 2)

    return float(minimize(loss, np.zeros(1), method="Nelder-Mead").x[0])


def fit_best(bests: Bests, offsets: Mapping[str, float]) -> dict[float, ModelCoefficients]:
    """Return the coefficients of the quantiles of how far the best gets, by `SHARES`.

    Reference: Koenker & Bassett 1978, Regression quantiles.
    """
    mean = float(np.mean(list(offsets.values())))
    added = np.array([[offsets.get(name, mean) - mean] for name in bests.driver])
    design = np.hstack([bests.x, added])
    centre, sd = design.mean(axis=0), design.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    found = {}
    for share in SHARES:
        # few futures do at least as well as a good one: the upper end of the steps
        b = _quantile((design - centre) / sd, bests.steps, 1.0 - share, weights_of(bests.space))
        slopes = b[1:] / sd
        of = dict(zip((*TERMS, "offset"), map(float, slopes), strict=True))
        found[share] = ModelCoefficients(float(b[0] - slopes @ centre), of)
    return found


def _quantile(design: Floats, told: Floats, share: float, weights: Floats) -> Floats:
    """Return intercept and slopes of a quantile: the check function, rounded at its corner."""
    full = np.hstack([np.ones((len(design), 1)), design])

    def loss(b: Floats) -> tuple[float, Floats]:
        off = (told - full @ b) / CORNER
        value = share * off + np.logaddexp(0.0, -off)
        slope = share - expit(-off)
        return float(weights @ value), -full.T @ (weights * slope) / CORNER

    start = np.zeros(full.shape[1])
    start[0] = np.quantile(told, share)
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B").x)


def steps_at(bests: Bests, terms: ModelCoefficients, offsets: Mapping[str, float]) -> Floats:
    """Return a quantile of ln(0.03 + steps) for rows."""
    mean = float(np.mean(list(offsets.values())))
    slopes = np.array([terms.of[name] for name in TERMS])
    added = np.array([offsets.get(name, mean) - mean for name in bests.driver])
    return np.asarray(terms.intercept + bests.x @ slopes + terms.of["offset"] * added)
