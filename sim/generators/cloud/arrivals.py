"""Poisson or negative binomial regression of the number of job batches that arrive per period.

Bergsma et al., section 2.1: the mean is exp(w x) of the hour of the day (24, one-hot), the day of
the week (7, one-hot) and the day of the history (survival-encoded: the first n of N features are 1
on day n), under an elastic net. A future day takes a day of the history, k before the last with k
from a geometric distribution. Ours may draw weeks: all days of a future week take the level of one
day, because levels of neighbouring days are similar; flavours come from the days of the same
weekdays around it.

Counts vary more than Poisson variables, so ours may be negative binomial: variance = mean +
dispersion * mean**2, dispersion by moments (Cameron and Trivedi, Regression Analysis of Count
Data, section 3.3). 0 is the paper's.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import WorkloadError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


DAY_S, HOURS, DAYS = 86_400.0, 24, 7
MOST_ROUNDS, ENOUGH = 50, 1e-8


@dataclass(frozen=True, eq=False)
class BatchArrivals:
    """A fitted distribution of the number of batches (or jobs) that arrive per period.

    Attributes:
        of_hour: float64 [24]; the clock's zero is a midnight.
        of_day: float64 [7]; day 0 is the first day of the clock.
        of_history: float64 [N], increment of each further day of the history.
        dispersion: from 0, see the module.
        first_day: day of the clock on which the history begins.
        back: success probability of the geometric distribution, above 0 to 1; 1 takes the last
            day.
    """

    intercept: float
    of_hour: Floats
    of_day: Floats
    of_history: Floats
    dispersion: float
    first_day: int
    back: float

    @property
    def n_days(self) -> int:
        """Number of days of the log to which the distribution was fitted (the history)."""
        return len(self.of_history)

    def log_mean(self, period: Ints, period_s: float) -> Floats:
        """Return the log of each period's mean count, without its history-day term: float64 [n]."""
        day, hour = calendar(period, period_s)
        log_means: Floats = self.intercept + self.of_hour[hour] + self.of_day[day % DAYS]
        return log_means

    def history(self, day: Ints | None = None) -> Floats:
        """Return the term each training day, or each given one, adds to the log mean count."""
        levels: Floats = np.cumsum(self.of_history)
        return levels if day is None else levels[day]

    def drawn_days(self, n: int, rng: np.random.Generator, *, as_published: bool = False) -> Ints:
        """Draw `n` days of the training log, recent ones most often: int64 [n], counted from 0.

        The days are k before the last with k geometric from 0, and continue from the last before
        the first. With `as_published`, they count as in the authors' program: day (N - k) modulo N
        of the days 0 ... N - 1, so that no step back is the first day, and all others are one day
        too late.
        """
        k = rng.geometric(self.back, n) - 1
        return (self.n_days - (0 if as_published else 1) - k) % self.n_days

    def of_weekday(self, near: Ints, weekday: Ints) -> Ints:
        """Return the days of the training log closest to `near` that fall on these weekdays."""
        days = near + (weekday - self.first_day - near + 3) % DAYS - 3
        days = np.where(days >= self.n_days, days - DAYS, days)
        return np.clip(np.where(days < 0, days + DAYS, days), 0, self.n_days - 1)

    def counts(self, mean: Floats, rng: np.random.Generator) -> Ints:
        """Draw arrival counts with given means: int64 in the shape of `mean`."""
        if self.dispersion > 0:
            mean = mean * rng.gamma(1.0 / self.dispersion, self.dispersion, mean.shape)
        return rng.poisson(mean)

    def draw(
        self,
        period: Ints,
        period_s: float,
        rng: np.random.Generator,
        scale: float = 1.0,
        *,
        by_week: bool = False,
    ) -> tuple[Ints, Ints]:
        """Draw arrival counts per period; each day takes the level of a random training day.

        `scale` is a factor on the mean; `by_week` takes weeks of the history, see the module.

        Returns:
            counts int64 [n], and the day of the history that each period takes, int64 [n] from 0,
                with `by_week` one of the same weekday.
        """
        day = calendar(period, period_s)[0]
        first, n = int(day[0]), int(day[-1] - day[0]) + 1
        alike = DAYS if by_week else 1
        near = np.repeat(self.drawn_days(-(-n // alike), rng), alike)[day - first]
        mean = scale * np.exp(self.log_mean(period, period_s) + self.history(near))
        taken = self.of_weekday(near, day % DAYS) if by_week else near
        return self.counts(mean, rng), taken


def calendar(period: Ints, period_s: float) -> tuple[Ints, Ints]:
    """Return each period's day number and hour of the day, counted from the clock's zero."""
    seconds = period * period_s
    day = np.floor(seconds / DAY_S).astype(np.int64)
    return day, np.floor((seconds - day * DAY_S) / DAY_S * HOURS).astype(np.int64)


def fit_arrivals(
    counts: Ints,
    first_period: int,
    period_s: float,
    *,
    penalty: float = 1e-4,
    l1_share: float = 1.0,
    with_history: bool = True,
    overdispersed: bool = True,
    back: float = 1 / 7,
) -> BatchArrivals:
    """Fit the distribution of arrival counts to all periods of a training window.

    Args:
        counts: int64 [n_periods].
        first_period: first period of the window.
        period_s: length of a period.
        penalty: weight of the elastic net beside the mean negative log-likelihood; above 0.
        l1_share: 1 is the lasso, 0 ridge.
        with_history: whether days of the history differ.
        overdispersed: whether counts may vary more than a Poisson variable.
        back: see `BatchArrivals`.

    Raises:
        WorkloadError: nothing arrives.
    """
    if counts.sum() == 0:
        raise WorkloadError("no batch begins in this window; arrivals cannot be fitted to it.")
    period = first_period + np.arange(len(counts))
    day, hour = calendar(period, period_s)
    n_days = int(day[-1] - day[0]) + 1 if with_history else 1
    survived = np.arange(1, n_days) <= (day - day[0])[:, None]
    features = np.concatenate(
        [np.eye(HOURS)[hour], np.eye(DAYS)[day % DAYS], survived], axis=1
    )  # the first day of the history is part of the intercept
    intercept, weights = _iterated(features, counts.astype(np.float64), penalty, l1_share)
    of_history = np.concatenate([[0.0], weights[HOURS + DAYS :]])
    mean = np.exp(intercept + features @ weights)
    spread = ((counts - mean) ** 2 - mean).sum() / (mean**2).sum() if overdispersed else 0.0
    law = BatchArrivals(
        float(intercept), weights[:HOURS], weights[HOURS : HOURS + DAYS], of_history,
        max(float(spread), 0.0), int(day[0]), back,
    )  # fmt: skip
    added = _intercept_correction(law, counts, first_period, period_s)
    return replace(law, intercept=law.intercept + added)


def recent_mean(counts: Ints, first_period: int, period_s: float, back: float) -> float:
    """Return the mean count per period, in which recent days weigh more (as in `drawn_days`)."""
    day = calendar(first_period + np.arange(len(counts)), period_s)[0]
    day = day - day[0]
    chance = _chance(int(day[-1]) + 1, back)
    weighted_mean = (chance * np.bincount(day, counts)).sum() / (chance * np.bincount(day)).sum()
    return float(weighted_mean)


def _chance(n_days: int, back: float) -> Floats:
    chance = (1.0 - back) ** np.arange(n_days, dtype=np.float64)[::-1]
    shares: Floats = chance / chance.sum()
    return shares


def _intercept_correction(
    law: BatchArrivals, counts: Ints, first_period: int, period_s: float
) -> float:
    """Return the correction of the intercept that keeps the mean count of drawn days.

    A drawn day joins the level of one day to the weekday of another; where the two are correlated
    in the history, their product has another mean.
    """
    observed_mean = float(counts.mean())
    if law.n_days > 1:
        observed_mean = recent_mean(counts, first_period, period_s, law.back)
    usual = np.exp(law.of_hour).mean() * np.exp(law.of_day).mean()
    level = (_chance(law.n_days, law.back) * np.exp(law.history())).sum()
    modelled_mean = float(np.exp(law.intercept) * usual * level)
    return float(np.log(observed_mean / modelled_mean)) if observed_mean > 0 else 0.0


def _iterated(
    features: Floats, counts: Floats, penalty: float, l1_share: float
) -> tuple[float, Floats]:
    """Minimise the penalised negative log-likelihood by iterated least squares, as R's glmnet.

    Friedman, Hastie and Tibshirani, Journal of Statistical Software 33(1), 2010, section 3.
    """
    from sklearn.linear_model import ElasticNet

    n, intercept = len(counts), float(np.log(counts.mean()))
    weights, before = np.zeros(features.shape[1]), np.inf
    for _ in range(MOST_ROUNDS):
        eta = np.clip(intercept + features @ weights, -30.0, 30.0)
        mean = np.exp(eta)
        loss = float((mean - counts * eta).mean()) + penalty * float(
            l1_share * np.abs(weights).sum() + 0.5 * (1 - l1_share) * (weights**2).sum()
        )
        if before - loss < ENOUGH * max(abs(loss), 1.0):
            break
        before = loss
        # The library divides by the sum of the weights where the likelihood is a mean over rows.
        net = ElasticNet(alpha=penalty * n / mean.sum(), l1_ratio=l1_share, max_iter=20_000)
        net.fit(features, eta + (counts - mean) / mean, sample_weight=mean)
        intercept, weights = float(net.intercept_), np.asarray(net.coef_, dtype=np.float64)
    return intercept, weights


def coverage(
    law: BatchArrivals,
    counts: Ints,
    first_period: int,
    period_s: float,
    rng: np.random.Generator,
    *,
    n_days: int = 500,
    n_draws: int = 500,
    share: float = 0.9,
    as_published: bool = False,
) -> tuple[float, float]:
    """Return the share of true counts inside prediction intervals, and the intervals' mean width.

    As in section 5.1, days of the history are drawn ``n_days`` times, with many counts for each.

    `n_draws` counts per period are spread evenly over the days; `law` is fitted to earlier
    periods.
    """
    period = first_period + np.arange(len(counts))
    base = np.exp(law.log_mean(period, period_s))
    inside, width = 0, 0.0
    for some in np.array_split(np.arange(len(counts)), max(1, len(counts) // 64)):
        day = law.drawn_days(n_days, rng, as_published=as_published)
        mean = base[some][:, None] * np.exp(law.history(day))[None, :]
        repeated = np.repeat(mean, max(1, n_draws // n_days), axis=1)
        low, high = np.quantile(
            law.counts(repeated, rng), (0.5 - share / 2, 0.5 + share / 2), axis=1
        )
        inside += int(((counts[some] >= low) & (counts[some] <= high)).sum())
        width += float((high - low).sum())
    return inside / len(counts), width / len(counts)
