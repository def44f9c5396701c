"""The explanation of a job's start: its reasons to wait, and the jobs before and after it.

The engine `process` simulates the scenario with an observer of the job's partition at every
decision from its submission to its start. All engines give the same schedule, so the explanation
holds for all.

The explanation is values: plain numbers and texts that become JSON. Times are seconds since the
first submission of the workload. In the reasons to wait, `needed_procs` is the processors of the
job, `most_free_procs` the maximum of free processors, `most_ahead` the maximum of jobs of better
rank that waited with it, `ended` the jobs that ran at the begin of the phase and ended in it or at
its end, and `taken_by` the jobs of better rank that started after its begin, up to its end.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.engines import ENGINES
from sim.kernel.pool import TAKEN, Pool, PoolJob, rank_at, reserve
from sim.kernel.records import field as column_of
from sim.model.admission import NOWHERE, Admission, admit
from sim.model.columns import count_text
from sim.model.errors import EngineError, WorkloadError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.workload import Workload
from sim.policies.backfills import backfill_named
from sim.policies.orders import order_named
from sim.policies.policy_options import options_of

__all__ = [
    "WATCHING_ENGINES", "JobExplanation", "OtherJobs", "QueueHeads", "WaitPhase", "explain_start",
]  # fmt: skip

WATCHING_ENGINES = tuple(engine.name for engine in ENGINES if engine.watching is not None)
"""Names of the engines that can record what happens, as an explanation needs."""

MAX_LISTED_JOBS = 5


@dataclass(frozen=True)
class ExplainedJob:
    """The job whose start is explained, as the scheduler received it.

    Attributes:
        procs, logged_procs: processors after clipping, and in the log, which are more if the job
            was clipped.
        partition: name of its partition; None if it fits nowhere.
        requested_s: its request, after clipping.
        estimate_s: seconds that the scheduler planned with.
        runtime_s: seconds that it ran, after clipping and killing; hypothetical if rejected.
        start_s: None for a rejected job; `wait_s` and `end_s` likewise.
    """

    job_id: int
    procs: int
    logged_procs: int
    partition: str | None
    submit_s: float
    requested_s: float
    estimate_s: float
    runtime_s: float
    start_s: float | None
    wait_s: float | None
    end_s: float | None
    state: Literal["completed", "killed", "rejected"]


@dataclass(frozen=True)
class RunJob:
    """Another job of the same partition that ran, with its actual and estimated end."""

    job_id: int
    procs: int
    start_s: float
    end_s: float
    estimated_end_s: float


@dataclass(frozen=True)
class OtherJobs:
    """Group of other jobs: totals, and a list of the most important jobs.

    Attributes:
        n, procs, procs_h: number of jobs, and sums of their processors and processor-hours.
        named: those with the most processor-hours (where they overtook or went ahead) or
            processors (where they gave processors back or took them), `MAX_LISTED_JOBS` at most.
    """

    n: int
    procs: int
    procs_h: float
    named: tuple[RunJob, ...]


@dataclass(frozen=True)
class WaitingJob:
    """Another job that was waiting at the same time as the explained job.

    Attributes:
        job_id: as in the log.
        waited_s: seconds that it had waited by then.
        start_s: its later start.
    """

    job_id: int
    procs: int
    waited_s: float
    start_s: float


@dataclass(frozen=True)
class QueueHeads:
    """Jobs that were successively at the head of the queue during a wait.

    `n` counts them; the first `MAX_LISTED_JOBS` are listed, with their waits when first seen.
    """

    n: int
    named: tuple[WaitingJob, ...]


@dataclass(frozen=True)
class TooFewProcessors:
    """Reason to wait: fewer processors were free than the job needs."""

    kind: Literal["too_few_free"] = field(default="too_few_free", init=False)
    needed_procs: int
    most_free_procs: int
    most_ahead: int
    ended: OtherJobs
    taken_by: OtherJobs


@dataclass(frozen=True)
class BlockedByHead:
    """Reason to wait: the head of the queue was blocked, and the rule forbade overtaking it."""

    kind: Literal["behind"] = field(default="behind", init=False)
    heads: QueueHeads
    most_free_procs: int
    most_ahead: int
    ended: OtherJobs
    taken_by: OtherJobs


@dataclass(frozen=True)
class ReservationDelay:
    """Reason to wait: starting the job would have delayed EASY's reservation.

    By its estimate it would have ended after the reservation begins, and it needs more processors
    than are left over then.

    Attributes:
        heads: jobs of the reservations.
        least_late_s: minimum of the seconds from the reservation to its own estimated end. More
            than 0.
        reserved_s: the reservation at that moment.
        most_extra_procs: maximum of processors that the reservation left over. Fewer than needed.
        in_time_by_runtime_s: first moment of this phase at which it would have ended in time if the
            scheduler had known its run time; None if never.
    """

    kind: Literal["would_delay"] = field(default="would_delay", init=False)
    needed_procs: int
    heads: QueueHeads
    least_late_s: float
    reserved_s: float
    most_extra_procs: int
    most_ahead: int
    in_time_by_runtime_s: float | None


@dataclass(frozen=True)
class HeadOfQueue:
    """Reason to wait: the job was the head of the queue, and running jobs first had to end."""

    kind: Literal["is_head"] = field(default="is_head", init=False)
    needed_procs: int
    most_free_procs: int
    ended: OtherJobs


Reason = TooFewProcessors | BlockedByHead | ReservationDelay | HeadOfQueue


@dataclass(frozen=True)
class WaitPhase:
    """Part of a job's wait during which the reason to wait was the same.

    Attributes:
        from_s: the first begins at the submission.
        to_s: the last ends at the start.
        seconds: its length, more than 0.
        reason: why the job did not start.
    """

    from_s: float
    to_s: float
    seconds: float
    reason: Reason


@dataclass(frozen=True)
class Reservation:
    """EASY's reservation for the head, when the explained job overtook the head.

    Attributes:
        job_id: the head.
        procs: its processors.
        reserved_s: time by which enough running jobs end, by the estimates.
        extra_procs: processors left over then, when the job was examined.
    """

    job_id: int
    procs: int
    reserved_s: float
    extra_procs: int


@dataclass(frozen=True)
class BackfilledStart:
    """Jobs that the explained job overtook, and why this was allowed.

    Attributes:
        waiting: every job of better rank that still waited after the decision, best rank first.
        estimated_end_s: end of the job by its estimate.
        reservation: reservation that it must not delay; None unless the rule is EASY, as is
            `let_in_by`.
        let_in_by: condition that it met: it ends by its estimate no later than the reservation, or
            needs no more processors than are left over then.
    """

    waiting: tuple[WaitingJob, ...]
    estimated_end_s: float
    reservation: Reservation | None
    let_in_by: Literal["ends_before_reservation", "fits_extra_processors"] | None


@dataclass(frozen=True)
class JobStart:
    """How and why the explained job started at the decision that started it.

    Attributes:
        how: ``at_once``, at its submission with no job before it; ``in_turn``, after all of better
            rank had started; ``backfilled``, ahead of some of them.
        free_procs: processors that were free for it, after those for better ranks were taken.
        ended: jobs whose ends caused that decision; none if it started when submitted.
        arrived: jobs of better rank that arrived at this time; they can cause it by becoming the
            head, with a later reservation. None if it started when submitted.
        overtaking: jobs that it overtook, if it was backfilled.
    """

    how: Literal["at_once", "in_turn", "backfilled"]
    free_procs: int
    ended: OtherJobs
    arrived: tuple[WaitingJob, ...]
    overtaking: BackfilledStart | None


@dataclass(frozen=True)
class StartExpectation:
    """Start time expected from estimated run times when the job became head of the queue."""

    seen_s: float
    expected_s: float


@dataclass(frozen=True)
class PartitionRefusal:
    """The reason why a partition does not admit a job.

    Attributes:
        partition: name of the partition.
        widest_procs: processors of the widest admitted job.
        max_requested_s: longest admitted request in seconds; None is no limit.
        too_wide, too_long: whether the job needs more processors, and whether it requests more
            time.
    """

    partition: str
    widest_procs: int
    max_requested_s: float | None
    too_wide: bool
    too_long: bool


@dataclass(frozen=True)
class JobExplanation:
    """Complete explanation of why a job started when it did.

    Attributes:
        order, backfill: names of the queue order, which makes the ranks, and of the backfilling
            rule.
        phases: reasons of the wait; together they are the whole wait.
        start: its start; None for a rejected job.
        expectation: expected start; None if it never waited as the head.
        overtaken_by: jobs of worse rank that started while it waited.
        preferred: later submitted jobs that started while it waited, because the order gives them a
            better rank.
        refusals: for a rejected job, the reason of each partition.
    """

    job: ExplainedJob
    order: str
    backfill: str
    phases: tuple[WaitPhase, ...]
    start: JobStart | None
    expectation: StartExpectation | None
    overtaken_by: OtherJobs
    preferred: OtherJobs
    refusals: tuple[PartitionRefusal, ...]


NO_JOBS = OtherJobs(0, 0, 0.0, ())


@dataclass(frozen=True)
class FinishedSchedule:
    """Completed schedule, with jobs as logged, as admitted and as they ran."""

    workload: Workload
    admission: Admission
    result: SimulationResult

    def ran(self, row: int) -> RunJob:
        """Return the description of one job that ran, by its row."""
        start_s = float(self.result.start_s[row])
        return RunJob(
            job_id=int(self.workload.job_id[row]),
            procs=int(self.admission.procs[row]),
            start_s=start_s,
            end_s=float(self.result.end_s[row]),
            estimated_end_s=start_s + float(self.admission.estimate_s[row]),
        )

    def waited(self, row: int, now_s: float) -> WaitingJob:
        """Return the description of one job that was waiting at time `now_s`, by its row."""
        return WaitingJob(
            job_id=int(self.workload.job_id[row]),
            procs=int(self.admission.procs[row]),
            waited_s=now_s - float(self.workload.submit_s[row]),
            start_s=float(self.result.start_s[row]),
        )

    def heads(self, sightings: Iterable[tuple[int, float]]) -> QueueHeads:
        """Return the jobs at the head of a queue, from (job row, time in s) pairs in time order."""
        first: dict[int, float] = {}
        for row, now_s in sightings:
            first.setdefault(row, now_s)
        listed = tuple(self.waited(*each) for each in list(first.items())[:MAX_LISTED_JOBS])
        return QueueHeads(len(first), listed)

    def jobs(self, rows: Iterable[int], by: Literal["procs", "procs_h"]) -> OtherJobs:
        """Summarise jobs that ran, and list those with most processors or processor-hours."""
        job_rows = list(rows)
        procs = {row: int(self.admission.procs[row]) for row in job_rows}
        procs_h = {
            row: procs[row] * float(self.admission.runtime_s[row]) / 3600 for row in job_rows
        }
        weight = procs if by == "procs" else procs_h
        listed_rows = sorted(job_rows, key=lambda row: (-weight[row], row))[:MAX_LISTED_JOBS]
        return OtherJobs(
            n=len(job_rows),
            procs=sum(procs.values()),
            procs_h=sum(procs_h.values()),
            named=tuple(self.ran(row) for row in listed_rows),
        )

    def ends(self, partition: int, from_s: float, to_s: float) -> NDArray[np.int64]:
        """Return the jobs of a partition that ended after `from_s`, and by `to_s`: int64 [n]."""
        result = self.result
        return np.flatnonzero(
            (self.admission.place == partition) & (result.end_s > from_s) & (result.end_s <= to_s)
        )

    def ended(self, among: NDArray[np.int64], from_s: float, to_s: float) -> list[int]:
        """Return the rows in `among` of jobs that ran at `from_s` and ended by `to_s`."""
        start_s, end_s = self.result.start_s[among], self.result.end_s[among]
        ended_rows: list[int] = among[
            (start_s <= from_s) & (end_s > from_s) & (end_s <= to_s)
        ].tolist()
        return ended_rows

    def ended_at(self, partition: int, now_s: float, at_once: Iterable[int]) -> list[int]:
        """Return a partition's jobs that ended at `now_s`, in time for a decision then.

        `at_once` are the jobs that earlier decisions started at this time; they count if they have
        no run time.
        """
        result = self.result
        ended = (self.admission.place == partition) & (result.end_s == now_s)
        ended_rows: list[int] = np.flatnonzero(ended & (result.start_s < now_s)).tolist()
        return ended_rows + [row for row in at_once if ended[row]]

    def arrived_at(self, partition: int, now_s: float) -> list[int]:
        """Return the jobs of a partition that were submitted at `now_s`."""
        return np.flatnonzero(
            (self.admission.place == partition) & (self.workload.submit_s == now_s)
        ).tolist()


class HeadReservation(NamedTuple):
    """Reservation for the head of the queue: start time, and number of processors left over."""

    reserved_s: float
    extra_procs: int


@dataclass(frozen=True)
class DecisionView:
    """Situation of the explained job at one scheduling decision.

    Attributes:
        now_s: time of the decision.
        free_procs: processors that were free when the job was examined.
        ahead: jobs of better rank that still wait after the decision, best rank first.
        n_ahead: number of these; `ahead` holds only the head while the job continues to wait.
        head_reservation: reservation of the head when the job was examined, None where it decided
            nothing. If the job is itself the head, it is its own.
    """

    now_s: float
    free_procs: int
    ahead: tuple[int, ...]
    n_ahead: int
    head_reservation: HeadReservation | None


class JobObserver:
    """Observer that records every scheduling decision about one waiting job.

    Attributes:
        looks: one view for every decision; the last started the job, if `has_started`.
        overtakers: jobs of worse rank that earlier decisions started.
        passed: (time, job) for each job of better rank that a decision started, including the last
            one.
        earlier: jobs that decisions of the same instant before the last look started.
        rank: [n_jobs], rank of every job at the decision that started this one.
    """

    def __init__(
        self, row: int, partition: int, submit_s: float, *, overtakes: bool, reserves: bool
    ) -> None:
        self.row, self.partition, self.submit_s = row, partition, submit_s
        self.overtakes, self.reserves = overtakes, reserves
        self.looks: list[DecisionView] = []
        self.has_started = False
        self.overtakers: list[int] = []
        self.passed: list[tuple[float, int]] = []
        self.earlier: list[int] = []
        self.rank: list[int] = []
        self._free_procs = 0

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        """Record the processors that are free before the decision."""
        if self._concerned(k, now_s):
            self._free_procs = pool.partitions[k].free

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        """Record how the decision treated the observed job."""
        if not self._concerned(k, now_s):
            return
        if self.looks and self.looks[-1].now_s != now_s:
            self.earlier.clear()
        self.looks.append(self._look(pool, now_s, started))
        mine = pool.jobs[self.row].rank
        self.passed += [(now_s, job) for job in started if pool.jobs[job].rank < mine]
        if self.row in started:
            self.has_started = True
            self.rank = column_of(pool.jobs, "rank")
            return
        self.earlier += started
        self.overtakers += [job for job in started if pool.jobs[job].rank > mine]

    def _concerned(self, k: int, now_s: float) -> bool:
        return k == self.partition and now_s >= self.submit_s and not self.has_started

    def _look(self, pool: Pool, now_s: float, started: list[int]) -> DecisionView:
        here, mine = pool.partitions[self.partition], pool.jobs[self.row]
        taken = sum(pool.jobs[job].procs for job in started if pool.jobs[job].rank < mine.rank)
        free_procs = self._free_procs - taken
        place = bisect_left(
            range(here.tail), mine.rank, here.head, key=lambda slot: rank_at(pool, slot)
        )
        before = [job for job in pool.queue[here.head : place] if job >= 0]
        n_ahead = len(before)
        starts = self.row in started
        ahead = tuple(before if starts else before[:1])
        head_reservation = None
        if ahead and self.reserves and mine.procs <= free_procs:
            head_reservation = reservation(pool, self.partition, pool.jobs[ahead[0]].procs)
            later = [pool.jobs[job] for job in started if pool.jobs[job].rank >= mine.rank]
            back = sum(
                job.procs for job in later if job.estimated_end_s > head_reservation.reserved_s
            )
            head_reservation = HeadReservation(
                head_reservation.reserved_s, head_reservation.extra_procs + back
            )
        elif not ahead and not starts and mine.procs > here.free:
            head_reservation = reservation(pool, self.partition, mine.procs)
        return DecisionView(now_s, free_procs, ahead, n_ahead, head_reservation)


def reservation(pool: Pool, k: int, procs: int) -> HeadReservation:
    """Return the earliest reservation of `procs` processors, without changing the pool.

    It is that of `sim.kernel.pool.reserve`, computed on a copy of the running jobs.
    """
    here = copy(pool.partitions[k])
    listed = pool.running[here.first : here.first + here.n_listed]
    running = [TAKEN if job == TAKEN else slot for slot, job in enumerate(listed)]
    jobs = [PoolJob() if job == TAKEN else copy(pool.jobs[job]) for job in listed]
    here.first = 0
    reserve(pool._replace(jobs=jobs, partitions=[here], running=running), 0, procs)
    return HeadReservation(here.shadow_s, here.extra)


Span = tuple[DecisionView, float]
"""A decision that left the job waiting, and the time of the next one."""


def spans_of(looks: list[DecisionView]) -> list[Span]:
    """Return the last view of each time, paired with the time of the next view."""
    return [(look, then.now_s) for look, then in pairwise(looks) if then.now_s > look.now_s]


def phases_of(
    spans: list[Span],
    job: ExplainedJob,
    watch: JobObserver,
    schedule: FinishedSchedule,
) -> tuple[WaitPhase, ...]:
    """Merge adjacent time spans with the same kind of reason into phases of the wait."""
    phases: list[WaitPhase] = []
    if not spans:
        return ()
    ends = schedule.ends(watch.partition, spans[0][0].now_s, spans[-1][1])
    for kind, group in groupby(spans, key=lambda span: _kind(span[0], job.procs, watch.overtakes)):
        same = list(group)
        from_s, to_s = same[0][0].now_s, same[-1][1]
        looks = [look for look, _ in same]
        most_free, most_ahead = _most_free(looks), _most_ahead(looks)
        ended = schedule.jobs(schedule.ended(ends, from_s, to_s), by="procs")
        first, after = (bisect_right(watch.passed, at, key=itemgetter(0)) for at in (from_s, to_s))
        taken = (row for _, row in watch.passed[first:after])
        reason: Reason
        if kind == "is_head":
            reason = HeadOfQueue(job.procs, most_free, ended)
        elif kind == "too_few_free":
            taken_by = schedule.jobs(taken, by="procs")
            reason = TooFewProcessors(job.procs, most_free, most_ahead, ended, taken_by)
        elif kind == "behind":
            heads = schedule.heads((look.ahead[0], look.now_s) for look in looks)
            reason = BlockedByHead(
                heads, most_free, most_ahead, ended, schedule.jobs(taken, by="procs")
            )
        else:
            reason = _would_delay(looks, job, schedule)
        phases.append(WaitPhase(from_s, to_s, to_s - from_s, reason))
    return tuple(phases)


def _kind(look: DecisionView, procs: int, overtakes: bool) -> str:
    """Return why a decision did not start the job.

    Without backfilling, free processors do not matter for a job that is not the head; with any rule
    no job starts on too few. Further reasons are known for rules that reserve for the head only.
    """
    if not look.ahead:
        return "is_head"
    if overtakes and look.free_procs < procs:
        return "too_few_free"
    return "behind" if look.head_reservation is None else "would_delay"


def _would_delay(
    looks: list[DecisionView], job: ExplainedJob, schedule: FinishedSchedule
) -> ReservationDelay:
    reservations = [
        (look.now_s, look.head_reservation) for look in looks if look.head_reservation is not None
    ]
    late_s, reserved_s = min(
        (now_s + job.estimate_s - each.reserved_s, each.reserved_s) for now_s, each in reservations
    )
    in_time_s = (now_s for now_s, each in reservations if now_s + job.runtime_s <= each.reserved_s)
    return ReservationDelay(
        needed_procs=job.procs,
        heads=schedule.heads((look.ahead[0], look.now_s) for look in looks),
        least_late_s=late_s,
        reserved_s=reserved_s,
        most_extra_procs=max(each.extra_procs for _, each in reservations),
        most_ahead=_most_ahead(looks),
        in_time_by_runtime_s=next(in_time_s, None),
    )


def _most_free(looks: list[DecisionView]) -> int:
    return max(look.free_procs for look in looks)


def _most_ahead(looks: list[DecisionView]) -> int:
    return max(look.n_ahead for look in looks)


def explain_start(scenario: Scenario, job_id: int) -> JobExplanation:
    """Simulate a scenario and explain why a given job started when it did.

    Args:
        scenario: workload, cluster and policies.
        job_id: number of the job in the log.

    Raises:
        EngineError: whole nodes are allocated, whose reservations name machines; or capacity
            changes, jobs are preempted, or users have limits.
        WorkloadError: the workload has no such job.
        UnknownNameError: no such order, backfilling rule or option.
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``.
    """
    from sim.engines.process import run

    order = order_named(scenario.order)
    options = options_of(scenario)
    if order.score_now is not None:
        raise EngineError(
            f"order '{order.name}' ranks the queue anew while jobs wait, which cannot be "
            "explained so far."
        )
    if scenario.allocation != "processors":
        raise EngineError(
            f"allocation is '{scenario.allocation}', and only allocation='processors' can be "
            "explained so far."
        )
    if scenario.cleanup_s > 0:
        raise EngineError(
            f"cleanup_s is {scenario.cleanup_s:g}, and only schedules without cleanup can be "
            "explained so far; leave it out."
        )
    if scenario.windows:
        raise EngineError(
            "the scenario has capacity windows, and only constant capacity can be explained so far."
        )
    if scenario.switches_off:
        raise EngineError(
            "idle nodes are switched off, and only schedules without boots can be explained so "
            "far; leave out off_after_s."
        )
    for part in scenario.cluster.partitions:
        if part.preemptible or part.running_per_user is not None:
            raise EngineError(
                f"partition '{part.name}' is preemptible or limits the jobs of each user, which "
                "cannot be explained so far."
            )
    if scenario.dependencies != "ignore":
        raise EngineError(
            f"dependencies is '{scenario.dependencies}': the start of a job that may be submitted "
            "after another one cannot be explained so far; leave dependencies out."
        )
    if scenario.moldable is not None:
        raise EngineError(
            "jobs are moldable: the start of a job that may take fewer processors cannot be "
            "explained so far; leave moldable out."
        )
    row = _row_of(scenario.workload, job_id)
    admission = admit(scenario)
    if admission.partition[row] == NOWHERE:
        return _rejected(scenario, admission, row)
    submit_s = float(scenario.workload.submit_s[row])
    rule = backfill_named(scenario.backfill)
    is_usual = all(options.of(option) == option.usual for option in rule.options)
    watch = JobObserver(
        row, int(admission.place[row]), submit_s, overtakes=rule.overtakes,
        reserves=rule.reserves_for_head and is_usual,
    )  # fmt: skip
    result = run(scenario, kernel="interpreted", witness=watch)
    return _started(scenario, watch, FinishedSchedule(scenario.workload, admission, result))


def _row_of(workload: Workload, job_id: int) -> int:
    matches = np.flatnonzero(workload.job_id == job_id)
    if len(matches):
        return int(matches[0])
    ids = sorted(workload.job_id.tolist())
    place = bisect_left(ids, job_id)
    near = " and ".join(str(each) for each in ids[max(place - 1, 0) : place + 1])
    raise WorkloadError(
        f"no job {count_text(job_id)} among the {workload.n_jobs:,} jobs of '{workload.name}', "
        f"numbered from {ids[0]} to {ids[-1]}; the nearest: {near}. Jobs that a reading rule "
        "dropped, and jobs after the requested first ones, are not simulated."
    )


def _rejected(scenario: Scenario, admission: Admission, row: int) -> JobExplanation:
    job = _job(scenario, admission, row, None)
    return JobExplanation(
        job=job,
        order=scenario.order,
        backfill=scenario.backfill,
        phases=(),
        start=None,
        expectation=None,
        overtaken_by=NO_JOBS,
        preferred=NO_JOBS,
        refusals=tuple(
            PartitionRefusal(
                partition=each.name,
                widest_procs=scenario.cluster.widest_procs(each),
                max_requested_s=each.max_requested_s,
                too_wide=job.procs > scenario.cluster.widest_procs(each),
                too_long=each.max_requested_s is not None
                and job.requested_s > each.max_requested_s,
            )
            for each in scenario.cluster.partitions
        ),
    )


def _started(scenario: Scenario, watch: JobObserver, schedule: FinishedSchedule) -> JobExplanation:
    result = schedule.result
    job = _job(scenario, schedule.admission, watch.row, result)
    start_s = float(result.start_s[watch.row])
    spans = spans_of(watch.looks)
    expected = (
        StartExpectation(look.now_s, look.head_reservation.reserved_s)
        for look, _ in spans
        if not look.ahead and look.head_reservation is not None
    )
    overtakers = [row for row in watch.overtakers if result.start_s[row] < start_s]
    later = scenario.workload.submit_s > job.submit_s
    preferred = [row for now_s, row in watch.passed if now_s < start_s and later[row]]
    return JobExplanation(
        job=job,
        order=scenario.order,
        backfill=scenario.backfill,
        phases=phases_of(spans, job, watch, schedule),
        start=_start(watch, job, schedule),
        expectation=next(expected, None),
        overtaken_by=schedule.jobs(overtakers, by="procs_h"),
        preferred=schedule.jobs(preferred, by="procs_h"),
        refusals=(),
    )


def _job(
    scenario: Scenario, admission: Admission, row: int, result: SimulationResult | None
) -> ExplainedJob:
    workload = scenario.workload
    submit_s, k = float(workload.submit_s[row]), int(admission.partition[row])
    start_s = None if result is None else float(result.start_s[row])
    return ExplainedJob(
        job_id=int(workload.job_id[row]),
        procs=int(admission.procs[row]),
        logged_procs=int(workload.procs[row]),
        partition=None if k == NOWHERE else scenario.cluster.names[k],
        submit_s=submit_s,
        requested_s=float(admission.requested_s[row]),
        estimate_s=float(admission.estimate_s[row]),
        runtime_s=float(admission.runtime_s[row]),
        start_s=start_s,
        wait_s=None if start_s is None else start_s - submit_s,
        end_s=None if result is None else float(result.end_s[row]),
        state=_state(admission, row),
    )


def _state(admission: Admission, row: int) -> Literal["completed", "killed", "rejected"]:
    if admission.partition[row] == NOWHERE:
        return "rejected"
    return "killed" if admission.killed[row] else "completed"


def _start(watch: JobObserver, job: ExplainedJob, schedule: FinishedSchedule) -> JobStart:
    look = watch.looks[-1]
    how: Literal["at_once", "in_turn", "backfilled"]
    how = "backfilled" if look.ahead else "in_turn" if job.wait_s else "at_once"
    ended, arrived = [], []
    if job.wait_s:
        mine = watch.rank[watch.row]
        ended = schedule.ended_at(watch.partition, look.now_s, watch.earlier)
        here = schedule.arrived_at(watch.partition, look.now_s)
        arrived = [row for row in here if watch.rank[row] < mine]
    return JobStart(
        how=how,
        free_procs=look.free_procs,
        ended=schedule.jobs(ended, by="procs"),
        arrived=tuple(schedule.waited(row, look.now_s) for row in arrived),
        overtaking=_overtaking(look, job, schedule) if look.ahead else None,
    )


def _overtaking(
    look: DecisionView, job: ExplainedJob, schedule: FinishedSchedule
) -> BackfilledStart:
    waiting = tuple(schedule.waited(row, look.now_s) for row in look.ahead)
    estimated_end_s = look.now_s + job.estimate_s
    if look.head_reservation is None:
        return BackfilledStart(waiting, estimated_end_s, reservation=None, let_in_by=None)
    head = waiting[0]
    return BackfilledStart(
        waiting,
        estimated_end_s,
        Reservation(head.job_id, head.procs, *look.head_reservation),
        "ends_before_reservation"
        if estimated_end_s <= look.head_reservation.reserved_s
        else "fits_extra_processors",
    )
