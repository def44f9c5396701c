"""Gaussian mixtures on logarithms: of durations, and of the rows, columns and bytes of data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.errors import SetupError

Floats = NDArray[np.float64]

MOST_ROUNDS = 200
"""Of drawing again what fell out of bounds; who needs more has bounds that nothing falls into."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of Gaussians over the logarithms of d positive numbers, cut at bounds.

    Attributes:
        weights: float64 [k], summing to 1.
        means: float64 [k, d], of logarithms.
        covariances: float64 [k, d, d], of logarithms; positive definite.
        lowest: float64 [d], of the numbers themselves; what is drawn below is drawn again.
        highest: float64 [d], likewise above.

    Raises:
        SetupError: shapes that do not fit, weights that do not sum to 1, a covariance that is none,
            or bounds that are not above 0 and in order.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    lowest: Floats
    highest: Floats

    def __post_init__(self) -> None:
        for name in ("weights", "means", "covariances", "lowest", "highest"):
            array = np.array(getattr(self, name), dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        k, d = self.means.shape if self.means.ndim == 2 else (-1, -1)
        fits = (
            self.weights.shape == (k,)
            and self.covariances.shape == (k, d, d)
            and self.lowest.shape == self.highest.shape == (d,)
        )
        if not fits:
            raise SetupError(
                "the arrays of a mixture do not fit: [k], [k, d], [k, d, d], [d], [d]."
            )
        if self.weights.min() < 0 or abs(self.weights.sum() - 1) > 1e-6:
            raise SetupError("the weights of a mixture are from 0 and sum to 1.")
        if not (np.all(self.lowest > 0) and np.all(self.lowest <= self.highest)):
            raise SetupError("the bounds of a mixture are above 0, the lowest below the highest.")
        self._roots  # noqa: B018 - refuses a covariance now

    @cached_property
    def _roots(self) -> Floats:
        try:
            return np.asarray(np.linalg.cholesky(self.covariances), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise SetupError("a covariance of a mixture is not positive definite.") from None

    @cached_property
    def _until(self) -> Floats:
        until = np.cumsum(self.weights)
        return np.asarray(until / until[-1])

    @property
    def dimensions(self) -> int:
        """How many numbers are drawn together."""
        return int(self.means.shape[1])

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """Return `n` draws, float64 [n, d]; those out of bounds are drawn again.

        Raises:
            SetupError: hardly anything falls within the bounds.
        """
        drawn = self._free(rng, n)
        for _ in range(MOST_ROUNDS):
            outside = np.flatnonzero(np.any((drawn < self.lowest) | (drawn > self.highest), axis=1))
            if not len(outside):
                return drawn
            drawn[outside] = self._free(rng, len(outside))
        raise SetupError("hardly anything of a mixture falls within its bounds; widen them.")

    def _free(self, rng: np.random.Generator, n: int) -> Floats:
        which = np.minimum(
            np.searchsorted(self._until, rng.random(n), side="right"), len(self.weights) - 1
        )
        normal = rng.standard_normal((n, self.dimensions))
        log = self.means[which] + np.einsum("nij,nj->ni", self._roots[which], normal)
        return np.asarray(np.exp(log))

    def median(self) -> float:
        """Return the median of a mixture of one number, its bounds left aside."""
        low = float(np.min(self.means[:, 0] - 9 * np.sqrt(self.covariances[:, 0, 0])))
        high = float(np.max(self.means[:, 0] + 9 * np.sqrt(self.covariances[:, 0, 0])))
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if self._below(middle) < 0.5 else (low, middle)
        return math.exp((low + high) / 2)

    def _below(self, log: float) -> float:
        if self.dimensions != 1:
            raise SetupError("only a mixture of one number has a median.")
        return sum(
            float(weight) * 0.5 * math.erfc((float(mean) - log) / math.sqrt(2 * float(variance)))
            for weight, mean, variance in zip(
                self.weights, self.means[:, 0], self.covariances[:, 0, 0], strict=True
            )
        )

    def with_median(self, median: float) -> "Mixture":
        """Return the mixture of one number stretched so that its median is `median`."""
        shift = math.log(median / self.median())
        return Mixture(
            self.weights, self.means + shift, self.covariances, self.lowest, self.highest
        )


def mixture_of(
    parts: Sequence[tuple[float, float, float]], lowest: float, highest: float
) -> Mixture:
    """Return a mixture of one number.

    Args:
        parts: weight, median and standard deviation of the logarithm, of each part.
        lowest: bound.
        highest: bound.
    """
    weights, medians, spreads = np.array(parts, dtype=float).T
    return Mixture(
        weights / weights.sum(),
        np.log(medians)[:, None],
        (spreads**2)[:, None, None],
        np.array([lowest]),
        np.array([highest]),
    )
