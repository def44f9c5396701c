"""The parts of a schedule that are drawn: a time window, its jobs, classes, curves, differences.

Pure functions from a schedule to values of `assistant.presentation.charts.schedule`. What is
left out of a drawing is counted.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assistant.core.errors import ApplicationError
from assistant.presentation.charts.schedule import (
    ClassWaits,
    DensityCell,
    JobBox,
    StepLine,
    WaitChange,
)
from assistant.simtools.schedule import Floats, Ints, JobSchedule, StepFunction
from sim.api import SIZE_CLASSES, format_duration

MOST_JOBS = 5_000
"""Most jobs drawn as boxes in a window; the others are shaded."""

MOST_BOXES = 10_000
"""Most boxes; a job on several pieces of processors has several boxes."""

MOST_POINTS = 500

JobGrouping = Literal["wait", "requested time", "processors", "partition", "user", "change"]

_GRID = (96, 40)
"""Bins of time and of processors in the shade."""

_AT_ONCE = 20_000
"""Most pieces whose shade is summed at once (about 15 MB)."""

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
        """Return the width in seconds."""
        return self.to_s - self.from_s

    def inside(self, span_s: float) -> "TimeWindow":
        """Return the window moved and cut into 0 to ``span_s``; never empty."""
        width = min(max(self.width_s, _least(span_s)), _whole(span_s))
        start = min(max(self.from_s, 0.0), _whole(span_s) - width)
        return TimeWindow(start, start + width)

    def zoomed(self, factor: float, span_s: float) -> "TimeWindow":
        """Return a window ``factor`` times as wide around the same middle."""
        middle, half = (self.from_s + self.to_s) / 2, self.width_s * factor / 2
        return TimeWindow(middle - half, middle + half).inside(span_s)

    def moved(self, share: float, span_s: float) -> "TimeWindow":
        """Return a window moved by a share of its width, earlier if below 0."""
        by = share * self.width_s
        return TimeWindow(self.from_s + by, self.to_s + by).inside(span_s)

    def holds(self, jobs: JobSchedule) -> NDArray[np.bool_]:
        """Return which jobs run in the window: bool [n_jobs]; jobs without run time do not."""
        lasts = jobs.end_s > jobs.start_s  # false for a rejected job
        return lasts & (jobs.start_s < self.to_s) & (jobs.end_s > self.from_s)


@dataclass(frozen=True, eq=False)
class JobClasses:
    """Classes of jobs. ``of`` is int64 [n_jobs], indices into ``names``."""

    names: tuple[str, ...]
    of: Ints


@dataclass(frozen=True, slots=True)
class WindowDrawing:
    """The drawing of a window: ``n_drawn`` of ``n_jobs`` jobs as boxes, the others as shade."""

    boxes: tuple[JobBox, ...]
    shades: tuple[DensityCell, ...]
    n_jobs: int
    n_drawn: int


@dataclass(frozen=True, eq=False)
class ScheduleComparison:
    """Two schedules of the same jobs. ``later_s`` is float64 [n_jobs], NaN if one has no start."""

    later_s: Floats
    n_only_here: int
    n_only_there: int

    @cached_property
    def _known(self) -> Floats:
        return np.asarray(self.later_s[~np.isnan(self.later_s)])

    @property
    def n(self) -> int:
        """Return the number of jobs that run in both schedules."""
        return len(self._known)

    @property
    def mean_s(self) -> float | None:
        """Return the mean difference in wait, in seconds; None if no job runs in both."""
        return float(self._known.mean()) if self.n else None

    @property
    def earlier(self) -> tuple[int, float]:
        """Return the number of jobs that start earlier, and their mean gain in seconds (or 0)."""
        return _count_and_mean(-self._known[self._known < 0])

    @property
    def later(self) -> tuple[int, float]:
        """Return the number of jobs that start later, and their mean loss in seconds (or 0)."""
        return _count_and_mean(self._known[self._known > 0])

    def extremes(self, n: int) -> Ints:
        """Return the rows of at most ``n`` jobs whose start changed most, largest change first."""
        moved = np.flatnonzero(np.nan_to_num(self.later_s) != 0.0)
        return np.asarray(moved[np.argsort(-np.abs(self.later_s[moved]), kind="stable")][:n])


def busiest(jobs: JobSchedule, most: int = MOST_JOBS) -> TimeWindow:
    """Return the first window to show: everything, or ``most`` jobs at the longest queue."""
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
    """Return the jobs in classes.

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
            parts = (*(part.name for part in jobs.parts), "turned away")
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
    """Return the jobs of a window as boxes; if there are more than ``most``, the largest ones.

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
    """Return a number over a window: every step, or means (and peaks) of `MOST_POINTS` bins."""
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
    """Return the values at given times: float64 of the shape of ``times_s``."""
    values = np.concatenate([[0.0], steps.value])
    return np.asarray(values[np.searchsorted(steps.time_s, times_s, side="right")])


def means(steps: StepFunction, edges_s: Floats) -> Floats:
    """Return the exact mean over time between each two edges: float64 [n_edges - 1]."""
    areas = np.cumsum(steps.value[:-1] * np.diff(steps.time_s))
    until = np.concatenate([[0.0], areas])  # area up to each step
    last = np.searchsorted(steps.time_s, edges_s, side="right") - 1
    index = np.maximum(last, 0)
    since = (edges_s - steps.time_s[index]) * steps.value[index]
    area = np.where(last < 0, 0.0, until[index] + since)
    return np.asarray(np.diff(area) / np.diff(edges_s))


def peaks(steps: StepFunction, edges_s: Floats) -> Floats:
    """Return the highest value from each edge to before the next: float64 [n_edges - 1]."""
    values = np.concatenate([[0.0], steps.value, [-np.inf]])
    first = np.searchsorted(steps.time_s, edges_s[:-1], side="right")
    past = np.searchsorted(steps.time_s, edges_s[1:], side="left") + 1
    pairs = np.stack([first, np.maximum(past, first + 1)], axis=1).ravel()
    return np.asarray(np.maximum.reduceat(values, pairs)[::2])


def waits(jobs: JobSchedule, window: TimeWindow, kinds: JobClasses) -> tuple[ClassWaits, ...]:
    """Return the waits of the jobs submitted in a window, by class."""
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
    """Compare the starts of the same jobs: here minus there. Raises ApplicationError for others."""
    if not np.array_equal(here.job_id, there.job_id):
        raise ApplicationError("the two runs are not of the same jobs and cannot be compared")
    return ScheduleComparison(
        here.start_s - there.start_s,
        int((here.ran & ~there.ran).sum()),
        int((there.ran & ~here.ran).sum()),
    )


def changes(
    jobs: JobSchedule, comparison: ScheduleComparison, window: TimeWindow
) -> tuple[WaitChange, ...]:
    """Return how the starts changed, by bins of a window of submission times."""
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
