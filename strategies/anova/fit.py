"""Learning the kernel from runs: the most probable lengths, variances and noise.

Maximises log p(z | theta) + log p(theta) over theta = logarithms of the hyperparameters, with
normal priors on them, by L-BFGS-B with analytic gradients (Rasmussen & Williams 2006, equation
5.9). Pairs of observations are packed, so that an exponential is taken once for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from strategies.anova.kernel import ROOT_5, Axis, Floats, Hyperparameters, Ints

JITTER = 1e-6
BOX = 4.0
"""Half width of the box around the prior means, in logarithms."""

ROUNDED = 5
"""Decimals of a learnt logarithm: what processors add up differently is left out."""

MOST_NOISE = 0.0
"""Logarithm of the greatest variance of the noise: all that there is in standardised targets."""

MOST_LEARNT = 160
"""Runs that hyperparameters are learnt from at most."""

HOPELESS = 1e12
"""Negative logarithm of the density where the kernel matrix cannot be factored."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Normal priors on the logarithms of the hyperparameters.

    Args:
        ordinal: typical length of an ordinal axis.
        nominal: typical length of a nominal axis.
        main: typical variance of the main effects.
        product: typical variance of the product.
        noise: typical variance of the noise.
        spread: standard deviation of every logarithm.
    """

    ordinal: float = 0.8
    nominal: float = 1.5
    main: float = 0.5
    product: float = 0.5
    noise: float = 1e-3
    spread: float = 1.0

    def means(self, axes: Sequence[Axis]) -> Floats:
        """Return the mean of every logarithm: lengths, main, product, noise."""
        lengths = [self.ordinal if axis.ordinal else self.nominal for axis in axes]
        means: Floats = np.log(np.array([*lengths, self.main, self.product, self.noise]))
        return means


def learn(
    axes: Sequence[Axis], ids: Ints, targets: Floats, prior: Prior, iterations: int
) -> Hyperparameters:
    """Return the hyperparameters of greatest posterior density.

    The search starts at the prior means, so the answer is a function of the arguments alone;
    equal questions are answered from memory.

    Args:
        axes: d axes.
        ids: level ids [n, d].
        targets: standardised targets [n].
        prior: of the hyperparameters.
        iterations: steps of L-BFGS-B at most.
    """
    kinds = tuple((axis.ordinal, axis.position.tobytes()) for axis in axes)
    whole = np.ascontiguousarray(ids, dtype=np.int64)
    return _learn(kinds, whole.tobytes(), targets.tobytes(), prior, iterations)


def n_learnt(n: int) -> int:
    """Return of how many of n runs, the first ones, hyperparameters are learnt.

    All up to 40; then a multiple of 3, from 100 on of 8, and 160 at most: they hardly move any
    more, and what was learnt can be remembered.
    """
    if n <= 40:
        return n
    return min(n - n % (3 if n <= 100 else 8), MOST_LEARNT)


@lru_cache(maxsize=64)
def _learn(
    kinds: tuple[tuple[bool, bytes], ...], ids: bytes, targets: bytes, prior: Prior, iterations: int
) -> Hyperparameters:
    axes = [Axis(ordinal, np.frombuffer(position)) for ordinal, position in kinds]
    z = np.frombuffer(targets)
    own = np.frombuffer(ids, dtype=np.int64).reshape(z.size, len(axes))
    mean = prior.means(axes)
    if z.size > 1:
        found = minimize(
            _Density(axes, own, z, mean, prior.spread).negative_log,
            mean,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(mean - BOX, np.append(mean[:-1] + BOX, MOST_NOISE), strict=True)),
            options={"maxiter": iterations},
        )
        mean = np.round(found.x, ROUNDED)
    values = [float(v) for v in np.exp(mean)]
    d = len(axes)
    return Hyperparameters(tuple(values[:d]), values[d], values[d + 1], values[d + 2])


class _Density:
    """The density as a function of theta, with what does not depend on theta computed once."""

    def __init__(
        self, axes: Sequence[Axis], ids: Ints, targets: Floats, mean: Floats, spread: float
    ) -> None:
        self._axes = axes
        self._targets = targets
        self._mean = mean
        self._spread = spread
        self._n = len(ids)
        self._rows, self._columns = np.triu_indices(self._n, 1)
        self._flat = self._rows * self._n + self._columns
        self._distances = np.array(
            [
                axis.distances(ids[self._rows, i], ids[self._columns, i])
                for i, axis in enumerate(axes)
            ]
        ).reshape(len(axes), self._rows.size)
        self._is_ordinal = np.array([axis.ordinal for axis in axes], dtype=np.bool_)

    def negative_log(self, theta: Floats) -> tuple[float, Floats]:
        """Return the negative logarithm of the density (but for a constant) and its gradient."""
        n, d = self._n, len(self._axes)
        lengths = np.exp(theta[:d])
        v1, v2, noise = (float(v) for v in np.exp(theta[d:]))
        z, slope = self._correlations(lengths)
        mean_z = z.mean(axis=0) if d else np.ones(self._rows.size)
        product = z.prod(axis=0)
        packed = v1 * mean_z + v2 * product
        matrix = np.zeros((n, n), order="F")
        matrix.T.flat[self._flat] = packed  # the lower triangle, as LAPACK counts
        matrix.flat[:: n + 1] = v1 + v2 + noise + JITTER
        factor, failed = lapack.dpotrf(matrix, lower=1)
        if failed:
            return HOPELESS, np.zeros_like(theta)
        weights, _ = lapack.dpotrs(factor, self._targets, lower=1)
        inverse, _ = lapack.dpotri(factor, lower=1)
        value = 0.5 * float(self._targets @ weights) + float(np.log(np.diag(factor)).sum())
        # d/dt of the log likelihood is 0.5 tr((w w' - K^-1) dK/dt); pairs count twice
        pairs = weights[self._rows] * weights[self._columns] - inverse[self._columns, self._rows]
        diagonal = 0.5 * float(weights @ weights - np.trace(inverse))
        gradient = np.empty_like(theta)
        if d:
            per_axis = (v1 / d) * pairs * slope + pairs * (v2 * product) * _relative(slope, z)
            gradient[:d] = per_axis.sum(axis=1)
        gradient[d] = v1 * (float(pairs @ mean_z) + diagonal)
        gradient[d + 1] = v2 * (float(pairs @ product) + diagonal)
        gradient[d + 2] = noise * diagonal
        apart = (theta - self._mean) / self._spread
        value += 0.5 * float(apart @ apart)
        return value, apart / self._spread - gradient

    def _correlations(self, lengths: Floats) -> tuple[Floats, Floats]:
        """Return z and dz / d log length, [d, pairs]."""
        scale = np.where(self._is_ordinal, ROOT_5, 1.0) / lengths
        a = self._distances * scale[:, None]
        decay = np.exp(-a)
        z = decay.copy()
        slope = a * decay
        o = self._is_ordinal
        z[o] *= 1.0 + a[o] * (1.0 + a[o] / 3.0)
        slope[o] *= a[o] * (1.0 + a[o]) / 3.0
        return z, slope


def _relative(slope: Floats, z: Floats) -> Floats:
    """Return dz_i / z_i, 0 where z has vanished and its slope with it."""
    return np.divide(slope, z, out=np.zeros_like(slope), where=z > 1e-300)
