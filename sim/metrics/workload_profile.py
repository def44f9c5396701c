"""Profile of a workload before any simulation: statistics, load over time, and user shares.

Offered load, estimates and users follow Feitelson, Workload Modeling for Computer Systems
Performance Evaluation (2015), chapters 3, 8 and 9.
"""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from sim.metrics.schedule_metrics import SIZE_CLASSES
from sim.metrics.wall_clock import DAY_S, MONDAY_S, WEEK_S, Basis, WallClock
from sim.model.columns import MOST_COUNT, checked_machine
from sim.model.errors import WorkloadError
from sim.model.workload import UNKNOWN, FloatColumn, Workload

QUANTILES: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True)
class ColumnSummary:
    """Mean and quantiles of a column of numbers, with quantiles keyed like ``"0.5"``."""

    mean: float
    least: float
    most: float
    quantiles: dict[str, float]


@dataclass(frozen=True)
class WorkloadDescription:
    """Summary statistics of a workload.

    Attributes:
        n_users: number of known users; None if no user is known.
        span_s: seconds from the first to the last submission.
        max_procs: processors of the machine of the log; None where unknown.
        offered_load: processor-seconds submitted per processor-second of the span on `max_procs`;
            None if the machine is unknown or the span is 0.
        procs: summary in processors.
        runtime_s: summary in seconds; `requested_s` likewise.
        interarrival_s: summary of the seconds between submissions; None for a single job.
        size_classes: number of jobs by name of the class.
        requested_is_runtime: some requests are the run times themselves (clairvoyant).
        notes: notes of the reading rules, as sentences.
    """

    name: str
    digest: str
    n_jobs: int
    n_users: int | None
    span_s: float
    max_procs: int | None
    widest_procs: int
    offered_load: float | None
    procs: ColumnSummary
    runtime_s: ColumnSummary
    requested_s: ColumnSummary
    interarrival_s: ColumnSummary | None
    size_classes: dict[str, int]
    requested_is_runtime: bool
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the description as JSON-compatible dictionaries, lists and numbers."""
        return {**asdict(self), "notes": list(self.notes)}


def offered_load(workload: Workload, procs: int) -> float | None:
    """Return submitted processor-seconds per available processor-second, or None.

    Args:
        workload: the jobs.
        procs: processors of the machine, 1 to 2**53.

    Returns:
        Ratio; above 1 a machine of that size cannot keep up. None if all jobs arrive at one
        instant.

    Raises:
        WorkloadError: `procs` is not a possible number of processors.
    """
    procs = checked_machine(procs)
    if workload.span_s == 0:
        return None
    return float((workload.procs * workload.runtime_s).sum() / (procs * workload.span_s))


def describe(workload: Workload) -> WorkloadDescription:
    """Compute the summary statistics of a workload."""
    users = np.unique(workload.user[workload.user != UNKNOWN])
    gaps_s = np.diff(workload.submit_s)
    procs = workload.procs
    return WorkloadDescription(
        name=workload.name,
        digest=workload.digest,
        n_jobs=workload.n_jobs,
        n_users=len(users) or None,
        span_s=workload.span_s,
        max_procs=workload.max_procs,
        widest_procs=workload.widest_procs,
        offered_load=offered_load(workload, workload.max_procs) if workload.max_procs else None,
        procs=summary_of(procs.astype(np.float64)),
        runtime_s=summary_of(workload.runtime_s),
        requested_s=summary_of(workload.requested_s),
        interarrival_s=summary_of(gaps_s) if len(gaps_s) else None,
        size_classes={
            name: int(((procs >= least) & (procs <= most)).sum())
            for name, least, most in SIZE_CLASSES
        },
        requested_is_runtime=workload.requested_is_runtime,
        notes=tuple(note.sentence for note in workload.notes),
    )


def summary_of(values: NDArray[np.float64]) -> ColumnSummary:
    """Return mean and quantiles of a column, float64 [n] with n at least 1."""
    return ColumnSummary(
        mean=float(values.mean()),
        least=float(values.min()),
        most=float(values.max()),
        quantiles={
            f"{q:g}": float(value)
            for q, value in zip(QUANTILES, np.quantile(values, QUANTILES), strict=True)
        },
    )


MOST_BINS = 400  # Maximum of bins of the load; the smallest bin width that needs no more is used

WIDTHS_S: tuple[float, ...] = (3600.0, DAY_S, WEEK_S)

MOST_POINTS = 200
"""Maximum of points of a curve; all of its points are exact, and the others are left out."""

MOST_USERS = 10

TIME_ENDS_S: tuple[float, ...] = (
    1.0, 10.0, 60.0, 600.0, 1800.0, 3600.0, 10800.0, 21600.0, 43200.0, 86400.0, 172800.0, 345600.0,
)  # fmt: skip
"""Upper ends of the classes of times, in seconds; the last class is above them all."""

TENTHS = 10


@dataclass(frozen=True)
class ProfileWindow:
    """Rule that selects jobs of a log by position and submission time.

    Args:
        leave_out: number of first jobs to skip, while an empty machine fills.
        from_s: first submission time, in seconds since the first submission of the log.
        to_s: end of submission times, exclusive; None is no end.
    """

    leave_out: int = 0
    from_s: float = 0.0
    to_s: float | None = None

    def of(self, workload: Workload) -> Workload:
        """Return the selected jobs, with submission times that start at 0 s."""
        first = max(self.leave_out, int(np.searchsorted(workload.submit_s, self.from_s, "left")))
        stop = workload.n_jobs
        if self.to_s is not None:
            stop = int(np.searchsorted(workload.submit_s, self.to_s, "left"))
        if first >= stop:
            raise WorkloadError(
                f"no job of {workload.name} is left in the window; it has {workload.n_jobs:,} jobs "
                f"over {workload.span_s:,.0f} s, so leave out fewer or choose other times."
            )
        covers_all = first == 0 and stop == workload.n_jobs
        return workload if covers_all else workload.part(first, stop)


@dataclass(frozen=True)
class WeeklyArrivals:
    """Numbers of submissions by weekday and hour of the day.

    Attributes:
        counts: 7 rows of 24 numbers of jobs, Monday and midnight first; if the basis is
            ``unknown``, the first row begins with the first submission. None for an hour that the
            log does not cover.
    """

    basis: Basis
    zone: str | None
    sentence: str
    counts: tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class LoadBin:
    """Submitted and running work in one time interval.

    Attributes:
        start_s: begin in seconds since the first submission; the first bin may begin earlier.
        n_jobs: jobs submitted in it.
        offered_proc_s: processor-seconds of the jobs submitted in it.
        demand_proc_s: processor-seconds computed in it if every job started at its submission.
    """

    start_s: float
    n_jobs: int
    offered_proc_s: float
    demand_proc_s: float


@dataclass(frozen=True)
class LoadSeries:
    """Work over time, in bins of equal width from the first submission to the last.

    Attributes:
        width_s: width of every bin, in seconds.
        first_local_s: wall clock at the first submission, in seconds since its own 1 January 1970;
            None if unknown.
        bins: in order, without gaps. They begin at full hours, midnights or Mondays, if known.
        demand_after_proc_s: processor-seconds still to be computed after the last bin.
    """

    width_s: float
    first_local_s: float | None
    bins: tuple[LoadBin, ...]
    demand_after_proc_s: float


@dataclass(frozen=True)
class SizeClass:
    """Jobs on more than `most` / 2 and at most `most` processors; `most` is a power of two.

    `n_at_most` counts the jobs of exactly `most` processors.
    """

    most: int
    n_jobs: int
    n_at_most: int
    work_proc_s: float


@dataclass(frozen=True)
class TimeClass:
    """Jobs with run times above the previous class and up to `most_s` seconds."""

    most_s: float | None
    n_jobs: int
    work_proc_s: float


@dataclass(frozen=True)
class CumulativeDistribution:
    """Points of an empirical cumulative distribution: values, and the share up to each value."""

    values: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class RequestAccuracy:
    """Comparison of requested times with actual run times.

    Attributes:
        n_jobs: compared jobs. Requests that were replaced by run times are left out, and in such a
            log so is every job whose request equals its run time.
        n_left_out, n_exceeded: jobs that are not compared, and jobs that ran longer than requested.
        factor: summary of request / run time, at most 2**53, of jobs that ran for more than 0 s.
        used: jobs by the used tenth of the request: up to 10 %, ..., up to 100 %.
        grid: numbers of jobs by class of request (rows) and of run time, as in `TIME_ENDS_S`.
    """

    n_jobs: int
    n_left_out: int
    factor: ColumnSummary
    n_exceeded: int
    used: tuple[int, ...]
    grid: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class UserShare:
    """Jobs and processor-seconds of one user of a log."""

    user: int
    n_jobs: int
    work_proc_s: float


@dataclass(frozen=True)
class UserConcentration:
    """Inequality of processor-seconds among the known users of a log.

    Attributes:
        n_users, n_jobs_unknown: number of known users, and of jobs of unknown users.
        top: users with the most work, at most `MOST_USERS`.
        tenth_share: share of the known users' work that the top tenth of them (rounded up) has;
            None if there is no work.
        gini: Gini coefficient of their work, 0 if all have the same; None if there is no work.
    """

    n_users: int
    n_jobs_unknown: int
    top: tuple[UserShare, ...]
    tenth_share: float | None
    gini: float | None


@dataclass(frozen=True)
class WorkloadProfile:
    """Profile of a workload: statistics, load over time, classes and user shares.

    Attributes:
        described: the same jobs in numbers.
        procs: processors of the reference machine of loads; None if unknown.
        work_proc_s: processor-seconds of all jobs.
        offered_load: their load on `procs`, as in `offered_load`; None if unknown.
        n_serial, serial_work_proc_s: jobs on one processor, and their processor-seconds.
        n_power_of_two: jobs on 1, 2, 4, 8 ... processors.
        n_together: jobs submitted in the same second as the previous job.
        interarrival_cv: coefficient of variation of the times between submissions; 1 for a Poisson
            process. None if there are none.
        work_of_jobs: summary of the processor-seconds of a job.
        logged_wait_s: summary of the logged waits in seconds; None if there are none.
        arrivals, load: submissions by weekday and hour, and load over time.
        sizes, times: classes by processors, without empty classes at the end, and classes by run
            time.
        curves: ``procs``, ``runtime_s``, ``requested_s`` and, for several jobs, ``interarrival_s``.
        requests: requests compared with run times; None if no job can be compared.
        users: users and their work; None if no user is known.
    """

    described: WorkloadDescription
    procs: int | None
    work_proc_s: float
    offered_load: float | None
    n_serial: int
    serial_work_proc_s: float
    n_power_of_two: int
    n_together: int
    interarrival_cv: float | None
    work_of_jobs: ColumnSummary
    logged_wait_s: ColumnSummary | None
    arrivals: WeeklyArrivals
    load: LoadSeries
    sizes: tuple[SizeClass, ...]
    times: tuple[TimeClass, ...]
    curves: dict[str, CumulativeDistribution]
    requests: RequestAccuracy | None
    users: UserConcentration | None

    def to_dict(self) -> dict[str, object]:
        """Return the profile as JSON-compatible values, without the field `described`."""
        return {key: value for key, value in asdict(self).items() if key != "described"}


def profile(
    workload: Workload, *, procs: int | None = None, time_zone: str | None = None
) -> WorkloadProfile:
    """Compute the profile of a workload: statistics, load over time and user shares.

    Args:
        workload: jobs, for example from `ProfileWindow.of`.
        procs: processors of the machine; None is the number of the log.
        time_zone: time zone that overrides that of the log.

    Raises:
        WorkloadError: an impossible number of processors, or an unknown time zone.
    """
    machine = workload.max_procs if procs is None else checked_machine(procs)
    clock = WallClock.of(workload, time_zone)
    sizes, work = workload.procs, workload.procs * workload.runtime_s
    gaps_s = np.diff(workload.submit_s)
    waits_s = workload.logged_wait_s[~np.isnan(workload.logged_wait_s)]
    serial, powers = sizes == 1, (sizes & (sizes - 1)) == 0
    columns = {
        "procs": sizes.astype(np.float64),
        "runtime_s": workload.runtime_s,
        "requested_s": workload.requested_s,
        "interarrival_s": gaps_s,
    }
    covered, hours = clock.covered_hours(workload.submit_s), clock.hours(workload.submit_s)
    counts = tuple(
        tuple(n if is_covered else None for n, is_covered in zip(*of_day, strict=True))
        for of_day in zip(hours.tolist(), covered.tolist(), strict=True)
    )
    return WorkloadProfile(
        described=describe(workload),
        procs=machine,
        work_proc_s=float(work.sum()),
        offered_load=None if machine is None else offered_load(workload, machine),
        n_serial=int(serial.sum()),
        serial_work_proc_s=float(work[serial].sum()),
        n_power_of_two=int(powers.sum()),
        n_together=int((gaps_s == 0).sum()),
        interarrival_cv=float(gaps_s.std() / gaps_s.mean()) if gaps_s.any() else None,
        work_of_jobs=summary_of(work),
        logged_wait_s=summary_of(waits_s) if len(waits_s) else None,
        arrivals=WeeklyArrivals(clock.basis, clock.zone, clock.sentence, counts),
        load=_load(workload, clock, work),
        sizes=_sizes(workload, work),
        times=_times(workload, work),
        curves={name: _curve(values) for name, values in columns.items() if len(values)},
        requests=_requests(workload),
        users=_users(workload, work),
    )


def _load(workload: Workload, clock: WallClock, work: FloatColumn) -> LoadSeries:
    shown_s = None if clock.zone is None else float(clock.local_s(workload.submit_s[:1])[0])
    span_s = workload.span_s
    widths = [width for width in WIDTHS_S if span_s / width < MOST_BINS - 1]
    width_s = widths[0] if widths else np.ceil(span_s / WEEK_S / (MOST_BINS - 1)) * WEEK_S
    before_s = 0.0 if shown_s is None else float(np.mod(shown_s - MONDAY_S, width_s))
    n_bins = int((span_s + before_s) // width_s) + 1
    edges_s = np.arange(n_bins + 1) * width_s - before_s
    which = np.minimum(np.searchsorted(edges_s, workload.submit_s, "right") - 1, n_bins - 1)
    n_jobs = np.bincount(which, minlength=n_bins)
    offered = np.bincount(which, weights=work, minlength=n_bins)
    done = _computed_by(workload, edges_s)
    demand = np.maximum(np.diff(done), 0.0)
    bins = zip(
        edges_s[:-1].tolist(), n_jobs.tolist(), offered.tolist(), demand.tolist(), strict=True
    )
    after = max(float(work.sum()) - float(done[-1]), 0.0)
    return LoadSeries(float(width_s), shown_s, tuple(LoadBin(*row) for row in bins), after)


def _computed_by(workload: Workload, at_s: FloatColumn) -> FloatColumn:
    """Return the processor-seconds computed by some times if every job starts when submitted.

    By t a job has computed procs * ((t - submit)+ - (t - end)+); each of the two sums over jobs is
    one lookup in columns sorted by time.
    """

    def since(begin_s: FloatColumn, procs: FloatColumn) -> FloatColumn:
        order = np.argsort(begin_s, kind="stable")
        width = np.concatenate([[0.0], np.cumsum(procs[order])])
        moment = np.concatenate([[0.0], np.cumsum(procs[order] * begin_s[order])])
        n_begun = np.searchsorted(begin_s[order], at_s, "right")
        return np.asarray(at_s * width[n_begun] - moment[n_begun], dtype=np.float64)

    procs = workload.procs.astype(np.float64)
    return since(workload.submit_s, procs) - since(workload.submit_s + workload.runtime_s, procs)


def _sizes(workload: Workload, work: FloatColumn) -> tuple[SizeClass, ...]:
    powers = 2 ** np.arange(54, dtype=np.int64)
    which = np.searchsorted(powers, workload.procs, "left")
    n_classes = int(which.max()) + 1
    n_jobs = np.bincount(which, minlength=n_classes).tolist()
    at_most = np.bincount(which[workload.procs == powers[which]], minlength=n_classes).tolist()
    of_class = np.bincount(which, weights=work, minlength=n_classes).tolist()
    most = powers[:n_classes].tolist()
    return tuple(SizeClass(*row) for row in zip(most, n_jobs, at_most, of_class, strict=True))


def _times(workload: Workload, work: FloatColumn) -> tuple[TimeClass, ...]:
    which, n_classes = _time_class(workload.runtime_s), len(TIME_ENDS_S) + 1
    n_jobs = np.bincount(which, minlength=n_classes).tolist()
    of_class = np.bincount(which, weights=work, minlength=n_classes).tolist()
    most = (*TIME_ENDS_S, None)
    return tuple(TimeClass(*row) for row in zip(most, n_jobs, of_class, strict=True))


def _time_class(times_s: FloatColumn) -> NDArray[np.intp]:
    return np.searchsorted(np.array(TIME_ENDS_S), times_s, "left")


def _curve(column: FloatColumn) -> CumulativeDistribution:
    values, counts = np.unique(column, return_counts=True)
    shares = np.cumsum(counts) / len(column)
    if len(values) > MOST_POINTS:
        levels = np.linspace(0.0, 1.0, MOST_POINTS)
        points = np.unique(np.minimum(np.searchsorted(shares, levels, "left"), len(values) - 1))
        values, shares = values[points], shares[points]
    return CumulativeDistribution(tuple(values.tolist()), tuple(shares.tolist()))


def _requests(workload: Workload) -> RequestAccuracy | None:
    runtime_s, requested_s = workload.runtime_s, workload.requested_s
    compared = (runtime_s > 0) & (requested_s > 0)
    if workload.requested_is_runtime:
        compared &= requested_s != runtime_s
    if not compared.any():
        return None
    runtime_s, requested_s = runtime_s[compared], requested_s[compared]
    within = runtime_s <= requested_s
    tenths = np.ceil(runtime_s[within] * TENTHS / requested_s[within]).astype(np.int64) - 1
    n_classes = len(TIME_ENDS_S) + 1
    cells = _time_class(requested_s) * n_classes + _time_class(runtime_s)
    grid = np.bincount(cells, minlength=n_classes**2).reshape(n_classes, n_classes)
    with np.errstate(over="ignore"):  # a run time may be as small as a float64
        factor = np.minimum(requested_s / runtime_s, float(MOST_COUNT))
    return RequestAccuracy(
        n_jobs=int(compared.sum()),
        n_left_out=workload.n_jobs - int(compared.sum()),
        factor=summary_of(factor),
        n_exceeded=int((~within).sum()),
        used=tuple(np.bincount(np.clip(tenths, 0, TENTHS - 1), minlength=TENTHS).tolist()),
        grid=tuple(map(tuple, grid.tolist())),
    )


def _users(workload: Workload, work: FloatColumn) -> UserConcentration | None:
    has_user = workload.user != UNKNOWN
    if not has_user.any():
        return None
    users, which, n_jobs = np.unique(
        workload.user[has_user], return_inverse=True, return_counts=True
    )
    work_of = np.bincount(which, weights=work[has_user], minlength=len(users))
    order = np.lexsort((users, -work_of))
    top = tuple(
        UserShare(int(users[i]), int(n_jobs[i]), float(work_of[i])) for i in order[:MOST_USERS]
    )
    total, n_users = float(work_of.sum()), len(users)
    tenth = work_of[order[: -(-n_users // 10)]].sum() / total if total else None
    return UserConcentration(
        n_users=n_users,
        n_jobs_unknown=int((~has_user).sum()),
        top=top,
        tenth_share=None if tenth is None else float(tenth),
        gini=_gini(work_of.astype(np.float64)) if total else None,
    )


def _gini(amounts: FloatColumn) -> float:
    """Return the Gini coefficient: twice the area between the Lorenz curve and equality."""
    ranked, n = np.sort(amounts), len(amounts)
    ranks = np.arange(1, n + 1)
    return float(2.0 * (ranks * ranked).sum() / (n * ranked.sum()) - (n + 1.0) / n)
