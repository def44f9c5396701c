"""The arithmetic of runs to a goal: censoring, ratios of methods, and how sure they are.

Not reached counts as one run more than the budget, however the episode ended. A ratio below 1
means fewer runs.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GOALS: dict[str, float] = {"5 %": 0.05, "1 %": 0.01, "optimum": 0.0}
"""Share of (median - best) that a result may lie above the best one."""

RESAMPLES = 10_000

Runs = Mapping[str, Mapping[int, int]]
"""Runs to one goal: by space, then by seed."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the runs of another method one needs.

    Args:
        value: geometric mean over the spaces.
        low: 2.5 % quantile of the bootstrap over spaces; None with a single space.
        high: 97.5 % quantile of the same.
    """

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Return "0.71 [0.60, 0.90]"."""
        if self.low is None:
            return f"{self.value:.2f}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def runs_to(values: NDArray[np.float64], goal: float, budget: int) -> int:
    """Return the run that first reached the goal, from 1 on, or budget + 1.

    Args:
        values: the objective of every run in order, float64 [n], NaN where it failed.
        goal: to be reached or undercut.
        budget: runs that an episode may have.
    """
    reached = np.flatnonzero(values[:budget] <= goal)
    return int(reached[0]) + 1 if reached.size else budget + 1


def n_duplicates(proposals: Sequence[int]) -> int:
    """Count the runs that repeat an earlier one."""
    return len(proposals) - len(set(proposals))


def ratio_of_medians(ours: Runs, theirs: Runs) -> Ratio | None:
    """Compare medians per space, over the seeds and spaces that both have; None without any."""
    return _ratio([math.log(_median(a)) - math.log(_median(b)) for a, b in _paired(ours, theirs)])


def ratio_of_log_means(ours: Runs, theirs: Runs) -> Ratio | None:
    """Compare mean logarithms per space instead: less noisy than medians of few seeds."""
    return _ratio([_mean_log(a) - _mean_log(b) for a, b in _paired(ours, theirs)])


def _paired(ours: Runs, theirs: Runs) -> list[tuple[list[int], list[int]]]:
    pairs = []
    for space in ours:
        seeds = sorted(set(ours[space]) & set(theirs.get(space, {})))
        if seeds:
            pairs.append(([ours[space][s] for s in seeds], [theirs[space][s] for s in seeds]))
    return pairs


def _median(runs: list[int]) -> float:
    return float(statistics.median(runs))


def _mean_log(runs: list[int]) -> float:
    return statistics.fmean(math.log(n) for n in runs)


def _ratio(logs: list[float]) -> Ratio | None:
    if not logs:
        return None
    if len(logs) == 1:
        return Ratio(math.exp(logs[0]), None, None)
    low, high = np.exp(_interval(logs))
    return Ratio(math.exp(statistics.fmean(logs)), float(low), float(high))


def mean_with_interval(values: Sequence[float]) -> str:
    """Return the mean over spaces with its 95 % interval, such as "-0.02 [-0.05, 0.01]"."""
    low, high = _interval(values)
    return f"{statistics.fmean(values):.3f} [{low:.3f}, {high:.3f}]"


def _interval(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the 95 % interval of the mean, of a bootstrap over the spaces, float64 [2]."""
    told = np.array(values)
    drawn = np.random.default_rng(0).integers(len(told), size=(RESAMPLES, len(told)))
    return np.asarray(np.quantile(told[drawn].mean(axis=1), (0.025, 0.975)))
