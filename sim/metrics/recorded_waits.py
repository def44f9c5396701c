"""The backtest: the waits of a simulated schedule against the waits that the log records.

A job is submitted at s; the log says that it started at b = s + w, the simulation that it started
at b'. The simulated schedule is that of the configuration in use. Only jobs with a recorded wait
that were not rejected are compared.

=================  =========================================================================
ratio              mean simulated wait / mean recorded wait
rank agreement     Spearman's rho of the two waits, ties with their mean rank
mean difference    mean of |w' - w|
busy               processors of the jobs that run by the log: from b to b + p
room               busy + n is at most the processors given, for a job of n processors
first in line      no job submitted before it still waits, by the log
=================  =========================================================================

A machine cannot make the first in line wait while there is room for it: what holds it is outside of
the model, such as nodes that are down or reserved, a hold, a dependency, or a limit. This is the
part of the recorded waits that no order and no backfilling rule explains.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.model.cluster import CapacityWindow, ClusterSpec
from sim.model.errors import ScenarioError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.units import format_duration
from sim.model.workload import UNKNOWN, Workload

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

WEEK_S = 7 * 86_400.0
CLOSE = 0.07
"""Largest relative difference of two mean waits that agree."""

USER_SHARES = (("half of the work", 0.5), ("up to 90 %", 0.9))
"""Classes of users, those with the most work first: they begin below this share of the work."""

WIDTHS = (("up to 1/64", 1 / 64), ("up to 1/8", 1 / 8), ("over 1/8", np.inf))
"""Classes of jobs by their share of the processors of the machine."""

AFTER_OWN_S = 60.0
LEAST_HELD_S = 60.0
"""Shortest time that counts a job as held; schedulers decide in cycles of seconds."""

LEAST_TIME_SHARE = 0.001
"""Shortest share of the time with more processors busy than simulated that is worth a word."""

CAPACITY_SHARES = (0.98, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)

GroupKind = Literal["partition", "queue", "width", "user", "week"]
CauseKind = Literal[
    "first_with_room", "room", "after_own_job", "less_capacity", "more_capacity",
    "partitions", "overrun", "clairvoyant", "killed", "left_out",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class WaitSummary:
    """Mean, median and 90th percentile (linear interpolation) of waits, in seconds."""

    mean_s: float
    median_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class WaitAgreement:
    """How far the simulated waits of some jobs agree with the recorded ones.

    Attributes:
        n: jobs that are compared, at least 1.
        ratio: mean simulated over mean recorded wait; None if no recorded wait is above 0.
        rank: Spearman's rho from -1 to 1; None if one of the waits is the same for all jobs.
        mean_difference_s: mean of the absolute differences in seconds.
    """

    n: int
    recorded: WaitSummary
    simulated: WaitSummary
    ratio: float | None
    rank: float | None
    mean_difference_s: float

    @property
    def is_close(self) -> bool:
        """Whether the means differ by 7 % of the recorded one at most."""
        return self.ratio is not None and abs(self.ratio - 1.0) <= CLOSE

    @property
    def sentence(self) -> str:
        """One sentence for people: how far the simulated waits can be taken for real ones."""
        simulated, recorded = (
            format_duration(each.mean_s) for each in (self.simulated, self.recorded)
        )
        if self.ratio is None:
            return f"The log records no wait above 0; the simulated mean wait is {simulated}."
        means = (
            f"the simulated mean wait is {_rounded(self.ratio)} times the recorded one "
            f"({simulated} against {recorded}, {self.n:,} job{'' if self.n == 1 else 's'})"
        )
        if self.is_close:
            return f"Simulated and recorded waits agree in the mean: {means}."
        side = (
            "the machine held jobs back by rules or events that are not simulated"
            if self.ratio < 1
            else "the configuration simulated here is slower than the machine was"
        )
        return (
            f"Simulated and recorded waits differ: {means}; {side}, so compare configurations by "
            "their simulated waits, and do not take these for real ones."
        )


@dataclass(frozen=True, slots=True)
class GroupAgreement:
    """The agreement for one group of jobs; ``kind`` says what the groups are made by."""

    kind: GroupKind
    name: str
    agreement: WaitAgreement


@dataclass(frozen=True, slots=True)
class GapCause:
    """Something in the log that the simulation does not know, and the wait that it concerns.

    Attributes:
        n_jobs: jobs that it concerns.
        wait_share: its share of the recorded wait of all jobs; None if unknown. Shares of
            different causes overlap.
        sentence: the same for people.
    """

    kind: CauseKind
    n_jobs: int
    wait_share: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Backtest:
    """A schedule compared with the log: agreement in all and by group, and causes of the gap.

    Attributes:
        groups: by partition and queue of the log (where it has several), width, user class, and
            week of submission.
        causes: those found in the log, by their share of the wait.
        most_busy_procs: most processors busy at one time, by the log.
    """

    agreement: WaitAgreement
    groups: tuple[GroupAgreement, ...]
    causes: tuple[GapCause, ...]
    most_busy_procs: int


def _rounded(ratio: float) -> str:
    return f"{ratio:.3g}" if 0.01 <= ratio < 999.5 else f"{ratio:.2g}"


def has_recorded_waits(workload: Workload, result: SimulationResult) -> bool:
    """Return whether the log records the wait of any job that ran in the simulation."""
    return bool((~np.isnan(workload.logged_wait_s) & ~np.isnan(result.start_s)).any())


def wait_agreement(scenario: Scenario, result: SimulationResult) -> WaitAgreement:
    """Compare the simulated waits of all jobs with the recorded ones.

    Raises:
        ScenarioError: the log records no wait of a job that ran.
    """
    workload = scenario.workload
    return _agreement(
        workload, result.start_s - result.submissions_s(workload), _compared(workload, result)
    )


def _compared(workload: Workload, result: SimulationResult) -> Mask:
    if not has_recorded_waits(workload, result):
        raise ScenarioError(
            f"{workload.name} records no wait of a job that ran, so that simulated waits cannot be "
            "compared with it; use a log that has waits or start times."
        )
    return np.asarray(~np.isnan(workload.logged_wait_s) & ~np.isnan(result.start_s))


def _agreement(workload: Workload, simulated_s: Floats, rows: Mask) -> WaitAgreement:
    recorded, simulated = workload.logged_wait_s[rows], simulated_s[rows]
    mean = float(recorded.mean())
    return WaitAgreement(
        n=len(recorded),
        recorded=_summary(recorded),
        simulated=_summary(simulated),
        ratio=float(simulated.mean()) / mean if mean > 0 else None,
        rank=_spearman(recorded, simulated),
        mean_difference_s=float(np.abs(simulated - recorded).mean()),
    )


def _summary(waits_s: Floats) -> WaitSummary:
    median, p90 = np.percentile(waits_s, [50, 90]).tolist()
    return WaitSummary(float(waits_s.mean()), median, p90)


def _spearman(one: Floats, other: Floats) -> float | None:
    ranks = [_mean_ranks(each) for each in (one, other)]
    if any(rank.min() == rank.max() for rank in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _mean_ranks(values: Floats) -> Floats:
    _, position, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[position], dtype=np.float64)


def backtest(scenario: Scenario, result: SimulationResult) -> Backtest:
    """Compare a simulated schedule with the log, and look in the log for what explains the gap.

    Args:
        scenario: the configuration in use, with the workload of the log.
        result: its simulation.

    Raises:
        ScenarioError: the log records no wait of a job that ran.
    """
    workload, procs = scenario.workload, scenario.cluster.total_procs
    compared = _compared(workload, result)
    simulated_s = result.start_s - result.submissions_s(workload)
    record = RecordedSchedule(workload, procs)
    return Backtest(
        agreement=_agreement(workload, simulated_s, compared),
        groups=tuple(
            GroupAgreement(kind, name, _agreement(workload, simulated_s, compared & rows))
            for kind, name, rows in _groups(workload, procs)
            if (compared & rows).any()
        ),
        causes=tuple(
            sorted(_causes(scenario, record), key=lambda cause: -(cause.wait_share or 0.0))
        ),
        most_busy_procs=record.most_busy_procs,
    )


def _groups(workload: Workload, procs: int) -> Iterator[tuple[GroupKind, str, Mask]]:
    labels: tuple[tuple[GroupKind, NDArray[np.int64]], ...] = (
        ("partition", workload.partition), ("queue", workload.queue),
    )  # fmt: skip
    for kind, column in labels:
        values = np.unique(column).tolist()
        if len(values) > 1:
            for value in values:
                yield kind, "unknown" if value == UNKNOWN else f"{value}", column == value
    least = 0.0
    for name, most in WIDTHS:
        share = workload.procs / procs
        yield "width", name, (share > least) & (share <= most)
        least = most
    yield from _user_classes(workload)
    week = (workload.submit_s // WEEK_S).astype(np.int64)
    for value in np.unique(week).tolist():
        yield "week", f"{value + 1}", week == value


def _user_classes(workload: Workload) -> Iterator[tuple[GroupKind, str, Mask]]:
    """Yield classes of users by their share of the work, those with the most work first."""
    users, position = np.unique(workload.user, return_inverse=True)
    work = np.bincount(position, weights=workload.procs * workload.runtime_s)
    if len(users) < 2 or not work.sum():
        return
    most_first = np.argsort(-work, kind="stable")
    before = (np.cumsum(work[most_first]) - work[most_first]) / work.sum()
    level = np.empty(len(users), dtype=np.int64)
    level[most_first] = np.searchsorted([share for _, share in USER_SHARES], before, side="right")
    for i, name in enumerate((*(name for name, _ in USER_SHARES), "the others")):
        yield "user", f"{name} ({np.count_nonzero(level == i):,})", level[position] == i


class RecordedSchedule:
    """The schedule that the log records, and the processors that were busy in it.

    Args:
        workload: jobs; those without a recorded wait are left out.
        procs: processors of the machine.
    """

    def __init__(self, workload: Workload, procs: int) -> None:
        self.workload, self.procs = workload, procs
        self.rows = np.flatnonzero(~np.isnan(workload.logged_wait_s))
        self.submit_s = workload.submit_s[self.rows]
        self.wait_s = workload.logged_wait_s[self.rows]
        self.start_s = self.submit_s + self.wait_s
        self.end_s = self.start_s + workload.runtime_s[self.rows]
        self.job_procs = workload.procs[self.rows]
        change_s = np.concatenate([self.start_s, self.end_s])
        self.time_s, position = np.unique(change_s, return_inverse=True)
        change = np.concatenate([self.job_procs, -self.job_procs]).astype(np.float64)
        self.busy = np.cumsum(np.bincount(position, weights=change))

    @property
    def total_wait_s(self) -> float:
        """The recorded wait of all jobs in seconds."""
        return float(self.wait_s.sum())

    @property
    def most_busy_procs(self) -> int:
        """The most processors that were busy at one time."""
        return int(self.busy.max())

    def first_in_line_s(self) -> Floats:
        """Return when each job had no earlier job waiting; after its start if never."""
        latest = np.maximum.accumulate(self.start_s)
        return np.asarray(np.maximum(self.submit_s, np.concatenate([[0.0], latest[:-1]])))

    def room_s(self, from_s: Floats) -> Floats:
        """Return the seconds with room for each job, from a time up to its recorded start."""
        room_s = np.zeros(len(self.rows))
        waiting = np.flatnonzero(from_s < self.start_s)
        widths, position = np.unique(self.job_procs[waiting], return_inverse=True)
        for i, width in enumerate(widths.tolist()):
            some = waiting[position == i]
            fits = self.busy + width <= self.procs
            before_first = 0.0 if width > self.procs else 1.0
            lasting = np.diff(self.time_s) * fits[:-1]
            until = np.concatenate([[0.0], np.cumsum(lasting)])
            room_s[some] = self._integral(until, fits, before_first, self.start_s[some])
            room_s[some] -= self._integral(until, fits, before_first, from_s[some])
        return room_s

    def _integral(self, until: Floats, fits: Mask, before: float, at_s: Floats) -> Floats:
        """Integrate ``fits`` up to each time; before the first start it is ``before``."""
        step = np.searchsorted(self.time_s, at_s, side="right") - 1
        inside = np.maximum(step, 0)
        since = (at_s - self.time_s[inside]) * np.where(step < 0, before, fits[inside])
        return np.asarray(until[inside] + since)

    def after_own_job(self) -> Mask:
        """Return whether each job started within a minute after another job of its user ended."""
        user = self.workload.user[self.rows]
        found = np.zeros(len(self.rows), dtype=np.bool_)
        order = np.argsort(user, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(user[order])) + 1):
            if user[some[0]] == UNKNOWN or len(some) < 2:
                continue
            ends = np.sort(self.end_s[some])
            start_s = self.start_s[some]
            last = np.searchsorted(ends, start_s, side="right") - 1
            since = start_s - ends[np.maximum(last, 0)]
            found[some] = (last >= 0) & (since <= AFTER_OWN_S) & (ends[last] > self.submit_s[some])
        return found

    def weekly_most_busy(self) -> tuple[tuple[float, int, float], ...]:
        """Return for each week its begin, the most processors busy, and the wait spent in it.

        The wait is the sum over jobs of the seconds that they waited in that week.
        """
        n_weeks = int(self.time_s[-1] // WEEK_S) + 1
        edges = np.arange(n_weeks + 1, dtype=np.float64) * WEEK_S
        waited = _time_within(self.submit_s, self.start_s, edges)
        entries = []
        for i in range(n_weeks):
            first = max(int(np.searchsorted(self.time_s, edges[i], side="right")) - 1, 0)
            last = int(np.searchsorted(self.time_s, edges[i + 1], side="left"))
            most = int(self.busy[first:last].max(initial=0.0))
            entries.append((float(edges[i]), most, float(waited[i])))
        return tuple(entries)


def _time_within(from_s: Floats, to_s: Floats, edges: Floats) -> Floats:
    """Return the summed length of intervals within each pair of edges: float64 [n_edges - 1]."""

    def before(times_s: Floats) -> Floats:  # sum over intervals of the part before each edge
        ordered = np.sort(times_s)
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        n = np.searchsorted(ordered, edges, side="right")
        return np.asarray(n * edges - sums[n])

    return np.asarray(np.diff(before(from_s) - before(to_s)))


def capacity_windows(scenario: Scenario) -> tuple[CapacityWindow, ...]:
    """Return windows that cut a cluster to the processors that the log shows in use, by week.

    In a week in which jobs waited half of the time or more, the most processors ever busy are an
    estimate of the capacity. In other weeks nothing is cut: idle processors were not needed then.
    `scenario` has one partition (`can_correct`).
    """
    workload, procs = scenario.workload, scenario.cluster.total_procs
    record = RecordedSchedule(workload, procs)
    name = scenario.cluster.names[0]
    windows = []
    for begin_s, most, _ in record.weekly_most_busy():
        end_s = begin_s + WEEK_S
        if _queued_share(record, begin_s, end_s) >= 0.5 and most < procs:
            windows.append(CapacityWindow(name, procs - most, begin_s, end_s, "planned"))
    return tuple(windows)


@dataclass(frozen=True, slots=True)
class Correction:
    """A replay with another estimate of the capacity, and its agreement on both halves of a log.

    Attributes:
        name: ``as given``, ``by week`` (`capacity_windows`), or the share of the processors.
        tuned, tested: agreement of the jobs of the first and of the second half by number.
    """

    name: str
    tuned: WaitAgreement
    tested: WaitAgreement


@dataclass(frozen=True, slots=True)
class CorrectedReplays:
    """Replays with corrected capacity: the choice on the first half, judged on the second.

    Attributes:
        replays: all of them; the first is ``as given``.
        chosen: the replay whose ratio on the first half is nearest to 1, by its logarithm.
    """

    replays: tuple[Correction, ...]
    chosen: Correction

    @property
    def carries_over(self) -> bool:
        """Whether the chosen replay is nearer to the records on the second half, too."""
        return _distance(self.chosen.tested) < _distance(self.replays[0].tested)

    @property
    def sentence(self) -> str:
        """One sentence for people on the choice and what it is worth on the second half."""
        given, chosen = self.replays[0], self.chosen
        if chosen.name == given.name:
            return "No other capacity agrees better with the first half of the log."
        how = {"by week": "the capacity that each congested week shows in use"}
        ratios = [
            "unknown" if each.ratio is None else _rounded(each.ratio)
            for each in (given.tuned, chosen.tuned, given.tested, chosen.tested)
        ]
        if not self.carries_over:
            end = "it does not carry over, so do not use it"
        elif chosen.tuned.is_close and chosen.tested.is_close:
            end = "within 7 % on both"
        else:
            end = "nearer there, too, but not within 7 % on both"
        return (
            f"With {how.get(chosen.name, f'{chosen.name} of the processors')} the ratio is "
            f"{ratios[1]} instead of {ratios[0]} on the first half of the log, on which it was "
            f"chosen, and {ratios[3]} instead of {ratios[2]} on the second: {end}."
        )


def _distance(agreement: WaitAgreement) -> float:
    return abs(float(np.log(agreement.ratio))) if agreement.ratio else np.inf


def can_correct(scenario: Scenario) -> bool:
    """Return whether another capacity can be tried: one partition, counted processors, two jobs."""
    plain = scenario.allocation == "processors" and not scenario.windows
    both_halves = all(
        (~np.isnan(half)).any()
        for half in np.split(scenario.workload.logged_wait_s, [scenario.workload.n_jobs // 2])
    )
    return plain and both_halves and len(scenario.cluster.partitions) == 1


def corrected_replays(
    scenario: Scenario, simulate: Callable[[Scenario], SimulationResult]
) -> CorrectedReplays:
    """Replay a log with other estimates of the capacity; choose on one half, judge on the other.

    The whole log is replayed each time, so that the second half begins with the queue of the first.
    A constant share of the processors clips jobs that become too wide.

    Args:
        scenario: the configuration in use, with one partition of counted processors.
        simulate: function that simulates a scenario.

    Raises:
        ScenarioError: there are several partitions, machines or windows, or a half of the log
            records no wait of a job that ran.
    """
    if not can_correct(scenario):
        raise ScenarioError(
            "capacity can be estimated from a log for one partition of counted processors without "
            "windows, if both halves of the log record waits; leave out partitions, windows and "
            "machines."
        )
    windows = capacity_windows(scenario)
    cases = [("as given", scenario)]
    if windows:
        cases.append(("by week", replace(scenario, windows=windows)))
    (part,) = scenario.cluster.partitions
    for share in CAPACITY_SHARES:
        procs = max(int(share * part.procs), 1)
        cluster = ClusterSpec((replace(part, procs=procs),))
        cases.append(
            (f"{share:.0%}".replace("%", " %"), replace(scenario, cluster=cluster, too_wide="clip"))
        )
    replays = tuple(_correction(name, case, simulate(case)) for name, case in cases)
    return CorrectedReplays(replays, min(replays, key=lambda replay: _distance(replay.tuned)))


def _correction(name: str, scenario: Scenario, result: SimulationResult) -> Correction:
    workload = scenario.workload
    simulated_s = result.start_s - result.submissions_s(workload)
    compared = _compared(workload, result)
    first = np.arange(workload.n_jobs) < workload.n_jobs // 2
    halves = (compared & first, compared & ~first)
    return Correction(name, *(_agreement(workload, simulated_s, half) for half in halves))


def _queued_share(record: RecordedSchedule, begin_s: float, end_s: float) -> float:
    """Return the share of a stretch of time in which some job waited."""
    change = np.concatenate([record.submit_s, record.start_s])
    times, position = np.unique(change, return_inverse=True)
    by = np.repeat([1.0, -1.0], len(record.rows))
    queued = np.cumsum(np.bincount(position, weights=by)) > 0
    inside = np.clip(times, begin_s, end_s)
    return float((np.diff(inside) * queued[:-1]).sum() / (end_s - begin_s))


def _causes(scenario: Scenario, record: RecordedSchedule) -> Iterator[GapCause]:
    total_s = record.total_wait_s
    if total_s > 0:
        yield from _waits_with_room(record, total_s)
        yield from _other_capacity(record, total_s)
        yield from _properties(scenario, record, total_s)
    for note in scenario.workload.notes:
        if note.rule == "never_ran":
            yield GapCause("left_out", note.n_rows, None, f"Left out on reading: {note.sentence}")


def _waits_with_room(record: RecordedSchedule, total_s: float) -> Iterator[GapCause]:
    first_s = record.room_s(record.first_in_line_s())
    n_first, share = int(np.count_nonzero(first_s >= LEAST_HELD_S)), float(first_s.sum()) / total_s
    if n_first:
        yield GapCause(
            "first_with_room", n_first, share,
            f"{_percent(share)} of the recorded wait passed while the job was first in line and "
            f"{record.procs:,} processors had room for it ({n_first:,} jobs for a minute or more): "
            "nodes down or reserved, holds, dependencies, or limits.",
        )  # fmt: skip
    room_s = record.room_s(record.submit_s)
    n_room, share = int(np.count_nonzero(room_s >= LEAST_HELD_S)), float(room_s.sum()) / total_s
    if n_room:
        yield GapCause(
            "room", n_room, share,
            f"{_percent(share)} passed while {record.procs:,} processors had room for the job, "
            f"behind others or not ({n_room:,} jobs for a minute or more); reservations for jobs "
            "ahead explain a part of it.",
        )  # fmt: skip
    chained = record.after_own_job() & (room_s > record.wait_s / 2)
    n_chained, share = int(chained.sum()), float(record.wait_s[chained].sum()) / total_s
    if n_chained:
        yield GapCause(
            "after_own_job", n_chained, share,
            f"{n_chained:,} jobs with {_percent(share)} of the wait had room for most of it, and "
            "started within a minute after another job of the same user ended: dependencies or "
            "limits by user.",
        )  # fmt: skip


def _other_capacity(record: RecordedSchedule, total_s: float) -> Iterator[GapCause]:
    low = [each for each in record.weekly_most_busy() if each[1] < 0.95 * record.procs and each[2]]
    if low:
        share = sum(waited for *_, waited in low) / total_s
        starts = np.array([begin for begin, *_ in low])
        n_jobs = int(np.isin(record.submit_s // WEEK_S, starts // WEEK_S).sum())
        yield GapCause(
            "less_capacity", n_jobs, share,
            f"In {len(low):,} week{'' if len(low) == 1 else 's'} with {_percent(share)} of the "
            f"wait never more than 95 % of {record.procs:,} processors were busy: a part of the "
            "machine may have been down or reserved.",
        )  # fmt: skip
    over = record.busy[:-1] > record.procs
    lasting = np.diff(record.time_s)
    during = float((lasting * over).sum() / lasting.sum()) if len(lasting) else 0.0
    if during >= LEAST_TIME_SHARE:
        n_jobs = int((record.busy[np.searchsorted(record.time_s, record.start_s)]
                      > record.procs).sum())  # fmt: skip
        yield GapCause(
            "more_capacity", n_jobs, None,
            f"The log has up to {record.most_busy_procs:,} processors busy, for {_percent(during)} "
            f"of the time more than the {record.procs:,} simulated: the machine was larger, or "
            "the log's times or widths are not exact.",
        )  # fmt: skip


def _properties(scenario: Scenario, record: RecordedSchedule, total_s: float) -> Iterator[GapCause]:
    workload = scenario.workload
    labels, count = np.unique(workload.partition, return_counts=True)
    if len(labels) > len(scenario.cluster.partitions):
        others = workload.partition != labels[np.argmax(count)]
        yield _share_of(
            "partitions", others, record, total_s,
            f"The log has {len(labels):,} partitions, and {len(scenario.cluster.partitions):,} "
            "are simulated; outside of the log's largest one are",
        )  # fmt: skip
    overrun = workload.runtime_s > workload.requested_s
    if overrun.any():
        yield _share_of("overrun", overrun, record, total_s, "Longer than requested ran")
    if workload.requested_is_runtime:
        same = workload.runtime_s == workload.requested_s
        yield _share_of(
            "clairvoyant", same, record, total_s,
            "Requests are missing, and the run time stands for them; requests equal run times for",
        )  # fmt: skip
    killed = workload.status == 5
    if killed.any():
        yield _share_of("killed", killed, record, total_s, "Cancelled by the log's status were")


def _share_of(
    kind: CauseKind, jobs: Mask, record: RecordedSchedule, total_s: float, begin: str
) -> GapCause:
    n_jobs = int(jobs.sum())
    share = float(record.wait_s[jobs[record.rows]].sum()) / total_s
    plural = "" if n_jobs == 1 else "s"
    return GapCause(
        kind, n_jobs, share, f"{begin} {n_jobs:,} job{plural} with {_percent(share)} of the wait."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"
