"""Fitting the coefficients: a weighted logistic with constrained signs, and quantiles of the best.

Ridge on standardised inputs. The terms are fitted to the default strategy; what another method adds
to the logit is fitted after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from assistant.analysis.calibration import SHARES, TERMS, ModelCoefficients
from assistant.analysis.forecast_features import FEATURES
from benchmarks.forecasting.rows import Bests, Rows, fit_weights
from strategies import DEFAULT_STRATEGY

Floats = NDArray[np.float64]

RIDGE = 200.0
CORNER = 0.05
"""Width over which the check function of a quantile is rounded, in logarithms of steps."""

RANGE = (0.005, 0.995)  # Quantiles of the rows to which a feature is clipped

SIGNS: Mapping[str, tuple[float | None, float | None]] = dict.fromkeys(
    ("left", "covered", "reach", "count", "additive_reach", "additive_count"), (None, 0.0)
)
"""More runs never hurt, and a goal further off never helps."""


def ranges_of(x: Floats) -> dict[str, tuple[float, float]]:
    """Return the range of every feature in rows [n, terms]."""
    low, high = np.quantile(x[:, 1:], RANGE, axis=0)
    return {
        name: (float(f"{a:.4g}"), float(f"{b:.4g}"))
        for name, a, b in zip(FEATURES, low, high, strict=True)
    }


def clipped(x: Floats, terms: Mapping[str, tuple[float, float]]) -> Floats:
    """Return rows [n, terms] with every feature in its range."""
    low, high = np.array([terms[name] for name in FEATURES]).T
    return np.hstack([x[:, :1], np.clip(x[:, 1:], low, high)])


def fit_missed(rows: Rows, names: Sequence[str]) -> tuple[ModelCoefficients, dict[str, float]]:
    """Return the coefficients of a miss under the default strategy, and each method's offset."""
    own = rows.at(rows.driver == DEFAULT_STRATEGY)
    ranges = ranges_of(own.x)
    x = clipped(own.x, ranges)
    mean, sd = x.mean(axis=0), x.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    design = np.hstack([np.ones((len(x), 1)), (x - mean) / sd])
    weights = fit_weights(own.space, own.kind)
    penalty = np.full(design.shape[1], RIDGE)
    penalty[0] = 0.0

    def loss(b: Floats) -> tuple[float, Floats]:
        logit = design @ b
        value = weights @ (np.logaddexp(0.0, logit) - own.missed * logit)
        slope = design.T @ (weights * (expit(logit) - own.missed)) + penalty * b
        return float(value + 0.5 * (penalty * b * b).sum()), slope

    bounds = [(None, None), *(SIGNS.get(name, (None, None)) for name in TERMS)]
    b = minimize(loss, np.zeros(design.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    slopes = b[1:] / sd
    of = {name: float(slope) for name, slope in zip(TERMS, slopes, strict=True)}
    terms = ModelCoefficients(float(b[0] - slopes @ mean), of, ranges)
    offsets = {DEFAULT_STRATEGY: 0.0}
    for name in names:
        other = rows.at(rows.driver == name)
        if name != DEFAULT_STRATEGY and len(other):
            logit, weights = logits(other, terms, {}), fit_weights(other.space, other.kind)
            offsets[name] = fit_offset(logit, other.missed, weights)
    return terms, offsets


def logits(rows: Rows, terms: ModelCoefficients, offsets: Mapping[str, float]) -> Floats:
    """Return logit P(missed) of rows; a driver without an offset has the mean of all."""
    mean = float(np.mean(list(offsets.values()))) if offsets else 0.0
    slopes = np.array([terms.of[name] for name in TERMS])
    added = np.array([offsets.get(name, mean) for name in rows.driver])
    return np.asarray(terms.intercept + clipped(rows.x, terms.ranges) @ slopes + added)


def fit_offset(logit: Floats, missed: Floats, weights: Floats, ridge: float = 20.0) -> float:
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
    ranges = ranges_of(bests.x)
    design = np.hstack([clipped(bests.x, ranges), added])
    centre, sd = design.mean(axis=0), design.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    found = {}
    for share in SHARES:
        # few futures do at least as well as a good one: the upper end of the steps
        b = _quantile(
            (design - centre) / sd, bests.steps, 1.0 - share, fit_weights(bests.space, bests.kind)
        )
        slopes = b[1:] / sd
        of = dict(zip((*TERMS, "offset"), map(float, slopes), strict=True))
        found[share] = ModelCoefficients(float(b[0] - slopes @ centre), of, ranges)
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
    return np.asarray(
        terms.intercept + clipped(bests.x, terms.ranges) @ slopes + terms.of["offset"] * added
    )
