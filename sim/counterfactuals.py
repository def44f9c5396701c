"""When a job would have started if one thing had been different: each answer is a simulation.

The start with a change is that of a simulation of the whole workload with this change, so that
all other jobs react to it. Any scenario of rigid jobs can be examined, also those whose decisions
`sim.explain` does not follow: windows, preemption, limits by user, whole and shared nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sim.model.columns import read_only_copy
from sim.model.errors import ScenarioError, WorkloadError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.simulation import simulate

ChangeKind = Literal[
    "own_request", "half_width", "all_requests", "no_windows", "no_user_limits", "one_tier",
    "counted_processors",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangedStart:
    """Start of a job if one thing had been different.

    Attributes:
        kind: what was changed.
        change: the same as the end of a sentence that begins with "if".
        start_s: its start; None if it is rejected then.
        earlier_s: seconds by which it starts earlier; negative if later, None if unknown.
    """

    kind: ChangeKind
    change: str
    start_s: float | None
    earlier_s: float | None


@dataclass(frozen=True, slots=True)
class ChangedStarts:
    """Start of a job as simulated, and with each change that is possible for it.

    Attributes:
        start_s: its last start; None for a rejected job.
        changes: those that are possible, whether they help or not.
    """

    job_id: int
    submit_s: float
    start_s: float | None
    changes: tuple[ChangedStart, ...]


def changed_starts(scenario: Scenario, job_id: int) -> ChangedStarts:
    """Simulate a scenario as it is and with each possible change, and return a job's starts.

    Args:
        scenario: workload of rigid jobs, cluster and policies.
        job_id: number of the job in the log.

    Raises:
        WorkloadError: the workload has no such job.
        ScenarioError: instances of tasks are placed.
        SimError: the simulator refuses the scenario.
    """
    if scenario.allocation == "instances":
        raise ScenarioError("changes of a start are known for rigid jobs; leave out the tasks.")
    if scenario.dependencies != "ignore":
        raise ScenarioError(
            "changes of a start are known for jobs that are submitted as logged; leave out the "
            "dependencies."
        )
    rows = np.flatnonzero(scenario.workload.job_id == job_id)
    if not len(rows):
        raise WorkloadError(f"no job {job_id} among the jobs of '{scenario.workload.name}'.")
    row = int(rows[0])
    start_s = _start(simulate(scenario), row)
    changes = []
    for kind, change, changed in _changes(scenario, row):
        then_s = _start(simulate(changed), row)
        known = start_s is not None and then_s is not None
        changes.append(ChangedStart(kind, change, then_s, start_s - then_s if known else None))  # type: ignore[operator]
    return ChangedStarts(job_id, float(scenario.workload.submit_s[row]), start_s, tuple(changes))


def _start(result: SimulationResult, row: int) -> float | None:
    start_s = float(result.start_s[row])
    return None if np.isnan(start_s) else start_s


def _changes(scenario: Scenario, row: int) -> Iterator[tuple[ChangeKind, str, Scenario]]:
    jobs, cluster = scenario.workload, scenario.cluster
    exact = np.minimum(jobs.requested_s, jobs.runtime_s)
    alone = np.arange(jobs.n_jobs) == row
    if exact[row] < jobs.requested_s[row]:
        requested = read_only_copy(np.where(alone, exact, jobs.requested_s))
        changed = replace(jobs, requested_s=requested)
        yield "own_request", "it had requested its run time", replace(scenario, workload=changed)
    if jobs.procs[row] > 1:
        longer = np.where(alone, jobs.procs / (jobs.procs // 2).clip(1), 1.0)
        changed = replace(
            jobs,
            procs=read_only_copy(np.where(alone, jobs.procs // 2, jobs.procs)),
            runtime_s=read_only_copy(jobs.runtime_s * longer),
            requested_s=read_only_copy(jobs.requested_s * longer),
        )
        text = "it had run on half the processors, for the same work"
        yield "half_width", text, replace(scenario, workload=changed)
    if (exact < jobs.requested_s).any():
        changed = replace(jobs, requested_s=read_only_copy(exact))
        text = "every job had requested its run time"
        yield "all_requests", text, replace(scenario, workload=changed)
    if scenario.windows:
        yield "no_windows", "no processors had been away", replace(scenario, windows=())
    if any(part.running_per_user is not None for part in cluster.partitions):
        parts = tuple(replace(part, running_per_user=None) for part in cluster.partitions)
        free = replace(scenario, cluster=replace(cluster, partitions=parts))
        yield "no_user_limits", "users had no limits of running jobs", free
    if len({part.tier for part in cluster.partitions}) > 1:
        parts = tuple(replace(part, tier=0, preemptible=False) for part in cluster.partitions)
        flat = replace(scenario, cluster=replace(cluster, partitions=parts))
        yield "one_tier", "all queues had the same tier, without preemption", flat
    if scenario.allocation != "processors":
        counted = replace(scenario, allocation="processors")
        yield "counted_processors", "jobs took single processors of any nodes", counted
