"""The schedule behind a run: its configuration is simulated again, and every job gets a place.

The simulator counts processors without naming them, so the place of a job is unknown. For a
picture each job is given processors here that it could have had.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_futures import FutureScheduling
from assistant.core.errors import ApplicationError
from assistant.core.objective import Measure
from assistant.core.ports import Application
from sim.api import TAU_S, JobState, Scenario, SimulationResult, admit
from strategies import Level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


_STATES = {
    JobState.COMPLETED: "completed",
    JobState.KILLED: "ended at its request",
    JobState.REJECTED: "turned away",
}


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """A partition; its processors are numbered from ``first`` on, across the cluster."""

    name: str
    procs: int
    first: int


@dataclass(frozen=True, eq=False, slots=True)
class StepFunction:
    """A number that changes at instants.

    Attributes:
        time_s: float64 [n], strictly increasing.
        value: float64 [n], value from each time to the next; 0 before the first.
    """

    time_s: Floats
    value: Floats


@dataclass(frozen=True, eq=False, slots=True)
class ProcessorRanges:
    """Processors of jobs: one row per contiguous piece, the pieces in order of the jobs' starts.

    Attributes:
        row: int64 [n], row of the job.
        low: int64 [n], first processor, counted from 0 across the cluster.
        high: int64 [n], last processor + 1.
    """

    row: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """One job of a schedule. Times in seconds; None if a rejected job has no such time."""

    id: int
    state: str
    user: int | None
    partition: str | None
    submit_s: float
    start_s: float | None
    end_s: float | None
    wait_s: float | None
    runtime_s: float | None
    requested_s: float
    procs: int
    asked_procs: int
    bounded_slowdown: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class JobSchedule:
    """Times and processors of every job. Columns of shape [n_jobs], in order of submission.

    Attributes:
        job_id: int64, as in the log.
        submit_s: float64, seconds since the first submission.
        start_s: float64; NaN for a rejected job.
        end_s: float64; NaN for a rejected job.
        requested_s: float64, as logged.
        asked_procs: int64, as logged.
        procs: int64, as run: fewer if a job was clipped.
        partition: int64, index into ``parts``; -1 for a rejected job.
        user: int64; -1 if unknown.
        state: int8, as in `SimulationResult`.
    """

    job_id: Ints
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    requested_s: Floats
    asked_procs: Ints
    procs: Ints
    partition: Ints
    user: Ints
    state: NDArray[np.int8]
    parts: tuple[PartitionRange, ...]
    measures: Mapping[str, Measure]

    @property
    def n_jobs(self) -> int:
        """Return the number of jobs of the workload."""
        return len(self.job_id)

    @property
    def total_procs(self) -> int:
        """Return the number of processors of all partitions."""
        return sum(part.procs for part in self.parts)

    @cached_property
    def ran(self) -> NDArray[np.bool_]:
        """Return which jobs were not rejected: bool [n_jobs]."""
        return self.partition >= 0

    @cached_property
    def wait_s(self) -> Floats:
        """Return start minus submission: float64 [n_jobs], NaN for a rejected job."""
        return self.start_s - self.submit_s

    @cached_property
    def bounded_slowdown(self) -> Floats:
        """Return the bounded slowdown as in `sim.api`: float64 [n_jobs], NaN for a rejected job."""
        runtime_s = self.end_s - self.start_s
        stretched = (self.wait_s + runtime_s) / np.maximum(runtime_s, TAU_S)
        return np.asarray(np.maximum(stretched, 1.0))

    @cached_property
    def span_s(self) -> float:
        """Return the seconds from the first submission to the last end or submission."""
        ends = self.end_s[self.ran]
        return float(max(self.submit_s[-1], ends.max(initial=0.0)))

    @cached_property
    def places(self) -> ProcessorRanges:
        """Return the processors of the jobs; see `processor_ranges`."""
        return processor_ranges(self)

    @cached_property
    def queue(self) -> StepFunction:
        """Return the number of jobs that wait over time; a rejected job never waits."""
        rows = np.flatnonzero(self.ran)
        return _balance(self.submit_s[rows], self.start_s[rows], np.ones(len(rows)))

    def used(self, partition: int | None = None) -> StepFunction:
        """Return processors in use over time, of one partition or of the cluster."""
        rows = np.flatnonzero(self.ran if partition is None else self.partition == partition)
        return _balance(self.start_s[rows], self.end_s[rows], self.procs[rows].astype(np.float64))

    def row_of(self, job_id: int) -> int | None:
        """Return the row of a job by its id in the log; None if there is none."""
        rows = np.flatnonzero(self.job_id == job_id)
        return int(rows[0]) if len(rows) else None

    def job(self, row: int) -> ScheduledJob:
        """Return the job in a row of the columns."""
        ran = bool(self.ran[row])

        def number_or_none(value: float) -> float | None:
            return float(value) if ran else None

        return ScheduledJob(
            id=int(self.job_id[row]),
            state=_STATES[JobState(int(self.state[row]))],
            user=None if self.user[row] < 0 else int(self.user[row]),
            partition=self.parts[self.partition[row]].name if ran else None,
            submit_s=float(self.submit_s[row]),
            start_s=number_or_none(self.start_s[row]),
            end_s=number_or_none(self.end_s[row]),
            wait_s=number_or_none(self.wait_s[row]),
            runtime_s=number_or_none(self.end_s[row] - self.start_s[row]),
            requested_s=float(self.requested_s[row]),
            procs=int(self.procs[row]),
            asked_procs=int(self.asked_procs[row]),
            bounded_slowdown=number_or_none(self.bounded_slowdown[row]),
        )


def schedule_of(application: Application, values: Mapping[str, Level], seed: int) -> JobSchedule:
    """Simulate one configuration again and return its schedule; for futures that of the first.

    Raises:
        ApplicationError: the application does not simulate jobs.
        RunError: the simulator refuses the scenario.
    """
    if not isinstance(application, Scheduling):
        raise ApplicationError(
            f"the application '{application.name}' gives measures and no schedule; only "
            "'scheduling' simulates jobs"
        )
    scenario, result = application.simulated(values, seed)
    if isinstance(
        application, FutureScheduling
    ):  # one schedule does not have the measures over all futures
        return schedule(scenario, result, application.evaluate(values, seed))
    return schedule(scenario, result, application.measured(scenario, result))


def schedule(
    scenario: Scenario, result: SimulationResult, measures: Mapping[str, Measure] | None = None
) -> JobSchedule:
    """Return the result of a simulation as a schedule."""
    jobs = scenario.workload
    firsts = np.cumsum([0, *(part.procs for part in scenario.cluster.partitions)])
    return JobSchedule(
        job_id=jobs.job_id,
        submit_s=jobs.submit_s,
        start_s=result.start_s,
        end_s=result.end_s,
        requested_s=jobs.requested_s,
        asked_procs=jobs.procs,
        procs=admit(scenario).procs,
        partition=result.partition,
        user=jobs.user,
        state=result.state,
        parts=tuple(
            PartitionRange(part.name, part.procs, int(first))
            for part, first in zip(scenario.cluster.partitions, firsts, strict=False)
        ),
        measures=dict(measures or {}),
    )


def processor_ranges(jobs: JobSchedule) -> ProcessorRanges:
    """Assign processors of its partition to every job while it runs.

    In order of start (ties as submitted) each job takes the lowest contiguous free processors that
    suffice; if there are none, the widest free pieces. Processors of a job that ends at an instant
    are free for jobs that start then. No two jobs overlap; a job without run time has no place.

    Raises:
        ApplicationError: a partition has too few processors for the schedule.
    """
    lasting = np.flatnonzero(jobs.ran & (jobs.end_s > jobs.start_s))
    when = np.concatenate([jobs.end_s[lasting], jobs.start_s[lasting]])
    starts = np.repeat([0, 1], len(lasting))
    rows = np.concatenate([lasting, lasting])
    order = np.lexsort((rows, starts, when))
    widths, parts = jobs.procs.tolist(), jobs.partition.tolist()
    free = [_FreeProcessors(part.first, part.first + part.procs) for part in jobs.parts]
    occupied: dict[int, list[tuple[int, int]]] = {}
    row, low, high = [], [], []
    for job, begins in zip(rows[order].tolist(), starts[order].tolist(), strict=True):
        pool = free[parts[job]]
        if not begins:
            for piece in occupied.pop(job):
                pool.give(*piece)
            continue
        if widths[job] > pool.n:
            raise ApplicationError(
                f"job {jobs.job_id[job]} cannot be drawn: it starts on {widths[job]} processors "
                f"when partition '{jobs.parts[parts[job]].name}' has {pool.n} free"
            )
        occupied[job] = pool.take(widths[job])
        for start, end in occupied[job]:
            row.append(job)
            low.append(start)
            high.append(end)
    return ProcessorRanges(*(np.array(column, dtype=np.int64) for column in (row, low, high)))


class _FreeProcessors:
    """Free processors as disjoint pieces from ``low[i]`` to ``high[i]``, in order."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high, self.n = [low], [high], high - low

    def take(self, width: int) -> list[tuple[int, int]]:
        """Take ``width`` processors, at most `n`."""
        self.n -= width
        low, high = self.low, self.high
        for i in range(len(low)):
            if high[i] - low[i] >= width:
                return [self._cut(i, width)]
        taken = []
        for i in sorted(range(len(low)), key=lambda i: (low[i] - high[i], low[i])):
            piece = min(width, high[i] - low[i])
            taken.append((low[i], low[i] + piece))
            low[i] += piece
            width -= piece
            if not width:
                break
        remaining = [i for i in range(len(low)) if low[i] < high[i]]
        self.low, self.high = [low[i] for i in remaining], [high[i] for i in remaining]
        return sorted(taken)

    def _cut(self, i: int, width: int) -> tuple[int, int]:
        start = self.low[i]
        if start + width == self.high[i]:
            del self.low[i], self.high[i]
        else:
            self.low[i] = start + width
        return start, start + width

    def give(self, start: int, end: int) -> None:
        """Return processors; merge neighbouring pieces."""
        self.n += end - start
        low, high = self.low, self.high
        i = bisect_left(low, start)
        joins_left, joins_right = i > 0 and high[i - 1] == start, i < len(low) and low[i] == end
        if joins_left and joins_right:
            high[i - 1] = high[i]
            del low[i], high[i]
        elif joins_left:
            high[i - 1] = end
        elif joins_right:
            low[i] = start
        else:
            low.insert(i, start)
            high.insert(i, end)


def _balance(up_s: Floats, down_s: Floats, amount: Floats) -> StepFunction:
    """Return the sum of amounts that are present over time; equal instants are one step."""
    when = np.concatenate([up_s, down_s])
    if not len(when):
        return StepFunction(np.zeros(1), np.zeros(1))
    time_s, position = np.unique(when, return_inverse=True)
    change = np.bincount(position, weights=np.concatenate([amount, -amount]))
    return StepFunction(time_s, np.cumsum(change))
