"""The job schedule of a run: simulate it again, assign processors to jobs, and draw it.

The simulator counts processors without naming them, so the place of a job is unknown. For a
picture each job is given processors here that it could have had.

The parts of a schedule that are drawn: a time window, its jobs, classes, curves, differences.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_futures import FutureScheduling
from assistant.core.errors import ApplicationError
from assistant.core.objective import Measure
from assistant.core.ports import Application
from assistant.presentation.charts.schedule import (
    ClassWaits,
    DensityCell,
    JobBox,
    StepLine,
    WaitChange,
)
from sim.api import JobState, Scenario, SimulationResult, admit, format_duration
from sim.metrics import SIZE_CLASSES, TAU_S
from strategies import Level

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


_STATES = {
    JobState.COMPLETED: "completed",
    JobState.KILLED: "killed at its requested time",
    JobState.REJECTED: "rejected",
}


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """A partition, whose processors have consecutive numbers from ``first`` in the cluster.

    A queue on the processors of another partition has the range of that one: ``on`` is the index
    of the partition whose processors they are, its own otherwise.
    """

    name: str
    procs: int
    first: int
    on: int


@dataclass(frozen=True, eq=False, slots=True)
class StepFunction:
    """A piecewise constant function of time, as the times of its changes and its values.

    Attributes:
        time_s: float64 [n], strictly increasing.
        value: float64 [n], value from each time to the next; 0 before the first.
    """

    time_s: Floats
    value: Floats


@dataclass(frozen=True, eq=False, slots=True)
class ProcessorRanges:
    """The contiguous ranges of processors assigned to jobs, one row per range, by job start.

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
    """One job of a schedule, with times in seconds; start and end are None if rejected."""

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
    """Times and processors of all jobs, as columns of shape [n_jobs] in submission order.

    Attributes:
        job_id: int64, as in the log.
        submit_s: float64, seconds since the first submission.
        start_s: float64; NaN for a rejected job.
        end_s: float64; NaN for a rejected job.
        requested_s: float64, as logged.
        asked_procs: int64, as logged.
        procs: int64, as run: fewer if a job was clipped, or started on fewer.
        partition: int64, index into ``parts``; -1 for a rejected job.
        user: int64; -1 if unknown.
        state: int8, as in `SimulationResult`.
        ideal_s: float64, run time on the requested processors, if jobs are moldable; else None.
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
    ideal_s: Floats | None = None

    @property
    def n_jobs(self) -> int:
        """The number of jobs of the workload."""
        return len(self.job_id)

    @property
    def total_procs(self) -> int:
        """The number of processors of all partitions that have their own."""
        return sum(part.procs for i, part in enumerate(self.parts) if part.on == i)

    @cached_property
    def ran(self) -> NDArray[np.bool_]:
        """Mask of the jobs that were not rejected: bool [n_jobs]."""
        return self.partition >= 0

    @cached_property
    def wait_s(self) -> Floats:
        """Start minus submission in seconds: float64 [n_jobs], NaN for a rejected job."""
        return self.start_s - self.submit_s

    @cached_property
    def bounded_slowdown(self) -> Floats:
        """The bounded slowdown of each job: float64 [n_jobs], NaN for a rejected job."""
        runtime_s = self.end_s - self.start_s
        ideal_s = runtime_s if self.ideal_s is None else self.ideal_s
        stretched = (self.wait_s + runtime_s) / np.maximum(ideal_s, TAU_S)
        return np.asarray(np.maximum(stretched, 1.0))

    @cached_property
    def span_s(self) -> float:
        """Seconds from the first submission to the last end or submission."""
        ends = self.end_s[self.ran]
        return float(max(self.submit_s.max(), ends.max(initial=0.0)))

    @cached_property
    def places(self) -> ProcessorRanges:
        """The processors assigned to each job by `processor_ranges`."""
        return processor_ranges(self)

    @cached_property
    def queue(self) -> StepFunction:
        """The number of waiting jobs over time, without rejected jobs."""
        rows = np.flatnonzero(self.ran)
        return _balance(self.submit_s[rows], self.start_s[rows], np.ones(len(rows)))

    def used(self, partition: int | None = None) -> StepFunction:
        """Return the number of busy processors over time, in one partition or in the cluster."""
        rows = np.flatnonzero(self.ran if partition is None else self.partition == partition)
        return _balance(self.start_s[rows], self.end_s[rows], self.procs[rows].astype(np.float64))

    def row_of(self, job_id: int) -> int | None:
        """Return the row of the job with this id in the log, or None if there is none."""
        rows = np.flatnonzero(self.job_id == job_id)
        return int(rows[0]) if len(rows) else None

    def job(self, row: int) -> ScheduledJob:
        """Return the job in the given row of the schedule."""
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
    """Simulate a configuration again, with the first workload if several; return its schedule.

    Raises:
        ApplicationError: the application does not simulate jobs.
        RunError: the simulator refuses the scenario.
    """
    if not isinstance(application, Scheduling):
        raise ApplicationError(
            f"the application '{application.name}' has no schedule; only 'scheduling' has one"
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
    """Convert the result of a simulation to a job schedule."""
    jobs, partitions = scenario.workload, scenario.cluster.partitions
    firsts = np.cumsum([0, *(part.procs for part in partitions)]).tolist()
    index = {part.name: i for i, part in enumerate(partitions)}
    hosts = [index[part.name if part.on is None else part.on] for part in partitions]
    admission = admit(scenario)
    return JobSchedule(
        job_id=jobs.job_id,
        submit_s=result.submissions_s(jobs),
        start_s=result.start_s,
        end_s=result.end_s,
        requested_s=jobs.requested_s,
        asked_procs=jobs.procs,
        procs=admission.procs if result.procs is None else result.procs,
        partition=result.partition,
        user=jobs.user,
        state=result.state,
        parts=tuple(
            PartitionRange(part.name, partitions[host].procs, firsts[host], host)
            for part, host in zip(partitions, hosts, strict=True)
        ),
        measures=dict(measures or {}),
        ideal_s=None if result.procs is None else admission.runtime_s,
    )


def processor_ranges(jobs: JobSchedule) -> ProcessorRanges:
    """Assign free processors of its partition to every job, for the time that the job runs.

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
    widths = jobs.procs.tolist()
    parts = [jobs.parts[part].on for part in jobs.partition.tolist()]
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
        """Allocate ``width`` free processors (at most `n`) and return their ranges."""
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
        """Release the processors of a range and merge the range with its neighbours."""
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


MOST_JOBS = 5_000  # Most jobs drawn as boxes in a window; the others are shaded

MOST_BOXES = 10_000  # Most boxes; a job on several pieces of processors has several boxes

MOST_POINTS = 500

JobGrouping = Literal["wait", "requested time", "processors", "partition", "user", "change"]

_GRID = (96, 40)  # Bins of time and of processors in the shade

_AT_ONCE = 20_000  # Most pieces whose shade is summed at once (about 15 MB)

_WAITS_S = (0.0, 600.0, 3_600.0, 10_800.0, 43_200.0)
_WAITS = ("none", "up to 10 min", "up to 1 h", "up to 3 h", "up to 12 h", "over 12 h")
_TIMES_S = (3_600.0, 28_800.0)
_TIMES = ("short: under 1 h", "medium: 1 to 8 h", "long: over 8 h")
_MUCH_S = 3_600.0
_CHANGES = ("over 1 h earlier", "earlier", "at the same time", "later", "over 1 h later")
_USERS = 7


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A time window, in seconds since the first submission."""

    from_s: float
    to_s: float

    @property
    def width_s(self) -> float:
        """The width of the window in seconds."""
        return self.to_s - self.from_s

    def inside(self, span_s: float) -> "TimeWindow":
        """Return a non-empty window, shifted and cut to fit between 0 and ``span_s`` seconds."""
        width = min(max(self.width_s, _least(span_s)), _whole(span_s))
        start = min(max(self.from_s, 0.0), _whole(span_s) - width)
        return TimeWindow(start, start + width)

    def zoomed(self, factor: float, span_s: float) -> "TimeWindow":
        """Return a window ``factor`` times as wide with the same middle, within the span."""
        middle, half = (self.from_s + self.to_s) / 2, self.width_s * factor / 2
        return TimeWindow(middle - half, middle + half).inside(span_s)

    def moved(self, share: float, span_s: float) -> "TimeWindow":
        """Return the window moved later by a share of its width (earlier if negative)."""
        by = share * self.width_s
        return TimeWindow(self.from_s + by, self.to_s + by).inside(span_s)

    def holds(self, jobs: JobSchedule) -> NDArray[np.bool_]:
        """Return a mask of the jobs that run at some time in the window: bool [n_jobs]."""
        lasts = jobs.end_s > jobs.start_s  # false for a rejected job
        return lasts & (jobs.start_s < self.to_s) & (jobs.end_s > self.from_s)


@dataclass(frozen=True, eq=False)
class JobClasses:
    """A classification of jobs: ``of``, int64 [n_jobs], is each job's class index in ``names``."""

    names: tuple[str, ...]
    of: Ints


@dataclass(frozen=True, slots=True)
class WindowDrawing:
    """The drawing of a time window, with the largest jobs as boxes and the others as shading."""

    boxes: tuple[JobBox, ...]
    shades: tuple[DensityCell, ...]
    n_jobs: int
    n_drawn: int


@dataclass(frozen=True, eq=False)
class ScheduleComparison:
    """The differences in seconds (``later_s``) of the start times of jobs in two schedules."""

    later_s: Floats
    n_only_here: int
    n_only_there: int

    @cached_property
    def _known(self) -> Floats:
        return np.asarray(self.later_s[~np.isnan(self.later_s)])

    @property
    def n(self) -> int:
        """The number of jobs that run in both schedules."""
        return len(self._known)

    @property
    def mean_s(self) -> float | None:
        """Mean difference of start times in seconds, or None if no job runs in both."""
        return float(self._known.mean()) if self.n else None

    @property
    def earlier(self) -> tuple[int, float]:
        """Number of jobs that start earlier in the first schedule, with their mean gain in s."""
        return _count_and_mean(-self._known[self._known < 0])

    @property
    def later(self) -> tuple[int, float]:
        """Number of jobs that start later in the first schedule, with their mean loss in s."""
        return _count_and_mean(self._known[self._known > 0])

    def extremes(self, n: int) -> Ints:
        """Return the rows of the ``n`` jobs with the largest change of start time."""
        moved = np.flatnonzero(np.nan_to_num(self.later_s) != 0.0)
        return np.asarray(moved[np.argsort(-np.abs(self.later_s[moved]), kind="stable")][:n])


def busiest(jobs: JobSchedule, most: int = MOST_JOBS) -> TimeWindow:
    """Return the whole span, or a window around the longest queue with ``most`` jobs or fewer."""
    window = TimeWindow(0.0, jobs.span_s).inside(jobs.span_s)
    queue = jobs.queue
    peak = float(queue.time_s[int(np.argmax(queue.value))])
    for _ in range(40):  # a window half as wide at each look
        if np.count_nonzero(window.holds(jobs)) <= most:
            break
        width = window.width_s / 2
        window = TimeWindow(peak - width / 2, peak + width / 2).inside(jobs.span_s)
    return window


def classes(
    jobs: JobSchedule, by: JobGrouping, comparison: ScheduleComparison | None = None
) -> JobClasses:
    """Classify the jobs of a schedule by wait, size, user or another property.

    Args:
        jobs: schedule of the jobs.
        by: wait; requested time; processors, as submitted; partition; user (the seven with the most
            jobs by name); or change of the start compared with another schedule.
        comparison: comparison with the other schedule, for ``change``.

    Raises:
        ApplicationError: ``by`` is ``change`` without a comparison.
    """
    match by:
        case "wait":
            of = np.searchsorted(_WAITS_S, jobs.wait_s, side="left")
            return JobClasses(_WAITS, np.minimum(of, len(_WAITS) - 1))
        case "requested time":
            return JobClasses(_TIMES, np.digitize(jobs.requested_s, _TIMES_S))
        case "processors":
            least = [first for _, first, _ in SIZE_CLASSES]
            of = np.digitize(jobs.asked_procs, least) - 1
            present = np.unique(of)
            return JobClasses(
                tuple(SIZE_CLASSES[i][0] for i in present), np.searchsorted(present, of)
            )
        case "partition":
            parts = (*(part.name for part in jobs.parts), "rejected")
            of = np.where(jobs.ran, jobs.partition, len(jobs.parts))
            return JobClasses(parts if not jobs.ran.all() else parts[:-1], of)
        case "user":
            return _users(jobs.user)
        case "change":
            if comparison is None:
                raise ApplicationError("there is no other schedule to compare with; choose a run")
            return _changes_of(comparison.later_s)


def _changes_of(later_s: Floats) -> JobClasses:
    hardly = (later_s >= -_MUCH_S).astype(np.int64)
    of = hardly + (later_s >= 0) + (later_s > 0) + (later_s > _MUCH_S)
    unknown = np.isnan(later_s)
    names = (*_CHANGES, "not in both") if unknown.any() else _CHANGES
    return JobClasses(names, np.where(unknown, len(_CHANGES), of))


def _users(user: Ints) -> JobClasses:
    users, position, count = np.unique(user, return_inverse=True, return_counts=True)
    most = sorted(range(len(users)), key=lambda i: (-count[i], users[i]))
    top = most if len(most) <= _USERS + 1 else most[:_USERS]
    names = ["unknown" if users[i] < 0 else f"user {users[i]}" for i in top]
    place = np.full(len(users), len(top), dtype=np.int64)
    place[top] = np.arange(len(top))
    if len(top) < len(users):
        names.append(f"{len(users) - len(top):,} others")
    return JobClasses(tuple(names), np.asarray(place[position]))


def drawing_of(
    jobs: JobSchedule,
    window: TimeWindow,
    kinds: JobClasses,
    most: int = MOST_JOBS,
    most_boxes: int = MOST_BOXES,
) -> WindowDrawing:
    """Draw the jobs of a window as boxes; beyond ``most`` jobs, shade all but the largest.

    Size is processor-seconds inside the window. The other jobs are shaded: their share of each bin
    of time and processors.
    """
    rows = np.flatnonzero(window.holds(jobs))
    until_s = np.minimum(jobs.end_s[rows], window.to_s)
    area = jobs.procs[rows] * (until_s - np.maximum(jobs.start_s[rows], window.from_s))
    largest = rows[np.argsort(-area, kind="stable")][:most]
    n_pieces = np.bincount(jobs.places.row, minlength=jobs.n_jobs)[largest]
    is_box = np.zeros(jobs.n_jobs, dtype=np.bool_)
    is_box[largest[np.cumsum(n_pieces) <= most_boxes]] = True
    rest = np.zeros(jobs.n_jobs, dtype=np.bool_)
    rest[rows] = True
    rest &= ~is_box
    return WindowDrawing(
        _boxes(jobs, is_box, kinds), _shades(jobs, rest, window), len(rows), int(is_box.sum())
    )


def _boxes(jobs: JobSchedule, is_box: NDArray[np.bool_], kinds: JobClasses) -> tuple[JobBox, ...]:
    places = jobs.places
    pieces = np.flatnonzero(is_box[places.row])
    row = places.row[pieces]
    return tuple(
        JobBox(job, submit, start, end, low, high, procs, format_duration(wait), kinds.names[kind])
        for job, submit, start, end, low, high, procs, wait, kind in zip(
            jobs.job_id[row].tolist(),
            jobs.submit_s[row].tolist(),
            jobs.start_s[row].tolist(),
            jobs.end_s[row].tolist(),
            places.low[pieces].tolist(),
            places.high[pieces].tolist(),
            jobs.procs[row].tolist(),
            jobs.wait_s[row].tolist(),
            kinds.of[row].tolist(),
            strict=True,
        )
    )


def _shades(
    jobs: JobSchedule, rest: NDArray[np.bool_], window: TimeWindow
) -> tuple[DensityCell, ...]:
    places = jobs.places
    pieces = np.flatnonzero(rest[places.row])
    n_times, n_bands = _GRID[0], min(_GRID[1], jobs.total_procs)
    times = np.linspace(window.from_s, window.to_s, n_times + 1)
    bands = np.linspace(0.0, jobs.total_procs, n_bands + 1)
    taken = np.zeros((n_times, n_bands))
    for some in np.array_split(pieces, len(pieces) // _AT_ONCE + 1):
        row = places.row[some]
        in_time = _overlaps(jobs.start_s[row], jobs.end_s[row], times)
        taken += in_time.T @ _overlaps(places.low[some], places.high[some], bands)
    share = taken / np.outer(np.diff(times), np.diff(bands))
    return tuple(
        DensityCell(
            float(times[i]), float(times[i + 1]), float(bands[j]), float(bands[j + 1]),
            float(share[i, j]),
        )
        for i, j in np.argwhere(share > 1e-9).tolist()
    )  # fmt: skip


def _overlaps(low: Floats | Ints, high: Floats | Ints, edges: Floats) -> Floats:
    """Return the overlap of each piece with each bin: float64 [n_pieces, n_edges - 1]."""
    start = np.maximum(low[:, None], edges[None, :-1])
    return np.asarray(np.maximum(np.minimum(high[:, None], edges[None, 1:]) - start, 0.0))


def curve(name: str, steps: StepFunction, window: TimeWindow, scale: float = 1.0) -> StepLine:
    """Return the line of a step function in a window, averaged in bins if it has many steps."""
    inside = (steps.time_s > window.from_s) & (steps.time_s < window.to_s)
    if np.count_nonzero(inside) <= MOST_POINTS:
        times = np.concatenate([[window.from_s], steps.time_s[inside]])
        values = at(steps, times)
        return StepLine(name, _points(times, values / scale, window.to_s))
    edges = np.linspace(window.from_s, window.to_s, MOST_POINTS + 1)
    return StepLine(
        name,
        _points(edges[:-1], means(steps, edges) / scale, window.to_s),
        _points(edges[:-1], peaks(steps, edges) / scale, window.to_s),
    )


def _points(times: Floats, values: Floats, end_s: float) -> tuple[tuple[float, float], ...]:
    drawn_until = [(end_s, float(values[-1]))]
    return (*zip(times.tolist(), values.tolist(), strict=True), *drawn_until)


def at(steps: StepFunction, times_s: Floats) -> Floats:
    """Evaluate a step function at given times: float64 of the shape of ``times_s``."""
    values = np.concatenate([[0.0], steps.value])
    return np.asarray(values[np.searchsorted(steps.time_s, times_s, side="right")])


def means(steps: StepFunction, edges_s: Floats) -> Floats:
    """Return the time average of a step function in each interval: float64 [n_edges - 1]."""
    areas = np.cumsum(steps.value[:-1] * np.diff(steps.time_s))
    until = np.concatenate([[0.0], areas])  # area up to each step
    last = np.searchsorted(steps.time_s, edges_s, side="right") - 1
    index = np.maximum(last, 0)
    since = (edges_s - steps.time_s[index]) * steps.value[index]
    area = np.where(last < 0, 0.0, until[index] + since)
    return np.asarray(np.diff(area) / np.diff(edges_s))


def peaks(steps: StepFunction, edges_s: Floats) -> Floats:
    """Return the maximum of a step function in each interval: float64 [n_edges - 1]."""
    values = np.concatenate([[0.0], steps.value, [-np.inf]])
    first = np.searchsorted(steps.time_s, edges_s[:-1], side="right")
    past = np.searchsorted(steps.time_s, edges_s[1:], side="left") + 1
    pairs = np.stack([first, np.maximum(past, first + 1)], axis=1).ravel()
    return np.asarray(np.maximum.reduceat(values, pairs)[::2])


def waits(jobs: JobSchedule, window: TimeWindow, kinds: JobClasses) -> tuple[ClassWaits, ...]:
    """Return statistics of the waits of the jobs submitted in a window, by class."""
    submitted = jobs.ran & (jobs.submit_s >= window.from_s) & (jobs.submit_s <= window.to_s)
    return tuple(
        _class_waits(name, jobs.wait_s[submitted & (kinds.of == i)])
        for i, name in enumerate(kinds.names)
    )


def _class_waits(name: str, wait_s: Floats) -> ClassWaits:
    if not len(wait_s):
        return ClassWaits(name, 0, None, None, None, None, None, None)
    low, median, high, p95 = np.percentile(wait_s, [25, 50, 75, 95]).tolist()
    n, mean, most = len(wait_s), float(wait_s.mean()), float(wait_s.max())
    return ClassWaits(name, n, mean, low, median, high, p95, most)


def compare_schedules(here: JobSchedule, there: JobSchedule) -> ScheduleComparison:
    """Compare the start times in two schedules of the same jobs (``here`` minus ``there``)."""
    if not np.array_equal(here.job_id, there.job_id):
        raise ApplicationError("the two runs have different jobs and cannot be compared")
    return ScheduleComparison(
        here.start_s - there.start_s,
        int((here.ran & ~there.ran).sum()),
        int((there.ran & ~here.ran).sum()),
    )


def changes(
    jobs: JobSchedule, comparison: ScheduleComparison, window: TimeWindow
) -> tuple[WaitChange, ...]:
    """Return percentiles of the start time changes in a window, by bins of submission time."""
    both_start = ~np.isnan(comparison.later_s)
    inside = both_start & (jobs.submit_s >= window.from_s) & (jobs.submit_s <= window.to_s)
    rows = np.flatnonzero(inside)
    n_bins = int(min(60, max(len(rows) // 5, 1)))
    edges = np.linspace(window.from_s, window.to_s, n_bins + 1)
    of = np.clip(np.searchsorted(edges, jobs.submit_s[rows], side="right") - 1, 0, n_bins - 1)
    bins = []
    for i in np.unique(of).tolist():
        later_s = comparison.later_s[rows[of == i]]
        low, median, high = np.percentile(later_s, [10, 50, 90]).tolist()
        bins.append(
            WaitChange(float(edges[i]), float(edges[i + 1]), len(later_s), low, median, high)
        )
    return tuple(bins)


def _whole(span_s: float) -> float:
    return max(span_s, 1.0)


def _least(span_s: float) -> float:
    return min(60.0, _whole(span_s) / 10)


def _count_and_mean(values: Floats) -> tuple[int, float]:
    return len(values), float(values.mean()) if len(values) else 0.0
