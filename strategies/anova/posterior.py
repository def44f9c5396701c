"""The model after the runs: predictions over the grid, and the effects behind them.

With K the kernel matrix of n runs with noise and w = K^-1 z, a prediction at x has mean
k(x)' w and variance k(x, x) - k(x)' K^-1 k(x) (Rasmussen & Williams 2006, equations 2.25-2.26).

The mean of the function over all levels of some parameters has a closed form too, since the kernel
is made of a sum and a product over parameters: main effects and interactions are predicted like
values, by the same model that predicts configurations (Durrande et al. 2013, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from strategies.anova.fit import JITTER
from strategies.anova.kernel import Axis, Floats, Hyperparameters, Ints, correlations, gram

CHUNK = 1_024
"""Configurations that are predicted at once: their rows fit a processor's cache."""

LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Half:
    """Sum and product of correlations with n runs over some of the axes.

    Args:
        code: row of each configuration, [m].
        total: [rows, n].
        product: [rows, n].
    """

    code: Ints
    total: Floats
    product: Floats


@dataclass(frozen=True, eq=False)
class Posterior:
    """A fitted model.

    Args:
        axes: d axes.
        hyperparameters: of the kernel.
        ids: level ids of the runs [n, d].
        targets: targets of the runs, [n] or one column for each of s fantasies [n, s].
    """

    axes: tuple[Axis, ...]
    hyperparameters: Hyperparameters
    ids: Ints
    targets: Floats

    @cached_property
    def factor(self) -> Floats:
        """Lower Cholesky factor of the kernel matrix with noise, [n, n]."""
        matrix = gram(self.axes, self.hyperparameters, self.ids)
        matrix.flat[:: len(matrix) + 1] += self.hyperparameters.noise + JITTER
        found: Floats = cholesky(matrix, lower=True, check_finite=False)
        return found

    @cached_property
    def weights(self) -> Floats:
        """K^-1 z, of the shape of the targets."""
        found: Floats = cho_solve((self.factor, True), self.targets, check_finite=False)
        return found

    def predict(self, ids: Ints) -> tuple[Floats, Floats]:
        """Return mean [m] (or [m, s]) and standard deviation [m] of the function, without noise.

        Args:
            ids: level ids [m, d].
        """
        first, second = self._halves(ids)
        mean = np.empty((len(ids), *self.targets.shape[1:]))
        variance = np.empty(len(ids))
        for start in range(0, len(ids), CHUNK):
            part = slice(start, start + CHUNK)
            k = self._cross(first, second, part)
            mean[part] = k @ self.weights
            variance[part] = self._explained(k)
        variance = self.hyperparameters.prior_variance - variance
        return mean, np.sqrt(np.maximum(variance, LEAST_VARIANCE))

    @cached_property
    def left_out(self) -> Floats:
        """How far each run is from its prediction by all others, in standard deviations, [n].

        Reference: Rasmussen & Williams 2006, equations 5.10-5.12.
        """
        inverse = solve_triangular(
            self.factor, np.eye(len(self.ids)), lower=True, check_finite=False
        )
        precision = np.einsum("ij,ij->j", inverse, inverse)
        found: Floats = self.weights / np.sqrt(precision)
        return found

    def sample(self, ids: Ints, n: int, rng: np.random.Generator) -> Floats:
        """Draw n noisy results [m, n] of runs that have not ended, all m together.

        Args:
            ids: level ids [m, d].
            n: how many draws.
            rng: of the draws.
        """
        k = self._cross(*self._halves(ids), slice(None))
        half = solve_triangular(self.factor, k.T, lower=True, check_finite=False)
        covariance = gram(self.axes, self.hyperparameters, ids) - half.T @ half
        covariance.flat[:: len(ids) + 1] += self.hyperparameters.noise + JITTER
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        mean = (k @ self.weights).reshape(len(ids), -1)[:, :1]
        found: Floats = mean + root @ rng.standard_normal((len(ids), n))
        return found

    def averaged(self, fixed: Mapping[int, Ints], levels: Sequence[Ints]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation [m] of the function averaged over the other axes.

        Args:
            fixed: level ids [m] of the axes that are not averaged, by axis.
            levels: per axis, the level ids that an average runs over.
        """
        h, d = self.hyperparameters, max(len(self.axes), 1)
        total, product = np.zeros(len(self.ids)), np.ones(len(self.ids))
        own_total, own_product = float(len(fixed)), 1.0
        for i in range(len(self.axes)):
            if i not in fixed:
                z, own = self.mean_correlation(i, levels[i])
                total, product = total + z, product * z
                own_total, own_product = own_total + own, own_product * own
        for i, ids in fixed.items():
            z = self.correlation(i, ids)
            total, product = total + z, product * z
        k = np.atleast_2d(h.main / d * total + h.product * product)
        prior = h.main / d * own_total + h.product * own_product
        variance = np.maximum(prior - self._explained(k), 0.0)
        return k @ self.weights, np.sqrt(variance)

    def correlation(self, i: int, ids: Ints) -> Floats:
        """Return the correlations [m, n] of levels of an axis with those of the runs."""
        axis = self.axes[i]
        distances = axis.distances(ids[:, None], self.ids[:, i])
        return correlations(axis, self.hyperparameters.lengths[i], distances)

    def mean_correlation(self, i: int, ids: Ints) -> tuple[Floats, float]:
        """Return the mean correlation of levels of an axis with the runs [n], and with itself."""
        axis, length = self.axes[i], self.hyperparameters.lengths[i]
        own = correlations(axis, length, axis.distances(ids[:, None], ids))
        return self.correlation(i, ids).mean(axis=0), float(own.mean())

    def _explained(self, k: Floats) -> Floats:
        """Return k' K^-1 k for every row of k [m, n]."""
        half = solve_triangular(self.factor, k.T, lower=True, check_finite=False)
        found: Floats = np.einsum("ij,ij->j", half, half)
        return found

    def _cross(self, first: _Half, second: _Half, part: slice) -> Floats:
        """Return the kernel [m, n] of some configurations with the runs."""
        h, d = self.hyperparameters, max(len(self.axes), 1)
        k: Floats = first.product[first.code[part]]
        k *= second.product[second.code[part]]
        k *= h.product
        k += (h.main / d * first.total)[first.code[part]]
        k += (h.main / d * second.total)[second.code[part]]
        return k

    def _halves(self, ids: Ints) -> tuple[_Half, _Half]:
        """Split the axes in two, so that most configurations share each half with others."""
        sizes = [axis.position.size for axis in self.axes]
        middle = min(
            range(len(sizes) + 1), key=lambda i: max(math.prod(sizes[:i]), math.prod(sizes[i:]))
        )
        return self._half(ids, range(middle)), self._half(ids, range(middle, len(sizes)))

    def _half(self, ids: Ints, axes: range) -> _Half:
        columns = ids[:, axes.start : axes.stop]
        own, code = _distinct(columns, [self.axes[i].position.size for i in axes])
        total = np.zeros((len(own), len(self.ids)))
        product = np.ones_like(total)
        for column, i in enumerate(axes):
            z = self.correlation(i, own[:, column])
            total += z
            product *= z
        return _Half(code, total, product)


def _distinct(ids: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the distinct rows of ids [m, d], and for each row which of them it is."""
    if math.prod(sizes) >= 2**62:
        rows, which = np.unique(ids, axis=0, return_inverse=True)
        return rows, which.reshape(-1)
    number = np.zeros(len(ids), dtype=np.int64)
    for i, size in enumerate(sizes):
        number *= size
        number += ids[:, i]
    _, first, which = np.unique(number, return_index=True, return_inverse=True)
    return ids[first], which
