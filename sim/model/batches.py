"""Jobs in batches in periods: what the three stages are fitted to and scored on."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.bins import PAPER, Bins

Ints = NDArray[np.int64]
UNKNOWN = -1


@dataclass(frozen=True)
class Flavour:
    """What one kind of job asks for.

    Attributes:
        name: for people and files.
        mcpu: thousandths of a core.
        mem_bytes: memory in bytes; -1 is unknown.
        mgpu: thousandths of a GPU; -1 is unknown.
        requested_s: time asked for in whole seconds; -1 is unknown, or is not one.
    """

    name: str
    mcpu: int
    mem_bytes: int = UNKNOWN
    mgpu: int = UNKNOWN
    requested_s: int = UNKNOWN


@dataclass(frozen=True, eq=False)
class CloudTrace:
    """Jobs of one window of observation, in order of period, then batch, then arrival.

    A batch is what one user asks for within one period. Columns have shape [n_jobs], are read-only,
    and hold whole numbers.

    Attributes:
        period: number of the period in which each job begins, never falling.
        batch: number of its batch, from 0, rising by 0 or 1; a batch lies within a period.
        flavour: index into `flavours`.
        lifetime: bin of its lifetime; for a censored job the bin in which it was seen last. -1
            where lifetimes are unknown, and then of all.
        censored: 1 if it had not ended when the window was over.
        flavours: all kinds of jobs.
        first_period: of the window; periods without jobs belong to it.
        n_periods: of the window.
        period_s: length of a period in seconds; period 0 begins at the clock's zero, which is taken
            as midnight from a Wednesday to a Thursday (1 January 1970), as in the paper.
        bins: of lifetimes.
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
                "a trace of batches has one or more jobs, and columns of one length."
            )
        steps, new = np.diff(self.period), np.diff(self.batch)
        if (steps < 0).any() or not np.isin(new, (0, 1)).all() or (steps[new == 0] != 0).any():
            raise WorkloadError("batches of a trace are in order, each within one period.")
        inside = (self.period >= self.first_period).all() and (
            self.period < self.first_period + self.n_periods
        ).all()
        known = (self.flavour >= 0).all() and (self.flavour < len(self.flavours)).all()
        lived = (self.lifetime >= UNKNOWN).all() and (self.lifetime < self.bins.n).all()
        if not (inside and known and lived):
            raise WorkloadError("a period, flavour or lifetime of a trace lies outside of its own.")
        for column in columns:
            column.setflags(write=False)

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return len(self.period)

    @property
    def n_batches(self) -> int:
        """Number of batches."""
        return int(self.batch[-1]) - int(self.batch[0]) + 1

    @property
    def knows_lifetimes(self) -> bool:
        """Whether lifetimes are known."""
        return bool(self.lifetime[0] != UNKNOWN)

    @property
    def first_in_batch(self) -> NDArray[np.bool_]:
        """Whether a job is the first of its batch: bool [n_jobs]."""
        return np.concatenate([[True], np.diff(self.batch) > 0])

    @property
    def batch_sizes(self) -> Ints:
        """Jobs of each batch: int64 [n_batches]."""
        return np.bincount(self.batch - self.batch[0])

    def batches_by_period(self) -> Ints:
        """Return how many batches begin in each period of the window: int64 [n_periods]."""
        begun = self.period[self.first_in_batch] - self.first_period
        return np.bincount(begun, minlength=self.n_periods)

    def jobs_by_period(self) -> Ints:
        """Return how many jobs begin in each period of the window: int64 [n_periods]."""
        return np.bincount(self.period - self.first_period, minlength=self.n_periods)

    def part(self, first_period: int, stop_period: int) -> "CloudTrace":
        """Return the window from a period up to another, without that.

        Lifetimes stay as they are known, also where they end after the window.

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
        """Return this trace followed by another with the same flavours, periods and bins.

        Raises:
            WorkloadError: they do not go together.
        """
        alike = (self.flavours, self.period_s, self.bins) == (
            later.flavours, later.period_s, later.bins,
        )  # fmt: skip
        if not alike or later.first_period < self.first_period + self.n_periods:
            raise WorkloadError(
                "traces are joined if they have the same flavours, one after another."
            )
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
