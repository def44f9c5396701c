"""How much is asked for at once, over time, and in which band futures of a model keep it.

The capacity planning of Bergsma et al., section 6.1: the processors of all jobs that live in each
period, a band that holds 90 % of many generated windows, and how much of the truth lies in it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.batches import CloudTrace

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Band:
    """Quantiles of the cores in use in each period: float64 [n_periods] each."""

    low: Floats
    median: Floats
    high: Floats

    @property
    def mean_width(self) -> float:
        """Mean width in cores."""
        return float((self.high - self.low).mean())

    def covers(self, cores: Floats) -> float:
        """Return the share of periods in which the cores lie within the band."""
        return float(((cores >= self.low) & (cores <= self.high)).mean())

    def interval_score(self, cores: Floats, share: float = 0.9) -> float:
        """Return the mean interval score (Gneiting and Raftery, JASA 102, 2007, section 6.2).

        Width, and for what lies outside its distance times 2 / (1 - share); less is better.
        """
        outside = np.maximum(self.low - cores, 0.0) + np.maximum(cores - self.high, 0.0)
        return float((self.high - self.low + 2.0 / (1.0 - share) * outside).mean())


def cores_in_use(trace: CloudTrace, rng: np.random.Generator) -> Floats:
    """Return the cores of the jobs that live in each period of the window: float64 [n_periods].

    A job that was still running when the window was over lives to its end. Jobs that began before
    the window are not known here.

    Args:
        trace: with lifetimes.
        rng: draws how long jobs live within their bins.
    """
    cores = np.array([one.mcpu for one in trace.flavours])[trace.flavour] / 1000.0
    lived = np.ceil(trace.bins.seconds(trace.lifetime, rng) / trace.period_s).astype(np.int64)
    begin = trace.period - trace.first_period
    stop = np.where(trace.censored == 1, trace.n_periods, begin + lived)
    change = np.bincount(begin, cores, trace.n_periods + 1).astype(np.float64)
    change -= np.bincount(np.minimum(stop, trace.n_periods), cores, trace.n_periods + 1)
    used: Floats = np.cumsum(change)[: trace.n_periods]
    return used


def band_of(futures: Iterable[Floats], share: float = 0.9) -> Band:
    """Return the band that holds so large a share of some futures, period by period."""
    low, median, high = np.quantile(
        np.stack(list(futures)), (0.5 - share / 2, 0.5, 0.5 + share / 2), axis=0
    )
    return Band(low, median, high)


def cores_needed(futures: Iterable[Floats], share: float = 0.95) -> float:
    """Return how many cores suffice at all times in so large a share of the futures."""
    peaks = [float(cores.max()) for cores in futures]
    return float(np.quantile(peaks, share, method="higher"))
