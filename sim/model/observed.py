"""Jobs as they were observed: when each began, who asked for what, how long it was seen to live."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.batches import CloudTrace, Flavour
from sim.model.bins import Bins

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class ObservedJobs:
    """Jobs of one window of observation, in order of arrival. Columns have shape [n_jobs].

    Attributes:
        begin_s: float64, by the log's own clock, see `CloudTrace.period_s`; in order or not.
        lived_s: float64, from 0; of a censored job how long it had lived when it was seen last.
        censored: int64, 1 if it had not ended when the window was over.
        user: int64, whose it is; -1 if nobody knows.
        flavour: int64, index into `flavours`.
        flavours: all kinds of jobs.
        name: for people.
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
            raise WorkloadError(f"{self.name}: jobs are one or more, with columns of one length.")

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return len(self.begin_s)

    def seen(self, from_s: float, until_s: float) -> "ObservedJobs":
        """Return what a window tells: jobs that begin in it, censored at its end.

        Raises:
            WorkloadError: none begins in it.
        """
        kept = (self.begin_s >= from_s) & (self.begin_s < until_s)
        if not kept.any():
            raise WorkloadError(f"{self.name}: no job begins from {from_s:g} s to {until_s:g} s.")
        begin_s, lived_s = self.begin_s[kept], self.lived_s[kept]
        cut = begin_s + lived_s > until_s
        return ObservedJobs(
            begin_s=begin_s,
            lived_s=np.where(cut, until_s - begin_s, lived_s),
            censored=np.where(cut, 1, self.censored[kept]),
            user=self.user[kept],
            flavour=self.flavour[kept],
            flavours=self.flavours,
            name=self.name,
        )

    def batches(self, period_s: float, bins: Bins) -> tuple[CloudTrace, Ints]:
        """Return the batches: what one user begins within one period.

        Args:
            period_s: length of a period in seconds, above 0.
            bins: of lifetimes.

        Returns:
            the batches; int64 [n_jobs], the row here of each of their jobs.

        Raises:
            WorkloadError: no user is known.
        """
        if (self.user == UNKNOWN).all():
            raise WorkloadError(
                f"{self.name}: no job tells its user, and batches are made by users; fit another "
                "generator, such as resampling."
            )
        period = np.floor(self.begin_s / period_s).astype(np.int64)
        # Jobs of unknown users belong to nobody else: each is a batch of its own.
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


def kinds_of(
    requests: Ints, size: Ints, most: int
) -> tuple[Ints, NDArray[np.int64], tuple[int, ...]]:
    """Number what jobs ask for: the most frequent requests one by one, all others by their size.

    Args:
        requests: int64 [n, n_dimensions].
        size: int64 [n], such as processors; others share a number with those up to the same power
            of two.
        most: requests with a number of their own.

    Returns:
        int64 [n], the number of each; the requests with numbers of their own, in order; for the
        numbers after those the powers of two.
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
