"""Why a job started when it did: what it waited for, whom it overtook, who overtook it.

The scenario is simulated by the engine `process` with a witness that looks at the job's partition
at every decision from its submission to its start. Every engine gives the same schedule, so the
explanation is true of all of them.
"""

from bisect import bisect_left
from typing import Literal

import numpy as np

from sim.engine.explain.phases import phases_of, spans_of
from sim.engine.explain.schedule import NONE, Schedule
from sim.engine.explain.values import (
    Behind,
    Expectation,
    ExplainedJob,
    Explanation,
    Heads,
    IsHead,
    Jobs,
    Overtaking,
    Phase,
    Reason,
    Refusal,
    Reservation,
    RunJob,
    Start,
    TooFewFree,
    WaitingJob,
    WouldDelay,
)
from sim.engine.explain.watching import Look, Watch
from sim.errors import EngineError, WorkloadError
from sim.model.admission import NOWHERE, Admission, admit
from sim.model.columns import shown_count
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.workload import Workload
from sim.policies.backfill import backfill_named
from sim.policies.order import order_named
from sim.policies.told import options_of

__all__ = [
    "Behind",
    "Expectation",
    "ExplainedJob",
    "Explanation",
    "Heads",
    "IsHead",
    "Jobs",
    "Overtaking",
    "Phase",
    "Reason",
    "Refusal",
    "Reservation",
    "RunJob",
    "Start",
    "TooFewFree",
    "WaitingJob",
    "WouldDelay",
    "explain",
]


def explain(scenario: Scenario, job_id: int) -> Explanation:
    """Simulate a scenario and tell why one of its jobs started when it did.

    Args:
        scenario: workload, cluster and policies.
        job_id: number of the job in the log.

    Raises:
        EngineError: whole nodes are allocated, for which reservations name machines; or capacity
            changes, jobs are preempted, or users have limits.
        WorkloadError: the workload has no such job.
        UnknownNameError: no such order, backfilling rule or option.
        ScenarioError: a job fits nowhere and the scenario does not say what to do with it.
    """
    from sim.engine.process import run

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
    watch = Watch(row, int(admission.place[row]), submit_s, rule)
    result = run(scenario, kernel="interpreted", witness=watch)
    return _started(scenario, watch, Schedule(scenario.workload, admission, result))


def _row_of(workload: Workload, job_id: int) -> int:
    found = np.flatnonzero(workload.job_id == job_id)
    if len(found):
        return int(found[0])
    ids = sorted(workload.job_id.tolist())
    place = bisect_left(ids, job_id)
    near = " and ".join(str(each) for each in ids[max(place - 1, 0) : place + 1])
    raise WorkloadError(
        f"no job {shown_count(job_id)} among the {workload.n_jobs:,} jobs of '{workload.name}', "
        f"numbered from {ids[0]} to {ids[-1]}; the nearest: {near}. A job that a reading rule "
        "dropped, or that comes after the first ones asked for, is not simulated."
    )


def _rejected(scenario: Scenario, admission: Admission, row: int) -> Explanation:
    job = _job(scenario, admission, row, None)
    return Explanation(
        job=job,
        order=scenario.order,
        backfill=scenario.backfill,
        phases=(),
        start=None,
        expectation=None,
        overtaken_by=NONE,
        preferred=NONE,
        refusals=tuple(
            Refusal(
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


def _started(scenario: Scenario, watch: Watch, schedule: Schedule) -> Explanation:
    result = schedule.result
    job = _job(scenario, schedule.admission, watch.row, result)
    start_s = float(result.start_s[watch.row])
    spans = spans_of(watch.looks)
    expected = (
        Expectation(look.now_s, look.held.reserved_s)
        for look, _ in spans
        if not look.ahead and look.held is not None
    )
    overtakers = [row for row in watch.overtakers if result.start_s[row] < start_s]
    later = scenario.workload.submit_s > job.submit_s
    preferred = [row for now_s, row in watch.passed if now_s < start_s and later[row]]
    return Explanation(
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


def _start(watch: Watch, job: ExplainedJob, schedule: Schedule) -> Start:
    look = watch.looks[-1]
    how: Literal["at_once", "in_turn", "backfilled"]
    how = "backfilled" if look.ahead else "in_turn" if job.wait_s else "at_once"
    ended, arrived = [], []
    if job.wait_s:
        mine = watch.rank[watch.row]
        ended = schedule.ended_at(watch.partition, look.now_s, watch.earlier)
        here = schedule.arrived_at(watch.partition, look.now_s)
        arrived = [row for row in here if watch.rank[row] < mine]
    return Start(
        how=how,
        free_procs=look.free_procs,
        ended=schedule.jobs(ended, by="procs"),
        arrived=tuple(schedule.waited(row, look.now_s) for row in arrived),
        overtaking=_overtaking(look, job, schedule) if look.ahead else None,
    )


def _overtaking(look: Look, job: ExplainedJob, schedule: Schedule) -> Overtaking:
    waiting = tuple(schedule.waited(row, look.now_s) for row in look.ahead)
    estimated_end_s = look.now_s + job.estimate_s
    if look.held is None:
        return Overtaking(waiting, estimated_end_s, reservation=None, let_in_by=None)
    head = waiting[0]
    return Overtaking(
        waiting,
        estimated_end_s,
        Reservation(head.job_id, head.procs, *look.held),
        "ends_before_reservation"
        if estimated_end_s <= look.held.reserved_s
        else "fits_extra_processors",
    )
