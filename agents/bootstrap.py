"""Intervals of a mean by the bootstrap.

Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1994, chapter 13 (the percentile
interval), which the paper cites for its 95 % intervals (section 4.2).
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2_000
_AT_ONCE = 1_000_000
"""Numbers that are drawn at once: 8 MB."""


def mean_interval(
    values: Sequence[float],
    rng: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Return the ends of an interval for the mean; None of fewer than two values.

    Samples of the same size are drawn with replacement; the interval holds the middle ``level``
    of their means.

    Args:
        values: independent of each other.
        rng: draws ``resamples`` times as many whole numbers as there are values.
        resamples: how many samples.
        level: above 0, below 1.
    """
    given = np.asarray(values, dtype=np.float64)
    if given.size < 2:
        return None
    means = np.concatenate([drawn.mean(1) for drawn in resampled(given, rng, resamples)])
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def resampled(
    given: NDArray[np.float64], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Iterator[NDArray[np.float64]]:
    """Yield samples of the same size, drawn with replacement, a few rows of them at a time."""
    rows = max(1, _AT_ONCE // given.size)
    for done in range(0, resamples, rows):
        yield given[rng.integers(given.size, size=(min(rows, resamples - done), given.size))]
