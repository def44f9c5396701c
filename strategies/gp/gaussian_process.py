"""Gaussian process over a grid: ANOVA kernel, learning, predictions and expected improvement.

For two configurations x and x', with one correlation z_i per parameter,

    k(x, x') = v1 / d * sum_i z_i(x_i, x'_i) + v2 * prod_i z_i(x_i, x'_i).

The sum is a prior over main effects, the product one over interactions of any order (its
correlations are not centred, so there are main effects in it too). An ordinal parameter has
z = (1 + a + a^2 / 3) exp(-a) with a = sqrt(5) |p - p'| / l (Matern with smoothness 5/2), a nominal
one z = exp(-[level differs] / l). Hyperparameters maximise log p(z | theta) + log p(theta) over
their logarithms theta, with normal priors, by L-BFGS-B with analytic gradients. Averages over all
levels of some parameters have a closed form, so main effects and interactions are predicted like
values.

References: Durrande, Ginsbourger, Roustant & Carraro 2013, ANOVA kernels and RKHS of zero mean
functions (section 4: effects); Duvenaud, Nickisch & Rasmussen 2011, Additive Gaussian processes;
Rasmussen & Williams 2006, equations 2.25-2.26 (prediction), 4.17 (Matern), 5.9 (gradient) and
section 6.5 (least-squares classification of failures); Gardner et al. 2014, Bayesian optimization
with inequality constraints; Jones, Schonlau & Welch 1998, Efficient global optimization, equation
15; Ament et al. 2023 (logarithm of expected improvement, which keeps far configurations apart).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular
from scipy.optimize import minimize
from scipy.special import erfcx, ndtr

from strategies.blas_threads import single_blas_thread
from strategies.space.parameter import Parameter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


ROOT_5 = math.sqrt(5.0)
LOG_RATIO = 8.0
"""Ratio of greatest to least positive level from which on a parameter is taken in logarithms."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Parameter as a dimension of the kernel: its level positions, or nominal levels."""

    ordinal: bool  # whether distances of positions count; else levels are equal or not
    position: Floats  # float64 [levels] in [0, 1], by level id

    @classmethod
    def of(cls, parameter: Parameter) -> Axis:
        """Return the kernel dimension of a parameter.

        Ordinal from 3 levels on: the mean of rank and value positions, the latter of the
        logarithm if all levels are positive and span a factor of more than 8. A parameter with a
        condition has one position more, for where it is inactive: the middle, or a level of its
        own if it is nominal (imputation, as Levesque et al. 2017 do, Bayesian optimization for
        conditional hyperparameter spaces).
        """
        axis = cls._active(parameter)
        if not parameter.when:
            return axis
        inactive = 0.5 if axis.ordinal else float(parameter.n_levels)
        return cls(axis.ordinal, np.append(axis.position, inactive))

    @classmethod
    def _active(cls, parameter: Parameter) -> Axis:
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
            value = value / max(abs(least), abs(greatest), 1e-300)  # avoids overflow of the span
        spread = (value - value.min()) / (value.max() - value.min())
        return cls(True, (rank + spread) / 2)

    def distances(self, a: Ints, b: Ints) -> Floats:
        """Return the kernel distances between level ids `a` and `b`, broadcast."""
        if self.ordinal:
            return np.abs(self.position[a] - self.position[b])
        return np.not_equal(a, b).astype(np.float64)

    def coded_distances(self, a: Ints, b: Ints) -> tuple[Floats, Ints]:
        """Return distances [t] that contain those of `a` [m] and `b` [m], and the places [m].

        They are those of all pairs of levels, where these are fewer than m.
        """
        if not self.ordinal:
            return np.array([0.0, 1.0]), np.not_equal(a, b).astype(np.int64)
        n = self.position.size
        if n * n >= len(a):
            return self.distances(a, b), np.arange(len(a))
        levels = np.arange(n)
        return self.distances(levels[:, None], levels).ravel(), a * n + b


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Kernel hyperparameters: a length per axis; variances of main effects, product and noise.

    ``borrowed`` are two variances per borrowed coordinate u: of a smooth function of u, and of a
    multiple of u.
    """

    lengths: tuple[float, ...]
    main: float
    product: float
    noise: float
    borrowed: tuple[tuple[float, float], ...] = ()

    @property
    def prior_variance(self) -> float:
        """Variance of the latent function at a configuration whose borrowed coordinates are 0."""
        return self.main + self.product + sum(smooth for smooth, _ in self.borrowed)


def correlations(axis: Axis, length: float, distances: Floats) -> Floats:
    """Return the prior correlations at given distances along one axis."""
    if not axis.ordinal:
        return np.exp(distances * (-1.0 / length))
    a = distances * (ROOT_5 / length)
    return (1.0 + a * (1.0 + a / 3.0)) * np.exp(-a)


def borrowed_kernel(parameters: Hyperparameters, u: Floats, other: Floats) -> Floats:
    """Return the part [m, n] of the kernel from borrowed coordinates u [m, s] and others [n, s].

    Per coordinate a Matern kernel of their distance, with length 1, and their product.
    """
    k = np.zeros((len(u), len(other)))
    for i, (smooth, linear) in enumerate(parameters.borrowed):
        k += smooth * _matern(np.abs(u[:, None, i] - other[None, :, i]))
        k += linear * (u[:, None, i] * other[None, :, i])
    return k


def _matern(distances: Floats) -> Floats:
    a = ROOT_5 * distances
    return (1.0 + a * (1.0 + a / 3.0)) * np.exp(-a)


def gram(axes: Sequence[Axis], parameters: Hyperparameters, ids: Ints) -> Floats:
    """Return the kernel matrix [n, n] of level ids [n, d], without noise and borrowed parts."""
    n = len(ids)
    total = np.zeros((n, n))
    product = np.ones((n, n))
    for i, (axis, length) in enumerate(zip(axes, parameters.lengths, strict=True)):
        z = correlations(axis, length, axis.distances(ids[:, None, i], ids[None, :, i]))
        total += z
        product *= z
    return total * (parameters.main / max(len(axes), 1)) + product * parameters.product


JITTER = 1e-6
BOX = 4.0  # Half width of the box around the prior means, in logarithms

ROUNDED = 5  # Decimals of a learnt logarithm; rounding removes differences between processors

MOST_NOISE = 0.0  # Logarithm of the greatest noise variance: that of the standardised targets

MOST_LEARNT = 160  # Most runs that hyperparameters are learnt from

HOPELESS = 1e12  # Negative logarithm of the density where the kernel matrix cannot be factored


@dataclass(frozen=True, slots=True)
class Prior:
    """Normal priors on the logarithms of the hyperparameters."""

    ordinal: float = 0.8  # typical length of an ordinal axis
    nominal: float = 1.5  # typical length of a nominal axis
    main: float = 0.5  # typical variance of the main effects
    product: float = 0.5  # typical variance of the product
    noise: float = 1e-3  # typical variance of the noise
    borrowed: float = 0.5  # typical variance of both parts of all borrowed coordinates together
    spread: float = 1.0  # standard deviation of every logarithm but those of borrowed variances
    borrowed_spread: float = 2.0  # of those: whether an earlier sweep helps is not known

    def means(self, axes: Sequence[Axis], n_borrowed: int = 0) -> Floats:
        """Return the prior means of the log hyperparameters.

        Those of the lengths, main, product, two per borrowed coordinate, and noise.
        """
        lengths = [self.ordinal if axis.ordinal else self.nominal for axis in axes]
        borrowed = [self.borrowed / max(n_borrowed, 1)] * (2 * n_borrowed)
        means: Floats = np.log(np.array([*lengths, self.main, self.product, *borrowed, self.noise]))
        return means

    def spreads(self, axes: Sequence[Axis], n_borrowed: int = 0) -> Floats:
        """Return the prior standard deviations of the log hyperparameters, in that order."""
        spreads = np.full(len(axes) + 3 + 2 * n_borrowed, self.spread)
        spreads[len(axes) + 2 : -1] = self.borrowed_spread
        return spreads


def learn(
    axes: Sequence[Axis],
    ids: Ints,
    targets: Floats,
    prior: Prior,
    iterations: int,
    borrowed: Floats | None = None,
) -> Hyperparameters:
    """Return the maximum a posteriori hyperparameters for level ids and targets.

    The search starts at the prior means, so the result depends on the arguments alone: d axes,
    level ids [n, d], standardised targets [n], the most steps of L-BFGS-B, and the borrowed
    coordinates of the runs [n, s].
    """
    kinds = tuple((axis.ordinal, axis.position.tobytes()) for axis in axes)
    contiguous = np.ascontiguousarray(ids, dtype=np.int64)
    u = b"" if borrowed is None else np.ascontiguousarray(borrowed, dtype=np.float64).tobytes()
    return _learn(kinds, contiguous.tobytes(), targets.tobytes(), prior, iterations, u)


def n_learnt(n: int) -> int:
    """Return how many of n runs, the first ones, are used to fit the hyperparameters.

    All up to 40; then a multiple of 3, from 100 on of 8, and 160 at most: later runs change
    them little, and the result can be cached.
    """
    if n <= 40:
        return n
    return min(n - n % (3 if n <= 100 else 8), MOST_LEARNT)


@lru_cache(maxsize=64)
@single_blas_thread
def _learn(
    kinds: tuple[tuple[bool, bytes], ...],
    ids: bytes,
    targets: bytes,
    prior: Prior,
    iterations: int,
    borrowed: bytes,
) -> Hyperparameters:
    axes = [Axis(ordinal, np.frombuffer(position)) for ordinal, position in kinds]
    z = np.frombuffer(targets)
    level_ids = np.frombuffer(ids, dtype=np.int64).reshape(z.size, len(axes))
    u = np.frombuffer(borrowed).reshape(z.size, -1) if z.size else np.zeros((0, 0))
    mean = prior.means(axes, u.shape[1])
    if z.size > 1:
        optimum = minimize(
            _Density(axes, level_ids, z, mean, prior.spreads(axes, u.shape[1]), u).negative_log,
            mean,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(mean - BOX, np.append(mean[:-1] + BOX, MOST_NOISE), strict=True)),
            options={"maxiter": iterations},
        )
        mean = np.round(optimum.x, ROUNDED)
    values = [float(v) for v in np.exp(mean)]
    d = len(axes)
    pairs = tuple(zip(values[d + 2 : -1 : 2], values[d + 3 : -1 : 2], strict=True))
    return Hyperparameters(tuple(values[:d]), values[d], values[d + 1], values[-1], pairs)


class _Density:
    """The posterior density as a function of theta; pairs of runs are packed and computed once."""

    def __init__(
        self,
        axes: Sequence[Axis],
        ids: Ints,
        targets: Floats,
        mean: Floats,
        spread: float | Floats,
        borrowed: Floats | None = None,
    ) -> None:
        self._axes = axes
        self._targets = targets
        self._mean = mean
        self._spread = spread
        self._n = len(ids)
        self._rows, self._columns = np.triu_indices(self._n, 1)
        self._flat = self._rows * self._n + self._columns
        parts = [
            axis.coded_distances(ids[self._rows, i], ids[self._columns, i])
            for i, axis in enumerate(axes)
        ]
        sizes = [distances.size for distances, _ in parts]
        first = np.cumsum([0, *sizes])[:-1]
        # distances along all axes one after another, and their places by axis and pair
        self._distances = np.concatenate([np.zeros(0), *(distances for distances, _ in parts)])
        self._places = np.array(
            [place + start for (_, place), start in zip(parts, first, strict=True)], dtype=np.int64
        ).reshape(len(axes), self._rows.size)
        self._axis = np.repeat(np.arange(len(axes)), sizes)
        self._is_ordinal = np.array([axis.ordinal for axis in axes], dtype=np.bool_)
        # of each borrowed variance: its part of the kernel over pairs and on the diagonal
        self._borrowed: list[tuple[Floats, Floats]] = []
        for u in () if borrowed is None else borrowed.T:
            smooth = _matern(np.abs(u[self._rows] - u[self._columns]))
            self._borrowed += [
                (smooth, np.ones(self._n)),
                (u[self._rows] * u[self._columns], u * u),
            ]

    def negative_log(self, theta: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior density of `theta` and its gradient."""
        n, d = self._n, len(self._axes)
        lengths = np.exp(theta[:d])
        v1, v2, *borrowed, noise = (float(v) for v in np.exp(theta[d:]))
        z_at, slope_at, relative_at = self._correlations(lengths)
        z = z_at[self._places]
        mean_z = z.mean(axis=0) if d else np.ones(self._rows.size)
        product = z.prod(axis=0)
        packed = v1 * mean_z + v2 * product
        diagonal_k = np.full(n, v1 + v2 + noise + JITTER)
        for variance, (of_pairs, on_diagonal) in zip(borrowed, self._borrowed, strict=True):
            packed = packed + variance * of_pairs
            diagonal_k += variance * on_diagonal
        square = np.zeros(n * n)
        square[self._flat] = packed
        square[:: n + 1] = diagonal_k
        matrix = square.reshape(n, n).T  # the lower triangle in LAPACK's order
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
        if failed:
            return HOPELESS, np.zeros_like(theta)
        weights, _ = lapack.dpotrs(factor, self._targets, lower=1)
        value = 0.5 * float(self._targets @ weights) + float(np.log(np.diag(factor)).sum())
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # d/dt of the log likelihood is 0.5 tr((w w' - K^-1) dK/dt); pairs count twice
        pairs = weights[self._rows] * weights[self._columns] - inverse.T.ravel()[self._flat]
        each = weights * weights - np.diag(inverse)
        diagonal = 0.5 * float(weights @ weights - np.trace(inverse))
        gradient = np.empty_like(theta)
        if d:
            gradient[:d] = (v1 / d) * (slope_at[self._places] @ pairs)
            gradient[:d] += v2 * (relative_at[self._places] @ (pairs * product))
        gradient[d] = v1 * (float(pairs @ mean_z) + diagonal)
        gradient[d + 1] = v2 * (float(pairs @ product) + diagonal)
        for i, (variance, parts) in enumerate(zip(borrowed, self._borrowed, strict=True)):
            of_pairs, on_diagonal = parts
            gradient[d + 2 + i] = variance * float(pairs @ of_pairs + 0.5 * (each @ on_diagonal))
        gradient[-1] = noise * diagonal
        apart = (theta - self._mean) / self._spread
        value += 0.5 * float(apart @ apart)
        return value, apart / self._spread - gradient

    def _correlations(self, lengths: Floats) -> tuple[Floats, Floats, Floats]:
        """Return z, dz / d log length, and that over z at the distances.

        The last is 0 where z has vanished and its slope with it.
        """
        scale = np.where(self._is_ordinal, ROOT_5, 1.0) / lengths
        a = self._distances * scale[self._axis]
        decay = np.exp(-a)
        o = self._is_ordinal[self._axis]
        z = np.where(o, decay * (1.0 + a * (1.0 + a / 3.0)), decay)
        slope = np.where(o, a * decay * (a * (1.0 + a) / 3.0), a * decay)
        return z, slope, np.divide(slope, z, out=np.zeros_like(slope), where=z > 1e-300)


CHUNK = 1_024
"""Configurations that are predicted at once, so that their rows fit a processor's cache."""

LEAST_VARIANCE = 1e-12

Borrow: TypeAlias = Callable[[Ints], Floats]
"""Borrowed coordinates [m, s] of level ids [m, d], as of `strategies.gp.transfer`."""


@dataclass(frozen=True, slots=True, eq=False)
class _AxisCorrelations:
    """Sum and product of correlations with n runs over some of the axes."""

    code: Ints  # row of each configuration, [m]
    total: Floats  # [rows, n]
    product: Floats  # [rows, n]


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of a Gaussian process fitted to runs."""

    axes: tuple[Axis, ...]  # d axes
    hyperparameters: Hyperparameters  # hyperparameters of the kernel
    ids: Ints  # level ids of the runs [n, d]
    targets: Floats  # targets of the runs, [n] or one column for each of s fantasies [n, s]
    borrow: Borrow | None = None  # borrowed coordinates of level ids, where there are any

    @cached_property
    def borrowed(self) -> Floats | None:
        """Borrowed coordinates of the runs [n, s]; None without any."""
        return None if self.borrow is None else self.borrow(self.ids)

    def imagining(self, ids: Ints, targets: Floats) -> Posterior:
        """Return the posterior with other runs and targets, and the same hyperparameters."""
        return replace(self, ids=ids, targets=targets)

    @cached_property
    @single_blas_thread
    def factor(self) -> Floats:
        """Lower Cholesky factor of the kernel matrix with noise, [n, n]."""
        matrix = self._gram(self.ids)
        matrix.flat[:: len(matrix) + 1] += self.hyperparameters.noise + JITTER
        lower: Floats = cholesky(matrix, lower=True, check_finite=False)
        return lower

    @cached_property
    @single_blas_thread
    def weights(self) -> Floats:
        """Weights K^-1 z of the targets z, with the same shape as z."""
        solution: Floats = cho_solve((self.factor, True), self.targets, check_finite=False)
        return solution

    @single_blas_thread
    def predict(self, ids: Ints) -> tuple[Floats, Floats]:
        """Return noise-free means and standard deviations at level ids [m, d]."""
        first, second = self._halves(ids)
        mean = np.empty((len(ids), *self.targets.shape[1:]))
        variance = np.empty(len(ids))
        u = None if self.borrow is None else self.borrow(ids)
        for start in range(0, len(ids), CHUNK):
            part = slice(start, start + CHUNK)
            k = self._cross(first, second, part)
            if u is not None and self.borrowed is not None:
                k += borrowed_kernel(self.hyperparameters, u[part], self.borrowed)
            mean[part] = k @ self.weights
            variance[part] = self._explained(k)
        variance = self.hyperparameters.prior_variance - variance
        if u is not None:
            variance += (u * u) @ np.array([linear for _, linear in self.hyperparameters.borrowed])
        return mean, np.sqrt(np.maximum(variance, LEAST_VARIANCE))

    @cached_property
    def left_out(self) -> Floats:
        """Standardised leave-one-out errors of the runs, [n].

        Reference: Rasmussen & Williams 2006, equations 5.10-5.12.
        """
        errors: Floats = self.weights / np.sqrt(self._precision)
        return errors

    @cached_property
    def left_out_errors(self) -> Floats:
        """Leave-one-out errors of the runs on the scale of the targets, [n]."""
        errors: Floats = self.weights / self._precision
        return errors

    @cached_property
    def left_out_density(self) -> float:
        """Log predictive density of the runs, each left out, without its constant."""
        squares = self.left_out**2
        return float(0.5 * np.sum(np.log(self._precision) - squares))

    @cached_property
    @single_blas_thread
    def _precision(self) -> Floats:
        """Diagonal of the inverse of the kernel matrix with noise, [n]."""
        inverse = solve_triangular(
            self.factor, np.eye(len(self.ids)), lower=True, check_finite=False
        )
        precision: Floats = np.einsum("ij,ij->j", inverse, inverse)
        return precision

    @single_blas_thread
    def sample(self, ids: Ints, n: int, rng: np.random.Generator) -> Floats:
        """Draw n noisy joint results [m, n] of m pending runs with level ids [m, d]."""
        k = self._cross(*self._halves(ids), slice(None))
        if self.borrow is not None and self.borrowed is not None:
            k += borrowed_kernel(self.hyperparameters, self.borrow(ids), self.borrowed)
        half = solve_triangular(self.factor, k.T, lower=True, check_finite=False)
        covariance = self._gram(ids) - half.T @ half
        covariance.flat[:: len(ids) + 1] += self.hyperparameters.noise + JITTER
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        mean = (k @ self.weights).reshape(len(ids), -1)[:, :1]
        draws: Floats = mean + root @ rng.standard_normal((len(ids), n))
        return draws

    @single_blas_thread
    def averaged(self, fixed: Mapping[int, Ints], levels: Sequence[Ints]) -> tuple[Floats, Floats]:
        """Return mean and standard deviation [m] of the function averaged over axes not in `fixed`.

        Args:
            fixed: level ids [m] of the axes that are not averaged, by axis.
            levels: per axis, the level ids that an average runs over.
        """
        h, d = self.hyperparameters, max(len(self.axes), 1)
        total, product = np.zeros(len(self.ids)), np.ones(len(self.ids))
        own_total, own_product = float(len(fixed)), 1.0
        for i in range(len(self.axes)):
            if i not in fixed:
                z, self_correlation = self.mean_correlation(i, levels[i])
                total, product = total + z, product * z
                own_total, own_product = (
                    own_total + self_correlation,
                    own_product * self_correlation,
                )
        for i, ids in fixed.items():
            z = self.correlation(i, ids)
            total, product = total + z, product * z
        k = np.atleast_2d(h.main / d * total + h.product * product)
        prior = h.main / d * own_total + h.product * own_product
        variance = np.maximum(prior - self._explained(k), 0.0)
        return k @ self.weights, np.sqrt(variance)

    def correlation(self, i: int, ids: Ints) -> Floats:
        """Return correlations [m, n] of m levels of axis i with the levels of the n runs."""
        axis = self.axes[i]
        distances = axis.distances(ids[:, None], self.ids[:, i])
        return correlations(axis, self.hyperparameters.lengths[i], distances)

    def mean_correlation(self, i: int, ids: Ints) -> tuple[Floats, float]:
        """Return the mean correlation of levels of axis i with each run [n] and with each other."""
        key = i, ids.tobytes()
        if key not in self._mean_correlations:
            axis, length = self.axes[i], self.hyperparameters.lengths[i]
            self_correlations = correlations(axis, length, axis.distances(ids[:, None], ids))
            mean = self.correlation(i, ids).mean(axis=0)
            self._mean_correlations[key] = mean, float(self_correlations.mean())
        return self._mean_correlations[key]

    @cached_property
    def _mean_correlations(self) -> dict[tuple[int, bytes], tuple[Floats, float]]:
        return {}

    def _gram(self, ids: Ints) -> Floats:
        """Return the kernel matrix [m, m] of level ids without noise."""
        matrix = gram(self.axes, self.hyperparameters, ids)
        if self.borrow is not None:
            u = self.borrow(ids)
            matrix += borrowed_kernel(self.hyperparameters, u, u)
        return matrix

    def _explained(self, k: Floats) -> Floats:
        """Return k' K^-1 k for every row of k [m, n]."""
        half = solve_triangular(self.factor, k.T, lower=True, check_finite=False)
        variance: Floats = np.einsum("ij,ij->j", half, half)
        return variance

    def _cross(self, first: _AxisCorrelations, second: _AxisCorrelations, part: slice) -> Floats:
        """Return the kernel [m, n] of some configurations with the runs."""
        h, d = self.hyperparameters, max(len(self.axes), 1)
        k: Floats = first.product[first.code[part]]
        k *= second.product[second.code[part]]
        k *= h.product
        k += (h.main / d * first.total)[first.code[part]]
        k += (h.main / d * second.total)[second.code[part]]
        return k

    def _halves(self, ids: Ints) -> tuple[_AxisCorrelations, _AxisCorrelations]:
        """Split the axes in two, so that most configurations share each half with others."""
        sizes = [axis.position.size for axis in self.axes]
        middle = min(
            range(len(sizes) + 1), key=lambda i: max(math.prod(sizes[:i]), math.prod(sizes[i:]))
        )
        return self._half(ids, range(middle)), self._half(ids, range(middle, len(sizes)))

    def _half(self, ids: Ints, axes: range) -> _AxisCorrelations:
        columns = ids[:, axes.start : axes.stop]
        distinct, code = _distinct(columns, [self.axes[i].position.size for i in axes])
        total = np.zeros((len(distinct), len(self.ids)))
        product = np.ones_like(total)
        for column, i in enumerate(axes):
            level_ids, n_levels = distinct[:, column], self.axes[i].position.size
            if n_levels < len(level_ids):
                z = self.correlation(i, np.arange(n_levels))[level_ids]
            else:
                z = self.correlation(i, level_ids)
            total += z
            product *= z
        return _AxisCorrelations(code, total, product)


def _distinct(ids: Ints, sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Return the distinct rows of ids [m, d], and the index of each row among them.

    Where rows have no number, all of them: hardly two are equal, and sorting them takes longer.
    """
    if math.prod(sizes) >= 2**62:
        return ids, np.arange(len(ids))
    number = np.zeros(len(ids), dtype=np.int64)
    for i, size in enumerate(sizes):
        number *= size
        number += ids[:, i]
    _, first, which = np.unique(number, return_index=True, return_inverse=True)
    return ids[first], which


PRIOR = Prior(main=1 / 3, product=1 / 3, noise=0.05)
SOFTNESS = 0.15
ITERATIONS = 12
LEAST = 0.01


class Validity:
    """Gaussian process model of the probability that a run succeeds.

    It is fitted to level ids of the runs with a result [n, d], and of m failed ones [m, d], m >= 1;
    ``borrow`` gives coordinates from earlier sweeps.
    """

    def __init__(
        self, axes: Sequence[Axis], succeeded: Ints, failed: Ints, borrow: Borrow | None = None
    ) -> None:
        self._mean = 2.0 * (len(succeeded) + 1) / (len(succeeded) + len(failed) + 2) - 1.0
        few = [runs[: n_learnt(len(runs))] for runs in (succeeded, failed)]
        ids, labels = self._labelled(*few)
        u = None if borrow is None else borrow(ids)
        hyperparameters = learn(axes, ids, labels, PRIOR, ITERATIONS, u)
        labelled = self._labelled(succeeded, failed)
        self.posterior = Posterior(tuple(axes), hyperparameters, *labelled, borrow)

    def _labelled(self, succeeded: Ints, failed: Ints) -> tuple[Ints, Floats]:
        labels = np.concatenate([np.ones(len(succeeded)), -np.ones(len(failed))])
        return np.concatenate([succeeded, failed]), labels - self._mean

    def chance(self, ids: Ints) -> Floats:
        """Return the chance of success [m] of level ids [m, d]."""
        return self.chance_of(*self.posterior.predict(ids))

    def chance_of(self, mean: Floats, sd: Floats) -> Floats:
        """Return the chance of success for means and standard deviations of the posterior, [m]."""
        p = ndtr((mean + self._mean) / np.sqrt(SOFTNESS + sd * sd))
        chances: Floats = np.clip(p, LEAST, 1.0 - LEAST)
        return chances


MIDDLE, FAR = -1.0, -1e3
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)


def log_expected_improvement(mean: Floats, sd: Floats, best: float | Floats) -> Floats:
    """Return the log expected improvement over `best` for normal predictions, broadcast.

    With u = (mean - best) / sd it is log sd + log(u Phi(u) + phi(u)); below -1 as
    log phi(u) + log(1 + u Phi(u) / phi(u)), the ratio by the scaled complementary error function,
    and below -1000 by its limit log phi(u) - 2 log|u|.
    """
    u = (mean - best) / sd
    near = np.maximum(u, MIDDLE)
    log_density = -0.5 * u * u - _LOG_ROOT_2PI
    body = np.log(near * ndtr(near) + np.exp(-0.5 * near * near - _LOG_ROOT_2PI))
    middle = np.clip(u, FAR, MIDDLE)
    ratio = _ROOT_HALF_PI * erfcx(-middle / math.sqrt(2.0))
    tail = log_density + np.log1p(middle * ratio)
    limit = log_density - 2.0 * np.log(-np.minimum(u, FAR))
    improvement: Floats = np.where(u > MIDDLE, body, np.where(u > FAR, tail, limit)) + np.log(sd)
    return improvement
