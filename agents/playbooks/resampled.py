"""Numbers with their bootstrap: what is reckoned from cells has an interval of its own.

Whether two cells differ is seen from the interval of their difference, not from intervals that
overlap. Each cell is resampled once (Efron & Tibshirani 1994, chapter 6); whatever is reckoned from
several cells is reckoned from each of their resamples, and the middle 95 % of that is its interval
(chapter 13, percentiles). Cells are independent of each other, a cell is not of itself, and both
come out right.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.bootstrap import RESAMPLES, resampled

Real = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A number, and what it would have been with other episodes.

    Args:
        value: from all episodes.
        draws: float64 [resamples].

    >>> a = Estimate(3.0, np.array([2.0, 3.0, 4.0]))
    >>> (a - a).low, (a - 1).value, (2 * a).high > 7
    (0.0, 2.0, True)
    """

    value: float
    draws: Real

    @property
    def low(self) -> float:
        """The lower end of the 95 % interval."""
        return float(np.quantile(self.draws, 0.025))

    @property
    def high(self) -> float:
        """The upper end of the 95 % interval."""
        return float(np.quantile(self.draws, 0.975))

    def within(self, level: float) -> tuple[float, float]:
        """Return the ends of an interval of another level, such as 0.99."""
        low, high = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def __add__(self, other: "Estimate | float") -> "Estimate":
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: "Estimate | float") -> "Estimate":
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: "Estimate | float") -> "Estimate":
        return self._with(other, lambda a, b: a * b)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Estimate":
        return self * -1.0

    def log(self) -> "Estimate":
        """Return its logarithm; it is above 0."""
        return Estimate(math.log(self.value), np.log(self.draws))

    def expm1(self) -> "Estimate":
        """Return what a difference of logarithms is as a share."""
        return Estimate(math.expm1(self.value), np.expm1(self.draws))

    def _with(self, other: "Estimate | float", reckon: Callable[[Real, Real], Real]) -> "Estimate":
        own = np.array([self.value, *self.draws])
        told = other if isinstance(other, Estimate) else None
        theirs = np.array(other) if told is None else np.array([told.value, *told.draws])
        both = reckon(own, theirs)
        return Estimate(float(both[0]), both[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The episodes of a cell, resampled.

    Args:
        n: episodes.
        mean: of them.
        spread: their standard deviation.
        found: share of them that found the optimum.
    """

    n: int
    mean: Estimate
    spread: Estimate
    found: float = 1.0

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        rng: np.random.Generator,
        found: float = 1.0,
        resamples: int = RESAMPLES,
    ) -> "Sample":
        """Resample the values of the episodes of a cell, of which there is one at least."""
        given = np.asarray(values, dtype=np.float64)
        means, spreads = np.empty(0), np.empty(0)
        for drawn in resampled(given, rng, resamples):
            means = np.append(means, drawn.mean(axis=1))
            spreads = np.append(spreads, drawn.std(axis=1))
        return cls(
            given.size,
            Estimate(float(given.mean()), means),
            Estimate(float(given.std()), spreads),
            found,
        )


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of some, each weighing the same."""
    total = estimates[0]
    for one in estimates[1:]:
        total = total + one
    return total * (1.0 / len(estimates))


def slope(at: Sequence[float], estimates: Sequence[Estimate]) -> Estimate:
    """Return the slope of the least squares line through some, per unit of ``at``.

    Raises:
        ValueError: there are not two different places.
    """
    places = np.asarray(at, dtype=np.float64)
    apart = places - places.mean()
    if not apart.any():
        raise ValueError(f"a slope needs two different places, not {list(at)}")
    total = estimates[0] * 0.0
    for weight, one in zip((apart / (apart @ apart)).tolist(), estimates, strict=True):
        total = total + one * weight
    return total
