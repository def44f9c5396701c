"""The days of a workload, and draws of days: what the bootstrap of a comparison is over."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.hours import DAY_S, WallClock
from sim.model.workload import Workload
from sim.workloads.streams import Streams

Floats = NDArray[np.float64]

HOURS = 24
REPLICATES = 400
MOST_DAYS = 20_000
LEAST_COVER = 0.5
"""Of a day at the ends of a workload, for its rates to count."""


@dataclass(frozen=True)
class Days:
    """The days of a workload.

    Attributes:
        day: int64 [n_jobs], of each job, from 0.
        hours: float64 [n_days, 24], jobs.
        work: float64 [n_days], processor-seconds submitted.
        cover_s: float64 [n_days], seconds of the day between first and last submission.
    """

    day: NDArray[np.int64]
    hours: Floats
    work: Floats
    cover_s: Floats

    @classmethod
    def of(cls, workload: Workload) -> "Days":
        """Return the days of a workload by its own clock.

        Raises:
            WorkloadError: there are more than `MOST_DAYS`.
        """
        if workload.span_s > MOST_DAYS * DAY_S:
            raise WorkloadError(
                f"{workload.name} spans {workload.span_s / DAY_S:,.0f} days; workloads of at most "
                f"{MOST_DAYS:,} days can be compared."
            )
        local_s = WallClock.of(workload).local_s(workload.submit_s)
        since = np.floor(local_s / DAY_S)
        first = since.min()
        day = (since - first).astype(np.int64)
        n_days = int(day.max()) + 1
        hour = np.minimum(np.floor(np.mod(local_s, DAY_S) / 3600.0).astype(np.int64), HOURS - 1)
        cells = np.bincount(day * HOURS + hour, minlength=n_days * HOURS)
        work_proc_s = workload.procs * workload.runtime_s
        work = np.bincount(day, work_proc_s, minlength=n_days).astype(np.float64)
        begins = (first + np.arange(n_days)) * DAY_S
        ends = np.minimum(begins + DAY_S, local_s.max())
        cover_s = np.maximum(ends - np.maximum(begins, local_s.min()), 0.0)
        return cls(day, cells.reshape(n_days, HOURS).astype(np.float64), work, cover_s)

    @property
    def n_days(self) -> int:
        """Days from the first submission to the last, those without jobs too."""
        return len(self.work)

    @property
    def n_with_jobs(self) -> int:
        """Days on which jobs were submitted."""
        return int((self.hours.sum(1) > 0).sum())

    def rates(self) -> Floats:
        """Return jobs, processor-seconds and seconds of the days that count: [n_days, 3]."""
        counts = self.cover_s >= LEAST_COVER * DAY_S
        told = np.column_stack([self.hours.sum(1), self.work, self.cover_s])
        return np.where(counts[:, None], told, 0.0)


@dataclass(frozen=True)
class Draws:
    """How often each day is in each draw.

    Attributes:
        one: float64 [REPLICATES, n_days of the first].
        two: likewise of the second.
        own_one: of the first workload's days, as many as it has; for distances to itself.
        own_two: of the first workload's days, as many as the second has.
    """

    one: Floats
    two: Floats
    own_one: Floats
    own_two: Floats

    @classmethod
    def of(cls, days: tuple[Days, Days], seed: int) -> "Draws":
        """Draw the days of two workloads, each in a stream of its own."""
        streams = Streams(seed).inside("validation")
        n_one, n_two = days[0].n_days, days[1].n_days

        def drawn(name: str, n_draws: int, n_days: int) -> Floats:
            even = np.full(n_days, 1.0 / n_days)
            counts = streams.of(name).multinomial(n_draws, even, size=REPLICATES)
            floats: Floats = counts.astype(np.float64)
            return floats

        return cls(
            drawn("one", n_one, n_one), drawn("two", n_two, n_two),
            drawn("own one", n_one, n_one), drawn("own two", n_two, n_one),
        )  # fmt: skip
