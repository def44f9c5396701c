"""The explanation of a job's start as values: plain numbers and texts that become JSON.

Times are seconds since the first submission of the workload. In the reasons to wait, `needed_procs`
is the processors of the job, `most_free_procs` the maximum of free processors, `most_ahead` the
maximum of jobs of better rank that waited with it, `ended` the jobs that ran at the begin of the
phase and ended in it or at its end, and `taken_by` the jobs of better rank that started after its
begin, up to its end.
"""

from dataclasses import dataclass, field
from typing import Literal

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
