"""How alike two weeks rank some policies: Kendall's tau, ties told, with intervals over weeks.

Everything here is a function of a table of mean slowdowns, a row per week and a column per policy.

Two policies are tied in a week if their slowdowns differ by no more than a tolerance; tau is then
tau-b (Kendall, "The treatment of ties in ranking problems", Biometrika 33(3), 1945): the sum over
pairs of policies of the product of their signs, divided by the geometric mean of how many pairs are
not tied in either week. A week that ties all ranks nothing, and its tau is 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

N_RESAMPLES = 4_000
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its interval at 95 %, by a percentile bootstrap."""

    mean: float
    low: float
    high: float

    def shown(self) -> str:
        """Return it for a table."""
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def signs(slowdown: Floats, tolerance: float = 0.0) -> Floats:
    """Return which of each pair of policies is the better one: float64 [n_weeks, n_pairs].

    Args:
        slowdown: float64 [n_weeks, n_policies], above 0.
        tolerance: two whose ratio is not beyond 1 + tolerance are tied, which is told by 0.
    """
    first, second = np.triu_indices(slowdown.shape[1], 1)
    gap = np.log(slowdown[:, second]) - np.log(slowdown[:, first])
    told: Floats = np.where(np.abs(gap) > np.log1p(tolerance), np.sign(gap), 0.0)
    return told


def taus(one: Floats, other: Floats, tolerance: float = 0.0) -> Floats:
    """Return tau-b between every week of one table and every week of another.

    Args:
        one: float64 [n, n_policies], mean slowdowns.
        other: float64 [m, n_policies].
        tolerance: see `signs`.

    Returns:
        float64 [n, m].
    """
    left, right = signs(one, tolerance), signs(other, tolerance)
    untied = np.sqrt(np.outer(np.abs(left).sum(axis=1), np.abs(right).sum(axis=1)))
    told: Floats = (left @ right.T) / np.maximum(untied, 1.0)
    return told


def among(weeks: Floats, tolerance: float = 0.0, seed: int = 0) -> Interval:
    """Return the mean tau between two different weeks; the bootstrap draws weeks.

    A week that is drawn twice is not set beside itself.
    """
    found = taus(weeks, weeks, tolerance)
    drawn = _drawn(len(weeks), seed)
    whole = _mean_of_pairs(found, np.arange(len(weeks))[None])
    return _interval(float(whole[0]), _mean_of_pairs(found, drawn))


def between(real: Floats, other: Floats, tolerance: float = 0.0, seed: int = 0) -> Interval:
    """Return the mean tau over all pairs; the bootstrap draws weeks on both sides."""
    found = taus(real, other, tolerance)
    rows, columns = _drawn(len(real), seed), _drawn(len(other), seed + 1)
    return _interval(float(found.mean()), _mean_of(found, rows, columns))


def differs(
    real: Floats, one: Floats, other: Floats, tolerance: float = 0.0, seed: int = 0
) -> Interval:
    """Return how much larger the mean tau of one is than that of another, over the same weeks."""
    first, second = taus(real, one, tolerance), taus(real, other, tolerance)
    rows = _drawn(len(real), seed)
    gaps = _mean_of(first, rows, _drawn(len(one), seed + 1)) - _mean_of(
        second, rows, _drawn(len(other), seed + 2)
    )
    return _interval(float(first.mean() - second.mean()), gaps)


def regret(real: Floats, other: Floats) -> float:
    """Return how much worse the policy is that weeks would choose than the best in hindsight.

    The policy of the least mean of logarithms over `other`, against that over `real`: the ratio of
    their slowdowns over `real`, from 1.
    """
    told = np.log(real).mean(axis=0)
    return float(np.exp(told[np.log(other).mean(axis=0).argmin()] - told.min()))


def tied_share(slowdown: Floats, tolerance: float) -> float:
    """Return the share of the pairs of policies that are tied within a week."""
    return float((signs(slowdown, tolerance) == 0).mean())


def ranked(names: Sequence[str], slowdown: Floats) -> list[str]:
    """Return policies by the mean of the logarithms of their slowdowns, the best one first."""
    return [names[int(i)] for i in np.argsort(np.log(slowdown).mean(axis=0), kind="stable")]


def _drawn(n: int, seed: int) -> Ints:
    return np.random.default_rng(seed).integers(n, size=(N_RESAMPLES, n))


def _mean_of(found: Floats, rows: Ints, columns: Ints) -> Floats:
    means: Floats = found[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))
    return means


def _mean_of_pairs(found: Floats, rows: Ints) -> Floats:
    """Return the mean over pairs of different weeks of each draw; NaN where there are none."""
    differ = rows[:, :, None] != rows[:, None, :]
    total = np.where(differ, found[rows[:, :, None], rows[:, None, :]], 0.0).sum(axis=(1, 2))
    counts = differ.sum(axis=(1, 2))
    means: Floats = np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
    return means


def _interval(mean: float, drawn: Floats) -> Interval:
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.nanquantile(drawn, (tail, 1.0 - tail))
    return Interval(float(mean), float(low), float(high))
