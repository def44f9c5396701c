"""Laws, mixtures and curves fitted to observations (section V-A of the PipeSim paper)."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.aiops.arrivals import CELLS, HOUR_S, Arrivals
from sim.aiops.curve import Curve
from sim.aiops.laws import FAMILIES, Law
from sim.aiops.mixture import Mixture
from sim.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]

LEAST_GAP_S = 0.5
"""What a gap of 0 s, in a log of whole seconds, is taken for."""

LEAST_PER_CELL = 30
"""Gaps that an hour of the week needs for a law of its own."""

COMPONENTS = 50
"""Of the mixture of data assets, as in the paper."""

MOST_PER_CELL = 4_000
MOST_FOR_MIXTURE = 40_000
"""Observations that a fit looks at, evenly picked in order of size if there are more."""

PUNCTUAL = 1e-3
"""Spread of the logarithms of gaps that are all alike."""

MOST_OFF = 1.5
"""Factor between the mean of a law and that of its data, from which on the law is left aside."""

_HISTOGRAM_BINS = 50
_LOG_SHAPE, _LOG_C = (-5.0, 6.0), (-3.0, 3.0)


def fit_law(family: str, gaps: Floats) -> Law:
    """Return the law of a family that makes the observations likeliest.

    Args:
        family: one of `lognorm`, `exponweib`, `pareto`.
        gaps: at least two, above 0.

    Raises:
        UnknownNameError: no such family.
        SetupError: too few, not above 0, or all alike.
    """
    x = np.sort(np.asarray(gaps, dtype=float))
    if len(x) < 2 or not np.all(np.isfinite(x)) or x[0] <= 0 or x[0] == x[-1]:
        raise SetupError("a law is fitted to two observations or more, above 0 and not all alike.")
    log = np.log(x)
    if family == "lognorm":
        return Law("lognorm", (float(log.std()),), math.exp(float(log.mean())))
    if family == "pareto":
        return Law("pareto", (1 / float(np.mean(log - log[0])),), float(x[0]))
    if family == "exponweib":
        return _fit_exponweib(log)
    raise UnknownNameError("law", family, (one.name for one in FAMILIES))


def _fit_exponweib(log: Floats) -> Law:
    """Maximise the likelihood over ln a, ln c, ln scale; from the Weibull law of its moments."""
    from scipy.optimize import minimize

    n = len(log)
    start_c = math.pi / math.sqrt(6) / float(log.std())
    start = (0.0, math.log(start_c), float(log.mean()) + 0.5772 / start_c)

    def minus_likelihood(told: Floats) -> tuple[float, Floats]:
        a, c, log_scale = math.exp(told[0]), math.exp(told[1]), told[2]
        log_z = log - log_scale
        y = np.exp(np.clip(c * log_z, -300.0, 300.0))
        below = np.log(-np.expm1(-y))
        slope = (a - 1) / np.expm1(np.minimum(y, 300.0)) - 1  # of the likelihood by y
        likely = n * (told[0] + told[1]) - float(np.sum(log))
        likely += float((a - 1) * below.sum() - y.sum() + c * log_z.sum())
        by_a = n + a * float(below.sum())
        by_c = n + float(np.sum(c * log_z) + np.sum(slope * y * c * log_z))
        by_scale = -n * c - c * float(np.sum(slope * y))
        return -likely / n, np.array([-by_a, -by_c, -by_scale]) / n

    wide = float(log.max() - log.min()) + 10.0
    bounds = [_LOG_SHAPE, _LOG_C, (float(log.min()) - wide, float(log.max()) + wide)]
    found = minimize(minus_likelihood, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return Law("exponweib", (math.exp(found[0]), math.exp(found[1])), math.exp(found[2]))


def sum_of_squares(law: Law, gaps: Floats) -> float:
    """Return the squared differences between the densities of data and law, summed over bins.

    The bins are equally wide and end where 1 percent of the data is beyond, since one far gap would
    otherwise leave all others in the first of them.
    """
    edges = np.linspace(float(np.min(gaps)), float(np.quantile(gaps, 0.99)), _HISTOGRAM_BINS + 1)
    if edges[0] == edges[-1]:
        return math.inf
    counts = np.histogram(gaps, edges)[0]
    off = counts / len(gaps) - np.diff(law.cdf(edges))
    return float(np.sum((off / np.diff(edges)) ** 2))


def best_law(gaps: Floats) -> Law:
    """Return the best by `sum_of_squares` of the three laws, each fitted by likelihood.

    One whose mean is far from that of the data is left aside: a Pareto law may fit the many short
    gaps best, and have so heavy a tail that nothing would ever arrive again.
    """
    mean = float(np.mean(gaps))
    laws = [fit_law(family.name, gaps) for family in FAMILIES]
    near = [law for law in laws if 1 / MOST_OFF < law.mean / mean < MOST_OFF]
    return min(near or laws[:1], key=lambda law: sum_of_squares(law, gaps))


def fit_arrivals(
    times_s: Floats, *, start_s: float = 0.0, least_per_cell: int = LEAST_PER_CELL
) -> Arrivals:
    """Fit arrivals: one law over all gaps, and the best of three for every hour of the week.

    A gap belongs to the hour in which it begins. An hour with too few gaps takes the law of the
    same hour over all days; if these are too few as well, the law over all gaps.

    Args:
        times_s: of arrival, in any order.
        start_s: seconds since Monday midnight at which time 0 lies.
        least_per_cell: gaps that a law of its own needs.

    Raises:
        SetupError: fewer than three arrivals, or all at one time.
    """
    times = np.sort(np.asarray(times_s, dtype=float))
    if len(times) < 3 or not np.all(np.isfinite(times)):
        raise SetupError("arrivals are fitted to three times or more, all of them finite.")
    gaps = np.maximum(np.diff(times), LEAST_GAP_S)
    if gaps.min() == gaps.max():  # by the clock
        everywhere = Law("lognorm", (PUNCTUAL,), float(gaps[0]))
    else:
        everywhere = fit_law("exponweib", _thinned(gaps, MOST_FOR_MIXTURE))
    cell = ((times[:-1] + start_s) // HOUR_S).astype(int) % CELLS
    of_cell = [_law_or_none(gaps[cell == one], least_per_cell) for one in range(CELLS)]
    missing = {one % 24 for one in range(CELLS) if of_cell[one] is None}
    of_hour = {hour: _law_or_none(gaps[cell % 24 == hour], least_per_cell) for hour in missing}
    cells = [law or of_hour[one % 24] or everywhere for one, law in enumerate(of_cell)]
    recorded = tuple((times - times[0]).tolist())
    return Arrivals(everywhere, tuple(cells), recorded)


def _law_or_none(gaps: Floats, least: int) -> Law | None:
    if len(gaps) < max(least, 2) or gaps.min() == gaps.max():
        return None
    return best_law(_thinned(gaps, MOST_PER_CELL))


def fit_mixture(
    values: Floats,
    *,
    components: int,
    seed: int = 0,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Mixture:
    """Fit a mixture of Gaussians with full covariances to logarithms.

    Args:
        values: float64 [n, d], above 0.
        components: at most; no more than one for every ten observations.
        seed: of where the search begins.
        bounds: lowest and highest per dimension; those of the data if not told.

    Raises:
        SetupError: fewer than two observations, or one that is not above 0.
    """
    from sklearn.mixture import GaussianMixture

    x = np.asarray(values, dtype=float)
    if x.ndim != 2 or len(x) < 2 or not np.all(np.isfinite(x)) or x.min() <= 0:
        raise SetupError("a mixture is fitted to two observations or more, all above 0.")
    lowest, highest = bounds if bounds is not None else (x.min(axis=0), x.max(axis=0))
    learnt = np.log(x[np.argsort(x[:, 0], kind="stable")])
    learnt = learnt[_even(len(learnt), MOST_FOR_MIXTURE)]
    model = GaussianMixture(
        n_components=max(1, min(components, len(x) // 10)),
        covariance_type="full",
        random_state=seed,
        reg_covar=1e-4,
        max_iter=300,
    )
    model.fit(learnt)
    return Mixture(
        model.weights_, model.means_, model.covariances_, np.asarray(lowest), np.asarray(highest)
    )


def fit_curve(cells: Floats, seconds: Floats) -> Curve:
    """Fit a b^x + c on x = ln(cells) by least squares, and a lognormal law to what is left.

    What is left above the curve's rising part is lognormal from some place on; the place c is
    found from the middle of that law being the geometric mean of any two opposite quantiles.

    Raises:
        SetupError: fewer than ten observations, or one that is not above 0.
    """
    from scipy.optimize import least_squares

    x, y = np.log(np.asarray(cells, dtype=float)), np.asarray(seconds, dtype=float)
    if len(x) < 10 or len(x) != len(y) or not np.all(np.isfinite(x)) or not np.all(y > 0):
        raise SetupError("a curve is fitted to ten observations or more, all above 0.")
    middle = float(x.mean())
    rise = max(float(np.quantile(y, 0.9) - np.quantile(y, 0.1)), 1e-6)

    def off(told: Floats) -> Floats:
        return np.asarray(math.exp(told[0]) * np.exp(told[1] * (x - middle)) + told[2] - y)

    start = (math.log(rise / 2), 0.3, float(np.quantile(y, 0.1)))
    found = least_squares(
        off, start, loss="soft_l1", f_scale=max(rise / 5, 1e-6),
        bounds=([-60.0, -5.0, -np.inf], [60.0, 5.0, np.inf]),
    ).x  # fmt: skip
    left = y - np.exp(found[0] + found[1] * (x - middle))
    c = _floor_of(left)
    noise = fit_law("lognorm", np.maximum(left - c, 1e-6))
    a = math.exp(found[0] - found[1] * middle)
    return Curve(a, math.exp(found[1]), max(c, 0.0), noise)


def _floor_of(left: Floats) -> float:
    q = np.quantile(left, (0.02, 0.5, 0.98))
    below, above = float(q[0]), float(q[2])
    middle = float(q[1])
    bent = below + above - 2 * middle
    least = max(float(left.min()) - 1e-3 * (above - below), 0.0)
    if bent <= 0:
        return 0.0
    return float(min(max((below * above - middle * middle) / bent, 0.0), least))


def _thinned(x: Floats, most: int) -> Floats:
    return np.asarray(np.sort(x)[_even(len(x), most)])


def _even(n: int, most: int) -> NDArray[np.intp]:
    if n <= most:
        return np.arange(n)
    return np.linspace(0, n - 1, most).astype(np.intp)
