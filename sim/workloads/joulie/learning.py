"""What was learnt, with intervals: shares, lognormal laws with clamps, means."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.workloads.joulie.parameters import Law

Floats = NDArray[np.float64]

Z = 1.959963984540054
"""Of a normal variable, 95 % lie within so many standard deviations."""

CLAMP_TIES = 3
"""An extreme that occurs so often, or more often, is a clamp and not a value."""

LARGEST_SIGMA = 10.0


@dataclass(frozen=True)
class Learnt:
    """A number of a model that data changed.

    Attributes:
        parameter: its place in the model, such as ``families.debug_eval.duration_sec.median``.
        before: what it was.
        after: what it is.
        low: from here, at 95 %; None if no interval can be had.
        high: to here.
        n: rows or units that it rests on.
    """

    parameter: str
    before: float
    after: float
    low: float | None
    high: float | None
    n: int


def share_of(parameter: str, before: float, hits: float, n: int) -> Learnt:
    """Return a share with Wilson's interval (1927)."""
    share = hits / n
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return Learnt(
        parameter, before, share, min(max(middle - half, 0.0), share), max(middle + half, share), n
    )


def mean_of(parameter: str, before: float, values: Floats) -> Learnt:
    """Return a mean with its normal interval; two values or more."""
    mean = float(values.mean())
    half = Z * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Learnt(parameter, before, mean, mean - half, mean + half, len(values))


@dataclass(frozen=True)
class LawFit:
    """A lognormal law with clamps, as likely as can be, and how sure that is.

    Attributes:
        law: the law.
        median_low: of the interval of the median at 95 %; so the others.
        n: values.
    """

    law: Law
    median_low: float
    median_high: float
    sigma_low: float
    sigma_high: float
    n: int

    def learnt(self, parameter: str, before: Law) -> tuple[Learnt, ...]:
        """Return the four numbers of the law as rows of a table."""
        law = self.law
        return (
            Learnt(
                f"{parameter}.median", before.median, law.median, self.median_low, self.median_high,
                self.n,
            ),
            Learnt(
                f"{parameter}.sigma", before.sigma, law.sigma, self.sigma_low, self.sigma_high,
                self.n,
            ),
            Learnt(f"{parameter}.least", before.least, law.least, None, None, self.n),
            Learnt(f"{parameter}.most", before.most, law.most, None, None, self.n),
        )  # fmt: skip


def fit_law(
    values: Floats, prior: Law, *, factor: Floats | float = 1.0, half: Floats | float = 0.0
) -> LawFit | None:
    """Fit a clamped lognormal law by maximum likelihood.

    Values at a clamp are known only to lie beyond it (Tobin 1958). The clamps are those of the
    prior, unless values lie beyond them or pile up at another extreme.

    Args:
        values: float64 [n], above 0.
        prior: says where clamps may be.
        factor: of each value on the law's median, known, applied before the clamps.
        half: values are rounded, and were up to so much less or more; 0 is not rounded.

    Returns:
        None if the values do not tell a spread, or no maximum is found.
    """
    from scipy import optimize  # as slow to import as all the rest of `sim.api` together

    if len(values) < 2 or np.ptp(values) == 0:
        return None
    wide = np.broadcast_to(half, values.shape)
    least, most = _clamps(values, wide, prior)
    shift = np.broadcast_to(np.log(factor), values.shape)
    unlikely = _unlikeliness(values, wide, shift, least, most)
    logs = np.log(values) - shift
    start = np.array([logs.mean(), math.log(max(float(logs.std()), 1e-3))])
    best = optimize.minimize(
        unlikely, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-7}
    )
    mu, log_sigma = float(best.x[0]), float(best.x[1])
    curvature = _curvature(unlikely, np.array([mu, log_sigma]))
    is_peak = curvature[0, 0] > 0 and np.linalg.det(curvature) > 0
    if not (best.success and is_peak and math.exp(log_sigma) <= LARGEST_SIGMA):
        return None
    of_mu, of_sigma = (Z * np.sqrt(np.diag(np.linalg.inv(curvature)))).tolist()
    return LawFit(
        Law(math.exp(mu), math.exp(log_sigma), least, most),
        math.exp(mu - of_mu),
        math.exp(mu + of_mu),
        math.exp(log_sigma - of_sigma),
        math.exp(log_sigma + of_sigma),
        len(values),
    )


def _unlikeliness(
    values: Floats, half: Floats, shift: Floats, least: float, most: float
) -> Callable[[Floats], float]:
    """Return minus the log-likelihood as a function of mu and the logarithm of sigma.

    What is known of a value is that it is it, or that it lies between two bounds: those of its
    rounding, of which one at or beyond a clamp is none.
    """
    low, high = values - half, values + half
    is_known = (half == 0) & (values > least) & (values < most)
    bounds = np.stack(
        [
            np.where(low > least, np.log(np.maximum(low, 1e-300)) - shift, -np.inf),
            np.where(high < most, np.log(high) - shift, np.inf),
        ]
    )[:, ~is_known]
    (lower, upper), counts = np.unique(bounds, axis=1, return_counts=True)
    known = np.log(values[is_known]) - shift[is_known]
    n = len(known)
    mean, square = (float(known.mean()), float(known.var())) if n else (0.0, 0.0)

    def unlikely(told: Floats) -> float:
        mu, sigma = float(told[0]), math.exp(float(told[1]))
        found = -n * math.log(sigma) - n * (square + (mean - mu) ** 2) / (2 * sigma**2)
        found += float((counts * _log_between((lower - mu) / sigma, (upper - mu) / sigma)).sum())
        return -found

    return unlikely


def _log_between(low: Floats, high: Floats) -> Floats:
    """Return the logarithm of the chance that a standard normal variable lies between bounds."""
    from scipy.special import log_ndtr

    flip = low > 0  # where both are above the middle, the other tail has the digits
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(high), log_ndtr(low)
    return top + np.log1p(-np.exp(np.minimum(bottom - top, -1e-12)))


def _clamps(values: Floats, half: Floats, prior: Law) -> tuple[float, float]:
    """Return the clamps; what is rounded piles up everywhere, and moves them only from beyond."""
    smallest, largest = float((values + half).min()), float((values - half).max())
    exact = not half.any()
    piled = [exact and int((values == end).sum()) >= CLAMP_TIES for end in (smallest, largest)]
    least = smallest if piled[0] or smallest < prior.least else prior.least
    most = largest if piled[1] or largest > prior.most else prior.most
    return least, most


def _curvature(f: Callable[[Floats], float], at: Floats) -> Floats:
    """Return the second derivatives of a function of two numbers, by central differences."""
    step = 1e-4
    made = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            a, b = np.eye(2)[i] * step, np.eye(2)[j] * step
            made[i, j] = (f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)) / (
                4 * step * step
            )
    return made
