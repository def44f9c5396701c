"""Laws of one positive number: the three that inter-arrival times are fitted with.

Parameters are those of `scipy.stats` under the same names, so that either side can check the other.
Sampling goes by blocks and needs NumPy only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]

_STEPS = 8_000
"""Of the grid on which a mean without a formula is integrated."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of laws on z = x / scale.

    Attributes:
        name: as `scipy.stats` calls it.
        shapes: names of its shape parameters, in order; all above 0.
        cdf: z and shapes to P(Z <= z).
        log_pdf: z and shapes to the logarithm of the density.
        quantile: u in (0, 1) and shapes to z.
    """

    name: str
    shapes: tuple[str, ...]
    cdf: Callable[..., Floats]
    log_pdf: Callable[..., Floats]
    quantile: Callable[..., Floats]


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


def _lognorm_cdf(z: Floats, s: float) -> Floats:
    from scipy.special import ndtr

    return np.asarray(ndtr(np.log(z) / s))


def _lognorm_log_pdf(z: Floats, s: float) -> Floats:
    log = np.log(z)
    return np.asarray(-0.5 * (log / s) ** 2 - log - math.log(s * math.sqrt(2 * math.pi)))


def _lognorm_quantile(u: Floats, s: float) -> Floats:
    from scipy.special import ndtri

    return np.asarray(np.exp(s * ndtri(u)))


def _pareto_cdf(z: Floats, b: float) -> Floats:
    return np.asarray(np.where(z < 1, 0.0, 1 - np.maximum(z, 1.0) ** -b))


def _pareto_log_pdf(z: Floats, b: float) -> Floats:
    return np.asarray(np.where(z < 1, -np.inf, math.log(b) - (b + 1) * np.log(np.maximum(z, 1.0))))


def _pareto_quantile(u: Floats, b: float) -> Floats:
    return np.asarray((1 - u) ** (-1 / b))


FAMILIES: tuple[Family, ...] = (
    Family("lognorm", ("s",), _lognorm_cdf, _lognorm_log_pdf, _lognorm_quantile),
    Family("exponweib", ("a", "c"), _exponweib_cdf, _exponweib_log_pdf, _exponweib_quantile),
    Family("pareto", ("b",), _pareto_cdf, _pareto_log_pdf, _pareto_quantile),
)


def family_named(name: str) -> Family:
    """Return a family.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for family in FAMILIES:
        if family.name == name:
            return family
    raise UnknownNameError("law", name, (family.name for family in FAMILIES))


@dataclass(frozen=True, slots=True)
class Law:
    """One law: a family, its shapes, and a scale in the unit of what it describes.

    Raises:
        UnknownNameError: no such family.
        SetupError: another number of shapes, or one that is not finite and above 0.
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
        if self.family == "lognorm":
            return np.asarray(self.scale * np.exp(self.shapes[0] * rng.standard_normal(n)))
        u = rng.random(n)
        u[u == 0] = 2.0**-54
        return np.asarray(self.scale * family_named(self.family).quantile(u, *self.shapes))

    def cdf(self, x: Floats) -> Floats:
        """Return P(X <= x) of every x; 0 for those that are not above 0."""
        x = np.asarray(x, dtype=float)
        inside = np.maximum(x / self.scale, 1e-300)
        return np.where(x > 0, family_named(self.family).cdf(inside, *self.shapes), 0.0)

    def pdf(self, x: Floats) -> Floats:
        """Return the density at every x above 0."""
        log = family_named(self.family).log_pdf(np.asarray(x) / self.scale, *self.shapes)
        return np.asarray(np.exp(log) / self.scale)

    def quantile(self, p: Floats) -> Floats:
        """Return the quantiles of probabilities strictly between 0 and 1."""
        z = family_named(self.family).quantile(np.asarray(p, dtype=float), *self.shapes)
        return np.asarray(self.scale * z)

    @property
    def mean(self) -> float:
        """The mean; infinite for a Pareto law with b <= 1."""
        if self.family == "lognorm":
            return self.scale * math.exp(self.shapes[0] ** 2 / 2)
        if self.family == "pareto":
            b = self.shapes[0]
            return self.scale * b / (b - 1) if b > 1 else math.inf
        return self.scale * _exponweib_mean(*self.shapes)

    def scaled(self, factor: float) -> "Law":
        """Return the law of `factor` times the number."""
        return Law(self.family, self.shapes, self.scale * factor)

    def told(self) -> dict[str, Any]:
        """Return the law as JSON says it."""
        return {"family": self.family, "shapes": list(self.shapes), "scale": self.scale}

    @staticmethod
    def read(told: dict[str, Any]) -> "Law":
        """Return the law that `told` was made of.

        Raises:
            SetupError: it is no law.
        """
        try:
            shapes = tuple(float(shape) for shape in told["shapes"])
            return Law(str(told["family"]), shapes, float(told["scale"]))
        except (KeyError, TypeError, ValueError) as error:
            raise SetupError(f"a law needs family, shapes and scale ({error!r}).") from None
