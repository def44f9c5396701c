"""Arrivals of a log as Joulie's: a rate, a multiplier for every hour of the day, bursts."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.hours import DAY_S, WallClock
from sim.model.workload import Workload
from sim.workloads.joulie.learning import Learnt, Z, share_of
from sim.workloads.joulie.parameters import JoulieParameters

Floats = NDArray[np.float64]

HOURS, HOUR_S = 24, 3600.0
MOST_DAYS = 36_600
LEAST_DAYS = 2.0
"""Of a log that tells hourly multipliers."""

LEAST_BURST_DAYS = 14
"""Whole days of a log that tells bursts."""

BURST_DIVISOR = 16.0
"""`burst_mean_jobs` is divided by it and added to the multiplier (the program's rule)."""

ROUNDS = 200


@dataclass(frozen=True)
class Arrivals:
    """What a log tells about arrivals.

    Attributes:
        told: values of parameters, by name.
        learnt: the same with intervals.
        kept: sentences about what stays as published, and why.
        dispersion: Pearson's chi squared of hourly counts by its degrees of freedom, after the
            hours of the day, and without the burst hours if there are bursts; 1 is Poisson. NaN if
            there are no hours.
    """

    told: dict[str, object]
    learnt: tuple[Learnt, ...]
    kept: tuple[str, ...]
    dispersion: float


def fit_arrivals(workload: Workload, prior: JoulieParameters) -> Arrivals:
    """Learn the parameters of arrivals.

    The multipliers average to 1 over the day, so that `mean_inter_arrival_sec` is that of a whole
    day. If a log does not say when it starts, its hours are not those of a day: the multipliers
    stay, and the mean is that at multiplier 1. Intervals are widened by the dispersion.

    Raises:
        WorkloadError: all jobs are submitted at once, or within more than a century.
    """
    span_s = workload.span_s
    if workload.n_jobs < 2 or span_s == 0:
        raise WorkloadError("all jobs are submitted at once; arrivals need a time between them.")
    if span_s > MOST_DAYS * DAY_S:
        raise WorkloadError(f"the log spans {span_s / DAY_S:.0f} days; {MOST_DAYS} are the most.")
    clock = WallClock.of(workload)
    if clock.basis == "unknown" or span_s < LEAST_DAYS * DAY_S:
        return _rate_only(workload, prior, clock)
    cells = _Cells.of(clock.local_s(workload.submit_s))
    rates = cells.rates()
    dispersion = cells.dispersion(rates)
    told: dict[str, object] = {}
    rows: list[Learnt] = []
    bursts = _fit_bursts(cells, rates, prior)
    kept = []
    if bursts is None:
        told["burst_day_probability"] = 0.0
        n_days = len(cells.whole_days())
        if n_days >= LEAST_BURST_DAYS:
            rows.append(share_of("burst_day_probability", prior.burst_day_probability, 0, n_days))
            kept.append("the hours show no bursts beyond the noise of all hours")
        else:
            kept.append(
                f"bursts need {LEAST_BURST_DAYS} whole days, so the model has none of its own"
            )
    else:
        rates, dispersion = bursts.rates, bursts.noise
        told |= bursts.told
        rows += bursts.learnt
    mean_per_hour = float(rates.mean())
    multipliers = rates / mean_per_hour
    told["hourly_multipliers"] = multipliers.tolist()
    told["mean_inter_arrival_sec"] = HOUR_S / mean_per_hour
    half = Z * math.sqrt(dispersion / workload.n_jobs)
    mean_s = HOUR_S / mean_per_hour
    rows.insert(
        0,
        Learnt(
            "mean_inter_arrival_sec", prior.mean_inter_arrival_sec, mean_s,
            mean_s * math.exp(-half), mean_s * math.exp(half), workload.n_jobs,
        ),
    )  # fmt: skip
    seen = cells.exposure.sum(axis=0)
    for hour in range(HOURS):
        deviation = math.sqrt(dispersion * rates[hour] / seen[hour]) / mean_per_hour
        middle = float(multipliers[hour])
        rows.append(
            Learnt(
                f"hourly_multipliers[{hour}]", prior.hourly_multipliers[hour], middle,
                max(middle - Z * deviation, 0.0), middle + Z * deviation,
                int(cells.counts[:, hour].sum()),
            )
        )  # fmt: skip
    return Arrivals(told, tuple(rows), tuple(kept), dispersion)


def _rate_only(workload: Workload, prior: JoulieParameters, clock: WallClock) -> Arrivals:
    mean_multiplier = float(np.mean(prior.hourly_multipliers))
    gaps_s = np.diff(workload.submit_s)
    mean_s = float(gaps_s.mean()) * mean_multiplier
    half = Z * float(gaps_s.std()) / float(gaps_s.mean()) / math.sqrt(len(gaps_s))
    why = clock.sentence if clock.basis == "unknown" else "It is too short to tell hours."
    row = Learnt(
        "mean_inter_arrival_sec", prior.mean_inter_arrival_sec, mean_s, mean_s * math.exp(-half),
        mean_s * math.exp(half), workload.n_jobs,
    )  # fmt: skip
    return Arrivals(
        {"mean_inter_arrival_sec": mean_s, "burst_day_probability": 0.0},
        (row,),
        (f"hourly multipliers stay as published ({why[0].lower()}{why[1:].rstrip('.')})",),
        math.nan,
    )


@dataclass(frozen=True)
class _Cells:
    """Submissions by day and hour of the wall clock: float64 [n_days, 24] each.

    Attributes:
        counts: of submissions.
        exposure: hours of the cell between the first and the last submission.
    """

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
        """Submissions in an hour, by hour of the day; half a job more, so that none is 0."""
        made: Floats = (self.counts.sum(axis=0) + 0.5) / self.exposure.sum(axis=0)
        return made

    def dispersion(self, rates: Floats, hours: NDArray[np.int64] | None = None) -> float:
        at = np.arange(HOURS) if hours is None else hours
        seen = self.exposure[:, at]
        there = seen > 0.5
        expected = (rates[at] * seen)[there]
        freedom = max(int(there.sum()) - len(at), 1)
        return float(((self.counts[:, at][there] - expected) ** 2 / expected).sum() / freedom)

    def whole_days(self) -> NDArray[np.intp]:
        return np.flatnonzero((self.exposure > 1 - 1e-9).all(axis=1))


@dataclass(frozen=True)
class _Bursts:
    rates: Floats
    noise: float
    told: dict[str, object]
    learnt: list[Learnt]


def _fit_bursts(cells: _Cells, rates: Floats, prior: JoulieParameters) -> _Bursts | None:
    """Fit bursts as a mixture over days, by expectation and maximisation (Dempster 1977).

    A day has none, or one, in an hour that is equally likely to be any of the `burst_hours`. All
    likelihoods are divided by the dispersion of the other hours, so that a log that is noisy at
    all hours is not taken for one with bursts. Returns None if they explain too little (BIC).
    """
    days = cells.whole_days()
    hours = np.array(sorted(set(prior.burst_hours)), dtype=np.int64)
    others = np.setdiff1d(np.arange(HOURS), hours)
    if len(days) < LEAST_BURST_DAYS or len(others) == 0:
        return None
    noise = max(cells.dispersion(rates, others), 1.0)
    counts = cells.counts[np.ix_(days, hours)]
    usual = np.maximum(np.median(counts, axis=0), 0.25)
    quiet = _log_poisson(counts, counts.mean(axis=0)).sum()
    for added in dict.fromkeys((prior.burst_mean_jobs, 0.0)):
        share, factor, base, was = 0.2, 2.0, usual.copy(), -math.inf
        for _ in range(ROUNDS):
            day_rate = float(np.concatenate([base, rates[others]]).mean())
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
    made = rates.copy()
    made[hours] = base
    information = (with_burst * base**2 / (factor * base + extra)).sum() / noise
    deviation = 1 / math.sqrt(float(information))
    probability = share_of(
        "burst_day_probability", prior.burst_day_probability, share * len(days), len(days)
    )
    return _Bursts(
        made,
        noise,
        {
            "burst_day_probability": share,
            "burst_multiplier": factor,
            "burst_mean_jobs": added,
        },
        [
            probability,
            Learnt(
                "burst_multiplier", prior.burst_multiplier, factor, factor - Z * deviation,
                factor + Z * deviation, round(share * len(days)),
            ),
        ],
    )  # fmt: skip


def _factor(weights: Floats, counts: Floats, base: Floats, extra: float) -> float:
    """Return the multiplier that makes the bursts likeliest: where the score is 0."""
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2 if high < 2 * max(low, 1e-3) else math.sqrt(max(low, 1e-3) * high)
        score = (weights * base * (counts / (middle * base + extra) - 1)).sum()
        low, high = (middle, high) if score > 0 else (low, middle)
    return (low + high) / 2


def _log_poisson(counts: Floats, rates: Floats) -> Floats:
    from scipy.special import gammaln

    made: Floats = counts * np.log(rates) - rates - gammaln(counts + 1)
    return made
