"""Features of an experiment's results from which its forecast is computed.

`ForecastEvidence` holds the results so far and the predictions for untried configurations;
`features` turns it, with a goal, into the numbers of the forecast models. The coefficients of the
models are in `calibration`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from strategies import UntriedPredictions

Floats = NDArray[np.float64]

LEAST_RUNS = 12
LEAST_RESULTS = 8
"""Smallest numbers of runs and results for a forecast: fewer do not show the size of a step."""

N_STEPS = 3  # Results next to the best whose mean distance from it is the size of a step

LEAST_STEP = 0.02  # Smallest step as a share of the spread, where the top results are equal


@dataclass(frozen=True)
class ForecastEvidence:
    """Features of the results so far from which the forecast is computed.

    Not slotted: what a fan of forecasts needs again and again is cached on first use.

    Args:
        size: combinations of the open levels.
        losses: losses of distinct configurations with a feasible result, ascending; less is better.
        in_order: loss of each ended run in order of completion; None without a feasible result.
        reach: model predictions for the untried configurations; None without a model.
    """

    size: int
    losses: tuple[float, ...]
    in_order: tuple[float | None, ...]
    reach: UntriedPredictions | None

    @property
    def used(self) -> int:
        """Number of ended runs."""
        return len(self.in_order)

    @cached_property
    def stale(self) -> float:
        """Share of the runs since the last improvement, 0 to 1, its own run counted."""
        return stale_share(self.in_order)

    @cached_property
    def spread(self) -> float:
        """Median loss minus best loss; a tenth of the range of the losses if that is 0."""
        best = self.losses[0]
        return (self.middle - best) or 0.1 * (self.losses[-1] - best)

    @cached_property
    def middle(self) -> float:
        """Median loss."""
        return median(self.losses)

    @cached_property
    def array(self) -> Floats:
        """The losses, float64 [n]."""
        return np.array(self.losses)

    @cached_property
    def distinct(self) -> float:
        """Share of different losses."""
        return len(np.unique(self.array)) / len(self.losses)

    @cached_property
    def tail(self) -> float:
        """Relative size of the worst losses: ln(0.01 + (worst - median) / spread).

        Where bad results are far worse than the median, the good ones are many and alike.
        Raises `ValueError` if all results are equal.
        """
        if self.spread <= 0:
            raise ValueError("equal results have no tail")
        return math.log(0.01 + (self.losses[-1] - self.middle) / self.spread)

    @cached_property
    def step(self) -> float:
        """Mean difference between the best loss and the next three; 0 if all losses are equal.

        At least 2 % of the `spread`. Raises `ValueError` with fewer than two results.
        """
        if len(self.losses) < 2:
            raise ValueError("a step needs two results")
        away = fmean(self.losses[1 : 1 + N_STEPS]) - self.losses[0]
        return max(away, LEAST_STEP * self.spread)

    def steps_to(self, goal: float) -> float:
        """Return the distance from the best loss to the goal, in units of `step`.

        Infinite where all results are equal, because the size of a step is unknown.
        """
        away = self.losses[0] - goal
        if away <= 0:
            return away
        return away / self.step if self.step > 0 else math.inf

    def steps_from_best(self, loss: float) -> float:
        """Return how far a better loss is from the best one, in steps; inverse of `after_steps`."""
        best = self.losses[0]
        if best <= 0 or loss <= 0:
            return (best - loss) / self.step
        return best * math.log(best / loss) / self.step

    def after_steps(self, n_steps: float) -> float:
        """Return the loss that lies so many steps beyond the best one.

        A positive loss falls by factors, so that it stays positive, and a loss of 0 stays 0; a step
        near the best is the same on both scales.
        """
        best = self.losses[0]
        if best == 0:
            return 0.0
        if best < 0:
            return best - n_steps * self.step
        return best * math.exp(-min(n_steps * self.step / best, 700.0))

    @property
    def silence(self) -> str:
        """Reason why there is too little evidence for a forecast; empty if there is enough."""
        if self.used < LEAST_RUNS:
            return f"{_runs(self.used)} ended, and a forecast needs {LEAST_RUNS}"
        if len(self.losses) < LEAST_RESULTS:
            n = len(self.losses)
            subject = "1 configuration has" if n == 1 else f"{n} configurations have"
            return (
                f"{subject} a result that meets every constraint, and a forecast needs "
                f"{LEAST_RESULTS}"
            )
        if self.step <= 0:
            return "all results are equal, so the size of a change is unknown"
        if self.reach is None:
            return "no configuration is left to try"
        return ""


def _runs(n: int) -> str:
    return "1 run has" if n == 1 else f"{n} runs have"


def stale_share(losses: Sequence[float | None]) -> float:
    """Return the share of runs since the last improvement, counting the improving run.

    A loss is None for a run without a feasible result; the runs are in order of completion.

    >>> stale_share([5.0, None, 4.0, 4.5]), stale_share([])
    (0.5, 1.0)
    """
    last, best = 0, math.inf
    for i, loss in enumerate(losses):
        if loss is not None and loss < best:
            last, best = i, loss
    return (len(losses) - last) / len(losses) if losses else 1.0


CLOSE = 0.03  # Added to steps, so that the logarithm of no improvement exists

SOLVED = 12.0  # Standard deviations below a goal from which a prediction counts no further

FEATURES = (
    "used", "stale", "tail", "exponent", "distinct", "covered", "reach", "count",
    "additive_reach", "additive_count", "additive_r2", "doubt", "neighbours", "at_end",
    "parameters", "levels", "ordered", "binary",
)  # fmt: skip
"""Names of the features, chosen on the spaces of the fit (``python -m benchmarks.forecast``)."""


def features(evidence: ForecastEvidence, goal: float) -> dict[str, float]:
    """Return the numbers that the forecast models use, by name; ``goal`` is a loss to reach.

    * ``used``: ln of the ended runs; ``stale``: share of them since the last improvement.
    * ``tail``, ``exponent``, ``distinct``: how the results lie: size of the worst, growth of their
      number with the distance from the best, share of different ones.
    * ``covered``: part of the way from the median result to the goal that the best has gone.
    * ``reach``, ``count``: sds by which the most promising untried configuration lies beyond the
      goal, and ln of the expected number beyond it, by the ANOVA model; ``additive_reach`` and
      ``additive_count`` by the additive regression; ``additive_r2`` and ``doubt``: how far they
      hold.
    * ``neighbours``, ``at_end``: of the best run: ln of 1 + its untried neighbours, share of its
      levels at an end.
    * ``parameters``, ``levels``, ``ordered``, ``binary``: the space: parameters, mean ln of their
      levels, share of ordered ones, of those with two levels.

    Raises ValueError if the evidence is not enough for a forecast.
    """
    reach = evidence.reach
    if reach is None or evidence.silence:
        raise ValueError("too little evidence for a forecast")
    losses = evidence.array
    best, middle = float(losses[0]), float(np.median(losses))
    target = reach.target(-goal)
    n_levels = np.array(reach.n_levels, dtype=np.float64)
    return {
        "used": math.log(evidence.used),
        "stale": evidence.stale,
        "tail": evidence.tail,
        "exponent": _exponent(losses),
        "distinct": evidence.distinct,
        "covered": (middle - best) / max(middle - goal, 1e-12),
        "reach": min(max(reach.beyond(target), -SOLVED), 1.0),
        "count": reach.ln_count(target),
        "additive_reach": reach.additive.beyond(target),
        "additive_count": reach.additive.ln_count(target),
        "additive_r2": max(reach.additive.r_squared, -1.0),
        "doubt": math.log(reach.doubt),
        "neighbours": math.log1p(reach.neighbours),
        "at_end": reach.at_end,
        "parameters": float((n_levels > 1).sum()),
        "levels": float(np.log(np.maximum(n_levels, 1.0)).mean()),
        "ordered": float(np.mean(reach.is_ordered)),
        "binary": float((n_levels == 2).mean()),
    }


def _exponent(losses: Floats) -> float:
    """Return k of count ~ distance^k for the third of the results next to the best, 0 to 10.

    Reference: Hill 1975, A simple general approach to inference about the tail of a distribution.
    """
    away = losses[1 : 1 + min(10, max(4, len(losses) // 3))] - losses[0]
    away = away[away > 0]
    if len(away) < 3 or away[-1] <= away[0]:
        return 5.0
    return min(1.0 / (float(np.log(away[-1] / away).mean()) + 1e-3), 10.0)
