"""Traces of cloud jobs: batches of jobs in periods, with bins of lifetimes.

`Bins` maps lifetimes to bins and back; `CloudTrace` is the input of the three-stage model;
`ObservedJobs` are jobs of a log, with the begin, request, user and observed lifetime of each.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import WorkloadError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True)
class Bins:
    """Consecutive intervals of job lifetimes, each open at its start and closed at its end.

    Attributes:
        ends_s: end of each bin except the last, in seconds, rising; the last has no end.
        longest_s: longest lifetime in seconds that is drawn for the last bin.
    """

    ends_s: tuple[float, ...]
    longest_s: float

    def __post_init__(self) -> None:
        ends = (*self.ends_s, self.longest_s)
        rising = all(low < high for low, high in pairwise(ends))
        if not self.ends_s or self.ends_s[0] < 0 or not rising:
            raise WorkloadError("the ends of bins of lifetimes must rise, from 0 s or later.")

    @property
    def n(self) -> int:
        """Return the number of lifetime bins."""
        return len(self.ends_s) + 1

    def of(self, lifetime_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index of the bin that each lifetime falls into: int64 [n]."""
        return np.searchsorted(np.array(self.ends_s), lifetime_s, side="left").astype(np.int64)

    @property
    def edges_s(self) -> NDArray[np.float64]:
        """Return each bin's start and the last bin's assumed end, in seconds: float64 [n + 1]."""
        return np.array([0.0, *self.ends_s, self.longest_s])

    def seconds(self, bins: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a uniform lifetime in seconds within each given bin: float64 [n]."""
        edges = self.edges_s
        draws_s: NDArray[np.float64] = (
            edges[bins] + (1.0 - rng.random(len(bins))) * np.diff(edges)[bins]
        )
        return draws_s


PAPER = Bins(
    (
        *(300.0 * k for k in range(13)),
        *(HOUR_S * k for k in range(2, 25)),
        *(DAY_S * k for k in range(2, 11)),
        20 * DAY_S,
    ),
    30 * DAY_S,
)
"""The 47 bins of section 2.3.1, as the authors' published map has them: every 5 minutes up to an
hour (the first holds lifetimes of 0), every hour up to a day (the text says 10 hours), every day up
to 10 days, 10 to 20 days, longer."""
UNKNOWN = -1


@dataclass(frozen=True)
class Flavour:
    """Amounts of CPU, memory, GPU and time that one kind of job requests.

    Attributes:
        mcpu, mem_bytes, mgpu: thousandths of a core, bytes of memory, thousandths of a GPU; -1 in
            the last two is unknown.
        requested_s: requested time in whole seconds; -1 is unknown, or not a whole number.
    """

    name: str
    mcpu: int
    mem_bytes: int = UNKNOWN
    mgpu: int = UNKNOWN
    requested_s: int = UNKNOWN


@dataclass(frozen=True, eq=False)
class CloudTrace:
    """Cloud jobs of one observation window, sorted by period, batch and arrival.

    A batch is the set of jobs that one user requests within one period. Columns have shape
    [n_jobs], are read-only, and hold whole numbers.

    Attributes:
        period: number of the period in which each job begins; non-decreasing.
        batch: number of its batch, from 0, in steps of 0 or 1; a batch lies within one period.
        flavour: index into `flavours`.
        lifetime: bin of its lifetime; for a censored job the bin in which it was last observed. -1
            for all jobs if lifetimes are unknown.
        censored: 1 if the job had not ended at the end of the window.
        flavours: all kinds of jobs.
        first_period, n_periods: first period and number of periods of the window, with periods
            without jobs.
        period_s: length of a period in seconds; period 0 begins at zero of the clock, which is
            assumed to be midnight from a Wednesday to a Thursday (1 January 1970), as in the paper.
        bins: bins of lifetimes.
    """

    period: Ints
    batch: Ints
    flavour: Ints
    lifetime: Ints
    censored: Ints
    flavours: tuple[Flavour, ...]
    first_period: int
    n_periods: int
    period_s: float = 300.0
    bins: Bins = PAPER

    def __post_init__(self) -> None:
        n = len(self.period)
        columns = (self.period, self.batch, self.flavour, self.lifetime, self.censored)
        if n == 0 or any(len(column) != n for column in columns):
            raise WorkloadError(
                "a trace of batches needs one or more jobs, and columns of one length."
            )
        steps, new = np.diff(self.period), np.diff(self.batch)
        if (steps < 0).any() or not np.isin(new, (0, 1)).all() or (steps[new == 0] != 0).any():
            raise WorkloadError("batches of a trace must be in order, each within one period.")
        inside = (self.period >= self.first_period).all() and (
            self.period < self.first_period + self.n_periods
        ).all()
        flavours_valid = (self.flavour >= 0).all() and (self.flavour < len(self.flavours)).all()
        lived = (self.lifetime >= UNKNOWN).all() and (self.lifetime < self.bins.n).all()
        if not (inside and flavours_valid and lived):
            raise WorkloadError("a period, flavour or lifetime of a trace is out of range.")
        for column in columns:
            column.setflags(write=False)

    @property
    def n_jobs(self) -> int:
        """Return the number of jobs."""
        return len(self.period)

    @property
    def n_batches(self) -> int:
        """Return the number of batches."""
        return int(self.batch[-1]) - int(self.batch[0]) + 1

    @property
    def knows_lifetimes(self) -> bool:
        """Return whether the trace contains the lifetimes of its jobs."""
        return bool(self.lifetime[0] != UNKNOWN)

    @property
    def first_in_batch(self) -> NDArray[np.bool_]:
        """Return whether each job is the first of its batch: bool [n_jobs]."""
        return np.concatenate([[True], np.diff(self.batch) > 0])

    def starts_s(self, zero_period: int = 0) -> Floats:
        """Return when each job begins, evenly spaced within its period: float64 [n_jobs].

        Seconds count from the begin of `zero_period`; 0 is the clock of the trace.
        """
        _, first, which, counts = np.unique(
            self.period, return_index=True, return_inverse=True, return_counts=True
        )
        rank = np.arange(self.n_jobs) - first[which]
        starts: Floats = (self.period - zero_period + rank / counts[which]) * self.period_s
        return starts

    @property
    def batch_sizes(self) -> Ints:
        """Return the number of jobs of each batch: int64 [n_batches]."""
        return np.bincount(self.batch - self.batch[0])

    def batches_by_period(self) -> Ints:
        """Return the number of batches of each period of the window: int64 [n_periods]."""
        period_of_batch = self.period[self.first_in_batch] - self.first_period
        return np.bincount(period_of_batch, minlength=self.n_periods)

    def jobs_by_period(self) -> Ints:
        """Return the number of jobs of each period of the window: int64 [n_periods]."""
        return np.bincount(self.period - self.first_period, minlength=self.n_periods)

    def part(self, first_period: int, stop_period: int) -> "CloudTrace":
        """Return the jobs of the periods from `first_period` up to `stop_period` (exclusive).

        Lifetimes that end after this part stay known.

        Raises:
            WorkloadError: no job begins in it.
        """
        low, high = np.searchsorted(self.period, (first_period, stop_period), side="left").tolist()
        if low == high:
            raise WorkloadError(f"no job begins in the periods {first_period} to {stop_period}.")
        columns = {
            name: getattr(self, name)[low:high].copy()
            for name in ("period", "batch", "flavour", "lifetime", "censored")
        }
        n_periods = stop_period - first_period
        return replace(self, **columns, first_period=first_period, n_periods=n_periods)

    def joined(self, later: "CloudTrace") -> "CloudTrace":
        """Return this trace extended by a later one that follows directly.

        Raises:
            WorkloadError: other flavours, periods or bins, or periods that do not follow.
        """
        alike = (self.flavours, self.period_s, self.bins) == (
            later.flavours, later.period_s, later.bins,
        )  # fmt: skip
        if not alike or later.first_period < self.first_period + self.n_periods:
            raise WorkloadError("traces to join must have the same flavours and follow each other.")
        both = self.knows_lifetimes and later.knows_lifetimes
        lifetime = np.concatenate([self.lifetime, later.lifetime])
        return CloudTrace(
            period=np.concatenate([self.period, later.period]),
            batch=np.concatenate(
                [self.batch - self.batch[0], later.batch - later.batch[0] + self.n_batches]
            ),
            flavour=np.concatenate([self.flavour, later.flavour]),
            lifetime=lifetime if both else np.full(len(lifetime), UNKNOWN),
            censored=np.concatenate([self.censored, later.censored]),
            flavours=self.flavours,
            first_period=self.first_period,
            n_periods=later.first_period + later.n_periods - self.first_period,
            period_s=self.period_s,
            bins=self.bins,
        )


@dataclass(frozen=True, eq=False)
class ObservedJobs:
    """Logged jobs of one observation window, in order of arrival, as columns of [n_jobs].

    Attributes:
        begin_s: float64, seconds on the clock of the log, see `CloudTrace.period_s`; in any order.
        lived_s: float64, lifetime in seconds, from 0; for a censored job the lifetime at its last
            observation.
        censored: int64, 1 if the job had not ended at the end of the window.
        user: int64, user number; -1 is unknown.
        flavour: int64, index into `flavours`.
        flavours: all kinds of jobs.
        name: name for people.
    """

    begin_s: Floats
    lived_s: Floats
    censored: Ints
    user: Ints
    flavour: Ints
    flavours: tuple[Flavour, ...]
    name: str

    def __post_init__(self) -> None:
        columns = (self.begin_s, self.lived_s, self.censored, self.user, self.flavour)
        n = len(self.begin_s)
        if n == 0 or any(len(column) != n for column in columns):
            raise WorkloadError(f"{self.name}: it needs jobs, and columns of one length.")

    @property
    def n_jobs(self) -> int:
        """Return the number of jobs."""
        return len(self.begin_s)

    def window(self, from_s: float, until_s: float) -> "ObservedJobs":
        """Return the jobs that begin in a time window, with lifetimes censored at its end.

        Raises `WorkloadError` if none begins in it.
        """
        in_window = (self.begin_s >= from_s) & (self.begin_s < until_s)
        if not in_window.any():
            raise WorkloadError(f"{self.name}: no job begins from {from_s:g} s to {until_s:g} s.")
        begin_s, lived_s = self.begin_s[in_window], self.lived_s[in_window]
        cut = begin_s + lived_s > until_s
        return ObservedJobs(
            begin_s=begin_s,
            lived_s=np.where(cut, until_s - begin_s, lived_s),
            censored=np.where(cut, 1, self.censored[in_window]),
            user=self.user[in_window],
            flavour=self.flavour[in_window],
            flavours=self.flavours,
            name=self.name,
        )

    def batches(self, period_s: float, bins: Bins) -> tuple[CloudTrace, Ints]:
        """Group into one batch all jobs that one user begins within one period.

        Args:
            period_s: length of a period in seconds, above 0.
            bins: bins of lifetimes.

        Returns:
            the trace of batches; int64 [n_jobs], the row here of each of its jobs.

        Raises:
            WorkloadError: no user is known.
        """
        if (self.user == UNKNOWN).all():
            raise WorkloadError(
                f"{self.name}: no job has a known user, but batches belong to users; fit another "
                "generator, such as resampling."
            )
        period = np.floor(self.begin_s / period_s).astype(np.int64)
        # The jobs of unknown users are unrelated: each is its own batch.
        user = np.where(self.user == UNKNOWN, -1 - np.arange(self.n_jobs), self.user)
        arrival = np.arange(self.n_jobs)
        by_user = np.lexsort((arrival, user, period))
        new = np.ones(len(by_user), dtype=bool)
        new[1:] = (np.diff(period[by_user]) != 0) | (np.diff(user[by_user]) != 0)
        first_arrival = arrival[by_user][new][np.cumsum(new) - 1]
        order = by_user[np.lexsort((arrival[by_user], first_arrival, period[by_user]))]
        begins = np.ones(len(order), dtype=bool)
        begins[1:] = (np.diff(period[order]) != 0) | (np.diff(user[order]) != 0)
        trace = CloudTrace(
            period=period[order],
            batch=np.cumsum(begins) - 1,
            flavour=self.flavour[order],
            lifetime=bins.of(self.lived_s)[order],
            censored=self.censored[order],
            flavours=self.flavours,
            first_period=int(period.min()),
            n_periods=int(period.max() - period.min()) + 1,
            period_s=period_s,
            bins=bins,
        )
        return trace, order


def number_requests(
    requests: Ints, size: Ints, most: int
) -> tuple[Ints, NDArray[np.int64], tuple[int, ...]]:
    """Assign a class number to each request: one per frequent request, others by size.

    Args:
        requests: int64 [n, n_dimensions].
        size: int64 [n], such as processors; sizes up to the same power of two share a number.
        most: maximum of requests with their own number.

    Returns:
        int64 [n], the number of each; the requests with their own numbers, in order; the powers of
        two for the numbers after these.
    """
    unique, which, counts = np.unique(requests, axis=0, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    often = np.sort(np.argsort(-counts, kind="stable")[:most])
    power = np.ceil(np.log2(np.maximum(size, 1))).astype(np.int64)
    place = np.full(len(unique), -1, dtype=np.int64)
    place[often] = np.arange(len(often))
    rest = np.unique(power[place[which] < 0])
    number = np.where(place[which] >= 0, place[which], len(often) + np.searchsorted(rest, power))
    return number, unique[often], tuple(rest.tolist())
