"""The explanation of a job's start: its reasons to wait, and the jobs before and after it.

The engine `process` simulates the scenario with an observer of the job's partition at every
decision from its submission to its start. All engines give the same schedule, so the explanation
holds for all. This package imports the kernel, the policies and the model.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Literal

import numpy as np

from sim.explain.explanation import (
    BackfilledStart,
    ExplainedJob,
    JobExplanation,
    JobStart,
    PartitionRefusal,
    Reservation,
    StartExpectation,
)
from sim.explain.schedule import (
    NO_JOBS,
    DecisionView,
    FinishedSchedule,
    JobObserver,
    phases_of,
    spans_of,
)
from sim.model.admission import NOWHERE, Admission, admit
from sim.model.columns import count_text
from sim.model.errors import EngineError, WorkloadError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.workload import Workload
from sim.policies.backfills import backfill_named
from sim.policies.orders import order_named
from sim.policies.policy_options import options_of


def explain(
    scenario: Scenario, job_id: int, simulate: Callable[[Scenario, JobObserver], SimulationResult]
) -> JobExplanation:
    """Simulate a scenario and explain why one of its jobs started when it did.

    Args:
        scenario: workload, cluster and policies.
        job_id: number of the job in the log.
        simulate: function that runs the scenario with an observer of its decisions.

    Raises:
        EngineError: whole nodes are allocated, whose reservations name machines; or capacity
            changes, jobs are preempted, or users have limits.
        WorkloadError: the workload has no such job.
        UnknownNameError: no such order, backfilling rule or option.
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``.
    """
    order = order_named(scenario.order)
    options = options_of(scenario)
    if order.score_now is not None:
        raise EngineError(
            f"order '{order.name}' ranks the queue anew while jobs wait, and only orders that do "
            "not can be explained so far; simulate without an explanation."
        )
    if scenario.allocation != "processors":
        raise EngineError(
            f"allocation is '{scenario.allocation}', and only allocation='processors' can be "
            "explained so far; simulate without an explanation."
        )
    if scenario.cleanup_s > 0:
        raise EngineError(
            f"cleanup_s is {scenario.cleanup_s:g}, and only schedules without cleanup can be "
            "explained so far; leave it out, or simulate without an explanation."
        )
    if scenario.windows:
        raise EngineError(
            "the scenario has capacity windows, and only constant capacity can be explained so "
            "far; simulate without an explanation."
        )
    for part in scenario.cluster.partitions:
        if part.preemptible or part.running_per_user is not None:
            raise EngineError(
                f"partition '{part.name}' is preemptible or limits what each user runs, which "
                "cannot be explained so far; simulate without an explanation."
            )
    row = _row_of(scenario.workload, job_id)
    admission = admit(scenario)
    if admission.partition[row] == NOWHERE:
        return _rejected(scenario, admission, row)
    submit_s = float(scenario.workload.submit_s[row])
    rule = scenario.backfill
    if any(options.of(option) != option.usual for option in backfill_named(rule).options):
        rule = f"{rule} as told"  # of which only is known what holds for every rule
    watch = JobObserver(row, int(admission.place[row]), submit_s, rule)
    result = simulate(scenario, watch)
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
        f"numbered from {ids[0]} to {ids[-1]}; the nearest: {near}. A job that a reading rule "
        "dropped, or that comes after the first ones asked for, is not simulated."
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
        phases=phases_of(spans, job, watch.backfill, watch, schedule),
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
