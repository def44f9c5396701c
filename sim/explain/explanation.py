"""Why a job started when it did, as values. Plain numbers and texts, so that they become JSON.

Times are seconds since the first submission of the workload, as everywhere.
"""

from dataclasses import dataclass, field
from typing import Literal

MAX_LISTED_JOBS = 5
"""Of many other jobs so many are named, and the rest is counted."""


@dataclass(frozen=True)
class ExplainedJob:
    """The job that is explained, as the scheduler got it.

    Attributes:
        job_id: as in the log.
        procs: processors, after clipping.
        logged_procs: processors in the log; more than `procs` if the job was clipped.
        partition: name of the partition it was routed to; None if it fits nowhere.
        submit_s: when it was submitted.
        requested_s: its request, after clipping.
        estimate_s: seconds that the scheduler reckoned with.
        runtime_s: seconds that it ran, after clipping and killing; would have run if rejected.
        start_s: when it started; None for a rejected job, as the next two.
        wait_s: from submission to start.
        end_s: when it ended.
        state: how it ended.
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
    """Another job of the same partition that ran.

    Attributes:
        job_id: as in the log.
        procs: processors.
        start_s: when it started.
        end_s: when it ended.
        estimated_end_s: when it would have ended by its estimate; never before `end_s`.
    """

    job_id: int
    procs: int
    start_s: float
    end_s: float
    estimated_end_s: float


@dataclass(frozen=True)
class OtherJobs:
    """Other jobs: the most important ones by name, all of them in number.

    Attributes:
        n: how many they are.
        procs: their processors together.
        procs_h: processor-hours that they ran.
        named: those with the most processor-hours (where they overtook or went ahead) or
            processors (where they gave processors back or took them), `MAX_LISTED_JOBS` at most.
    """

    n: int
    procs: int
    procs_h: float
    named: tuple[RunJob, ...]


@dataclass(frozen=True)
class WaitingJob:
    """Another job that waited at a certain moment.

    Attributes:
        job_id: as in the log.
        procs: processors.
        waited_s: how long it had waited by then.
        start_s: when it started in the end.
    """

    job_id: int
    procs: int
    waited_s: float
    start_s: float


@dataclass(frozen=True)
class QueueHeads:
    """The jobs that stood at the head of the queue, in that order.

    Attributes:
        n: how many they were.
        named: the first `MAX_LISTED_JOBS` of them; how long each had waited when it was first seen.
    """

    n: int
    named: tuple[WaitingJob, ...]


@dataclass(frozen=True)
class TooFewProcessors:
    """Fewer processors were free than it needs, when its turn to be looked at came.

    Attributes:
        needed_procs: what it needs.
        most_free_procs: the most that were free.
        most_ahead: the most jobs of better rank that waited with it.
        ended: jobs that ran when this phase began, and ended in it, or as it ended.
        taken_by: jobs of better rank that started after it began, and no later than it ended.
    """

    kind: Literal["too_few_free"] = field(default="too_few_free", init=False)
    needed_procs: int
    most_free_procs: int
    most_ahead: int
    ended: OtherJobs
    taken_by: OtherJobs


@dataclass(frozen=True)
class BlockedByHead:
    """The backfilling rule let it not overtake jobs of better rank, the head of which was blocked.

    Attributes:
        heads: these heads.
        most_free_procs: the most processors that were free.
        most_ahead: the most jobs of better rank that waited with it.
        ended: jobs that ran when this phase began, and ended in it, or as it ended.
        taken_by: jobs of better rank that started after it began, and no later than it ended.
    """

    kind: Literal["behind"] = field(default="behind", init=False)
    heads: QueueHeads
    most_free_procs: int
    most_ahead: int
    ended: OtherJobs
    taken_by: OtherJobs


@dataclass(frozen=True)
class ReservationDelay:
    """Enough processors were free, but it would have delayed the head's reservation. EASY only.

    By its estimate it would have ended after the reservation begins, and it needs more processors
    than are left over then.

    Attributes:
        needed_procs: what it needs.
        heads: the jobs whose reservation it was.
        least_late_s: seconds from the reservation to its own estimated end, when they were
            fewest. More than 0.
        reserved_s: the reservation at that moment.
        most_extra_procs: the most processors that the reservation left over. Fewer than needed.
        most_ahead: the most jobs of better rank that waited with it.
        in_time_by_runtime_s: the first moment of this phase at which it would have ended in time
            had the scheduler known its run time; None if it never would.
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
    """It was the head of the queue, and waited for running jobs to end.

    Attributes:
        needed_procs: what it needs.
        most_free_procs: the most that were free before it went on. Fewer than needed.
        ended: jobs that ran when this phase began, and ended in it, or as it ended.
    """

    kind: Literal["is_head"] = field(default="is_head", init=False)
    needed_procs: int
    most_free_procs: int
    ended: OtherJobs


Reason = TooFewProcessors | BlockedByHead | ReservationDelay | HeadOfQueue


@dataclass(frozen=True)
class WaitPhase:
    """A part of the wait that has one reason. Each begins where the one before it ends.

    Attributes:
        from_s: the first begins at the submission.
        to_s: the last ends at the start.
        seconds: how long it lasted, more than 0.
        reason: why the job did not start.
    """

    from_s: float
    to_s: float
    seconds: float
    reason: Reason


@dataclass(frozen=True)
class Reservation:
    """What EASY kept for the head of the queue at the decision that let the job overtake it.

    Attributes:
        job_id: the head.
        procs: its processors.
        reserved_s: when, by the estimates, enough running jobs will have ended.
        extra_procs: processors left over then, when the job's turn to be looked at came.
    """

    job_id: int
    procs: int
    reserved_s: float
    extra_procs: int


@dataclass(frozen=True)
class BackfilledStart:
    """Ahead of whom a backfilled job started.

    Attributes:
        waiting: every job of better rank that still waited after the decision, best rank first.
        estimated_end_s: when the job will have ended by its estimate.
        reservation: what it must not delay; None unless the rule is EASY, as the next.
        let_in_by: the condition that let it in: it ends by its estimate no later than the
            reservation, or needs no more processors than that leaves over.
    """

    waiting: tuple[WaitingJob, ...]
    estimated_end_s: float
    reservation: Reservation | None
    let_in_by: Literal["ends_before_reservation", "fits_extra_processors"] | None


@dataclass(frozen=True)
class JobStart:
    """How the job started.

    Attributes:
        how: ``at_once`` when it was submitted, with nobody waiting before it; ``in_turn``, all of
            better rank having started; ``backfilled``, ahead of some of them.
        free_procs: processors that were free for it, after those for better ranks were taken.
        ended: whose ends brought that decision about; nobody if it started when submitted.
        arrived: jobs of better rank that arrived at this very time; they can bring it about by
            becoming the head, with a later reservation. Nobody if it started when submitted.
        overtaking: ahead of whom, if it was backfilled.
    """

    how: Literal["at_once", "in_turn", "backfilled"]
    free_procs: int
    ended: OtherJobs
    arrived: tuple[WaitingJob, ...]
    overtaking: BackfilledStart | None


@dataclass(frozen=True)
class StartExpectation:
    """When the job was to start by the estimates of the running jobs, once it was the head.

    Attributes:
        seen_s: when it first was the head.
        expected_s: the start that was to be expected then; under EASY, its reservation.
    """

    seen_s: float
    expected_s: float


@dataclass(frozen=True)
class PartitionRefusal:
    """Why a partition does not admit a job.

    Attributes:
        partition: its name.
        widest_procs: processors of the widest job that it admits.
        max_requested_s: the longest request that it admits; None is no limit.
        too_wide: the job needs more processors.
        too_long: the job requests more time.
    """

    partition: str
    widest_procs: int
    max_requested_s: float | None
    too_wide: bool
    too_long: bool


@dataclass(frozen=True)
class JobExplanation:
    """Why a job started when it did.

    Attributes:
        job: which job.
        order: name of the queue order, which makes the ranks.
        backfill: name of the backfilling rule.
        phases: what it waited for; together they are the wait.
        start: how it started; None for a rejected job.
        expectation: None if it never waited as the head.
        overtaken_by: jobs of worse rank that started while it waited.
        preferred: jobs submitted later that started while it waited, since the order gives them
            a better rank.
        refusals: for a rejected job, why each partition did not admit it.
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
