"""Distributions of positive numbers: gaps, preprocessing times, durations and data sizes.

Inter-arrival times have one of three families, with the parameters and names of `scipy.stats`;
sampling goes by blocks and needs NumPy only. Preprocessing times are an exponential curve of the
data size plus a lognormal tail. Durations, rows, columns and bytes are Gaussian mixtures of
logarithms.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import SetupError, entry_named

Floats = NDArray[np.float64]


_STEPS = 8_000  # points of the grid for means without a formula


Fitted = tuple[tuple[float, ...], float]
"""Shapes and scale of a fitted distribution."""


@dataclass(frozen=True, slots=True)
class DistributionFamily:
    """A family of probability distributions of a positive number, as functions of x / scale.

    Attributes:
        shapes: names of the shape parameters, in order; all above 0.
        cdf: function of z and the shapes that returns P(Z <= z).
        log_pdf: function of z and the shapes that returns the logarithm of the density.
        quantile: function of u in (0, 1) and the shapes that returns z.
        mean: function of the shapes that returns the mean of z, which may be infinite.
        fit: function of rising observations above 0, not all equal, that returns the shapes and the
            scale of greatest likelihood.
        draw: function of a generator, a number and the shapes that returns draws of z; None inverts
            uniform numbers.
    """

    name: str
    shapes: tuple[str, ...]
    cdf: Callable[..., Floats]
    log_pdf: Callable[..., Floats]
    quantile: Callable[..., Floats]
    mean: Callable[..., float]
    fit: Callable[[Floats], Fitted]
    draw: Callable[..., Floats] | None = None


def _exponweib_cdf(z: Floats, a: float, c: float) -> Floats:
    return np.asarray((-np.expm1(-(z**c))) ** a)


def _exponweib_log_pdf(z: Floats, a: float, c: float) -> Floats:
    y = np.maximum(z**c, 1e-300)
    below = np.log(-np.expm1(-y))
    return np.asarray(math.log(a * c) + (a - 1) * below - y + (c - 1) * np.log(z))


def _exponweib_quantile(u: Floats, a: float, c: float) -> Floats:
    return np.asarray((-np.log1p(-(u ** (1 / a)))) ** (1 / c))


@lru_cache(maxsize=4096)
def _exponweib_mean(a: float, c: float) -> float:
    """Return the mean of z: the integral of P(Z > z) dz, with dz = z dlog z."""
    log_z = np.linspace(-40.0, 40.0, _STEPS)
    z = np.exp(log_z)
    with np.errstate(over="ignore"):
        above = 1 - _exponweib_cdf(z, a, c)
    return float(np.trapezoid(above * z, log_z))


def _exponweib_fit(x: Floats) -> Fitted:
    """Maximise the likelihood over ln a, ln c, ln scale, from the Weibull fit of the moments."""
    from scipy.optimize import minimize

    log = np.log(x)
    n = len(log)
    start_c = math.pi / math.sqrt(6) / float(log.std())
    start = (0.0, math.log(start_c), float(log.mean()) + 0.5772 / start_c)

    def minus_likelihood(log_parameters: Floats) -> tuple[float, Floats]:
        a, c, log_scale = (
            math.exp(log_parameters[0]),
            math.exp(log_parameters[1]),
            log_parameters[2],
        )
        log_z = log - log_scale
        y = np.exp(np.clip(c * log_z, -300.0, 300.0))
        below = np.log(-np.expm1(-y))
        slope = (a - 1) / np.expm1(np.minimum(y, 300.0)) - 1  # derivative of the likelihood by y
        likely = n * (log_parameters[0] + log_parameters[1]) - float(np.sum(log))
        likely += float((a - 1) * below.sum() - y.sum() + c * log_z.sum())
        by_a = n + a * float(below.sum())
        by_c = n + float(np.sum(c * log_z) + np.sum(slope * y * c * log_z))
        by_scale = -n * c - c * float(np.sum(slope * y))
        return -likely / n, np.array([-by_a, -by_c, -by_scale]) / n

    wide = float(log.max() - log.min()) + 10.0
    bounds = [(-5.0, 6.0), (-3.0, 3.0), (float(log.min()) - wide, float(log.max()) + wide)]
    optimum = minimize(minus_likelihood, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return (math.exp(optimum[0]), math.exp(optimum[1])), math.exp(optimum[2])


def _lognorm_cdf(z: Floats, s: float) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(np.log(z) / s))


def _lognorm_log_pdf(z: Floats, s: float) -> Floats:
    log = np.log(z)
    return np.asarray(-0.5 * (log / s) ** 2 - log - math.log(s * math.sqrt(2 * math.pi)))


def _lognorm_quantile(u: Floats, s: float) -> Floats:
    from scipy.special import ndtri

    return np.asarray(np.exp(s * ndtri(u)))


def _lognorm_fit(x: Floats) -> Fitted:
    log = np.log(x)
    return (float(log.std()),), math.exp(float(log.mean()))


def _pareto_cdf(z: Floats, b: float) -> Floats:
    return np.asarray(np.where(z < 1, 0.0, 1 - np.maximum(z, 1.0) ** -b))


def _pareto_log_pdf(z: Floats, b: float) -> Floats:
    return np.asarray(np.where(z < 1, -np.inf, math.log(b) - (b + 1) * np.log(np.maximum(z, 1.0))))


def _pareto_quantile(u: Floats, b: float) -> Floats:
    return np.asarray((1 - u) ** (-1 / b))


def _pareto_fit(x: Floats) -> Fitted:
    log = np.log(x)
    return (1 / float(np.mean(log - log[0])),), float(x[0])


FAMILIES: tuple[DistributionFamily, ...] = (
    DistributionFamily(
        "lognorm", ("s",), _lognorm_cdf, _lognorm_log_pdf, _lognorm_quantile,
        mean=lambda s: math.exp(s**2 / 2), fit=_lognorm_fit,
        draw=lambda rng, n, s: np.exp(s * rng.standard_normal(n)),
    ),
    DistributionFamily(
        "exponweib", ("a", "c"), _exponweib_cdf, _exponweib_log_pdf, _exponweib_quantile,
        mean=_exponweib_mean, fit=_exponweib_fit,
    ),
    DistributionFamily(
        "pareto", ("b",), _pareto_cdf, _pareto_log_pdf, _pareto_quantile,
        mean=lambda b: b / (b - 1) if b > 1 else math.inf, fit=_pareto_fit,
    ),
)  # fmt: skip


def family_named(name: str) -> DistributionFamily:
    """Return the family of distributions with this name, or raise `UnknownNameError`."""
    return entry_named("law", name, FAMILIES)


@dataclass(frozen=True, slots=True)
class PositiveDistribution:
    """A distribution of a positive number: family, shape parameters, and scale in its unit.

    Raises:
        UnknownNameError: no such family.
        SetupError: a wrong number of shapes, or one that is not finite and above 0.
    """

    family: str
    shapes: tuple[float, ...]
    scale: float

    def __post_init__(self) -> None:
        names = family_named(self.family).shapes
        if len(self.shapes) != len(names):
            raise SetupError(
                f"law '{self.family}' has {len(self.shapes)} shapes; it takes {', '.join(names)}."
            )
        for name, value in (*zip(names, self.shapes, strict=True), ("scale", self.scale)):
            if not (math.isfinite(value) and value > 0):
                raise SetupError(
                    f"{name} of law '{self.family}' is {value!r}; allowed are numbers above 0."
                )

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """Return `n` independent draws."""
        family = family_named(self.family)
        if family.draw is not None:
            return np.asarray(self.scale * family.draw(rng, n, *self.shapes))
        u = rng.random(n)
        u[u == 0] = 2.0**-54
        return np.asarray(self.scale * family.quantile(u, *self.shapes))

    def cdf(self, x: Floats) -> Floats:
        """Return P(X <= x) for every x, with 0 for x <= 0."""
        x = np.asarray(x, dtype=float)
        inside = np.maximum(x / self.scale, 1e-300)
        return np.where(x > 0, family_named(self.family).cdf(inside, *self.shapes), 0.0)

    def pdf(self, x: Floats) -> Floats:
        """Return the probability density at every x > 0."""
        log = family_named(self.family).log_pdf(np.asarray(x) / self.scale, *self.shapes)
        return np.asarray(np.exp(log) / self.scale)

    def quantile(self, p: Floats) -> Floats:
        """Return the quantiles of probabilities strictly between 0 and 1."""
        z = family_named(self.family).quantile(np.asarray(p, dtype=float), *self.shapes)
        return np.asarray(self.scale * z)

    @property
    def mean(self) -> float:
        """Mean of the distribution; infinite for a Pareto distribution with shape b <= 1."""
        return self.scale * family_named(self.family).mean(*self.shapes)

    def scaled(self, factor: float) -> "PositiveDistribution":
        """Return the distribution of the random variable multiplied by `factor`."""
        return PositiveDistribution(self.family, self.shapes, self.scale * factor)

    def to_dict(self) -> dict[str, Any]:
        """Return the distribution as a JSON object."""
        return {"family": self.family, "shapes": list(self.shapes), "scale": self.scale}

    @staticmethod
    def read(parameters: dict[str, Any]) -> "PositiveDistribution":
        """Read a distribution from the object that `to_dict` returns.

        Raises:
            SetupError: the object does not describe a distribution.
        """
        try:
            shapes = tuple(float(shape) for shape in parameters["shapes"])
            return PositiveDistribution(
                str(parameters["family"]), shapes, float(parameters["scale"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SetupError(f"a law needs family, shapes and scale ({error!r}).") from None


@dataclass(frozen=True, slots=True)
class PreprocessingCurve:
    """Preprocessing seconds f(x) = a b^x + c with x = ln(rows x columns), plus lognormal noise.

    The constant c includes the smallest noise: a fit cannot separate the two.

    Attributes:
        a: seconds, above 0.
        b: above 0; above 1 if more data take longer.
        c: seconds, from 0.
        noise: lognormal, in seconds.

    Raises:
        SetupError: a number out of range, or a noise of another family.
    """

    a: float
    b: float
    c: float
    noise: PositiveDistribution

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) for value in (self.a, self.b, self.c)):
            raise SetupError("a, b and c of a curve must be finite numbers.")
        if self.a <= 0 or self.b <= 0 or self.c < 0:
            raise SetupError("a and b of a curve must be above 0, and c at least 0.")
        if self.noise.family != "lognorm":
            raise SetupError(f"the noise of a curve must be 'lognorm', not '{self.noise.family}'.")

    def expected(self, cells: Floats) -> Floats:
        """Return f without noise, in seconds, for data sets with these numbers of cells."""
        return np.asarray(self.a * self.b ** np.log(cells) + self.c)

    def sample(self, rng: np.random.Generator, cells: Floats) -> Floats:
        """Draw the preprocessing seconds of data sets with these numbers of cells."""
        return self.expected(cells) + self.noise.sample(rng, len(cells))

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as a JSON object."""
        return {"a": self.a, "b": self.b, "c": self.c, "noise": self.noise.to_dict()}

    @staticmethod
    def read(parameters: dict[str, Any]) -> "PreprocessingCurve":
        """Read a curve from the object that `to_dict` returns.

        Raises:
            SetupError: the object does not describe a curve.
        """
        try:
            a, b, c = (float(parameters[name]) for name in "abc")
            return PreprocessingCurve(a, b, c, PositiveDistribution.read(parameters["noise"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SetupError(f"a curve needs a, b, c and noise ({error!r}).") from None


MOST_ROUNDS = 200  # limit on repeated draws of values out of bounds


@dataclass(frozen=True, eq=False)
class Mixture:
    """A Gaussian mixture over the logarithms of d positive numbers, truncated at bounds.

    Attributes:
        weights: float64 [k], summing to 1.
        means: float64 [k, d], of logarithms.
        covariances: float64 [k, d, d], of logarithms; positive definite.
        lowest, highest: float64 [d], bounds of the numbers themselves; draws outside are repeated.

    Raises:
        SetupError: shapes that do not fit, weights that do not sum to 1, an invalid covariance, or
            bounds that are not above 0 and in order.
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
                "the arrays of a mixture must have the shapes [k], [k, d], [k, d, d], [d], [d]."
            )
        if self.weights.min() < 0 or abs(self.weights.sum() - 1) > 1e-6:
            raise SetupError("the weights of a mixture must be at least 0 and sum to 1.")
        if not (np.all(self.lowest > 0) and np.all(self.lowest <= self.highest)):
            raise SetupError("bounds of a mixture must be above 0, the lowest below the highest.")
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
        """Number d of the positive numbers that one draw contains."""
        return int(self.means.shape[1])

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """Return `n` draws, float64 [n, d], and redraw those outside the bounds.

        Raises:
            SetupError: almost no draw falls within the bounds.
        """
        draws = self._free(rng, n)
        for _ in range(MOST_ROUNDS):
            outside = np.flatnonzero(np.any((draws < self.lowest) | (draws > self.highest), axis=1))
            if not len(outside):
                return draws
            draws[outside] = self._free(rng, len(outside))
        raise SetupError("almost no draws of a mixture lie within its bounds; widen them.")

    def _free(self, rng: np.random.Generator, n: int) -> Floats:
        which = np.minimum(
            np.searchsorted(self._until, rng.random(n), side="right"), len(self.weights) - 1
        )
        normal = rng.standard_normal((n, self.dimensions))
        log = self.means[which] + np.einsum("nij,nj->ni", self._roots[which], normal)
        return np.asarray(np.exp(log))

    def median(self) -> float:
        """Return the median of a one-dimensional mixture, ignoring its bounds."""
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
        """Return this one-dimensional mixture, rescaled so that its median is `median`."""
        shift = math.log(median / self.median())
        return Mixture(
            self.weights, self.means + shift, self.covariances, self.lowest, self.highest
        )


def mixture_of(
    parts: Sequence[tuple[float, float, float]], lowest: float, highest: float
) -> Mixture:
    """Return a one-dimensional lognormal mixture, truncated at two bounds.

    Args:
        parts: weight, median and standard deviation of the logarithm, of each part.
        lowest: lower bound.
        highest: upper bound.
    """
    weights, medians, spreads = np.array(parts, dtype=float).T
    return Mixture(
        weights / weights.sum(),
        np.log(medians)[:, None],
        (spreads**2)[:, None, None],
        np.array([lowest]),
        np.array([highest]),
    )
