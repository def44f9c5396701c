"""How long runs take, from those that are over and those that still go on.

A run that goes on is a censored duration: it takes at least what it has taken. Future runs take
what recent ones took: a strategy that finds faster configurations makes shorter runs.

Futures are drawn, all at once: a smoothed Bayesian bootstrap over the durations, so that few runs
give a wide answer. The uniforms come from a generator that the caller seeds: the same draws serve
every budget.

References: Kaplan & Meier 1958 for the redistribution of censored durations to the right (in the
form of Efron 1967); Rubin 1981, The Bayesian bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWS = 200
HALF_LIFE = 15.0
"""Runs after which an earlier duration counts half."""

PRIOR_SD = 0.5
"""Standard deviation of the logarithm that one run alone is given."""

MOST_SD = 2.0
"""The smoothing is no wider, however much the runs differ: they carry the difference themselves."""

LEAST_S = 1e-6
"""Shorter durations count as this long: a logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of runs, with how much each counts.

    Args:
        seconds: of the runs that are over, oldest first, float64 [n], above 0.
        weights: how much each counts, float64 [n], with the mass of those that go on added to the
            longer ones; the sum is the number of runs that it is worth.
        costs: of the same runs, float64 [n]; empty if none is known.
        spread: standard deviation of the smoothing, in logarithms.
    """

    seconds: Floats
    weights: Floats
    costs: Floats
    spread: float

    @classmethod
    def learn(
        cls,
        over: Sequence[float],
        going: Sequence[float],
        costs: Sequence[float] = (),
    ) -> Durations | None:
        """Return what is known; None while no run is over.

        Args:
            over: seconds of the runs that are over, oldest first.
            going: seconds that each run that goes on has taken so far.
            costs: of the runs that are over, in the same order; empty if unknown.
        """
        if not over:
            return None
        seconds = np.maximum(np.asarray(over, dtype=np.float64), LEAST_S)
        n = len(seconds)
        weights = 0.5 ** (np.arange(n)[::-1] / HALF_LIFE)
        for elapsed_s in sorted(going):  # mass of a censored one goes to all that took longer
            longer = seconds > elapsed_s
            mass = weights[longer].sum()
            if mass > 0:
                weights[longer] *= (mass + 1.0) / mass
            else:
                weights[seconds == seconds.max()] += 1.0 / (seconds == seconds.max()).sum()
        logs = np.log(seconds)
        mean = np.average(logs, weights=weights)
        square = (weights * (logs - mean) ** 2).sum() + PRIOR_SD**2
        worth = weights.sum() ** 2 / (weights**2).sum()
        spread = min(math.sqrt(square / (weights.sum() + 1.0)) * worth**-0.2, MOST_SD)
        return cls(seconds, weights, np.asarray(costs, dtype=np.float64), spread)

    def draw(
        self, n: int, rng: np.random.Generator, limit_s: float | None = None
    ) -> tuple[Floats, Floats]:
        """Return durations and costs of ``n`` runs to come, each float64 [DRAWS, n].

        Costs are 0 where none is known. With ``limit_s`` no run takes longer.
        """
        shares = rng.gamma(self.weights, size=(DRAWS, len(self.weights))) + 1e-300
        sums = shares.cumsum(axis=1)
        at = rng.random((DRAWS, n)) * sums[:, -1:]
        chosen = np.array([np.searchsorted(s, a) for s, a in zip(sums, at, strict=True)])
        chosen = np.minimum(chosen, len(self.seconds) - 1)
        factor = np.exp(self.spread * rng.standard_normal((DRAWS, n)) - self.spread**2 / 2)
        seconds = self.seconds[chosen] * factor
        if limit_s is not None:
            factor = np.where(seconds > limit_s, factor * limit_s / seconds, factor)
            seconds = np.minimum(seconds, limit_s)
        costs = self.costs[chosen] * factor if len(self.costs) else np.zeros_like(seconds)
        return seconds, costs

    def to_go(
        self, elapsed_s: Sequence[float], rng: np.random.Generator, limit_s: float | None = None
    ) -> Floats:
        """Return what runs that go on still take, float64 [DRAWS, len(elapsed_s)].

        Each is drawn from the durations that are longer than what it has taken; beyond the longest
        one, from an exponential tail of its size.
        """
        columns = []
        for taken_s in elapsed_s:
            longer = self.seconds > taken_s
            if longer.any():
                weights = self.weights[longer] / self.weights[longer].sum()
                left_s = rng.choice(self.seconds[longer] - taken_s, DRAWS, p=weights)
                left_s *= np.exp(self.spread * rng.standard_normal(DRAWS) - self.spread**2 / 2)
            else:
                left_s = rng.exponential(max(taken_s, LEAST_S), DRAWS)
            if limit_s is not None:
                left_s = np.minimum(left_s, max(limit_s - taken_s, 0.0))
            columns.append(left_s)
        return np.stack(columns, axis=1) if columns else np.zeros((DRAWS, 0))


def ends_of(durations_s: Floats, going_s: Floats, workers: int, batch: int) -> Floats:
    """Return when runs end, in seconds from now, float64 [DRAWS, going + to come], ascending.

    Args:
        durations_s: of the runs to come, float64 [DRAWS, n].
        going_s: what the runs that go on still take, float64 [DRAWS, m], m at most ``workers``.
        workers: runs at once.
        batch: runs that are chosen together: the next ones wait until all of them are over.
    """
    draws, n = durations_s.shape
    free_s = np.zeros((draws, workers))
    m = min(going_s.shape[1], workers)
    free_s[:, :m] = going_s[:, :m]
    rows = np.arange(draws)
    ends = np.empty((draws, n))
    for i in range(n):
        if batch > 1 and i % batch == 0 and i > 0:
            free_s[:] = free_s.max(axis=1, keepdims=True)
        first = free_s.argmin(axis=1)
        free_s[rows, first] += durations_s[:, i]
        ends[:, i] = free_s[rows, first]
    return np.sort(np.concatenate([going_s, ends], axis=1), axis=1)
