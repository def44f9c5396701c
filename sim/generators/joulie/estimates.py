"""Estimates with intervals for a Joulie model: shares, clamped lognormals, means and arrivals.

Arrivals are a rate, a multiplier for every hour of the day, and bursts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.generators.joulie.parameters import ClampedLognormal, JoulieParameters
from sim.metrics.wall_clock import DAY_S, WallClock
from sim.model.errors import WorkloadError
from sim.model.workload import Workload

Floats = NDArray[np.float64]


Z = 1.959963984540054  # 95 % quantile of |x| for a standard normal x

CLAMP_TIES = 3  # number of equal extremes from which on they are a clamp

LARGEST_SIGMA = 10.0


@dataclass(frozen=True)
class ParameterEstimate:
    """An estimate of a model parameter: values before and after the fit, and 95 % interval.

    Attributes:
        parameter: path in the model, such as ``families.debug_eval.duration_sec.median``.
        before, after: value before and after the fit.
        low, high: 95 % interval; None if unknown.
    """

    parameter: str
    before: float
    after: float
    low: float | None
    high: float | None
    n: int


def share_of(parameter: str, before: float, hits: float, n: int) -> ParameterEstimate:
    """Estimate a share from `hits` of `n`, with Wilson's 95 % interval (1927)."""
    share = hits / n
    middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return ParameterEstimate(
        parameter, before, share, min(max(middle - half, 0.0), share), max(middle + half, share), n
    )


def mean_of(parameter: str, before: float, values: Floats) -> ParameterEstimate:
    """Estimate a mean with its 95 % normal interval, from at least two values."""
    mean = float(values.mean())
    half = Z * float(values.std(ddof=1)) / math.sqrt(len(values))
    return ParameterEstimate(parameter, before, mean, mean - half, mean + half, len(values))


@dataclass(frozen=True)
class LawFit:
    """A fitted clamped lognormal distribution, with 95 % intervals of median and sigma."""

    law: ClampedLognormal
    median_low: float
    median_high: float
    sigma_low: float
    sigma_high: float
    n: int

    def learnt(self, parameter: str, before: ClampedLognormal) -> tuple[ParameterEstimate, ...]:
        """Return the fitted median, sigma and both clamps as estimates of the parameter."""
        law = self.law
        return (
            ParameterEstimate(
                f"{parameter}.median", before.median, law.median, self.median_low, self.median_high,
                self.n,
            ),
            ParameterEstimate(
                f"{parameter}.sigma", before.sigma, law.sigma, self.sigma_low, self.sigma_high,
                self.n,
            ),
            ParameterEstimate(f"{parameter}.least", before.least, law.least, None, None, self.n),
            ParameterEstimate(f"{parameter}.most", before.most, law.most, None, None, self.n),
        )  # fmt: skip


def fit_law(
    values: Floats,
    prior: ClampedLognormal,
    *,
    factor: Floats | float = 1.0,
    half: Floats | float = 0.0,
) -> LawFit | None:
    """Fit a clamped lognormal distribution to values by maximum likelihood.

    Values at a clamp are known only to lie beyond it (Tobin 1958). The clamps are those of the
    prior, unless values lie beyond them or pile up at another extreme.

    Args:
        values: float64 [n], above 0.
        prior: distribution with the usual clamps.
        factor: known factor of each value on the median, before the clamps.
        half: largest rounding error of the values; 0 is not rounded.

    Returns:
        None if the values have no spread, or no maximum is found.
    """
    from scipy import optimize  # slow to import

    if len(values) < 2 or np.ptp(values) == 0:
        return None
    wide = np.broadcast_to(half, values.shape)
    least, most = _clamps(values, wide, prior)
    shift = np.broadcast_to(np.log(factor), values.shape)
    unlikely = _negative_log_likelihood(values, wide, shift, least, most)
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
        ClampedLognormal(math.exp(mu), math.exp(log_sigma), least, most),
        math.exp(mu - of_mu),
        math.exp(mu + of_mu),
        math.exp(log_sigma - of_sigma),
        math.exp(log_sigma + of_sigma),
        len(values),
    )


def _negative_log_likelihood(
    values: Floats, half: Floats, shift: Floats, least: float, most: float
) -> Callable[[Floats], float]:
    """Return minus the log-likelihood as a function of mu and the logarithm of sigma.

    A value is known exactly or between the bounds of its rounding; a bound at or beyond a clamp
    does not count.
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
    log_values = np.log(values[is_known]) - shift[is_known]
    n = len(log_values)
    mean, square = (float(log_values.mean()), float(log_values.var())) if n else (0.0, 0.0)

    def unlikely(point: Floats) -> float:
        mu, sigma = float(point[0]), math.exp(float(point[1]))
        log_likelihood = -n * math.log(sigma) - n * (square + (mean - mu) ** 2) / (2 * sigma**2)
        log_likelihood += float(
            (counts * _log_between((lower - mu) / sigma, (upper - mu) / sigma)).sum()
        )
        return -log_likelihood

    return unlikely


def _log_between(low: Floats, high: Floats) -> Floats:
    from scipy.special import log_ndtr

    flip = low > 0  # where both are above the middle, the other tail has the digits
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    top, bottom = log_ndtr(high), log_ndtr(low)
    return top + np.log1p(-np.exp(np.minimum(bottom - top, -1e-12)))


def _clamps(values: Floats, half: Floats, prior: ClampedLognormal) -> tuple[float, float]:
    """Return the clamps; rounded values pile up everywhere, and move clamps only from beyond."""
    smallest, largest = float((values + half).min()), float((values - half).max())
    exact = not half.any()
    piled = [exact and int((values == end).sum()) >= CLAMP_TIES for end in (smallest, largest)]
    least = smallest if piled[0] or smallest < prior.least else prior.least
    most = largest if piled[1] or largest > prior.most else prior.most
    return least, most


def _curvature(f: Callable[[Floats], float], at: Floats) -> Floats:
    step = 1e-4
    hessian = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            a, b = np.eye(2)[i] * step, np.eye(2)[j] * step
            hessian[i, j] = (f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)) / (
                4 * step * step
            )
    return hessian


HOURS, HOUR_S = 24, 3600.0
MOST_DAYS = 36_600
LEAST_DAYS = 2.0  # for hourly multipliers

LEAST_BURST_DAYS = 14  # whole days, for bursts

BURST_DIVISOR = 16.0
"""Divisor of `burst_mean_jobs` before it is added to the multiplier (the program's rule)."""

ROUNDS = 200


@dataclass(frozen=True)
class ArrivalFit:
    """Fitted arrival parameters of a log, with notes and the dispersion of hourly counts.

    Attributes:
        unchanged_notes: sentences on parameters that stay as published, with reasons.
        dispersion: Pearson's chi squared of hourly counts by its degrees of freedom, given the
            hours of the day, and without the burst hours if there are bursts; 1 is Poisson. NaN
            without hours.
    """

    parameters: dict[str, object]
    learnt: tuple[ParameterEstimate, ...]
    unchanged_notes: tuple[str, ...]
    dispersion: float


def fit_arrivals(workload: Workload, prior: JoulieParameters) -> ArrivalFit:
    """Fit the parameters of a Joulie model's arrivals to a workload.

    The multipliers average to 1 over the day, so that `mean_inter_arrival_sec` is that of a whole
    day. If the start of a log is unknown, its hours are not those of a day: the multipliers stay,
    and the mean is that at multiplier 1. Intervals are widened by the dispersion.

    Raises:
        WorkloadError: all jobs are submitted at once, or over more than a century.
    """
    span_s = workload.span_s
    if workload.n_jobs < 2 or span_s == 0:
        raise WorkloadError("all jobs are submitted at once; arrivals need a time between them.")
    if span_s > MOST_DAYS * DAY_S:
        raise WorkloadError(f"the log spans {span_s / DAY_S:.0f} days; allowed are {MOST_DAYS}.")
    clock = WallClock.of(workload)
    if clock.basis == "unknown" or span_s < LEAST_DAYS * DAY_S:
        return _rate_only(workload, prior, clock)
    cells = _Cells.of(clock.local_s(workload.submit_s))
    rates = cells.rates()
    dispersion = cells.dispersion(rates)
    parameters: dict[str, object] = {}
    rows: list[ParameterEstimate] = []
    bursts = _fit_bursts(cells, rates, prior)
    notes = []
    if bursts is None:
        parameters["burst_day_probability"] = 0.0
        n_days = len(cells.whole_days())
        if n_days >= LEAST_BURST_DAYS:
            rows.append(share_of("burst_day_probability", prior.burst_day_probability, 0, n_days))
            notes.append("the hours show no bursts beyond the noise of all hours")
        else:
            notes.append(f"bursts need {LEAST_BURST_DAYS} whole days, so the model has no bursts")
    else:
        rates, dispersion = bursts.rates, bursts.noise
        parameters |= bursts.parameters
        rows += bursts.learnt
    mean_per_hour = float(rates.mean())
    multipliers = rates / mean_per_hour
    parameters["hourly_multipliers"] = multipliers.tolist()
    parameters["mean_inter_arrival_sec"] = HOUR_S / mean_per_hour
    half = Z * math.sqrt(dispersion / workload.n_jobs)
    mean_s = HOUR_S / mean_per_hour
    rows.insert(
        0,
        ParameterEstimate(
            "mean_inter_arrival_sec", prior.mean_inter_arrival_sec, mean_s,
            mean_s * math.exp(-half), mean_s * math.exp(half), workload.n_jobs,
        ),
    )  # fmt: skip
    exposure = cells.exposure.sum(axis=0)
    for hour in range(HOURS):
        deviation = math.sqrt(dispersion * rates[hour] / exposure[hour]) / mean_per_hour
        middle = float(multipliers[hour])
        rows.append(
            ParameterEstimate(
                f"hourly_multipliers[{hour}]", prior.hourly_multipliers[hour], middle,
                max(middle - Z * deviation, 0.0), middle + Z * deviation,
                int(cells.counts[:, hour].sum()),
            )
        )  # fmt: skip
    return ArrivalFit(parameters, tuple(rows), tuple(notes), dispersion)


def _rate_only(workload: Workload, prior: JoulieParameters, clock: WallClock) -> ArrivalFit:
    mean_multiplier = float(np.mean(prior.hourly_multipliers))
    gaps_s = np.diff(workload.submit_s)
    mean_s = float(gaps_s.mean()) * mean_multiplier
    half = Z * float(gaps_s.std()) / float(gaps_s.mean()) / math.sqrt(len(gaps_s))
    why = clock.sentence if clock.basis == "unknown" else "It is too short for hours of the day."
    row = ParameterEstimate(
        "mean_inter_arrival_sec", prior.mean_inter_arrival_sec, mean_s, mean_s * math.exp(-half),
        mean_s * math.exp(half), workload.n_jobs,
    )  # fmt: skip
    return ArrivalFit(
        {"mean_inter_arrival_sec": mean_s, "burst_day_probability": 0.0},
        (row,),
        (f"hourly multipliers stay as published ({why[0].lower()}{why[1:].rstrip('.')})",),
        math.nan,
    )


@dataclass(frozen=True)
class _Cells:
    """Submissions and covered hours by day and hour of the clock: float64 [n_days, 24] each."""

    counts: Floats
    exposure: Floats

    @classmethod
    def of(cls, local_s: Floats) -> "_Cells":
        first, last = float(local_s.min()), float(local_s.max())
        midnight_s = math.floor(first / DAY_S) * DAY_S
        n_days = math.floor((last - midnight_s) / DAY_S) + 1
        cell = np.floor((local_s - midnight_s) / HOUR_S).astype(np.int64)
        counts = np.bincount(cell, minlength=n_days * HOURS).reshape(n_days, HOURS)
        begins = midnight_s + HOUR_S * np.arange(n_days * HOURS)
        covered = np.minimum(begins + HOUR_S, last) - np.maximum(begins, first)
        exposure = np.clip(covered / HOUR_S, 0.0, 1.0).reshape(n_days, HOURS)
        return cls(counts.astype(np.float64), exposure)

    def rates(self) -> Floats:
        """Return submissions per hour for each hour of the day, with 0.5 added to each count."""
        hourly_rates: Floats = (self.counts.sum(axis=0) + 0.5) / self.exposure.sum(axis=0)
        return hourly_rates

    def dispersion(self, rates: Floats, hours: NDArray[np.int64] | None = None) -> float:
        at = np.arange(HOURS) if hours is None else hours
        exposure = self.exposure[:, at]
        there = exposure > 0.5
        expected = (rates[at] * exposure)[there]
        freedom = max(int(there.sum()) - len(at), 1)
        return float(((self.counts[:, at][there] - expected) ** 2 / expected).sum() / freedom)

    def whole_days(self) -> NDArray[np.intp]:
        return np.flatnonzero((self.exposure > 1 - 1e-9).all(axis=1))


@dataclass(frozen=True)
class _Bursts:
    rates: Floats
    noise: float
    parameters: dict[str, object]
    learnt: list[ParameterEstimate]


def _fit_bursts(cells: _Cells, rates: Floats, prior: JoulieParameters) -> _Bursts | None:
    """Fit bursts as a mixture over days, by expectation maximisation (Dempster 1977).

    A day has none, or one, in an hour that is equally likely to be any of the `burst_hours`. All
    likelihoods are divided by the dispersion of the other hours, so that general noise does not
    count as bursts. Returns None if bursts explain too little (BIC).
    """
    days = cells.whole_days()
    hours = np.array(sorted(set(prior.burst_hours)), dtype=np.int64)
    other_hours = np.setdiff1d(np.arange(HOURS), hours)
    if len(days) < LEAST_BURST_DAYS or len(other_hours) == 0:
        return None
    noise = max(cells.dispersion(rates, other_hours), 1.0)
    counts = cells.counts[np.ix_(days, hours)]
    usual = np.maximum(np.median(counts, axis=0), 0.25)
    quiet = _log_poisson(counts, counts.mean(axis=0)).sum()
    for added in dict.fromkeys((prior.burst_mean_jobs, 0.0)):
        share, factor, base, was = 0.2, 2.0, usual.copy(), -math.inf
        for _ in range(ROUNDS):
            day_rate = float(np.concatenate([base, rates[other_hours]]).mean())
            extra = added / BURST_DIVISOR * day_rate
            none = _log_poisson(counts, base).sum(axis=1)
            gain = _log_poisson(counts, factor * base + extra) - _log_poisson(counts, base)
            weights = np.concatenate([np.zeros((len(days), 1)), gain], axis=1) / noise
            weights += np.log([1 - share, *(share / len(hours),) * len(hours)])
            top = weights.max(axis=1, keepdims=True)
            total = top[:, 0] + np.log(np.exp(weights - top).sum(axis=1))
            likely = float((none / noise + total).sum())
            with_burst = np.exp(weights - total[:, None])[:, 1:]
            share = float(np.clip(with_burst.sum() / len(days), 1e-6, 1 - 1e-6))
            calm = 1 - with_burst
            base = np.maximum((counts * calm).sum(axis=0) / calm.sum(axis=0), 0.05)
            factor = _factor(with_burst, counts, base, extra)
            if abs(likely - was) < 1e-9 * abs(likely):
                break
            was = likely
        if factor >= 1.0:
            break
    if factor <= 1.0 or 2 * (likely - quiet / noise) < 2 * math.log(len(days)):
        return None
    quiet_rates = rates.copy()
    quiet_rates[hours] = base
    information = (with_burst * base**2 / (factor * base + extra)).sum() / noise
    deviation = 1 / math.sqrt(float(information))
    probability = share_of(
        "burst_day_probability", prior.burst_day_probability, share * len(days), len(days)
    )
    return _Bursts(
        quiet_rates,
        noise,
        {
            "burst_day_probability": share,
            "burst_multiplier": factor,
            "burst_mean_jobs": added,
        },
        [
            probability,
            ParameterEstimate(
                "burst_multiplier", prior.burst_multiplier, factor, factor - Z * deviation,
                factor + Z * deviation, round(share * len(days)),
            ),
        ],
    )  # fmt: skip


def _factor(weights: Floats, counts: Floats, base: Floats, extra: float) -> float:
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2 if high < 2 * max(low, 1e-3) else math.sqrt(max(low, 1e-3) * high)
        score = (weights * base * (counts / (middle * base + extra) - 1)).sum()
        low, high = (middle, high) if score > 0 else (low, middle)
    return (low + high) / 2


def _log_poisson(counts: Floats, rates: Floats) -> Floats:
    from scipy.special import gammaln

    log_likelihood: Floats = counts * np.log(rates) - rates - gammaln(counts + 1)
    return log_likelihood
