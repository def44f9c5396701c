"""The ANOVA kernel over a grid: main effects plus their full product.

For two configurations x and x', with one correlation z_i per parameter,

    k(x, x') = v1 / d * sum_i z_i(x_i, x'_i) + v2 * prod_i z_i(x_i, x'_i).

The sum is a prior over main effects, the product one over interactions of any order (its
correlations are not centred, so there are main effects in it too). An ordinal parameter has
z = (1 + a + a^2 / 3) exp(-a) with a = sqrt(5) |p - p'| / l (Matern with smoothness 5/2), a nominal
one z = exp(-[level differs] / l).

Only levels enter, so a kernel is evaluated by one small table per parameter.

References: Durrande, Ginsbourger, Roustant & Carraro 2013, ANOVA kernels and RKHS of zero mean
functions; Duvenaud, Nickisch & Rasmussen 2011, Additive Gaussian processes; Rasmussen & Williams
2006, equation 4.17.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strategies.parameter import Parameter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROOT_5 = math.sqrt(5.0)
LOG_RATIO = 8.0
"""Ratio of greatest to least positive level from which on a parameter counts in logarithms."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One parameter as the kernel sees it.

    Args:
        ordinal: whether distances of positions count; else levels are equal or not.
        position: float64 [levels] in [0, 1], by level id.
    """

    ordinal: bool
    position: Floats

    @classmethod
    def of(cls, parameter: Parameter) -> Axis:
        """Return the axis of a parameter.

        Ordinal from 3 levels on: the mean of rank and value positions, the latter of the
        logarithm if all levels are positive and span a factor of more than 8. Two levels are
        equal or not.
        """
        n_levels = parameter.n_levels
        ranks = np.array(parameter.ranks, dtype=np.float64)
        if parameter.kind == "nominal" or n_levels < 3:
            return cls(False, ranks)
        rank = ranks / (n_levels - 1)
        if parameter.family != "number":
            return cls(True, rank)
        value = np.array([float(level) for level in parameter.levels], dtype=np.float64)
        least, greatest = float(value.min()), float(value.max())
        if least > 0 and greatest / least > LOG_RATIO:
            value = np.log(value)
        else:
            value = value / max(abs(least), abs(greatest), 1e-300)  # spans that would overflow
        spread = (value - value.min()) / (value.max() - value.min())
        return cls(True, (rank + spread) / 2)

    def distances(self, a: Ints, b: Ints) -> Floats:
        """Return |p - p'| or [level differs] of level ids, broadcast."""
        if self.ordinal:
            return np.abs(self.position[a] - self.position[b])
        return np.not_equal(a, b).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """What is learnt of a kernel: one length per axis, variances of its parts, and of the noise."""

    lengths: tuple[float, ...]
    main: float
    product: float
    noise: float

    @property
    def prior_variance(self) -> float:
        """Variance of the latent function anywhere."""
        return self.main + self.product


def correlations(axis: Axis, length: float, distances: Floats) -> Floats:
    """Return z for distances of one axis, of their shape."""
    if not axis.ordinal:
        return np.exp(distances * (-1.0 / length))
    a = distances * (ROOT_5 / length)
    return (1.0 + a * (1.0 + a / 3.0)) * np.exp(-a)


def gram(axes: Sequence[Axis], parameters: Hyperparameters, ids: Ints) -> Floats:
    """Return the kernel matrix [n, n] of level ids [n, d] without noise."""
    n = len(ids)
    total = np.zeros((n, n))
    product = np.ones((n, n))
    for i, (axis, length) in enumerate(zip(axes, parameters.lengths, strict=True)):
        z = correlations(axis, length, axis.distances(ids[:, None, i], ids[None, :, i]))
        total += z
        product *= z
    return total * (parameters.main / max(len(axes), 1)) + product * parameters.product
