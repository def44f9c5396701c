"""When Joulie's logical workloads are submitted."""

import math

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.workloads.generator import MOST_JOBS, Horizon
from sim.workloads.joulie.parameters import JoulieParameters
from sim.workloads.streams import Streams

LEAST_MULTIPLIER = 0.05
HOUR_S = 3600.0
MOST_DAYS = 36_525
BURST_SHARE = 16.0
"""`burst_mean_jobs` is divided by this before it is added to the multiplier."""

_BLOCK = 65_536


def multipliers(p: JoulieParameters, n_days: int, streams: Streams) -> NDArray[np.float64]:
    """Return the multiplier of the rate in every hour: float64 [n_days, 24].

    A day has a burst with a probability of its own, and a dip with another, each in one hour that
    is drawn evenly from those that are told.
    """
    table = np.tile(np.array(p.hourly_multipliers), (n_days, 1))
    drawn = streams.of("burst").random((n_days, 2))
    days, hours = _one_hour(drawn, p.burst_day_probability, p.burst_hours)
    table[days, hours] = table[days, hours] * p.burst_multiplier + p.burst_mean_jobs / BURST_SHARE
    drawn = streams.of("dip").random((n_days, 2))
    days, hours = _one_hour(drawn, p.dip_day_probability, p.dip_hours)
    table[days, hours] *= p.dip_multiplier
    floored: NDArray[np.float64] = np.maximum(table, LEAST_MULTIPLIER)
    return floored


def _one_hour(
    drawn: NDArray[np.float64], probability: float, hours: tuple[int, ...]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    days = np.flatnonzero(drawn[:, 0] < probability)
    place = (drawn[days, 1] * len(hours)).astype(np.int64)
    return days, np.array(hours, dtype=np.int64)[place]


def arrivals(p: JoulieParameters, horizon: Horizon, streams: Streams) -> NDArray[np.float64]:
    """Return when workloads are submitted: float64 [n], seconds from midnight, whole milliseconds.

    The time to the next submission is exponential, with the mean over the multiplier of the hour
    in which it begins, also where it ends in a later hour: so says the page. Within an hour all
    are had from one sum of standard exponential variables.

    Raises:
        WorkloadError: none falls into the duration, more than `MOST_JOBS` do, or too many days.
    """
    n_days = math.ceil(horizon.duration_s / (24 * HOUR_S)) + 1
    if n_days > MOST_DAYS:
        raise WorkloadError(
            f"duration_s is {horizon.duration_s:g}; arrivals are drawn for up to {MOST_DAYS - 1} "
            "days."
        )
    rates = multipliers(p, n_days, streams).ravel() * (horizon.scale / p.mean_inter_arrival_sec)
    gaps = _Gaps(streams)
    most = MOST_JOBS + 1 if p.jobs is None else p.jobs
    parts: list[NDArray[np.float64]] = []
    now_s, paid, n = 0.0, 0.0, 0
    while n < most and now_s < horizon.duration_s:
        hour = int(now_s // HOUR_S)
        rate = float(rates[hour])
        ends = paid + ((hour + 1) * HOUR_S - now_s) * rate
        sums = gaps.upto(ends, n)
        parts.append(now_s + (sums - paid) / rate)
        n += len(sums)
        now_s, paid = float(parts[-1][-1]), float(sums[-1])
    times = np.concatenate(parts)[:most]
    times = times[times < horizon.duration_s]
    if len(times) == 0:
        raise WorkloadError(
            f"no workload is submitted within {horizon.duration_s:g} s; draw a longer time, or a "
            "shorter mean_inter_arrival_sec."
        )
    if len(times) > MOST_JOBS:
        raise WorkloadError(
            f"more than {MOST_JOBS:,} workloads are submitted; draw a shorter time, or fewer with "
            "the parameter 'jobs'."
        )
    return np.round(times, 3)


class _Gaps:
    """Running sums of standard exponential variables, drawn in blocks of one size."""

    def __init__(self, streams: Streams) -> None:
        self._rng = streams.of("arrival")
        self._sums = np.cumsum(self._rng.standard_exponential(_BLOCK))
        self._first = 0

    def upto(self, value: float, first: int) -> NDArray[np.float64]:
        """Return the sums from place `first` up to the first that is not below `value`."""
        while self._sums[-1] < value or first - self._first >= len(self._sums):
            more = self._sums[-1] + np.cumsum(self._rng.standard_exponential(_BLOCK))
            self._sums = np.concatenate([self._sums[first - self._first :], more])
            self._first = first
        last = int(np.searchsorted(self._sums, value, side="left"))
        return self._sums[first - self._first : max(last, first - self._first) + 1]
